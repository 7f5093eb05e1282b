"""A small JSON reader that keeps the place of every value: the test oracles' own eyes.

It shares no code with the product. It reads bytes that are already known to be JSON (the oracle proves that with `json` first),
keeps duplicate members in order, and decodes a string the way DESIGN.md section 8 says an artifact's content is decoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["Node", "decode_string", "parse"]

_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"', re.DOTALL)
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_ESCAPE = re.compile(rb"\\u[dD][89abAB]([0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.", re.DOTALL)
_SHORT = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f", b'"': b'"', b"\\": b"\\", b"/": b"/"}


@dataclass(slots=True)
class Node:
    """One JSON value and where it stands.

    Attributes:
        kind: object, array, string, number or word (true, false, null).
        start: first byte; end: one past the last.
        elements: values of an array.
        members: decoded key and value of an object, in order, duplicates kept.
    """

    kind: str
    start: int
    end: int
    elements: list[Node] = field(default_factory=list)
    members: list[tuple[bytes, Node]] = field(default_factory=list)

    def raw(self, text: bytes) -> bytes:
        """The value's bytes."""
        return text[self.start : self.end]

    def get(self, key: str) -> Node | None:
        """The member of that name, the last of duplicates; None when absent or not an object."""
        wanted = key.encode()
        for name, value in reversed(self.members):
            if name == wanted:
                return value
        return None

    def string(self, text: bytes) -> bytes | None:
        """Decoded content when it is a string."""
        return decode_string(text[self.start + 1 : self.end - 1]) if self.kind == "string" else None

    def children(self) -> list[Node]:
        """Values directly inside, in order of position."""
        return self.elements or [value for _, value in self.members]

    def walk(self) -> Iterator[Node]:
        """Itself and everything inside."""
        yield self
        for child in self.children():
            yield from child.walk()


def _unescape(match: re.Match[bytes]) -> bytes:
    text = match.group()
    if len(text) == 12:
        high, low = int(text[2:6], 16), int(text[8:12], 16)
        return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)).encode()
    if len(text) == 6:
        return chr(int(text[2:], 16)).encode("utf-8", "surrogatepass")
    return _SHORT[text[1:]]


def decode_string(raw: bytes) -> bytes:
    """Content of the text between the quotes; a lone surrogate as its three bytes, other bytes as they are."""
    return _ESCAPE.sub(_unescape, raw) if b"\\" in raw else raw


class _Reader:
    def __init__(self, text: bytes) -> None:
        self.text = text

    def space(self, at: int) -> int:
        found = _SPACE.match(self.text, at)
        assert found is not None
        return found.end()

    def value(self, at: int) -> Node:
        text = self.text
        first = text[at : at + 1]
        if first == b'"':
            return Node("string", at, self.string_end(at))
        if first == b"{":
            return self.object(at)
        if first == b"[":
            return self.array(at)
        for word in (b"true", b"false", b"null"):
            if text.startswith(word, at):
                return Node("word", at, at + len(word))
        found = _NUMBER.match(text, at)
        if found is None:
            raise ValueError(f"no JSON value at byte {at}")
        return Node("number", at, found.end())

    def string_end(self, at: int) -> int:
        found = _STRING.match(self.text, at)
        if found is None:
            raise ValueError(f"no string at byte {at}")
        return found.end()

    def object(self, at: int) -> Node:
        node = Node("object", at, at)
        at = self.space(at + 1)
        if self.text[at : at + 1] == b"}":
            node.end = at + 1
            return node
        while True:
            end = self.string_end(at)
            key = decode_string(self.text[at + 1 : end - 1])
            at = self.space(end)
            if self.text[at : at + 1] != b":":
                raise ValueError(f"no colon at byte {at}")
            value = self.value(self.space(at + 1))
            node.members.append((key, value))
            at = self.space(value.end)
            if self.text[at : at + 1] == b"}":
                node.end = at + 1
                return node
            if self.text[at : at + 1] != b",":
                raise ValueError(f"no comma at byte {at}")
            at = self.space(at + 1)

    def array(self, at: int) -> Node:
        node = Node("array", at, at)
        at = self.space(at + 1)
        if self.text[at : at + 1] == b"]":
            node.end = at + 1
            return node
        while True:
            value = self.value(at)
            node.elements.append(value)
            at = self.space(value.end)
            if self.text[at : at + 1] == b"]":
                node.end = at + 1
                return node
            if self.text[at : at + 1] != b",":
                raise ValueError(f"no comma at byte {at}")
            at = self.space(at + 1)


def parse(text: bytes) -> Node:
    """Read a whole text. Raises ValueError; recursion bounds the depth, which is enough for bodies that were accepted."""
    reader = _Reader(text)
    root = reader.value(reader.space(0))
    if reader.space(root.end) != len(text):
        raise ValueError(f"trailing data at byte {root.end}")
    return root
