"""Values of any size under their SHA-256, in sealed pieces: large values of items, parts of envelopes."""

from __future__ import annotations

from hashlib import sha256

import lmdb

from store.change import Change
from store.codec import DamageError, unseal
from store.layout import PIECE_BYTES, Family, blob_key

__all__ = ["add_blob", "drop_blob", "piece_count", "read_blob"]


def piece_count(size_bytes: int) -> int:
    """Pieces of a value; an empty one has one."""
    return max(1, -(-size_bytes // PIECE_BYTES))


def add_blob(change: Change, handle: int, family: Family, value: bytes | memoryview) -> bytes:
    """Store a value unless the session has it. Returns its SHA-256. O(value) for the digest, nothing more when it is there."""
    digest = sha256(value).digest()
    if not change.has(blob_key(handle, family, digest, 0)):
        for piece in range(piece_count(len(value))):
            start = piece * PIECE_BYTES
            change.add(blob_key(handle, family, digest, piece), bytes(value[start : start + PIECE_BYTES]))
    return digest


def drop_blob(change: Change, handle: int, family: Family, digest: bytes, size_bytes: int) -> None:
    """Remove a value."""
    for piece in range(piece_count(size_bytes)):
        change.drop(blob_key(handle, family, digest, piece))


def read_blob(txn: lmdb.Transaction[memoryview], handle: int, family: Family, digest: bytes, start: int, end: int) -> bytes:
    """Bytes [start, end) of a value. Costs the pieces that the range touches, each proved by its own seal. Raises DamageError."""
    found: list[bytes] = []
    first = start // PIECE_BYTES
    for piece in range(first, max(first + 1, -(-end // PIECE_BYTES))):
        key = blob_key(handle, family, digest, piece)
        value = txn.get(key)
        if value is None:
            raise DamageError("a piece of a large value is missing")
        base = piece * PIECE_BYTES
        found.append(bytes(unseal(key, value)[max(0, start - base) : end - base]))
    whole = b"".join(found)
    if len(whole) != end - start:
        raise DamageError("a large value is shorter than it was")
    return whole
