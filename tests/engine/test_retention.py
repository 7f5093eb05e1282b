"""Retention over a real store: what is in use stays, what goes is gone and counted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sidecar.core.compaction import AttemptState
from sidecar.core.errors import SessionNotFoundError, StoreFailedError
from sidecar.core.retention import RetentionPolicy, RetentionReason
from sidecar.core.types import SessionKey
from sidecar.engine.config import EngineConfig
from sidecar.engine.counters import Counters
from sidecar.engine.engine import Engine
from sidecar.engine.events import EventKind
from sidecar.engine.retention import OPEN_ATTEMPT_MS, RetentionLoop
from store import LmdbStore, failpoints
from tests.store import build
from tests.store.test_check import edit, flip

DAY_MS = 24 * 60 * 60 * 1000
NOW_MS = 100 * DAY_MS
OLD = RetentionPolicy(age_ms=30 * DAY_MS)


class SetClock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.ms = NOW_MS

    def now_ms(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def engine(tmp_path: Path, clock: SetClock) -> Iterator[Engine]:
    opened = Engine(LmdbStore(tmp_path, quota_bytes=0), clock, EngineConfig())
    yield opened
    failpoints.configure("")
    opened.close()


def put(engine: Engine, name: str, days_ago: float, *, scope: str = "", attempt: AttemptState | None = None) -> SessionKey:
    """A session that was used last so long ago."""
    key = SessionKey(scope, name)
    batch = build.plain(key, 0, [b"x" * 10_000], update_ms=NOW_MS - int(days_ago * DAY_MS))
    if attempt is not None:
        batch.attempts = [build.attempt("try", attempt)]
    engine.store.submit(batch).result(10)
    return key


def names(engine: Engine) -> list[str]:
    return [summary.key.session_id for summary in engine.store.all_sessions()]


def test_retain_removes_and_counts_by_reason_and_tells_watchers(engine: Engine) -> None:
    for number in range(4):
        put(engine, f"old-{number}", 40 + number)
    for number in range(3):
        put(engine, f"new-{number}", number + 1, scope="s")
    one = engine.store.all_sessions()[0].stored_bytes
    watched = engine.events.subscribe("", "")
    policy = RetentionPolicy(age_ms=30 * DAY_MS, scope_bytes=2 * one + 1_000, total_bytes=one + 1_000)
    dry = engine.retain(policy, dry_run=True)
    assert dry.dry_run
    assert len(names(engine)) == 7
    assert engine.counters.samples() == []
    report = engine.retain(policy)
    assert report.removed == dry.removed
    assert [(removal.key.session_id, removal.reason.value) for removal in report.removed] == [
        ("old-3", "age"),
        ("old-2", "age"),
        ("old-1", "age"),
        ("old-0", "age"),
        ("new-2", "scope_bytes"),
        ("new-1", "total_bytes"),
    ]
    assert names(engine) == ["new-0"]
    assert report.kept_count == 1
    assert report.kept_bytes == engine.store.stats().used_bytes
    assert report.skipped == ()
    samples = {(sample.name, *(value for _, value in sample.labels)): sample.value for sample in engine.counters.samples()}
    assert samples["retention_runs_total",] == 1
    assert samples["retention_skipped_sessions_total",] == 0
    for reason, count in [("age", 4), ("scope_bytes", 1), ("total_bytes", 1)]:
        assert samples["retention_removed_sessions_total", reason] == count
        assert samples["retention_removed_bytes_total", reason] >= count * 10_000
    assert sum(value for (name, *_), value in samples.items() if "bytes" in name) == report.removed_bytes
    seen = [next(watched).event for _ in range(4)]
    assert {(event.kind, event.detail) for event in seen} == {(EventKind.DELETED, "retention by age")}
    assert [finding["what"] for finding in engine.store.check()] == ["count"]
    assert engine.retain(policy).removed == ()


def test_retain_leaves_a_session_whose_lock_is_held(engine: Engine) -> None:
    key, other = put(engine, "used", 90), put(engine, "unused", 80)
    session = engine.sessions.get(key)
    with session.lock:
        report = engine.retain(RetentionPolicy(age_ms=0, total_bytes=0))
    assert [removal.key for removal in report.removed] == [other]
    assert names(engine) == ["used"]
    assert engine.sessions.current(session)
    assert [removal.key for removal in engine.retain(OLD).removed] == [key]
    assert engine.sessions.held(key) == []


@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize("state", [AttemptState.RESERVED, AttemptState.DISPATCHED])
def test_retain_leaves_a_session_with_an_open_attempt_for_a_day(
    engine: Engine, clock: SetClock, in_memory: bool, state: AttemptState
) -> None:
    key = put(engine, "planned", 0.5, attempt=state)
    put(engine, "ended", 0.5, attempt=AttemptState.FAILED)
    kept = [engine.sessions.get(key)] if in_memory else []
    tight = RetentionPolicy(total_bytes=0)
    assert [removal.key.session_id for removal in engine.retain(tight).removed] == ["ended"]
    assert len(engine.sessions.held(key)) == len(kept)
    clock.ms = NOW_MS - int(0.5 * DAY_MS) + OPEN_ATTEMPT_MS - 1
    assert engine.retain(tight).removed == ()
    clock.ms += 1
    assert [removal.key for removal in engine.retain(tight).removed] == [key]


def test_retain_leaves_a_session_that_was_used_since_the_plan(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ensure that what was chosen is looked at again: here a call comes between plan and removal."""
    key = put(engine, "a", 90)
    sessions = engine.store.all_sessions()

    def late() -> list[object]:
        batch = build.plain(key, 1, [b"y"], update_ms=NOW_MS)
        engine.store.submit(batch).result(10)
        return list(sessions)

    monkeypatch.setattr(engine.store, "all_sessions", late)
    report = engine.retain(OLD)
    assert report.removed == ()
    assert [removal.reason for removal in report.skipped] == [RetentionReason.AGE]
    assert report.kept_count == 1
    assert engine.counters.value("retention_skipped_sessions_total") == 1
    assert engine.store.load(key) is not None
    assert engine.sessions.held() == []


