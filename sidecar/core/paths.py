"""Paths inside an item: where a value of the raw item stands in the item as a client sends it, and back.

Three things move a value between the raw item and another form of the same item: elements that a record left out; elements that
are only a cache marker, of which the raw item has none; and clients that write a string content as a list of one text block or
the other way round.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fastpath import Item, ItemFlag, Kind, Part, locate, path_at
from sidecar.core.types import Path

__all__ = ["among", "find", "marker_paths", "raw_path", "removal_spans", "shift"]

_MARKED = int(ItemFlag.MARKED)
_MARKER = int(Kind.MARKER)
_QUOTE = ord('"')


def marker_paths(body: bytes, item: Item, parts: Sequence[Part]) -> list[Path]:
    """Paths of an item's elements that are only cache markers, in order. O(its parts) where it has any marker."""
    if not item.flags & _MARKED:
        return []
    own = parts[item.first_part : item.first_part + item.part_count]
    found = (path_at(body, item.start, part.start) for part in own if part[0] == _MARKER)
    return [path for path in found if path]


def shift(path: Path, removed: Iterable[Path]) -> Path:
    """A raw item's path, in the item after elements were left out. Each removal names an element by its raw path."""
    moved = list(path)
    for gone in removed:
        depth = len(gone) - 1
        last = gone[-1]
        if depth < len(path) and path[:depth] == gone[:depth]:
            here = path[depth]
            if isinstance(here, int) and isinstance(last, int) and here > last:
                moved[depth] = int(moved[depth]) - 1
    return tuple(moved)


def among(path: Path, added: Iterable[Path]) -> Path:
    """A path in an item, in the item with more elements, each named by its path there, in order. The inverse of `shift`."""
    moved = list(path)
    for new in added:
        depth = len(new) - 1
        last = new[-1]
        if depth < len(moved) and tuple(moved[:depth]) == new[:depth]:
            here = moved[depth]
            if isinstance(here, int) and isinstance(last, int) and here >= last:
                moved[depth] = here + 1
    return tuple(moved)


def find(
    body: bytes, start: int, path: Path, removed: Iterable[Path] = (), *, is_string: bool, markers: Iterable[Path] = ()
) -> tuple[int, int] | None:
    """Span of a raw item's value in a client's form of the item. None when it is not there.

    Args:
        body: what holds the item.
        start: where the item begins.
        path: in the raw item.
        removed: raw paths of elements that this form lacks.
        is_string: the value is a string in the raw item; the text of a list of one text block is then the same value.
        markers: paths of elements of this form that are only cache markers.
    """
    moved = among(shift(path, removed), markers)
    span = locate(body, start, moved)
    if not is_string:
        return span
    if span is not None and body[span[0]] == _QUOTE:
        return span
    other = (*moved, 0, b"text") if span is not None else moved[:-2] if moved[-2:] == (0, b"text") else None
    span = None if other is None else locate(body, start, other)
    return span if span is not None and body[span[0]] == _QUOTE else None


def removal_spans(body: bytes, start: int, paths: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    """Spans to delete so that array elements are gone and the commas between what stays are right.

    The leading run of a list goes with the commas behind it, every other element with the comma before it; so spans never
    overlap.

    Args:
        body: what holds the item.
        start: where the item begins.
        paths: of all elements that go from this item, as they stand in it.

    Returns:
        Span by path; without those that are not there or whose list would be left empty.
    """
    lists: dict[Path, set[int]] = {}
    for path in paths:
        lists.setdefault(path[:-1], set()).add(int(path[-1]))
    spans: dict[Path, tuple[int, int]] = {}
    for parent, gone in lists.items():
        lead = 0
        while lead in gone:
            lead += 1
        if locate(body, start, (*parent, lead)) is None:
            continue
        for index in sorted(gone):
            here = locate(body, start, (*parent, index))
            if here is None:
                continue
            if index < lead:
                behind = locate(body, start, (*parent, index + 1))
                if behind is not None:
                    spans[(*parent, index)] = (here[0], behind[0])
            else:
                before = locate(body, start, (*parent, index - 1))
                if before is not None:
                    spans[(*parent, index)] = (before[1], here[1])
    return spans


def raw_path(raw: bytes, path: Path, removed: list[Path], *, is_string: bool) -> Path | None:
    """Path in the raw item of a value found at `path` in a form that lacks `removed`. None when it cannot be told."""
    told = among(path, sorted(removed, key=lambda other: (len(other), [str(step) for step in other[:-1]], other[-1])))
    for spelling in (told, (*told, 0, b"text"), told[:-2] if told[-2:] == (0, b"text") else told):
        span = locate(raw, 0, spelling)
        if span is not None and (not is_string or raw[span[0]] == _QUOTE):
            return spelling
    return None
