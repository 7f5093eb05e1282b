"""FitRequest to FitInput, FitResult to FitResponse. Anchors, receipts and pins are read here too; later calls bring the same."""

from __future__ import annotations

from collections.abc import Iterable

from sidecar.core.types import EffectState, ReadBack, UsageFigures, WorkState
from sidecar.engine.messages import (
    AnchorsGiven,
    ConstraintGiven,
    CriterionGiven,
    DecisionGiven,
    FitInput,
    FitResult,
    HistoryMatch,
    Note,
    PinGiven,
    ReceiptGiven,
    Reduction,
    SourceRef,
    WorkGiven,
)
from sidecar.formats.usage import MOST_TOKENS
from sidecar.rpc.mapping import (
    decode_call,
    decode_enum,
    decode_format,
    decode_limits,
    decode_revision,
    decode_session,
    encode_artifact,
    encode_call,
    encode_limits,
    encode_pressure,
    encode_text,
    not_negative,
    require,
    short,
)
from trimtab.v1 import common_pb2, context_pb2

__all__ = ["decode_anchors", "decode_fit", "decode_pins", "decode_receipts", "encode_fit", "encode_notes", "encode_reduction"]


def decode_fit(request: context_pb2.FitRequest) -> FitInput:
    """Read a FitRequest.

    Raises:
        InvalidFieldError: INVALID_FIELD with the name of the first field that may not be so.
    """
    usage, usage_json = _decode_usage(request)
    return FitInput(
        key=decode_session(request),
        body=request.body,
        format=decode_format(request.format),
        limits=decode_limits(request.limits) if request.HasField("limits") else None,
        anchors=decode_anchors(request.anchors) if request.HasField("anchors") else None,
        receipts=decode_receipts(request.receipts),
        pins=decode_pins(request.pins),
        read_back=decode_enum(ReadBack, request.read_back, "read_back"),
        read_back_tool_name=short(request.read_back_tool_name, "read_back_tool_name"),
        usage=usage,
        usage_json=usage_json,
        dry_run=request.dry_run,
        list_applied=request.list_applied,
        expected_revision=decode_revision(request),
    )


def decode_anchors(anchors: common_pb2.Anchors, field: str = "anchors") -> AnchorsGiven:
    """Read anchors to merge; every entry needs its id, and work a state."""

    def named(entry_id: str, where: str) -> str:
        require(bool(entry_id), f"{where}.id", "is required")
        return short(entry_id, f"{where}.id")

    criteria, constraints, decisions, work = [], [], [], []
    for index, criterion in enumerate(anchors.success_criteria):
        where = f"{field}.success_criteria[{index}]"
        criteria.append(CriterionGiven(named(criterion.id, where), criterion.text, criterion.revoked))
    for index, rule in enumerate(anchors.constraints):
        where = f"{field}.constraints[{index}]"
        source = _decode_source(rule.source, f"{where}.source") if rule.HasField("source") else None
        constraints.append(ConstraintGiven(named(rule.id, where), rule.text, source, rule.revoked))
    for index, decision in enumerate(anchors.decisions):
        where = f"{field}.decisions[{index}]"
        sources = _decode_sources(decision.sources, f"{where}.sources")
        decisions.append(DecisionGiven(named(decision.id, where), decision.text, sources, decision.revoked))
    for index, item in enumerate(anchors.work):
        where = f"{field}.work[{index}]"
        state = decode_enum(WorkState, item.state, f"{where}.state")
        require(state != WorkState.UNSPECIFIED, f"{where}.state", "is required")
        work.append(WorkGiven(named(item.id, where), item.text, state, _decode_sources(item.evidence, f"{where}.evidence")))
    return AnchorsGiven(anchors.goal, tuple(criteria), tuple(constraints), tuple(decisions), tuple(work))


def decode_receipts(receipts: Iterable[common_pb2.Receipt], field: str = "receipts") -> tuple[ReceiptGiven, ...]:
    """Read receipts; each needs its call and a state."""
    given = []
    for index, receipt in enumerate(receipts):
        where = f"{field}[{index}]"
        require(receipt.HasField("call"), f"{where}.call", "is required")
        state = decode_enum(EffectState, receipt.state, f"{where}.state")
        require(state != EffectState.UNSPECIFIED, f"{where}.state", "is required")
        call = decode_call(receipt.call, f"{where}.call")
        given.append(ReceiptGiven(call, state, receipt.idempotency_key, receipt.detail, receipt.result))
    return tuple(given)


