"""Durable memory of sessions in LMDB. `LmdbStore` implements `sidecar.ports.Store`.

`check_folder` and `backup_folder` prove and copy a store beside the process that holds it.
"""

from __future__ import annotations

from store.backup import Backup, backup_folder
from store.guest import check_folder
from store.store import LmdbStore

__all__ = ["Backup", "LmdbStore", "backup_folder", "check_folder"]
