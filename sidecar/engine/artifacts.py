"""Reading artifacts back: exactly, by range, by search, or as a list.

An artifact is a view on a stored raw item. Its whole digest is proven on the first read in this process, later those of the
blocks that a range touches. A range's end past the content is cut to it, as files and slices do; a start past it is
RANGE_INVALID.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from sidecar.core.errors import ArtifactNotFoundError, InvalidFieldError, RangeInvalidError, SessionNotFoundError
from sidecar.core.paging import Question, decode_page_token, encode_page_token
from sidecar.core.types import ArtifactRecord, ArtifactSource, CallKey, SessionKey
from sidecar.engine.answer import view_of
from sidecar.engine.content import ContentView
from sidecar.engine.messages import ArtifactView, CallRef
from sidecar.engine.opener import Opener
from sidecar.engine.searcher import Hit, PatternHit, Searcher
from sidecar.ports import SessionImage, Store

__all__ = ["MAX_PAGE_SIZE", "PAGE_SIZE", "ArtifactContent", "ArtifactReader", "page_limit"]

PAGE_SIZE = 100
MAX_PAGE_SIZE = 1_000

_ANSWER_BYTES = 16 << 20
_SCAN_BYTES = 64 << 20
_SCAN_SECONDS = 5.0
_PROVEN_COUNT = 65_536


class ArtifactContent(NamedTuple):
    """A range of an artifact."""

    record: ArtifactRecord
    content: bytes
    start: int  # of content within the artifact
    next_start: int | None  # where to go on when the range was cut; None: it was not


class _ListPosition(msgspec.Struct, frozen=True, array_like=True):
    sequence: int  # of the last source given out


class ArtifactReader:
    """Reads the artifacts of all sessions of a store. Safe for several threads."""

    def __init__(
        self,
        store: Store,
        *,
        max_answer_bytes: int = _ANSWER_BYTES,
        max_scan_bytes: int = _SCAN_BYTES,
        max_scan_seconds: float = _SCAN_SECONDS,
        max_proven_count: int = _PROVEN_COUNT,
        on_read: Callable[[SessionKey, str, int], None] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read from a store.

        Args:
            store: what is read.
            max_answer_bytes: of one `read`.
            max_scan_bytes: of one search.
            max_scan_seconds: after which a search gives a page token, too.
            max_proven_count: how many proven artifacts are remembered; others are proven again.
            on_read: told session, artifact id and bytes of each `read` that was answered.
            monotonic: seconds.
        """
        self._store = store
        self._max_answer_bytes = max_answer_bytes
        self._on_read = on_read
        self._opener = Opener(store, max_proven_count)
        self._searcher = Searcher(
            self._opener, max_scan_bytes=max_scan_bytes, max_scan_seconds=max_scan_seconds, monotonic=monotonic
        )

    def find(self, key: SessionKey, artifact_id: str) -> ArtifactRecord:
        """The record of an artifact, its id in any spelling that `find_artifact_id` knows.

        Raises:
            SessionNotFoundError: no such session.
            ArtifactNotFoundError: the session has no such artifact; final.
        """
        return self._opener.find(key, artifact_id)

    def read(
        self,
        key: SessionKey,
        artifact_id: str,
        *,
        byte_range: tuple[int, int | None] | None = None,
        line_range: tuple[int, int | None] | None = None,
        max_bytes: int = 0,
    ) -> ArtifactContent:
        """Read an artifact or a range of it. Costs the blocks that the range touches; the whole on the first read in a process.

        Args:
            key: session.
            artifact_id: of the artifact.
            byte_range: half-open; None as end is the end of the content.
            line_range: half-open, instead of byte_range.
            max_bytes: return at most this many; 0 means the reader's limit.

        Raises:
            SessionNotFoundError: no such session.
            ArtifactNotFoundError: final.
            RangeInvalidError: details size_bytes or line_count.
            InvalidFieldError: max_bytes is negative.
            CorruptedError: a digest does not hold.
        """
        if max_bytes < 0:
            raise InvalidFieldError("max_bytes must not be negative", field="max_bytes")
        record = self.find(key, artifact_id)
        with self._opener.open(key, record) as (view, _):
            if line_range is None:
                start, end = _range_within(byte_range or (0, None), record.size_bytes, "byte")
            else:
                start, end = _lines(view, line_range)
            past = min(end, start + min(max_bytes or self._max_answer_bytes, self._max_answer_bytes))
            content = view.read(start, past)
        if self._on_read is not None:
            self._on_read(key, record.artifact_id, len(content))
        return ArtifactContent(record, content, start, past if past < end else None)

    def covered(self, key: SessionKey, checkpoint_id: str) -> tuple[SessionImage, list[ArtifactSource]]:
        """A session as it is durable, and where artifacts of what a checkpoint covers stood. O(session).

        Raises:
            SessionNotFoundError: no such session.
            ArtifactNotFoundError: no such checkpoint.
        """
        image = self._store.load(key)
        if image is None:
            raise SessionNotFoundError("no such session", hint="Fit makes it; check scope and session_id")
        record = next((each for each in image.checkpoints if each.checkpoint_id == checkpoint_id), None)
        if record is None:
            raise ArtifactNotFoundError("this session has no such checkpoint", checkpoint_id=checkpoint_id)
        numbers = {number for start, end in record.gone for number in range(start, end)}
        numbers.update(trim.number for trim in record.trims)
        found: list[ArtifactSource] = []
        after = -1
        while sources := self._store.list_sources(key, after, MAX_PAGE_SIZE):
            found += [source for _, source in sources if source.number in numbers]
            after = sources[-1][0]
        return image, found

    def verify(self, key: SessionKey, artifact_id: str) -> None:
        """Read an artifact from the store and prove its whole digest, proven before or not. Errors as `read`."""
        with self._opener.open(key, self.find(key, artifact_id), again=True):
            pass

    def describe(self, key: SessionKey, record: ArtifactRecord, index_of: Callable[[int], int]) -> ArtifactView:
        """An artifact as it first stood. O(sources) the first time.

        Args:
            key: session.
            record: of the artifact.
            index_of: as in `list`.

        Raises:
            SessionNotFoundError: the session was deleted meanwhile.
            CorruptedError: the artifact never stood anywhere.
        """
        source = self._opener.first_source(key, record)
        return view_of(record, source, _call_ref(source.call, index_of), index_of(source.number))

    def search(
        self,
        key: SessionKey,
        *,
        artifact_id: str = "",
        literal: bytes | str | None = None,
        regex: str | None = None,
        context_line_count: int = 0,
        page_size: int = 0,
        page_token: str = "",
    ) -> tuple[list[Hit], str]:
        """Search the artifacts of a session, each once, in the order in which they first left a body.

        Args:
            key: session.
            artifact_id: only this one; empty means all.
            literal: bytes to find as they stand.
            regex: regular expression in RE2 syntax, instead; see `patterns.py`.
            context_line_count: lines to show before and after each hit, at most MAX_CONTEXT_LINE_COUNT.
            page_size: at most this many hits; 0 means PAGE_SIZE, and MAX_PAGE_SIZE is the most.
            page_token: where to go on.

        Returns:
            Hits, and the token to go on with; empty at the end. A page may be short, or empty, and still have a token: the call
            had scanned all that one call may. A hit's text is the line with its context, cut to 8 KiB before the hit and 8 KiB
            from it on.

        Raises:
            SessionNotFoundError: no such session.
            ArtifactNotFoundError: final.
            PatternInvalidError: empty, too large, or does not compile.
            PageTokenInvalidError: of another question.
            InvalidFieldError: a count is negative or too large, or not exactly one of literal and regex is given.
            CorruptedError: a digest does not hold.
        """
        return self._searcher.search(
            key,
            artifact_id=artifact_id,
            literal=literal,
            regex=regex,
            context_line_count=context_line_count,
            want=page_limit(page_size),
            page_token=page_token,
        )

    def search_range(
        self,
        key: SessionKey,
        artifact_id: str,
        *,
        literal: bytes | str | None = None,
        regex: str | None = None,
        byte_range: tuple[int, int | None] = (0, None),
        want: int = PAGE_SIZE,
        before_bytes: int,
        after_bytes: int,
        stride_bytes: int = 0,
    ) -> tuple[ArtifactRecord, list[PatternHit], int | None]:
        """Search a range of one artifact, for a reader that goes on by bytes and not by tokens. Errors as `search` and `read`.

        A call that goes on within a line counts an empty match on that line again, if there is one.

        Args:
            key: session.
            artifact_id: of the artifact.
            literal: as in `search`.
            regex: as in `search`.
            byte_range: hits begin in it.
            want: at most this many hits.
            before_bytes: of a hit's line to show in front of it, at most.
            after_bytes: of a hit's line to show from its first byte on, at most.
            stride_bytes: leave out hits that begin so near after the one before, in its line: they are seen there.

        Returns:
            The record, the hits, and the byte to go on at; None at the end.
        """
        record = self.find(key, artifact_id)
        start, end = _range_within(byte_range, record.size_bytes, "byte")
        hits, after = self._searcher.search_range(
            key,
            record,
            literal=literal,
            regex=regex,
            start=start,
            end=end,
            want=want,
            before_bytes=before_bytes,
            after_bytes=after_bytes,
            stride_bytes=stride_bytes,
        )
        return record, hits, after

    def list(
        self, key: SessionKey, page_size: int, page_token: str, index_of: Callable[[int], int]
    ) -> tuple[list[ArtifactView], str]:
        """List a session's artifacts, one entry for each place that content stood in, oldest first.

        Args:
            key: session.
            page_size: at most this many; 0 means PAGE_SIZE, and MAX_PAGE_SIZE is the most.
            page_token: where to go on.
            index_of: place of a raw item on the current branch, by number; -1 when on another.

        Raises:
            SessionNotFoundError: no such session.
            PageTokenInvalidError: of another question.
            InvalidFieldError: page_size is negative.
        """
        want = page_limit(page_size)
        question: Question = ("artifacts/1", key.scope, key.session_id)
        position = decode_page_token(question, page_token, _ListPosition) or _ListPosition(-1)
        # One more than wanted tells whether there is another page.
        sources = self._store.list_sources(key, position.sequence, want + 1)
        if not sources:
            self._opener.check_session(key)
        records: dict[str, ArtifactRecord] = {}
        views = []
        for _, source in sources[:want]:
            record = records.get(source.artifact_id) or self._opener.record_of(key, source)
            records[source.artifact_id] = record
            views.append(view_of(record, source, _call_ref(source.call, index_of), index_of(source.number)))
        more = len(sources) > want
        return views, encode_page_token(question, _ListPosition(sources[want - 1][0])) if more else ""


