"""Walk everything and prove it: seals, digests, references both ways, counters. Changes nothing; the store may be in use.

A session's structure is read in one transaction, so that what refers and what is referred to are of one moment; the long proofs
(large values, items, artifacts) follow in a transaction each, so that the file does not grow meanwhile. A session that is removed
while it is checked is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from hashlib import sha256
from typing import Protocol
from zlib import crc32

import lmdb

from sidecar.core.artifacts import decode_content
from sidecar.core.envelope import envelope_digest
from sidecar.core.errors import TrimtabError
from sidecar.core.types import ArtifactRecord, ItemMeta
from store.attempts import read_plan
from store.blobs import read_blob
from store.codec import DamageError, NewerError
from store.journal import read_range
from store.layout import DATA, INDEX, TOMB, Family, index_names, number_in, session_prefix
from store.records import find_handle, read_head, stored_in
from store.sessions import read_envelope
from store.structure import Structure, read_structure
from store.totals import read_totals
from store.walk import scan

__all__ = ["Finding", "Progress", "Reads", "check"]

Finding = Mapping[str, object]
Progress = Callable[[int, int], None]
"""Told of bytes done, of bytes there are."""


class Reads(Protocol):
    """What a check needs of an environment."""

    def read(self, doing: str) -> AbstractContextManager[lmdb.Transaction[memoryview]]:
        """A read transaction."""


def check(env: Reads, progress: Progress | None = None) -> Iterator[Finding]:
    """All findings ("level", "what", "where"); at last one of level "info", with the counts.

    Levels: "error" (something is damaged or missing), "warning" (values that nothing can reach: they take room, and nothing is
    lost by them), "info" (sessions that are being removed, whose values are out of reach already).

    Args:
        env: to read from.
        progress: called now and then, and at the end with all done.
    """
    counts: Counter[str] = Counter()
    for finding in _check(env, counts, progress or _nothing):
        counts[f"{finding['level']}_count"] += 1
        yield finding
    names = ("session", "item", "artifact", "large_value", "checkpoint", "attempt", "error", "warning")
    yield {"level": "info", "what": "count", "where": "", **{f"{name}_count": counts[f"{name}_count"] for name in names}}


def _check(env: Reads, counts: Counter[str], progress: Progress) -> Iterator[Finding]:
    try:
        with env.read("read the index") as txn:
            names = [(name, number_in(bytes(value))) for name, value in scan(txn, INDEX)]
            findings = list(_whole(txn, names))
            sizes = [_stored(txn, handle) for _, handle in names]
    except TrimtabError as err:
        yield _finding("error", f"the index cannot be read: {err.message}", "index")
        return
    yield from findings
    done, total = 0, sum(sizes)
    progress(done, total)
    for (name, handle), size in zip(names, sizes, strict=True):
        counts["session_count"] += 1
        yield from _session(env, name, handle, counts, partial(_part, progress, done, size, total))
        done += size
    progress(total, total)


def _stored(txn: lmdb.Transaction[memoryview], handle: int) -> int:
    """Bytes of a session as its head has them; 0 where that cannot be read."""
    try:
        return stored_in(read_head(txn, handle))
    except (DamageError, NewerError):
        return 0


def _whole(txn: lmdb.Transaction[memoryview], names: list[tuple[bytes, int]]) -> Iterator[Finding]:
    """What is counted of the store, and values that belong to no session."""
    used = 0
    for _, handle in names:
        try:
            used += stored_in(read_head(txn, handle))
        except (DamageError, NewerError):
            used = -1
            break  # told where the session is checked
    try:
        totals = read_totals(txn)
    except DamageError as err:
        yield _finding("error", str(err), "totals")
    else:
        if used not in (-1, totals.used_bytes):
            yield _finding("error", f"sessions take {used} bytes, {totals.used_bytes} are counted", "totals")
        if totals.session_count != len(names):
            yield _finding("error", f"there are {len(names)} sessions, {totals.session_count} are counted", "totals")
    doomed = [number_in(key) for key, _ in scan(txn, TOMB)]
    for handle in doomed:
        yield _finding("info", "a session is being removed: its values are out of reach", f"handle {handle}")
    known = {handle for _, handle in names} | set(doomed)
    with txn.cursor() as cursor:
        found = cursor.set_range(DATA)
        while found and bytes(cursor.key()[:1]) == DATA:
            handle = number_in(bytes(cursor.key()[:9]))
            if handle not in known:
                yield _finding("error", "values belong to no session", f"handle {handle}")
            found = cursor.set_range(session_prefix(handle + 1))


def _session(env: Reads, name: bytes, handle: int, counts: Counter[str], progress: Callable[[float], None]) -> Iterator[Finding]:
    """One session."""
    scope, session_id = index_names(name)
    place = f"session {scope!r} {session_id!r}"
    try:
        with env.read("read a session") as txn:
            if find_handle(txn, name) != handle:
                return
            structure = read_structure(txn, name, handle)
    except TrimtabError as err:
        yield _finding("error", err.message, place)
        return
    for level, what, where in structure.findings:
        yield _finding(level, what, f"{place} {where}".rstrip())
    counts["item_count"] += len(structure.items)
    counts["artifact_count"] += len(structure.artifacts)
    counts["large_value_count"] += len(structure.large)
    counts["checkpoint_count"] += len(structure.checkpoints)
    counts["attempt_count"] += len(structure.attempts)
    proofs = list(_proofs(handle, structure))
    for place_in, (where, proof) in enumerate(proofs):
        if place_in % 16 == 0:
            progress(place_in / len(proofs))
        try:
            with env.read("prove") as txn:
                if find_handle(txn, name) != handle:
                    return
                proof(txn)
        except TrimtabError as err:
            yield _finding("error", err.message, f"{place} {where}")


def _proofs(handle: int, structure: Structure) -> Iterator[tuple[str, Callable[[lmdb.Transaction[memoryview]], None]]]:
    """The long proofs of a session: where, and what raises DamageError when it does not hold."""
    for digest, size in structure.large.items():
        yield f"large value {digest.hex()[:16]}", partial(_prove_large, handle, digest, size)
    for meta in structure.items:
        yield f"item {meta.number}", partial(_prove_item, handle, meta)
    for record in structure.artifacts:
        yield f"artifact {record.artifact_id}", partial(_prove_artifact, handle, record)
    for name in structure.plans:
        yield f"summary request {name.hex()[:16]}", partial(_prove_plan, handle, name)
    yield "envelope", partial(_prove_envelope, handle)


def _prove_large(handle: int, digest: bytes, size: int, txn: lmdb.Transaction[memoryview]) -> None:
    if sha256(read_blob(txn, handle, Family.LARGE, digest, 0, size)).digest() != digest:
        raise DamageError("a large value does not have the digest that names it")


def _prove_item(handle: int, meta: ItemMeta, txn: lmdb.Transaction[memoryview]) -> None:
    raw = read_range(txn, handle, meta.number, 0, None)
    if len(raw) != meta.size_bytes or crc32(raw) != meta.crc:
        raise DamageError("an item's bytes do not have the size and CRC-32 that were noted with it")


def _prove_artifact(handle: int, record: ArtifactRecord, txn: lmdb.Transaction[memoryview]) -> None:
    content = decode_content(record.encoding, read_range(txn, handle, record.number, record.start, record.end))
    if content is None or len(content) != record.size_bytes or sha256(content).digest() != record.sha256:
        raise DamageError("an artifact's content does not have the size and digest that it was stored with")
    ends = [block.start for block in record.blocks[1:]] + [len(content)]
    for block, end in zip(record.blocks, ends, strict=bool(record.blocks)):
        if sha256(content[block.start : end]).digest() != block.sha256:
            raise DamageError("a block of an artifact does not have its digest")


def _prove_plan(handle: int, name: bytes, txn: lmdb.Transaction[memoryview]) -> None:
    read_plan(txn, handle, name)


def _prove_envelope(handle: int, txn: lmdb.Transaction[memoryview]) -> None:
    envelope = read_envelope(txn, handle)
    if envelope is not None and envelope_digest(envelope) != read_head(txn, handle).envelope_digest:
        raise DamageError("the envelope does not have the digest that was noted with it")


def _part(progress: Progress, done: int, size: int, total: int, share: float) -> None:
    """Tell of a share of one session."""
    progress(done + int(share * size), total)


def _nothing(_done: int, _total: int) -> None:
    """Tell nobody."""


def _finding(level: str, what: str, where: str) -> Finding:
    return {"level": level, "what": what, "where": where}
