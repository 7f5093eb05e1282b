"""Durable memory of sessions in LMDB. `LmdbStore` implements `sidecar.ports.Store`."""

from __future__ import annotations

from store.store import LmdbStore

__all__ = ["LmdbStore"]
