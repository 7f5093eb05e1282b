"""Attempts to summarize: each in its newest state, and the summary request of those that are open.

An attempt stands under the SHA-256 of its id, so that its durable state is found with one seek, whatever the session holds. An
end (committed, failed, unknown) that is durable is never written over. The summary request is kept until then: a repeat of the
call that asked for it answers the same bytes; after the end, the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import lmdb

from sidecar.core.compaction import AttemptRecord, AttemptState
from sidecar.core.errors import StoreFailedError
from sidecar.ports import Batch
from store import codec
from store.blobs import drop_blob, piece_count, read_blob
from store.change import Change
from store.codec import AttemptEntry, DamageError, unseal
from store.layout import PIECE_BYTES, Family, blob_key, data_key
from store.walk import scan

__all__ = ["attempt_name", "has_ended", "plan_attempts", "read_attempts", "read_plan"]

_ENDS = frozenset({AttemptState.COMMITTED, AttemptState.FAILED, AttemptState.UNKNOWN})


def attempt_name(attempt_id: str) -> bytes:
    """What names an attempt in keys: SHA-256 of its id. Any text will do."""
    return sha256(attempt_id.encode("utf-8", "surrogatepass")).digest()


def has_ended(record: AttemptRecord) -> bool:
    """Its state is final."""
    return record.state in _ENDS


def read_attempts(txn: lmdb.Transaction[memoryview], handle: int, count: int) -> list[AttemptRecord]:
    """All attempts of a session, in order of the first record of each. Raises DamageError, NewerError."""
    entries = [codec.ATTEMPT.decode(unseal(key, value)) for key, value in scan(txn, data_key(handle, Family.ATTEMPT))]
    entries.sort(key=lambda entry: entry.place)
    if [entry.place for entry in entries] != list(range(count)):
        raise DamageError("the list of a session's attempts has a gap")
    return [entry.record for entry in entries]


def read_plan(txn: lmdb.Transaction[memoryview], handle: int, name: bytes) -> bytes | None:
    """The summary request of an attempt; None when it has none, or has ended. Raises DamageError, NewerError."""
    entry = _read_entry(txn, handle, name)
    if entry is None or entry.plan is None:
        return None
    size, digest = entry.plan
    plan = read_blob(txn, handle, Family.PLAN, name, 0, size)
    if sha256(plan).digest() != digest:
        raise DamageError("a summary request does not have the digest that was noted with it")
    return plan


def plan_attempts(txn: lmdb.Transaction[memoryview], change: Change, handle: int, count: int, batch: Batch) -> int:
    """Plan the writes of a batch's attempts and summary requests.

    Args:
        txn: read only.
        change: takes the writes.
        handle: of the session.
        count: attempts that the session has.
        batch: its `attempts` in order, each of a new attempt or of one that goes on.

    Returns:
        How many attempts are new.

    Raises:
        StoreFailedError: an end, or a summary request that was handed out, would be written over.
        ValueError: a summary request has no attempt, or the other way round.
    """
    plans = dict(batch.plans)
    if not plans and not batch.attempts:
        return 0
    if len(plans) != len(batch.plans):
        raise ValueError("two summary requests for one attempt")
    old: dict[bytes, AttemptEntry] = {}
    new: dict[bytes, AttemptEntry] = {}
    for record in batch.attempts:
        name = attempt_name(record.attempt_id)
        before = new.get(name)
        if before is None and (durable := _read_entry(txn, handle, name)) is not None:
            old[name] = before = durable
        if before is None:
            new[name] = AttemptEntry(count + len(new) - len(old.keys() & new.keys()), _as_read(record))
        elif not has_ended(before.record):
            new[name] = AttemptEntry(before.place, _as_read(record), before.plan)
        elif before.record != _as_read(record):
            raise StoreFailedError(
                "an attempt that has ended would be written over",
                hint="load the session anew",
                state=before.record.state.name,
            )
    added = len(new) - len(old.keys() & new.keys())
    _plan_plans(txn, change, handle, new, plans)
    for name, entry in new.items():
        if has_ended(entry.record) and entry.plan is not None:
            if name in old and old[name].plan is not None:
                drop_blob(change, handle, Family.PLAN, name, entry.plan[0])
            new[name] = entry = AttemptEntry(entry.place, entry.record)
        if entry.record.has_plan and entry.plan is None and not has_ended(entry.record):
            raise ValueError("an attempt without its summary request")
        change.replace(blob_key(handle, Family.ATTEMPT, name), codec.ATTEMPT.encode(entry))
    return added


def _plan_plans(
    txn: lmdb.Transaction[memoryview],
    change: Change,
    handle: int,
    new: dict[bytes, AttemptEntry],
    plans: Mapping[str, bytes],
) -> None:
    """Plan the summary requests of open attempts; those of attempts that have ended are not kept."""
    for attempt_id, plan in plans.items():
        name = attempt_name(attempt_id)
        entry = new.get(name) or _read_entry(txn, handle, name)
        if entry is None:
            raise ValueError("a summary request without its attempt")
        place = (len(plan), sha256(plan).digest())
        if has_ended(entry.record) or entry.plan == place:
            continue
        if entry.plan is not None:
            raise StoreFailedError("a summary request that was handed out would be written over", hint="load the session anew")
        for piece in range(piece_count(len(plan))):
            start = piece * PIECE_BYTES
            change.add(blob_key(handle, Family.PLAN, name, piece), plan[start : start + PIECE_BYTES])
        new[name] = AttemptEntry(entry.place, entry.record, place)


def _read_entry(txn: lmdb.Transaction[memoryview], handle: int, name: bytes) -> AttemptEntry | None:
    key = blob_key(handle, Family.ATTEMPT, name)
    value = txn.get(key)
    return None if value is None else codec.ATTEMPT.decode(unseal(key, value))


def _as_read(record: AttemptRecord) -> AttemptRecord:
    """The record as it is read back: text that is not Unicode comes back changed."""
    return codec.ATTEMPT.decode(memoryview(codec.ATTEMPT.encode(AttemptEntry(0, record)))).record
