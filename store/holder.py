"""Who holds a data folder: a lock file that says so, held by flock, so that it ends with its process however that ends."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from pathlib import Path

import msgspec

from sidecar.core.errors import StoreFailedError

__all__ = ["Holder", "hold", "let_go"]

FILE_NAME = "holder.json"


class Holder(msgspec.Struct, frozen=True):
    """Content of the lock file."""

    pid: int
    host: str
    start_ms: int
    what: str


def hold(folder: Path, what: str, now_ms: int) -> int:
    """Take the folder.

    Returns:
        A file descriptor; the folder is ours until it is closed.

    Raises:
        StoreFailedError: another store holds it, in this process or another; names it.
        OSError: no file can be made there.
    """
    descriptor = os.open(folder / FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as err:
            if err.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise _refusal(os.pread(descriptor, 4096, 0)) from err
        text = msgspec.json.encode(Holder(os.getpid(), socket.gethostname(), now_ms, what)) + b"\n"
        os.pwrite(descriptor, text, 0)
        os.ftruncate(descriptor, len(text))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def let_go(descriptor: int) -> None:
    """Give the folder back."""
    os.ftruncate(descriptor, 0)
    os.close(descriptor)


def _refusal(text: bytes) -> StoreFailedError:
    try:
        holder = msgspec.json.decode(text, type=Holder)
    except msgspec.DecodeError:
        return StoreFailedError("the data folder is held by another process", hint="end it, or use another folder")
    return StoreFailedError(
        f"the data folder is held by process {holder.pid} ({holder.what}) on {holder.host}",
        hint="end it, or use another folder",
        pid=holder.pid,
        host=holder.host,
        start_ms=holder.start_ms,
        what=holder.what,
    )
