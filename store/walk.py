"""Moving through the tree in a transaction. Keys are copied, values are views: not to be kept."""

from __future__ import annotations

from collections.abc import Iterator

import lmdb

__all__ = ["at_or_before", "scan"]


def scan(txn: lmdb.Transaction[memoryview], prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, memoryview]]:
    """Keys and values that begin with prefix, in order, from `start` on."""
    with txn.cursor() as cursor:
        found = cursor.set_range(start or prefix)
        while found:
            key = bytes(cursor.key())
            if not key.startswith(prefix):
                return
            yield key, cursor.value()
            found = cursor.next()


def at_or_before(txn: lmdb.Transaction[memoryview], key: bytes, prefix: bytes) -> tuple[bytes, memoryview] | None:
    """The last entry with a key up to `key` that begins with prefix."""
    with txn.cursor() as cursor:
        found = cursor.set_range(key)
        if not found:
            found = cursor.last()
        elif bytes(cursor.key()) != key:
            found = cursor.prev()
        if not found or not bytes(cursor.key()).startswith(prefix):
            return None
        return bytes(cursor.key()), cursor.value()