def test_retain_counts_use_that_memory_knows_and_the_store_does_not(engine: Engine) -> None:
    key = put(engine, "a", 90)
    engine.sessions.get(key).last_ms = NOW_MS - DAY_MS
    assert engine.retain(OLD).removed == ()
    assert names(engine) == ["a"]


def test_retain_leaves_a_session_that_cannot_be_read(engine: Engine, tmp_path: Path, clock: SetClock) -> None:
    put(engine, "damaged", 90)
    put(engine, "sound", 80)
    engine.close()
    edit(tmp_path, flip(b"\x02" + (1).to_bytes(8, "big") + b"\x10", -1))
    again = Engine(LmdbStore(tmp_path, quota_bytes=0), clock, EngineConfig())
    report = again.retain(RetentionPolicy(age_ms=0, scope_bytes=0, total_bytes=0))
    assert [removal.key.session_id for removal in report.removed] == ["sound"]
    assert names(again) == ["damaged"]
    again.close()


def test_retain_store_that_fails_raises_and_goes_on_later(engine: Engine) -> None:
    keys = [put(engine, "a", 90), put(engine, "b", 80)]
    failpoints.configure("before_commit=error:EIO")
    with pytest.raises(StoreFailedError):
        engine.retain(OLD)
    failpoints.configure("")
    assert names(engine) == ["a", "b"]
    assert engine.counters.value("retention_removed_sessions_total", reason="age") == 0
    assert [removal.key for removal in engine.retain(OLD).removed] == keys
    with pytest.raises(SessionNotFoundError):
        engine.store.read_item(keys[0], 0)


def test_loop_runs_at_once_and_again_until_it_is_closed(engine: Engine) -> None:
    put(engine, "a", 90)
    loop = RetentionLoop(engine, OLD, 0.01)
    wait_for(lambda: names(engine) == [])
    put(engine, "b", 90)
    wait_for(lambda: names(engine) == [])
    loop.close()
    assert engine.counters.value("retention_runs_total") >= 2
    runs = engine.counters.value("retention_runs_total")
    put(engine, "c", 90)
    threading.Event().wait(0.05)
    assert engine.counters.value("retention_runs_total") == runs
    assert names(engine) == ["c"]


def test_loop_failure_is_counted_and_the_next_run_is_tried(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    put(engine, "a", 90)
    real = engine.store.all_sessions
    failures = [StoreFailedError("no"), RuntimeError("no")]

    def all_sessions() -> object:
        if failures:
            raise failures.pop()
        return real()

    monkeypatch.setattr(engine.store, "all_sessions", all_sessions)
    loop = RetentionLoop(engine, OLD, 0.01)
    wait_for(lambda: not failures and not real())
    loop.close()
    assert engine.counters.value("retention_failed_runs_total") == 2


def test_loop_without_a_bound_does_not_run(engine: Engine) -> None:
    loop = RetentionLoop(engine, RetentionPolicy(), 0.001)
    threading.Event().wait(0.05)
    loop.close()
    assert engine.counters.samples() == []


def test_counters_are_exact_under_threads_and_only_grow() -> None:
    counters = Counters()

    def count() -> None:
        for _ in range(2_000):
            counters.add("calls_total", kind="x")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counters.add("bytes_total", 5)
    assert [tuple(sample) for sample in counters.samples()] == [
        ("bytes_total", (), 5),
        ("calls_total", (("kind", "x"),), 8_000),
    ]
    with pytest.raises(ValueError, match="only grows"):
        counters.add("bytes_total", -1)


def wait_for(holds: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if holds():
            return
        threading.Event().wait(0.01)
    raise AssertionError("did not come about in ten seconds")


def test_loop_close_ends_a_run_between_two_removals(engine: Engine) -> None:
    for number in range(200):
        put(engine, f"{number:03}", 90)
    loop = RetentionLoop(engine, OLD, 60)
    wait_for(lambda: engine.counters.value("retention_removed_sessions_total", reason="age") > 0)
    loop.close()
    assert 0 < engine.counters.value("retention_removed_sessions_total", reason="age") < 200
    assert 0 < len(names(engine)) < 200
