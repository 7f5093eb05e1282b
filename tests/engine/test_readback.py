"""Answers to a model's call of the read-back tool, through the dialects' own adapters."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath import decode_string
from sidecar.core.errors import CorruptedError, MalformedBodyError, SessionNotFoundError
from sidecar.core.readback import ANSWER_BYTES, READ_BACK_TOOL_NAME, fit_text, show
from sidecar.core.types import Format, SessionKey
from sidecar.engine.artifacts import ArtifactReader
from sidecar.engine.readback import resolve_call
from sidecar.formats import adapter
from store.store import LmdbStore
from tests.engine.held import Held
from tests.engine.test_reading import PIECES, DamagedStore

Make = Callable[[], Held]
CHAT = Format.OPENAI_CHAT
MESSAGES = Format.ANTHROPIC_MESSAGES
GOES_ON = re.compile(r"(?:continue with|call again with) start=(\d+)")
PART = re.compile(r"\[bytes (\d+) to (\d+) of artifact ([0-9a-f]{32}): (\d+) bytes")


def call_of(format: Format, arguments: object, name: str = READ_BACK_TOOL_NAME) -> bytes:
    """A call as a model makes it; a string is the arguments' text as it stands."""
    if format is CHAT:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        return json.dumps({"id": "call_1", "type": "function", "function": {"name": name, "arguments": text}}).encode()
    return json.dumps({"type": "tool_use", "id": "toolu_1", "name": name, "input": arguments}).encode()


def answer(store: LmdbStore, key: SessionKey, arguments: object, format: Format = CHAT) -> str:
    """The text of the answer, which must be no error."""
    text, is_error = answer_or_error(store, key, arguments, format)
    assert not is_error, text
    return text


def answer_or_error(store: LmdbStore, key: SessionKey, arguments: object, format: Format = CHAT) -> tuple[str, bool]:
    result, not_ours = resolve_call(adapter(format), ArtifactReader(store), key, call_of(format, arguments))
    assert not not_ours
    item = json.loads(result)
    assert item.get("tool_call_id", item.get("tool_use_id")) in ("call_1", "toolu_1")
    text = item["content"]
    assert len(text.encode()) <= ANSWER_BYTES
    is_error = text.startswith("Error: ")
    assert item.get("is_error", is_error) is is_error
    return text, is_error


def parts_of(text: str) -> tuple[str, str]:
    """What the answer says of itself, and what it shows."""
    header, newline, shown = text.partition("\n")
    assert (header[0], header[-1], newline) == ("[", "]", "\n")
    return header, shown


@pytest.mark.parametrize("format", [CHAT, MESSAGES])
def test_resolve_call_shows_the_content(store: LmdbStore, held: Make, format: Format) -> None:
    session = held()
    record = session.add_text("line 1\nzwei – 二\n".encode())
    header, shown = parts_of(answer(store, session.key, {"artifact_id": record.artifact_id}, format))
    assert shown == "line 1\nzwei – 二\n"
    assert header == f"[bytes 0 to 20 of artifact {record.artifact_id}: 20 bytes, 2 lines, text/plain; this is the end.]"


