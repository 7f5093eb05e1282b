"""Whole sessions: loaded, listed, removed."""

from __future__ import annotations

import lmdb

from sidecar.core.compaction import CheckpointRecord, RequestRecord, RollbackRecord
from sidecar.core.types import Anchors, ArtifactSource, Envelope, ItemMeta, Offload, PinKey, ReceiptRecord, SentForm, SessionKey
from sidecar.ports import SessionHead, SessionImage, SessionSummary
from store import codec
from store.attempts import read_attempts
from store.blobs import read_blob
from store.codec import DamageError, HeadRecord, NewerError, unseal
from store.layout import (
    INDEX,
    TOMB,
    Family,
    data_key,
    index_names,
    index_prefix,
    number_in,
    session_prefix,
    stored_bytes,
    tomb_key,
)
from store.records import find_handle, index_bytes, read_envelope_record, read_head, stored_in
from store.totals import read_totals, write_totals
from store.walk import at_or_before, scan

__all__ = [
    "all_summaries",
    "count_stored",
    "doomed_handles",
    "load_session",
    "purge_some",
    "read_envelope",
    "read_sources",
    "remove_session",
    "summaries",
    "summarize",
]

PURGE_BYTES = 64 << 20  # of one transaction


def load_session(txn: lmdb.Transaction[memoryview], handle: int) -> SessionImage:
    """All that decisions need of a session. O(its items and records, not their bytes). Raises DamageError, NewerError."""
    head = read_head(txn, handle)
    items: list[ItemMeta] = []
    forms: list[SentForm] = []
    offloads: list[Offload] = []
    receipts: list[ReceiptRecord] = []
    checkpoints: list[CheckpointRecord] = []
    rollbacks: list[RollbackRecord] = []
    requests: list[RequestRecord] = []
    for key, value in scan(txn, data_key(handle, Family.DELTA)):
        delta = codec.DELTA.decode(unseal(key, value))
        items += delta.items
        forms += delta.forms
        offloads += delta.offloads
        receipts += delta.receipts
        checkpoints += delta.checkpoints
        rollbacks += delta.rollbacks
        requests += delta.requests
    if [item.number for item in items] != list(range(head.next_number)):
        raise DamageError("the list of a session's items has a gap")
    anchors = txn.get(key := data_key(handle, Family.ANCHORS))
    pins_key = data_key(handle, Family.PINS)
    pins = txn.get(pins_key)
    return SessionImage(
        head=head.head,
        next_number=head.next_number,
        items=items,
        forms=forms,
        offloads=offloads,
        anchors=Anchors() if anchors is None else codec.ANCHORS.decode(unseal(key, anchors)),
        receipts=receipts,
        pins=[] if pins is None else list[PinKey](codec.PINS.decode(unseal(pins_key, pins))),
        artifact_ids=_artifact_ids(txn, handle),
        envelope_digest=head.envelope_digest,
        checkpoints=checkpoints,
        attempts=read_attempts(txn, handle, head.attempt_count),
        rollbacks=rollbacks,
        requests=requests,
    )


def _artifact_ids(txn: lmdb.Transaction[memoryview], handle: int) -> set[str]:
    prefix = data_key(handle, Family.ARTIFACT)
    return {key[len(prefix) :].hex() for key, _ in scan(txn, prefix)}


def read_envelope(txn: lmdb.Transaction[memoryview], handle: int) -> Envelope | None:
    """The newest envelope, put together again. Raises DamageError, NewerError."""
    record = read_envelope_record(txn, handle)
    if record is None:
        return None

    def part(place: tuple[bytes, int]) -> bytes:
        return read_blob(txn, handle, Family.PART, place[0], 0, place[1])

    return Envelope(part(record.rest), record.holes, tuple(map(part, record.system)), tuple(map(part, record.tools)))


