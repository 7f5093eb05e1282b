"""What a call of Fit keeps: records, artifacts and their places, the forms that were sent, the session's head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from fastpath import Edit, Scan, canon, splice
from sidecar.core.branch import to_ranges
from sidecar.core.cuts import Built
from sidecar.core.fit import FitPlan
from sidecar.core.types import ArtifactRecord, ArtifactSource, Offload, ReductionKind, SentForm
from sidecar.engine.answer import same_envelope
from sidecar.engine.commit import Change
from sidecar.engine.refs import shown
from sidecar.engine.session import form_of

if TYPE_CHECKING:
    from sidecar.engine.fit_call import FitCall

__all__ = ["change_of"]


def change_of(call: FitCall, plan: FitPlan, after: Scan) -> Change:
    """All that this call adds to the session.

    Args:
        call: taken in and planned.
        plan: its cuts.
        after: the finished body.
    """
    session, intake = call.session, call.intake
    head = session.head
    alignment = intake.alignment
    broken = alignment.diverged_at is not None or alignment.replaced or call.changed_format
    branch_changed = bool(session.branch) and broken
    bumps = (
        bool(plan.cuts) or call.new_anchors is not None or bool(call.new_receipts) or call.new_pins is not None or branch_changed
    )
    revision = head.revision + (1 if bumps else 0)
    offloads, artifacts, sources = _records(call, plan.cuts, revision)
    forms = _forms(call, plan.cuts, after) if plan.cuts else []
    floor_bytes = head.floor_bytes
    if plan.pressure_cut:
        floor_bytes = len(after.body) if plan.over_target else 0
    new_head = msgspec.structs.replace(
        head,
        format=call.adapter.format,
        read_back=call.given.read_back or head.read_back,
        read_back_tool_name=call.given.read_back_tool_name or head.read_back_tool_name,
        injected=call.injected,
        limits=call.limits_given,
        revision=revision,
        branch=intake.ranges,
        raw_bytes=intake.raw_bytes,
        floor_bytes=floor_bytes,
        create_ms=head.create_ms or call.now_ms,
        untold=to_ranges(call.untold) if call.tells and call.first_told else head.untold,
    )
    return Change(
        head=new_head,
        items=intake.new_items,
        numbers=intake.numbers,
        same_count=intake.same_count,
        scan=intake.scan,
        same_envelope=intake.known is not None and same_envelope(intake.known.reading.scan, intake.scan),
        forms=forms,
        offloads=offloads,
        artifacts=artifacts,
        sources=sources,
        anchors=call.new_anchors,
        receipts=call.new_receipts,
        pins=call.new_pins,
        must_keep=bool(plan.cuts) or call.new_anchors is not None or bool(call.new_receipts) or call.new_pins is not None,
        must_wait=bumps
        or call.retries
        or not session.exists
        or new_head.limits != head.limits
        or (new_head.read_back, new_head.read_back_tool_name) != (head.read_back, head.read_back_tool_name),
        old_head=head,
    )


def _records(
    call: FitCall, cuts: Sequence[Built], revision: int
) -> tuple[list[Offload], list[ArtifactRecord], list[ArtifactSource]]:
    offloads, artifacts, sources = [], [], []
    known: set[str] = set()
    for cut in cuts:
        candidate = cut.candidate
        number = call.intake.numbers[candidate.item]
        key = None if candidate.call is None else call.refs.key_of(candidate.call)
        tool = "" if candidate.call is None else shown(call.cutter.tool_name(candidate.call).encode("utf-8", "replace"))
        artifact = cut.artifact
        if artifact.artifact_id not in known and artifact.artifact_id not in call.session.artifact_ids:
            known.add(artifact.artifact_id)
            artifacts.append(artifact)
        else:
            call.engine.check_same(call.session.key, artifact, artifacts)
        offloads.append(
            Offload(candidate.kind, number, cut.raw_path, cut.replacement, artifact.artifact_id, key, cut.saved_bytes, revision)
        )
        sources.append(ArtifactSource(artifact.artifact_id, number, cut.raw_path, tool, key, candidate.is_error, call.now_ms))
    return offloads, artifacts, sources


def _forms(call: FitCall, cuts: Sequence[Built], after: Scan) -> list[SentForm]:
    forms = []

    def edits_of(at: int) -> list[Edit]:
        own = [each.edit for each in call.placed if each.item == at and each.kind is not ReductionKind.CHECKPOINT]
        return sorted(own, key=lambda edit: (edit.start, edit.end))

    for at in sorted({cut.candidate.item for cut in cuts}):
        number = call.intake.numbers[at]
        known = call.session.records.get(number, [])
        if at >= call.projection.reasoning_end and any(record.kind is ReductionKind.REASONING for record in known):
            continue  # it goes out with a record stepping aside: no count of first records says that
        count = len(known) + sum(1 for cut in cuts if cut.candidate.item == at)
        if call.projection.fold is None:
            item = after.item(at)
            forms.append(form_of(number, count, *canon(after.body, item.start, item.end, call.adapter.grammar)))
            continue
        # In a body with summaries an item may have become one with its neighbors: its form is what became of it alone.
        item = call.intake.items[at]
        own = [Edit(e.start - item.start, e.end - item.start, e.data) for e in (edits_of(at))]
        alone = splice(call.intake.body[item.start : item.end], own)
        forms.append(form_of(number, count, *canon(alone, 0, len(alone), call.adapter.grammar)))
    return forms
