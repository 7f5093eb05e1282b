"""RecordRequest and RecoverRequest to plain values; what is known of a session to proto."""

from __future__ import annotations

from collections.abc import Iterable

from sidecar.engine.messages import AnchorsGiven, SourceRef
from sidecar.engine.record_messages import (
    OpenCallView,
    PinView,
    ReceiptView,
    RecordInput,
    RecordResult,
    RecoverInput,
    RecoverResult,
)
from sidecar.rpc.compact_mapping import encode_attempt, encode_checkpoint
from sidecar.rpc.fit_mapping import decode_anchors, decode_receipts, encode_notes
from sidecar.rpc.mapping import (
    decode_format,
    decode_request_id,
    decode_revision,
    decode_session,
    encode_call,
    encode_pressure,
    encode_text,
    not_negative,
)
from trimtab.v1 import common_pb2, context_pb2

__all__ = ["decode_record", "decode_recover", "encode_anchors", "encode_record", "encode_recover"]


def decode_record(request: context_pb2.RecordRequest) -> RecordInput:
    """Read a RecordRequest.

    Raises:
        InvalidFieldError: INVALID_FIELD with the name of the first field that may not be so.
    """
    first = not_negative(request.first_item_index, "first_item_index") if request.HasField("first_item_index") else None
    return RecordInput(
        key=decode_session(request),
        request_id=decode_request_id(request.request_id),
        format=decode_format(request.format),
        items=request.items,
        first_item_index=first,
        receipts=decode_receipts(request.receipts),
        anchors=decode_anchors(request.anchors) if request.HasField("anchors") else None,
        expected_revision=decode_revision(request),
    )


def encode_record(result: RecordResult) -> context_pb2.RecordResponse:
    """Write a RecordResponse."""
    return context_pb2.RecordResponse(
        revision=result.revision, item_count=result.item_count, history_digest=result.history_digest
    )


def decode_recover(request: context_pb2.RecoverRequest) -> RecoverInput:
    """Read a RecoverRequest.

    Raises:
        InvalidFieldError: INVALID_FIELD with the name of the first field that may not be so.
    """
    return RecoverInput(
        key=decode_session(request),
        include_body=request.include_body,
        close_interrupted=request.close_interrupted,
        request_id=decode_request_id(request.request_id) if request.close_interrupted else "",
        expected_revision=decode_revision(request),
    )


def encode_recover(result: RecoverResult) -> context_pb2.RecoverResponse:
    """Write a RecoverResponse. What is not known stays unset."""
    return context_pb2.RecoverResponse(
        format=int(result.format),  # type: ignore[arg-type]  # numbers are the proto's, which a test proves
        revision=result.revision,
        item_count=result.item_count,
        history_digest=result.history_digest,
        body=result.body,
        pressure=None if result.pressure is None else encode_pressure(result.pressure),
        checkpoints=map(encode_checkpoint, result.checkpoints),
        attempts=map(encode_attempt, result.attempts),
        open_calls=map(_encode_open, result.open_calls),
        anchors=encode_anchors(result.anchors),
        artifact_count=result.artifact_count,
        notes=encode_notes(result.notes),
        receipts=map(_encode_receipt, result.receipts),
        pins=map(_encode_pin, result.pins),
    )


def encode_anchors(anchors: AnchorsGiven) -> common_pb2.Anchors:
    """Anchors in force, what was revoked among them."""
    return common_pb2.Anchors(
        goal=anchors.goal,
        success_criteria=[common_pb2.Criterion(id=c.id, text=c.text, revoked=c.revoked) for c in anchors.success_criteria],
        constraints=[
            common_pb2.Constraint(
                id=c.id, text=c.text, source=None if c.source is None else _encode_source(c.source), revoked=c.revoked
            )
            for c in anchors.constraints
        ],
        decisions=[
            common_pb2.Decision(id=d.id, text=d.text, sources=_encode_sources(d.sources), revoked=d.revoked)
            for d in anchors.decisions
        ],
        work=[
            common_pb2.WorkItem(id=w.id, text=w.text, state=int(w.state), evidence=_encode_sources(w.evidence))  # type: ignore[arg-type]
            for w in anchors.work
        ],
    )


def _encode_sources(sources: Iterable[SourceRef]) -> list[common_pb2.Source]:
    return [_encode_source(source) for source in sources]


def _encode_source(source: SourceRef) -> common_pb2.Source:
    if source.call is not None:
        return common_pb2.Source(call=encode_call(source.call))
    if source.item_index is not None:
        return common_pb2.Source(item_index=source.item_index)
    if source.artifact_id:
        return common_pb2.Source(artifact_id=source.artifact_id)
    return common_pb2.Source(note=source.note)


def _encode_open(view: OpenCallView) -> context_pb2.OpenCall:
    return context_pb2.OpenCall(
        call=encode_call(view.call),
        tool_name=encode_text(view.tool_name),
        content=view.content,
        receipt=None if view.receipt is None else _encode_receipt(view.receipt),
        closed_by=view.closed_by,
    )


def _encode_receipt(view: ReceiptView) -> common_pb2.Receipt:
    """As the agent gave it, key and detail whole."""
    return common_pb2.Receipt(
        call=encode_call(view.call),
        state=int(view.state),  # type: ignore[arg-type]
        idempotency_key=view.idempotency_key,
        detail=view.detail,
        result=view.result,
    )


def _encode_pin(view: PinView) -> context_pb2.Pin:
    if view.call is None:
        return context_pb2.Pin(tool_name=view.tool_name)
    return context_pb2.Pin(call=encode_call(view.call))
