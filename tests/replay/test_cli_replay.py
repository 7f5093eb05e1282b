"""`trimtab replay`, as a process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from sidecar.cli.replay import _Progress
from sidecar.demo.session import build_session
from sidecar.replay.cost import Sent
from sidecar.replay.drive import StepReport

LIMITS = ("--soft-bytes", "65536", "--target-bytes", "32768")


def trimtab(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command line."""
    command = [sys.executable, "-m", "sidecar.cli.main", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env={"PYTHONPATH": ":".join(sys.path)}, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one recording of each dialect."""
    folder = tmp_path_factory.mktemp("recordings")
    for format in ("anthropic-messages", "openai-chat"):
        session = build_session(3, min_calls=20, min_bytes=300_000, format=format)
        (folder / f"{format}.json").write_bytes(session.body())
    return folder


def test_replay_of_two_dialects_writes_table_json_and_plot(recordings: Path) -> None:
    files = ("anthropic-messages.json", "openai-chat.json")
    done = trimtab("replay", *files, *LIMITS, "--json", "out.json", "--plot", "out.svg", cwd=recordings)
    assert (done.returncode, done.stderr.count("of the raw cost")) == (0, 2), done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[2:4]] == list(files)
    assert lines[5].startswith("geometric mean")
    told = json.loads((recordings / "out.json").read_bytes())
    assert [run["format"] for run in told["replays"]] == ["anthropic-messages", "openai-chat"]
    assert all(run["raw_break_count"] == 0 and 0 < run["cost_ratio"] < 1 for run in told["replays"])
    assert all(run["soft_bytes"] == 65_536 and run["target_bytes"] == 32_768 for run in told["replays"])
    assert lines[5].split()[-1] == f"{told['geometric_mean_ratio']:.3f}"
    assert b"<svg" in (recordings / "out.svg").read_bytes()
    # Not a terminal: lines at the first step, at cuts and now and then, and one at the end; no carriage returns.
    assert "  1/" in done.stderr
    assert sum(int(made) for made in re.findall(r"steps, (\d+) artifacts", done.stderr)) > 2
    assert "\r" not in done.stderr


def test_replay_with_read_back_none_costs_what_raw_costs(recordings: Path) -> None:
    done = trimtab("replay", "openai-chat.json", "--read-back", "none", *LIMITS, cwd=recordings)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[4].split()[-1] == "1.000"


def test_replay_of_an_unreadable_file_says_where(recordings: Path) -> None:
    (recordings / "broken.json").write_bytes(b'{"model":"m","messages":[{"role":"user","content":nope}]}')
    done = trimtab("replay", "broken.json", "--format", "openai-chat", cwd=recordings)
    assert done.returncode == 1
    assert "broken.json" in done.stderr
    assert "byte 51" in done.stderr
    assert "Traceback" not in done.stderr


def test_replay_of_an_ambiguous_file_asks_for_the_format(recordings: Path) -> None:
    (recordings / "either.json").write_bytes(b'{"model":"m","messages":[{"role":"user","content":"hi"}]}')
    done = trimtab("replay", "either.json", cwd=recordings)
    assert (done.returncode, done.stdout) == (1, "")
    said = "the body may be of more than one format: openai-chat, anthropic-messages; say which with --format"
    assert done.stderr == f"Error: either.json: {said}\n"


def test_replay_in_a_dialect_that_is_not_there_is_refused(recordings: Path) -> None:
    done = trimtab("replay", "openai-chat.json", "--format", "telepathy", cwd=recordings)
    assert done.returncode == 2
    assert "'telepathy' is not one of 'openai-chat', 'openai-responses', 'anthropic-messages', 'gemini'" in done.stderr
    done = trimtab("replay", "openai-chat.json", "--format", "gemini", cwd=recordings)
    assert (done.returncode, done.stdout) == (1, "")
    assert "openai-chat.json: the body has no history" in done.stderr


@pytest.mark.parametrize("arguments", [("--plot", "out.pdf"), ("--preset", "tiny"), ("--soft-bytes", "many")])
def test_replay_with_a_wrong_option_is_refused_before_it_starts(recordings: Path, arguments: tuple[str, str]) -> None:
    done = trimtab("replay", "openai-chat.json", *arguments, cwd=recordings)
    assert done.returncode == 2
    assert arguments[0].strip("-").replace("-", "_") in done.stderr.replace("-", "_")
    assert "1/" not in done.stderr


def test_progress_without_a_terminal_is_a_line_a_second_at_most(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("sidecar.cli.replay.monotonic", lambda: now)
    progress = _Progress("x.json")
    cut = StepReport(1, Sent(9, 0, 1.0, False), Sent(9, 0, 1.0, True), "FITTED", artifact_count=3, notes=(), fit_ms=1.0)
    whole = msgspec.structs.replace(cut, sent=cut.raw, artifact_count=0)
    for index in range(151):  # ten steps a second, each of them a cut but those at the end
        now = 100.0 + index / 10
        progress.step(index, 151, cut if index < 120 else whole)
    told = [int(line.split()[1].partition("/")[0]) - 1 for line in capsys.readouterr().err.splitlines()]
    assert told == [*range(0, 120, 10), 150]
