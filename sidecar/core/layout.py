"""Where a summary stands: decided once, at commit, and kept in the checkpoint.

What stays of the covered range stands in raw order, then the summary, then the tail. A summary is a user item; two things are
in its way. Where it would stand behind results that stay, it would become one item with them: if user text follows, it stands
between the two as an assistant item; else it moves to an earlier place where work leaves, at last behind the user item before the
range. And where other results would meet user text once the work between them is gone, a one-line pointer stands between.

Pure. Places are indices in the raw body; several are offered, best first, since only the finished body can tell which is valid.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from fastpath import Item, Kind, Part, Role
from sidecar.core.fold import holds_results

__all__ = ["Layout", "layouts"]


class Layout(NamedTuple):
    """One way to place a summary."""

    after: int  # index of the item behind which it stands; -1: before all
    role: int  # Role.USER or Role.ASSISTANT
    pointers: tuple[int, ...]  # indices of gone items behind which a pointer stands


class _Gap(NamedTuple):
    """A place where work leaves, between two items that stay."""

    before: int  # index of the item that stays, -1: none
    behind: int  # index of the item that stays, len(items): none
    last: int  # index of the last new item that leaves here


def layouts(
    items: Sequence[Item],
    parts: Sequence[Part],
    leaving: Collection[int],
    also_gone: Collection[int],
    trimmed: Collection[int],
    *,
    merges_users: bool,
) -> Iterator[Layout]:
    """Ways to place the summary of a range, best first.

    Args:
        items: of the raw body.
        parts: of it.
        leaving: indices of items that leave whole by this checkpoint.
        also_gone: those that leave by others.
        trimmed: indices of items of which the results leave.
        merges_users: as in Adapter.
    """
    gaps = _gaps(items, leaving, also_gone, trimmed)

    def results(index: int) -> bool:
        return 0 <= index < len(items) and index not in trimmed and holds_results(items[index], parts)

    def says(index: int) -> bool:
        """A person's words, without results in front."""
        return index < len(items) and items[index].role == Role.USER and not results(index) and _has_text(items[index], parts)

    meeting = [gap for gap in gaps if results(gap.before) and says(gap.behind)]

    def pointers(own: _Gap | None) -> tuple[int, ...]:
        return tuple(gap.last for gap in meeting if gap is not own)

    for gap in reversed(gaps):
        if not results(gap.before):
            yield Layout(gap.last, Role.USER, pointers(gap))
        elif says(gap.behind):
            yield Layout(gap.last, Role.ASSISTANT, pointers(gap))
        elif not merges_users:
            yield Layout(gap.last, Role.USER, pointers(gap))
    first = min((*leaving, *trimmed), default=0)
    for index in range(first - 1, -1, -1):
        if index not in also_gone and items[index].role == Role.USER and not results(index):
            yield Layout(index, Role.USER, pointers(None))
            return
    yield Layout(-1, Role.USER, pointers(None))


def _gaps(items: Sequence[Item], leaving: Collection[int], also_gone: Collection[int], trimmed: Collection[int]) -> list[_Gap]:
    """Places where items of this checkpoint leave. A trimmed item ends a place and begins another: what it keeps stands there."""
    gaps: list[_Gap] = []
    before, last = -1, -1
    for index in range(len(items)):
        if index in leaving:
            last = index
        elif index not in also_gone:
            if last >= 0:
                gaps.append(_Gap(before, index, last))
            before, last = index, -1
            if index in trimmed:
                last = index
    if last >= 0:
        gaps.append(_Gap(before, len(items), last))
    return gaps


def _has_text(item: Item, parts: Sequence[Part]) -> bool:
    own = parts[item.first_part : item.first_part + item.part_count]
    return not own or any(part.kind in (Kind.TEXT, Kind.MEDIA, Kind.OTHER) and part.parent < 0 for part in own)
