"""What every operation preserves, as data, and the check of it on every finished body.

PRESERVES is the table; `check_finished` holds a finished body against it, always, before the body leaves. It reads the finished
body anew: nothing that planned the edits is trusted. What is byte-equal outside the edits needs no further look, so the cost
follows the edits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from fastpath import Edit, Item, Kind, Part, PartFlag, Role, Scan, is_spliced
from sidecar.core.errors import InternalError
from sidecar.core.fold import Fold
from sidecar.core.fold_contract import broken_fold
from sidecar.core.types import ReductionKind
from sidecar.core.units import Unit
from sidecar.formats.base import Violation

__all__ = ["PRESERVES", "Placed", "Preserves", "check_finished", "new_violations", "open_spans", "shifted"]


class Preserves(NamedTuple):
    """How an operation keeps each of the four things that later work needs."""

    provenance: str
    unresolved_work: str
    recovery: str
    constraints: str


PRESERVES = {
    "fit": Preserves(
        provenance="stub (for reasoning: the reduction) holds artifact, source call, position",
        unresolved_work="unsettled units are not touched",
        recovery="artifact durable and read back before the stub is handed out",
        constraints="text of user, system and developer items not touched",
    ),
    "compact": Preserves(
        provenance="checkpoint holds source digests, calls, artifacts",
        unresolved_work="only settled units retire; open requests restated",
        recovery="raw items stay in the journal; rollback restores them",
        constraints="user, system, developer text verbatim; anchors rendered",
    ),
}

_EDITABLE: dict[ReductionKind, tuple[Kind, ...]] = {
    ReductionKind.EXTERNALIZE: (Kind.RESULT, Kind.SERVER_RESULT),
    ReductionKind.RESULT: (Kind.RESULT, Kind.SERVER_RESULT),
    ReductionKind.RECENT_RESULT: (Kind.RESULT, Kind.SERVER_RESULT),
    ReductionKind.ARGUMENTS: (Kind.CALL,),
    ReductionKind.MEDIA: (Kind.MEDIA,),
    ReductionKind.REASONING: (Kind.REASONING,),
}
"""The kind of part that each reduction may write in. Text of user, system and developer items is in none of them."""


class Placed(NamedTuple):
    """An edit with what it is for."""

    edit: Edit
    kind: ReductionKind  # UNSPECIFIED: the read-back tool, in the envelope
    item: int  # index in the body; -1: the envelope
    settled: bool  # its unit is; for records of old, they were when the record was made


def open_spans(items: Sequence[Item], parts: Sequence[Part], units: Sequence[Unit]) -> list[tuple[int, int]]:
    """What unsettled units hold: calls, results and reasoning. A new edit that overlaps any of it is not settled."""
    spans = []
    for unit in units:
        if unit.settled:
            continue
        for index in (*unit.reasoning, *(i for call in unit.calls for i in (call.index, *call.results))):
            part = parts[index]
            item = items[part.item]
            spans.append((item.start, item.end) if item.role == Role.RESULT else (part.start, part.end))
    return spans


def new_violations(before: Sequence[Violation], after: Sequence[Violation]) -> list[Violation]:
    """Structural rules that the finished body breaks and the body on arrival did not.

    A call without a result that came to stand at the end, since what followed it is covered, is no new fault: one at the end is
    not finished, one before it is broken.
    """
    known = Counter((violation.rule, violation.item_index) for violation in before)
    found = []
    for violation in after:
        keys = [(violation.rule, violation.item_index)]
        if violation.rule == "CALL_OPEN":
            keys.append(("CALL_WITHOUT_RESULT", violation.item_index))
        key = next((key for key in keys if known[key] > 0), None)
        if key is None:
            found.append(violation)
        else:
            known[key] -= 1
    return found


def _broken(what: str) -> InternalError:
    return InternalError(f"a finished body broke its contract: {what}", hint="the body was not sent; please report this")


def check_finished(
    before: Scan,
    after: Scan,
    placed: Sequence[Placed],
    size_bytes: int,
    violations_before: Sequence[Violation],
    violations_after: Sequence[Violation],
    proven_count: int = 0,
    folded: Fold | None = None,
    *,
    fold_proven: bool = False,
) -> None:
    """Hold a finished body against the contract.

    Args:
        before: the body as it came.
        after: the finished body, scanned anew.
        placed: every edit, in order of position.
        size_bytes: what the finished body was computed to be.
        violations_before: structural rules that the body broke on arrival.
        violations_after: those that the finished body breaks.
        proven_count: leading items that were held against the contract before: the same bytes, before and after, with the same
            edits. What is said of the body as a whole is checked whatever this is.
        folded: checkpoints at work; items that they cover are not in the finished body.
        fold_proven: they were held against the contract before, on the same bytes.

    Raises:
        InternalError: INTERNAL; the body must not leave.
    """
    if len(after.body) != size_bytes:
        raise _broken("its size is not the computed one")
    worse = new_violations(shifted(violations_before, folded), violations_after)
    if worse:
        raise _broken(f"rule {worse[0].rule} at item {worse[0].item_index}")
    if after.item_count != (before.item_count if folded is None else folded.finished_count):
        raise _broken("an item was added or lost")
    if not is_spliced(before.body, [each.edit for each in placed], after.body):
        raise _broken("an edit is not in its place, or bytes outside of the edits changed")
    by_item: dict[int, list[Placed]] = {}
    for each in placed:
        if each.item >= proven_count and (folded is None or each.kind is not ReductionKind.CHECKPOINT):
            by_item.setdefault(each.item, []).append(each)
    for index, own in by_item.items():
        _check_item(before, after, index, index if folded is None else folded.places[index], own)
    if folded is not None and not fold_proven:
        wrong = broken_fold(before, after, folded, [each.edit for each in placed if each.kind is not ReductionKind.CHECKPOINT])
        if wrong:
            raise _broken(wrong)
    lost = before.marker_count + (0 if folded is None else folded.marker_count) - after.marker_count
    if lost < 0 or (folded is None and lost > 0 and lost > _joined_markers(before, placed)):
        raise _broken("a cache marker was added or lost")


def shifted(violations: Sequence[Violation], folded: Fold | None) -> Sequence[Violation]:
    """Violations by where their items stand in the finished body; those of items that leave are gone with them."""
    if folded is None:
        return violations
    places = folded.places
    return [
        each if each.item_index < 0 else each._replace(item_index=places[each.item_index])
        for each in violations
        if each.item_index < 0 or places[each.item_index] >= 0
    ]


def _joined_markers(before: Scan, placed: Sequence[Placed]) -> int:
    """Markers that may go: of several inside one value that leaves whole, its stub carries one."""
    joined = 0
    for each in placed:
        if each.item < 0:
            continue
        item = before.item(each.item)
        inside = sum(
            1
            for part in before.parts(item.first_part, item.first_part + item.part_count)
            if part.flags & PartFlag.MARKED and each.edit.start <= part.start and part.end <= each.edit.end
        )
        joined += max(inside - 1, 0)
    return joined


def _check_item(before: Scan, after: Scan, index: int, place: int, placed: Sequence[Placed]) -> None:
    if place < 0:
        raise _broken("an edit stands in an item that leaves")
    old, new = before.item(index), after.item(place)
    if old.role != new.role:
        raise _broken("an item changed its role")
    old_parts = before.parts(old.first_part, old.first_part + old.part_count)
    new_parts = after.parts(new.first_part, new.first_part + new.part_count)
    for each in placed:
        if not each.settled:
            raise _broken("unsettled work was touched")
        _check_place(before.body, old, old_parts, each)
    if _joints(before.body, old_parts) != _joints(after.body, new_parts):
        raise _broken("a call or result lost its id, its name or its place")
    reasoning_goes = any(each.kind is ReductionKind.REASONING for each in placed)
    if _signed(before.body, old_parts, reasoning_goes) != _signed(after.body, new_parts, reasoning_goes):
        raise _broken("a signed part changed")


def _check_place(body: bytes, item: Item, parts: Sequence[Part], each: Placed) -> None:
    """An edit stands inside a part that its kind may write in (a removed element takes one comma along, and no more)."""
    kinds = _EDITABLE.get(each.kind, ())
    edit = each.edit
    for part in parts:
        if part.kind not in kinds:
            continue
        if each.kind is ReductionKind.REASONING:
            if edit.start <= part.start and part.end <= edit.end and not edit.data:
                along = body[edit.start : part.start] + body[part.end : edit.end]
                if along.strip(b" \t\r\n") in (b"", b","):
                    return
            if part.start <= edit.start and edit.end <= part.end:
                return
        elif part.start <= edit.start and edit.end <= part.end:
            if each.kind is ReductionKind.ARGUMENTS and (edit.start, edit.end) != (part.payload_start, part.payload_end):
                continue
            return
    if item.role == Role.RESULT and Kind.RESULT in kinds and item.start < edit.start and edit.end < item.end:
        return
    raise _broken(f"an edit of kind {each.kind.name} stands where it may not")


def _joints(body: bytes, parts: Sequence[Part]) -> list[tuple[int, bytes, bytes, int]]:
    """Calls and results in order, by what joins them."""
    return [
        (part.kind, body[part.id_start : part.id_end], body[part.name_start : part.name_end], part.flags & PartFlag.ERROR)
        for part in parts
        if part.kind in (Kind.CALL, Kind.RESULT, Kind.SERVER_CALL, Kind.SERVER_RESULT)
    ]


def _signed(body: bytes, parts: Sequence[Part], reasoning_goes: bool) -> list[bytes]:
    """Signed parts byte for byte; where a turn's reasoning goes, all others."""
    return [
        body[part.start : part.end]
        for part in parts
        if part.flags & PartFlag.SIGNED and not (reasoning_goes and part.kind == Kind.REASONING)
    ]
