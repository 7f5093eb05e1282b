"""What a call keeps: one batch to the store, waited for when the reply speaks of it, and memory brought up to it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING

import msgspec

from fastpath import Scan
from sidecar.core.compaction import AttemptRecord, CheckpointRecord, RequestRecord, RollbackRecord
from sidecar.core.envelope import envelope_digest
from sidecar.core.errors import StoreFailedError
from sidecar.core.types import (
    Anchors,
    ArtifactRecord,
    ArtifactSource,
    Envelope,
    JournalItem,
    Offload,
    PinKey,
    ReceiptRecord,
    SentForm,
)
from sidecar.engine.session import Session
from sidecar.ports import Batch, SessionHead

if TYPE_CHECKING:
    from sidecar.engine.engine import Engine

__all__ = ["Change", "commit", "envelope_of", "unchanged"]

USE_NOTED_MS = 30_000
"""A session's last use is written at most this often when there is nothing else to write."""


class Change(msgspec.Struct):
    """All that one call adds to a session."""

    head: SessionHead
    old_head: SessionHead
    items: Sequence[JournalItem]
    numbers: list[int]
    same_count: int  # leading numbers that are the branch's already
    scan: Scan | None  # of the body that came; None: there was none
    same_envelope: bool  # it is that of the body before
    forms: Sequence[SentForm]
    offloads: Sequence[Offload]
    artifacts: Sequence[ArtifactRecord]
    sources: Sequence[ArtifactSource]
    anchors: Anchors | None
    receipts: Sequence[ReceiptRecord]
    pins: Sequence[PinKey] | None
    must_keep: bool  # the call fails when this cannot be written
    must_wait: bool  # the reply speaks of it
    checkpoints: Sequence[CheckpointRecord] = ()
    attempts: Sequence[AttemptRecord] = ()
    rollbacks: Sequence[RollbackRecord] = ()
    requests: Sequence[RequestRecord] = ()
    plans: Sequence[tuple[str, bytes]] = ()

    @property
    def anything(self) -> bool:
        """Something new would be written, the envelope and the time of use apart."""
        return bool(self.items) or self.must_keep or self.head != self.old_head


def unchanged(session: Session) -> Change:
    """A change that must be kept and is waited for. History, envelope and head stay as they are; what it is for is added."""
    return Change(
        head=session.head,
        old_head=session.head,
        items=(),
        numbers=session.branch,
        same_count=len(session.branch),
        scan=None,
        same_envelope=True,
        forms=(),
        offloads=(),
        artifacts=(),
        sources=(),
        anchors=None,
        receipts=(),
        pins=None,
        must_keep=True,
        must_wait=True,
    )


def envelope_of(scanned: Scan) -> Envelope:
    """A body without its history, with system text and tools apart. A value that stands twice under a name stays in the rest."""
    holes: list[tuple[int, int, str]] = [(*scanned.history, "history")]
    holes.extend((start, end, "system") for start, end in scanned.system)
    holes.extend((start, end, "tools") for start, end in scanned.tools)
    holes.sort()
    rest: list[bytes] = []
    placed: list[tuple[int, str]] = []
    kept: dict[str, list[bytes]] = {"system": [], "tools": []}
    at = length = 0
    for start, end, which in holes:
        rest.append(scanned.body[at:start])
        length += start - at
        placed.append((length, which))
        if which != "history":
            kept[which].append(scanned.body[start:end])
        at = end
    rest.append(scanned.body[at:])
    return Envelope(b"".join(rest), tuple(placed), tuple(kept["system"]), tuple(kept["tools"]))


def commit(engine: Engine, session: Session, change: Change) -> tuple[bool, int]:
    """Write a change, wait where needed, read artifacts back.

    Returns:
        Whether all raw items of the session are flushed, and the revision that is durable.

    Raises:
        StoreFullError, StoreFailedError: nothing of it was written; the session in memory must be dropped.
        CorruptedError: what was read back is not what was written.
    """
    key = session.key
    envelope: Envelope | None = None
    digest = session.envelope_digest
    if change.scan is not None and (not change.same_envelope or not digest):
        envelope = envelope_of(change.scan)
        digest = envelope_digest(envelope)
        if digest == session.envelope_digest:
            envelope = None
    now = engine.clock.now_ms()
    stale = now - change.old_head.update_ms >= USE_NOTED_MS
    if not change.anything and envelope is None and not stale:
        return session.flushed(), session.head.revision
    head = msgspec.structs.replace(change.head, update_ms=now)
    batch = Batch(
        key=key,
        base_number=len(session.metas),
        base_revision=change.old_head.revision,
        head=head,
        items=change.items,
        envelope=envelope,
        forms=change.forms,
        offloads=change.offloads,
        artifacts=change.artifacts,
        sources=change.sources,
        anchors=change.anchors,
        receipts=change.receipts,
        pins=change.pins,
        checkpoints=change.checkpoints,
        attempts=change.attempts,
        rollbacks=change.rollbacks,
        requests=change.requests,
        plans=change.plans,
    )
    future = engine.store.submit(batch)
    _remember(session, change, head, digest)
    session.queue(future, change.items)
    if change.must_wait:
        try:
            future.result(engine.config.write_timeout_s)
        except FutureTimeoutError as error:
            raise StoreFailedError("the flush did not end in time", hint="the disk may be overloaded") from error
        for artifact_id in dict.fromkeys(source.artifact_id for source in change.sources):
            engine.reader.verify(key, artifact_id)
        session.exists = True
    if not session.settle_writes():
        if session.trouble is not None:
            raise session.trouble
        raise StoreFailedError("an earlier write of this session failed", hint="repeat the call")
    return not session.pending, head.revision


def _remember(session: Session, change: Change, head: SessionHead, envelope: bytes) -> None:
    for item in change.items:
        session.add_meta(item.meta)
    for record in change.offloads:
        session.add_record(record)
    for form in change.forms:
        session.known.add_form(form.number, form.record_count, form.digest, form.loose)
    session.artifact_ids.update(source.artifact_id for source in change.sources)
    if change.anchors is not None:
        session.anchors = change.anchors
    for receipt in change.receipts:
        session.add_receipt(receipt)
    if change.pins is not None:
        session.pins = list(change.pins)
    if change.checkpoints or change.rollbacks:
        session.checkpoints.extend(change.checkpoints)
        session.rollbacks.extend(change.rollbacks)
        session.refresh_live()
    session.attempts.update({attempt.attempt_id: attempt for attempt in change.attempts})
    session.requests.update({request.request_id: request for request in change.requests})
    session.head = head
    session.envelope_digest = envelope
    session.set_branch(change.numbers, change.same_count)
