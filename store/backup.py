"""A hot copy of a store in another folder: proven, and whole or not there.

LMDB writes a snapshot without its free pages while writes go on: what is acknowledged before the copy begins is in it. Pages that
writers free meanwhile are not used again until the copy is written, so the store's file may grow by what is written in that time.

The snapshot goes through a pipe, so that this thread does the writing: it can tell how far it is, stop at once, and see the
disk's own error. It is written under another name, flushed, marked as cleanly ended (the store that it was taken from may be
open), proven by `check`, and only then given its name: a folder without that name is no store, however the copy ended. To
restore, stop the sidecar and put the copy's folder in the place of the data folder, or start on the copy.

A process beside the holder of the folder may copy it too: see `store.guest`. That needs no word with the holder, so a copy can be
made by the command line while a sidecar serves.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

import lmdb

from sidecar.core.errors import CorruptedError, NotServingError, StoreFailedError
from store import failpoints
from store.check import Finding, check
from store.env import DATA_FILE, flush_folder
from store.guest import Guest
from store.layout import KEY_CLEAN
from store.trouble import translated

__all__ = ["Backup", "Progress", "backup", "backup_folder"]

PARTIAL_FILE = DATA_FILE + ".partial"
CHUNK_BYTES = 1 << 20
COPY = "copy"
CHECK = "check"

Progress = Callable[[str, int, int], None]
"""Told of the phase ("copy", "check"), of bytes done, of bytes there are (about, while copying)."""


class Backup(NamedTuple):
    """What was copied."""

    size_bytes: int
    counts: Finding  # as `check` ends with, for the copy


class Source(Protocol):
    """An open store to copy from."""

    @property
    def closed(self) -> bool:
        """It is about to close: a copy must end."""

    def copy_bytes(self) -> int:
        """What a copy would take now."""

    def copy_to(self, descriptor: int) -> None:
        """Write a snapshot."""


def backup_folder(folder: str | os.PathLike[str], target: str | os.PathLike[str], progress: Progress | None = None) -> Backup:
    """As `backup`, of a data folder that another process may hold and write meanwhile. The folder is not changed.

    Raises:
        StoreFailedError: no store of ours there, or of a newer version; or this process itself holds it.
        Others as `backup`.
    """
    with Guest(Path(folder, DATA_FILE)) as guest:
        return backup(guest, target, progress)


def backup(source: Source, target: str | os.PathLike[str], progress: Progress | None = None) -> Backup:
    """Copy a store into a folder that is empty or not there yet; its files are its owner's only.

    Costs memory for one chunk, and the disk what the store's values take. What an earlier copy that was killed has left is
    written over.

    Args:
        source: stays in use.
        target: the folder.
        progress: called about once a MiB; what it raises ends the copy.

    Raises:
        StoreFailedError: the folder holds something, or the operating system refuses.
        StoreFullError: the disk is full.
        CorruptedError: the copy does not prove sound.
        NotServingError: the store was closed meanwhile.
        In each case nothing is left of the copy.
    """
    folder = Path(target)
    tell = progress or _nothing
    with translated("make the folder of the copy"):
        made = not folder.exists()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if {place.name for place in folder.iterdir()} - {PARTIAL_FILE}:
            raise StoreFailedError("the folder for the copy is not empty", hint="name a new folder, or empty this one")
    partial = folder / PARTIAL_FILE
    try:
        with translated("write the copy"):
            _write(source, partial, tell)
            _mark_clean(partial)
            size = partial.stat().st_size
        counts = _prove(partial, tell)
        with translated("write the copy"):
            failpoints.hit("backup_rename")
            partial.rename(folder / DATA_FILE)
            flush_folder(folder)
    except BaseException:
        with suppress(OSError):
            (folder / DATA_FILE).unlink(missing_ok=True)
            partial.unlink(missing_ok=True)
            if made:
                folder.rmdir()
        raise
    return Backup(size, counts)


def _write(source: Source, file: Path, progress: Progress) -> None:
    """Write and flush the snapshot."""
    total = source.copy_bytes()
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        done = _pump(source, descriptor, lambda done: progress(COPY, done, max(total, done)))
        os.fsync(descriptor)
        if hasattr(os, "posix_fadvise"):  # so that what is proven is what the disk has
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
    progress(COPY, done, done)


def _pump(source: Source, descriptor: int, progress: Callable[[int], None]) -> int:
    """Bring the snapshot from LMDB, which writes it in a thread of its own, to the file."""
    outlet, inlet = os.pipe()
    failures: list[BaseException] = []

    def copy() -> None:
        try:
            source.copy_to(inlet)
        except BaseException as err:
            failures.append(err)
        finally:
            os.close(inlet)

    thread = threading.Thread(target=copy, name="store-backup", daemon=True)
    done = 0
    try:
        try:
            thread.start()
        except BaseException:
            os.close(inlet)
            raise
        while chunk := os.read(outlet, CHUNK_BYTES):
            if source.closed:
                raise NotServingError("the store was closed while it was copied")
            failpoints.hit("backup_write")
            view = memoryview(chunk)
            while view:
                view = view[os.write(descriptor, view) :]
            done += len(chunk)
            progress(done)
    finally:
        os.close(outlet)  # ends the thread: nobody reads what it writes
        if thread.ident is not None:
            thread.join()
    if failures:
        raise failures[0]
    return done


def _mark_clean(file: Path) -> None:
    """Nobody has held the copy: it was not left without being closed. Flushed."""
    with (
        lmdb.open(os.fspath(file), map_size=4 * file.stat().st_size + (1 << 24), subdir=False, lock=False, mode=0o600) as env,
        env.begin(write=True) as txn,
    ):
        txn.put(KEY_CLEAN, b"\x01")


def _prove(file: Path, progress: Progress) -> Finding:
    """Check the copy.

    Raises:
        CorruptedError: an error was found; the first one is in the text.
    """
    with Guest(file, lock=False) as guest:
        *findings, counts = check(guest, lambda done, total: progress(CHECK, done, total))
    errors = [finding for finding in findings if finding["level"] == "error"]
    if errors:
        raise CorruptedError(
            f"the copy does not prove sound and was removed; the first of {len(errors)} findings: {errors[0]['what']}",
            hint="run check on the store itself; take copies of a damaged one with the tools of the system",
            error_count=len(errors),
        )
    return counts


def _nothing(_phase: str, _done: int, _total: int) -> None:
    """Tell nobody."""
