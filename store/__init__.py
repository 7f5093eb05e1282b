"""Durable memory of sessions in LMDB. `LmdbStore` implements `sidecar.ports.Store`.

`backup_folder` copies a store beside the process that holds it.
"""

from __future__ import annotations

from store.backup import Backup, backup_folder
from store.store import LmdbStore

__all__ = ["Backup", "LmdbStore", "backup_folder"]
