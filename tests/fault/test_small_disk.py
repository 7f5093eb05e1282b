"""A disk that fills up while a sidecar works, and has room again: refused clearly, nothing lost, and no restart."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.helpers.bodies import FORMATS, history, words
from tests.helpers.client import FORMAT_NUMBERS, Failure, Sidecar, tight
from tests.helpers.server import Server
from trimtab.v1 import common_pb2, context_pb2

DISK_BYTES = 32 << 20
LIMITS = tight(40_000, 20_000, compact_target_bytes=10_000, compact_min_saving_bytes=1, keep_unit_count=2)


def _run(*command: str | Path) -> bool:
    return subprocess.run([str(word) for word in command], capture_output=True, timeout=60, check=False).returncode == 0


@pytest.fixture(params=["ext4", "tmpfs"])
def disk(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A file system of 32 MiB, mounted."""
    with tempfile.TemporaryDirectory(prefix="ttd") as folder:
        place, image = Path(folder, "disk"), Path(folder, "image")
        place.mkdir()
        if request.param == "ext4":
            image.touch()
            with image.open("r+b") as file:
                file.truncate(DISK_BYTES)
            mounted = _run("mkfs.ext4", "-q", "-F", "-m", "0", image) and _run("mount", "-o", "loop", image, place)
        else:
            mounted = _run("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", place)
        if not mounted:
            pytest.skip(f"no {request.param} can be mounted here: that takes root")
        try:
            yield place
        finally:
            assert _run("umount", "-l", place)


def _fill(place: Path) -> Path:
    """Take all the room there is."""
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        for size in (1 << 20, 1 << 12):
            with suppress(OSError):
                while True:
                    file.write(b"\xff" * size)
    return ballast


def _failure(ask: Callable[[], Any]) -> Failure:
    try:
        answer = ask()
    except grpc.RpcError as error:
        return Failure.of(error)
    raise AssertionError(f"no error, but {answer}")


@pytest.mark.parametrize("format_name", FORMATS)
def test_disk_that_fills_up_and_has_room_again_loses_nothing(disk: Path, format_name: str) -> None:
    server = Server()
    server.data_dir = disk / "data"
    try:
        server.start()
        assert server.channel is not None
        sidecar, name, ref = Sidecar(server.channel), "s", common_pb2.SessionRef(session_id="s")
        run = history(format_name).user("go").steps(30, 3_000)

        def fit(body: bytes, **fields: Any) -> context_pb2.FitResponse:
            return sidecar.fit(name, body, format=format_name, limits=LIMITS, **fields)

        def record(mark: str) -> context_pb2.RecordResponse:
            call = common_pb2.CallRef(item_index=1, call_index=0)
            receipt = common_pb2.Receipt(
                call=call, state=common_pb2.EFFECT_STATE_SETTLED, idempotency_key=mark, detail="d" * 3000
            )
            request = context_pb2.RecordRequest(
                session=ref, request_id=mark, format=FORMAT_NUMBERS[format_name], receipts=[receipt]
            )
            return sidecar.context.Record(request, timeout=60)

        def compact(mark: str, body: bytes) -> context_pb2.CompactResponse:
            request = context_pb2.CompactRequest(
                session=ref, request_id=mark, body=body, boundary="b", ignore_pressure=True, limits=LIMITS
            )
            return sidecar.context.Compact(request, timeout=60)

        def recover() -> context_pb2.RecoverResponse:
            return sidecar.context.Recover(context_pb2.RecoverRequest(session=ref, include_body=True), timeout=60)

        def whole(response: context_pb2.FitResponse) -> None:
            for reduction in response.reductions:
                assert not reduction.artifact_id or sidecar.read(name, reduction.artifact_id)

        first = fit(run.body(), anchors=common_pb2.Anchors(goal="goal"))
        assert first.outcome == context_pb2.FIT_OUTCOME_FITTED
        record("one")
        done = compact("c-one", run.body())
        assert done.outcome == context_pb2.COMPACT_OUTCOME_COMMITTED
        sent = fit(run.body())
        known = recover()

        ballast = _fill(disk)
        # Pages that are free inside the store's own file still take something: until they are gone, writes are taken, and kept.
        taken: dict[str, bytes] = {}
        for index in range(400):
            filler = history(format_name).user(words(20_000, f"filler {index}")).body()
            answer = _answer(sidecar, f"filler-{index}", filler, format_name)
            if isinstance(answer, Failure):
                assert (answer.code, answer.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "STORE_FULL")
                break
            taken[f"filler-{index}"] = filler
        else:
            raise AssertionError("the disk is never full")

        needy = run.copy().step(words(60_000, "needs a record"))
        for ask in (
            lambda: fit(needy.body()),
            lambda: record("two"),
            lambda: compact("c-two", run.copy().steps(9, 3_000).body()),
        ):
            refused = _failure(ask)
            assert (refused.code, refused.reason, refused.trailer) == (
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                "STORE_FULL",
                "STORE_FULL",
            )
        again = fit(run.body())
        assert again.body == sent.body
        whole(again)
        full = recover()
        assert (full.revision, full.body, full.receipts, full.anchors) == (
            known.revision,
            known.body,
            known.receipts,
            known.anchors,
        )
        grown = fit(run.copy().user("more").body())  # needs no record: it may be sent
        assert grown.outcome in (context_pb2.FIT_OUTCOME_FITTED, context_pb2.FIT_OUTCOME_OVER)
        whole(grown)

        ballast.unlink()
        assert server.is_alive()
        assert record("two").revision > known.revision
        assert fit(needy.body()).artifacts
        assert compact("c-two", needy.copy().steps(9, 3_000).body()).outcome == context_pb2.COMPACT_OUTCOME_COMMITTED
        last = recover()
        assert [each.checkpoint_id for each in last.checkpoints][0] == done.checkpoint.checkpoint_id
        assert last.receipts[0].idempotency_key == "two"
        server.restart()
        assert server.channel is not None
        sidecar = Sidecar(server.channel)
        assert recover() == last
        for filler_name, filler in taken.items():
            assert sidecar.items(filler_name)[0] in filler
        server.stop()
        command = [*server.program, "check", "--data-dir", str(server.data_dir)]
        checked = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert (checked.returncode, [line for line in checked.stdout.splitlines() if line.startswith("error")]) == (0, [])
    finally:
        server.remove()


def _answer(sidecar: Sidecar, name: str, body: bytes, format_name: str) -> context_pb2.FitResponse | Failure:
    """A Fit that brings an anchor, and so must be kept: its answer, or its error."""
    try:
        return sidecar.fit(name, body, format=format_name, limits=LIMITS, anchors=common_pb2.Anchors(goal="g"))
    except grpc.RpcError as error:
        return Failure.of(error)
