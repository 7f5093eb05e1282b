"""What Compact could retire: settled units, oldest first, and the bytes that they take, user items apart.

Asked on each Fit for all units outside the tail, so sums are kept by unit and only those of new units are added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fastpath import Item, Part, Role
from sidecar.core.units import Unit

__all__ = ["Sums", "add_up", "retirable"]

USER = int(Role.USER)


class Sums(NamedTuple):
    """At each index: of all units before it."""

    counts: list[int]  # settled units
    sizes: list[int]  # bytes of their items


def retirable(units: Sequence[Unit], items: Sequence[Item], parts: Sequence[Part], saved: Mapping[int, int]) -> tuple[int, int]:
    """Settled units among these, and their bytes. An item that belongs to two counts once.

    Args:
        units: outside of the tail.
        items: of the body.
        parts: of the body.
        saved: by item, bytes that edits save.
    """
    old = [unit for unit in units if unit.settled]
    members = {at for unit in old for at in _members(unit, parts)}
    return len(old), sum(_size(items[at], saved.get(at, 0)) for at in members)


def add_up(
    units: Sequence[Unit],
    items: Sequence[Item],
    parts: Sequence[Part],
    saved: Mapping[int, int],
    earlier: Sums | None = None,
    same_count: int = 0,
) -> Sums | None:
    """Sums over all units. None where units share items (a late result): then `retirable` must be asked. O(new units).

    Args:
        units: of the body.
        items: of the body.
        parts: of the body.
        saved: by item, bytes that edits save.
        earlier: sums of a body that begins with the same units, their settledness and savings included.
        same_count: how many these are.
    """
    if earlier is None:
        same_count = 0
    counts = [0] if earlier is None else earlier.counts[: same_count + 1]
    sizes = [0] if earlier is None else earlier.sizes[: same_count + 1]
    for index in range(same_count, len(units)):
        unit = units[index]
        if index and units[index - 1].reach > unit.first:
            return None
        own = 0
        for at in _members(unit, parts) if unit.settled else ():
            own += _size(items[at], saved.get(at, 0))
        counts.append(counts[-1] + unit.settled)
        sizes.append(sizes[-1] + own)
    return Sums(counts, sizes)


def _members(unit: Unit, parts: Sequence[Part]) -> set[int]:
    members = set(unit.turn)
    for call in unit.calls:
        for index in call.results:
            members.add(parts[index][2])
    return members


def _size(item: Item, saved_bytes: int) -> int:
    """Of a user item its results alone: what a person wrote in it stays."""
    size_bytes = item.result_bytes if item[2] == USER else item.end - item.start
    return max(size_bytes - saved_bytes, 0)
