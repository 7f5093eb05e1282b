"""Which checkpoints are live, and which of these apply to a body.

A checkpoint is live when it was neither taken back nor superseded by one that was not taken back. A live one applies when all
its sources stand in the body in order, and no item outside of them answers a call that it covers; else it steps aside, and the
raw items stand. Of two that overlap the earlier committed applies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from fastpath import Kind, Part
from sidecar.core.compaction import CheckpointRecord, RollbackRecord
from sidecar.core.units import Unit

__all__ = ["Applicable", "applicable", "live_checkpoints", "taken_back"]


class Applicable(NamedTuple):
    """A live checkpoint that applies to a body, by places in it."""

    record: CheckpointRecord
    gone: list[int]  # indices of items that leave whole, ascending
    trims: dict[int, tuple[int, ...]]  # by index: elements of the content that leave
    after: int  # index of the item behind which the summary stands; -1: before all
    pointers: list[int]  # indices of gone items behind which a pointer stands


def taken_back(rollbacks: Iterable[RollbackRecord]) -> set[str]:
    """Ids of checkpoints that a rollback took back."""
    return {checkpoint_id for rollback in rollbacks for checkpoint_id in rollback.checkpoint_ids}


def live_checkpoints(checkpoints: Sequence[CheckpointRecord], rollbacks: Iterable[RollbackRecord]) -> list[CheckpointRecord]:
    """Those that are neither taken back nor superseded, in order of commit. O(checkpoints)."""
    back = taken_back(rollbacks)
    superseded = {other for record in checkpoints if record.checkpoint_id not in back for other in record.superseded}
    return [record for record in checkpoints if record.checkpoint_id not in back and record.checkpoint_id not in superseded]


def applicable(
    live: Sequence[CheckpointRecord],
    numbers: Sequence[int],
    index_of: Callable[[int], int],
    units: Sequence[Unit],
    parts: Sequence[Part],
    decode: Callable[[int, int], bytes],
) -> tuple[list[Applicable], list[CheckpointRecord]]:
    """Split live checkpoints into those that apply to a body and those that step aside, each in order of commit.

    Args:
        live: in order of commit.
        numbers: of the body's items.
        index_of: place of a number in the body, -1 when it is not there.
        units: of the body.
        parts: of the body.
        decode: content of the JSON value at a span.
    """
    found: list[Applicable] = []
    aside: list[CheckpointRecord] = []
    taken: set[int] = set()
    for record in live:
        placed = _place(record, numbers, index_of)
        if placed is None or not taken.isdisjoint(placed.gone) or _answered_elsewhere(placed, units, parts, decode):
            aside.append(record)
            continue
        found.append(placed)
        taken.update(placed.gone)
    return found, aside


def _place(record: CheckpointRecord, numbers: Sequence[int], index_of: Callable[[int], int]) -> Applicable | None:
    """Where its sources stand; None when one is missing or out of order."""
    gone: list[int] = []
    last = -1
    for start, end in record.gone:
        at = index_of(start)
        if at <= last or list(numbers[at : at + end - start]) != list(range(start, end)):
            return None
        gone.extend(range(at, at + end - start))
        last = gone[-1]
    trims = {index_of(trim.number): trim.blocks for trim in record.trims}
    after = -1 if record.after < 0 else index_of(record.after)
    if -1 in trims or (record.after >= 0 and after < 0):
        return None
    return Applicable(record, gone, trims, after, [index_of(number) for number in record.pointers])


def _answered_elsewhere(
    placed: Applicable, units: Sequence[Unit], parts: Sequence[Part], decode: Callable[[int, int], bytes]
) -> bool:
    """An item that stays answers a covered call: a late result, or a second one."""
    gone: Collection[int] = {*placed.gone, *placed.trims}
    owned: set[int] = set()
    ids: set[bytes] = set()
    for unit in units:
        covered = unit.first in gone
        for call in unit.calls:
            owned.update(call.results)
            if covered:
                ids.add(call.id)
                if any(parts[index].item not in gone for index in call.results):
                    return True
    ids.discard(b"")
    if not ids:
        return False
    return any(
        part.kind == Kind.RESULT
        and index not in owned
        and part.item not in gone
        and part.id_start >= 0
        and decode(part.id_start, part.id_end) in ids
        for index, part in enumerate(parts)
    )