def page_limit(given: int) -> int:
    """How many to give on a page: 0 means PAGE_SIZE, more than MAX_PAGE_SIZE is cut to it.

    Raises:
        InvalidFieldError: negative.
    """
    if given < 0:
        raise InvalidFieldError("page_size must not be negative", field="page_size")
    return min(given or PAGE_SIZE, MAX_PAGE_SIZE)


def _lines(view: ContentView, given: tuple[int, int | None]) -> tuple[int, int]:
    """Bytes of a range of lines. Costs a block for each end."""
    record = view.record
    first, last = _range_within(given, record.line_count, "line")
    end = record.size_bytes if last == record.line_count else view.line_start(last)
    return min(view.line_start(first), end), end


def _range_within(given: tuple[int, int | None], size: int, unit: str) -> tuple[int, int]:
    start, end = given
    sizes: dict[str, int] = {"size_bytes" if unit == "byte" else "line_count": size, "start": start}
    if start < 0 or (end is not None and end < start):
        raise RangeInvalidError(f"no {unit} range: {start} to {end}", hint="", **sizes)
    if start > size:
        raise RangeInvalidError(
            f"{unit} {start} is outside of the artifact, which has {size} {unit}s",
            hint="binary content has no lines" if unit == "line" and not size else "",
            **sizes,
        )
    return start, size if end is None else min(end, size)


def _call_ref(call: CallKey | None, index_of: Callable[[int], int]) -> CallRef | None:
    """A call as callers name it; without a position when it is not on the branch."""
    if call is None:
        return None
    index = index_of(call.number)
    return CallRef(call.call_id, index, call.call_index) if index >= 0 else CallRef(call.call_id)
