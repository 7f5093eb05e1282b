"""CompactRequest, FinishCompactRequest and RollbackRequest to plain values; results, checkpoints and attempts to proto."""

from __future__ import annotations

from collections.abc import Iterable

from sidecar.core.compaction import CompactMode, Summarizer
from sidecar.core.errors import InvalidFieldError
from sidecar.engine.compact_messages import (
    AttemptView,
    BudgetGiven,
    CheckpointView,
    CompactInput,
    CompactResult,
    FinishInput,
    RollbackInput,
)
from sidecar.rpc.fit_mapping import decode_anchors, decode_receipts, encode_notes
from sidecar.rpc.mapping import (
    REQUEST_ID_BYTES,
    decode_enum,
    decode_limits,
    decode_request_id,
    decode_revision,
    decode_session,
    encode_pressure,
    encode_text,
    encode_time,
    encode_usage,
    not_negative,
    require,
    short,
)
from trimtab.v1 import common_pb2, context_pb2, session_pb2

__all__ = [
    "FOCUS_BYTES",
    "decode_compact",
    "decode_finish",
    "decode_rollback",
    "encode_attempt",
    "encode_checkpoint",
    "encode_compact",
]

FOCUS_BYTES = 4096  # it goes into the summary request as it is
DETAIL_BYTES = 1024  # why an attempt ended; a caller's own words are cut, not refused: its attempt must end

_BUDGET_FIELDS = ("requests_left", "requests_reserved", "tokens_left", "tokens_reserved")


def decode_compact(request: context_pb2.CompactRequest, timeout_s: float) -> CompactInput:
    """Read a CompactRequest.

    Args:
        request: as it came.
        timeout_s: what is left of the caller's deadline.

    Raises:
        InvalidFieldError: INVALID_FIELD with the name of the first field that may not be so.
    """
    return CompactInput(
        key=decode_session(request),
        request_id=decode_request_id(request.request_id),
        body=request.body,
        boundary=short(request.boundary, "boundary"),
        force_mid_stage=request.force_mid_stage,
        ignore_pressure=request.ignore_pressure,
        mode=decode_enum(CompactMode, request.mode, "mode"),
        summarizer=decode_enum(Summarizer, request.summarizer, "summarizer"),
        budget=_decode_budget(request.budget) if request.HasField("budget") else None,
        focus=short(request.focus, "focus", FOCUS_BYTES),
        limits=decode_limits(request.limits) if request.HasField("limits") else None,
        anchors=decode_anchors(request.anchors) if request.HasField("anchors") else None,
        receipts=decode_receipts(request.receipts),
        dry_run=request.dry_run,
        include_body=request.include_body,
        expected_revision=decode_revision(request),
        timeout_s=timeout_s,
    )


def decode_finish(request: context_pb2.FinishCompactRequest) -> FinishInput:
    """Read a FinishCompactRequest.

    Raises:
        InvalidFieldError: INVALID_FIELD with the name of the first field that may not be so.
    """
    key = decode_session(request)
    require(bool(request.attempt_id), "attempt_id", "is required", "it is in the attempt of the PLANNED answer")
    attempt_id = short(request.attempt_id, "attempt_id", REQUEST_ID_BYTES)
    which = request.WhichOneof("result")
    require(which is not None, "result", "is required", "give response, text, failed or unknown")
    return FinishInput(
        key=key,
        attempt_id=attempt_id,
        response=request.response if which == "response" else None,
        text=_decode_utf8(request.text, "text") if which == "text" else None,
        failed=encode_text(request.failed, DETAIL_BYTES) if which == "failed" else None,
        unknown=encode_text(request.unknown, DETAIL_BYTES) if which == "unknown" else None,
        include_body=request.include_body,
    )


def decode_rollback(request: session_pb2.RollbackRequest) -> RollbackInput:
    """Read a RollbackRequest.

    Raises:
        InvalidFieldError: INVALID_FIELD with the name of the first field that may not be so.
    """
    key = decode_session(request)
    request_id = decode_request_id(request.request_id)
    require(bool(request.checkpoint_id), "checkpoint_id", "is required", "ListCheckpoints has them")
    return RollbackInput(key, request_id, short(request.checkpoint_id, "checkpoint_id"), decode_revision(request))


def encode_compact(result: CompactResult) -> context_pb2.CompactResponse:
    """Write a CompactResponse. What is not known of a body stays unset."""
    return context_pb2.CompactResponse(
        outcome=int(result.outcome),  # type: ignore[arg-type]  # numbers are the proto's, which a test proves
        kept_reason=int(result.kept_reason),  # type: ignore[arg-type]
        detail=encode_text(result.detail, DETAIL_BYTES),
        summary_request=result.summary_request,
        checkpoint=None if result.checkpoint is None else encode_checkpoint(result.checkpoint),
        attempt=None if result.attempt is None else encode_attempt(result.attempt),
        before=None if result.before is None else encode_pressure(result.before),
        after=None if result.after is None else encode_pressure(result.after),
        body=result.body,
        revision=result.revision,
        item_count=result.item_count,
        notes=encode_notes(result.notes),
    )


def encode_checkpoint(view: CheckpointView) -> common_pb2.Checkpoint:
    """A checkpoint, its summary whole."""
    return common_pb2.Checkpoint(
        checkpoint_id=view.checkpoint_id,
        base_revision=view.base_revision,
        revision=view.revision,
        items=_encode_ranges(view.items),
        items_sha256=view.items_sha256,
        attempt_id=view.attempt_id,
        summarizer=encode_text(view.summarizer),
        model=encode_text(view.model),
        format=int(view.format),  # type: ignore[arg-type]
        boundary=view.boundary,
        mode=int(view.mode),  # type: ignore[arg-type]
        superseded_checkpoint_ids=view.superseded_checkpoint_ids,
        summary=view.summary,
        anchors_revision=view.anchors_revision,
        before_bytes=view.before_bytes,
        after_bytes=view.after_bytes,
        create_time=encode_time(view.create_ms),
        live=view.live,
    )


def encode_attempt(view: AttemptView) -> context_pb2.Attempt:
    """An attempt, its detail cut to 1 KiB."""
    return context_pb2.Attempt(
        attempt_id=view.attempt_id,
        state=int(view.state),  # type: ignore[arg-type]
        items=_encode_ranges(view.items),
        summarizer=encode_text(view.summarizer),
        detail=encode_text(view.detail, DETAIL_BYTES),
        usage=None if view.usage is None else encode_usage(view.usage),
        create_time=encode_time(view.create_ms),
    )


def _encode_ranges(ranges: Iterable[tuple[int, int]]) -> list[common_pb2.ItemRange]:
    return [common_pb2.ItemRange(start=start, end=end) for start, end in ranges]


def _decode_budget(budget: context_pb2.Budget) -> BudgetGiven:
    """What is not set was not told. More reserved than left is no mistake: nothing may be spent then."""
    given = {}
    for name in _BUDGET_FIELDS:
        if budget.HasField(name):
            given[name] = not_negative(getattr(budget, name), f"budget.{name}")
    return BudgetGiven(**given)


def _decode_utf8(raw: bytes, field: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        hint = "a provider's response goes into response, as it came"
        raise InvalidFieldError(f"{field} is not UTF-8", hint=hint, field=field) from None
