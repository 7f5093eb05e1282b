"""What an edge hands the engine and gets back: the proto's messages as plain values, so that the engine knows no protobuf.

Calls are named here as callers name them (`CallRef`: id, or position on the current branch); inside, `CallKey` names them for
ever.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from sidecar.core.compaction import KeptReason
from sidecar.core.types import (
    EffectState,
    Format,
    LimitsGiven,
    ReadBack,
    ReductionKind,
    SessionKey,
    UsageFigures,
    WorkState,
)

__all__ = [
    "Advice",
    "AnchorsGiven",
    "ArtifactView",
    "Blocker",
    "CallRef",
    "ConstraintGiven",
    "CriterionGiven",
    "DecisionGiven",
    "FitInput",
    "FitOutcome",
    "FitResult",
    "HistoryMatch",
    "KeptReason",
    "Note",
    "PinGiven",
    "Pressure",
    "ReceiptGiven",
    "Reduction",
    "ReductionTotal",
    "SourceRef",
    "TokenBasis",
    "WorkGiven",
]


class FitOutcome(IntEnum):
    """Numbers as in the proto."""

    UNSPECIFIED = 0
    UNCHANGED = 1
    FITTED = 2
    OVER = 3
    CANNOT_FIT = 4


class TokenBasis(IntEnum):
    """Numbers as in the proto."""

    UNSPECIFIED = 0
    UNKNOWN = 1
    REPORTED = 2
    CALIBRATED = 3
    COUNTED = 4
    ESTIMATED = 5


class CallRef(msgspec.Struct, frozen=True):
    """A call as callers name it."""

    call_id: str = ""
    item_index: int | None = None
    call_index: int | None = None


class SourceRef(msgspec.Struct, frozen=True):
    """What a statement rests on, as callers name it; at most one is set."""

    artifact_id: str = ""
    call: CallRef | None = None
    item_index: int | None = None
    note: str = ""


class CriterionGiven(msgspec.Struct, frozen=True):
    """As in the proto."""

    id: str
    text: str = ""
    revoked: bool = False


class ConstraintGiven(msgspec.Struct, frozen=True):
    """As in the proto."""

    id: str
    text: str = ""
    source: SourceRef | None = None
    revoked: bool = False


class DecisionGiven(msgspec.Struct, frozen=True):
    """As in the proto."""

    id: str
    text: str = ""
    sources: tuple[SourceRef, ...] = ()
    revoked: bool = False


class WorkGiven(msgspec.Struct, frozen=True):
    """As in the proto."""

    id: str
    text: str = ""
    state: WorkState = WorkState.UNSPECIFIED
    evidence: tuple[SourceRef, ...] = ()


class AnchorsGiven(msgspec.Struct, frozen=True):
    """Entries to merge by id."""

    goal: str = ""
    success_criteria: tuple[CriterionGiven, ...] = ()
    constraints: tuple[ConstraintGiven, ...] = ()
    decisions: tuple[DecisionGiven, ...] = ()
    work: tuple[WorkGiven, ...] = ()


class ReceiptGiven(msgspec.Struct, frozen=True):
    """As in the proto."""

    call: CallRef
    state: EffectState
    idempotency_key: str = ""
    detail: str = ""
    result: bytes = b""


class PinGiven(msgspec.Struct, frozen=True):
    """As in the proto; one of call and tool_name is set."""

    call: CallRef | None = None
    tool_name: str = ""
    released: bool = False


class FitInput(msgspec.Struct, frozen=True):
    """FitRequest."""

    key: SessionKey
    body: bytes
    format: Format = Format.UNSPECIFIED
    limits: LimitsGiven | None = None
    anchors: AnchorsGiven | None = None
    receipts: tuple[ReceiptGiven, ...] = ()
    pins: tuple[PinGiven, ...] = ()
    read_back: ReadBack = ReadBack.UNSPECIFIED
    read_back_tool_name: str = ""
    usage: UsageFigures | None = None
    usage_json: bytes | None = None
    dry_run: bool = False
    list_applied: bool = False
    expected_revision: int | None = None


class Pressure(msgspec.Struct, frozen=True):
    """Size of a body and its parts, in bytes; the parts add up to total_bytes."""

    total_bytes: int = 0
    system_bytes: int = 0
    tools_bytes: int = 0
    user_bytes: int = 0
    assistant_bytes: int = 0
    reasoning_bytes: int = 0
    call_bytes: int = 0
    result_bytes: int = 0
    media_bytes: int = 0
    other_bytes: int = 0
    tokens: int | None = None
    token_basis: TokenBasis = TokenBasis.UNKNOWN


class Reduction(msgspec.Struct, frozen=True):
    """One reduction in the returned body."""

    kind: ReductionKind
    item_index: int
    call: CallRef | None
    artifact_id: str
    checkpoint_id: str
    saved_bytes: int


class ReductionTotal(msgspec.Struct, frozen=True):
    """How many reductions of a kind, and what they save together."""

    kind: ReductionKind
    count: int
    saved_bytes: int


class HistoryMatch(msgspec.Struct, frozen=True):
    """How the body's history was matched."""

    matched_item_count: int = 0
    rewritten_item_count: int = 0
    new_item_count: int = 0
    diverged_at: int | None = None
    inapplicable_record_count: int = 0


class Blocker(msgspec.Struct, frozen=True):
    """Something large that may not be touched."""

    item_index: int
    size_bytes: int
    reason: str


class Note(msgspec.Struct, frozen=True):
    """What the caller should know."""

    reason: str
    message: str


class Advice(msgspec.Struct, frozen=True):
    """Whether Compact could help now."""

    eligible: bool = False
    unit_count: int = 0
    range_bytes: int = 0
    reason: KeptReason = KeptReason.UNSPECIFIED


class ArtifactView(msgspec.Struct, frozen=True):
    """An artifact at one of its places, as the proto's Artifact."""

    artifact_id: str
    sha256: bytes
    size_bytes: int
    line_count: int
    media_type: str
    tool_name: str
    call: CallRef | None
    item_index: int  # on the current branch; -1 when on another
    is_error: bool
    create_ms: int


class FitResult(msgspec.Struct, frozen=True):
    """FitResponse."""

    outcome: FitOutcome
    body: bytes  # empty exactly when it equals the request's body, or with dry_run
    before: Pressure
    after: Pressure
    reductions: tuple[Reduction, ...]
    totals: tuple[ReductionTotal, ...]
    artifacts: tuple[ArtifactView, ...]
    advice: Advice
    blockers: tuple[Blocker, ...]
    notes: tuple[Note, ...]
    match: HistoryMatch
    revision: int
    item_count: int
    history_digest: bytes
    stable_prefix_bytes: int
    journal_durable: bool
    read_back_tool_name: str
    effective_limits: LimitsGiven
