"""Bodies to measure with, of a chosen size: the demo's generated session, cut to length."""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.demo.dialects import Answer, Call, Dialect, Event, Results, dialect
from sidecar.demo.script import SYSTEM, play
from sidecar.demo.workspace import Outcome

__all__ = ["body_of_size", "grow_bodies"]

_RESULT_BYTES = 20_000  # below every externalize limit, so that a body's size alone decides what happens to it
_STEP_BYTES = 1_024  # what one of the last, small model calls adds
_FILLER = "gauge 17: +1.234 m, sigma 0.0123, 6 min mean, ok; "


def body_of_size(size_bytes: int, format: str = "anthropic-messages", seed: int = 1) -> bytes:
    """A body of exactly this size, from 24 KiB; ends with results."""
    return grow_bodies(size_bytes, 1, format, seed)[0]


def grow_bodies(size_bytes: int, count: int, format: str = "anthropic-messages", seed: int = 1) -> list[bytes]:
    """The last `count` bodies of a run, oldest first, each 1 KiB longer than the one before; the last has exactly `size_bytes`.

    Raises:
        ValueError: too small a size for the envelope and so many bodies.
    """
    spelling = dialect(format)
    head, tail = spelling.envelope(SYSTEM)
    items = spelling.first_items(SYSTEM)
    room = size_bytes - len(head) - len(tail) - count * _STEP_BYTES + 1  # one comma fewer than items
    room -= sum(len(item) + 1 for item in items)
    for group in _groups(play(seed)):
        new = [item for event in group for item in spelling.items(event)]
        size = sum(len(item) + 1 for item in new)
        if size <= room:
            items += new
            room -= size
        elif room < _RESULT_BYTES:
            break
    if room < 0 or len(items) < 2:
        raise ValueError(f"{size_bytes} bytes are too few for {count} bodies")
    items += _padding(spelling, -1, room + _STEP_BYTES)
    bodies = [head + b",".join(items) + tail]
    for number in range(count - 1):
        items += _padding(spelling, number, _STEP_BYTES)
        bodies.append(head + b",".join(items) + tail)
    return bodies


def _groups(events: Iterator[Event]) -> Iterator[list[Event]]:
    """Runs of events of which any but the first may be left out, and the history stays valid."""
    yield [next(events)]
    for event in events:
        if isinstance(event, Answer):
            following = next(events)
            if isinstance(following, Results):
                following = Results(tuple((call_id, _shorten(outcome)) for call_id, outcome in following.outcomes))
            yield [event, following]


def _shorten(outcome: Outcome) -> Outcome:
    text = outcome.text.encode()[:_RESULT_BYTES].decode(errors="ignore")
    return Outcome(text, outcome.is_error)


def _padding(spelling: Dialect, number: int, size_bytes: int) -> list[bytes]:
    """A small model call and its result that lengthen a body by exactly this much, commas included."""

    def write(text: str) -> list[bytes]:
        call = Call(f"call_{number & 0xFFFF:05d}", "search", {"pattern": "gauge", "under": "data/"})
        answer = Answer("", "", "", (call,))
        return [*spelling.items(answer), *spelling.items(Results(((call.call_id, Outcome(text)),)))]

    missing = size_bytes - sum(len(item) + 1 for item in write(""))
    return write((_FILLER * (missing // len(_FILLER) + 1))[:missing])
