"""Searching the artifacts of a session, a page at a time, or a range of one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from sidecar.core.errors import InvalidFieldError
from sidecar.core.paging import Question, decode_page_token, encode_page_token
from sidecar.core.types import ArtifactRecord, SessionKey
from sidecar.engine.opener import Opener
from sidecar.engine.patterns import LiteralPattern, Pattern, RegexPattern
from sidecar.engine.search import ARTIFACT_BYTES, Budget, Cursor, hit_text, scan

__all__ = ["MAX_CONTEXT_LINE_COUNT", "Hit", "PatternHit", "Searcher"]

MAX_CONTEXT_LINE_COUNT = 100

_CACHE_BLOCKS = 16
_SOURCE_RUN = 1_000


class Hit(NamedTuple):
    """A match in one of a session's artifacts."""

    artifact_id: str
    line: int  # from 0
    start: int
    text: bytes  # the line with its context, cut to a window around the match


class PatternHit(NamedTuple):
    """A match in one artifact."""

    line: int
    start: int
    end: int
    text: bytes


class _SearchPosition(msgspec.Struct, frozen=True, array_like=True):
    sequence: int  # of the source by which the artifact is first met
    cursor: Cursor


class Searcher:
    """Searches with bounds on what one call may scan. See ArtifactReader for what the parameters mean."""

    def __init__(
        self, opener: Opener, *, max_scan_bytes: int, max_scan_seconds: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Over an opener."""
        self._opener = opener
        self._max_scan_bytes = max_scan_bytes
        self._max_scan_seconds = max_scan_seconds
        self._monotonic = monotonic

    def search(
        self,
        key: SessionKey,
        *,
        artifact_id: str,
        literal: bytes | str | None,
        regex: str | None,
        context_line_count: int,
        want: int,
        page_token: str,
    ) -> tuple[list[Hit], str]:
        """One page of hits."""
        if not 0 <= context_line_count <= MAX_CONTEXT_LINE_COUNT:
            raise InvalidFieldError(f"context_line_count must be from 0 to {MAX_CONTEXT_LINE_COUNT}", field="context_line_count")
        pattern, kind, text = _pattern(literal, regex)
        only = self._opener.find(key, artifact_id) if artifact_id else None
        name = only.artifact_id if only else ""
        question: Question = ("search/1", key.scope, key.session_id, name, kind, text, context_line_count)
        position = decode_page_token(question, page_token, _SearchPosition) or _SearchPosition(-1, Cursor())
        budget = self._budget()
        hits: list[Hit] = []
        todo: Iterable[tuple[int, ArtifactRecord]] = [(-1, only)] if only else self._distinct(key, position.sequence)
        for place, (sequence, record) in enumerate(todo):
            cursor = position.cursor if sequence == position.sequence else Cursor()
            if place and (budget.spent or len(hits) == want):
                return hits, encode_page_token(question, _SearchPosition(sequence, cursor))
            budget.charge(ARTIFACT_BYTES)
            with self._opener.open(key, record, cache_blocks=_CACHE_BLOCKS) as (view, is_utf8):
                size = record.size_bytes
                found, after = scan(view, pattern, cursor, end=size, want=want - len(hits), budget=budget, is_utf8=is_utf8)
                for match in found:
                    hits.append(Hit(record.artifact_id, match.line, match.start, hit_text(view, match, context_line_count)))
            if after is not None:
                return hits, encode_page_token(question, _SearchPosition(sequence, after))
        return hits, ""

    def search_range(
        self,
        key: SessionKey,
        record: ArtifactRecord,
        *,
        literal: bytes | str | None,
        regex: str | None,
        start: int,
        end: int,
        want: int,
        before_bytes: int,
        after_bytes: int,
        stride_bytes: int,
    ) -> tuple[list[PatternHit], int | None]:
        """Hits in a range of one artifact."""
        pattern, _, _ = _pattern(literal, regex)
        with self._opener.open(key, record, cache_blocks=_CACHE_BLOCKS) as (view, is_utf8):
            cursor = Cursor(offset=start, line=view.line_at(start))
            found, after = scan(
                view,
                pattern,
                cursor,
                end=end,
                want=want,
                budget=self._budget(),
                is_utf8=is_utf8,
                stride_bytes=stride_bytes,
            )
            hits = [PatternHit(*match, hit_text(view, match, 0, before_bytes, after_bytes)) for match in found]
        return hits, None if after is None else after.offset

    def _budget(self) -> Budget:
        return Budget(self._max_scan_bytes, self._max_scan_seconds, self._monotonic)

    def _distinct(self, key: SessionKey, from_sequence: int) -> Iterator[tuple[int, ArtifactRecord]]:
        """Each artifact with the source by which it is first met, from a source on. O(sources)."""
        seen: set[str] = set()
        after = -1
        while sources := self._opener.store.list_sources(key, after, _SOURCE_RUN):
            for sequence, source in sources:
                if source.artifact_id in seen:
                    continue
                seen.add(source.artifact_id)
                if sequence >= from_sequence:
                    yield sequence, self._opener.record_of(key, source)
            after = sources[-1][0]
        if not seen:
            self._opener.check_session(key)


def _pattern(literal: bytes | str | None, regex: str | None) -> tuple[Pattern, str, bytes]:
    """The pattern, its kind, and its bytes."""
    if (literal is None) == (regex is None):
        raise InvalidFieldError("exactly one of literal and regex is required", field="pattern")
    if regex is not None:
        return RegexPattern(regex), "regex", regex.encode("utf-8", "surrogatepass")
    text = literal.encode("utf-8", "surrogatepass") if isinstance(literal, str) else literal or b""
    return LiteralPattern(text), "literal", text
