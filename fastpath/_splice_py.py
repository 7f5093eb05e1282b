"""Size and bytes of a body after edits: the reference of what _fast.pyx does with one allocation and one copy."""

from __future__ import annotations

from collections.abc import Sequence

from fastpath.rows import Edit

__all__ = ["size", "splice"]


def size(body: bytes, edits: Sequence[Edit | tuple[int, int, bytes]]) -> int:
    """Size in bytes of the body after the edits. O(edits).

    Raises:
        ValueError: edits are out of order, overlap, or reach outside the body.
    """
    total, position = len(body), 0
    for start, end, data in edits:
        if not position <= start <= end <= len(body):
            raise ValueError("edits must be in order, apart, and inside the body")
        total += len(data) - (end - start)
        position = end
    return total


def splice(body: bytes, edits: Sequence[Edit | tuple[int, int, bytes]]) -> bytes:
    """The body after the edits; everything outside them is copied as it is. O(n).

    Raises:
        ValueError: edits are out of order, overlap, or reach outside the body.
    """
    size(body, edits)
    pieces: list[bytes] = []
    position = 0
    for start, end, data in edits:
        pieces += (body[position:start], data)
        position = end
    pieces.append(body[position:])
    return b"".join(pieces)
