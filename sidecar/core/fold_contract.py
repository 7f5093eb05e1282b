"""What a compaction preserves, checked on every finished body: words of people in order, units whole, all else untouched.

Reads both bodies anew and trusts nothing of what planned the edits but which items leave.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

from fastpath import Edit, Item, Kind, Part, PartFlag, Role, Scan
from sidecar.core.fold import Fold
from sidecar.formats.base import Adapter

__all__ = ["broken_fold"]

_JOINED = (Kind.CALL, Kind.RESULT, Kind.SERVER_CALL, Kind.SERVER_RESULT)


def broken_fold(before: Scan, after: Scan, folded: Fold, edits: Sequence[Edit]) -> str:
    """What of the contract does not hold; "" when all of it does. O(items and parts of both).

    Args:
        before: the raw body.
        after: the finished body.
        folded: what was done.
        edits: of other records and cuts, on the raw body.
    """
    inserted = Counter(folded.texts)
    words = deque(_words(folded.adapter, after))
    for said in _words(folded.adapter, before, folded, edits):
        while words and words[0] != said and inserted[words[0]] > 0:
            inserted[words.popleft()] -= 1
        if not words or (said and words[0] != said):
            return "a word of a person was changed, lost or moved"
        words.popleft()
    while words and inserted[words[0]] > 0:
        inserted[words.popleft()] -= 1
    if words:
        return "a user or system item has something that nobody said"
    if _joints(before, folded) != _joints(after):
        return "a call or result that stays lost its id, its name or its place"
    if _signed(before, folded, edits) != _signed(after):
        return "a signed part that stays was changed"
    return ""


def _own(scanned: Scan, item: Item) -> list[Part]:
    return scanned.parts(item.first_part, item.first_part + item.part_count)


def _value(body: bytes, part: Part) -> bytes:
    """A text by its string, anything else by its bytes."""
    if part.kind == Kind.TEXT:
        span = (part.payload_start, part.payload_end) if part.payload_start >= 0 else (part.start, part.end)
        return body[slice(*span)]
    return body[part.start : part.end]


def _words(adapter: Adapter, scanned: Scan, folded: Fold | None = None, edits: Sequence[Edit] = ()) -> list[bytes]:
    """What people and the system say, in order; b"" for what an edit changes."""
    said: list[bytes] = []
    for index, item in enumerate(scanned.items()):
        if item.role not in (Role.USER, Role.SYSTEM) or (folded is not None and index in folded.gone):
            continue
        own = _own(scanned, item)
        if not own:
            said.append(_whole(adapter, scanned.body, item))
        for part in own:
            if part.parent >= 0 or part.kind in (Kind.RESULT, Kind.MARKER):
                continue
            changed = any(edit.start < part.end and part.start < edit.end for edit in edits)
            said.append(b"" if changed else _value(scanned.body, part))
    return said


def _whole(adapter: Adapter, body: bytes, item: Item) -> bytes:
    """An item whose content is one string has no parts: that string, else all of it."""
    span = adapter.content_span(body, item) if item.role == Role.USER else None
    return body[span.start : span.end] if span is not None and span.is_string else body[item.start : item.end]


def _joints(scanned: Scan, folded: Fold | None = None) -> list[tuple[int, bytes, bytes, int]]:
    """Calls and results that stay, in order, by what joins them."""
    body = scanned.body
    found: list[tuple[int, bytes, bytes, int]] = []
    for index, item in enumerate(scanned.items()):
        if folded is not None and index in folded.gone:
            continue
        span = None if folded is None else folded.kept_spans.get(index)
        for part in _own(scanned, item):
            if part.kind in _JOINED and (span is None or (span[0] <= part.start and part.end <= span[1])):
                names = body[part.id_start : part.id_end], body[part.name_start : part.name_end]
                found.append((part.kind, *names, part.flags & PartFlag.ERROR))
    return found


def _signed(scanned: Scan, folded: Fold | None = None, edits: Sequence[Edit] = ()) -> list[bytes]:
    """Signed parts that stay, byte for byte; without reasoning that an older record leaves out."""
    found = []
    for index, item in enumerate(scanned.items()):
        if folded is not None and index in folded.gone:
            continue
        for part in _own(scanned, item):
            if part.flags & PartFlag.SIGNED and not any(
                e.start <= part.start and part.end <= e.end and not e.data for e in edits
            ):
                found.append(scanned.body[part.start : part.end])
    return found
