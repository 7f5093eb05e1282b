"""One batch to writes: the sequence is checked, what is known already is left out, counters are kept."""

from __future__ import annotations

from struct import Struct

import lmdb

from sidecar.core.envelope import envelope_digest
from sidecar.core.errors import InvalidFieldError, StoreFailedError
from sidecar.core.types import ArtifactRecord, Envelope
from sidecar.ports import Batch
from store import codec
from store.attempts import plan_attempts
from store.blobs import add_blob, drop_blob
from store.change import Change
from store.codec import DamageError, Delta, EnvelopeRecord, HeadRecord, unseal
from store.journal import add_items
from store.layout import Family, blob_key, data_key, index_key, stored_bytes
from store.totals import Totals

__all__ = [
    "find_handle",
    "head_with",
    "index_bytes",
    "name_key",
    "plan_batch",
    "read_envelope_record",
    "read_head",
    "stored_in",
]

_U64 = Struct(">Q")


def name_key(scope: str, session_id: str) -> bytes:
    """Key of a session in the index. Raises InvalidFieldError."""
    try:
        return index_key(scope, session_id)
    except ValueError as err:
        raise InvalidFieldError("the names of a session are too long", field="session_id") from err


def find_handle(txn: lmdb.Transaction[memoryview], name: bytes) -> int | None:
    """Handle of a session by its index key."""
    value = txn.get(name)
    return None if value is None else int(_U64.unpack(value)[0])


def read_head(txn: lmdb.Transaction[memoryview], handle: int) -> HeadRecord:
    """A session's head. Raises DamageError, NewerError."""
    key = data_key(handle, Family.HEAD)
    value = txn.get(key)
    if value is None:
        raise DamageError("a session's head is missing")
    return codec.HEAD.decode(unseal(key, value))


def stored_in(head: HeadRecord) -> int:
    """Bytes that a session takes, as the quota counts them."""
    return int(_U64.unpack(head.stored_bytes)[0])


def read_envelope_record(txn: lmdb.Transaction[memoryview], handle: int) -> EnvelopeRecord | None:
    """What is kept of the newest envelope beside its parts. Raises DamageError, NewerError."""
    key = data_key(handle, Family.ENVELOPE)
    value = txn.get(key)
    return None if value is None else codec.ENVELOPE.decode(unseal(key, value))


def plan_batch(txn: lmdb.Transaction[memoryview], batch: Batch, totals: Totals) -> tuple[Change, Totals]:
    """Plan all writes of a batch; nothing is written. O(bytes of the batch), whatever the session holds.

    Returns:
        The change, and the totals as they are after it.

    Raises:
        StoreFailedError: the batch is not the next one of its session, or would write over what is final.
        InvalidFieldError: the names are too long.
        ValueError: the batch contradicts itself.
    """
    name = name_key(batch.key.scope, batch.key.session_id)
    handle = find_handle(txn, name)
    change = Change(txn)
    if handle is None:
        handle = totals.next_handle
        totals = totals._replace(session_count=totals.session_count + 1, next_handle=handle + 1)
        old = HeadRecord(name, batch.head, b"", 0, 0, 0, 0, bytes(8))
        revision = 0
        change.put(name, _U64.pack(handle))
    else:
        old = read_head(txn, handle)
        revision = old.head.revision
    if (batch.base_number, batch.base_revision) != (old.next_number, revision):
        raise StoreFailedError(
            f"batch is for item {batch.base_number} and revision {batch.base_revision}, "
            f"the session is at item {old.next_number} and revision {revision}",
            hint="load the session anew",
            item_number=old.next_number,
            revision=revision,
        )
    if [item.meta.number for item in batch.items] != list(range(batch.base_number, batch.base_number + len(batch.items))):
        raise ValueError("items of a batch must be numbered on from its base")

    add_items(change, handle, batch.items)
    delta_count = _add_delta(change, handle, old.next_delta, batch)
    attempt_count = plan_attempts(txn, change, handle, old.attempt_count, batch)
    artifact_count = sum(_add_artifact(txn, change, handle, record) for record in batch.artifacts)
    if batch.sources:
        change.add(data_key(handle, Family.SOURCE, old.next_source), codec.SOURCES.encode(tuple(batch.sources)))
    if batch.anchors is not None:
        change.replace(data_key(handle, Family.ANCHORS), codec.ANCHORS.encode(batch.anchors))
    if batch.pins is not None:
        change.replace(data_key(handle, Family.PINS), codec.PINS.encode(tuple(batch.pins)))
    digest = old.envelope_digest
    if batch.envelope is not None:
        digest = envelope_digest(batch.envelope)
        if digest != old.envelope_digest:
            _put_envelope(txn, change, handle, batch.envelope, digest)
    head = HeadRecord(
        name,
        batch.head,
        digest,
        old.next_number + len(batch.items),
        old.next_delta + delta_count,
        old.next_source + len(batch.sources),
        old.artifact_count + artifact_count,
        bytes(8),
        old.attempt_count + attempt_count,
    )
    _put_head(change, handle, head, stored_in(old))
    return change, totals._replace(used_bytes=totals.used_bytes + change.added_bytes)


