"""Run the demo: `make demo`, or `python -m sidecar.demo`. Exit code 0 says that everything shown was also proven."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random

import grpc

import trimtab
from sidecar.demo.compaction import show_compaction
from sidecar.demo.process import SidecarFailedError, running_sidecar
from sidecar.demo.proof import find_lost, prove_artifacts, read_whole
from sidecar.demo.run import AgentRun
from sidecar.demo.screen import Screen
from sidecar.demo.session import MIN_BYTES, MIN_CALLS, SEED, build_session
from sidecar.replay.table import format_bytes
from trimtab.v1 import common_pb2

_SESSION_ID = "demo"


def main(arguments: Sequence[str] | None = None) -> int:
    """Play, show, prove."""
    parser = argparse.ArgumentParser(
        prog="python -m sidecar.demo", description="A long session through a real sidecar, step by step."
    )
    parser.add_argument("--format", default="anthropic-messages", help="anthropic-messages or openai-chat")
    parser.add_argument("--seed", type=int, default=SEED, help="another seed, another session")
    parser.add_argument("--min-calls", type=int, default=MIN_CALLS, help="tool calls in the session, at least")
    parser.add_argument("--min-bytes", type=int, default=MIN_BYTES, help="size of the session, at least")
    parser.add_argument(
        "--keep", type=Path, default=None, metavar="DIR", help="keep the store there, to look at with `trimtab sessions`"
    )
    given = parser.parse_args(arguments)
    try:
        session = build_session(given.seed, min_calls=given.min_calls, min_bytes=given.min_bytes, format=given.format)
    except ValueError as error:
        parser.error(str(error))
    screen = Screen(session, given.seed)
    with _folders(given.keep) as (scratch, data_dir):
        address = f"unix:{scratch}/trimtab.sock"
        log = scratch / "serve.log"
        rng = Random(given.seed)
        screen.begin(address)
        try:
            with running_sidecar(address, data_dir, log), _connect(address, session.format) as client:
                run = AgentRun(client, _SESSION_ID, session, rng)
                run.live(partial(screen.step, run))
            screen.result(run)
            screen.say()
            screen.say("The sidecar was stopped; it is started again, on the same store, and asked for everything:")
            with running_sidecar(address, data_dir, log), _connect(address, session.format) as client:
                proven = _prove(screen, run, client, rng)
                screen.say()
                proven = show_compaction(screen, run, client, _SESSION_ID, session.format) and proven
        except SidecarFailedError as error:
            screen.say(f"FAILED  {error}")
            return 1
    screen.say()
    screen.say("All of it holds." if proven else "Something does not hold; see above.")
    return 0 if proven else 1


def _prove(screen: Screen, run: AgentRun, client: trimtab.Trimtab, rng: Random) -> bool:
    """Everything that the demo claims, checked against what the agent itself holds."""
    session = common_pb2.SessionRef(session_id=_SESSION_ID)
    sent = run.sent_body
    proof = prove_artifacts(client.artifacts, session, run.originals, rng)
    claims = [
        ("the same history gives the same body, byte for byte", [] if run.fit(client) == sent else ["the bodies differ"]),
        (
            f"{proof.place_count} artifacts, {format_bytes(proof.size_bytes)}: byte-equal to what the agent had, whole and in "
            f"{proof.range_count} ranges",
            proof.faults or ([] if proof.place_count else ["there is no artifact"]),
        ),
        (
            "whatever differs between the agent's history and the last body names an artifact that is the original",
            find_lost(run.raw_body, sent, _reader(client, session)),
        ),
        (f"{run.read_back_count} times the model read something back and saw exactly those bytes", run.faults),
    ]
    held = [screen.claim(text, faults) for text, faults in claims]  # all are shown, also when one before fails
    return all(held)


def _reader(client: trimtab.Trimtab, session: common_pb2.SessionRef) -> Callable[[str], bytes]:
    def read(artifact_id: str) -> bytes:
        try:
            return read_whole(client.artifacts, session, artifact_id)
        except grpc.RpcError as error:
            raise KeyError(artifact_id) from error

    return read


def _connect(address: str, format: str) -> trimtab.Trimtab:
    return trimtab.connect(address, format=format, read_back="inject", timeout=30)


@contextmanager
def _folders(keep: Path | None) -> Iterator[tuple[Path, Path]]:
    """A scratch folder, short enough for a socket's path; and the store's, in it unless it is to be kept."""
    with tempfile.TemporaryDirectory(prefix="trimtab-") as scratch:
        yield Path(scratch), keep or Path(scratch) / "store"


if __name__ == "__main__":
    sys.exit(main())
