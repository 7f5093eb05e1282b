"""Keeps a store within bounds: sessions that a policy lets go are removed, and never one that is in use.

A session is in use while a call runs on it, while it has writes on their way, while a model is asked about it, and while it has
an attempt to summarize that is open and fresh: its agent is about to bring the answer. That is asked again, under the session's
lock, at the moment of removal: one that was used since the plan was made stays.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import msgspec

from sidecar.core.compaction import AttemptState
from sidecar.core.errors import CorruptedError, TrimtabError
from sidecar.core.retention import Removal, RetentionPolicy, RetentionReason, StoredSession, plan_retention
from sidecar.engine.events import Event, EventKind
from sidecar.engine.session import Session

if TYPE_CHECKING:
    from sidecar.engine.engine import Engine

__all__ = ["OPEN_ATTEMPT_MS", "RetentionLoop", "RetentionReport", "retain"]

OPEN_ATTEMPT_MS = 24 * 60 * 60 * 1000
"""How long after a session's last use an open attempt still means that someone works on its answer."""

RUNS = "retention_runs_total"
FAILED_RUNS = "retention_failed_runs_total"
REMOVED_SESSIONS = "retention_removed_sessions_total"  # by reason
REMOVED_BYTES = "retention_removed_bytes_total"  # by reason; as the quota counts
SKIPPED_SESSIONS = "retention_skipped_sessions_total"  # used between plan and removal

_OPEN = (AttemptState.RESERVED, AttemptState.DISPATCHED)
_log = logging.getLogger(__name__)


class RetentionReport(msgspec.Struct, frozen=True):
    """What went, or would go."""

    dry_run: bool
    removed: tuple[Removal, ...] = ()
    skipped: tuple[Removal, ...] = ()  # they stayed: used since the plan was made, or the run was ended
    kept_count: int = 0
    kept_bytes: int = 0

    @property
    def removed_bytes(self) -> int:
        """What they took."""
        return sum(removal.stored_bytes for removal in self.removed)


def retain(
    engine: Engine, policy: RetentionPolicy, *, dry_run: bool = False, end: threading.Event | None = None
) -> RetentionReport:
    """Remove what a policy lets go; each removal is durable before the next begins.

    Args:
        engine: its sessions and its store.
        policy: the bounds.
        dry_run: nothing is removed and nothing counted.
        end: once set, nothing more is removed.

    Raises:
        TrimtabError: the store failed; what was removed before stays removed, and is counted.
    """
    now_ms = engine.clock.now_ms()
    held = {session.key: session for session in engine.sessions.held()}
    sessions = []
    for summary in engine.store.all_sessions():
        session = held.get(summary.key)
        last_ms = summary.head.update_ms
        if session is not None and last_ms:
            last_ms = max(last_ms, session.last_ms)
        in_use = session is not None and (session.lock.locked() or _is_used(engine, session, now_ms))
        sessions.append(StoredSession(summary.key, last_ms, summary.stored_bytes, in_use))
    planned = plan_retention(sessions, policy, now_ms)
    removed: list[Removal] = []
    if dry_run:
        removed = planned
    else:
        _begin(engine)
        for removal in planned:
            if end is not None and end.is_set():
                break
            if _remove(engine, removal, now_ms):
                removed.append(removal)
    gone = set(removed)
    return RetentionReport(
        dry_run=dry_run,
        removed=tuple(removed),
        skipped=tuple(removal for removal in planned if removal not in gone),
        kept_count=len(sessions) - len(removed),
        kept_bytes=sum(one.stored_bytes for one in sessions) - sum(removal.stored_bytes for removal in removed),
    )


def _begin(engine: Engine) -> None:
    """Count a run; the counters of each reason are there from the first run on."""
    engine.counters.add(RUNS)
    engine.counters.add(SKIPPED_SESSIONS, 0)
    for reason in RetentionReason:
        engine.counters.add(REMOVED_SESSIONS, 0, reason=reason.value)
        engine.counters.add(REMOVED_BYTES, 0, reason=reason.value)


def _remove(engine: Engine, removal: Removal, now_ms: int) -> bool:
    """Remove one session, unless somebody uses it or has done so since the plan. Waits for nobody."""
    key = removal.key
    session = engine.sessions.claim(key)
    removed = False
    if session.lock.acquire(blocking=False):
        try:
            if engine.sessions.current(session):
                removed = not _is_used(engine, session, now_ms) and _remove_unused(engine, session, removal, now_ms)
                if not removed and not session.exists and not session.pending:
                    engine.sessions.drop(session)  # it was only claimed
        finally:
            session.lock.release()
    if not removed:
        engine.counters.add(SKIPPED_SESSIONS)
        return False
    engine.counters.add(REMOVED_SESSIONS, reason=removal.reason.value)
    engine.counters.add(REMOVED_BYTES, removal.stored_bytes, reason=removal.reason.value)
    return True


def _remove_unused(engine: Engine, session: Session, removal: Removal, now_ms: int) -> bool:
    summary = engine.store.summary(session.key)
    if summary is None or max(summary.head.update_ms, session.last_ms) > removal.last_ms or _is_awaited(engine, session, now_ms):
        return False
    try:
        engine.store.delete_session(session.key)
    finally:
        engine.forget(session.key)  # whoever waits for the lock loads it anew
    detail = f"retention by {removal.reason.value}"
    engine.events.publish(Event(EventKind.DELETED, session.key, summary.head.revision, engine.clock.now_ms(), detail))
    return True


def _is_awaited(engine: Engine, session: Session, now_ms: int) -> bool:
    """A session that is not in memory has an attempt that is open and fresh. One that cannot be read is left to people."""
    if session.exists:
        return False  # its attempts were looked at
    try:
        image = engine.store.load(session.key)
    except CorruptedError:
        return True
    if image is None or now_ms - image.head.update_ms >= OPEN_ATTEMPT_MS:
        return False
    return any(attempt.state in _OPEN for attempt in image.attempts)


def _is_used(engine: Engine, session: Session, now_ms: int) -> bool:
    """What a session in memory says, its lock apart."""
    if any(not future.done() for future, _ in list(session.pending)) or engine.is_asking(session.key):
        return True
    fresh = now_ms - session.last_ms < OPEN_ATTEMPT_MS
    return fresh and any(attempt.state in _OPEN for attempt in list(session.attempts.values()))


class RetentionLoop:
    """A thread that applies a policy at once and then every so often. A run that fails is logged, and the next one is tried."""

    def __init__(self, engine: Engine, policy: RetentionPolicy, interval_s: float) -> None:
        """Begin, unless the policy has no bound."""
        self._engine = engine
        self._policy = policy
        self._interval_s = interval_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="retention", daemon=True)
        if not policy.is_off:
            self._thread.start()

    def close(self) -> None:
        """End the thread; a removal that is on its way ends first."""
        self._end.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                report = retain(self._engine, self._policy, end=self._end)
            except Exception as error:
                self._engine.counters.add(FAILED_RUNS)
                reason = error.reason if isinstance(error, TrimtabError) else type(error).__name__
                _log.warning("old sessions could not be removed", extra={"reason": reason})
            else:
                if report.removed:
                    extra = {"removed_session_count": len(report.removed), "removed_bytes": report.removed_bytes}
                    _log.info("old sessions were removed", extra=extra)
            if self._end.wait(self._interval_s):
                return
