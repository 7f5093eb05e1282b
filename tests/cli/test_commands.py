"""Commands in this process, on real stores and sidecars."""

from __future__ import annotations

import json
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest
from click.testing import CliRunner, Result

from sidecar.app import App, open_app
from sidecar.cli.main import _COMMANDS, _trimtab
from sidecar.cli.options import next_command
from sidecar.config import OPTIONS, load_config
from sidecar.core.types import Format
from sidecar.formats import ADAPTERS, NAMES
from tests.rpc.build import messages_body, to_json

LIMITS = ["--soft-bytes", "30kB", "--target-bytes", "30kB"]


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for option in OPTIONS:
        monkeypatch.delenv(option.variable, raising=False)
    yield


def _run(*arguments: str, stdin: bytes = b"", code: int = 0) -> Result:
    result = CliRunner().invoke(_trimtab, arguments, input=stdin)
    assert result.exit_code == code, result.output
    return result


def _fit(where: list[str], body: bytes, *more: str, code: int = 0) -> Result:
    flags = ["--format", "anthropic-messages", "--session", "s", "--read-back", "caller", *LIMITS]
    return _run("fit", *flags, *where, *more, stdin=body, code=code)


@pytest.fixture(params=["target", "data_dir"])
def where(request: pytest.FixtureRequest, short_path: Path) -> list[str]:
    """A running sidecar, or only a folder."""
    if request.param == "data_dir":
        return ["--data-dir", str(short_path / "own")]
    app: App = request.getfixturevalue("app")
    return ["--target", app.address]


@pytest.mark.parametrize("command", [*_COMMANDS, ""])
def test_help_of_every_command_teaches(command: str) -> None:
    text = _run(*filter(None, [command]), "--help").output
    assert text.startswith(f"Usage: trimtab {command}".rstrip())
    assert len(text) > 100


def test_help_of_serve_names_every_option_and_variable() -> None:
    text = "".join(_run("serve", "--help").output.split())
    assert [option.name for option in OPTIONS if option.flag not in text or option.variable not in text] == []


def test_fit_writes_the_body_to_stdout_and_a_summary_to_stderr(where: list[str]) -> None:
    body = to_json(messages_body(40))
    result = _fit(where, body)
    assert len(result.stdout_bytes) <= 30_000
    assert len(json.loads(result.stdout_bytes)["messages"]) == 81
    assert result.stderr.startswith(f"FITTED: {len(body):,} bytes in, {len(result.stdout_bytes):,} bytes out")
    (line,) = (line for line in result.stderr.splitlines() if "to read one: " in line)
    _run(*shlex.split(line.partition("to read one: ")[2])[1:])
    assert len(result.stderr.splitlines()) < 10
    assert result.stderr.endswith("  --verbose lists them all\n")


def test_fit_verbose_lists_every_artifact_and_blocker(where: list[str]) -> None:
    listed = _fit(where, to_json(messages_body(40)), "--verbose").stderr
    assert listed.count("  artifact ") == int(re.findall(r"(\d+) x result", listed)[0])
    assert "--verbose" not in listed
    body = messages_body(1)
    body["messages"][0]["content"] = "user text " * 4000
    assert "in the way: item 0, USER_TEXT, 40,0" in _fit(where, to_json(body), "-v", "--hard-bytes", "35kB", code=1).stderr


@pytest.mark.parametrize(
    "command", [["serve"], ["serve", "--listen", "unix:/x"], ["check"], ["backup", "/x"], ["retain", "--retain-age-s", "1"]]
)
def test_commands_that_need_a_folder_say_so_as_wrong_usage(command: list[str]) -> None:
    result = _run(*command, code=2)
    assert "--listen" in result.stderr if command == ["serve"] else "--data-dir" in result.stderr


@pytest.mark.parametrize("command", [["sessions"], ["compact", "--session", "s"], ["fit", "--format", "openai-chat"]])
@pytest.mark.parametrize(("variable", "value"), [("SOFT_BYTES", "much"), ("SOFT_BYTES", "1"), ("SUMMARIZER", "model")])
def test_wrong_value_of_an_option_is_wrong_usage_wherever_it_comes_from(
    where: list[str], monkeypatch: pytest.MonkeyPatch, command: list[str], variable: str, value: str
) -> None:
    if where[0] == "--target":
        where = ["--data-dir", where[1].removeprefix("unix:") + "-store"]  # a running sidecar has values of its own
    _fit(where, to_json(messages_body(1)))
    monkeypatch.setenv(f"TRIMTAB_{variable}", value)
    more = ["--session", "s", "--read-back", "none"] if command[0] == "fit" else []
    assert variable.lower().partition("_")[0] in _run(*command, *more, *where, code=2).stderr


