"""All records at work in a body, item by item, with what they come to together.

Pure, and nothing in a projection is mutated: the one of the body before holds for a longer body as long as every item that a
record applies to stands in both, byte for byte at the same place, and no record was added.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from fastpath import Edit, Item, Part
from sidecar.core.contract import Placed
from sidecar.core.fold import Fold
from sidecar.core.match import Matched
from sidecar.core.paths import among, marker_paths, shift
from sidecar.core.records import Applied, apply_records, removals
from sidecar.core.types import Offload, Path, ReductionKind
from sidecar.formats.base import Adapter

__all__ = ["Projection", "Totals", "holds_for", "project", "totals_of"]

Totals = dict[ReductionKind, tuple[int, int]]
"""By kind: how many reductions, and the bytes that they save."""


class Projection(NamedTuple):
    """Records at work in one body."""

    applied: list[Applied]  # by item, then in order of commit
    taken: dict[int, set[Path]]  # by item: paths, as they stand in the body, that records replaced
    saved: dict[int, int]  # by item: bytes that their edits save
    placed: list[Placed]  # the edits, in order of position
    totals: Totals
    record_count: int  # of the session, when this was made
    item_count: int  # leading items of the body that hold all items with records
    reasoning_end: int  # items from here on keep their reasoning, whatever their records say
    reasoning_back: bool  # some do
    hidden_count: int = 0  # records of items that checkpoints cover
    fold: Fold | None = None  # checkpoints at work; None: none

    @property
    def saved_bytes(self) -> int:
        """Of all edits together."""
        return sum(self.saved.values())


def project(
    adapter: Adapter,
    body: bytes,
    items: Sequence[Item],
    parts: Sequence[Part],
    matches: Sequence[Matched],
    numbers: Sequence[int],
    records: Mapping[int, Sequence[Offload]],
    record_count: int,
    reasoning_end: int,
    folded: Fold | None = None,
) -> Projection:
    """Apply records to a body. O(items), and what each record costs.

    Args:
        adapter: of the dialect.
        body: as it came.
        items: of the body.
        parts: of the body.
        matches: of each item: how many of its records it came with.
        numbers: of each item.
        records: of the session, by number of the raw item, in order of commit.
        record_count: how many there are in all.
        reasoning_end: reasoning of items from here on is current, and does not go.
        folded: checkpoints that apply.
    """
    applied: list[Applied] = []
    reasoning_back = False
    taken: dict[int, set[Path]] = {}
    item_count = 0
    hidden = 0
    for at, number in enumerate(numbers):
        own = records.get(number)
        if own and folded is not None and at in folded.gone:
            hidden += len(own)
        elif own:
            count = matches[at].record_count
            if at >= reasoning_end and any(record.kind is ReductionKind.REASONING for record in own[count:]):
                own, reasoning_back = in_force(own, count), True
            markers = marker_paths(body, items[at], parts)
            found = apply_records(adapter, body, items[at].start, at, own, count, markers=markers)[0]
            if folded is not None and at in folded.kept_spans:
                stays = [each for each in found if each.edit is None or _within(each.edit, folded.kept_spans[at])]
                hidden += len(found) - len(stays)
                found = stays
            applied.extend(found)
            taken[at] = _taken(own, removals(own, count), markers)
            item_count = at + 1
    saved: dict[int, int] = {}
    placed: list[Placed] = []
    for each in applied:
        if each.edit is not None:
            saved[each.item] = saved.get(each.item, 0) + each.edit.end - each.edit.start - len(each.edit.data)
            placed.append(Placed(each.edit, each.record.kind, each.item, True))
    totals = totals_of(applied, folded)
    if folded is not None:
        for at, size in folded.saved.items():
            saved[at] = saved.get(at, 0) + size
        placed += [Placed(edit, ReductionKind.CHECKPOINT, at, True) for edit, at in folded.edits]
        item_count = max(item_count, folded.item_count)
    placed.sort(key=lambda each: (each.edit.start, each.edit.end))
    return Projection(
        applied, taken, saved, placed, totals, record_count, item_count, reasoning_end, reasoning_back, hidden, folded
    )


def _within(edit: Edit, span: tuple[int, int]) -> bool:
    return span[0] <= edit.start and edit.end <= span[1]


def in_force(records: Sequence[Offload], record_count: int) -> list[Offload]:
    """Records of an item whose reasoning is current: those that would take it out step aside."""
    late = [record for record in records[record_count:] if record.kind is not ReductionKind.REASONING]
    return [*records[:record_count], *late]


def holds_for(
    earlier: Projection,
    same_count: int,
    numbers: Sequence[int],
    records: Collection[int],
    record_count: int,
    reasoning_end: int,
) -> bool:
    """Whether the projection of an earlier body is that of this one. O(items after the first `same_count`).

    Args:
        earlier: of a body of the same session.
        same_count: leading items that are byte-equal in both bodies, with the same matches.
        numbers: of this body's items.
        records: numbers of items that have records.
        record_count: how many records the session has.
        reasoning_end: of this body.
    """
    all_old = not earlier.reasoning_back and reasoning_end >= earlier.item_count
    same_reasoning = all_old or reasoning_end == earlier.reasoning_end
    return (
        earlier.record_count == record_count
        and same_reasoning
        and earlier.item_count <= same_count
        and not (record_count and any(number in records for number in numbers[same_count:]))
    )


def totals_of(applied: Sequence[Applied], folded: Fold | None = None) -> Totals:
    """What records save, by kind."""
    totals: Totals = {}
    for each in applied:
        edit, record = each.edit, each.record
        count, saved = totals.get(record.kind, (0, 0))
        saves = record.saved_bytes if edit is None else edit.end - edit.start - len(edit.data)
        totals[record.kind] = (count + 1, saved + saves)
    if folded is not None:
        totals[ReductionKind.CHECKPOINT] = (len(folded.applied), folded.saved_bytes)
    return totals


def _taken(records: Sequence[Offload], gone: Sequence[Path], markers: Sequence[Path]) -> set[Path]:
    """Paths of replaced values as they stand in an item that lacks `gone` and has `markers`, in both spellings of a text."""
    taken: set[Path] = set()
    for record in records:
        if not record.replacement and record.path in gone:
            continue  # another element stands there now
        path = among(shift(record.path, gone), markers)
        taken.add(path)
        if record.replacement[:1] == b'"':
            taken.add((*path, 0, b"text"))
            if path[-2:] == (0, b"text"):
                taken.add(path[:-2])
    return taken
