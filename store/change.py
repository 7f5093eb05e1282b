"""Writes of one batch: planned first, counted, then made.

So a batch that is refused leaves no trace in the transaction that it shares with others.
"""

from __future__ import annotations

import lmdb

from store.codec import seal
from store.layout import stored_bytes

__all__ = ["Change"]


class Change:
    """What one batch writes and removes.

    Attributes:
        added_bytes: by how much the store grows, as the quota counts; may be negative.
    """

    def __init__(self, txn: lmdb.Transaction[memoryview]) -> None:
        """Begin with nothing. `txn` is read only until `apply`."""
        self._txn = txn
        self._new: dict[bytes, bytes] = {}
        self._puts: dict[bytes, bytes] = {}
        self._drops: list[bytes] = []
        self.added_bytes = 0

    @property
    def written_bytes(self) -> int:
        """What the new values take, those in the place of old ones too."""
        return sum(stored_bytes(len(key), len(value)) for part in (self._new, self._puts) for key, value in part.items())

    def has(self, key: bytes) -> bool:
        """True when the key is in the store or is about to be. Copies nothing."""
        return key in self._new or self._txn.get(key) is not None

    def add(self, key: bytes, payload: bytes) -> None:
        """Seal and store a value under a key that is not taken."""
        value = seal(key, payload)
        self._new[key] = value
        self.added_bytes += stored_bytes(len(key), len(value))

    def put(self, key: bytes, value: bytes) -> None:
        """Store a value as it is, in the place of an earlier one if there is one."""
        self._puts[key] = value
        self.added_bytes += stored_bytes(len(key), len(value)) - self._taken(key)

    def replace(self, key: bytes, payload: bytes) -> None:
        """Seal and store a value, in the place of an earlier one if there is one."""
        self.put(key, seal(key, payload))

    def overwrite(self, key: bytes, payload: bytes) -> None:
        """Seal another value of the same size under a key that was just planned."""
        self._puts[key] = seal(key, payload)

    def drop(self, key: bytes) -> None:
        """Remove a value."""
        self._drops.append(key)
        self.added_bytes -= self._taken(key)

    def apply(self) -> None:
        """Make the writes, in order of keys. An error from here on spoils the transaction."""
        for key in self._drops:
            self._txn.delete(key)
        for key in sorted(self._new):
            if not self._txn.put(key, self._new[key], overwrite=False):
                raise lmdb.KeyExistsError("a key that must be free is taken")
        for key in sorted(self._puts):
            self._txn.put(key, self._puts[key])

    def _taken(self, key: bytes) -> int:
        value = self._txn.get(key)
        return 0 if value is None else stored_bytes(len(key), len(value))
