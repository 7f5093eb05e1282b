"""JSON string text to content and back to one spelling: the reference of c/fp_text.c.

A raw text is what stands between the quotes. Bytes that are not escapes are never judged: invalid UTF-8 goes through as it is.
"""

from __future__ import annotations

import re

from fastpath.limits import MalformedError

__all__ = ["canonical_text", "decode_blocks", "decode_string", "escape_fault"]

# A high and a low surrogate that follow each other; one \u; a short escape; else a backslash that begins no escape.
_ESCAPE = re.compile(
    rb"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})|\\([\"\\/bfnrt])|(\\)",
)
_SHORT = {b'"': b'"', b"\\": b"\\", b"/": b"/", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_CANONICAL = {0x22: b'\\"', 0x5C: b"\\\\", 8: b"\\b", 9: b"\\t", 10: b"\\n", 12: b"\\f", 13: b"\\r"}
_HEX = b"0123456789abcdefABCDEF"

# UTF-8 with surrogates allowed: a lone surrogate's three bytes are one character, whether they came as an escape or as bytes.
_CHARACTER = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xef][\x80-\xbf]{2}"
    rb"|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}",
)


def escape_fault(raw: bytes, at: int, end: int) -> int:
    """Offset of the first byte that makes the backslash at `at` begin no escape; `end` when the text ends inside it."""
    if at + 1 >= end:
        return end
    if raw[at + 1] != 0x75:
        return at + 1
    for digit in range(at + 2, at + 6):
        if digit >= end or raw[digit] not in _HEX:
            return min(digit, end)
    raise AssertionError("the backslash begins a valid escape")


def _code_point(match: re.Match[bytes], raw: bytes) -> int:
    """Code point of a matched escape; a lone surrogate is itself."""
    high, low, unit, short, bad = match.groups()
    if bad is not None:
        offset = escape_fault(raw, match.start(), len(raw))
        raise MalformedError("unexpected end" if offset == len(raw) else "unexpected byte", offset)
    if short is not None:
        return _SHORT[short][0]
    if unit is not None:
        return int(unit, 16)
    return 0x10000 + ((int(high, 16) & 0x3FF) << 10) + (int(low, 16) & 0x3FF)


def decode_string(raw: bytes) -> bytes:
    """Content of a raw text. O(n).

    Args:
        raw: what stands between the quotes of a JSON string.

    Returns:
        Escapes resolved, surrogate pairs joined, a lone surrogate as its three bytes, all other bytes as they are.

    Raises:
        MalformedError: a backslash that begins no escape; the offset is in `raw`.
    """
    if b"\\" not in raw:
        return bytes(raw)
    return _ESCAPE.sub(lambda match: chr(_code_point(match, raw)).encode("utf-8", "surrogatepass"), raw)


def canonical_text(raw: bytes) -> bytes:
    """The one spelling of a raw text: escaped only where JSON demands it, a lone surrogate always by its number."""
    if b"\\" not in raw:
        return raw

    def spell(match: re.Match[bytes]) -> bytes:
        point = _code_point(match, raw)
        if point in _CANONICAL:
            return _CANONICAL[point]
        if point < 0x20 or 0xD800 <= point < 0xE000:
            return b"\\u%04x" % point
        return chr(point).encode("utf-8")

    return _ESCAPE.sub(spell, raw)


def _boundary(run: bytes, at: int) -> int:
    """The first place at or after `at` where a character begins in a run without escapes."""
    for lead in range(at - 1, max(at - 4, -1), -1):
        found = _CHARACTER.match(run, lead)
        if found is not None and found.end() > at:
            return found.end()
    return at


def decode_blocks(raw: bytes, block_bytes: int = 65536) -> tuple[bytes, list[tuple[int, int]]]:
    """Content of a raw text, and where each block of it begins. O(n).

    Args:
        raw: what stands between the quotes of a JSON string.
        block_bytes: size of a block of content, at least 1.

    Returns:
        Content as `decode_string` gives it, and a list of (offset in raw, offset in content): (0, 0), then the first place at
        or after each multiple of block_bytes where a character begins, never inside an escape, a surrogate pair or a UTF-8
        sequence. Offsets rise; none stands at the end of the content, but for (0, 0) itself.

    Raises:
        MalformedError: a backslash that begins no escape; the offset is in `raw`.
        ValueError: block_bytes is below 1.
    """
    if block_bytes < 1:
        raise ValueError("block_bytes must be at least 1")
    pieces: list[bytes] = []
    starts = [(0, 0)]
    target = block_bytes
    done = 0  # content bytes so far

    def take_run(start: int, end: int) -> None:
        nonlocal target, done
        run = raw[start:end]
        while target <= done + len(run):
            at = _boundary(run, max(target - done, 0))
            starts.append((start + at, done + at))
            target = ((done + at) // block_bytes + 1) * block_bytes
        pieces.append(run)
        done += len(run)

    position = 0
    for match in _ESCAPE.finditer(raw):
        take_run(position, match.start())
        data = chr(_code_point(match, raw)).encode("utf-8", "surrogatepass")
        pieces.append(data)
        done += len(data)
        position = match.end()
    take_run(position, len(raw))
    if starts[-1][1] == done and len(starts) > 1:
        starts.pop()
    return b"".join(pieces), starts
