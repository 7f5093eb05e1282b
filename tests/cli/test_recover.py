"""record and recover in this process, on a real store and a real sidecar."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sidecar.app import App
from sidecar.cli.main import _trimtab
from sidecar.config import OPTIONS

CALL = {"role": "assistant", "content": [{"type": "tool_use", "id": f"t{n}", "name": "deploy", "input": {}} for n in (1, 2)]}
BODY = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "go"}]}


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
    """A session in a running sidecar or in a folder, with two open calls."""
    if request.param == "data_dir":
        where = ["--session", "s", "--data-dir", str(short_path / "own")]
    else:
        app: App = request.getfixturevalue("app")
        where = ["--session", "s", "--target", app.address]
    flags = ["--format", "anthropic-messages", "--read-back", "none"]
    _run("fit", *flags, *where, stdin=json.dumps(BODY).encode())
    told = _run("record", "--items", "-", *where, stdin=json.dumps([CALL]).encode())
    assert told.stderr == "recorded: revision 1, 2 items\n"
    return where


def test_recover_tells_what_is_open_and_writes_the_body(at: list[str], tmp_path: Path) -> None:
    _run("record", "--receipt", "t1=pending", "--key", "k 1", "--detail", "by hand", *at)
    told = _run("recover", "--body", str(tmp_path / "body.json"), *at)
    lines = told.stdout.splitlines()
    assert lines[0].startswith("anthropic-messages, revision 2: 2 items, a body of ")
    assert lines[1] == "  open call 't1' of 'deploy' (item 1, call 0): PENDING, key 'k 1', by hand"
    assert lines[2] == "  open call 't2' of 'deploy' (item 1, call 1): no receipt"
    assert json.loads((tmp_path / "body.json").read_bytes()) == {**BODY, "messages": [*BODY["messages"], CALL]}  # type: ignore[misc]
    assert _run("recover", *at).stdout.splitlines() == lines


def test_recover_closes_what_died_and_a_repeat_answers_as_it_did(at: list[str]) -> None:
    _run("record", "--receipt", "1:1=waiting", *at)
    close = ["recover", "--close-interrupted", "--request-id", "one", "--expected-revision", "2", *at]
    first = _run(*close)
    assert "'t1' of 'deploy' (item 1, call 0): UNKNOWN, closed after a crash; closed" in first.stdout
    assert "note CALLS_WAITING" in first.stdout
    assert first.stdout.splitlines()[:3] == _run(*close).stdout.splitlines()[:3]
    refused = _run(*close[:2], "--request-id", "two", *close[4:], code=1)
    assert "the session is at revision 3, not 2" in refused.stderr


def test_recover_body_on_stdout_and_json(at: list[str]) -> None:
    told = _run("recover", "--body", "-", *at)
    assert json.loads(told.stdout_bytes)["messages"] == [*BODY["messages"], CALL]  # type: ignore[misc]
    assert told.stderr.startswith("anthropic-messages, revision 1")
    known = json.loads(_run("recover", "--json", *at).stdout)
    assert known["format"] == "FORMAT_ANTHROPIC_MESSAGES"
    content = base64.b64decode(known["open_calls"][0]["content"])
    assert json.loads(content) == CALL["content"][0]  # type: ignore[index]
    assert "body" not in json.loads(_run("recover", "--json", "--body", "-", *at).stderr)


def test_record_and_recover_wrong_use_and_refusals(at: list[str], tmp_path: Path) -> None:
    _run("record", *at, code=2)
    _run("record", "--receipt", "t1", *at, code=2)
    assert "not-started" in _run("record", "--receipt", "t1=done", *at, code=2).stderr
    _run("recover", "--request-id", "x", *at, code=2)
    assert "CALL_NOT_FOUND" in _run("record", "--receipt", "t9=settled", *at, code=1).stderr
    (tmp_path / "items").write_bytes(b"[{]")
    assert "JSON array" in _run("record", "--items", str(tmp_path / "items"), *at, code=1).stderr
    missing = [*at[2:], "--session", "nobody"]
    assert "no such session" in _run("recover", *missing, code=1).stderr
    _run("record", "--items", str(tmp_path / "none"), *at, code=2)


@pytest.mark.parametrize("command", ["record", "recover"])
def test_help_shows_an_example(command: str) -> None:
    told = _run(command, "--help").stdout
    assert f"trimtab {command} --session s1" in told
