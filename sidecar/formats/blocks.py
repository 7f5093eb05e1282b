"""Stubs, markers and media of dialects whose content is a string or a list of blocks with a `type`."""

from __future__ import annotations

import re

from fastpath import locate
from sidecar.formats.base import MediaPayload, Style
from sidecar.formats.spelling import spell
from sidecar.formats.values import elements, string_at, value_at

__all__ = ["arguments_object", "base64_source", "block_with_marker", "data_url", "result_value", "text_block"]

_DATA_URL = re.compile(rb"data:([^,]{0,255}?);base64,", re.IGNORECASE)


def arguments_object(text: str) -> dict[str, str]:
    """Arguments that say of themselves that they are not to be copied."""
    return {"_moved_out": text}


def text_block(original: bytes, text: str, style: Style) -> bytes | None:
    """A text block in place of another block; None when the original is no block."""
    if original[:1] != b"{" or string_at(original, b"type") is None:
        return None
    return spell({"type": "text", "text": text}, style)


def result_value(original: bytes, text: str, style: Style) -> bytes | None:
    """A result's content of the same type: a string, a list of one text block, a text block. None for anything else."""
    if original[:1] == b'"':
        return spell(text, style)
    if original[:1] == b"[":
        return spell([{"type": "text", "text": text}], style)
    return text_block(original, text, style)


def block_with_marker(stub: bytes, original: bytes, markers: tuple[bytes, ...], style: Style) -> bytes:
    """A stub block, or a list of one, with the cache marker of the (last marked) block that it replaces.

    At most one marker per key comes over, so that markers never grow in number. Values that are no blocks (arguments) have
    none.
    """
    in_list = stub[:1] == b"["
    block = stub[1:-1] if in_list else stub
    if block[:1] != b"{" or string_at(block, b"type") not in (b"text", b"input_text"):
        return stub
    added = b""
    for key in markers:
        found = _last_marker(original, key) if in_list else _marker(original, key)
        if found:
            added += (b", " if style.spaced else b",") + b'"' + key + (b'": ' if style.spaced else b'":') + found
    marked = block[:-1] + added + b"}"
    return b"[" + marked + b"]" if in_list else marked


def _marker(block: bytes, key: bytes) -> bytes:
    found = value_at(block, key) if block[:1] == b"{" else b""
    return b"" if found == b"null" else found


def _last_marker(blocks: bytes, key: bytes) -> bytes:
    if key not in blocks:
        return b""
    return next((found for block in reversed(elements(blocks)) if (found := _marker(block, key))), b"")


def data_url(body: bytes, span: tuple[int, int] | None, default: str) -> MediaPayload | None:
    """Base64 data in the string at `span`, a data URL or, with a default media type, bare base64; else None."""
    if span is None or body[span[0] : span[0] + 1] != b'"':
        return None
    start, end = span[0] + 1, span[1] - 1
    head = _DATA_URL.match(body, start, end)
    if head is not None:
        media_type = head[1].replace(b"\\/", b"/").split(b";", 1)[0].decode("utf-8", "replace")
        return MediaPayload(head.end(), end, media_type or default or "application/octet-stream")
    if not default or b":" in body[start : min(start + 8, end)] or start == end:
        return None
    return MediaPayload(start, end, default)


def base64_source(body: bytes, part_start: int, source: bytes = b"source") -> MediaPayload | None:
    """Base64 data of a block whose `source` says that it holds some."""
    span = locate(body, part_start, (source,))
    if span is None:
        return None
    value = body[span[0] : span[1]]
    data = locate(body, part_start, (source, b"data"))
    if string_at(value, b"type") != b"base64" or data is None or body[data[0] : data[0] + 1] != b'"':
        return None
    media_type = string_at(value, b"media_type") or b"application/octet-stream"
    return MediaPayload(data[0] + 1, data[1] - 1, media_type.decode("utf-8", "replace"))
