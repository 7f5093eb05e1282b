"""Records applied to a body: the edits that make a projection out of raw items.

A projection is a pure function of the raw items and the records: what limits, pins or usage a call brings shapes new records
only. An item that comes as it was sent already holds its older records; only newer ones are applied to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fastpath import Edit
from sidecar.core.paths import among, find, removal_spans, shift
from sidecar.core.types import Offload, Path
from sidecar.formats.base import Adapter
from sidecar.formats.spelling import style_of

__all__ = ["Applied", "apply_records", "removals", "replace_value"]


class Applied(NamedTuple):
    """A record at work in a body."""

    item: int  # index in the body
    record: Offload
    edit: Edit | None  # None: the item came with it applied, or a client changed the value beyond recognition


def replace_value(adapter: Adapter, body: bytes, span: tuple[int, int], replacement: bytes) -> Edit:
    """The edit that puts a replacement in a value's place; a cache marker that the client set on the value stays with it."""
    if replacement[:1] in (b"{", b"["):
        replacement = adapter.with_marker(replacement, body[span[0] : span[1]], style_of(replacement))
    return Edit(span[0], span[1], replacement)


def removals(records: Sequence[Offload], record_count: int) -> list[Path]:
    """Raw paths of elements that an item lacks when its first records are applied."""
    return [record.path for record in records[:record_count] if not record.replacement]


def apply_records(
    adapter: Adapter,
    body: bytes,
    start: int,
    item: int,
    records: Sequence[Offload],
    record_count: int,
    going: Sequence[Path] = (),
    markers: Sequence[Path] = (),
) -> tuple[list[Applied], dict[Path, tuple[int, int]]]:
    """Edits of one item.

    Args:
        adapter: of the dialect.
        body: as it came.
        start: where the item begins in it.
        item: its index.
        records: all of the raw item, in order of commit.
        record_count: how many of them the item came with.
        going: raw paths of further elements that are about to be left out of it.
        markers: paths of its elements that are only cache markers.

    Returns:
        One `Applied` for each record, in order of commit; and the spans of the elements in `going`, by raw path.
    """
    gone = removals(records, record_count)
    late = [record.path for record in records[record_count:] if not record.replacement]
    moved = {path: among(shift(path, gone), markers) for path in (*late, *going)}
    spans = removal_spans(body, start, moved.values()) if moved else {}
    applied: list[Applied] = [Applied(item, record, None) for record in records[:record_count]]
    for record in records[record_count:]:
        edit: Edit | None = None
        if record.replacement:
            span = find(body, start, record.path, gone, is_string=record.replacement[:1] == b'"', markers=markers)
            if span is not None:
                edit = replace_value(adapter, body, span, record.replacement)
        else:
            span = spans.get(moved[record.path])
            edit = None if span is None else Edit(span[0], span[1], b"")
        applied.append(Applied(item, record, edit))
    return applied, {path: spans[moved[path]] for path in going if moved[path] in spans}
