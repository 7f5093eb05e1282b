"""What the sidecar asks of the world outside its decisions. Interfaces only, no code.

One store implements `Store` today (LMDB, embedded); a shared engine will implement the same.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

import msgspec

from sidecar.core.compaction import AttemptRecord, CheckpointRecord, RequestRecord, RollbackRecord
from sidecar.core.replies import ModelReply
from sidecar.core.types import (
    Anchors,
    ArtifactRecord,
    ArtifactSource,
    Envelope,
    Format,
    ItemMeta,
    JournalItem,
    LimitsGiven,
    Offload,
    PinKey,
    ReadBack,
    ReceiptRecord,
    SentForm,
    SessionKey,
)

__all__ = ["Batch", "Clock", "SessionHead", "SessionImage", "SessionSummary", "Store", "StoreStats", "SummaryModel"]


class SessionHead(msgspec.Struct, frozen=True):
    """The small, often rewritten part of a session."""

    format: Format = Format.UNSPECIFIED
    read_back: ReadBack = ReadBack.UNSPECIFIED
    read_back_tool_name: str = ""
    injected: bool = False  # the read-back tool was added in the session's first Fit
    limits: LimitsGiven = LimitsGiven()
    revision: int = 0
    branch: tuple[tuple[int, int], ...] = ()  # half-open ranges of item numbers, in order of the history
    raw_bytes: int = 0  # of the items on the branch
    floor_bytes: int = 0  # size after the last cut that ended above its target; 0: none such
    create_ms: int = 0
    update_ms: int = 0
    checkpoint_count: int = 0  # live
    untold: tuple[tuple[int, int], ...] = ()  # ranges of numbers of items that were recorded and that no body has told yet


class SessionImage(msgspec.Struct):
    """All that decisions need of a session, as it is durable."""

    head: SessionHead
    next_number: int  # of the next raw item
    items: list[ItemMeta]  # by number, 0 .. next_number
    forms: list[SentForm]
    offloads: list[Offload]  # in order of commit
    anchors: Anchors
    receipts: list[ReceiptRecord]  # in order of commit
    pins: list[PinKey]  # in force
    artifact_ids: set[str]
    envelope_digest: bytes  # of the newest durable envelope; empty: none
    checkpoints: list[CheckpointRecord] = []  # in order of commit
    attempts: list[AttemptRecord] = []  # newest state of each, in order of the first
    rollbacks: list[RollbackRecord] = []  # in order of commit
    requests: list[RequestRecord] = []  # in order of commit


class Batch(msgspec.Struct):
    """One atomic change of one session. Written whole and flushed, or not at all.

    `base_number` and `base_revision` must be the durable next number and revision, else the batch is refused with
    StoreFailedError (an earlier batch was lost); the caller then drops what it holds of the session and loads it anew.
    """

    key: SessionKey
    base_number: int
    base_revision: int
    head: SessionHead
    items: Sequence[JournalItem] = ()
    envelope: Envelope | None = None
    forms: Sequence[SentForm] = ()
    offloads: Sequence[Offload] = ()
    artifacts: Sequence[ArtifactRecord] = ()
    sources: Sequence[ArtifactSource] = ()
    anchors: Anchors | None = None
    receipts: Sequence[ReceiptRecord] = ()
    pins: Sequence[PinKey] | None = None  # all in force from now on
    checkpoints: Sequence[CheckpointRecord] = ()
    attempts: Sequence[AttemptRecord] = ()  # each in its newest state; an end that is durable is never written over
    rollbacks: Sequence[RollbackRecord] = ()
    requests: Sequence[RequestRecord] = ()
    plans: Sequence[tuple[str, bytes]] = ()  # by attempt_id: the summary request that was handed to the caller


class SessionSummary(msgspec.Struct, frozen=True):
    """A session in a list."""

    key: SessionKey
    head: SessionHead
    item_count: int  # on the branch
    stored_bytes: int
    artifact_count: int
    checkpoint_count: int = 0  # live


class StoreStats(msgspec.Struct, frozen=True):
    """How full the store is."""

    used_bytes: int
    quota_bytes: int
    session_count: int
    map_bytes: int


class Store(Protocol):
    """Durable memory of sessions. Reads take no locks and leave no transaction open; values returned are copies."""

    def load(self, key: SessionKey) -> SessionImage | None:
        """Read a session as it is durable. None when there is none."""

    def submit(self, batch: Batch) -> Future[None]:
        """Queue a batch; the future ends when it is flushed, or with StoreFullError or StoreFailedError and nothing written."""

    def read_item(self, key: SessionKey, number: int) -> bytes:
        """Raw bytes of an item. Raises CorruptedError."""

    def read_item_range(self, key: SessionKey, number: int, start: int, end: int) -> bytes:
        """Part of an item's raw bytes; costs the part, not the item, where the part lies inside one large value."""

    def read_envelope(self, key: SessionKey) -> Envelope | None:
        """The newest durable envelope."""

    def read_artifact(self, key: SessionKey, artifact_id: str) -> ArtifactRecord | None:
        """An artifact's record."""

    def list_sources(self, key: SessionKey, after: int, limit: int) -> list[tuple[int, ArtifactSource]]:
        """Places that artifacts stood in, oldest first, with their sequence numbers; only those past `after` (from -1)."""

    def read_plan(self, key: SessionKey, attempt_id: str) -> bytes | None:
        """The summary request of an attempt, as it was handed to the caller. Raises CorruptedError."""

    def list_sessions(self, scope: str, prefix: str) -> list[SessionSummary]:
        """Sessions of a scope whose id begins with prefix, most recently used first."""

    def all_sessions(self) -> list[SessionSummary]:
        """Every session of every scope, by scope and id. One whose head cannot be read shows as empty, with no time of use."""

    def summary(self, key: SessionKey) -> SessionSummary | None:
        """One session, as in a list."""

    def delete_session(self, key: SessionKey) -> bool:
        """Remove a session and all that it holds; durable when it returns. True when there was one."""

    def stats(self) -> StoreStats:
        """How full the store is."""

    def check(self) -> Iterator[Mapping[str, object]]:
        """Walk everything and prove every digest; yields findings ("level", "what", "where") and ends with a count."""

    def close(self) -> None:
        """Write what is queued, flush, and let go of the folder."""


class SummaryModel(Protocol):
    """A model endpoint that writes notes for a summary."""

    @property
    def name(self) -> str:
        """Client with prompt version, such as "openai/1"."""

    @property
    def model(self) -> str:
        """Model route."""

    def summarize(
        self, system: str, user: str, *, max_output_bytes: int, timeout_s: float, cancel: threading.Event | None = None
    ) -> ModelReply:
        """Ask once; never retried. Blocks the calling thread.

        Args:
            system: instructions.
            user: the material.
            max_output_bytes: for the answer; the model gets half as many tokens, at least 256, so a longer answer may come.
            timeout_s: for all of the call.
            cancel: ends the call soon after it is set.

        Raises:
            SummarizerFailedError: it had no effect: nothing was sent, the endpoint refused it, or its whole answer is no reply.
            SummarizerUnknownError: nobody can say whether it was answered: the deadline, a cancellation, a lost connection.
        """


class Clock(Protocol):
    """Time from outside."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