def test_next_command_names_the_program_as_it_can_be_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = tmp_path / "a folder" / "trimtab"
    own.parent.mkdir()
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    told = ("read", "s 1", "x", None, None, "abc")
    monkeypatch.setattr(sys, "argv", [str(own)])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shlex.split(next_command(*told)) == [str(own), "read", "abc", "--session", "s 1", "--scope", "x"]
    monkeypatch.setenv("PATH", str(own.parent))
    assert next_command(*told) == "trimtab read abc --session 's 1' --scope x"
    monkeypatch.setattr(sys, "argv", ["pytest"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert next_command(*told).startswith("trimtab read ")


def test_formats_offered_are_those_that_there_are(where: list[str]) -> None:
    for command in ("fit", "record", "replay"):
        assert "gemini" not in _run(command, "--help").output or Format.GEMINI in ADAPTERS
    for format in ADAPTERS:
        assert NAMES[format] in _run("fit", "--help").output


def test_replay_of_what_is_no_body_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "no.json").write_bytes(b"{}")
    (tmp_path / "any.json").write_bytes(b'{"messages":[]}')
    told = _run("replay", str(tmp_path / "no.json"), code=1).stderr
    assert "no history at byte 1" in told
    assert "--format" not in told
    assert "say which with --format" in _run("replay", str(tmp_path / "any.json"), code=1).stderr


def test_fit_unchanged_body_comes_out_byte_for_byte(where: list[str]) -> None:
    body = b' {"messages" : [{"role":"user","content":"a\\u0041"}] , "x":1.0 }\n'
    result = _fit(where, body)
    assert result.stdout_bytes == body
    assert "UNCHANGED" in result.stderr


def test_fit_dry_run_gives_no_body(where: list[str]) -> None:
    result = _fit(where, to_json(messages_body(40)), "--dry-run")
    assert result.stdout_bytes == b""
    assert "FITTED" in result.stderr


def test_fit_refused_is_one_line_and_exit_code_1(where: list[str]) -> None:
    result = _fit(where, b"{", code=1)
    assert result.stdout_bytes == b""
    assert result.stderr.startswith("Error: MALFORMED_BODY: ")


def test_fit_body_that_must_not_be_sent_does_not_come_out(where: list[str]) -> None:
    body = messages_body(1)
    body["messages"][0]["content"] = "user text " * 4000
    result = _fit(where, to_json(body), "--hard-bytes", "35kB", code=1)
    assert result.stdout_bytes == b""
    assert "Error: CANNOT_FIT: " in result.stderr
    assert "in the way: 1 x USER_TEXT" in result.stderr


def test_fit_needs_somewhere_and_only_one(short_path: Path) -> None:
    assert "--target" in _fit([], b"{}", code=2).stderr
    assert "not both" in _fit(["--target", "unix:/x", "--data-dir", str(short_path)], b"{}", code=2).stderr


def test_fit_folder_held_by_a_sidecar_is_refused_by_name(app: App) -> None:
    result = _fit(["--data-dir", app.config.data_dir], b"{}", code=1)
    assert "trimtab" in result.stderr


def test_search_read_and_sessions_find_what_fit_kept(where: list[str]) -> None:
    _fit(where, to_json(messages_body(40)))
    at = ["--session", "s", *where]
    hits = _run("search", "file 3", *at, "--max", "5")
    assert hits.stdout.count("\n") == 5
    assert "--max" in hits.stderr
    artifact, line, start, text = hits.stdout.splitlines()[0].split(":", 3)
    assert text == "file 3"
    whole = _run("read", artifact, *at).stdout_bytes
    assert whole == b"file 3\n" * (2000 // 7)
    assert whole[int(start) : int(start) + 6] == b"file 3"
    assert _run("read", artifact, *at, "--lines", f"{int(line)}:{int(line) + 2}").stdout_bytes == b"file 3\n" * 2
    assert _run("read", artifact, *at, "--lines", "280:").stdout_bytes == b"file 3\n" * 5
    assert _run("read", artifact, *at, "--bytes", "2:9").stdout_bytes == whole[2:9]
    assert _run("search", r"^file \d\d$", "--regex", "--max", "1", *at).stdout.endswith(":file 10\n")
    assert "s  " in _run("sessions", *where).stdout.splitlines()[1]
    assert json.loads(_run("sessions", "s", "--json", *where).stdout)["item_count"] == "81"
    assert _run("sessions", "s", "--delete", *where).stderr == "deleted\n"
    assert _run("sessions", "s", *where, code=1).stderr.startswith("Error: SESSION_NOT_FOUND")
    assert _run("sessions", *where).stdout.count("\n") == 1


def test_read_of_an_artifact_over_the_answer_limit_comes_in_parts_without_a_seam(where: list[str]) -> None:
    """Ensure that no byte is lost or doubled where one answer (16 MiB at most) ends and the next begins."""
    lines = "".join(f"line {number}: {'x' * 50}\n" for number in range(300_000))
    body = messages_body(40)
    body["messages"][2]["content"][0]["content"] = lines
    _fit(where, to_json(body))
    at = ["--session", "s", *where]
    artifact = _run("search", "line 299999:", *at).stdout.split(":")[0]
    assert _run("read", artifact, *at).stdout_bytes == lines.encode()
    wanted = "".join(lines.splitlines(keepends=True)[10:290_000]).encode()
    assert _run("read", artifact, *at, "--lines", "10:290000").stdout_bytes == wanted
    assert _run("read", artifact, *at, "--bytes", "7:18000000").stdout_bytes == lines.encode()[7:18_000_000]


@pytest.mark.parametrize("flags", [["--bytes", "a:b"], ["--lines", "5"], ["--bytes", "0:1", "--lines", "0:1"]])
def test_read_bad_range_is_wrong_usage(flags: list[str]) -> None:
    _run("read", "0" * 32, "--session", "s", "--target", "unix:/x", *flags, code=2)


def test_command_without_a_server_says_so(short_path: Path) -> None:
    assert _run("sessions", "--target", f"unix:{short_path}/nobody", code=1).stderr.startswith("Error: UNAVAILABLE")


def test_check_of_a_sound_store_counts_and_of_a_damaged_one_fails(short_path: Path) -> None:
    folder = short_path / "own"
    _fit(["--data-dir", str(folder)], to_json(messages_body(40)))
    sound = _run("check", "--data-dir", str(folder), "--json").stdout.splitlines()
    assert json.loads(sound[-1])["item_count"] == 81
    assert json.loads(sound[-1])["error_count"] == 0
    with lmdb.open(str(folder)) as env, env.begin(write=True) as txn:
        key, value = max(txn.cursor(), key=lambda pair: len(pair[1]))
        txn.put(key, value[:-9] + bytes([value[-9] ^ 1]) + value[-8:])
    assert "error: " in _run("check", "--data-dir", str(folder), code=1).stdout


def test_config_prints_what_is_in_force_and_where_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "t.toml"
    file.write_text("threads = 3\n")
    monkeypatch.setenv("TRIMTAB_CACHE_BYTES", "1MiB")
    monkeypatch.setenv("TRIMTAB_CASHE_BYTES", "1MiB")
    result = _run("config", "--config", str(file), "--listen", "unix:/a", "--listen", "127.0.0.1:0")
    told = tomllib.loads(result.stdout)
    assert (told["threads"], told["cache_bytes"], told["listen"]) == (3, 1 << 20, ["unix:/a", "127.0.0.1:0"])
    assert "# TRIMTAB_CACHE_BYTES" in result.stdout
    assert "TRIMTAB_CASHE_BYTES" in result.stderr


def test_config_check_tells_by_exit_code(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text("thread = 3\n")
    assert _run("config", "--check").output == ""
    assert "did you mean 'threads'" in _run("config", "--check", "--config", str(file), code=2).stderr


def test_version_tells_what_runs() -> None:
    lines = dict(line.split(" ") for line in _run("version").stdout.splitlines())
    assert {"trimtab", "fastpath", "grpcio", "protobuf", "lmdb", "python"} == set(lines)


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", "a\udcff", "--session", "s"],
        ["search", "a", "--session", "s", "--context", "99999999999"],
        ["search", "a", "--session", "s", "--max", "-1"],
        ["read", "a\udcff", "--session", "s"],
        ["read", "a", "--session", "s", "--bytes", "99999999999999999999:"],
        ["sessions", "a\udcff"],
        ["sessions", "--prefix", "\udcff"],
        ["sessions", "--scope", "\udcff"],
    ],
)
def test_argument_that_no_request_can_carry_is_wrong_usage(arguments: list[str]) -> None:
    assert "Error: Invalid value" in _run(*arguments, "--target", "unix:/x", code=2).stderr


@pytest.mark.parametrize("data_dir", ["missing", "empty"])
def test_command_that_looks_leaves_a_folder_without_a_store_as_it_is(short_path: Path, data_dir: str) -> None:
    (short_path / "empty").mkdir()
    flags = ["--data-dir", str(short_path / data_dir)]
    for command in (["check"], ["sessions"], ["read", "a", "--session", "s"], ["search", "a", "--session", "s"]):
        assert "there is no store in" in _run(*command, *flags, code=1).stderr
    assert [path.name for path in short_path.iterdir()] == ["empty"]
    assert list((short_path / "empty").iterdir()) == []


def test_replay_limits_are_judged_by_the_sidecar_that_has_the_rest(short_path: Path) -> None:
    """A target over the default soft limit is right for a sidecar whose own is larger."""
    file = short_path / "b.json"
    file.write_bytes(to_json(messages_body(3)))
    flags = {"listen": (f"unix:{short_path}/s",), "data_dir": str(short_path / "data"), "soft_bytes": "1MiB"}
    with open_app(load_config(flags, {}).config) as app:
        assert "b.json" in _run("replay", str(file), "--target-bytes", "400KiB", "--target", app.address).output