def read_sources(txn: lmdb.Transaction[memoryview], handle: int, after: int, limit: int) -> list[tuple[int, ArtifactSource]]:
    """Sources with a sequence number over `after`, at most `limit`. Costs what it returns, and the batch that `after` is in."""
    found: list[tuple[int, ArtifactSource]] = []
    prefix = data_key(handle, Family.SOURCE)
    begin = at_or_before(txn, data_key(handle, Family.SOURCE, max(0, after + 1)), prefix)
    for key, value in scan(txn, prefix, begin[0] if begin else b""):
        if len(found) >= limit:
            break
        first = number_in(key)
        sources = codec.SOURCES.decode(unseal(key, value))
        found += [(first + place, source) for place, source in enumerate(sources) if first + place > after]
    return found[: max(0, limit)]


def summarize(key: SessionKey, head: HeadRecord) -> SessionSummary:
    """A session as in a list."""
    count = sum(end - start for start, end in head.head.branch)
    return SessionSummary(key, head.head, count, stored_in(head), head.artifact_count, head.head.checkpoint_count)


def summaries(txn: lmdb.Transaction[memoryview], scope: str, prefix: str) -> list[SessionSummary]:
    """Sessions of a scope, most recently used first. O(sessions that match)."""
    found = _summaries(txn, index_prefix(scope, prefix))
    found.sort(key=lambda summary: summary.head.update_ms, reverse=True)
    return found


def all_summaries(txn: lmdb.Transaction[memoryview]) -> list[SessionSummary]:
    """All sessions of all scopes, by scope and id. O(sessions)."""
    found = _summaries(txn, INDEX)
    found.sort(key=lambda summary: (summary.key.scope, summary.key.session_id))
    return found


def _summaries(txn: lmdb.Transaction[memoryview], names: bytes) -> list[SessionSummary]:
    """Sessions under a beginning of names. One with a head that cannot be read shows as empty; the others as they are."""
    found: list[SessionSummary] = []
    for name, value in scan(txn, names):
        key = SessionKey(*index_names(name))
        try:
            found.append(summarize(key, read_head(txn, number_in(bytes(value)))))
        except (DamageError, NewerError):
            found.append(SessionSummary(key, SessionHead(), 0, 0, 0))
    return found


def remove_session(txn: lmdb.Transaction[memoryview], name: bytes) -> int | None:
    """Take a session out of the index and out of the counters, and mark what it holds for removal. None when there is none."""
    handle = find_handle(txn, name)
    if handle is None:
        return None
    totals = read_totals(txn)
    try:
        stored = stored_in(read_head(txn, handle))
    except (DamageError, NewerError):  # what is damaged can be removed all the same
        stored = count_stored(txn, name, handle)
    txn.delete(name)
    txn.put(tomb_key(handle), b"")
    write_totals(txn, totals._replace(used_bytes=totals.used_bytes - stored, session_count=totals.session_count - 1))
    return handle


def count_stored(txn: lmdb.Transaction[memoryview], name: bytes, handle: int) -> int:
    """Bytes that a session takes, counted from its values: what its head says when all is well. O(its values)."""
    values = sum(stored_bytes(len(key), len(value)) for key, value in scan(txn, session_prefix(handle)))
    return values + index_bytes(name)


def purge_some(txn: lmdb.Transaction[memoryview], handle: int, key_count: int) -> bool:
    """Remove up to `key_count` values of a marked session, and the mark with the last of it. True when nothing is left."""
    prefix = session_prefix(handle)
    count = size = 0
    with txn.cursor() as cursor:
        found = cursor.set_range(prefix)
        while found and bytes(cursor.key()).startswith(prefix):
            if count >= key_count or size >= PURGE_BYTES:
                return False
            count += 1
            size += len(cursor.value())
            found = cursor.delete()
    txn.delete(tomb_key(handle))
    return True


def doomed_handles(txn: lmdb.Transaction[memoryview]) -> list[int]:
    """Sessions whose removal was begun and has not ended."""
    return [number_in(key) for key, _ in scan(txn, TOMB)]
