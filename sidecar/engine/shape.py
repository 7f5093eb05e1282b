"""What a body becomes by records alone: projected, finished, and held against the contract.

A checkpoint was valid in the body that it was made for. The history may go on in ways that nobody foresaw, so nothing is taken
for granted: the finished body is read anew, and when it breaks a rule with checkpoints that it does not break without, those
step aside. Which ones is a matter of the body and the records alone, never of limits: the same body gets the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import maxsize
from typing import TYPE_CHECKING, NamedTuple

from fastpath import size, splice
from sidecar.core.checkpoints import Applicable, applicable, go_on_applying, unsound
from sidecar.core.compaction import CheckpointRecord
from sidecar.core.contract import Placed, check_finished
from sidecar.core.errors import InternalError, MalformedBodyError
from sidecar.core.fold import Fold, LayoutError, fold
from sidecar.core.projection import Projection, holds_for, project
from sidecar.core.types import ReductionKind
from sidecar.core.units import current_reasoning
from sidecar.engine.reading import Reading, read_body

if TYPE_CHECKING:
    from sidecar.engine.fit_call import FitCall

__all__ = ["MAX_TRIED", "Shape", "hold", "plain_shape", "position", "shape", "with_tool"]

MAX_TRIED = 4
"""So many checkpoints are left out one by one, the newest first; then all step aside. Each try reads a body."""


class Shape(NamedTuple):
    """Records at work in a body."""

    projection: Projection
    held: bool  # just those of the body before, at the same places
    aside: list[CheckpointRecord]  # live ones that do not apply
    finished: Reading | None  # the body with them, held against the contract; None: not read yet, no checkpoint is at work


def shape(call: FitCall) -> Shape:
    """Project the records on the body of a call. With checkpoints at work the finished body is proven, else some step aside.

    Where one steps aside, another that covers some of the same items may stand.

    Raises:
        InternalError: it breaks its contract without any checkpoint, too.
    """
    applied = _applicable(call, [])
    found = _try(call, applied)
    if found is not None:
        return found
    for one in reversed(applied[-MAX_TRIED:]):
        found = _try(call, _applicable(call, [one.record]))
        if found is not None:
            return found
    return plain_shape(call)


def plain_shape(call: FitCall) -> Shape:
    """All checkpoints step aside."""
    projection, held = _project(call, [])
    return Shape(projection, held, _aside(call, []), None)


def _aside(call: FitCall, applied: Sequence[Applicable]) -> list[CheckpointRecord]:
    """Live checkpoints that are not at work, in order of commit."""
    at_work = {each.record.checkpoint_id for each in applied}
    return [] if call.changed_format else [each for each in call.session.live if each.checkpoint_id not in at_work]


def _try(call: FitCall, applied: list[Applicable]) -> Shape | None:
    """With these checkpoints; None where the finished body does not hold with them."""
    try:
        projection, held = _project(call, applied)
        if projection.fold is None:
            return Shape(projection, held, _aside(call, applied), None)
        proven = held and call.intake.known is not None and call.intake.known.proven
        finished = hold(call, with_tool(call, projection.placed), projection.fold, proven=proven)
    except (LayoutError, InternalError):
        return None
    return Shape(projection, held, _aside(call, applied), finished)


def hold(call: FitCall, placed: Sequence[Placed], folded: Fold | None, *, proven: bool = False) -> Reading:
    """Read a finished body, and hold it against the contract.

    Args:
        call: that has taken the body in.
        placed: all edits, in order of position.
        folded: checkpoints among them.
        proven: items that stand in the body before as they do here, under the same edits, were held against it then.

    Raises:
        InternalError: the body must not leave.
    """
    intake = call.intake
    if not placed:
        return intake.reading
    edits = [each.edit for each in placed]
    try:
        spliced = splice(intake.body, edits)
        adopted = intake.arrived is not intake.reading and intake.arrived.scan.body == spliced  # read already
        finished = intake.arrived if adopted else read_body(spliced, call.adapter, call.session.sent)
    except (ValueError, MalformedBodyError) as error:  # edits that overlap, or no JSON: no fault of the body that came
        raise InternalError("a finished body cannot be made", hint="the body was not sent; please report this") from error
    check_finished(
        intake.scan,
        finished.scan,
        placed,
        size(intake.body, edits),
        intake.violations,
        finished.judged.violations,
        (min(intake.same_count, finished.reused) if folded is None else intake.same_count) if proven else 0,
        folded,
        # Its edits stand in items that are in both bodies; what is behind them is copied, as every splice is.
        fold_proven=proven,
    )
    return finished


def with_tool(call: FitCall, placed: Sequence[Placed]) -> list[Placed]:
    """Edits with the one that injects the read-back tool."""
    if call.inject is None:
        return list(placed)
    return sorted([*placed, Placed(call.inject, ReductionKind.UNSPECIFIED, -1, True)], key=position)


def position(placed: Placed) -> tuple[int, int]:
    """Order of edits."""
    return placed.edit.start, placed.edit.end


def _applicable(call: FitCall, barred: Sequence[CheckpointRecord]) -> list[Applicable]:
    """Live checkpoints, without some, of which all sources are there, and which leave a valid beginning to an open tool loop."""
    session, intake = call.session, call.intake
    if not session.live or call.changed_format:
        return []
    applied = [] if barred else _applied_before(call)
    asked = intake.reading.judged.asked

    def may_follow(at: int) -> bool:
        return call.adapter.may_follow_summary(intake.scan, (intake.items, intake.parts), at)

    live = [each for each in session.live if each not in barred]
    while True:
        if not applied:
            applied, _ = applicable(live, intake.numbers, call.refs.index_of, intake.units, intake.parts, intake.reading.decode)
        found = unsound(applied, asked[-1] if asked else -1, intake.items, may_follow)
        if found is None:
            return applied
        live = [each for each in live if each is not found.record]
        applied = []


def _applied_before(call: FitCall) -> list[Applicable]:
    """Checkpoints at work in the body before, where all that live were, and are in this one. None where that is not known."""
    intake = call.intake
    if intake.known is None or intake.known.projection.fold is None:
        return []
    earlier = intake.known.projection.fold.applied
    same = [each.record for each in earlier] == call.session.live and go_on_applying(
        earlier, intake.same_count, intake.items, intake.parts, intake.units, intake.grouped.shared
    )
    return earlier if same else []


def _project(call: FitCall, applied: list[Applicable]) -> tuple[Projection, bool]:
    """Records at work in the body, and whether they are just those of the body before."""
    intake, session, adapter = call.intake, call.session, call.adapter
    records, count, numbers = session.records, session.record_count, intake.numbers
    current = maxsize
    if session.reasoning_left:
        current = current_reasoning(adapter.reasoning, intake.items, intake.parts, intake.reading.judged.asked)
    if intake.known is not None:
        earlier = intake.known.projection
        same = [] if earlier.fold is None else earlier.fold.applied
        if (
            applied == same
            and intake.known.markers == intake.markers
            and holds_for(earlier, intake.same_count, numbers, records, count, current)
        ):
            if earlier.fold is not None:
                earlier = earlier._replace(fold=earlier.fold.over(len(intake.items)))
            return earlier, True
    folded = fold(adapter, intake.body, intake.items, intake.parts, applied, intake.markers) if applied else None
    matches = intake.alignment.items
    return project(adapter, intake.body, intake.items, intake.parts, matches, numbers, records, count, current, folded), False
