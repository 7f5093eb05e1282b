"""A sidecar as a process of its own, started and stopped as an operator would."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import grpc

__all__ = ["SidecarFailedError", "running_sidecar", "sidecar_command"]

_START_S = 30.0
_STOP_S = 20.0


class SidecarFailedError(Exception):
    """The process did not start, or ended by itself. The text holds the end of its log."""


def sidecar_command(address: str, data_dir: Path, *options: str) -> list[str]:
    """The command that serves: `trimtab serve` of this very installation."""
    script = Path(sys.executable).with_name("trimtab")
    program = [str(script)] if script.exists() else [sys.executable, "-m", "sidecar.cli.main"]
    return [*program, "serve", "--listen", address, "--data-dir", str(data_dir), *options]


@contextmanager
def running_sidecar(address: str, data_dir: Path, log: Path, options: Sequence[str] = ()) -> Iterator[subprocess.Popen[bytes]]:
    """Start a sidecar, wait until it answers, stop it by SIGTERM at the end.

    Args:
        address: `unix:PATH` or `HOST:PORT`.
        data_dir: its store.
        log: file that its output is appended to.
        options: more flags of `trimtab serve`.

    Raises:
        SidecarFailedError: it does not answer within 30 seconds, or ends with an error.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            sidecar_command(address, data_dir, *options), stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        _wait_ready(process, address, log)
        yield process
        if process.poll() is not None:
            raise SidecarFailedError(f"the sidecar ended by itself with {process.returncode}:\n{_last_lines(log)}")
    finally:
        process.terminate()
        try:
            code = process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
    if code not in (0, -15):
        raise SidecarFailedError(f"the sidecar did not stop cleanly ({code}):\n{_last_lines(log)}")


def _wait_ready(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    # A channel's own waiting would not notice that the process is gone.
    with grpc.insecure_channel(address, options=[("grpc.max_reconnect_backoff_ms", 100)]) as channel:
        ready = grpc.channel_ready_future(channel)
        waited = 0.0
        while waited < _START_S:
            try:
                ready.result(0.1)
                return
            except grpc.FutureTimeoutError:
                waited += 0.1
            if process.poll() is not None:
                break
        raise SidecarFailedError(f"the sidecar did not start:\n{_last_lines(log)}")


def _last_lines(log: Path, count: int = 15) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-count:])
