"""What a run costs with a provider's prompt cache, as a ratio that needs no price list.

The model: bytes in the longest common prefix with the body sent before are read from the cache, all others are written to it.
Reading costs a tenth of plain input and writing a quarter more than it: what providers with explicit cache markers charge.
Bytes stand for tokens here; that is fair for a ratio of two runs over the same text and for nothing else. Cache lifetimes,
block sizes and minimum lengths are left out. No I/O and no clock in this file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

__all__ = ["CACHED_PRICE", "FRESH_PRICE", "CostMeter", "Sent", "common_prefix_bytes", "geometric_mean"]

CACHED_PRICE = 0.1  # of a byte that the provider has in its cache, in plain input bytes
FRESH_PRICE = 1.25  # of any other byte: input, and its write to the cache

_CHUNK_BYTES = 1 << 16


def common_prefix_bytes(first: bytes, second: bytes) -> int:
    """Length of the longest common prefix. O(that length), at the speed of memcmp."""
    limit = min(len(first), len(second))
    view = memoryview(first)
    # startswith on a view is the one compare in the language that neither copies nor walks bytes one by one.
    start = 0
    while start < limit and second.startswith(view[start : min(start + _CHUNK_BYTES, limit)], start):
        start = min(start + _CHUNK_BYTES, limit)
    low, high = start, min(start + _CHUNK_BYTES, limit)
    while low < high:
        middle = (low + high + 1) // 2
        if second.startswith(view[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


class Sent(msgspec.Struct, frozen=True):
    """What one body cost.

    Attributes:
        size_bytes: the body.
        cached_bytes: its longest common prefix with the body before.
        cost: in plain input bytes.
        broke_prefix: bytes of history that had been sent before, or of what stands in front of it, changed.
    """

    size_bytes: int
    cached_bytes: int
    cost: float
    broke_prefix: bool


class CostMeter:
    """Adds up what the bodies of one run cost, in the order in which they are sent."""

    def __init__(self) -> None:
        """Begin with a cold cache."""
        self._body = b""
        self._items_end = 0
        self.cost = 0.0
        self.break_count = 0
        self.max_bytes = 0
        self.sum_bytes = 0

    def add(self, body: bytes, items_end: int) -> Sent:
        """Send a body.

        Args:
            body: the bytes as sent.
            items_end: first byte after its last item. What stands behind (the closing bracket, the rest of the envelope)
                moves with each step in any run; it costs, but it is no break.
        """
        cached = common_prefix_bytes(self._body, body)
        broke = cached < self._items_end
        cost = CACHED_PRICE * cached + FRESH_PRICE * (len(body) - cached)
        self._body, self._items_end = body, items_end
        self.cost += cost
        self.break_count += broke
        self.sum_bytes += len(body)
        self.max_bytes = max(self.max_bytes, len(body))
        return Sent(len(body), cached, cost, broke)


def geometric_mean(ratios: Iterable[float]) -> float:
    """Geometric mean of positive ratios; 1.0 of none."""
    logs = [math.log(ratio) for ratio in ratios]
    return math.exp(sum(logs) / len(logs)) if logs else 1.0
