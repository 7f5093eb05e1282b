"""`trimtab serve` as a process: how it starts, what it logs, how it ends."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import trimtab
from tests.rpc.build import messages_body, to_json

_LIMITS: trimtab.Limits = {"soft_bytes": 30_000, "min_saving_bytes": 1}


@contextmanager
def _serving(folder: Path, *flags: str, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "sidecar.cli.main", "serve", "--listen", f"unix:{folder}/s", "--data-dir", f"{folder}/data"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, *flags], stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, **variables}
        )
    try:
        _wait_for_log(folder, process, "serving")
        yield process
    finally:
        process.kill()
        process.wait()


def _wait_for_log(folder: Path, process: subprocess.Popen[bytes], event: str) -> None:
    end = time.monotonic() + 30
    while event not in [line["event"] for line in _log(folder)]:
        assert process.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < end
        time.sleep(0.02)


def _log(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "log").read_text().splitlines(keepends=True) if line.endswith("\n")]


def _client(folder: Path) -> trimtab.Trimtab:
    return trimtab.connect(f"unix:{folder}/s", format="anthropic-messages", read_back="caller", **_LIMITS)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_ends_with_0_on_a_signal_and_removes_its_socket(short_path: Path, number: signal.Signals) -> None:
    with _serving(short_path) as process:
        with _client(short_path) as client:
            client.fit("s", messages_body(1))
        process.send_signal(number)
        assert process.wait(20) == 0
    assert [line["event"] for line in _log(short_path)] == ["serving", "draining", "ended"]
    assert not (short_path / "s").exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads of another process are named by /proc")
def test_serve_ends_whichever_thread_gets_the_signal(short_path: Path) -> None:
    with _serving(short_path) as process:
        threads = [int(path.name) for path in Path(f"/proc/{process.pid}/task").iterdir()]
        other = max(threads)
        assert other != process.pid
        assert ctypes.CDLL(None).tgkill(process.pid, other, int(signal.SIGTERM)) == 0
        assert process.wait(20) == 0


def test_serve_after_sigkill_replaces_the_socket_and_gives_the_same_bytes(short_path: Path) -> None:
    body = to_json(messages_body(40))
    with _serving(short_path) as process, _client(short_path) as client:
        fitted = client.fit("s", body)
        assert fitted != body
        process.kill()
        process.wait()
        assert (short_path / "s").exists()
    with _serving(short_path), _client(short_path) as client:
        assert client.fit("s", body) == fitted


def test_serve_socket_of_a_running_server_is_refused(short_path: Path) -> None:
    with _serving(short_path):
        command = [sys.executable, "-m", "sidecar.cli.main", "serve"]
        flags = ["--listen", f"unix:{short_path}/s", "--data-dir", f"{short_path}/other"]
        done = subprocess.run([*command, *flags], capture_output=True, timeout=30, check=False)
        assert done.returncode == 1
        assert done.stderr.decode().startswith(f"Error: {short_path}/s is in use by a running server")
        with _client(short_path) as client:
            client.fit("s", messages_body(1))


def test_serve_logs_no_content_at_the_lowest_level(short_path: Path) -> None:
    body = messages_body(40)
    body["messages"][0]["content"] = "SECRET-USER-TEXT"
    body["messages"][2]["content"][0]["content"] += "SECRET-RESULT"
    with _serving(short_path, "--log-level", "debug") as process:
        with _client(short_path) as client:
            client.fit("s", body)
            with pytest.raises(trimtab.MalformedBodyError):
                client.fit("s", b'{"messages": "SECRET-MALFORMED')
        process.terminate()
        assert process.wait(20) == 0
    assert b"SECRET" not in (short_path / "log").read_bytes()


def test_serve_unknown_variable_is_warned_about(short_path: Path) -> None:
    with _serving(short_path, TRIMTAB_SOFT_BYTE="5"):
        pass
    assert _log(short_path)[0]["variable"] == "TRIMTAB_SOFT_BYTE"


def test_serve_folder_and_socket_are_for_whom_they_should_be(short_path: Path) -> None:
    with _serving(short_path, TRIMTAB_SOCKET_MODE="0600"):
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (short_path / "s", short_path / "data")}
        inside = {stat.S_IMODE(path.stat().st_mode) for path in (short_path / "data").iterdir()}
    assert modes == {"s": 0o600, "data": 0o700}
    assert inside == {0o600}


def test_serve_wrong_value_is_wrong_usage(short_path: Path) -> None:
    command = [sys.executable, "-m", "sidecar.cli.main", "serve", "--threads", "none"]
    done = subprocess.run(command, capture_output=True, timeout=30, check=False)
    assert done.returncode == 2
    assert b"threads (from flag)" in done.stderr


@pytest.mark.parametrize("listen", ["nowhere", "unix:", "127.0.0.1:99999", f"unix:/{'long' * 40}", "0.0.0.0:0"])
def test_serve_on_what_is_no_address_or_a_forbidden_one_is_wrong_usage(short_path: Path, listen: str) -> None:
    command = [sys.executable, "-m", "sidecar.cli.main", "serve", "--listen", listen, "--data-dir", str(short_path / "s")]
    done = subprocess.run(command, capture_output=True, timeout=30, check=False)
    assert done.returncode == 2
    assert b"\nError: " in done.stderr


def test_serve_drains_while_a_client_stays_connected_without_a_call(short_path: Path) -> None:
    with _serving(short_path) as process, socket.socket(socket.AF_UNIX) as idle:
        idle.connect(f"{short_path}/s")
        process.terminate()
        assert process.wait(20) == 0
