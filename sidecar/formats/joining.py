"""User items side by side: their content taken apart, and texts that are put beside it.

For dialects whose content is a string or a list of blocks with a `type`.
"""

from __future__ import annotations

from collections.abc import Sequence

from fastpath import Grammar, GrammarSpec, Item, MalformedError, Part, PartFlag, Role, Shape, locate, scan
from sidecar.formats.base import ContentSpan, Rows, Style
from sidecar.formats.rules import ASSISTANT, REASONING, RESULT, USER, is_blank_string
from sidecar.formats.spelling import spell
from sidecar.formats.values import value_at

__all__ = ["begins_loop_soundly", "block_marker", "content_span", "last_marker", "marked_block", "text_item", "wrap_string"]

# An item read as a body of its own, whose history is its content: the scan then tells members and elements apart.
_CONTENT = b"content"
_ITEMS = {
    key: Grammar(GrammarSpec(history=(key,), system=(), tools=(), item="any", shapes={"any": Shape()}))
    for key in (_CONTENT, b"parts")
}
_EMPTY = b"[]"
_MARKER = "cache_control"
_NO_MARKER = (b"null", b"false")


def marked_block(text: str, marker: bytes, style: Style) -> bytes:
    """A text block, with a cache marker of that value where it is not empty."""
    block = spell({"type": "text", "text": text}, style)
    if not marker:
        return block
    comma, colon = (b", ", b": ") if style.spaced else (b",", b":")
    return block[:-1] + comma + spell(_MARKER, style) + colon + marker + b"}"


def text_item(content: bytes, role: int, style: Style) -> bytes:
    """An item with that content, JSON.

    Raises:
        ValueError: the role is neither USER nor ASSISTANT.
    """
    if role not in (USER, ASSISTANT):
        raise ValueError(f"no text item has role {role}")
    comma, colon = (b", ", b": ") if style.spaced else (b",", b":")
    name = b'"user"' if role == Role.USER else b'"assistant"'
    return b'{"role"' + colon + name + comma + b'"content"' + colon + content + b"}"


def wrap_string(value: bytes) -> bytes:
    """A text block around a string's JSON."""
    return b'{"type":"text","text":' + value + b"}"


def content_span(body: bytes, item: Item, key: bytes = _CONTENT) -> ContentSpan | None:
    """See Adapter. One copy and one scan of the item; a content that is a string is not read again.

    Args:
        body: as in Adapter.
        item: as in Adapter.
        key: of the member that is the content.
    """
    if item.role != USER:
        return None
    span = locate(body, item.start, (key,))
    if span is None:
        return None
    start, end = span
    is_string = body[start] == 0x22
    if is_string:
        if is_blank_string(body, span):
            return None
        alone = body[item.start : start] + _EMPTY + body[end : item.end]
    elif body[start] == 0x5B:
        alone = body[item.start : item.end]
    else:
        return None
    try:
        found = scan(alone, _ITEMS[key])
    except MalformedError:  # a content before the last is no list
        return None
    # SDKs write null for what is absent.
    own = {key, b"role"}
    keys = [member.key for member in found.members if member.key in own or alone[member.start : member.end] != b"null"]
    if len(keys) != 2 or set(keys) != own:
        return None
    if is_string:
        return ContentSpan(start, end, True, (span,))
    elements: list[tuple[int, int]] = []
    for block in found.items():
        if alone[block[0]] != 0x7B:
            return None
        elements.append((item.start + block[0], item.start + block[1]))
    return ContentSpan(start, end, False, tuple(elements)) if elements else None


def block_marker(block: bytes) -> bytes:
    """Value of the `cache_control` of a block; empty for none. Null and false are none."""
    found = value_at(block, _MARKER.encode()) if block[:1] == b"{" else b""
    return b"" if found in _NO_MARKER else found


def last_marker(item: bytes, grammar: Grammar, *, on_item: bool) -> bytes:
    """Value of the last `cache_control` in an item that the grammar sees; empty for none. Null and false are none.

    Args:
        item: its JSON.
        grammar: of the dialect.
        on_item: the dialect takes a marker on the item itself.
    """
    key = _MARKER.encode()
    if key not in item and b"\\" not in item:
        return b""
    body = b'{"messages":[' + item + b"]}"
    found = scan(body, grammar)
    holders = [part.start for part in found.parts() if part.flags & PartFlag.MARKED]
    if on_item:
        holders.append(found.item(0).start)
    last = (-1, -1)
    for start in holders:
        span = locate(body, start, (key,))
        if span is not None and span > last and body[span[0] : span[1]] not in _NO_MARKER:
            last = span
    return body[last[0] : last[1]] if last[0] >= 0 else b""


def begins_loop_soundly(rows: Rows, index: int) -> bool:
    """Whether the item at `index` may be the first of a tool loop of which the first turn must begin with thinking.

    True also where no loop that begins there is open: a user item without results stands behind it.
    """
    items, parts = rows
    item = items[index]
    if item.role != ASSISTANT:
        return True
    if item.part_count and parts[item.first_part].kind == REASONING:
        return True
    return any(other.role == USER and not _holds_results(other, parts) for other in items[index + 1 :])


def _holds_results(item: Item, parts: Sequence[Part]) -> bool:
    return any(part.kind == RESULT for part in parts[item.first_part : item.first_part + item.part_count])
