"""Places where tests make the store fail, by an environment variable that is read once, at import. Off, a place costs a call.

    TRIMTAB_FAILPOINTS="before_commit=kill@3,after_commit=error:ENOSPC"

kills the process at the third pass of the first place, and raises OSError at every pass of the second. `@n` means the n-th pass
only. All that is durable is made so by one transaction of one thread, so a place on each side of each kind of transaction is one
on each side of every durable step: items, results that leave, records, checkpoints, attempts, receipts, removals.
"""

from __future__ import annotations

import errno
import os
import signal

__all__ = ["BACKUP_PLACES", "END_PLACES", "PURGE_PLACES", "SERVING_PLACES", "START_PLACES", "VARIABLE", "configure", "hit"]

VARIABLE = "TRIMTAB_FAILPOINTS"
START_PLACES = ("before_greet", "after_greet")
"""Around the transaction that marks a store as ours, and as in use."""
SERVING_PLACES = ("before_commit", "after_commit")
"""Around each write, with what is durable, but no one was told of, between the second and the answer."""
PURGE_PLACES = ("before_purge", "within_purge", "after_purge")
"""Around and in each step that removes what is left of a session that is out of sight."""
END_PLACES = ("close", "after_close")
"""Around the transaction that marks a clean end."""
BACKUP_PLACES = ("backup_write", "backup_rename")
"""At each piece of a copy; where the copy is proven and has no name yet."""

_PLACES = frozenset((*START_PLACES, *SERVING_PLACES, *PURGE_PLACES, *END_PLACES, *BACKUP_PLACES))

_points: dict[str, tuple[str, int, int]] = {}  # place: action, errno, which pass (0: every)
_passes: dict[str, int] = {}


def configure(text: str) -> None:
    """Set all places anew; the empty text turns all off. Raises ValueError on text that is not understood."""
    _points.clear()
    _passes.clear()
    for entry in filter(None, text.split(",")):
        place, _, rest = entry.partition("=")
        action, _, which = rest.partition("@")
        action, _, name = action.partition(":")
        if action not in ("kill", "error"):
            raise ValueError(f"{VARIABLE}: unknown action {action!r}")
        if place not in _PLACES:
            raise ValueError(f"{VARIABLE}: no place is called {place!r}")
        _points[place] = (action, int(getattr(errno, name or "EIO")), int(which or 0))


def hit(place: str) -> None:
    """Pass a place."""
    if _points:
        _act(place)


def _act(place: str) -> None:
    if place not in _points:
        return
    action, code, which = _points[place]
    _passes[place] = _passes.get(place, 0) + 1
    if which not in (0, _passes[place]):
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise OSError(code, os.strerror(code))


configure(os.environ.get(VARIABLE, ""))
