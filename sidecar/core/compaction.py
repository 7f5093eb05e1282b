"""Values of compaction: checkpoints, attempts, rollbacks, requests that are remembered. Frozen; nothing here decides anything.

A checkpoint binds a summary to the exact raw items that it replaced. Raw items are named by number, never by index, so that it
means the same on every branch that holds them. An attempt is written again with each state that it enters; the newest counts,
and an end stands.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from sidecar.core.types import CallKey, Format, UsageFigures

__all__ = [
    "AttemptRecord",
    "AttemptState",
    "CheckpointRecord",
    "CompactMode",
    "KeptReason",
    "RequestRecord",
    "RollbackRecord",
    "Summarizer",
    "Trim",
]

Ranges = tuple[tuple[int, int], ...]


class CompactMode(IntEnum):
    """What a compaction covers; numbers as in the proto."""

    UNSPECIFIED = 0
    EXTEND = 1
    REDERIVE = 2


class Summarizer(IntEnum):
    """Who writes the summary; numbers as in the proto."""

    UNSPECIFIED = 0
    LEDGER = 1
    CALLER = 2
    MODEL = 3


class AttemptState(IntEnum):
    """State of an attempt to summarize; numbers as in the proto."""

    UNSPECIFIED = 0
    RESERVED = 1
    DISPATCHED = 2
    COMMITTED = 3
    FAILED = 4
    UNKNOWN = 5


class KeptReason(IntEnum):
    """Why the history stays as it is; numbers as in the proto."""

    UNSPECIFIED = 0
    NO_PRESSURE = 1
    NO_CANDIDATE = 2
    MID_STAGE = 3
    RESERVE_PROTECTED = 4
    LOW_BENEFIT = 5
    DOES_NOT_FIT = 6
    SUMMARY_REJECTED = 7
    SUMMARIZER_FAILED = 8
    ATTEMPTS_SPENT = 9
    DISABLED = 10
    FIT_FIRST = 11
    DRY_RUN = 12
    ROLLED_BACK = 13


class Trim(msgspec.Struct, frozen=True, array_like=True):
    """An item that stays with what a person wrote in it, while the results beside that leave."""

    number: int
    blocks: tuple[int, ...]  # indices of the content's elements that leave, ascending


class CheckpointRecord(msgspec.Struct, frozen=True):
    """A summary bound to exactly what it replaced. Never changes."""

    checkpoint_id: str  # "c1", "c2", ...: in order of commit within the session
    base_revision: int  # that it was made on
    revision: int  # that it made
    gone: Ranges  # numbers of the items that leave whole, half-open, in order of the history
    trims: tuple[Trim, ...]
    after: int  # number of the item behind which the summary stands; that item is gone, trimmed, or stays
    role: int  # fastpath.Role of the summary item: USER, or ASSISTANT where a kept unit's results would meet user text
    pointers: tuple[int, ...]  # numbers of gone items behind which a one-line pointer stands, as an assistant item
    items_sha256: bytes  # SHA-256 over the covered items' digests, in order
    calls: tuple[CallKey, ...]  # that it covers
    artifact_ids: tuple[str, ...]  # that its summary names
    attempt_id: str
    summarizer: str  # with version: "ledger/1"
    model: str  # route; empty for the ledger
    format: Format
    boundary: str  # stage that had ended
    mode: CompactMode
    superseded: tuple[str, ...]  # checkpoints that it takes the place of; taking it back makes them live again
    summary: str  # the text as it stands in the body
    anchors_revision: int
    before_bytes: int  # finished bodies
    after_bytes: int
    create_ms: int


class AttemptRecord(msgspec.Struct, frozen=True):
    """One attempt to summarize, in the state that it entered last."""

    attempt_id: str  # the request_id that it was made under
    digest: bytes  # SHA-256 of the request's content: the same id with another content is refused
    state: AttemptState
    kind: Summarizer
    summarizer: str  # with version: "caller/1", "openai/1"
    model: str
    numbers: Ranges  # raw items that it covers, in order of the history
    mode: CompactMode
    boundary: str = ""
    focus: str = ""
    detail: str = ""  # why it ended as it did; never content
    kept_reason: KeptReason = KeptReason.UNSPECIFIED  # once it ended without a checkpoint
    before_bytes: int = 0
    after_bytes: int = 0  # as it is, or would have been
    checkpoint_id: str = ""
    usage: UsageFigures | None = None
    has_plan: bool = False  # its summary request is in the store, by attempt_id
    base_revision: int = 0
    revision: int = 0  # of the session, once it ended
    create_ms: int = 0


class RollbackRecord(msgspec.Struct, frozen=True):
    """Checkpoints taken back. Never changes."""

    request_id: str
    digest: bytes  # as in AttemptRecord
    checkpoint_ids: tuple[str, ...]  # taken back by this, in order of commit
    revision: int  # that it made
    create_ms: int


class RequestRecord(msgspec.Struct, frozen=True):
    """A Record or a closing Recover that was done, with what it answered."""

    request_id: str
    digest: bytes
    revision: int
    item_count: int
    history_digest: bytes
    detail: bytes = b""  # what else its answer needs
