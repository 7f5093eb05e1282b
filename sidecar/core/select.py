"""Which settled work retires: whole units, oldest first, until the body would be at its target. Pure.

A unit may retire when each of its calls has its final result and no receipt says otherwise, it stands before the tail, nothing
of it is pinned, no live checkpoint covers a call of it, and what would leave with it is its own: the items of its turn, items
that are its results, and of a user item that holds other things too the results alone. System, developer and user items, a
provider's own blocks that stand for history, and everything unsettled stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from fastpath import Item, Kind, Part, Role
from sidecar.core.units import Call, Unit
from sidecar.formats.base import Adapter

__all__ = ["SelectView", "Selection", "select"]


class SelectView(NamedTuple):
    """A raw body, as selection sees it."""

    adapter: Adapter
    body: bytes
    items: Sequence[Item]
    parts: Sequence[Part]
    units: Sequence[Unit]  # all, oldest first
    tail_item: int  # index of the first item of the tail
    covered: Collection[int]  # indices of items that leave by checkpoints that stay live
    pinned: Callable[[Call], bool]
    saved: Mapping[int, int]  # by item: bytes that records save in it already
    size_bytes: int  # of the body as it would be sent now
    target_bytes: int
    added_bytes: int  # what the summary adds, at most


class Selection(NamedTuple):
    """What is to be covered."""

    units: list[Unit]  # oldest first
    gone: list[int]  # indices of items that leave whole, ascending
    trims: dict[int, tuple[int, ...]]  # by index: elements of the content that leave
    range_bytes: int  # what all of it takes in the body now


def select(view: SelectView, skip: Callable[[Unit], bool] = lambda unit: False) -> Selection:
    """Choose units, oldest first, until the body would be at its target. O(units and their parts).

    Args:
        view: of the body.
        skip: leave a unit out although it may retire.

    Returns:
        The units; none when nothing may retire.
    """
    owners = _owners(view.units)
    chosen: list[Unit] = []
    gone: set[int] = set()
    trims: dict[int, tuple[int, ...]] = {}
    freed = 0
    for unit in view.units:
        if unit.first >= view.tail_item or view.size_bytes + view.added_bytes - freed <= view.target_bytes:
            break
        leaves = None if skip(unit) else _leaves(view, unit, owners)
        if leaves is None:
            continue
        chosen.append(unit)
        for index, blocks in leaves.items():
            item = view.items[index]
            if blocks is None:
                gone.add(index)
                freed += item.end - item.start - view.saved.get(index, 0) + 1
            else:
                trims[index] = blocks
                freed += sum(_element_bytes(view, index, blocks))
    return Selection(chosen, sorted(gone), trims, freed)


def _owners(units: Sequence[Unit]) -> dict[int, Unit]:
    """By index of a result part: the unit that it belongs to."""
    return {index: unit for unit in units for call in unit.calls for index in call.results}


def _leaves(view: SelectView, unit: Unit, owners: Mapping[int, Unit]) -> dict[int, tuple[int, ...] | None] | None:
    """What leaves with a unit, by item: elements of its content, None for all of it. None when the unit may not retire."""
    if not unit.settled or any(view.pinned(call) for call in unit.calls):
        return None
    left = [at for at in unit.turn if at not in view.covered]  # a turn may have gone on after a text of it was covered
    if not left or any(call.item in view.covered for call in unit.calls):
        return None
    leaves: dict[int, tuple[int, ...] | None] = dict.fromkeys(left)
    for index in {view.parts[index].item for call in unit.calls for index in call.results} - set(unit.turn):
        whole, blocks = _own_results(view, index, unit, owners)
        if not whole and not blocks:
            return None
        leaves[index] = None if whole else blocks
    for index in leaves:
        if index >= view.tail_item or index in view.covered or any(_stays(part) for part in _parts(view, index)):
            return None
    return leaves


def _parts(view: SelectView, index: int) -> Sequence[Part]:
    item = view.items[index]
    return view.parts[item.first_part : item.first_part + item.part_count]


def _stays(part: Part) -> bool:
    """A provider's own block that stands for history."""
    return part.kind == Kind.OPAQUE


def _own_results(view: SelectView, index: int, unit: Unit, owners: Mapping[int, Unit]) -> tuple[bool, tuple[int, ...]]:
    """Whether an item is nothing but results of a unit; else the elements of its content that are. (False, ()): it must stay."""
    item = view.items[index]
    tops = [(at, view.parts[at]) for at in range(item.first_part, item.first_part + item.part_count) if view.parts[at].parent < 0]
    own = [owners.get(at) is unit for at, part in tops if part.kind == Kind.RESULT]
    if not all(own):
        return False, ()
    if item.role == Role.RESULT or all(part.kind == Kind.RESULT for _, part in tops):
        return True, ()
    span = view.adapter.content_span(view.body, item)
    if span is None or span.is_string:
        return False, ()
    starts = {part.start for _, part in tops if part.kind == Kind.RESULT}
    blocks = tuple(at for at, (start, _) in enumerate(span.elements) if start in starts)
    stay = [at for at in range(len(span.elements)) if at not in blocks]
    if len(blocks) != len(starts) or not stay or stay != list(range(stay[0], stay[-1] + 1)):
        return False, ()
    return False, blocks


def _element_bytes(view: SelectView, index: int, blocks: Sequence[int]) -> list[int]:
    span = view.adapter.content_span(view.body, view.items[index])
    return [] if span is None else [span.elements[at][1] - span.elements[at][0] for at in blocks]
