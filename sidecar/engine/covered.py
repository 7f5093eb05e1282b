"""What a summary covers, for a model that knows the checkpoint's id and no artifact's: a list, and a search through all of it.

A summary is bounded, so it cannot name each artifact; the read-back tool does, by the id in the summary's first line.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from sidecar.core.branch import BranchIndex
from sidecar.core.foreign import one_line
from sidecar.core.readback import show
from sidecar.core.types import ArtifactRecord, ArtifactSource, SessionKey
from sidecar.engine.artifacts import ArtifactReader

__all__ = ["find_checkpoint_id", "list_covered", "search_covered"]

_ID = re.compile(r"\W*(?:checkpoint )?(c[1-9][0-9]{0,8})\W*")
_TOOL_BYTES = 64
_SEARCH_BYTES = 16 << 20  # of content that one answer looks through
_HIT_COUNT = 20  # of one content: the rest is found by its own id
_HIT_BEFORE_BYTES, _HIT_AFTER_BYTES = 100, 300


class _Entry(NamedTuple):
    """One value that was covered."""

    item_index: int  # of its item on the current branch; -1: it is not there
    source: ArtifactSource
    record: ArtifactRecord


def find_checkpoint_id(text: str) -> str | None:
    """The id of a checkpoint, when that is what a text is."""
    found = _ID.fullmatch(text)
    return None if found is None else found[1]


def list_covered(reader: ArtifactReader, key: SessionKey, checkpoint_id: str, start: int, room: int) -> str:
    """Every value that can be read back, in order of the history, one a line.

    Args:
        reader: of the store.
        key: session.
        checkpoint_id: live, superseded or taken back.
        start: the first entry to tell, from 0.
        room: bytes of the lines, at most.

    Raises:
        SessionNotFoundError: no such session.
        ArtifactNotFoundError: no such checkpoint.
    """
    entries = _entries(reader, key, checkpoint_id)
    lines: list[str] = []
    for entry in entries[start:]:
        line = f"{_place(entry)}: {entry.record.size_bytes} bytes, artifact_id {entry.record.artifact_id}\n"
        room -= len(line.encode())
        if room < 0:
            break
        lines.append(line)
    end = min(start, len(entries)) + len(lines)
    more = f"; continue with start={end}" if end < len(entries) else ""
    return f"[checkpoint {checkpoint_id}: contents {start} to {end} of {len(entries)} that it covers{more}]\n{''.join(lines)}"


def search_covered(
    reader: ArtifactReader, key: SessionKey, checkpoint_id: str, start: int, room: int, *, literal: str | None, regex: str | None
) -> str:
    """Lines that match in all that can be read back. Arguments and errors as `list_covered`; PatternInvalidError."""
    entries = _entries(reader, key, checkpoint_id)
    lines: list[str] = []
    seen: set[str] = set()
    scanned = 0
    at = min(start, len(entries))
    while at < len(entries) and scanned < _SEARCH_BYTES:
        entry = entries[at]
        scanned += entry.record.size_bytes
        found = [] if entry.record.artifact_id in seen else _hits(reader, key, entry, literal, regex)
        seen.add(entry.record.artifact_id)
        room -= sum(len(line.encode()) for line in found)
        if room < 0 and lines:
            break
        lines += found
        at += 1
        if room < 0:
            break
    what = "no hit" if not lines else f"{len(lines)} lines"
    more = f"; for more, call again with start={at}" if at < len(entries) else ""
    where = f"in contents {start} to {at} of {len(entries)} that it covers"
    return f"[checkpoint {checkpoint_id}: {what} {where}{more}]\n{''.join(lines)}"


def _hits(reader: ArtifactReader, key: SessionKey, entry: _Entry, literal: str | None, regex: str | None) -> list[str]:
    record, hits, after = reader.search_range(
        key,
        entry.record.artifact_id,
        literal=literal,
        regex=regex,
        want=_HIT_COUNT,
        before_bytes=_HIT_BEFORE_BYTES,
        after_bytes=_HIT_AFTER_BYTES,
        stride_bytes=_HIT_AFTER_BYTES,
    )
    head = f"{_place(entry)}, artifact_id {record.artifact_id}"
    told = [f"{head}, line {hit.line + 1}, byte {hit.start}: {show(hit.text)}\n" for hit in hits]
    if after is not None:
        told.append(f"{head}: more from byte {after} on\n")
    return told


def _place(entry: _Entry) -> str:
    item = f"item {entry.item_index}" if entry.item_index >= 0 else "an item that is not in this history"
    error = ", an error" if entry.source.is_error else ""
    return f"{item} {one_line(entry.source.tool_name, _TOOL_BYTES)}{error}"


def _entries(reader: ArtifactReader, key: SessionKey, checkpoint_id: str) -> list[_Entry]:
    image, sources = reader.covered(key, checkpoint_id)
    index = BranchIndex(image.head.branch)
    found: dict[tuple[int, str], _Entry] = {}
    for source in sources:
        place = (source.number, source.artifact_id)
        if place not in found:
            found[place] = _Entry(index.index_of(source.number), source, reader.find(key, source.artifact_id))
    return sorted(found.values(), key=lambda entry: (entry.item_index < 0, entry.item_index, entry.source.number))
