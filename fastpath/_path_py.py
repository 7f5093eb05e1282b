"""Find values by where they stand: the reference of c/fp_path.c."""

from __future__ import annotations

from collections.abc import Sequence

from fastpath._canon_py import read_span
from fastpath._json_py import Node, Reader
from fastpath.grammar import ValueType

__all__ = ["locate", "locate_removal", "strings"]

Path = tuple[bytes | int, ...]


def _find(body: bytes, start: int, path: Sequence[bytes | int]) -> tuple[Node | None, Node | None]:
    """The value at `path` and what it stands in."""
    if not 0 <= start <= len(body):
        raise ValueError("start is outside the body")
    reader = Reader(body, len(body))
    node: Node | None = reader.value(reader.skip(start), 0)
    parent: Node | None = None
    for step in path:
        parent, node = node, None
        if parent is None:
            return None, None
        if isinstance(step, int):
            if parent.type == ValueType.ARRAY and 0 <= step < len(parent.children):
                node = parent.children[step]
        elif parent.type == ValueType.OBJECT:
            node = next((child for child in parent.children if child.key == step and not child.shadowed), None)
    return node, parent


def locate(body: bytes, start: int, path: Sequence[bytes | int]) -> tuple[int, int] | None:
    """Span of the value at `path` inside the JSON value that begins at `start`. O(n) in that value.

    Args:
        body: bytes that hold the value; what follows it is not read.
        start: offset of the value, white space before it allowed.
        path: decoded member keys and element indices; the last of duplicate keys counts.

    Returns:
        The span (a string's with its quotes), or None when nothing stands there.

    Raises:
        MalformedError: no JSON value begins at start.
    """
    node, _ = _find(body, start, path)
    return None if node is None else (node.start, node.end)


def locate_removal(body: bytes, start: int, path: Sequence[bytes | int]) -> tuple[int, int] | None:
    """Span to delete so that the element or member at `path` is gone with exactly one comma. O(n) in the value.

    Of duplicate keys the last goes. None when nothing stands there, or the path is empty.

    Raises:
        MalformedError: no JSON value begins at start.
    """
    node, parent = _find(body, start, path)
    if node is None or parent is None:
        return None
    place = next(index for index, child in enumerate(parent.children) if child is node)
    if place > 0:
        return parent.children[place - 1].end, node.end
    if len(parent.children) > 1:
        return _outer_start(node), _outer_start(parent.children[1])
    return _outer_start(node), node.end


def _outer_start(node: Node) -> int:
    return node.start if node.key is None else node.key_start


def strings(body: bytes, start: int, end: int, min_bytes: int) -> list[tuple[int, int, Path]]:
    """String values of at least `min_bytes` between their quotes inside the JSON value body[start:end]. O(n).

    Returns:
        (start, end, path) of each, in order of position; spans hold the quotes, paths lead from the value as `locate` takes them.
        A member that a later duplicate hides is left out, with all that is in it.

    Raises:
        MalformedError: the span is not one JSON value.
    """
    _, node = read_span(body, start, end)
    found: list[tuple[int, int, Path]] = []
    _collect(node, (), min_bytes, found)
    return found


def _collect(node: Node, path: Path, min_bytes: int, found: list[tuple[int, int, Path]]) -> None:
    if node.type == ValueType.STRING and node.end - node.start - 2 >= min_bytes:
        found.append((node.start, node.end, path))
    for index, child in enumerate(node.children):
        if not child.shadowed:
            _collect(child, (*path, index if child.key is None else child.key), min_bytes, found)
