"""JSON text to a tree of spans, every byte checked: the reference of c/fp_json.c.

The grammar is RFC 8259's, with three differences: bytes over 0x7f are free inside strings, duplicate keys are legal (the last
counts), and there are bounds (limits.py). An error's offset is the first byte that no valid text could have at its place, or
the end. The reader keeps its own stack: nesting never reaches the interpreter's.
"""

from __future__ import annotations

import re
from typing import NoReturn

from fastpath._text_py import decode_string, escape_fault
from fastpath.grammar import ValueType
from fastpath.limits import DEPTH_LIMIT, VALUE_LIMIT, MalformedError

__all__ = ["Node", "Reader"]

_SPACE = re.compile(rb"[ \t\n\r]*")
_STRING = re.compile(rb'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*"')
_STOP = re.compile(rb"[\\\x00-\x1f]|\Z")
_ESCAPE = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_DIGITS = re.compile(rb"[0-9]*")
_LITERALS = {0x6E: (b"null", ValueType.NULL), 0x66: (b"false", ValueType.FALSE), 0x74: (b"true", ValueType.TRUE)}


class Node:
    """One value: its type, span and, when it is a member, its key; children in order of position."""

    __slots__ = ("children", "drop", "end", "key", "key_start", "shadowed", "start", "type")

    def __init__(self, type_: int, start: int, end: int, key: bytes | None, key_start: int) -> None:
        """Make a value without children."""
        self.type = type_
        self.start = start
        self.end = end
        self.key = key  # decoded; None for an element and for the root
        self.key_start = key_start  # at its quote; -1 without key
        self.children: list[Node] = []
        self.shadowed = False  # a later member of the same object has the same key
        self.drop = False  # set by a match: a cache marker, no part of the item's identity


class Reader:
    """Reads values of one body and counts them."""

    def __init__(self, body: bytes, end: int) -> None:
        """Read `body` as if it ended at `end`."""
        self.body = body
        self.end = end
        self.value_count = 0

    def fail(self, position: int) -> NoReturn:
        """Raise for the byte at `position`, or for the end when it stands there."""
        if position >= self.end:
            raise MalformedError("unexpected end", self.end)
        raise MalformedError("unexpected byte", position)

    def skip(self, position: int) -> int:
        """Offset of the next byte that is not white space."""
        return _SPACE.match(self.body, position, self.end).end()  # type: ignore[union-attr]  # matches the empty text

    def byte(self, position: int) -> int:
        """The byte at `position`, or -1 at the end."""
        return self.body[position] if position < self.end else -1

    def expect(self, position: int, byte: int) -> int:
        """Offset after the byte, which must be the one given."""
        if self.byte(position) != byte:
            self.fail(position)
        return position + 1

    def string(self, position: int) -> int:
        """Offset after the string that must begin at `position`."""
        match = _STRING.match(self.body, position, self.end)
        if match is not None:
            return match.end()
        at = self.expect(position, 0x22)
        while True:
            at = _STOP.search(self.body, at, self.end).start()  # type: ignore[union-attr]  # matches at the end
            if self.byte(at) != 0x5C:
                self.fail(at)
            escape = _ESCAPE.match(self.body, at, self.end)
            if escape is None:
                self.fail(escape_fault(self.body, at, self.end))
            at = escape.end()

    def _number(self, position: int) -> int:
        match = _NUMBER.match(self.body, position, self.end)
        if match is None:
            self.fail(position + 1)  # a minus sign and no digit
        at = match.end()
        if at < self.end and self.body[at] in b".eE":
            self._fail_number(match.start(), at)
        return at

    def _fail_number(self, start: int, at: int) -> NoReturn:
        """Raise for a number that is followed by a point or an exponent without digits, or that has a second one."""
        seen = self.body[start:at].lower()
        if self.body[at] == 0x2E and b"." not in seen and b"e" not in seen:
            self.fail(at + 1)
        if self.body[at] in b"eE" and b"e" not in seen:
            self.fail(at + 2 if self.byte(at + 1) in (0x2B, 0x2D) else at + 1)
        self.fail(at)

    def _scalar(self, position: int) -> tuple[int, int]:
        byte = self.byte(position)
        if byte == 0x22:
            return ValueType.STRING, self.string(position)
        if byte == 0x2D or 0x30 <= byte <= 0x39:
            return ValueType.NUMBER, self._number(position)
        if byte not in _LITERALS:
            self.fail(position)
        text, type_ = _LITERALS[byte]
        for place, wanted in enumerate(text):
            self.expect(position + place, wanted)
        return type_, position + len(text)

    def value(self, position: int, depth: int, key: bytes | None = None, key_start: int = -1) -> Node:
        """Read one value.

        Args:
            position: of its first byte.
            depth: arrays and objects that are open around it.
            key: its decoded key, when it is a member.
            key_start: of that key's quote.
        """
        stack: list[Node] = []
        while True:
            self.value_count += 1
            if self.value_count > VALUE_LIMIT:
                raise MalformedError(f"more than {VALUE_LIMIT} values", position, "nodes")
            byte = self.byte(position)
            if byte in (0x7B, 0x5B):
                if depth + len(stack) >= DEPTH_LIMIT:
                    raise MalformedError(f"nested deeper than {DEPTH_LIMIT}", position, "depth")
                node = Node(ValueType.OBJECT if byte == 0x7B else ValueType.ARRAY, position, -1, key, key_start)
                stack.append(node)
                position = self.skip(position + 1)
                opened = True
            else:
                type_, end = self._scalar(position)
                node = Node(type_, position, end, key, key_start)
                if not stack:
                    return node
                stack[-1].children.append(node)
                position = self.skip(end)
                opened = False
            # Close what ends here; then go on to the next member or element.
            while True:
                parent = stack[-1]
                closing = 0x7D if parent.type == ValueType.OBJECT else 0x5D
                if self.byte(position) == closing:
                    parent.end = position + 1
                    if closing == 0x7D:
                        _shadow(parent.children)
                    stack.pop()
                    if not stack:
                        return parent
                    stack[-1].children.append(parent)
                    position = self.skip(position + 1)
                    opened = False
                    continue
                if not opened:
                    position = self.skip(self.expect(position, 0x2C))
                break
            key, key_start = None, -1
            if closing == 0x7D:
                key, key_start, position = self.key(position)

    def key(self, position: int) -> tuple[bytes, int, int]:
        """Read a member's key and colon: the decoded key, the offset of its quote, the offset of the value."""
        end = self.string(position)
        key = decode_string(self.body[position + 1 : end - 1])
        return key, position, self.skip(self.expect(self.skip(end), 0x3A))


def _shadow(members: list[Node]) -> None:
    """Mark the members whose key occurs again later."""
    last: dict[bytes | None, Node] = {}
    for member in members:
        earlier = last.get(member.key)
        if earlier is not None:
            earlier.shadowed = True
        last[member.key] = member
