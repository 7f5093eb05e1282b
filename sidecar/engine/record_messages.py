"""What an edge hands the engine for Record and Recover and gets back, as plain values. See `messages.py`."""

from __future__ import annotations

import msgspec

from sidecar.core.types import EffectState, Format, SessionKey
from sidecar.engine.compact_messages import AttemptView, CheckpointView
from sidecar.engine.messages import AnchorsGiven, CallRef, Note, Pressure, ReceiptGiven

__all__ = [
    "OpenCallView",
    "PinView",
    "ReceiptView",
    "RecordInput",
    "RecordResult",
    "RecoverInput",
    "RecoverResult",
]


class RecordInput(msgspec.Struct, frozen=True):
    """RecordRequest."""

    key: SessionKey
    request_id: str
    format: Format = Format.UNSPECIFIED
    items: bytes = b""
    first_item_index: int | None = None
    receipts: tuple[ReceiptGiven, ...] = ()
    anchors: AnchorsGiven | None = None
    expected_revision: int | None = None


class RecordResult(msgspec.Struct, frozen=True):
    """RecordResponse."""

    revision: int
    item_count: int
    history_digest: bytes


class RecoverInput(msgspec.Struct, frozen=True):
    """RecoverRequest."""

    key: SessionKey
    include_body: bool = False
    close_interrupted: bool = False
    request_id: str = ""
    expected_revision: int | None = None


class ReceiptView(msgspec.Struct, frozen=True):
    """A receipt as callers see it."""

    call: CallRef
    state: EffectState
    idempotency_key: str
    detail: str
    result: bytes


class PinView(msgspec.Struct, frozen=True):
    """A pin in force; one of the two is set."""

    call: CallRef | None
    tool_name: str


class OpenCallView(msgspec.Struct, frozen=True):
    """A call without a final result."""

    call: CallRef
    tool_name: str
    content: bytes  # as the model made it, JSON
    receipt: ReceiptView | None
    closed_by: bytes = b""  # the result that close_interrupted wrote


class RecoverResult(msgspec.Struct, frozen=True):
    """RecoverResponse; anchors are the session's, with sources as callers see them."""

    format: Format
    revision: int
    item_count: int
    history_digest: bytes
    anchors: AnchorsGiven
    body: bytes = b""
    pressure: Pressure | None = None
    checkpoints: tuple[CheckpointView, ...] = ()
    attempts: tuple[AttemptView, ...] = ()
    open_calls: tuple[OpenCallView, ...] = ()
    artifact_count: int = 0
    notes: tuple[Note, ...] = ()
    receipts: tuple[ReceiptView, ...] = ()
    pins: tuple[PinView, ...] = ()
