"""Failing open: sending a body that was not fitted, when no answer can be had. Chosen, logged and counted, never silent."""

from __future__ import annotations

import logging
import threading

import grpc

from trimtab.errors import TrimtabError

__all__ = ["FailOpen"]

# The server cannot answer. Where the call itself is wrong (INVALID_ARGUMENT and the like), open would hide a mistake.
_CODES = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.DATA_LOSS,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
    }
)

_log = logging.getLogger("trimtab")


class FailOpen:
    """Decides whether an error lets the body pass, and counts."""

    def __init__(self, chosen: bool) -> None:
        """Begin at 0.

        Args:
            chosen: the client was told to fail open.
        """
        self._chosen = chosen
        self._lock = threading.Lock()
        self.count = 0

    def allow(self, error: TrimtabError, session_id: str, what: str = "its body as it is") -> bool:
        """Say whether `what` may be sent although `error` came instead of an answer; if so, log and count it."""
        if not self._chosen or error.code not in _CODES:
            return False
        with self._lock:
            self.count += 1
            count = self.count
        _log.warning("failing open: session %r sends %s (%s; %d so far)", session_id, what, error.reason, count)
        return True

    def after_fork(self) -> None:
        """Make a new lock: another thread of the parent may have held the old one."""
        self._lock = threading.Lock()
