"""Wrong use of the commands: a message with a hint and an exit code, never a trace; looking at a folder does not make it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BODY = b'{"model":"m","messages":[{"role":"user","content":"x"}]}'


def trimtab(
    *arguments: str | bytes, stdout: int | None = None, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a command with a small body as its input."""
    return subprocess.run(
        [sys.executable, "-m", "sidecar.cli.main", *arguments],
        input=BODY,
        stdout=subprocess.PIPE if stdout is None else stdout,
        stderr=subprocess.PIPE,
        env={**os.environ, **(variables or {})},
        timeout=60,
    )


def fit(
    data_dir: Path, *more: str | bytes, session: str | bytes = "a", stdout: int | None = None
) -> subprocess.CompletedProcess[bytes]:
    """`trimtab fit` on a store of its own."""
    arguments: tuple[str | bytes, ...] = ("--format", "openai-chat", "--read-back", "caller", "--data-dir", str(data_dir))
    return trimtab("fit", *arguments, "--session", session, *more, stdout=stdout)


def assert_clear(done: subprocess.CompletedProcess[bytes]) -> None:
    """It failed, and says why to a person."""
    assert done.returncode not in (0, -6, -11)
    assert b"Traceback" not in done.stderr, done.stderr.decode(errors="replace")[-600:]
    assert b"Error: " in done.stderr


def test_fit_session_that_is_not_utf_8_is_refused_clearly(tmp_path: Path) -> None:
    assert_clear(fit(tmp_path / "d", session=b"a\xff"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["fit", "config"])
def test_command_whose_output_cannot_be_written_says_so(tmp_path: Path, command: str) -> None:
    with open("/dev/full", "wb") as full:
        done = fit(tmp_path / "d", stdout=full.fileno()) if command == "fit" else trimtab("config", stdout=full.fileno())
    assert_clear(done)


def test_serve_message_limit_over_what_grpc_takes_is_refused_clearly(tmp_path: Path) -> None:
    done = trimtab(
        "serve",
        "--listen",
        f"unix:{tmp_path}/s",
        "--data-dir",
        str(tmp_path / "d"),
        variables={"TRIMTAB_MAX_MESSAGE_BYTES": "4GiB"},
    )
    assert_clear(done)


@pytest.mark.parametrize(
    "variables",
    [{"TRIMTAB_TARGET_BYTES": "999999999"}, {"TRIMTAB_PRESET": "window"}, {"TRIMTAB_SOFT_BYTES": "5"}],
    ids=["target-over-soft", "window-without-window", "soft-under-1024"],
)
def test_config_limits_that_refuse_every_fit_are_refused_at_start(variables: dict[str, str]) -> None:
    """Else each client is told INVALID_FIELD for a field that it never sent."""
    assert_clear(trimtab("config", variables=variables))


@pytest.mark.parametrize(
    "command", [("check",), ("sessions",), ("read", "--session", "a", "0" * 32), ("search", "--session", "a", "x")]
)
def test_command_that_looks_at_a_missing_folder_refuses_and_does_not_make_it(tmp_path: Path, command: tuple[str, ...]) -> None:
    """`check` on a misspelled path says "0 errors" and leaves a store there."""
    folder = tmp_path / "misspelled"
    done = trimtab(*command, "--data-dir", str(folder))
    assert_clear(done)
    assert not folder.exists()


def test_fit_malformed_body_names_the_offset_once(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sidecar.cli.main", "fit", "--format", "openai-chat", "--read-back", "caller"]
        + ["--data-dir", str(tmp_path / "d"), "--session", "a"],
        input=b"garbage",
        capture_output=True,
        timeout=60,
    )
    assert_clear(done)
    assert done.stderr.count(b"at byte 0") == 1


@pytest.mark.parametrize(("closed", "code"), [("<&-", 1), (">&-", 1), ("2>&-", 0)])
def test_fit_closed_stream_never_traces(tmp_path: Path, closed: str, code: int) -> None:
    """A body that nobody can read is a failure; a summary that nobody wants is not."""
    command = f'"$0" -m sidecar.cli.main fit --format openai-chat --read-back caller --session a --data-dir "$1" {closed}'
    done = subprocess.run(["sh", "-c", command, sys.executable, str(tmp_path / "d")], input=BODY, capture_output=True, timeout=60)
    assert done.returncode == code
    assert b"Traceback" not in done.stderr
    assert done.stdout == (BODY if code == 0 else b"")
