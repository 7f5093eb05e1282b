"""Waiting for SIGTERM or SIGINT, whichever thread the system gives it to.

Python runs handlers in the main thread only, and a main thread that waits on a lock is woken only when the signal happens to be
given to it. gRPC's threads get it as well, and then a process that waits on an Event would never end. The descriptor that Python
writes each signal's number to knows no such difference.
"""

from __future__ import annotations

import signal
import socket

__all__ = ["EndSignals"]

_NUMBERS = (signal.SIGTERM, signal.SIGINT)


class EndSignals:
    """From now on, SIGTERM and SIGINT do nothing but end `wait`. Only in a process's main thread, for the rest of its life."""

    def __init__(self) -> None:
        """Take the signals over."""
        self._read, self._write = socket.socketpair()
        self._write.setblocking(False)
        signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        for number in _NUMBERS:
            signal.signal(number, lambda number, frame: None)

    def wait(self) -> None:
        """Return when one of them has come; at once when that was before."""
        while self._read.recv(1)[0] not in _NUMBERS:
            pass
