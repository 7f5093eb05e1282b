"""A session's branch: which raw items stand in its history now, and where.

A branch is kept as half-open ranges of item numbers, in order of the history. Numbers need not ascend (an item that was put in
late has a high number in the middle), and a number stands on a branch at most once. A session that was never edited has one
range, so everything here costs by ranges, not by items.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

__all__ = ["BranchIndex", "Ranges", "extend_ranges", "from_ranges", "ranges_at", "to_ranges"]

Ranges = tuple[tuple[int, int], ...]
"""Half-open ranges of numbers, in order of the history; neighbors that join are joined."""


class BranchIndex:
    """Number to index and back. Immutable. O(ranges log ranges) to build, O(log ranges) to ask."""

    __slots__ = ("_by_number", "_indices", "_starts", "count", "ranges")

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Take the ranges of a branch.

        Args:
            ranges: half-open, in order of the history, none empty, no number twice.

        Raises:
            ValueError: a range is empty or negative, or a number stands twice.
        """
        joined: list[tuple[int, int]] = []
        for start, end in ranges:
            if start < 0 or end <= start:
                raise ValueError(f"not a range of item numbers: {start} to {end}")
            if joined and joined[-1][1] == start:
                joined[-1] = (joined[-1][0], end)
            else:
                joined.append((start, end))
        self.ranges: Ranges = tuple(joined)
        self._indices: list[int] = []  # index of the first item of each range
        count = 0
        for start, end in joined:
            self._indices.append(count)
            count += end - start
        self.count: int = count
        # (first number, one past the last, index of the first), by number
        self._by_number = sorted((start, end, index) for (start, end), index in zip(joined, self._indices, strict=True))
        self._starts = [entry[0] for entry in self._by_number]
        for before, after in itertools.pairwise(self._by_number):
            if after[0] < before[1]:
                raise ValueError(f"item number {after[0]} stands twice on a branch")

    def index_of(self, number: int) -> int:
        """Where a raw item stands on the branch, from 0; -1 when it is not on it."""
        at = bisect_right(self._starts, number) - 1
        if at < 0:
            return -1
        start, end, index = self._by_number[at]
        return index + number - start if number < end else -1

    def number_at(self, index: int) -> int:
        """Number of the item at an index. Raises IndexError outside of 0 <= index < count."""
        if not 0 <= index < self.count:
            raise IndexError(f"index {index} is outside of a branch of {self.count} items")
        at = bisect_right(self._indices, index) - 1
        return self.ranges[at][0] + index - self._indices[at]

    def numbers(self, start: int = 0, end: int | None = None) -> Iterator[int]:
        """Numbers of the items at start <= index < end, in order; indices outside of the branch are left out."""
        end = self.count if end is None else min(end, self.count)
        start = max(start, 0)
        for (first, past), index in zip(self.ranges, self._indices, strict=True):
            low = max(start - index, 0)
            high = min(end - index, past - first)
            yield from range(first + low, first + high)


def to_ranges(numbers: Iterable[int]) -> Ranges:
    """Fold numbers, in order of the history, into ranges. O(numbers)."""
    return extend_ranges((), 0, numbers)


def ranges_at(places: Iterable[int], numbers: Sequence[int]) -> Ranges:
    """The numbers at some places of a branch, ascending, as ranges that also stand side by side there. O(places).

    Numbers that follow each other need not be neighbors: an item that came back keeps its old one.
    """
    folded: list[tuple[int, int]] = []
    last = -1
    for at in places:
        number = numbers[at]
        if folded and last + 1 == at and folded[-1][1] == number:
            folded[-1] = (folded[-1][0], number + 1)
        else:
            folded.append((number, number + 1))
        last = at
    return tuple(folded)


def extend_ranges(ranges: Iterable[tuple[int, int]], count: int, numbers: Iterable[int]) -> Ranges:
    """The first `count` numbers of some ranges, then others, folded. O(ranges + numbers)."""
    folded: list[tuple[int, int]] = []
    for start, end in ranges:
        if count <= 0:
            break
        folded.append((start, min(end, start + count)))
        count -= end - start
    for number in numbers:
        if folded and folded[-1][1] == number:
            folded[-1] = (folded[-1][0], number + 1)
        else:
            folded.append((number, number + 1))
    return tuple(folded)


def from_ranges(ranges: Iterable[tuple[int, int]]) -> list[int]:
    """All numbers of some ranges, in order. O(numbers)."""
    return [number for start, end in ranges for number in range(start, end)]
