"""How a client spells JSON, and how to write values in that spelling.

What replaces a value inside an item is spelled as its surroundings are: an agent that reads the body and writes it again in its
own way then writes the same bytes as before, and a provider's cached prefix is not lost over an escape.
"""

from __future__ import annotations

import json
import re

from sidecar.formats.base import Style

__all__ = ["PLAIN", "spell", "style_of"]

PLAIN = Style(ascii=False, slash=False, spaced=False)
"""Compact UTF-8: for values that stand in no client's body."""

_FIRST_COLON = re.compile(rb'"(?:[^"\\]|\\.){0,256}?"[ \t\r\n]*:([ \t\r\n]?)')
_ESCAPED_SLASH = re.compile(rb"(?<!\\)(?:\\\\)*\\/")
_BARE_SLASH = re.compile(rb"(?<!\\)(?:\\\\)*/")
_SURROGATE = re.compile("[\ud800-\udfff]")


def style_of(value: bytes) -> Style:
    """Spelling of a JSON value, an item as a rule, from its bytes. O(bytes), at the speed of memory.

    Where nothing tells, the safe guess is taken: without any character outside ASCII, escapes (they are right for every
    reader); without any slash, no escape for it.
    """
    colon = _FIRST_COLON.search(value)
    slash = b"\\/" in value and _ESCAPED_SLASH.search(value) is not None and _BARE_SLASH.search(value) is None
    return Style(ascii=value.isascii(), slash=slash, spaced=colon is not None and colon[1] == b" ")


def spell(value: object, style: Style) -> bytes:
    """Write a value as JSON in a style. Lone surrogates are written as escapes, so the answer is always UTF-8."""
    separators = (", ", ": ") if style.spaced else (",", ":")
    text = json.dumps(value, ensure_ascii=style.ascii, separators=separators)
    if style.slash:
        # A slash stands nowhere in JSON but inside strings.
        text = text.replace("/", "\\/")
    if not style.ascii:
        text = _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return text.encode("utf-8")