def decode_pins(pins: Iterable[context_pb2.Pin], field: str = "pins") -> tuple[PinGiven, ...]:
    """Read pins; each names a call or a tool."""
    given = []
    for index, pin in enumerate(pins):
        where = f"{field}[{index}]"
        if pin.HasField("call"):
            given.append(PinGiven(call=decode_call(pin.call, f"{where}.call"), released=pin.released))
        else:
            require(bool(pin.tool_name), where, "needs call or tool_name")
            given.append(PinGiven(tool_name=short(pin.tool_name, f"{where}.tool_name"), released=pin.released))
    return tuple(given)


def encode_fit(result: FitResult) -> context_pb2.FitResponse:
    """Write a FitResponse."""
    return context_pb2.FitResponse(
        outcome=int(result.outcome),  # type: ignore[arg-type]  # numbers are the proto's, which a test proves
        body=result.body,
        before=encode_pressure(result.before),
        after=encode_pressure(result.after),
        reductions=[encode_reduction(reduction) for reduction in result.reductions],
        totals=[
            context_pb2.ReductionTotal(kind=int(total.kind), count=total.count, saved_bytes=total.saved_bytes)  # type: ignore[arg-type]
            for total in result.totals
        ],
        artifacts=[encode_artifact(view) for view in result.artifacts],
        advice=context_pb2.CompactionAdvice(
            eligible=result.advice.eligible,
            unit_count=result.advice.unit_count,
            range_bytes=result.advice.range_bytes,
            reason=int(result.advice.reason),  # type: ignore[arg-type]
        ),
        blockers=[
            context_pb2.Blocker(item_index=blocker.item_index, size_bytes=blocker.size_bytes, reason=blocker.reason)
            for blocker in result.blockers
        ],
        notes=encode_notes(result.notes),
        match=_encode_match(result.match),
        revision=result.revision,
        item_count=result.item_count,
        history_digest=result.history_digest,
        stable_prefix_bytes=result.stable_prefix_bytes,
        journal_durable=result.journal_durable,
        read_back_tool_name=result.read_back_tool_name,
        effective_limits=encode_limits(result.effective_limits),
    )


def encode_notes(notes: Iterable[Note]) -> list[context_pb2.Note]:
    """What the caller should know."""
    return [context_pb2.Note(reason=note.reason, message=encode_text(note.message)) for note in notes]


def encode_reduction(reduction: Reduction) -> context_pb2.Reduction:
    """One reduction in the returned body."""
    return context_pb2.Reduction(
        kind=int(reduction.kind),  # type: ignore[arg-type]
        item_index=reduction.item_index,
        call=encode_call(reduction.call),
        artifact_id=reduction.artifact_id,
        checkpoint_id=reduction.checkpoint_id,
        saved_bytes=reduction.saved_bytes,
    )


def _encode_match(match: HistoryMatch) -> context_pb2.HistoryMatch:
    return context_pb2.HistoryMatch(
        matched_item_count=match.matched_item_count,
        rewritten_item_count=match.rewritten_item_count,
        new_item_count=match.new_item_count,
        diverged_at=match.diverged_at,
        inapplicable_record_count=match.inapplicable_record_count,
    )


def _decode_usage(request: context_pb2.FitRequest) -> tuple[UsageFigures | None, bytes | None]:
    """The oneof usage: figures, the provider's object, or neither. A figure that is not set is not known."""
    which = request.WhichOneof("usage")
    if which == "previous_usage_json":
        return None, request.previous_usage_json
    if which is None:
        return None, None
    usage = request.previous_usage
    figures: dict[str, int] = {}
    for name in ("input_tokens", "cached_input_tokens", "output_tokens"):
        if usage.HasField(name):
            field = f"previous_usage.{name}"
            figures[name] = not_negative(getattr(usage, name), field)
            require(figures[name] <= MOST_TOKENS, field, f"must be at most {MOST_TOKENS}")
    return UsageFigures(**figures), None


def _decode_sources(sources: Iterable[common_pb2.Source], field: str) -> tuple[SourceRef, ...]:
    return tuple(_decode_source(source, f"{field}[{index}]") for index, source in enumerate(sources))


def _decode_source(source: common_pb2.Source, field: str) -> SourceRef:
    """One of artifact_id, call, item_index and note."""
    which = source.WhichOneof("kind")
    if which == "artifact_id":
        return SourceRef(artifact_id=short(source.artifact_id, f"{field}.artifact_id"))
    if which == "call":
        return SourceRef(call=decode_call(source.call, f"{field}.call"))
    if which == "item_index":
        return SourceRef(item_index=not_negative(source.item_index, f"{field}.item_index"))
    require(which == "note", field, "names no source")
    return SourceRef(note=source.note)
