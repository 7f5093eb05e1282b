"""Answering a model's call of the read-back tool.

A wrong call is answered by a result that tells the model what to do: it cannot see an RPC's error, and would only try again.
Answers are text of at most 32 KiB, begin with one line in brackets that says what follows and where to go on, and hold nothing
else of ours.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from sidecar.core.artifacts import find_artifact_id
from sidecar.core.errors import ArtifactNotFoundError, PatternInvalidError
from sidecar.core.readback import ANSWER_BYTES, READ_BACK_TOOL_NAME, fit_base64, fit_text, show
from sidecar.core.types import ArtifactRecord, SessionKey
from sidecar.engine.artifacts import ArtifactReader
from sidecar.engine.covered import find_checkpoint_id, list_covered, search_covered
from sidecar.formats.base import Adapter

__all__ = ["resolve_call"]

_HEADER_BYTES = 768  # the longest line about an answer; media types are capped below
_MEDIA_TYPE_BYTES = 100
_HIT_COUNT = 200
_HIT_BEFORE_BYTES = 200
_HIT_AFTER_BYTES = 600
_HIT_STRIDE_BYTES = 500  # the next hit of a line that is shown: nearer ones are seen in what the one before shows
_KNOWN = frozenset({"artifact_id", "start", "end", "pattern", "regex"})
_EXAMPLE = f'{READ_BACK_TOOL_NAME}(artifact_id="<32 hex digits>", start=0, end=4096)'


class _WrongCallError(Exception):
    """The model must do something else; the text says what."""


class _Asked(NamedTuple):
    artifact_id: str
    start: int
    end: int | None
    ranged: bool  # start or end was given
    pattern: str
    regex: bool
    unknown: tuple[str, ...]  # arguments that there are not


def resolve_call(adapter: Adapter, reader: ArtifactReader, key: SessionKey, call: bytes) -> tuple[bytes, bool]:
    """Answer a call as the model made it.

    Args:
        adapter: of the call's dialect.
        reader: of the store.
        key: session.
        call: JSON.

    Returns:
        The result to append and False; or nothing and True when the call is not one of the read-back tool.

    Raises:
        MalformedBodyError: the call itself is not what the dialect calls one.
        SessionNotFoundError: no such session.
        CorruptedError: a digest does not hold.
    """
    parsed = adapter.parse_call(call)
    if parsed.name != READ_BACK_TOOL_NAME:
        return b"", True
    try:
        asked = _read_arguments(parsed.arguments)
        text = _answer(reader, key, asked)
    except _WrongCallError as wrong:
        return adapter.result(parsed, f"Error: {wrong}", is_error=True), False
    return adapter.result(parsed, text, is_error=False), False


def _read_arguments(arguments: bytes | None) -> _Asked:
    try:
        given = msgspec.json.decode(show(arguments or b"")) if arguments is not None else None
    except (msgspec.DecodeError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise _WrongCallError(f"The arguments are not a JSON object. Call it like this: {_EXAMPLE}")
    artifact_id = given.get("artifact_id")
    if not isinstance(artifact_id, str) or not artifact_id.strip():
        raise _WrongCallError(
            f"artifact_id is missing: give the id that stands where the content was. Call it like this: {_EXAMPLE}"
        )
    found = find_artifact_id(artifact_id) or find_checkpoint_id(artifact_id)
    if found is None:
        raise _WrongCallError(
            "artifact_id is not one id of 32 hex digits. Copy it whole from where the content was; a part of an id does not do."
        )
    start, end = _offset(given, "start"), _offset(given, "end")
    pattern = given.get("pattern")
    if pattern is not None and not isinstance(pattern, str):
        raise _WrongCallError("pattern must be a string.")
    regex = given.get("regex")
    if regex is not None and not isinstance(regex, bool):
        raise _WrongCallError("regex must be true or false.")
    unknown = tuple(name for name in given if name not in _KNOWN)
    return _Asked(
        found, start or 0, end, start is not None or end is not None, pattern or "", bool(regex), unknown
    )  # fmt: skip


def _offset(given: dict[str, object], name: str) -> int | None:
    """A byte offset. Models also write 4096.0, "4096" and null."""
    value = given.get(name)
    if value is None or value == "":
        return None
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value) < 20:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _WrongCallError(f"{name} must be a whole number of bytes, from 0.")
    return value


def _answer(reader: ArtifactReader, key: SessionKey, asked: _Asked) -> str:
    checkpoint_id = find_checkpoint_id(asked.artifact_id)
    try:
        if checkpoint_id is not None:
            return _covered(reader, key, checkpoint_id, asked)
        if asked.pattern:
            return _search(reader, key, asked)
        return _read(reader, key, asked)
    except ArtifactNotFoundError:
        kind = "artifact" if checkpoint_id is None else "checkpoint"
        raise _WrongCallError(
            f"There is no {kind} {asked.artifact_id} in this conversation. Asking again with this id will not help: compare it "
            "with the id that stands where the content was, or get the content anew from its source."
        ) from None
    except PatternInvalidError as error:
        raise _WrongCallError(f"{error}. Leave regex out to search for the text as it stands.") from None


def _covered(reader: ArtifactReader, key: SessionKey, checkpoint_id: str, asked: _Asked) -> str:
    """What a summary covers; start counts contents there."""
    room = ANSWER_BYTES - _HEADER_BYTES
    if not asked.pattern:
        return list_covered(reader, key, checkpoint_id, asked.start, room)
    literal, regex = (None, asked.pattern) if asked.regex else (asked.pattern, None)
    return search_covered(reader, key, checkpoint_id, asked.start, room, literal=literal, regex=regex)


def _check_range(asked: _Asked, size_bytes: int) -> None:
    if asked.end is not None and asked.end < asked.start:
        raise _WrongCallError(f"end must not be before start. The content has {size_bytes} bytes.")
    if asked.start > size_bytes:
        raise _WrongCallError(f"start={asked.start} is past the end: the content has {size_bytes} bytes.")


def _read(reader: ArtifactReader, key: SessionKey, asked: _Asked) -> str:
    room = ANSWER_BYTES - _HEADER_BYTES
    # Three bytes before start, to begin at a character, and what a character at the end may take.
    low = max(0, asked.start - 3)
    size = reader.find(key, asked.artifact_id).size_bytes
    _check_range(asked, size)
    got = reader.read(key, asked.artifact_id, byte_range=(low, asked.end), max_bytes=room + 8)
    record = got.record
    if record.line_count == 0 and size:
        return _read_binary(record, got.content[asked.start - low :], asked, room)
    skip = asked.start - low
    while skip > 0 and skip < len(got.content) and got.content[skip] & 0xC0 == 0x80 and _inside_character(got.content, skip):
        skip -= 1
    start = low + skip
    content = got.content[skip:]
    wanted_end = size if asked.end is None else min(asked.end, size)
    text, shown = fit_text(content, room, more=start + len(content) < size)
    return f"{_header(record, asked, start, start + shown, wanted_end)}\n{text}"


def _inside_character(content: bytes, at: int) -> bool:
    """A character that begins before `at` reaches over it."""
    for back in range(1, min(3, at) + 1):
        lead = content[at - back]
        if lead & 0xC0 == 0x80:
            continue
        return back < (1 if lead < 0xC0 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4)
    return False


def _read_binary(record: ArtifactRecord, content: bytes, asked: _Asked, room: int) -> str:
    if not asked.ranged:
        return (
            f"[{_facts(record)}, not text. It cannot be shown as it was; to see its bytes in base64, call again with a range, "
            f"such as start=0, end={min(record.size_bytes, 1024)}.{_ignored(asked)}]"
        )
    wanted_end = record.size_bytes if asked.end is None else min(asked.end, record.size_bytes)
    text, shown = fit_base64(content[: wanted_end - asked.start], room)
    return f"{_header(record, asked, asked.start, asked.start + shown, wanted_end, 'in base64')}\n{text}"


def _search(reader: ArtifactReader, key: SessionKey, asked: _Asked) -> str:
    _check_range(asked, reader.find(key, asked.artifact_id).size_bytes)
    record, hits, after = reader.search_range(
        key,
        asked.artifact_id,
        literal=None if asked.regex else asked.pattern,
        regex=asked.pattern if asked.regex else None,
        byte_range=(asked.start, asked.end),
        want=_HIT_COUNT,
        before_bytes=_HIT_BEFORE_BYTES,
        after_bytes=_HIT_AFTER_BYTES,
        stride_bytes=_HIT_STRIDE_BYTES,
    )
    room = ANSWER_BYTES - _HEADER_BYTES
    lines: list[str] = []
    for hit in hits:
        line = f"line {hit.line + 1}, byte {hit.start}: {show(hit.text)}\n"
        room -= len(line.encode())
        if room < 0:
            after = hit.start
            break
        lines.append(line)
    what = "no hit" if not lines else "1 hit" if len(lines) == 1 else f"{len(lines)} hits"
    more = "" if after is None else f"; for more, call again with start={after}"
    return f"[{_facts(record)}: {what} from byte {asked.start} on{more}.{_ignored(asked)}]\n{''.join(lines)}"


def _header(record: ArtifactRecord, asked: _Asked, start: int, end: int, wanted_end: int, how: str = "") -> str:
    spelled = f" {how}" if how else ""
    part = f"bytes {start} to {end} of {_facts(record)}{spelled}"
    if end < wanted_end:
        return f"[{part}; continue with start={end}.{_ignored(asked)}]"
    rest = f"; the content goes on at start={end}" if end < record.size_bytes else "; this is the end"
    return f"[{part}{rest}.{_ignored(asked)}]"


def _facts(record: ArtifactRecord) -> str:
    lines = f", {record.line_count} lines" if record.line_count else ""
    media_type = "".join(c for c in record.media_type if c.isascii() and c.isprintable() and c not in "[]\"'")[:_MEDIA_TYPE_BYTES]
    return f"artifact {record.artifact_id}: {record.size_bytes} bytes{lines}, {media_type}"


def _ignored(asked: _Asked) -> str:
    if not asked.unknown:
        return ""
    names = ", ".join("".join(c for c in name if c.isascii() and (c.isalnum() or c == "_"))[:32] for name in asked.unknown[:3])
    return f" There is no argument {names}: use start and end, in bytes, or pattern."
