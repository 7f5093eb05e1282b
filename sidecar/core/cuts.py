"""Candidates: values of a body that could leave it, and what would stand in their place.

Finding a candidate costs a look at spans; building one decodes and hashes its content and writes its stub, so only those that
the ladder reaches are built. Which may go is said here (kinds, sizes, what is never touched); which do go, and in what order,
in `fit.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from fastpath import Item, Kind, Part, PartFlag, Role, ValueType, decode_string, locate, path_at, strings
from sidecar.core.artifacts import build_artifact
from sidecar.core.paths import raw_path, shift
from sidecar.core.stubs import ARGUMENTS_MIN_BYTES, RESULT_MIN_BYTES, StubFacts, stub_text
from sidecar.core.types import ArtifactRecord, Encoding, Path, ReductionKind
from sidecar.core.units import Call
from sidecar.formats.base import Adapter
from sidecar.formats.spelling import style_of

__all__ = [
    "Built",
    "Candidate",
    "argument_candidates",
    "build",
    "content_of",
    "media_candidates",
    "reasoning_candidates",
    "result_candidates",
    "text_of",
]

STUB_BYTES = 160
MEDIA_MIN_BYTES = 1024
_QUOTE = ord('"')


class Candidate(NamedTuple):
    """A value that could leave."""

    kind: ReductionKind
    item: int  # index in the body
    path: Path  # in the item as it came
    start: int  # span of the value in the body
    end: int
    call: Call | None
    is_error: bool
    media_type: str = ""
    payload: tuple[int, int] | None = None  # base64 span of a medium, in the body


class Built(NamedTuple):
    """A candidate with what replaces it."""

    candidate: Candidate
    raw_path: Path
    replacement: bytes  # JSON value; empty: left out
    artifact: ArtifactRecord
    content: bytes
    saved_bytes: int


def result_candidates(
    body: bytes,
    items: Sequence[Item],
    parts: Sequence[Part],
    index: int,
    call: Call,
    taken: set[Path],
    min_bytes: int = RESULT_MIN_BYTES,
) -> Iterator[Candidate]:
    """Values of one result: every large string in it, in whatever field, media apart; or its payload whole when many are small.

    Args:
        body: as it came.
        items: of the body.
        parts: of the body.
        index: of the result part.
        call: that it answers.
        taken: paths of this item that records replaced already, as they stand in the body.
        min_bytes: smaller values stay.
    """
    part = parts[index]
    item = items[part.item]
    if part.end - part.start < min_bytes or part.flags & PartFlag.SIGNED:
        return
    server = part.kind == Kind.SERVER_RESULT
    if server and part.payload_start < 0:
        return
    whole = item.role == Role.RESULT
    # Of what a provider's own tool left, only its output may go; its frame is read by the provider.
    scope = (item.start, item.end) if whole else (part.payload_start, part.payload_end) if server else (part.start, part.end)
    base: Path = () if whole else (path_at(body, item.start, scope[0]) or ())
    kids = [p for p in parts[index + 1 : item.first_part + item.part_count] if p.start >= part.start and p.end <= part.end]
    media = [p for p in kids if p.kind == Kind.MEDIA]
    signed = any(p.flags & PartFlag.SIGNED for p in (part, *kids))
    error = bool(part.flags & PartFlag.ERROR)
    found = 0
    cut_bytes = 0
    for start, end, path in strings(body, scope[0], scope[1], min_bytes):
        if (start, end) in ((part.id_start, part.id_end), (part.name_start, part.name_end)):
            continue
        if any(p.start <= start and end <= p.end for p in media) or signed:
            continue
        full = (*base, *path)
        if _replaced(full, taken):
            continue
        found += 1
        cut_bytes += end - start
        yield Candidate(ReductionKind.RESULT, part.item, full, start, end, call, error)
    if part.payload_type not in (ValueType.ARRAY, ValueType.OBJECT) or media or signed:
        return
    rest = part.payload_end - part.payload_start - cut_bytes
    if server or found or rest < max(min_bytes, 2 * STUB_BYTES):
        return
    payload = path_at(body, item.start, part.payload_start)
    if payload is None or _replaced(payload, taken) or any(path[: len(payload)] == payload for path in taken):
        return
    yield Candidate(ReductionKind.RESULT, part.item, payload, part.payload_start, part.payload_end, call, error)


def _replaced(path: Path, taken: set[Path]) -> bool:
    """A record's replacement stands there, or around it."""
    return path in taken or any(path[: len(other)] == other for other in taken)


def media_candidates(
    adapter: Adapter,
    body: bytes,
    items: Sequence[Item],
    parts: Sequence[Part],
    item_index: int,
    call_of: Callable[[int], Call | None],
) -> Iterator[Candidate]:
    """Media of one item whose data stands in the body itself."""
    item = items[item_index]
    for index in range(item.first_part, item.first_part + item.part_count):
        part = parts[index]
        if part.kind != Kind.MEDIA or part.end - part.start < MEDIA_MIN_BYTES or part.flags & PartFlag.SIGNED:
            continue
        payload = adapter.media(body, (part.start, part.end))
        if payload is None:
            continue
        path = path_at(body, item.start, part.start)
        if path is None:
            continue
        owner = part.parent
        error = owner >= 0 and bool(parts[owner].flags & PartFlag.ERROR)
        yield Candidate(
            ReductionKind.MEDIA,
            item_index,
            path,
            part.start,
            part.end,
            call_of(owner) if owner >= 0 else None,
            error,
            payload.media_type,
            (payload.start, payload.end),
        )


