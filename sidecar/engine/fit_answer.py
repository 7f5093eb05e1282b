"""The answer of Fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fastpath import Kind, Scan
from sidecar.core.contract import Placed
from sidecar.core.cuts import Built
from sidecar.core.fit import FitPlan, FitView, blockers
from sidecar.core.projection import Totals
from sidecar.core.records import Applied
from sidecar.core.tokens import estimate_tokens
from sidecar.core.types import ReadBack, ReductionKind
from sidecar.engine.answer import applied_reduction, pressure, shown_totals, view_of
from sidecar.engine.commit import Change
from sidecar.engine.messages import (
    Advice,
    Blocker,
    FitOutcome,
    FitResult,
    HistoryMatch,
    KeptReason,
    Note,
    Reduction,
    TokenBasis,
)

if TYPE_CHECKING:
    from sidecar.engine.fit_call import FitCall

__all__ = ["answer"]

_TOKENS_UNKNOWN = Note("TOKENS_UNKNOWN", "no usage was told: byte limits act, and limits in tokens by an estimate that errs high")


def answer(
    call: FitCall,
    applied: Sequence[Applied],
    totals: Totals,
    inapplicable_count: int,
    changed: bool,
    placed: Sequence[Placed],
    view: FitView,
    plan: FitPlan,
    change: Change,
    after: Scan,
    stable_bytes: int,
    durable: bool,
    revision: int,
) -> FitResult:
    """Put it together.

    Args:
        call: of Fit.
        applied: records of old at work in the body.
        totals: of these.
        inapplicable_count: records of items that are not in the body.
        changed: the finished body is another than the one that came.
        placed: all edits.
        view: what the ladder saw.
        plan: what it chose.
        change: what is kept.
        after: the finished body.
        stable_bytes: leading bytes that it shares with the body answered before.
        durable: all raw items are flushed.
        revision: that is durable.
    """
    body = after.body
    given, session, intake, limits = call.given, call.session, call.intake, call.limits
    if limits.hard_bytes is not None and len(body) > limits.hard_bytes:
        outcome = FitOutcome.CANNOT_FIT
    elif len(body) > limits.soft_bytes:
        outcome = FitOutcome.OVER
    else:
        outcome = FitOutcome.FITTED if changed else FitOutcome.UNCHANGED
    listed = new = _new_reductions(call, plan.cuts)
    if given.list_applied:
        old = [(intake.items[a.item].start if a.edit is None else a.edit.start, applied_reduction(a, call.refs)) for a in applied]
        old += _checkpoints(call)
        listed = old + new
    artifacts = {} if given.dry_run else {artifact.artifact_id: artifact for artifact in (cut.artifact for cut in plan.cuts)}
    views = [
        view_of(artifacts[source.artifact_id], source, call.refs.ref_of(source.call), call.refs.index_of(source.number))
        for source in change.sources
        if source.artifact_id in artifacts
    ]
    blocked = blockers(view, plan) if outcome in (FitOutcome.OVER, FitOutcome.CANNOT_FIT) else []
    alignment = intake.alignment
    arrived = intake.arrived.scan
    came = pressure(arrived.sizes, *_tokens(call, len(given.body), arrived))
    goes = came if after is arrived else pressure(after.sizes, *_tokens(call, len(body), after))
    notes = list(call.notes)
    if goes.token_basis is not TokenBasis.CALIBRATED:
        notes.append(_TOKENS_UNKNOWN)
    # A checkpoint changes what was sent before, once.
    summarized = call.front_changed and call.projection.fold is not None and alignment.diverged_at is None
    edited = plan.cuts or (placed and not call.session.exists)
    if (edited or summarized) and call.adapter.binds_reasoning(after, placed[0].edit.start if edited else stable_bytes):
        notes.append(
            Note(
                "REASONING_BOUND",
                "signed reasoning stands behind a change: models that check its prefix refuse it with 400 or drop it; "
                "let the provider drop it (thinking.block_binding.prefix_mismatch_behavior: drop_block)",
            )
        )
    return FitResult(
        outcome=outcome,
        body=b"" if given.dry_run or not changed else body,
        before=came,
        after=goes,
        reductions=tuple(reduction for _, reduction in sorted(listed, key=lambda pair: pair[0])),
        totals=shown_totals(totals, [reduction for _, reduction in new]),
        artifacts=tuple(views),
        advice=_advice(call, plan, len(body)),
        blockers=tuple(Blocker(each.item, each.size_bytes, each.reason) for each in blocked),
        notes=tuple(notes),
        match=HistoryMatch(
            alignment.matched_count,
            intake.rewritten_count,
            alignment.new_count,
            alignment.diverged_at if session.branch or alignment.diverged_at is not None else None,
            inapplicable_count,
        ),
        revision=revision,
        item_count=len(intake.items),
        history_digest=call.history_digest(),
        stable_prefix_bytes=stable_bytes,
        journal_durable=durable,
        read_back_tool_name="" if call.read_back is ReadBack.NONE else call.read_tool,
        effective_limits=limits.shown(),
    )


def _checkpoints(call: FitCall) -> list[tuple[int, Reduction]]:
    """Checkpoints at work, by where their first item stood."""
    folded = call.projection.fold
    items = call.intake.items
    found = []
    for each in () if folded is None else folded.applied:
        first = min((*each.gone, *each.trims))
        freed = sum(items[at].end - items[at].start for at in each.gone)
        saved = freed - len(each.record.summary.encode())
        reduction = Reduction(ReductionKind.CHECKPOINT, first, None, "", each.record.checkpoint_id, saved)
        found.append((items[first].start, reduction))
    return found


def _new_reductions(call: FitCall, cuts: Sequence[Built]) -> list[tuple[int, Reduction]]:
    found = []
    for cut in cuts:
        candidate = cut.candidate
        ref = None if candidate.call is None else call.refs.ref_of(call.refs.key_of(candidate.call))
        edit = call.cut_edits[(candidate.item, cut.raw_path)]
        saved = edit.end - edit.start - len(edit.data)
        found.append((edit.start, Reduction(candidate.kind, candidate.item, ref, cut.artifact.artifact_id, "", saved)))
    return found


def _tokens(call: FitCall, size_bytes: int, scanned: Scan) -> tuple[int | None, TokenBasis]:
    ratio = call.ratio
    if ratio.known:
        return ratio.tokens_of(size_bytes), TokenBasis.CALIBRATED
    if call.limits.window_tokens is None and not call.limits.keep_result_bytes:
        return None, TokenBasis.UNKNOWN  # not zero
    media = sum(1 for part in scanned.parts() if part.kind == Kind.MEDIA)
    return estimate_tokens(scanned.body, scanned.sizes.media, media), TokenBasis.ESTIMATED


def _advice(call: FitCall, plan: FitPlan, size_bytes: int) -> Advice:
    if size_bytes <= call.limits.soft_bytes:
        reason = KeptReason.NO_PRESSURE
    elif not plan.unit_count:
        reason = KeptReason.NO_CANDIDATE
    elif plan.range_bytes < call.limits.compact_min_saving_bytes:
        reason = KeptReason.LOW_BENEFIT
    else:
        return Advice(True, plan.unit_count, plan.range_bytes)
    return Advice(False, plan.unit_count, plan.range_bytes, reason)
