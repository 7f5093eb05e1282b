"""What happens in sessions, for those who watch. Observers see; they cannot rewrite, delay or refuse anything.

Publishing never waits: each observer has a bounded queue, and one that is slow loses its oldest events. The next event that it
takes says how many it lost before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from enum import IntEnum
from threading import Condition, Lock
from typing import NamedTuple

import msgspec

from sidecar.core.errors import TooManyError
from sidecar.core.types import SessionKey
from sidecar.ports import Clock, Store

__all__ = ["Event", "EventKind", "Events", "Seen", "Subscription", "read_back_publisher"]

QUEUE_COUNT = 1_024
OBSERVER_COUNT = 64


class EventKind(IntEnum):
    """Numbers as in the proto."""

    UNSPECIFIED = 0
    FITTED = 1
    EXTERNALIZED = 2
    PRE_COMPACT = 3
    POST_COMPACT = 4
    ROLLED_BACK = 5
    READ_BACK = 6
    DELETED = 7


class Event(msgspec.Struct, frozen=True):
    """Something that happened to a session."""

    kind: EventKind
    key: SessionKey
    revision: int  # after it
    time_ms: int
    detail: str = ""  # for people; never content
    before_bytes: int = 0
    after_bytes: int = 0


class Seen(NamedTuple):
    """An event as one observer gets it."""

    event: Event
    lost_count: int  # events that this observer lost before it


class Subscription:
    """One observer's events: an iterator that waits for the next one, and ends when the subscription is closed."""

    def __init__(self, events: Events, scope: str, session_id: str, queue_count: int) -> None:
        """Made by Events.subscribe."""
        self._events = events
        self._scope = scope
        self._session_id = session_id
        self._queue_count = queue_count
        self._queue: deque[Seen] = deque()
        self._changed = Condition(Lock())
        self._closed = False

    def __iter__(self) -> Iterator[Seen]:
        """Itself."""
        return self

    def __next__(self) -> Seen:
        """Wait for the next event. What is queued is still given out after `close`."""
        seen = self.take(None)
        if seen is None:
            raise StopIteration
        return seen

    def take(self, timeout_s: float | None) -> Seen | None:
        """The next event; None when none came in time, or when the subscription is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._queue) or self._closed, timeout_s)
            return self._queue.popleft() if self._queue else None

    @property
    def closed(self) -> bool:
        """Nothing more will come."""
        return self._closed

    def close(self) -> None:
        """Watch no more. Ends a wait in another thread. Repeatable."""
        self._events._drop(self)
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _offer(self, event: Event) -> None:
        key = event.key
        if key.scope != self._scope or (self._session_id and key.session_id != self._session_id):
            return
        with self._changed:
            if self._closed:
                return
            lost = 0
            if len(self._queue) >= self._queue_count:
                lost = self._queue.popleft().lost_count + 1
            self._queue.append(Seen(event, 0))
            if lost:
                first = self._queue[0]
                self._queue[0] = Seen(first.event, first.lost_count + lost)
            self._changed.notify()


class Events:
    """Joins those who publish with those who watch. Safe for several threads."""

    def __init__(self, *, queue_count: int = QUEUE_COUNT, observer_count: int = OBSERVER_COUNT) -> None:
        """Begin without observers.

        Args:
            queue_count: events that wait for one observer at most, at least 1.
            observer_count: observers at once at most.
        """
        self._queue_count = max(1, queue_count)
        self._observer_count = observer_count
        self._observers: tuple[Subscription, ...] = ()
        self._lock = Lock()
        self._closed = False

    def publish(self, event: Event) -> None:
        """Tell all who watch. Never waits for an observer."""
        for observer in self._observers:  # a tuple that is replaced, never changed
            observer._offer(event)

    @property
    def watched(self) -> bool:
        """Somebody watches."""
        return bool(self._observers)

    def subscribe(self, scope: str, session_id: str = "") -> Subscription:
        """Watch a scope, or one session of it, from now on.

        Raises:
            TooManyError: there are too many observers.
        """
        subscription = Subscription(self, scope, session_id, self._queue_count)
        with self._lock:
            closed = self._closed
            if not closed:
                if len(self._observers) >= self._observer_count:
                    raise TooManyError("too many observers at once", observer_count=self._observer_count)
                self._observers = (*self._observers, subscription)
        if closed:
            subscription.close()
        return subscription

    def close(self) -> None:
        """End all subscriptions, also those to come."""
        with self._lock:
            self._closed = True
            observers = self._observers
        for observer in observers:
            observer.close()

    def _drop(self, subscription: Subscription) -> None:
        with self._lock:
            self._observers = tuple(observer for observer in self._observers if observer is not subscription)


def read_back_publisher(events: Events, store: Store, clock: Clock) -> Callable[[SessionKey, str, int], None]:
    """What ArtifactReader wants as `on_read`: tells observers of each read-back. Looks nothing up when nobody watches."""

    def publish(key: SessionKey, artifact_id: str, size_bytes: int) -> None:
        if not events.watched:
            return
        summary = store.summary(key)
        revision = summary.head.revision if summary is not None else 0
        events.publish(Event(EventKind.READ_BACK, key, revision, clock.now_ms(), f"artifact {artifact_id}, {size_bytes} bytes"))

    return publish