def argument_candidates(body: bytes, items: Sequence[Item], call: Call, taken: set[Path]) -> Iterator[Candidate]:
    """The arguments of one call, whole."""
    part = call.part
    if call.server or part.flags & PartFlag.SIGNED or part.payload_end - part.payload_start < ARGUMENTS_MIN_BYTES:
        return
    if part.payload_type not in (ValueType.STRING, ValueType.OBJECT):
        return
    path = path_at(body, items[call.item].start, part.payload_start)
    if path is None or path in taken:
        return
    yield Candidate(ReductionKind.ARGUMENTS, call.item, path, part.payload_start, part.payload_end, call, False)


def reasoning_candidates(
    adapter: Adapter, body: bytes, items: Sequence[Item], parts: Sequence[Part], indices: Sequence[int]
) -> list[Candidate]:
    """All reasoning of one turn; empty when any of it cannot go.

    Where reasoning goes with its element, an item that would be left without content keeps it. Where it is blanked, only
    strings can be.
    """
    found: list[Candidate] = []
    for index in indices:
        part = parts[index]
        item = items[part.item]
        path = path_at(body, item.start, part.start)
        if path is None or part.flags & PartFlag.MARKED:
            return []
        if adapter.reasoning == "blank":
            if body[part.start] != _QUOTE or part.flags & PartFlag.SIGNED:
                return []
            if part.end - part.start == 2:
                continue
        else:
            others = range(item.first_part, item.first_part + item.part_count)
            if not path or not isinstance(path[-1], int) or all(parts[at].kind == Kind.REASONING for at in others):
                return []
        found.append(Candidate(ReductionKind.REASONING, part.item, path, part.start, part.end, None, False))
    return found


def build(
    adapter: Adapter,
    body: bytes,
    candidate: Candidate,
    *,
    raw: bytes,
    number: int,
    removed: list[Path],
    markers: list[Path],
    tool_name: str,
    asked: str,
    read_tool: str,
    came_from: str,
    with_preview: bool,
    create_ms: int,
) -> Built | None:
    """Decode, hash, and write what would stand in a candidate's place. None when that would not be smaller, or cannot be.

    Args:
        adapter: of the dialect.
        body: as it came.
        candidate: what would leave.
        raw: the raw item's bytes, as journaled.
        number: of that item.
        removed: raw paths of elements that the item as it came lacks.
        markers: paths of its elements that are only cache markers.
        tool_name: of the call it belongs to.
        asked: what that call asked.
        read_tool: name of the tool that reads artifacts.
        came_from: artifact id, when the result is itself a read-back.
        with_preview: results get head and tail.
        create_ms: now.
    """
    value = body[candidate.start : candidate.end]
    is_string = value[:1] == b'"'
    found = content_of(adapter, body, candidate, raw=raw, number=number, removed=removed, markers=markers, create_ms=create_ms)
    if found is None:
        return None
    path, artifact, content = found
    style = style_of(body[candidate.start : candidate.end]) if not is_string else style_of(raw)
    if candidate.kind is ReductionKind.REASONING:
        replacement = b"" if adapter.reasoning == "remove_before_last_user" else b'""'
    else:
        facts = StubFacts(
            candidate.kind,
            tool_name,
            asked,
            candidate.is_error,
            candidate.media_type,
            artifact.size_bytes,
            artifact.line_count,
            artifact.artifact_id,
            read_tool,
            came_from,
        )
        made = adapter.stub(candidate.kind, value, stub_text(facts, content, with_preview=with_preview), style)
        if made is None:
            return None
        replacement = made
    saved = candidate.end - candidate.start - len(replacement)
    if saved <= 0:
        return None
    return Built(candidate, path, replacement, artifact, content, saved)


def content_of(
    adapter: Adapter,
    body: bytes,
    candidate: Candidate,
    *,
    raw: bytes,
    number: int,
    removed: list[Path],
    markers: list[Path],
    create_ms: int,
) -> tuple[Path, ArtifactRecord, bytes] | None:
    """What a candidate holds, as an artifact of the raw item: raw path, record, content. None when it is not there.

    Args:
        adapter: of the dialect.
        body: as it came.
        candidate: a value in it.
        raw: the raw item's bytes, as journaled.
        number: of that item.
        removed: raw paths of elements that the item as it came lacks.
        markers: paths of its elements that are only cache markers.
        create_ms: now.
    """
    is_string = body[candidate.start] == _QUOTE
    path = raw_path(raw, shift(candidate.path, markers), removed, is_string=is_string)
    span = None if path is None else locate(raw, 0, path)
    if path is None or span is None:
        return None
    encoding = Encoding.JSON_STRING if is_string else Encoding.JSON
    if is_string:
        span = (span[0] + 1, span[1] - 1)
    if candidate.payload is not None:
        payload = adapter.media(raw, span)
        if payload is None:
            return None
        span, encoding = (payload.start, payload.end), Encoding.BASE64_STRING
    artifact, content = build_artifact(
        raw,
        number=number,
        start=span[0],
        end=span[1],
        encoding=encoding,
        media_type=candidate.media_type,
        create_ms=create_ms,
    )
    return path, artifact, content


def text_of(body: bytes, start: int, end: int) -> str:
    """A string value's text, or any other value as it stands, for people."""
    if start < 0:
        return ""
    raw = body[start:end]
    return (decode_string(raw[1:-1]) if raw[:1] == b'"' else raw).decode("utf-8", "replace")