@settings(max_examples=40, deadline=None)
@given(st.lists(PIECES, min_size=1, max_size=9), st.sampled_from([1, 30_000, 70_000, 100_000]), st.integers(0, 5))
def test_resolve_call_followed_to_the_end_shows_all_of_any_content(
    store: LmdbStore, held: Make, pieces: list[bytes], size: int, first: int
) -> None:
    session = held()
    raw = b"".join(pieces) * (size // sum(map(len, pieces)) + 1)
    record = session.add(raw)
    content = decode_string(raw)
    at: int | None = min(first, len(content))
    shown_parts, spans = [], []
    while at is not None:
        header, shown = parts_of(answer(store, session.key, {"artifact_id": record.artifact_id, "start": at}))
        part = PART.match(header)
        assert part is not None
        spans.append((int(part[1]), int(part[2])))
        shown_parts.append(shown)
        goes_on = GOES_ON.search(header)
        at = int(goes_on[1]) if goes_on else None
    assert spans[0][0] in range(max(0, min(first, len(content)) - 3), min(first, len(content)) + 1)
    assert [end for _, end in spans[:-1]] == [start for start, _ in spans[1:]]
    assert spans[-1][1] == len(content)
    assert shown_parts == [show(content[start:end]) for start, end in spans]


def test_resolve_call_cuts_no_character(store: LmdbStore, held: Make) -> None:
    session = held()
    content = "🙂".encode() * 20_000
    record = session.add_text(b"x" + content)
    for start in range(6):
        header, shown = parts_of(answer(store, session.key, {"artifact_id": record.artifact_id, "start": start}))
        assert "\ufffd" not in shown
        assert shown.strip("🙂") == ("x" if start == 0 else "")
        assert "continue with start=" in header
    _, shown = parts_of(answer(store, session.key, {"artifact_id": record.artifact_id, "start": 1, "end": 12}))
    assert shown == "🙂🙂"


@pytest.mark.parametrize("write", [int, float, str, lambda number: f" {number} "])
def test_resolve_call_takes_numbers_as_models_write_them(store: LmdbStore, held: Make, write: Callable[[int], object]) -> None:
    session = held()
    record = session.add_text(b"0123456789")
    header, shown = parts_of(
        answer(store, session.key, {"artifact_id": record.artifact_id, "start": write(3), "end": write(7), "pattern": None})
    )
    assert shown == "3456"
    assert header.endswith("; the content goes on at start=7.]")


@pytest.mark.parametrize("wrap", ["{}", " {}\n", '"{}"', "[{}]", "artifact:{}", "artifact_id={}", "`{}`", "<{}>"])
def test_resolve_call_takes_ids_as_models_write_them(store: LmdbStore, held: Make, wrap: str) -> None:
    session = held()
    record = session.add_text(b"found")
    for artifact_id in (record.artifact_id, record.artifact_id.upper(), record.sha256.hex()):
        assert parts_of(answer(store, session.key, {"artifact_id": wrap.format(artifact_id)}))[1] == "found"


@pytest.mark.parametrize("format", [CHAT, MESSAGES])
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "artifact_id is missing"),
        ({"artifact_id": ""}, "artifact_id is missing"),
        ({"artifact_id": 7}, "artifact_id is missing"),
        ({"artifact_id": None}, "artifact_id is missing"),
        ({"artifact_id": "0123456789ab"}, "not one id of 32 hex digits"),
        ({"artifact_id": "0" * 32}, "no artifact 00000000000000000000000000000000"),
        ({"artifact_id": "ID", "start": -1}, "start must be a whole number"),
        ({"artifact_id": "ID", "start": 1.5}, "start must be a whole number"),
        ({"artifact_id": "ID", "start": True}, "start must be a whole number"),
        ({"artifact_id": "ID", "end": "ten"}, "end must be a whole number"),
        ({"artifact_id": "ID", "start": 11}, "past the end: the content has 10 bytes"),
        ({"artifact_id": "ID", "start": 10**30}, "past the end: the content has 10 bytes"),
        ({"artifact_id": "ID", "start": 7, "end": 3}, "end must not be before start"),
        ({"artifact_id": "ID", "start": 11, "pattern": "x"}, "past the end: the content has 10 bytes"),
        ({"artifact_id": "ID", "pattern": ["x"]}, "pattern must be a string"),
        ({"artifact_id": "ID", "pattern": "x", "regex": "yes"}, "regex must be true or false"),
        ({"artifact_id": "ID", "pattern": "(", "regex": True}, "does not compile"),
        ({"artifact_id": "ID", "pattern": "x" * 5_000}, "at most 4096"),
    ],
)
def test_resolve_call_of_a_wrong_call_tells_the_model_what_to_do(
    store: LmdbStore, held: Make, arguments: dict[str, object], says: str, format: Format
) -> None:
    session = held()
    record = session.add_text(b"0123456789")
    given = {name: record.artifact_id if value == "ID" else value for name, value in arguments.items()}
    text, is_error = answer_or_error(store, session.key, given, format)
    assert is_error
    assert says in text


@pytest.mark.parametrize(
    "arguments", ["", "{", "[]", '"x"', "null", "not json", '{"artifact_id": "\\ud800"}', "[" * 5_000, '{"a":NaN}']
)
def test_resolve_call_of_arguments_that_are_no_object_tells_the_model(store: LmdbStore, held: Make, arguments: str) -> None:
    session = held()
    session.add_text(b"x")
    text, is_error = answer_or_error(store, session.key, arguments)
    assert is_error
    assert "not a JSON object" in text or "is missing" in text


def test_resolve_call_says_that_it_does_not_know_an_argument(store: LmdbStore, held: Make) -> None:
    session = held()
    record = session.add_text(b"0123456789")
    header, shown = parts_of(answer(store, session.key, {"artifact_id": record.artifact_id, "offset]\n[x": 3}))
    assert "There is no argument offsetx: use start and end, in bytes" in header
    assert shown == "0123456789"


def test_resolve_call_of_another_tool_is_not_ours(store: LmdbStore, held: Make) -> None:
    session = held()
    for format in (CHAT, MESSAGES):
        for name in ("read_file", "trimtab_read_", "Trimtab_read"):
            assert resolve_call(adapter(format), ArtifactReader(store), session.key, call_of(format, {}, name)) == (b"", True)


