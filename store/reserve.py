"""A little disk space kept back, so that sessions can be removed when the disk is full: that takes pages before it gives any."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["Reserve", "allocate"]

FILE_NAME = "reserve"
RESERVE_BYTES = 1 << 18


def allocate(descriptor: int, size_bytes: int) -> None:
    """Give a file blocks up to a size. Raises OSError; does nothing where the system has no such call."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size_bytes)


class Reserve:
    """A file of allocated blocks that are given up when they are needed, and taken again when there is room."""

    def __init__(self, folder: Path) -> None:
        """Open or make the file; it is empty until `fill`."""
        self._descriptor = os.open(folder / FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.fchmod(self._descriptor, 0o600)

    def fill(self) -> None:
        """Take the space, if it can be had."""
        if os.fstat(self._descriptor).st_size < RESERVE_BYTES:
            with suppress(OSError):
                allocate(self._descriptor, RESERVE_BYTES)

    def spend(self) -> None:
        """Give the space up."""
        os.ftruncate(self._descriptor, 0)

    def close(self) -> None:
        """Let go of the file; what it holds stays taken."""
        os.close(self._descriptor)
