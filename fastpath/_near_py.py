"""Questions about two bodies that are nearly the same, and about where in a value an offset is: the reference of _near.pyx."""

from __future__ import annotations

from collections.abc import Sequence

from fastpath._json_py import Node, Reader
from fastpath.rows import Edit

__all__ = ["common_prefix", "is_spliced", "path_at"]


def common_prefix(one: bytes, other: bytes, known: int = 0) -> int:
    """Number of leading bytes that are the same, of which `known` are known to be. O(prefix - known)."""
    low, high = known, min(len(one), len(other))
    if not 0 <= low <= high:
        raise ValueError("more is known than there is")
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def is_spliced(body: bytes, edits: Sequence[Edit | tuple[int, int, bytes]], result: bytes) -> bool:
    """Whether `result` is what the edits make of the body: their data in place, every other byte as it was. O(n).

    It says so by comparing, not by building: what made `result` is not trusted. False too for edits that are out of order,
    overlap, or reach outside the body.
    """
    at = there = 0
    for start, end, data in edits:
        if not at <= start <= end <= len(body):
            return False
        gap = start - at
        if body[at:start] != result[there : there + gap] or result[there + gap : there + gap + len(data)] != data:
            return False
        there += gap + len(data)
        at = end
    return body[at:] == result[there:]


def path_at(body: bytes, start: int, offset: int) -> tuple[bytes | int, ...] | None:
    """Path from the JSON value that begins at `start` to the value in it that begins at `offset`. O(n) in the value.

    Args:
        body: bytes that hold the value; what follows it is not read.
        start: offset of the value's first byte.
        offset: of the value asked for.

    Returns:
        Decoded member keys and element indices, as `locate` takes them (of duplicate keys, `locate` finds the last). None when no
        value begins at offset.

    Raises:
        MalformedError: no JSON value begins at start.
    """
    if not 0 <= start <= len(body):
        raise ValueError("start is outside the body")
    node: Node | None = Reader(body, len(body)).value(start, 0)
    path: list[bytes | int] = []
    while node is not None and node.start != offset:
        found = None
        for index, child in enumerate(node.children):
            if child.start <= offset < child.end:
                path.append(index if child.key is None else child.key)
                found = child
        node = found
    return None if node is None else tuple(path)
