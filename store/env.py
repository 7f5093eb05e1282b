"""The LMDB environment: opened for one owner and one process, with a sparse map; reads that take no locks and outlive no call.

Rules: transactions only inside `read` and `write`; no view leaves them; the environment closes only when no read is running, for
a view on a map that is gone ends the process.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import Struct

import lmdb

from sidecar.core.errors import NotServingError, StoreFailedError
from store import failpoints, holder, mounts
from store.layout import FORMAT_VERSION, KEY_CLEAN, KEY_FORMAT, MAGIC
from store.reserve import Reserve, allocate
from store.trouble import translated

__all__ = [
    "DATA_FILE",
    "DEFAULT_MAP_BYTES",
    "Env",
    "LOCK_FILE",
    "check_mark",
    "fill_up",
    "flush_folder",
    "foreign",
    "is_at",
    "is_short",
    "tree_bytes",
]

DATA_FILE = "data.mdb"
LOCK_FILE = "lock.mdb"

DEFAULT_MAP_BYTES = 1 << 40  # sparse: a 1 TiB map opens in 0.5 ms with a 12 KB file
LEAST_MAP_BYTES = 1 << 24
MAX_READERS = 1024  # slots of 64 bytes; LMDB's own default of 126 is too few for a server's threads
LOCK_BYTES = 64 * MAX_READERS + 4096
SPARE_TXNS = 16
LEAST_RESERVE_BYTES = 1 << 17
MOST_RESERVE_BYTES = 1 << 24
READER_TRIES = 200

_U32 = Struct(">I")


class Env:
    """An open data folder.

    Attributes:
        map_bytes: size of the map.
        map_is_reduced: the address space did not allow what was asked for.
        unclean_end: the last process that held the folder did not close it.
        reserve: disk space for removals; for the writer thread only.
        folder_is_shared: the folder is another user's and stays as wide as it is (a mounted volume); its files are ours only.
        volatile: the folder goes with the container or with the host's memory.
    """

    def __init__(self, path: str | os.PathLike[str], *, map_bytes: int, what: str, now_ms: int) -> None:
        """Open or create.

        Raises:
            StoreFailedError: held by another, not a store of ours, of a newer version, or the operating system refuses.
        """
        self.folder = Path(path)
        self.map_is_reduced = False
        self.unclean_end = False
        self.volatile = False
        self._readers = threading.Condition()
        self._running = 0
        self._closed = False
        self._given_up = False
        self._paused = False  # no read begins
        with translated("open the data folder"):
            self.folder_is_shared = not _own_folder(self.folder)
            kind = mounts.mount_kind(self.folder)
            if kind in mounts.REMOTE:
                raise StoreFailedError(
                    f"the data folder is on a file system of kind {kind}, where locks and memory maps do not hold",
                    hint="use a folder on a local disk",
                    file_system=kind,
                )
            self.volatile = kind in mounts.VOLATILE
            self._holder = holder.hold(self.folder, what, now_ms)
            try:
                self._lmdb = self._open(map_bytes)
                try:
                    self._greet()
                    flush_folder(self.folder)
                    self.reserve = Reserve(self.folder)
                except BaseException:
                    self._lmdb.close()
                    raise
            except BaseException:
                holder.let_go(self._holder)
                raise

    def _open(self, map_bytes: int) -> lmdb.Environment:
        """Open with the largest map that can be had. One more halving leaves the process room of its own."""
        wanted = map_bytes
        while True:
            try:
                env = self._open_once(map_bytes)
            except lmdb.MemoryError:
                if map_bytes // 2 < LEAST_MAP_BYTES:
                    raise
                map_bytes //= 2
                continue
            if map_bytes == wanted or self.map_is_reduced or map_bytes // 2 < LEAST_MAP_BYTES:
                self.map_bytes = env.info()["map_size"]
                self.map_is_reduced = map_bytes != wanted
                return env
            env.close()
            self.map_is_reduced = True
            map_bytes //= 2

    def _open_once(self, map_bytes: int) -> lmdb.Environment:
        # Made here, so that no umask has a say, and never opened again: to close a file gives up LMDB's locks on it. The table of
        # readers is a map: on a full disk, the first touch of a page of it that has no block would end the process.
        _own_file(self.folder / DATA_FILE, 0)
        _own_file(self.folder / LOCK_FILE, LOCK_BYTES)
        try:
            env = lmdb.open(
                os.fspath(self.folder),
                map_size=map_bytes,
                mode=0o600,
                max_readers=MAX_READERS,
                max_spare_txns=SPARE_TXNS,
                readahead=False,
            )
        except (lmdb.InvalidError, lmdb.VersionMismatchError) as err:
            raise foreign(self.folder) from err
        env.reader_check()
        self._file_id = self._find_file()
        fill_up(env, self.folder / DATA_FILE)
        return env

    def _greet(self) -> None:
        """Know the format, mark an older one as ours; take note of how the last holder ended, and that we have begun."""
        with self._lmdb.begin(write=True) as txn:
            mark = txn.get(KEY_FORMAT)
            if mark is None and txn.stat()["entries"]:
                raise foreign(self.folder)
            if mark is None or check_mark(mark, self.folder) < FORMAT_VERSION:  # what an older one holds is read as it is
                txn.put(KEY_FORMAT, MAGIC + _U32.pack(FORMAT_VERSION))
            self.unclean_end = txn.get(KEY_CLEAN) == b"\x00"
            txn.put(KEY_CLEAN, b"\x00")
            failpoints.hit("before_greet")
        failpoints.hit("after_greet")

    @contextmanager
    def read(self, doing: str) -> Iterator[lmdb.Transaction[memoryview]]:
        """A read transaction, for the length of a `with`; errors become ours."""
        self._enter()
        try:
            with translated(doing), self._begin_read() as txn:
                yield txn
        finally:
            self._leave()

    def _begin_read(self) -> lmdb.Transaction[memoryview]:
        """Begin; when all reader slots are taken, free those of dead processes and wait for one a while."""
        for _ in range(READER_TRIES):
            try:
                return self._lmdb.begin(buffers=True)
            except lmdb.ReadersFullError:
                self._lmdb.reader_check()
                time.sleep(0.005)
        return self._lmdb.begin(buffers=True)

    def write(self) -> lmdb.Transaction[memoryview]:
        """A write transaction; for the writer thread only. Errors are LMDB's, and those of opening anew what it has given up."""
        if self._given_up:
            self.reopen()
        try:
            return self._lmdb.begin(write=True, buffers=True)
        except lmdb.PanicError:
            self.reopen()
        return self._lmdb.begin(write=True, buffers=True)

    def reopen(self) -> None:
        """Open anew what LMDB has given up (it could not write its meta page); reads wait. For the writer thread only."""
        with self._readers:
            self._given_up = self._paused = True
            self._readers.wait_for(lambda: not self._running)
            try:
                self.check_in_place()
                self._lmdb.close()
                self._lmdb = self._open_once(self.map_bytes)
                self._given_up = False
            finally:
                self._paused = False
                self._readers.notify_all()

    def check_in_place(self) -> None:
        """The data file is still the one that is open. One that was deleted takes writes and flushes, and ends with the process.

        Raises:
            StoreFailedError: it is not.
        """
        if self._find_file() != self._file_id:
            raise StoreFailedError(
                "the data folder was deleted or replaced under the running server: what is written now would be lost",
                hint="put the folder in its place and start again; until then, what was kept can still be read",
            )

    def _find_file(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.folder / DATA_FILE)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found.st_dev, found.st_ino

    def room_bytes(self, txn: lmdb.Transaction[memoryview]) -> int:
        """What the map has left for a transaction that has come so far, less what removals need.

        LMDB cannot make room once the last page is taken: a removal takes pages before it gives any back.
        """
        stat = txn.stat()
        pages = 2 + stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
        reserve = max(LEAST_RESERVE_BYTES, min(self.map_bytes // 16, MOST_RESERVE_BYTES))
        return self.map_bytes - reserve - pages * stat["psize"]

    def is_full(self, needed_bytes: int) -> bool:
        """The file cannot grow by so much: tells a short write on a full disk, which LMDB reports as EIO, from a broken disk."""
        try:
            room = os.statvfs(self.folder)
            size = (self.folder / DATA_FILE).stat().st_size
        except OSError:  # gone, which is told elsewhere
            return False
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        within_limit = limit == resource.RLIM_INFINITY or size + needed_bytes <= limit
        return room.f_bavail * room.f_frsize < needed_bytes or not within_limit

    def forget(self) -> None:
        """In a forked child: the folder stays the parent's. What was opened is not touched."""
        self._readers = threading.Condition()
        self._closed = True
        os.close(self._holder)

    @property
    def closed(self) -> bool:
        """It was closed, or is about to be."""
        return self._closed

    def copy_bytes(self) -> int:
        """What a copy would take now."""
        self._enter()
        try:
            return tree_bytes(self._lmdb)
        finally:
            self._leave()

    def copy_to(self, descriptor: int) -> None:
        """Write a snapshot, without free pages. Writes go on; pages that they free are not used again until this ends.

        Only `reopen` waits for it, as for any read: so do writes, should LMDB give the file up meanwhile.
        """
        self._enter()
        try:
            with translated("copy the store"):
                self._lmdb.copyfd(descriptor, compact=True)
        finally:
            self._leave()

    def reader_check(self) -> int:
        """Free the reader slots of dead processes."""
        return self._lmdb.reader_check()

    def close(self) -> None:
        """Wait for the reads that run, note a clean end, let go of the folder. Nothing may write any more."""
        with self._readers:
            if self._closed:
                return
            self._closed = True
            self._readers.wait_for(lambda: not self._running)
        try:
            with translated("close the data folder"):
                failpoints.hit("close")
                with self._lmdb.begin(write=True) as txn:
                    txn.put(KEY_CLEAN, b"\x01")
                failpoints.hit("after_close")
        finally:
            self._lmdb.close()
            self.reserve.close()
            holder.let_go(self._holder)

    def _enter(self) -> None:
        with self._readers:
            while self._paused:
                self._readers.wait()
            if self._closed:
                raise NotServingError("the store is closed")
            self._running += 1

    def _leave(self) -> None:
        with self._readers:
            self._running -= 1
            if not self._running:
                self._readers.notify_all()


def is_at(path: str | os.PathLike[str]) -> bool:
    """The folder holds a data file."""
    return Path(path, DATA_FILE).exists()


def _own_folder(folder: Path) -> bool:
    """Make the folder, and make it its owner's only, whatever the umask. False when it is another user's."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        folder.chmod(0o700)
    except PermissionError:
        if folder.stat().st_uid == os.geteuid():
            raise
        return False
    return True


def _own_file(path: Path, size_bytes: int) -> None:
    """Make a file, its owner's only, with blocks up to a size."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        if os.fstat(descriptor).st_size < size_bytes:
            allocate(descriptor, size_bytes)
    finally:
        os.close(descriptor)


def flush_folder(folder: Path) -> None:
    """Make the folder's entries durable, and its own where its parent may be opened."""
    for place in (folder, folder.parent):
        with suppress(PermissionError):
            descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def check_mark(mark: bytes, folder: Path) -> int:
    """The format version that a store is marked with.

    Raises:
        StoreFailedError: not a mark of ours, or of a newer version.
    """
    if len(mark) != len(MAGIC) + _U32.size or not mark.startswith(MAGIC):
        raise foreign(folder)
    found = int(_U32.unpack(mark[len(MAGIC) :])[0])
    if found > FORMAT_VERSION:
        raise StoreFailedError(
            f"the data folder has format version {found}, this program knows {FORMAT_VERSION}",
            hint="start the newer version, or use another folder",
            found_version=found,
            known_version=FORMAT_VERSION,
        )
    return found


def is_short(env: lmdb.Environment, file: Path) -> bool:
    """The file ends before its last page: a copy that was cut short, or pages at its end that nothing uses."""
    needed = (env.info()["last_pgno"] + 1) * env.stat()["psize"]  # first: who writes makes the file longer
    return file.stat().st_size < needed


def fill_up(env: lmdb.Environment, file: Path) -> None:
    """Let missing pages read as zeros, for a map past the end of its file ends the process. Nobody else may write the file."""
    if is_short(env, file):
        os.truncate(file, (env.info()["last_pgno"] + 1) * env.stat()["psize"])


def tree_bytes(env: lmdb.Environment) -> int:
    """What the pages in use take, those at the file's head included."""
    stat = env.stat()
    return int(stat["psize"] * (2 + stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]))


def foreign(folder: Path) -> StoreFailedError:
    """What is said of a file that is not ours."""
    return StoreFailedError(
        "the data folder holds a file that is not a store of this program",
        hint=f"use another folder than {folder}",
    )
