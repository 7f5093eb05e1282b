"""What a search looks for, compiled. The only file that knows the regular expression library (RE2, which runs in linear time).

A regular expression sees lines: `^` and `$` are a line's ends, and no match holds an LF. Where the content is UTF-8, or the
pattern itself is not ASCII, it matches characters; else single bytes, so that what is not text can be searched too. Offsets are
bytes always. A literal is bytes, and may hold an LF.
"""

from __future__ import annotations

from typing import Protocol

import re2

from sidecar.core.errors import PatternInvalidError

__all__ = ["PATTERN_BYTES", "LiteralPattern", "Pattern", "RegexPattern"]

PATTERN_BYTES = 4_096
_MAX_MEM_BYTES = 8 << 20  # RE2's own default
# A pattern that defeats the automaton's cache costs its program's size for each byte: 3,607 instructions took 20 ms per KiB when
# measured. "\pL{9}" has 10,768 of them, so this is as low as it can be without refusing what people write.
_PROGRAM_SIZE = 12_000


class Pattern(Protocol):
    """Something to look for."""

    overlap_bytes: int
    """How far past a cut a match that begins before it is still seen whole."""
    by_line: bool
    """No match holds an LF."""

    def find(self, text: bytes, start: int, end: int, *, is_utf8: bool) -> tuple[int, int] | None:
        """Span of the first match in text[start:end]; what stands around that is seen by `^`, `$` and word ends."""


class LiteralPattern:
    """Bytes, found as they stand."""

    by_line = False

    def __init__(self, literal: bytes) -> None:
        """Take what to look for. Raises PatternInvalidError when it is empty or too large."""
        _check_size(literal)
        self._literal = literal
        self.overlap_bytes = len(literal) - 1

    def find(self, text: bytes, start: int, end: int, *, is_utf8: bool) -> tuple[int, int] | None:
        """As in Pattern."""
        at = text.find(self._literal, start, end)
        return None if at < 0 else (at, at + len(self._literal))


class RegexPattern:
    """A regular expression in RE2 syntax."""

    by_line = True
    overlap_bytes = 65_536

    def __init__(self, regex: str) -> None:
        """Compile. Raises PatternInvalidError when it is empty, too large, or does not compile."""
        pattern = regex.encode("utf-8", "surrogatepass")
        _check_size(pattern)
        self._by_character = _compile(pattern, re2.Options.Encoding.UTF8)
        self._by_byte = _compile(pattern, re2.Options.Encoding.LATIN1) if regex.isascii() else self._by_character

    def find(self, text: bytes, start: int, end: int, *, is_utf8: bool) -> tuple[int, int] | None:
        """As in Pattern."""
        match = (self._by_character if is_utf8 else self._by_byte).search(text, start, end)
        return None if match is None else match.span()


def _check_size(pattern: bytes) -> None:
    if not pattern:
        raise PatternInvalidError("the pattern is empty")
    if len(pattern) > PATTERN_BYTES:
        raise PatternInvalidError(
            f"the pattern has {len(pattern)} bytes; at most {PATTERN_BYTES} are taken",
            size_bytes=len(pattern),
            limit_bytes=PATTERN_BYTES,
        )


def _compile(pattern: bytes, encoding: re2.Options.Encoding) -> re2._Regexp:
    options = re2.Options()
    options.encoding = encoding
    options.never_nl = True
    options.log_errors = False
    options.max_mem = _MAX_MEM_BYTES
    try:
        regex = re2.compile(b"(?m)" + pattern, options)
    except re2.error as error:
        # RE2 quotes a piece of the pattern in its message; the pattern is the caller's own words.
        text = error.args[0] if error.args else b""
        text = (text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)).replace("(?m)", "", 1)
        raise PatternInvalidError(
            f"the pattern does not compile: {text[:200]}", hint="RE2 syntax: no look-around, no back-references"
        ) from None
    re2.purge()  # its cache would hold 128 automata of up to 8 MiB each for good
    if regex.programsize > _PROGRAM_SIZE:
        raise PatternInvalidError("the pattern is too large once its repetitions are written out", limit=_PROGRAM_SIZE)
    return regex
