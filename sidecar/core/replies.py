"""A model's reply to a summary request, as the dialect's rules read it."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from sidecar.core.types import UsageFigures

__all__ = ["ModelReply", "Stop"]


class Stop(IntEnum):
    """Why the model stopped."""

    UNKNOWN = 0  # not told, or by a name that the dialect does not have
    END = 1
    LENGTH = 2  # cut off
    CALL = 3  # it wants a tool
    REFUSED = 4  # filtered or refused


class ModelReply(msgspec.Struct, frozen=True):
    """What came back."""

    text: str  # all text of the answer, reasoning apart; empty when there is none
    stop: Stop
    has_calls: bool = False  # it holds a call of a tool, whatever `stop` says
    usage: UsageFigures | None = None  # None: not told