def test_resolve_call_of_what_is_no_call_raises(store: LmdbStore, held: Make) -> None:
    with pytest.raises(MalformedBodyError):
        resolve_call(adapter(CHAT), ArtifactReader(store), held().key, b"[]")


def test_resolve_call_in_an_unknown_session_raises(store: LmdbStore) -> None:
    with pytest.raises(SessionNotFoundError):
        resolve_call(adapter(CHAT), ArtifactReader(store), SessionKey("", "nobody"), call_of(CHAT, {"artifact_id": "0" * 32}))


def test_resolve_call_of_damaged_content_raises(store: LmdbStore, held: Make) -> None:
    """Ensure that damage is told to the agent, not to the model as a wrong call."""
    session = held()
    record = session.add_text(b"x" * 100)
    damaged = DamagedStore(store)
    damaged.at = record.start + 50
    with pytest.raises(CorruptedError):
        resolve_call(adapter(CHAT), ArtifactReader(damaged), session.key, call_of(CHAT, {"artifact_id": record.artifact_id}))  # type: ignore[arg-type]


def test_resolve_call_of_binary_content_describes_it_and_gives_ranges_in_base64(store: LmdbStore, held: Make) -> None:
    session = held()
    content = b"\x89PNG\0" + bytes(range(256)) * 400
    record = session.add_media(content)
    text = answer(store, session.key, {"artifact_id": record.artifact_id})
    assert f"{len(content)} bytes, image/png, not text" in text
    assert "start=0, end=1024" in text
    got, at = b"", 0
    while at < len(content):
        header, shown = parts_of(answer(store, session.key, {"artifact_id": record.artifact_id, "start": at}))
        assert "in base64" in header
        got += base64.b64decode(shown, validate=True)
        goes_on = GOES_ON.search(header)
        at = int(goes_on[1]) if goes_on else len(content)
    assert got == content
    _, shown = parts_of(answer(store, session.key, {"artifact_id": record.artifact_id, "start": 1, "end": 4}))
    assert base64.b64decode(shown) == b"PNG"


def test_resolve_call_with_a_pattern_lists_hits_with_their_bytes(store: LmdbStore, held: Make) -> None:
    session = held()
    content = b"".join(b"entry %d: %s\n" % (n, b"FAILED" if n % 4 == 1 else b"ok") for n in range(10))
    record = session.add_text(content)
    header, shown = parts_of(answer(store, session.key, {"artifact_id": record.artifact_id, "pattern": "FAILED"}))
    assert "3 hits" in header
    assert shown.splitlines() == [
        f"line {n + 1}, byte {content.index(b'entry %d' % n) + 9}: entry {n}: FAILED" for n in (1, 5, 9)
    ]
    header, shown = parts_of(
        answer(store, session.key, {"artifact_id": record.artifact_id, "pattern": "^entry [89]", "regex": True})
    )
    assert [line.split(": ", 1)[1] for line in shown.splitlines()] == ["entry 8: ok", "entry 9: FAILED"]
    header, shown = parts_of(answer(store, session.key, {"artifact_id": record.artifact_id, "pattern": "^entry"}))
    assert ("no hit" in header, shown) == (True, "")


@pytest.mark.parametrize(("word", "filler"), [("needle", " and some more of the line"), ("é", "é" * 500), ("x\ny", "z")])
def test_resolve_call_with_a_pattern_followed_to_the_end_shows_every_line(
    store: LmdbStore, held: Make, word: str, filler: str
) -> None:
    session = held()
    content = "".join(f"{n} {word}{filler}\n" for n in range(900))
    record = session.add_text(content.encode())
    lines, at = [], 0
    for _ in range(900):
        header, shown = parts_of(answer(store, session.key, {"artifact_id": record.artifact_id, "pattern": word, "start": at}))
        lines += [int(line.split(",")[0].removeprefix("line ")) for line in shown.splitlines() if line.startswith("line ")]
        goes_on = GOES_ON.search(header)
        if goes_on is None:
            break
        assert int(goes_on[1]) > at
        at = int(goes_on[1])
    expected = [1 + n * (1 + word.count("\n")) for n in range(900)]
    assert sorted(set(lines)) == expected


@settings(max_examples=200)
@given(st.binary(max_size=300), st.integers(16, 100), st.booleans())
def test_fit_text_of_any_content_shows_what_it_says_and_gets_on(content: bytes, limit: int, more: bool) -> None:
    text, size = fit_text(content, limit, more=more)
    assert text == show(content[:size])
    assert len(text.encode()) <= limit
    assert size > 0 or not content


@given(st.text(max_size=200), st.integers(16, 60))
def test_fit_text_of_any_text_shows_whole_characters(text: str, limit: int) -> None:
    content = text.encode("utf-8", "replace")
    shown, size = fit_text(content, limit, more=False)
    assert shown == content[:size].decode()
    assert size > min(limit, len(content)) - 4
