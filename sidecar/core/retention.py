"""Which sessions go when a store is to stay within bounds: whole ones only, the longest unused first, never one in use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

import msgspec

from sidecar.core.types import SessionKey

__all__ = ["RetentionPolicy", "RetentionReason", "Removal", "StoredSession", "plan_retention"]


class RetentionReason(Enum):
    """Why a session goes; the values are for metrics."""

    AGE = "age"
    SCOPE_BYTES = "scope_bytes"
    TOTAL_BYTES = "total_bytes"


class RetentionPolicy(msgspec.Struct, frozen=True):
    """Bounds; None: none such."""

    age_ms: int | None = None  # since the last use
    scope_bytes: int | None = None  # that the sessions of one scope take
    total_bytes: int | None = None  # that all sessions take

    @property
    def is_off(self) -> bool:
        """There is no bound."""
        return self.age_ms is None and self.scope_bytes is None and self.total_bytes is None


class StoredSession(NamedTuple):
    """A session as a policy sees it."""

    key: SessionKey
    last_ms: int  # last use; 0: not known, as when its head cannot be read: such a session is left to people
    stored_bytes: int
    in_use: bool = False


class Removal(NamedTuple):
    """A session that is to go."""

    key: SessionKey
    reason: RetentionReason
    last_ms: int
    stored_bytes: int


def plan_retention(sessions: Iterable[StoredSession], policy: RetentionPolicy, now_ms: int) -> list[Removal]:
    """Choose what goes. O(n log n) in sessions.

    Age is judged first; then, of what is left, the bytes of each scope; then the bytes of all. Sessions in use count in sums, and
    stay: a bound that they pass by themselves is passed. A session whose last use lies ahead of `now_ms` (the clock was set back)
    is not old.

    Args:
        sessions: all that there are.
        policy: the bounds.
        now_ms: time.

    Returns:
        In order of removal: the longest unused first within each reason; of two of one time, by name.
    """
    ordered = sorted(sessions, key=lambda one: (one.last_ms, one.key.scope, one.key.session_id))
    removals: list[Removal] = []
    if policy.age_ms is not None:
        oldest = now_ms - policy.age_ms
        removals += [_removal(one, RetentionReason.AGE) for one in ordered if _may_go(one) and one.last_ms < oldest]
        ordered = _without(ordered, removals)
    if policy.scope_bytes is not None:
        scopes: defaultdict[str, list[StoredSession]] = defaultdict(list)
        for one in ordered:
            scopes[one.key.scope].append(one)
        for scope in sorted(scopes):
            removals += _down_to(scopes[scope], policy.scope_bytes, RetentionReason.SCOPE_BYTES)
        ordered = _without(ordered, removals)
    if policy.total_bytes is not None:
        removals += _down_to(ordered, policy.total_bytes, RetentionReason.TOTAL_BYTES)
    return removals


def _may_go(one: StoredSession) -> bool:
    return not one.in_use and one.last_ms > 0


def _removal(one: StoredSession, reason: RetentionReason) -> Removal:
    return Removal(one.key, reason, one.last_ms, one.stored_bytes)


def _without(sessions: Sequence[StoredSession], removals: Iterable[Removal]) -> list[StoredSession]:
    gone = {removal.key for removal in removals}
    return [one for one in sessions if one.key not in gone]


def _down_to(ordered: Sequence[StoredSession], bound: int, reason: RetentionReason) -> list[Removal]:
    """The oldest of these, until the others take no more than the bound. One that takes nothing frees nothing and stays."""
    total = sum(one.stored_bytes for one in ordered)
    removals = []
    for one in ordered:
        if total <= bound:
            break
        if _may_go(one) and one.stored_bytes > 0:
            removals.append(_removal(one, reason))
            total -= one.stored_bytes
    return removals
