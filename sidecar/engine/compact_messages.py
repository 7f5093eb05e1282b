"""What an edge hands the engine for compaction and gets back, as plain values. See `messages.py`."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from sidecar.core.compaction import AttemptState, CompactMode, KeptReason, Summarizer
from sidecar.core.types import Format, LimitsGiven, SessionKey, UsageFigures
from sidecar.engine.messages import AnchorsGiven, Note, Pressure, ReceiptGiven

__all__ = [
    "AttemptView",
    "BudgetGiven",
    "CheckpointView",
    "CompactInput",
    "CompactOutcome",
    "CompactResult",
    "FinishInput",
    "RollbackInput",
    "RollbackResult",
]

IndexRanges = tuple[tuple[int, int], ...]


class CompactOutcome(IntEnum):
    """Numbers as in the proto."""

    UNSPECIFIED = 0
    COMMITTED = 1
    PLANNED = 2
    KEPT = 3
    UNKNOWN = 4


class BudgetGiven(msgspec.Struct, frozen=True):
    """What the run may still spend; None is not told."""

    requests_left: int | None = None
    requests_reserved: int | None = None
    tokens_left: int | None = None
    tokens_reserved: int | None = None


class CompactInput(msgspec.Struct, frozen=True):
    """CompactRequest."""

    key: SessionKey
    request_id: str
    body: bytes = b""
    boundary: str = ""
    force_mid_stage: bool = False
    ignore_pressure: bool = False
    mode: CompactMode = CompactMode.UNSPECIFIED
    summarizer: Summarizer = Summarizer.UNSPECIFIED
    budget: BudgetGiven | None = None
    focus: str = ""
    limits: LimitsGiven | None = None
    anchors: AnchorsGiven | None = None
    receipts: tuple[ReceiptGiven, ...] = ()
    dry_run: bool = False
    include_body: bool = False
    expected_revision: int | None = None
    timeout_s: float = 60.0  # what is left of the caller's deadline


class FinishInput(msgspec.Struct, frozen=True):
    """FinishCompactRequest; exactly one of the four ends is not None."""

    key: SessionKey
    attempt_id: str
    response: bytes | None = None
    text: str | None = None
    failed: str | None = None
    unknown: str | None = None
    include_body: bool = False


class RollbackInput(msgspec.Struct, frozen=True):
    """RollbackRequest."""

    key: SessionKey
    request_id: str
    checkpoint_id: str
    expected_revision: int | None = None


class RollbackResult(msgspec.Struct, frozen=True):
    """RollbackResponse."""

    checkpoint_ids: tuple[str, ...]
    revision: int


class CheckpointView(msgspec.Struct, frozen=True):
    """A checkpoint as callers see it: items by index on the current branch; those that are not on it are left out."""

    checkpoint_id: str
    base_revision: int
    revision: int
    items: IndexRanges
    items_sha256: bytes
    attempt_id: str
    summarizer: str
    model: str
    format: Format
    boundary: str
    mode: CompactMode
    superseded_checkpoint_ids: tuple[str, ...]
    summary: bytes
    anchors_revision: int
    before_bytes: int
    after_bytes: int
    create_ms: int
    live: bool


class AttemptView(msgspec.Struct, frozen=True):
    """An attempt as callers see it."""

    attempt_id: str
    state: AttemptState
    items: IndexRanges
    summarizer: str
    detail: str
    usage: UsageFigures | None
    create_ms: int


class CompactResult(msgspec.Struct, frozen=True):
    """CompactResponse."""

    outcome: CompactOutcome
    kept_reason: KeptReason = KeptReason.UNSPECIFIED
    detail: str = ""
    summary_request: bytes = b""
    checkpoint: CheckpointView | None = None
    attempt: AttemptView | None = None
    before: Pressure | None = None
    after: Pressure | None = None
    body: bytes = b""
    revision: int = 0
    item_count: int = 0
    notes: tuple[Note, ...] = ()
