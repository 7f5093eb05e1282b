"""Scanning one artifact's content for a pattern, piece by piece, so that memory and time of a call are bounded.

A hit is a match; matches do not overlap. A match of nothing (such as of "^$") is a hit only as the first of its line, and ends
the line's hits. Content is read in pieces that end at a line's end. A line longer than a piece is cut: there a regular
expression's match is found as long as it has not more than 64 KiB past the cut; literals are always found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from sidecar.engine.content import ContentView
from sidecar.engine.patterns import Pattern

__all__ = ["HIT_AFTER_BYTES", "HIT_BEFORE_BYTES", "Budget", "Cursor", "Match", "hit_text", "scan"]

PIECE_BYTES = 262_144
HIT_BEFORE_BYTES = 8_192
HIT_AFTER_BYTES = 8_192
ARTIFACT_BYTES = 4_096  # what opening an artifact counts, so that a session of many small ones is bounded too


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """Where to go on in one artifact."""

    offset: int = 0
    line: int = 0  # in which offset stands
    hit_line: int = -1  # line of the last hit


class Match(NamedTuple):
    """Where the pattern was found, in bytes of the content."""

    line: int
    start: int
    end: int


class Budget:
    """What one call may spend on scanning: bytes, and time, since a hostile pattern can make bytes dear."""

    def __init__(self, scan_bytes: int, seconds: float, monotonic: Callable[[], float]) -> None:
        """Start now."""
        self._left_bytes = scan_bytes
        self._monotonic = monotonic
        self._deadline = monotonic() + seconds

    def charge(self, scan_bytes: int) -> None:
        """Spend bytes. The last piece may overdraw."""
        self._left_bytes -= scan_bytes

    @property
    def spent(self) -> bool:
        """Nothing is left."""
        return self._left_bytes <= 0 or self.late

    @property
    def late(self) -> bool:
        """The time is over."""
        return self._monotonic() >= self._deadline


def scan(
    view: ContentView,
    pattern: Pattern,
    cursor: Cursor,
    *,
    end: int,
    want: int,
    budget: Budget,
    is_utf8: bool,
    stride_bytes: int = 0,
) -> tuple[list[Match], Cursor | None]:
    """Find matches that begin at or after the cursor and before `end`.

    Args:
        view: of the artifact.
        pattern: to look for.
        cursor: where to begin.
        end: in bytes, at most the content's size.
        want: stop after this many.
        budget: stop when it is spent. Something is always done first, so that every call gets on.
        is_utf8: of the content.
        stride_bytes: leave out matches that begin so near after the one before, in its line.

    Returns:
        Matches in order, and where to go on; None when `end` was reached.
    """
    size = view.record.size_bytes
    found: list[Match] = []
    at, line, hit_line = cursor.offset, cursor.line, cursor.hit_line
    worked = False
    while at < end:
        if worked and budget.spent:
            return found, Cursor(at, line, hit_line)
        worked = True
        base = at - 1 if at else 0  # one byte before, for "^" and word ends
        text, stop = _piece(view, pattern, base, at, end)
        budget.charge(base + stop - at)
        ends_line = text[stop - 1 : stop] == b"\n"
        seen_to = stop if pattern.by_line and ends_line else len(text)
        pos = counted = at - base
        skipped = False
        while True:
            span = pattern.find(text, pos, seen_to, is_utf8=is_utf8)
            if span is None or span[0] > stop or (span[0] == stop and (base + stop < size or ends_line)):
                break
            start, past = span
            line += text.count(b"\n", counted, start)
            counted = start
            if past > start or line != hit_line:
                found.append(Match(line, base + start, base + past))
                hit_line = line
            pos = past
            if stride_bytes:
                newline = text.find(b"\n", start, start + stride_bytes)
                pos = max(pos, min(len(text), newline if newline >= 0 else start + stride_bytes))
            if past == start:
                newline = text.find(b"\n", start)
                if newline < 0:
                    line += 1
                    at = view.line_start(line)
                    skipped = True
                else:
                    pos = newline + 1
            if len(found) == want or budget.late:
                here = at if skipped else base + pos
                lines = 0 if skipped else text.count(b"\n", counted, pos)
                return found, Cursor(here, line + lines, hit_line) if here < end else None
            if skipped:
                break
        if not skipped:
            past = max(stop, pos)
            line += text.count(b"\n", counted, past)
            at = base + past
    return found, None


def _piece(view: ContentView, pattern: Pattern, base: int, at: int, end: int) -> tuple[bytes, int]:
    """The next piece from `base`: its text with what the pattern may need past its end, and where it ends in that text."""
    size = view.record.size_bytes
    past = min(at + PIECE_BYTES, end)
    text = view.read(base, min(past + pattern.overlap_bytes, size))
    stop = past - base
    if past < end:
        newline = text.rfind(b"\n", at - base, stop)
        stop = newline + 1 if newline >= 0 else _character_start(text, stop)
    return text, stop


def hit_text(
    view: ContentView, match: Match, context_line_count: int, before: int = HIT_BEFORE_BYTES, after: int = HIT_AFTER_BYTES
) -> bytes:
    """The line of a match with its context, without the last LF.

    At most `before` bytes in front of the match and `after` from its beginning on; a longer text is cut there, on a character.
    """
    low = max(0, match.start - before)
    high = min(view.record.size_bytes, match.start + after)
    window = view.read(low, high)
    first = match.start - low
    for _ in range(context_line_count + 1):
        first = window.rfind(b"\n", 0, first)
        if first < 0:
            break
    begin = first + 1 if first >= 0 or low == 0 else _next_character(window, 0)
    last = min(max(match.start, match.end - 1) - low, len(window))
    for count in range(context_line_count + 1):
        last = window.find(b"\n", last + (1 if count else 0))
        if last < 0:
            break
    if last < 0:
        last = len(window) if high == view.record.size_bytes else _character_start(window, len(window))
        if high == view.record.size_bytes and window.endswith(b"\n"):
            last -= 1
    return window[begin:last]


def _character_start(text: bytes, at: int) -> int:
    """The last place at or before `at` where no UTF-8 character is cut, if there is one near.

    `text` may end at `at`: then the last character is looked at, whether it is whole.
    """
    lead = at - 1
    while lead >= 0 and at - lead < 4 and text[lead] & 0xC0 == 0x80:
        lead -= 1
    if lead < 0 or text[lead] < 0xC0:
        return at
    size = 2 if text[lead] < 0xE0 else 3 if text[lead] < 0xF0 else 4
    return lead if lead + size > at else at


def _next_character(text: bytes, at: int) -> int:
    """The first place at or after `at` where a UTF-8 character begins, if there is one near."""
    past = at
    while past < len(text) and past - at < 4 and text[past] & 0xC0 == 0x80:
        past += 1
    return past if past - at < 4 else at
