"""Checkpoints, attempts and rollbacks as callers see them: items by place on the current branch."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sidecar.core.branch import BranchIndex, to_ranges
from sidecar.core.compaction import AttemptRecord, AttemptState, CheckpointRecord, KeptReason, Summarizer
from sidecar.engine.compact_messages import AttemptView, CheckpointView, CompactOutcome, CompactResult, IndexRanges
from sidecar.engine.messages import Note, Pressure
from sidecar.engine.session import Session

__all__ = ["attempt_view", "checkpoint_view", "checkpoint_views", "ended"]


def checkpoint_view(record: CheckpointRecord, index: BranchIndex, live: Collection[str]) -> CheckpointView:
    """One checkpoint."""
    numbers = [number for start, end in record.gone for number in range(start, end)]
    numbers += [trim.number for trim in record.trims]
    return CheckpointView(
        checkpoint_id=record.checkpoint_id,
        base_revision=record.base_revision,
        revision=record.revision,
        items=_places(numbers, index),
        items_sha256=record.items_sha256,
        attempt_id=record.attempt_id,
        summarizer=record.summarizer,
        model=record.model,
        format=record.format,
        boundary=record.boundary,
        mode=record.mode,
        superseded_checkpoint_ids=record.superseded,
        summary=record.summary.encode("utf-8", "replace"),
        anchors_revision=record.anchors_revision,
        before_bytes=record.before_bytes,
        after_bytes=record.after_bytes,
        create_ms=record.create_ms,
        live=record.checkpoint_id in live,
    )


def _places(numbers: Iterable[int], index: BranchIndex) -> IndexRanges:
    found = sorted(at for number in numbers if (at := index.index_of(number)) >= 0)
    return to_ranges(found)


def checkpoint_views(session: Session) -> list[CheckpointView]:
    """All of a session, oldest first."""
    index = BranchIndex(session.head.branch)
    live = {record.checkpoint_id for record in session.live}
    return [checkpoint_view(record, index, live) for record in session.checkpoints]


def attempt_view(record: AttemptRecord, index: BranchIndex) -> AttemptView:
    """One attempt."""
    numbers = [number for start, end in record.numbers for number in range(start, end)]
    route = f"{record.summarizer} {record.model}" if record.model else record.summarizer
    return AttemptView(
        record.attempt_id, record.state, _places(numbers, index), route, record.detail, record.usage, record.create_ms
    )


def ended(session: Session, record: AttemptRecord, plan: bytes = b"", notes: tuple[Note, ...] = ()) -> CompactResult:
    """The answer of an attempt as it stands: also what a repeated call gets.

    Args:
        session: that it belongs to.
        record: of the attempt.
        plan: its summary request, while it is the caller's turn.
        notes: for the caller.
    """
    index = BranchIndex(session.head.branch)
    view = attempt_view(record, index)
    checkpoint = next((each for each in session.checkpoints if each.checkpoint_id == record.checkpoint_id), None)
    before = Pressure(total_bytes=record.before_bytes) if record.before_bytes else None
    after = Pressure(total_bytes=record.after_bytes) if record.after_bytes else None
    live = {each.checkpoint_id for each in session.live}
    if record.state is AttemptState.COMMITTED and checkpoint is not None:
        outcome, shown = CompactOutcome.COMMITTED, checkpoint_view(checkpoint, index, live)
    elif record.state is AttemptState.DISPATCHED and record.kind is Summarizer.CALLER:
        outcome, shown = CompactOutcome.PLANNED, None
    elif record.state is AttemptState.FAILED:
        outcome, shown = CompactOutcome.KEPT, None
    else:
        outcome, shown = CompactOutcome.UNKNOWN, None
    return CompactResult(
        outcome=outcome,
        kept_reason=record.kept_reason if outcome is CompactOutcome.KEPT else KeptReason.UNSPECIFIED,
        detail=record.detail,
        summary_request=plan if outcome is CompactOutcome.PLANNED else b"",
        checkpoint=shown,
        attempt=view,
        before=before,
        after=after,
        revision=session.head.revision,
        item_count=len(session.branch),
        notes=notes,
    )
