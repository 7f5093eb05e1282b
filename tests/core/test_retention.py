"""What goes when a store is to stay within bounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.retention import RetentionPolicy, RetentionReason, StoredSession, plan_retention
from sidecar.core.types import SessionKey


def one(name: str, last_ms: int, size: int = 10, *, scope: str = "", in_use: bool = False) -> StoredSession:
    return StoredSession(SessionKey(scope, name), last_ms, size, in_use)


def plan(sessions: list[StoredSession], now_ms: int = 1_000, **bounds: int) -> list[tuple[str, RetentionReason]]:
    return [(removal.key.session_id, removal.reason) for removal in plan_retention(sessions, RetentionPolicy(**bounds), now_ms)]


def test_plan_without_bounds_lets_nothing_go() -> None:
    assert RetentionPolicy().is_off
    assert plan([one("a", 1), one("b", 999)]) == []


def test_plan_age_counts_from_the_last_use_and_its_bound_stays() -> None:
    sessions = [one("new", 950), one("bound", 900), one("old", 899), one("older", 5), one("ahead", 5_000)]
    assert plan(sessions, age_ms=100) == [("older", RetentionReason.AGE), ("old", RetentionReason.AGE)]


def test_plan_bytes_of_a_scope_lets_its_oldest_go_and_no_other_scopes() -> None:
    sessions = [one("a", 30, scope="s"), one("b", 20, scope="s"), one("c", 10, scope="s"), one("x", 1, 500, scope="t")]
    assert plan(sessions[:3], scope_bytes=30) == []
    assert plan(sessions[:3], scope_bytes=29) == [("c", RetentionReason.SCOPE_BYTES)]
    assert plan(sessions[:3], scope_bytes=10) == [("c", RetentionReason.SCOPE_BYTES), ("b", RetentionReason.SCOPE_BYTES)]
    assert plan([*sessions[:3], one("y", 1, 20, scope="t")], scope_bytes=20) == [("c", RetentionReason.SCOPE_BYTES)]
    assert plan(sessions, scope_bytes=400) == [("x", RetentionReason.SCOPE_BYTES)]


def test_plan_total_bytes_lets_the_oldest_of_all_go() -> None:
    sessions = [one("a", 30, scope="s"), one("b", 20, scope="t"), one("c", 10, scope="u")]
    assert plan(sessions, total_bytes=15) == [("c", RetentionReason.TOTAL_BYTES), ("b", RetentionReason.TOTAL_BYTES)]


def test_plan_bounds_follow_one_another_on_what_is_left() -> None:
    sessions = [one("old", 1, 50, scope="s"), one("a", 500, 50, scope="s"), one("b", 600, 50, scope="s"), one("c", 400, 50)]
    assert plan(sessions, age_ms=900, scope_bytes=100, total_bytes=100) == [
        ("old", RetentionReason.AGE),
        ("c", RetentionReason.TOTAL_BYTES),
    ]


def test_plan_session_in_use_or_unreadable_stays_whatever_the_bound() -> None:
    sessions = [one("used", 1, 100, in_use=True), one("unread", 0, 0), one("b", 2, 10), one("empty", 1, 0)]
    assert plan(sessions, scope_bytes=0, total_bytes=0) == [("b", RetentionReason.SCOPE_BYTES)]
    assert plan(sessions, age_ms=0) == [("empty", RetentionReason.AGE), ("b", RetentionReason.AGE)]


SESSIONS = st.lists(
    st.builds(
        lambda name, scope, last, size, in_use: StoredSession(SessionKey(scope, str(name)), last, size, in_use),
        st.integers(0, 30),
        st.sampled_from(["", "s", "t"]),
        st.integers(0, 50),
        st.integers(0, 40),
        st.booleans(),
    ),
    unique_by=lambda session: session.key,
)
BOUND = st.none() | st.integers(0, 200)


@given(SESSIONS, BOUND, BOUND, BOUND)
def test_plan_holds_its_bounds_as_far_as_it_may_and_takes_no_more(
    sessions: list[StoredSession], age: int | None, scope: int | None, total: int | None
) -> None:
    removals = plan_retention(sessions, RetentionPolicy(age, scope, total), 50)
    gone = {removal.key for removal in removals}
    assert len(gone) == len(removals)
    kept = [session for session in sessions if session.key not in gone]
    free = [session for session in kept if not session.in_use and session.last_ms]
    assert all(not session.in_use and session.last_ms for session in sessions if session.key in gone)
    assert age is None or all(session.last_ms >= 50 - age for session in free)
    for name in ("", "s", "t"):
        taken = sum(session.stored_bytes for session in kept if session.key.scope == name)
        assert scope is None or taken <= scope or not any(one.stored_bytes for one in free if one.key.scope == name)
    taken = sum(session.stored_bytes for session in kept)
    assert total is None or taken <= total or not any(session.stored_bytes for session in free)
    last = [removal for removal in removals if removal.reason is RetentionReason.TOTAL_BYTES][-1:]
    assert all(taken + removal.stored_bytes > (total or 0) for removal in last)
    assert all(removal.last_ms <= session.last_ms for removal in last for session in free if session.stored_bytes)
