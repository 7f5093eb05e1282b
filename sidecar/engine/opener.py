"""Opening artifacts: their records, and their contents once the whole digest was proven in this process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from sidecar.core.artifacts import find_artifact_id
from sidecar.core.errors import ArtifactNotFoundError, CorruptedError, SessionNotFoundError
from sidecar.core.types import ArtifactRecord, ArtifactSource, SessionKey
from sidecar.engine.content import ContentView
from sidecar.ports import Store

__all__ = ["Opener"]


_SOURCE_RUN = 1_000
_FIRST_COUNT = 4_096

_Name = tuple[SessionKey, bytes, int, int, int]


def _name(key: SessionKey, record: ArtifactRecord) -> _Name:
    """All that tells one record from another, so that a session deleted and begun anew is proven anew."""
    return key, record.sha256, record.number, record.start, record.create_ms


class Opener:
    """Finds and opens artifacts, and remembers which are proven. Safe for several threads."""

    def __init__(self, store: Store, max_proven_count: int) -> None:
        """Over a store; at most so many proven artifacts are remembered, others are proven again."""
        self.store = store
        self._max_proven_count = max_proven_count
        self._proven: OrderedDict[_Name, bool] = OrderedDict()  # with: it is UTF-8
        self._first: OrderedDict[_Name, ArtifactSource] = OrderedDict()
        self._lock = Lock()

    def find(self, key: SessionKey, artifact_id: str) -> ArtifactRecord:
        """The record of an artifact, its id in any spelling that `find_artifact_id` knows.

        Raises:
            SessionNotFoundError: no such session.
            ArtifactNotFoundError: the session has no such artifact; final.
        """
        found = find_artifact_id(artifact_id)
        record = None if found is None else self.store.read_artifact(key, found)
        whole = artifact_id.strip().lower()
        if record is None or (len(whole) == 64 and whole != record.sha256.hex()):
            self.check_session(key)
            raise ArtifactNotFoundError(
                "this session has no such artifact, and asking again will not help",
                hint="an artifact id is the 32 hex digits in a stub; ListArtifacts gives all that there are",
                artifact_id=artifact_id[:64],
            )
        return record

    def record_of(self, key: SessionKey, source: ArtifactSource) -> ArtifactRecord:
        """The record of the artifact that stood in a place."""
        record = self.store.read_artifact(key, source.artifact_id)
        if record is None:
            self.check_session(key)  # it may have been deleted just now
            raise CorruptedError("a place names an artifact that is not there", artifact_id=source.artifact_id)
        return record

    def first_source(self, key: SessionKey, record: ArtifactRecord) -> ArtifactSource:
        """The place that an artifact first stood in, which never changes. O(sources) the first time."""
        name = _name(key, record)
        with self._lock:
            known = self._first.get(name)
            if known is not None:
                self._first.move_to_end(name)
                return known
        after = -1
        while sources := self.store.list_sources(key, after, _SOURCE_RUN):
            for _, source in sources:
                if source.artifact_id == record.artifact_id:
                    with self._lock:
                        self._first[name] = source
                        while len(self._first) > _FIRST_COUNT:
                            self._first.popitem(last=False)
                    return source
            after = sources[-1][0]
        self.check_session(key)
        raise CorruptedError("an artifact has no place that it stood in", artifact_id=record.artifact_id)

    def check_session(self, key: SessionKey) -> None:
        """Raise SessionNotFoundError when there is no such session."""
        if self.store.summary(key) is None:
            raise SessionNotFoundError("no such session", hint="check scope and session_id; a deleted session is gone for good")

    @contextmanager
    def open(
        self, key: SessionKey, record: ArtifactRecord, *, cache_blocks: int = 0, again: bool = False
    ) -> Iterator[tuple[ContentView, bool]]:
        """The content of an artifact, and whether it is UTF-8.

        Args:
            key: session.
            record: of the artifact.
            cache_blocks: as in ContentView.
            again: prove the whole digest even if that was done before.

        Raises:
            SessionNotFoundError: the session was deleted meanwhile: what is missing then is not damage.
            CorruptedError: a digest does not hold.
        """
        view = ContentView(self.store, key, record, cache_blocks=cache_blocks)
        try:
            yield view, self._prove(key, view, again=again)
        except CorruptedError:
            self.find(key, record.artifact_id)
            raise

    def _prove(self, key: SessionKey, view: ContentView, *, again: bool) -> bool:
        name = _name(key, view.record)
        with self._lock:
            is_utf8 = self._proven.get(name)
            if is_utf8 is not None and not again:
                self._proven.move_to_end(name)
                return is_utf8
        is_utf8 = view.prove()
        with self._lock:
            self._proven[name] = is_utf8
            while len(self._proven) > self._max_proven_count:
                self._proven.popitem(last=False)
        return is_utf8
