"""Stores of known make, and the sidecars that run on them.

A store is built through a sidecar: each session is told as an agent does, by Fit over a Unix socket, in two growing bodies
under the default limits, so that it has raw items, artifacts and records. Sessions share no content in a store, so those of one
size get the same few bodies.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from bench.bodies import grow_bodies
from trimtab.v1 import common_pb2, context_pb2, context_pb2_grpc

__all__ = [
    "LARGE",
    "QUICK_LARGE",
    "QUICK_SMALL",
    "SMALL",
    "Memory",
    "SidecarProcess",
    "Sizes",
    "Store",
    "build_store",
    "evict_pages",
]

Sizes = Mapping[int, int]
"""How many sessions of which size of body."""

_KIB, _MIB = 1 << 10, 1 << 20
SMALL: Sizes = {64 * _KIB: 1, 256 * _KIB: 1, _MIB: 1, 5 * _MIB: 2, 8 * _MIB: 5}  # 10 sessions, 51 MiB
LARGE: Sizes = {64 * _KIB: 4, 256 * _KIB: 4, _MIB: 4, 5 * _MIB: 161, 8 * _MIB: 27}  # 200 sessions, 1,026 MiB
QUICK_SMALL: Sizes = {64 * _KIB: 1, 256 * _KIB: 1}
QUICK_LARGE: Sizes = {64 * _KIB: 2, 256 * _KIB: 6}

_BODIES = 2  # of one session, the last of the full size
_SEEDS = 2
_START_S = 60.0
_POLL_S = 0.001
_OPTIONS = [
    ("grpc.max_receive_message_length", 65 << 20),
    ("grpc.max_send_message_length", 65 << 20),
    ("grpc.use_local_subchannel_pool", 1),
    # The first attempt may come before the socket is there: a second's back-off would be in the time of the start.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 100),
]


class Memory(NamedTuple):
    """What a process has in memory, bytes."""

    resident: int
    anonymous: int  # of that: its own, not pages of files such as the store's map


class Store(NamedTuple):
    """A store on disk.

    Attributes:
        name: for tables.
        folder: of its data.
        sessions: size of the last body in bytes, by session id.
    """

    name: str
    folder: Path
    sessions: Mapping[str, int]

    @property
    def body_bytes(self) -> int:
        """Raw bytes of all last bodies."""
        return sum(self.sessions.values())

    @property
    def file_bytes(self) -> int:
        """What the data file takes on the disk."""
        return (self.folder / "data.mdb").stat().st_blocks * 512


class SidecarProcess:
    """A sidecar on a folder, in a process of its own, from its spawn to its end.

    Attributes:
        ready_s: from the spawn of the process until health said SERVING.
        ready_cpu_s: processor time of the process until then: does not depend on what else the machine does.
        context: stub of the ContextService.
    """

    def __init__(self, folder: Path) -> None:
        """Start, and wait until it serves.

        Raises:
            RuntimeError: it ended, or took a minute.
        """
        socket = folder.with_name(f"{folder.name}.sock")
        log_path = folder.with_name(f"{folder.name}.log")
        socket.unlink(missing_ok=True)
        address = f"unix:{socket}"
        command = [sys.executable, "-m", "sidecar.cli.main", "serve", "--listen", address, "--data-dir", str(folder)]
        began = time.perf_counter()
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=dict(os.environ))
        while not socket.exists() and self._process.poll() is None and time.perf_counter() - began < _START_S:
            time.sleep(_POLL_S)
        self._channel = grpc.insecure_channel(address, options=_OPTIONS)
        try:
            while not self._serves():
                if self._process.poll() is not None or time.perf_counter() - began > _START_S:
                    raise RuntimeError(f"the sidecar did not start: {log_path.read_text(errors='replace')[-2000:]}")
                time.sleep(_POLL_S)
        except BaseException:
            self.end(signal.SIGKILL)
            raise
        self.ready_s = time.perf_counter() - began
        self.ready_cpu_s = self.cpu_s()
        self.context = context_pb2_grpc.ContextServiceStub(self._channel)

    def _serves(self) -> bool:
        try:
            stub = health_pb2_grpc.HealthStub(self._channel)
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=1.0, wait_for_ready=True)
        except grpc.RpcError:
            return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    def recover(self, session_id: str) -> tuple[context_pb2.RecoverResponse, float]:
        """Recover with the body. The answer, and the time in seconds."""
        request = context_pb2.RecoverRequest(session=common_pb2.SessionRef(session_id=session_id), include_body=True)
        began = time.perf_counter()
        answer = self.context.Recover(request, timeout=60)
        return answer, time.perf_counter() - began

    def cpu_s(self) -> float:
        """Processor time of all its threads so far, seconds. Threads that ended are not in it."""
        tasks = Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    def memory(self) -> Memory:
        """Now, from /proc."""
        lines = Path(f"/proc/{self._process.pid}/smaps_rollup").read_text().splitlines()
        kib = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines[1:])}
        return Memory(kib["Rss"] * 1024, kib["Anonymous"] * 1024)

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Send the signal and wait for the end."""
        self._channel.close()
        if self._process.poll() is None:
            self._process.send_signal(how)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @classmethod
    @contextmanager
    def on(cls, store: Store, how: signal.Signals = signal.SIGTERM) -> Iterator[SidecarProcess]:
        """One on a store, for the length of a `with`; ended by a signal of choice."""
        process = cls(store.folder)
        try:
            yield process
        finally:
            process.end(how)


def build_store(name: str, folder: Path, sizes: Sizes, tell: Callable[[str], None]) -> Store:
    """Build a store through a sidecar.

    Args:
        name: of the store.
        folder: for its data; made.
        sizes: how many sessions of which size.
        tell: takes a line of progress, every few seconds.
    """
    store = Store(name, folder, {f"{size}-{number}": size for size, count in sizes.items() for number in range(count)})
    folder.parent.mkdir(parents=True, exist_ok=True)
    began = told = time.monotonic()
    done = 0
    with SidecarProcess.on(store) as sidecar:
        for size, group in itertools.groupby(store.sessions.items(), key=lambda pair: pair[1]):
            bodies = [grow_bodies(size, _BODIES, seed=seed + 1) for seed in range(_SEEDS)]
            for number, (session_id, _) in enumerate(group):
                for body in bodies[number % _SEEDS]:
                    _fit(sidecar, session_id, body)
                done += 1
                if time.monotonic() - told > 5:
                    told = time.monotonic()
                    tell(f"building {name}: {done} of {len(store.sessions)} sessions in {told - began:.0f} s")
    tell(f"built {name}: {len(store.sessions)} sessions, {store.body_bytes >> 20} MiB, in {time.monotonic() - began:.0f} s")
    return store


def _fit(sidecar: SidecarProcess, session_id: str, body: bytes) -> None:
    request = context_pb2.FitRequest(
        session=common_pb2.SessionRef(session_id=session_id),
        format=common_pb2.FORMAT_ANTHROPIC_MESSAGES,
        body=body,
        read_back=context_pb2.READ_BACK_CALLER,
    )
    sidecar.context.Fit(request, timeout=120)


def evict_pages(store: Store) -> None:
    """Let the kernel forget its pages of a store that no process holds, so that the next reads come from the disk."""
    descriptor = os.open(store.folder / "data.mdb", os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
