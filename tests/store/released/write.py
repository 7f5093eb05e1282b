"""Write the store of this program's format version: `python -m tests.store.released.write FILE`."""

from __future__ import annotations

import gzip
import sys
import tempfile
from pathlib import Path

from store import LmdbStore
from tests.store.released import content


def main(file: str) -> None:
    """Write all that content has."""
    with tempfile.TemporaryDirectory() as folder:
        store = LmdbStore(folder, quota_bytes=0, map_bytes=1 << 24)
        content.write(store, content.first())
        content.write(store, content.second())
        store.close()
        Path(file).write_bytes(gzip.compress(Path(folder, "data.mdb").read_bytes(), 9, mtime=0))


main(sys.argv[1])
