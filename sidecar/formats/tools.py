"""The body's tools, for dialects that keep them in a root member that is an array: their names, and adding the read-back tool."""

from __future__ import annotations

from typing import NamedTuple

from fastpath import Edit, Scan, locate
from sidecar.core.readback import READ_BACK_TOOL_NAME
from sidecar.formats.base import Style
from sidecar.formats.spelling import spell, style_of
from sidecar.formats.values import elements, string_at, value_at

__all__ = ["Present", "already_there", "append_element", "append_tool", "element_names", "last_member"]

_SPACE = b" \t\r\n"


class Present(NamedTuple):
    """Whether a tool of the read-back tool's name is there already."""

    found: bool
    edit: Edit | None  # empty edit: it is ours, nothing to do; None: it is another tool of that name


def last_member(scan: Scan, key: bytes) -> bytes:
    """Value of a root member, the last of that name; empty when there is none."""
    return scan.member(key)


def element_names(body: bytes, span: tuple[int, int], paths: tuple[tuple[bytes, ...], ...]) -> list[bytes]:
    """Decoded names of the elements of an array; of the paths the first that leads to a string counts. O(bytes)."""
    names: list[bytes] = []
    for element in elements(body[span[0] : span[1]]):
        found = next((name for path in paths if (name := string_at(element, *path)) is not None), None)
        if found is not None:
            names.append(found)
    return names


def _root_style(scan: Scan) -> Style:
    """Spelling of the envelope, read off the tools, else off the first bytes of the body."""
    start, end = scan.tools[-1] if scan.tools else (0, min(len(scan.body), 512))
    return style_of(scan.body[start:end])


def already_there(scan: Scan, names: list[bytes], schema: tuple[bytes, ...], elements_at: tuple[bytes, ...] = ()) -> Present:
    """Look for a tool of the read-back tool's name. It is ours when its schema, at `schema` in the tool, knows `artifact_id`.

    Args:
        scan: of the body.
        names: of all its tools.
        schema: where a tool has it.
        elements_at: where the root member holds the array of tools, when it is none itself.
    """
    ours = READ_BACK_TOOL_NAME.encode()
    if ours not in names:
        return Present(False, None)
    for start, end in scan.tools:
        tools = scan.body[start:end]
        for element in elements(value_at(tools, *elements_at) if elements_at else tools):
            if value_at(element, *schema, b"properties", b"artifact_id"):
                return Present(True, Edit(end, end, b""))
    return Present(True, None)


def append_tool(scan: Scan, key: bytes, tool: dict[str, object], inner: bytes = b"") -> Edit | None:
    """The edit that adds a tool after the last one, or a member `key` at the end of the root; None when it is no array.

    Args:
        scan: of the body.
        key: root member that is the array of tools, or, with `inner`, an object that holds it.
        tool: to add.
        inner: the member of that object.
    """
    body = scan.body
    style = _root_style(scan)
    comma, colon = (b", ", b": ") if style.spaced else (b",", b":")
    fresh = spell([tool], style) if not inner else spell({inner.decode(): [tool]}, style)
    for member in reversed(scan.members):
        if member.key != key:
            continue
        start, end = member.start, member.end
        if body[start:end] == b"null":
            # Some SDKs write absent members as null.
            return Edit(start, end, fresh)
        if inner:
            if body[start : start + 1] != b"{":
                return None
            span = locate(body, start, (inner,))
            if span is None:
                at = _before_end(body, end)
                added = spell(inner.decode(), style) + colon + spell([tool], style)
                return Edit(at, at, added if body[at - 1 : at] == b"{" else comma + added)
            start, end = span
            if body[start:end] == b"null":
                return Edit(start, end, spell([tool], style))
        if body[start : start + 1] != b"[":
            return None
        return append_element(body, (start, end), tool, style)
    at = max(member.end for member in scan.members)
    return Edit(at, at, comma + spell(key.decode(), style) + colon + fresh)


def append_element(body: bytes, span: tuple[int, int], element: object, style: Style) -> Edit:
    """The edit that adds an element at the end of the array at `span`."""
    at = _before_end(body, span[1])
    comma = b", " if style.spaced else b","
    return Edit(at, at, spell(element, style) if body[at - 1 : at] == b"[" else comma + spell(element, style))


def _before_end(body: bytes, end: int) -> int:
    """Where the last element of an array or object that ends there ends, white space apart."""
    at = end - 1
    while body[at - 1] in _SPACE:
        at -= 1
    return at
