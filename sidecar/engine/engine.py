"""The engine: sessions in memory over a store, one call at a time per session. Knows no gRPC and no LMDB."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import wait

from sidecar.core.artifacts import check_same_content
from sidecar.core.errors import StoreFailedError
from sidecar.core.types import ArtifactRecord, SessionKey
from sidecar.engine.answer import pressure
from sidecar.engine.artifacts import ArtifactReader
from sidecar.engine.commit import USE_NOTED_MS
from sidecar.engine.config import EngineConfig
from sidecar.engine.events import Event, EventKind, Events, read_back_publisher
from sidecar.engine.fit_call import FitCall
from sidecar.engine.messages import FitInput, FitResult, Pressure, TokenBasis
from sidecar.engine.session import SessionCache
from sidecar.ports import Clock, Store, SummaryModel

__all__ = ["Engine"]

TRIES = 50  # a try is lost to each deletion of the session, and to each lost write, that a call meets
MAX_TROUBLED = 10_000


class Engine:
    """What the edges call."""

    def __init__(self, store: Store, clock: Clock, config: EngineConfig, model: SummaryModel | None = None) -> None:
        """Over an open store; closes nothing of it but by `close`. Without a model, no summary can be asked of one."""
        self.store = store
        self.clock = clock
        self.config = config
        self.model = model
        self.sessions = SessionCache(store, config.cache_bytes)
        self.events = Events()
        # One for all, proofs before a reply included: what was proven once is not proven again when it is read back.
        self.reader = ArtifactReader(store, on_read=read_back_publisher(self.events, store, clock))
        self._troubled: set[SessionKey] = set()

    def fit(self, given: FitInput) -> FitResult:
        """Measure a body and, under pressure, shrink it reversibly.

        Raises:
            TrimtabError: see the proto's Fit.
        """
        retries = given.key in self._troubled
        for _ in range(TRIES):
            session = self.sessions.get(given.key)
            with session.lock:
                if not self.sessions.current(session):
                    continue
                if not session.settle_writes():
                    # An unwaited batch was lost; what is durable is the truth. The next write is waited for: trouble is told.
                    self.sessions.drop(session)
                    retries = True
                    continue
                again = session.again
                if again is not None and again.head is session.head and not retries and again.given == given:
                    session.last_ms = self.clock.now_ms()
                    if session.flushed() and session.last_ms - session.head.update_ms < USE_NOTED_MS:
                        self._tell(given, again.result)
                        return again.result
                try:
                    result = FitCall(self, session, given, retries=retries).run()
                finally:
                    if not session.exists and not session.pending:
                        self.sessions.drop(session)  # nothing of it was kept: a refused or dry call leaves no trace
                    self.sessions.note_size(session)
            self._note_trouble(given.key, result)
            self._tell(given, result)
            return result
        raise StoreFailedError("the session could not be brought in step with the store", hint="repeat the call")

    def _note_trouble(self, key: SessionKey, result: FitResult) -> None:
        """While the store refuses a session's writes, each of its calls waits for its own, so that each says so."""
        if any(note.reason in ("STORE_FULL", "STORE_FAILED") for note in result.notes):
            if len(self._troubled) < MAX_TROUBLED:
                self._troubled.add(key)
        elif key in self._troubled:
            self._troubled.discard(key)

    def _tell(self, given: FitInput, result: FitResult) -> None:
        if given.dry_run:
            return
        before, after = result.before.total_bytes, result.after.total_bytes
        now = self.clock.now_ms()
        if result.artifacts:
            detail = f"{len(result.artifacts)} artifacts"
            self.events.publish(Event(EventKind.EXTERNALIZED, given.key, result.revision, now, detail, before, after))
        if result.body:
            self.events.publish(Event(EventKind.FITTED, given.key, result.revision, now, result.outcome.name, before, after))

    def settle(self, key: SessionKey | None = None) -> None:
        """Wait for writes that replies did not wait for, of one session or of all, so that the store shows what was told."""
        writes = [future for session in self.sessions.held(key) for future, _ in list(session.pending)]
        wait(writes, self.config.write_timeout_s)

    def last_pressure(self, key: SessionKey) -> Pressure | None:
        """Size of the body answered last; None when that was before this process, or is no longer in memory."""
        for session in self.sessions.held(key):
            with session.lock:
                if session.sent is not None:
                    return pressure(session.sent.scan.sizes, None, TokenBasis.UNKNOWN)
        return None

    def delete(self, key: SessionKey) -> bool:
        """Remove a session and all that it holds; durable when it returns. A Fit that runs ends first; one that waits, anew.

        Returns:
            There was one.
        """
        while True:
            session = self.sessions.claim(key)
            with session.lock:
                if not self.sessions.current(session):
                    continue
                wait([future for future, _ in session.pending], self.config.write_timeout_s)
                summary = self.store.summary(key)
                existed = self.store.delete_session(key)
                self.forget(key)
                break
        if existed:
            revision = summary.head.revision if summary is not None else 0
            self.events.publish(Event(EventKind.DELETED, key, revision, self.clock.now_ms()))
        return existed

    def forget(self, key: SessionKey) -> None:
        """A session was deleted."""
        self.sessions.forget(key)

    def check_same(self, key: SessionKey, artifact: ArtifactRecord, new: Sequence[ArtifactRecord]) -> None:
        """Compare full digests of two contents under one id.

        Raises:
            CorruptedError: they differ.
        """
        known = next((each for each in new if each.artifact_id == artifact.artifact_id), None)
        if known is None:
            known = self.store.read_artifact(key, artifact.artifact_id)
        if known is not None:
            check_same_content(known, artifact)

    def close(self) -> None:
        """Flush what is queued and let go of the store."""
        self.events.close()
        self.store.close()
