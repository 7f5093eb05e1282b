"""A body as it was read: rows of its items and parts, and what the structural rules say of it.

What is byte-equal to an earlier body, at its front, is taken over from its reading: neither read nor judged again. An item
there has the same offsets, parts and role in both bodies. Lists are copied, not looped over, so the cost follows what is new.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fastpath import Item, MalformedError, Part, Role, Scan, decode_string, scan
from sidecar.core.errors import MalformedBodyError
from sidecar.formats.base import Adapter, Judged

__all__ = ["ROW_BYTES", "Reading", "read_body", "turn_start"]

ROW_BYTES = 400
"""Memory of one row of an item or part: its tuple of numbers (326 by tracemalloc, on a recorded body) and the scan's own."""

_ASSISTANT = int(Role.ASSISTANT)  # a member of an IntEnum costs as much as the rest of a loop


class Reading(NamedTuple):
    """One body. Nothing in it is mutated."""

    scan: Scan
    items: list[Item]
    parts: list[Part]
    judged: Judged
    reused: int  # leading items that were taken over
    since: int  # item from which turns were judged anew: the last turn that begins among those taken over

    @property
    def row_count(self) -> int:
        """Items and parts."""
        return len(self.items) + len(self.parts)

    def decode(self, start: int, end: int) -> bytes:
        """Text of a string value, or any other value as it stands."""
        body = self.scan.body
        return decode_string(body[start + 1 : end - 1]) if body[start : start + 1] == b'"' else body[start:end]


def read_body(body: bytes, adapter: Adapter, earlier: Reading | None = None) -> Reading:
    """Read a body and judge it. O(bytes) for one compare with the earlier one; all else follows what is new.

    Raises:
        MalformedBodyError: not JSON, not the dialect's shape, or over a bound; with the byte offset.
    """
    scanned = _scan(body, adapter, None if earlier is None else earlier.scan)
    reused = scanned.reused_item_count
    if earlier is None or not reused:
        items, parts = scanned.items(), scanned.parts()
        return Reading(scanned, items, parts, adapter.judge(scanned, (items, parts)), 0, 0)
    last = earlier.items[reused - 1]
    kept = last.first_part + last.part_count
    items = earlier.items[:reused]
    items += scanned.items(reused)  # one copy, not two
    parts = earlier.parts[:kept]
    parts += scanned.parts(kept)
    since = turn_start(items, reused)
    return Reading(scanned, items, parts, adapter.judge(scanned, (items, parts), earlier.judged, since), reused, since)


def turn_start(items: Sequence[Item], count: int) -> int:
    """Index of the last assistant item among the first `count` that follows an item that is not the assistant's; 0 for none."""
    at = count - 1
    while at > 0 and not (items[at][2] == _ASSISTANT != items[at - 1][2]):
        at -= 1
    return max(at, 0)


def _scan(body: bytes, adapter: Adapter, previous: Scan | None) -> Scan:
    try:
        return scan(body, adapter.grammar, previous)
    except MalformedError as error:
        details: dict[str, str | int] = {"offset_bytes": error.offset_bytes}
        if error.bound:
            details["bound"] = error.bound
        raise MalformedBodyError(
            f"the body cannot be read as {adapter.name}: {error}",
            hint="send the complete request as it goes to the provider: one JSON object with its history",
            **details,
        ) from error
