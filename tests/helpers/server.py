"""A real sidecar in a process of its own, over a Unix socket and a real store: started, killed and started again by tests."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

__all__ = ["Server", "open_channel"]

_MAX_MESSAGE_BYTES = 256 * 1024 * 1024
_START_SECONDS = 30.0


def open_channel(target: str) -> grpc.Channel:
    """A channel that takes bodies of any size the tests use, and shares no connection with others."""
    options = [
        ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
        ("grpc.use_local_subchannel_pool", 1),
        # A test that asks while the sidecar starts again would wait out a back-off of a second and more.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 100),
    ]
    return grpc.insecure_channel(target, options=options)


def _listens(path: Path) -> bool:
    """Somebody takes connections there. A killed process leaves its socket behind, so the file alone says nothing."""
    with socket.socket(socket.AF_UNIX) as tried:
        return tried.connect_ex(str(path)) == 0


class Server:
    """One sidecar and its data folder. The folder outlives the process until `remove`.

    Attributes:
        data_dir: the store.
        log_path: what the process wrote to its standard streams, over all its lives.
    """

    program: ClassVar[tuple[str, ...]] = (sys.executable, "-m", "sidecar.cli.main")

    def __init__(self, *arguments: str, env: dict[str, str] | None = None) -> None:
        """Choose a folder with a short path (socket paths are at most 107 bytes); nothing is started."""
        self.folder = Path(tempfile.mkdtemp(prefix="tt"))
        self.data_dir = self.folder / "data"
        self.log_path = self.folder / "log"
        self.socket = self.folder / "s"
        self.arguments = arguments
        self.env = env or {}
        self.process: subprocess.Popen[bytes] | None = None
        self.channel: grpc.Channel | None = None

    @property
    def target(self) -> str:
        """gRPC target."""
        return f"unix:{self.socket}"

    def start(self) -> Server:
        """Start, and wait until it says SERVING."""
        self.process = self.spawn(["serve", "--listen", self.target, "--data-dir", str(self.data_dir), *self.arguments])
        deadline = time.monotonic() + _START_SECONDS
        while not _listens(self.socket) and self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        self.channel = open_channel(self.target)
        while not self._serving():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the sidecar did not start: {self.log_path.read_text(errors='replace')[-2000:]}")
            time.sleep(0.02)
        return self

    def spawn(self, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        """The process of a command line."""
        command, env = [*self.program, *arguments], {**os.environ, **self.env}
        with self.log_path.open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=env)

    def _serving(self) -> bool:
        if self.channel is None:
            return False
        stub = health_pb2_grpc.HealthStub(self.channel)
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=1.0, wait_for_ready=True)
        except grpc.RpcError:
            return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    def is_alive(self) -> bool:
        """The process runs."""
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL, at once."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, and wait for the end."""
        self._end(signal.SIGTERM)

    def _end(self, sign: signal.Signals) -> None:
        if self.channel is not None:
            self.channel.close()
            self.channel = None
        if self.process is not None:
            self.process.send_signal(sign)
            self.process.wait(timeout=30)
            self.process = None

    def restart(self) -> Server:
        """SIGKILL, then start on the same folder."""
        self.kill()
        return self.start()

    def log(self) -> bytes:
        """All that was logged."""
        return self.log_path.read_bytes() if self.log_path.exists() else b""

    def remove(self) -> None:
        """Stop and delete the folder."""
        if self.process is not None:
            self._end(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Server:
        """Start."""
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop and delete."""
        self.remove()
