"""Numbers that only grow, by name and labels, for metrics. No session's name and no content among them."""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple

__all__ = ["Counters", "Sample"]

Labels = tuple[tuple[str, str], ...]


class Sample(NamedTuple):
    """One number."""

    name: str  # ends in "_total", and names its unit
    labels: Labels  # sorted by name
    value: int


class Counters:
    """A set of counters. Safe for several threads."""

    def __init__(self) -> None:
        """None yet: a counter is there from the first `add` on, which may add 0."""
        self._lock = Lock()
        self._values: dict[tuple[str, Labels], int] = {}

    def add(self, name: str, value: int = 1, /, **labels: str) -> None:
        """Count on.

        Raises:
            ValueError: the value is negative.
        """
        if value < 0:
            raise ValueError(f"{name} only grows")
        place = (name, tuple(sorted(labels.items())))
        with self._lock:
            self._values[place] = self._values.get(place, 0) + value

    def value(self, name: str, /, **labels: str) -> int:
        """One counter's number; 0 when nothing was counted."""
        with self._lock:
            return self._values.get((name, tuple(sorted(labels.items()))), 0)

    def samples(self) -> list[Sample]:
        """All numbers of one moment, sorted."""
        with self._lock:
            return sorted(Sample(name, labels, value) for (name, labels), value in self._values.items())
