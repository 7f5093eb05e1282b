"""A data file opened for reading only, beside the process that holds the folder if there is one.

LMDB lets any number of processes read what one writes: a reader takes a slot in the table of readers, and the writer keeps the
pages of its snapshot until it is done. So the holder need not be asked, and is not held up; its note stays as it is. Nothing is
written in the folder, but a file that nobody holds and that was cut short is made as long as it says it is. Without a table of
readers (the folder was copied without it) nobody has opened the file in this place yet, and none is needed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import lmdb

from sidecar.core.errors import StoreFailedError
from store import holder, mounts
from store.check import Finding, Progress, check
from store.env import DATA_FILE, DEFAULT_MAP_BYTES, LOCK_FILE, check_mark, fill_up, foreign, is_short, tree_bytes
from store.layout import KEY_FORMAT
from store.trouble import translated

__all__ = ["Guest", "check_folder"]


class Guest:
    """An open data file. Use it in a `with`.

    Attributes:
        version: format version that the file is marked with.
    """

    def __init__(self, file: Path, *, lock: bool = True) -> None:
        """Open.

        Args:
            file: the data file.
            lock: others may write it meanwhile.

        Raises:
            StoreFailedError: there is none, it is not a store of ours, or it is of a newer version.
        """
        self._closed = False
        with translated("open the data file"):
            kind = mounts.mount_kind(file.parent)
            if lock and kind in mounts.REMOTE:
                raise StoreFailedError(
                    f"the data folder is on a file system of kind {kind}, where locks do not hold",
                    hint="read it on the machine that writes it",
                    file_system=kind,
                )
            file.stat()  # a missing file is told as such
            self._lmdb = _open(file, lock=lock and (file.parent / LOCK_FILE).exists())
            try:
                if is_short(self._lmdb, file):
                    _fill_up(self._lmdb, file, lock=lock)
                with self._lmdb.begin(buffers=True) as txn:
                    mark = txn.get(KEY_FORMAT)
                    if mark is None:
                        raise foreign(file.parent)
                    self.version = check_mark(bytes(mark), file.parent)
            except BaseException:
                self._lmdb.close()
                raise

    @contextmanager
    def read(self, doing: str) -> Iterator[lmdb.Transaction[memoryview]]:
        """A read transaction, for the length of a `with`; errors become ours."""
        with translated(doing), self._lmdb.begin(buffers=True) as txn:
            yield txn

    @property
    def closed(self) -> bool:
        """It was closed."""
        return self._closed

    def copy_bytes(self) -> int:
        """What a copy would take now."""
        return tree_bytes(self._lmdb)

    def copy_to(self, descriptor: int) -> None:
        """Write a snapshot, without free pages."""
        with translated("copy the store"):
            self._lmdb.copyfd(descriptor, compact=True)

    def close(self) -> None:
        """Let go of the file."""
        self._closed = True
        self._lmdb.close()

    def __enter__(self) -> Self:
        """Use it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()


def check_folder(folder: str | os.PathLike[str], progress: Progress | None = None) -> Iterator[Finding]:
    """As `store.check.check`, of a data folder that another process may hold and write meanwhile. Nothing is changed.

    Raises:
        StoreFailedError: no store of ours there, or of a newer version; or this process itself holds it.
    """
    with Guest(Path(folder, DATA_FILE)) as guest:
        yield from check(guest, progress)


def _fill_up(env: lmdb.Environment, file: Path, *, lock: bool) -> None:
    """As the holder does when it opens the file: one that holds it has done so, and what is missing now is not in use."""
    if not lock:
        fill_up(env, file)
        return
    try:
        held = holder.hold(file.parent, "trimtab, for a moment", time.time_ns() // 1_000_000)
    except StoreFailedError:
        return
    try:
        fill_up(env, file)
    finally:
        holder.let_go(held)


def _open(file: Path, *, lock: bool) -> lmdb.Environment:
    """Open with as large a map as the writer has, or as can be had: what the file may grow by meanwhile is not read."""
    map_bytes = DEFAULT_MAP_BYTES
    while True:
        try:
            return lmdb.open(
                os.fspath(file.parent if lock else file),
                map_size=map_bytes,
                subdir=lock,
                readonly=True,
                lock=lock,
                create=False,
                readahead=True,
            )
        except lmdb.MemoryError:
            if map_bytes < 2 * file.stat().st_size:
                raise
            map_bytes //= 2
        except (lmdb.InvalidError, lmdb.VersionMismatchError) as err:
            raise foreign(file.parent) from err
