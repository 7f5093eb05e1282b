"""Which checkpoints are live, and which of these apply to a body.

A checkpoint is live when it was neither taken back nor superseded by one that was not taken back. A live one applies when all
its sources stand in the body in order, and no item outside of them answers a call that it covers; else it steps aside, and the
raw items stand. Of two that overlap the earlier committed applies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from fastpath import Item, Kind, Part, Role
from sidecar.core.compaction import CheckpointRecord, RollbackRecord
from sidecar.core.units import Unit

__all__ = ["Applicable", "applicable", "go_on_applying", "live_checkpoints", "taken_back", "unsound"]

RESULT = int(Kind.RESULT)  # a member of an IntEnum costs as much as the rest of such a loop


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
    first = {unit.first: unit for unit in units}
    owned = {index for unit in units for call in unit.calls for index in call.results}
    orphans = [
        (part.item, decode(part.id_start, part.id_end))
        for index, part in enumerate(parts)
        if part[0] == RESULT and part.id_start >= 0 and index not in owned
    ]
    for record in live:
        placed = _place(record, numbers, index_of)
        if placed is None or not taken.isdisjoint(placed.gone) or _answered_elsewhere(placed, first, parts, orphans):
            aside.append(record)
            continue
        found.append(placed)
        taken.update(placed.gone)
    return found, aside


def go_on_applying(
    earlier: Sequence[Applicable],
    same_count: int,
    items: Sequence[Item],
    parts: Sequence[Part],
    units: Sequence[Unit],
    shared: int,
) -> bool:
    """Whether checkpoints that all applied to an earlier body of the same branch do so to this one, which begins alike.

    O(what is new); False where only `applicable` can tell.

    Args:
        earlier: all live ones; they applied to the earlier body.
        same_count: leading items that are byte-equal in both, with the same matches.
        items: of the body.
        parts: of the body.
        units: of the body.
        shared: leading units that are those of the earlier body.
    """
    reach = max((max(*each.gone, *each.trims, each.after) for each in earlier if each.gone or each.trims), default=-1)
    if reach >= same_count or (shared < len(units) and reach >= units[shared].first):
        return False
    owned = {index for unit in units[shared:] for call in unit.calls for index in call.results}
    start = items[same_count].first_part if same_count < len(items) else len(parts)
    return all(index in owned or parts[index][0] != RESULT for index in range(start, len(parts)))


def unsound(
    applied: Sequence[Applicable], asked: int, items: Sequence[Item], may_follow: Callable[[int], bool]
) -> Applicable | None:
    """A checkpoint that leaves a beginning to the open tool loop that no summary may stand before; None when there is none.

    It was sound when it was made: a loop that had ended then may be open again, and thinking may have been turned on since.

    Args:
        applied: those that apply.
        asked: index of the last user item without results; the loop begins behind it. -1: none.
        items: of the body.
        may_follow: whether the item at an index, and all behind it, may follow a summary.
    """
    inside = [each for each in applied if each.gone and each.gone[-1] > asked]
    if not inside:
        return None
    gone = {at for each in inside for at in each.gone}
    follows = next((at for at in range(asked + 1, len(items)) if items[at].role == Role.ASSISTANT and at not in gone), -1)
    before = [(at, each) for each in inside for at in each.gone if asked < at < follows]
    return max(before, key=lambda found: found[0])[1] if before and not may_follow(follows) else None


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
    placed: Applicable, first: Mapping[int, Unit], parts: Sequence[Part], orphans: Sequence[tuple[int, bytes]]
) -> bool:
    """An item that stays answers a covered call: a late result, or a second one."""
    gone: Collection[int] = {*placed.gone, *placed.trims}
    ids: set[bytes] = set()
    for unit in (first[at] for at in placed.gone if at in first):
        for call in unit.calls:
            if call.item not in gone:
                continue  # the turn went on after a text of it was covered: the checkpoint does not cover this call
            ids.add(call.id)
            if any(parts[index].item not in gone for index in call.results):
                return True
    ids.discard(b"")
    return any(item not in gone and id in ids for item, id in orphans)
