"""Reading one JSON value that stands alone: a call, a usage object, a tool. Nothing is decoded that is not asked for."""

from __future__ import annotations

from fastpath import Grammar, GrammarSpec, MalformedError, Shape, decode_string, locate, scan
from sidecar.core.errors import MalformedBodyError

__all__ = ["check_object", "elements", "string_at", "value_at", "value_text"]

# A value is checked by the scan itself, as the only item of a body: one reader of JSON, one idea of what is malformed.
_PREFIX = b'{"v":['
_SUFFIX = b"]}"
_ANY = Grammar(GrammarSpec(history=(b"v",), system=(), tools=(), item="any", shapes={"any": Shape()}))


def check_object(value: bytes, what: str) -> bytes:
    """The JSON object in `value`, white space around it taken off.

    Raises:
        MalformedBodyError: it is not JSON, or not an object. Details: offset_bytes, bound.
    """
    try:
        found = scan(_PREFIX + value + _SUFFIX, _ANY)
    except MalformedError as error:
        offset = max(error.offset_bytes - len(_PREFIX), 0)
        raise MalformedBodyError(f"{what} is not JSON", offset_bytes=offset, bound=error.bound) from error
    # More than one item or member: the value closed our own brackets.
    if found.item_count != 1 or len(found.members) != 1:
        span = locate(value, 0, ()) if found.item_count else None
        raise MalformedBodyError(f"{what} is not one JSON value", offset_bytes=span[1] if span else 0, bound="")
    item = found.item(0)
    start, end = item.start - len(_PREFIX), item.end - len(_PREFIX)
    if value[start : start + 1] != b"{":
        raise MalformedBodyError(f"{what} is not a JSON object", offset_bytes=start, bound="")
    return value[start:end]


def elements(array: bytes) -> list[bytes]:
    """The elements of a JSON array that was read before, as they are spelled; none when it is no array. O(bytes)."""
    if array[:1] != b"[":
        return []
    wrapped = b'{"v":' + array + b"}"
    return [wrapped[item.start : item.end] for item in scan(wrapped, _ANY).items()]


def value_at(value: bytes, *path: bytes | int) -> bytes:
    """The value at a path, as it is spelled; empty when there is none."""
    span = locate(value, 0, path)
    return b"" if span is None else value[span[0] : span[1]]


def string_at(value: bytes, *path: bytes | int) -> bytes | None:
    """Content of the string at a path; None when there is none or it is no string."""
    found = value_at(value, *path)
    return decode_string(found[1:-1]) if found[:1] == b'"' else None


def value_text(value: bytes) -> bytes:
    """What an id or a name says: a string's content, anything else as it is spelled; empty for null and for nothing."""
    if value[:1] == b'"':
        return value[1:-1] if b"\\" not in value else decode_string(value[1:-1])
    return b"" if value == b"null" else value
