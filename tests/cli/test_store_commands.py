"""Commands that look after a store: check, backup, retain; on a folder that a sidecar holds, and on one that nobody does."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sidecar.app import App, open_app
from sidecar.cli.main import _trimtab
from sidecar.cli.progress import Progress
from sidecar.config import OPTIONS, load_config
from sidecar.core.types import SessionKey
from store import LmdbStore
from tests.rpc.build import messages_body, to_json
from tests.store import build
from tests.store.test_check import edit

FIT = ["fit", "--format", "anthropic-messages", "--read-back", "caller", "--soft-bytes", "30kB", "--target-bytes", "30kB"]
DAY_MS = 24 * 60 * 60 * 1000


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for option in OPTIONS:
        monkeypatch.delenv(option.variable, raising=False)
    yield


@pytest.fixture
def served(short_path: Path) -> Iterator[App]:
    """A sidecar that holds short_path / "own", with one session."""
    config = load_config({"listen": (f"unix:{short_path}/s",), "data_dir": str(short_path / "own")}).config
    with open_app(config) as app:
        fit(app, "s")
        yield app


def run(*arguments: object, stdin: bytes = b"", code: int = 0) -> Result:
    result = CliRunner().invoke(_trimtab, [str(argument) for argument in arguments], input=stdin)
    assert result.exit_code == code, result.output
    return result


def apart(*arguments: object, code: int = 0) -> tuple[str, str]:
    """As `run`, in a process of its own: a process opens a folder once. What it wrote."""
    words = [sys.executable, "-m", "sidecar.cli.main", *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


def fit(app: App, session_id: str) -> None:
    run(*FIT, "--session", session_id, "--target", app.address, stdin=to_json(messages_body(40)))


def old_sessions(folder: Path, *days_ago: int) -> None:
    """Sessions by name of their age in days."""
    store = LmdbStore(folder, quota_bytes=0)
    now_ms = time.time_ns() // 1_000_000
    for days in days_ago:
        batch = build.plain(SessionKey("team", f"{days}"), 0, [b"x" * 9_000], update_ms=now_ms - days * DAY_MS - 1)
        store.submit(batch).result(10)
    store.close()


def test_backup_of_a_folder_that_is_served_restores_what_was_acknowledged(served: App, short_path: Path) -> None:
    copy = short_path / "copy"
    before = json.loads(run("sessions", "--target", served.address, "--json").stdout)
    assert before.pop("last_pressure")  # known to the process only
    told = json.loads(apart("backup", copy, "--data-dir", short_path / "own", "--json")[0])
    assert told["dir"] == str(copy)
    assert told["session_count"] == 1
    assert told["item_count"] == 81
    assert told["size_bytes"] == (copy / "data.mdb").stat().st_size
    fit(served, "later")
    assert json.loads(run("sessions", "--data-dir", copy, "--json").stdout) == before
    text, lines = apart("backup", short_path / "two", "--data-dir", short_path / "own")
    assert text.startswith("copied and proven: 2 sessions, ")
    assert "copy: 100 % of" in lines
    assert "check: 100 % of" in lines


def test_backup_refused_is_one_line_and_makes_nothing(served: App, short_path: Path) -> None:
    _, error = apart("backup", short_path / "own", "--data-dir", short_path / "own", code=1)
    assert error == "Error: the folder for the copy is not empty (name a new folder, or empty this one)\n"
    assert "there is no store in" in run("backup", short_path / "c", "--data-dir", short_path / "none", code=1).stderr
    assert "--data-dir" in run("backup", short_path / "c", code=2).stderr
    assert not (short_path / "c").exists()
    assert not (short_path / "none").exists()


def test_check_of_a_folder_that_is_served_finds_it_sound(served: App, short_path: Path) -> None:
    *findings, count = apart("check", "--data-dir", short_path / "own", "--json")[0].splitlines()
    assert findings == []
    assert json.loads(count)["item_count"] == 81
    fit(served, "goes-on")


def test_check_out_of_reach_is_listed_and_exit_code_0(short_path: Path) -> None:
    old_sessions(short_path / "own", 1)
    edit(short_path / "own", lambda txn: txn.put(b"\x03" + (9).to_bytes(8, "big"), b""))
    told = run("check", "--data-dir", short_path / "own").stdout
    assert told.startswith("info: a session is being removed: its values are out of reach at handle 9\ninfo: count: ")


def test_retain_dry_run_says_what_would_go_and_then_it_goes(short_path: Path) -> None:
    folder = short_path / "own"
    old_sessions(folder, 1, 20, 31, 40)
    flags = ["--data-dir", folder, "--retain-age-s", "30d"]
    dry = run("retain", *flags, "--dry-run")
    assert [line.split()[:3] for line in dry.stdout.splitlines()[1:]] == [["team", "40", "age"], ["team", "31", "age"]]
    assert "would be removed; 2 with" in dry.stderr
    assert dry.stderr.startswith("2 sessions with ")
    done = run("retain", *flags)
    assert done.stdout == dry.stdout
    assert "were removed; 2 with" in done.stderr
    told = run("retain", "--data-dir", folder, "--retain-total-bytes", "13kB", "--json").stdout
    *removed, count = map(json.loads, told.splitlines())
    assert [(one["session_id"], one["reason"]) for one in removed] == [("20", "total_bytes")]
    assert count["kept_session_count"] == 1
    assert count["removed_bytes"] == removed[0]["stored_bytes"] > 9_000
    assert run("retain", "--data-dir", folder, "--retain-scope-bytes", "0").stdout.count("\n") == 2
    assert run("retain", *flags).stdout == ""


def test_retain_without_a_bound_or_of_a_held_folder_is_refused(served: App, short_path: Path) -> None:
    assert "give a bound" in run("retain", "--data-dir", short_path / "own", code=2).stderr
    held = run("retain", "--data-dir", short_path / "own", "--retain-age-s", "1", code=1).stderr
    assert f"held by process {os.getpid()}" in held
    assert (
        "less than 1 seconds" in run("config", "--check", "--config", toml(short_path, "retain_interval_s = 0.5"), code=2).stderr
    )


def toml(folder: Path, text: str) -> Path:
    (folder / "t.toml").write_text(text + "\n")
    return folder / "t.toml"


def test_serve_with_retention_removes_the_old_and_leaves_the_used(short_path: Path) -> None:
    old_sessions(short_path / "own", 5, 50)
    given = {"listen": (f"unix:{short_path}/s",), "data_dir": str(short_path / "own"), "retain_age_s": "30d"}
    with open_app(load_config(given).config) as app:
        deadline = time.monotonic() + 20
        while len(app.store.all_sessions()) > 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [one.key.session_id for one in app.store.all_sessions()] == ["5"]
        assert app.engine.counters.value("retention_removed_sessions_total", reason="age") == 1


@pytest.mark.parametrize("command", [["check"], ["backup", "COPY"]])
def test_progress_on_a_terminal_is_a_bar_that_does_not_stay(short_path: Path, command: list[str]) -> None:
    old_sessions(short_path / "own", *range(1, 20))
    words = [word.replace("COPY", str(short_path / "copy")) for word in command]
    master, slave = pty.openpty()
    environ = {**os.environ, "COLUMNS": "90"}
    arguments = [sys.executable, "-m", "sidecar.cli.main", *words, "--data-dir", str(short_path / "own"), "--json"]
    with subprocess.Popen(arguments, stderr=slave, stdout=-1, stdin=-1, env=environ) as child:
        os.close(slave)
        told = b""
        try:
            while piece := os.read(master, 4096):
                told += piece
        except OSError:  # how a terminal without a user ends
            pass
        output = child.communicate(timeout=60)[0]
    os.close(master)
    assert child.returncode == 0
    assert b"check [####################" in told
    assert b"100 % of" in told
    assert told.endswith(b"\r\x1b[K")
    assert b"\n" not in told
    assert json.loads(output)["session_count"] == 19


def test_progress_without_a_terminal_is_a_few_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        for done in range(1_001):
            progress.tell("copy", done, 1_000)
        progress.tell("check", 0, 0)
        progress.clear()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "copy: 0 % of 1,000 bytes"
    assert lines[-2:] == ["copy: 100 % of 1,000 bytes", "check: 100 % of 0 bytes"]
    assert len(lines) <= 12
    assert not any("\r" in line or "\x1b" in line for line in lines)
