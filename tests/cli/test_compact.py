"""compact, checkpoints and rollback in this process, on real stores and sidecars; replay that compacts."""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sidecar.app import App
from sidecar.cli.main import _trimtab
from sidecar.config import OPTIONS
from tests.rpc.build import messages_body, to_json

LIMITS = ["--soft-bytes", "20kB", "--target-bytes", "16kB"]
SMALLER = ["--summary-bytes", "3kB"]
BODY = to_json(messages_body(60, 1000))
NOTES = "## Accomplished\n- NOTE-1\n## In progress\n- none\n## Next steps\n- none\n## Facts to keep\n- none\n"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for option in OPTIONS:
        monkeypatch.delenv(option.variable, raising=False)
    yield


def _run(*arguments: str, stdin: bytes = b"", code: int = 0) -> Result:
    result = CliRunner().invoke(_trimtab, arguments, input=stdin)
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(params=["target", "data_dir"])
def at(request: pytest.FixtureRequest, short_path: Path) -> list[str]:
    """A session over its limit, in a running sidecar or in a folder."""
    if request.param == "data_dir":
        where = ["--data-dir", str(short_path / "own")]
    else:
        app: App = request.getfixturevalue("app")
        where = ["--target", app.address]
    return _session(where)


@pytest.fixture
def one(app: App) -> list[str]:
    """The same in a running sidecar only."""
    return _session(["--target", app.address])


def _session(where: list[str]) -> list[str]:
    assert _fit(["--session", "s", *where]).stderr.startswith("OVER")
    return ["--session", "s", *where]


def _fit(at: list[str]) -> Result:
    flags = ["--format", "anthropic-messages", "--read-back", "caller", *LIMITS]
    return _run("fit", *flags, *at, stdin=BODY)


def test_compact_checkpoints_and_rollback_do_what_they_say(at: list[str]) -> None:
    over = _fit(at).stdout_bytes
    made = _run("compact", "--boundary", "stage 1", *SMALLER, *at, stdin=BODY)
    assert made.stdout_bytes == b""
    lines = made.stderr.splitlines()
    assert lines[0].startswith("COMMITTED")
    assert f"{len(over):,} bytes before" in lines[1]
    assert re.fullmatch(r"  checkpoint c1: \d{2,3} items, a summary of [34],\d{3} bytes", lines[2])
    fitted = _fit(at)
    assert len(fitted.stdout_bytes) <= 20_000 < len(over)
    assert "1 x checkpoint" in fitted.stderr
    table = _run("checkpoints", *at).stdout.splitlines()
    assert [line.split()[:3] for line in table] == [["checkpoint", "state", "revision"], ["c1", "live", table[1].split()[2]]]
    assert "stage 1" in table[1]
    assert f"{len(over):,}" in table[1]
    told = json.loads(_run("checkpoints", "--json", *at).stdout)
    assert (told["live"], int(told["after_bytes"])) == (True, len(fitted.stdout_bytes))
    shown = _run("checkpoints", "--show", "c1", *at).stdout_bytes
    assert shown.rstrip(b"\n") == base64.b64decode(told["summary"]).rstrip(b"\n")
    assert shown.startswith(b"[trimtab checkpoint c1")
    assert "c9" in _run("checkpoints", "--show", "c9", *at, code=1).stderr
    assert json.loads(_run("sessions", "s", "--json", *at[2:]).stdout)["checkpoint_count"] == "1"
    assert _run("rollback", "--checkpoint", "c1", *at).stderr.startswith("taken back: c1; revision ")
    assert _fit(at).stdout_bytes == over
    assert _run("checkpoints", *at).stdout.splitlines()[1].split()[:2] == ["c1", "-"]
    assert "Error: CHECKPOINT_NOT_FOUND" in _run("rollback", "--checkpoint", "c1", *at, code=1).stderr


def test_compact_that_keeps_the_history_says_why_and_is_no_failure(one: list[str]) -> None:
    assert _run("compact", *one).stderr.startswith("KEPT, MID_STAGE")
    assert _run("compact", "--boundary", "b", "--dry-run", *SMALLER, *one).stderr.startswith("KEPT, DRY_RUN")
    assert _run("checkpoints", *one).stdout.count("\n") == 1
    assert _run("compact", "--force-mid-stage", *SMALLER, *one).stderr.startswith("COMMITTED")


def test_compact_under_the_limit_needs_to_be_told(app: App) -> None:
    at = ["--session", "t", "--target", app.address]
    body = to_json(messages_body(20, 4_000))
    _run("fit", "--format", "anthropic-messages", "--read-back", "caller", *at, stdin=body)
    assert _run("compact", "--boundary", "b", *at, stdin=body).stderr.startswith("KEPT, NO_PRESSURE")
    made = _run("compact", "--boundary", "b", "--ignore-pressure", "--compact-target-bytes", "20kB", "--json", *at, stdin=body)
    assert json.loads(made.stdout)["outcome"] == "COMPACT_OUTCOME_COMMITTED"
    assert made.stderr.startswith("COMMITTED")


