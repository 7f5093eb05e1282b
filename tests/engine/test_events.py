"""Observers: they see all that is published, lose what they are too slow for and are told so, and never hold up a publisher."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from sidecar.core.errors import TooManyError
from sidecar.core.types import SessionKey
from sidecar.engine.events import Event, EventKind, Events, Subscription, read_back_publisher
from store.store import LmdbStore
from tests.engine.held import Held

KEY = SessionKey("team", "run")


def event(number: int, key: SessionKey = KEY) -> Event:
    return Event(EventKind.FITTED, key, number, 0)


def take_all(subscription: Subscription) -> list[tuple[int, int]]:
    """Revisions and lost counts of what is queued."""
    found = []
    while (seen := subscription.take(0)) is not None:
        found.append((seen.event.revision, seen.lost_count))
    return found


def test_subscription_gets_events_of_its_scope_and_session_in_order() -> None:
    events = Events()
    scope = events.subscribe("team")
    session = events.subscribe("team", "run")
    other = events.subscribe("")
    events.publish(event(1))
    events.publish(event(2, SessionKey("team", "other")))
    events.publish(event(3, SessionKey("", "run")))
    events.publish(event(4))
    assert take_all(scope) == [(1, 0), (2, 0), (4, 0)]
    assert take_all(session) == [(1, 0), (4, 0)]
    assert take_all(other) == [(3, 0)]


def test_subscription_that_is_slow_loses_the_oldest_and_is_told_how_many() -> None:
    events = Events(queue_count=3)
    slow, quick = events.subscribe("team"), events.subscribe("team")
    got = []
    for number in range(10):
        events.publish(event(number))
        got += take_all(quick)
    assert got == [(number, 0) for number in range(10)]
    assert take_all(slow) == [(7, 7), (8, 0), (9, 0)]
    events.publish(event(10))
    assert take_all(slow) == [(10, 0)]


@pytest.mark.parametrize("queue_count", [1, 2, 5])
def test_subscription_counts_every_event_as_seen_or_lost(queue_count: int) -> None:
    events = Events(queue_count=queue_count)
    subscription = events.subscribe("team")
    threads = [threading.Thread(target=lambda: [events.publish(event(n)) for n in range(500)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    seen = lost = 0
    while any(thread.is_alive() for thread in threads):
        for _, count in take_all(subscription):
            seen += 1
            lost += count
    for _, count in take_all(subscription):
        seen += 1
        lost += count
    assert seen + lost == 2_000
    assert seen >= queue_count


def test_subscription_waits_for_the_next_event() -> None:
    events = Events()
    subscription = events.subscribe("team")
    timer = threading.Timer(0.05, events.publish, (event(5),))
    timer.start()
    assert next(subscription).event.revision == 5
    timer.join()


@pytest.mark.parametrize("end", [lambda events, subscription: subscription.close(), lambda events, subscription: events.close()])
def test_close_ends_a_wait_and_leaves_what_is_queued(end: Callable[[Events, Subscription], None]) -> None:
    events = Events()
    subscription = events.subscribe("team")
    events.publish(event(1))
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.extend(seen.event.revision for seen in subscription))
    thread.start()
    time.sleep(0.05)
    end(events, subscription)
    thread.join(5)
    assert not thread.is_alive()
    assert found == [1]
    events.publish(event(2))
    assert subscription.take(0) is None
    assert subscription.closed
    assert not events.watched


def test_subscribe_after_close_is_ended_at_once() -> None:
    events = Events()
    events.close()
    assert list(events.subscribe("team")) == []


def test_subscribe_beyond_the_bound_raises_until_one_leaves() -> None:
    events = Events(observer_count=2)
    first = events.subscribe("team")
    events.subscribe("team")
    with pytest.raises(TooManyError):
        events.subscribe("team")
    first.close()
    events.subscribe("team")


def test_publish_never_waits_for_an_observer() -> None:
    events = Events()
    events.subscribe("team")
    began = time.monotonic()
    for number in range(20_000):
        events.publish(event(number))
    assert time.monotonic() - began < 5


class Clock:
    def now_ms(self) -> int:
        return 77


def test_read_back_publisher_tells_the_revision_and_no_content(store: LmdbStore, held: Callable[[], Held]) -> None:
    session = held()
    record = session.add_text(b"secret")
    events = Events()
    publish = read_back_publisher(events, store, Clock())
    publish(session.key, record.artifact_id, 6)
    subscription = events.subscribe(session.key.scope)
    publish(session.key, record.artifact_id, 6)
    publish(SessionKey("", "gone"), "f" * 32, 1)
    seen = [subscription.take(0), subscription.take(0)]
    assert [each.event for each in seen if each] == [
        Event(EventKind.READ_BACK, session.key, 1, 77, f"artifact {record.artifact_id}, 6 bytes"),
        Event(EventKind.READ_BACK, SessionKey("", "gone"), 0, 77, f"artifact {'f' * 32}, 1 bytes"),
    ]