def _put_head(change: Change, handle: int, head: HeadRecord, stored_before: int) -> None:
    """The head counts itself: it is planned once for its size and once more with the sum."""
    key = data_key(handle, Family.HEAD)
    change.replace(key, codec.HEAD.encode(head))
    change.overwrite(key, codec.HEAD.encode(head_with(head, stored_before + change.added_bytes)))


def head_with(head: HeadRecord, stored: int) -> HeadRecord:
    """The head with another number of stored bytes; as long as before."""
    return HeadRecord(
        head.index_key,
        head.head,
        head.envelope_digest,
        head.next_number,
        head.next_delta,
        head.next_source,
        head.artifact_count,
        _U64.pack(stored),
        head.attempt_count,
    )


def _add_delta(change: Change, handle: int, sequence: int, batch: Batch) -> int:
    delta = Delta(
        tuple(item.meta for item in batch.items),
        tuple(batch.forms),
        tuple(batch.offloads),
        tuple(batch.receipts),
        tuple(batch.checkpoints),
        tuple(batch.rollbacks),
        tuple(batch.requests),
    )
    if delta == Delta():
        return 0
    change.add(data_key(handle, Family.DELTA, sequence), codec.DELTA.encode(delta))
    return 1


def _add_artifact(txn: lmdb.Transaction[memoryview], change: Change, handle: int, record: ArtifactRecord) -> bool:
    """Plan an artifact's record; the first one of a content stays. True when it is new.

    Raises:
        StoreFailedError: two contents share the id.
    """
    if len(record.artifact_id) != 32 or record.artifact_id != record.sha256.hex()[:32]:
        raise ValueError("an artifact's id is the first 32 hex digits of its SHA-256")
    key = blob_key(handle, Family.ARTIFACT, record.sha256[:16])
    value = txn.get(key)
    if value is not None:
        if codec.ARTIFACT.decode(unseal(key, value)).sha256 != record.sha256:
            raise StoreFailedError("two contents share an artifact id", artifact_id=record.artifact_id)
        return False
    if change.has(key):
        return False
    change.add(key, codec.ARTIFACT.encode(record))
    return True


def _put_envelope(txn: lmdb.Transaction[memoryview], change: Change, handle: int, envelope: Envelope, digest: bytes) -> None:
    """Only the newest envelope is kept; parts that it shares with the one before are not written again."""

    def add(part: bytes) -> tuple[bytes, int]:
        return add_blob(change, handle, Family.PART, part), len(part)

    new = EnvelopeRecord(
        digest,
        add(envelope.rest),
        tuple(envelope.holes),
        tuple(add(part) for part in envelope.system),
        tuple(add(part) for part in envelope.tools),
    )
    old = read_envelope_record(txn, handle)
    if old is not None:
        for part in {old.rest, *old.system, *old.tools} - {new.rest, *new.system, *new.tools}:
            drop_blob(change, handle, Family.PART, *part)
    change.replace(data_key(handle, Family.ENVELOPE), codec.ENVELOPE.encode(new))


def index_bytes(name: bytes) -> int:
    """What a session's index entry takes."""
    return stored_bytes(len(name), _U64.size)