def test_compact_include_body_gives_the_body_to_send(one: list[str]) -> None:
    made = _run("compact", "--boundary", "b", "--include-body", *SMALLER, *one)
    assert made.stdout_bytes == _fit(one).stdout_bytes
    assert b"[trimtab checkpoint c1" in made.stdout_bytes


def test_compact_by_the_caller_gives_the_request_and_takes_the_response(at: list[str]) -> None:
    flags = ["--boundary", "b", "--summarizer", "caller", "--request-id", "stage-1", *SMALLER]
    planned = _run("compact", *flags, *at)
    assert planned.stderr.startswith("PLANNED")
    (line,) = (line.strip() for line in planned.stderr.splitlines() if "--finish" in line)
    finish, _, ending = line.partition(" < ")
    assert ending == "response.json"
    assert json.loads(planned.stdout_bytes)["messages"]
    response = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": NOTES}], "stop_reason": "end_turn"}
    done = _run(*shlex.split(finish)[1:], stdin=to_json(response))
    assert done.stderr.startswith("COMMITTED")
    assert "NOTE-1" in _run("checkpoints", "--show", "c1", *at).stdout


@pytest.mark.parametrize(("end", "told", "code"), [("--failed", "KEPT, SUMMARIZER_FAILED", 0), ("--unknown", "UNKNOWN", 1)])
def test_compact_by_the_caller_that_failed_is_ended_so(one: list[str], end: str, told: str, code: int) -> None:
    _run("compact", "--boundary", "b", "--summarizer", "caller", "--request-id", "stage-1", *one)
    assert _run("compact", "--finish", "stage-1", end, "no answer", *one, code=code).stderr.startswith(told)


@pytest.mark.parametrize(
    "flags", [["--failed", "x"], ["--unknown", "x"], ["--finish", "a", "--failed", "x", "--unknown", "y"], ["--soft-bytes", "x"]]
)
def test_compact_flags_that_do_not_go_together_are_wrong_usage(flags: list[str]) -> None:
    _run("compact", "--session", "s", "--target", "unix:/x", *flags, code=2)


@pytest.mark.parametrize("command", [["compact"], ["checkpoints"], ["rollback", "--checkpoint", "c1"]])
def test_compaction_of_what_is_not_there_is_told_and_makes_nothing(app: App, short_path: Path, command: list[str]) -> None:
    assert "SESSION_NOT_FOUND" in _run(*command, "--session", "nobody", "--target", app.address, code=1).stderr
    flags = ["--session", "s", "--data-dir", str(short_path / "missing")]
    assert "there is no store in" in _run(*command, *flags, code=1).stderr
    assert not (short_path / "missing").exists()


def test_replay_that_compacts_tells_how_often_and_what_is_left_over(tmp_path: Path) -> None:
    body = messages_body(60, 1000)
    body["messages"].append({"role": "assistant", "content": "Shall I go on?"})
    body["messages"].append({"role": "user", "content": "Yes, all of them."})
    body["messages"] += messages_body(70, 1000)["messages"][121:]
    (tmp_path / "run.json").write_bytes(to_json(body))
    flags = [*LIMITS, "--min-saving-bytes", "1", *SMALLER, "--format", "anthropic-messages", "--read-back", "caller"]
    out = _run("replay", str(tmp_path / "run.json"), *flags, "--compact", "auto", "--json", str(tmp_path / "out.json"))
    lines = out.stdout.splitlines()
    assert lines[0].split()[-1] == "compactions"
    assert lines[2].split()[-1] == "1"
    (run,) = json.loads((tmp_path / "out.json").read_bytes())["replays"]
    made = [each for each in run["compactions"] if each["outcome"] == "COMMITTED"]
    assert [each["boundary"] for each in made] == ["user item 122"]
    over = [step["over_reason"] for step in run["steps"] if step["sent"]["size_bytes"] > 20_000]
    assert over
    assert set(over) <= {"MID_STAGE", "NO_CANDIDATE", "LOW_BENEFIT"}
    assert run["steps"][61]["sent"]["size_bytes"] <= 20_000
    off = _run("replay", str(tmp_path / "run.json"), *flags)
    assert "NOT_ASKED" in off.stdout
    assert "compactions" not in off.stdout


def test_replay_ends_stages_at_the_tools_that_are_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(to_json(messages_body(60, 1000)))
    flags = [str(tmp_path / "run.json"), *LIMITS, "--min-saving-bytes", "1", *SMALLER, "--format", "anthropic-messages"]
    flags += ["--read-back", "caller"]
    out = _run("replay", *flags, "--compact", "auto", "--stage-tool", "bash")
    assert "(bash in item " in out.stdout
    assert "MID_STAGE" not in out.stdout
    assert "--compact auto" in _run("replay", *flags, "--stage-tool", "bash", code=2).stderr
