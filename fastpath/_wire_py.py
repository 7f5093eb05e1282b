"""Protobuf's wire format, as far as one message with one large field needs it: the reference of _wire.pyx.

Knows no schema. A message is taken apart only where that cannot be told from what a generated class would read; anything unusual
is left to that class.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["take_field", "write_message"]

VARINT_BYTES = 10
TAG_BYTES = 5
SIZE_LIMIT = 1 << 31
MAX_FIELDS = 64
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def take_field(message: bytes, number: int) -> tuple[bytes, bytes] | None:
    """Split a message in the content of one length-delimited field, and the message without it. O(message), one copy.

    Args:
        message: as it came.
        number: of the field.

    Returns:
        None when the field is not there exactly once, or anything stands in the way of saying where it is: groups, fields that
        end outside the message, tags that no field has.
    """
    at, found = 0, None
    while at < len(message):
        first = at
        tag, at = _varint(message, at, TAG_BYTES)
        if at < 0 or tag >> 32 or not tag >> 3:
            return None
        kind = tag & 7
        if kind == _BYTES:
            size, at = _varint(message, at, TAG_BYTES)
            if at < 0 or size >= SIZE_LIMIT:
                return None
            start, at = at, at + size
        elif kind == _VARINT:
            _, at = _varint(message, at, VARINT_BYTES)
            if at < 0:
                return None
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            return None
        if at > len(message):
            return None
        if tag >> 3 == number:
            if found is not None or kind != _BYTES:
                return None
            found = first, start, at
    if found is None:
        return None
    first, start, end = found
    return message[start:end], message[:first] + message[end:]


def write_message(values: Sequence[int | bytes | list[bytes] | None], present: int = 0) -> bytes:
    """Write a message; the value at index n is that of field n + 1.

    Args:
        values: an int for a varint (a negative one as protobuf's int64 and int32), bytes for a string, bytes or a message, a
            list of bytes for a repeated one, None for a field that is not set. 0 and empty bytes are not written, as proto3 has
            it for fields without presence.
        present: bit n set: field n + 1 has presence, so 0 and empty bytes are written.

    Raises:
        OverflowError: an int outside of 64 bits, or more than 64 fields.
        TypeError: a value of another type.
    """
    if len(values) > MAX_FIELDS:
        raise OverflowError("more fields than bits")
    out: list[bytes] = []
    for index, value in enumerate(values):
        number = index + 1
        if value is None:
            continue
        if isinstance(value, int):
            if not -(1 << 63) <= value < 1 << 63:
                raise OverflowError("does not fit in 64 bits")
            if value or present >> index & 1:
                out += (_written(number << 3 | _VARINT), _written(value & (1 << 64) - 1))
        elif isinstance(value, bytes):
            if value or present >> index & 1:
                out += (_written(number << 3 | _BYTES), _written(len(value)), value)
        elif isinstance(value, list):
            for each in value:
                if not isinstance(each, bytes):
                    raise TypeError("a repeated value must be bytes")
                out += (_written(number << 3 | _BYTES), _written(len(each)), each)
        else:
            raise TypeError("a value must be int, bytes, a list of bytes or None")
    return b"".join(out)


def _varint(message: bytes, at: int, limit: int) -> tuple[int, int]:
    """The number at an offset, and where it ends; -1 when it ends nowhere."""
    value = 0
    for index in range(limit):
        if at + index >= len(message):
            break
        byte = message[at + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, at + index + 1
    return 0, -1


def _written(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
