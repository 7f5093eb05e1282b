"""A real store that counts what is read of it."""

from __future__ import annotations

from sidecar.core.types import SessionKey
from store.store import LmdbStore

__all__ = ["CountingStore"]


class CountingStore:
    """Hands everything on to a store, and adds up the bytes of items that were read."""

    def __init__(self, store: LmdbStore) -> None:
        self._store = store
        self.read_bytes = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def read_item_range(self, key: SessionKey, number: int, start: int, end: int) -> bytes:
        got = self._store.read_item_range(key, number, start, end)
        self.read_bytes += len(got)
        return got
