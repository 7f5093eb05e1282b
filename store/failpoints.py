"""Places where tests make the store fail, by an environment variable that is read once, at import. Off, a place costs a call.

    TRIMTAB_FAILPOINTS="before_commit=kill@3,after_commit=error:ENOSPC"

kills the process at the third pass of the first place, and raises OSError at every pass of the second. `@n` means the n-th pass
only. Places: before_commit, after_commit (durable, but no one was told yet), before_purge, close, backup_write (each piece of a
copy), backup_rename (the copy is proven, and has no name yet).
"""

from __future__ import annotations

import errno
import os
import signal

__all__ = ["SERVING_PLACES", "VARIABLE", "configure", "hit"]

VARIABLE = "TRIMTAB_FAILPOINTS"
SERVING_PLACES = ("before_commit", "after_commit")
"""Places that a serving process passes with each write."""

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
