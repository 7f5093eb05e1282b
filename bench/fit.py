"""Fit's latency over a Unix socket, beside an echo of the same bytes in the same run.

Each measured Fit stands next to one echo that takes the same request and answers as many bytes, so that whatever else the
machine does hits both. Client and servers are three processes; requests are serialized beforehand and answers are not read while
the clock runs.

Cases:
    unchanged: under the limit; the body grows by one small model call each time, as a real run does.
    unchanged, same: the same body again.
    fitted: over the limit, with records that apply; the body grows and nothing new is cut.
    fitted, same: the same body again.
    first: a session's first body, under the limit: nothing of it is known.
    first cut: the call that cuts for the first time, on a body known up to its last step; waits for the disk.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from bench.bodies import grow_bodies
from bench.echo_server import BACK, SET_BACK, SINK
from bench.facts import measure_fdatasync_us, percentiles
from sidecar.replay.table import format_bytes, format_table
from trimtab.v1 import common_pb2, context_pb2

__all__ = ["SIZES", "fit_table", "measure_fit"]

SIZES = (32 << 10, 256 << 10, 1 << 20)
_FIT = "/trimtab.v1.ContextService/Fit"
_OPTIONS = [
    ("grpc.max_receive_message_length", 65 << 20),
    ("grpc.max_send_message_length", 65 << 20),
    ("grpc.http2.lookahead_bytes", 8 << 20),
    ("grpc.http2.bdp_probe", 0),
]
_BODIES = 10  # in one session; the first makes it known
_LARGE = 1 << 40  # a limit that nothing reaches

Call = Callable[[bytes], bytes]


def measure_fit(
    sizes: Sequence[int] = SIZES, rounds: int = 30, pace_ms: float = 0.0, folder: Path | None = None
) -> dict[str, Any]:
    """Measure all cases at each size.

    Args:
        sizes: of the bodies, in bytes.
        rounds: sessions a case and size; each gives some ten times.
        pace_ms: rest before each call; agents do not call back to back, and a core that slept answers later.
        folder: for the store and the sockets; a scratch folder when not given.
    """
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        place = Path(scratch)
        disk = measure_fdatasync_us(place)
        echo_address, fit_address = f"unix:{place}/echo.sock", f"unix:{place}/fit.sock"
        serve = ["-m", "sidecar.cli.main", "serve", "--listen", fit_address, "--data-dir", f"{place}/store"]
        with (
            _process(["-m", "bench.echo_server", echo_address], place),
            _process(serve, place),
            _channel(echo_address) as echo_channel,
            _channel(fit_address) as fit_channel,
        ):
            runner = _Runner(echo_channel, fit_channel, pace_ms)
            rows = [row for size in sizes for row in runner.run(size, rounds)]
    return {"fdatasync_us": disk, "rounds": rounds, "pace_ms": pace_ms, "rows": rows}


class _Runner:
    def __init__(self, echo: grpc.Channel, fit: grpc.Channel, pace_ms: float) -> None:
        self._sink, self._back, self._set_back = (_raw(echo, method) for method in (SINK, BACK, SET_BACK))
        self._fit = _raw(fit, _FIT)
        self._pace_s = pace_ms / 1000
        self._session_count = 0

    def run(self, size: int, rounds: int) -> Iterator[dict[str, Any]]:
        bodies = grow_bodies(size, _BODIES)
        times: dict[str, list[tuple[float, float]]] = {}
        for round_number in range(rounds + 1):
            measured = times if round_number else {}  # the first round warms up
            self._under(bodies, measured)
            self._over(bodies, size, measured)
        for case, pairs in times.items():
            echo, fit = percentiles([pair[0] for pair in pairs]), percentiles([pair[1] for pair in pairs])
            yield {"size_bytes": size, "case": case, "echo_us": echo, "fit_us": fit, "ratio": round(fit["p50"] / echo["p50"], 2)}

    def _under(self, bodies: list[bytes], times: dict[str, list[tuple[float, float]]]) -> None:
        session = self._session()
        limits = common_pb2.Limits(soft_bytes=_LARGE, externalize_bytes=0)
        first = self._request(session, bodies[0], limits)
        times.setdefault("first", []).append(self._pair(first, context_pb2.FIT_OUTCOME_UNCHANGED))
        for body in bodies[1:]:
            pair = self._pair(self._request(session, body), context_pb2.FIT_OUTCOME_UNCHANGED)
            times.setdefault("unchanged", []).append(pair)
        for _ in bodies[1:]:
            pair = self._pair(self._request(session, bodies[-1]), context_pb2.FIT_OUTCOME_UNCHANGED)
            times.setdefault("unchanged, same", []).append(pair)

    def _over(self, bodies: list[bytes], size: int, times: dict[str, list[tuple[float, float]]]) -> None:
        session = self._session()
        # Over by the second body; after the cut, what is left grows for the other bodies and stays under the limit.
        limits = common_pb2.Limits(
            soft_bytes=len(bodies[1]) - 1, target_bytes=size // 2, min_saving_bytes=1, externalize_bytes=0, keep_unit_count=1
        )
        self._fit(self._request(session, bodies[0], limits))
        times.setdefault("first cut", []).append(self._pair(self._request(session, bodies[1]), context_pb2.FIT_OUTCOME_FITTED))
        for body in bodies[2:]:
            times.setdefault("fitted", []).append(self._pair(self._request(session, body), context_pb2.FIT_OUTCOME_FITTED))
        for _ in bodies[2:]:
            pair = self._pair(self._request(session, bodies[-1]), context_pb2.FIT_OUTCOME_FITTED)
            times.setdefault("fitted, same", []).append(pair)

    def _session(self) -> common_pb2.SessionRef:
        self._session_count += 1
        return common_pb2.SessionRef(session_id=f"bench-{self._session_count}")

    def _request(self, session: common_pb2.SessionRef, body: bytes, limits: common_pb2.Limits | None = None) -> bytes:
        request = context_pb2.FitRequest(
            session=session,
            format=common_pb2.FORMAT_ANTHROPIC_MESSAGES,
            body=body,
            limits=limits,
            read_back=context_pb2.READ_BACK_CALLER,
        )
        return request.SerializeToString()

    def _pair(self, request: bytes, outcome: context_pb2.FitOutcome) -> tuple[float, float]:
        """Time Fit and then an echo of the same bytes; the order would matter only if one left work behind for the other."""
        answer, fit_us = self._time(self._fit, request)
        response = context_pb2.FitResponse.FromString(answer)
        if response.outcome != outcome:
            raise RuntimeError(f"Fit answered {context_pb2.FitOutcome.Name(response.outcome)}: this would measure another case")
        echo: Call = self._sink
        if response.body:
            self._set_back(answer)
            echo = self._back
        _, echo_us = self._time(echo, request)
        return echo_us, fit_us

    def _time(self, call: Call, request: bytes) -> tuple[bytes, float]:
        if self._pace_s:
            time.sleep(self._pace_s)
        began = time.perf_counter()
        answer = call(request)
        return answer, (time.perf_counter() - began) * 1e6


def _raw(channel: grpc.Channel, method: str) -> Call:
    """A call that takes and gives bytes as they are on the wire."""
    return channel.unary_unary(method, request_serializer=None, response_deserializer=None)


def fit_table(result: dict[str, Any]) -> str:
    """One line a size and case."""
    head = ("size, case", "echo p50", "p90", "p99", "Fit p50", "p90", "p99", "ratio", "n")
    rows = [
        (
            f"{format_bytes(row['size_bytes'])} {row['case']}",
            *(f"{row[side][cut]:,.0f}" for side in ("echo_us", "fit_us") for cut in ("p50", "p90", "p99")),
            f"{row['ratio']:.2f}",
            str(row["fit_us"]["count"]),
        )
        for row in result["rows"]
    ]
    disk = result["fdatasync_us"]
    note = f"microseconds; one fdatasync of 4 KiB took {disk['p50']:,.0f} here (p99 {disk['p99']:,.0f})"
    return f"{format_table(head, rows)}\n\n{note}"


@contextmanager
def _process(arguments: list[str], place: Path) -> Iterator[None]:
    """Run a Python of ours beside us; its output is shown when it ends by itself."""
    log = place / f"{arguments[1]}.log"
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, *arguments], stdout=output, stderr=output, env=dict(os.environ))
    try:
        yield
        if process.poll() is not None:
            raise RuntimeError(f"{arguments[1]} ended with {process.returncode}: {log.read_text()}")
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def _channel(address: str) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(address, options=_OPTIONS) as channel:
        grpc.channel_ready_future(channel).result(30)
        yield channel
