"""The engine: sessions in memory over a store, one call at a time per session. Knows no gRPC and no LMDB."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from typing import TypeVar

import msgspec

from sidecar.core.artifacts import check_same_content
from sidecar.core.compaction import AttemptState, Summarizer
from sidecar.core.errors import (
    SessionNotFoundError,
    StoreFailedError,
    SummarizerFailedError,
    SummarizerUnknownError,
    TooManyError,
)
from sidecar.core.retention import RetentionPolicy
from sidecar.core.types import ArtifactRecord, ReadBack, SessionKey
from sidecar.engine.answer import pressure
from sidecar.engine.artifacts import ArtifactReader
from sidecar.engine.commit import USE_NOTED_MS
from sidecar.engine.compact_call import CompactCall, Dispatched, dispatch
from sidecar.engine.compact_finish import End, FinishCall
from sidecar.engine.compact_messages import (
    CheckpointView,
    CompactInput,
    CompactResult,
    FinishInput,
    RollbackInput,
    RollbackResult,
)
from sidecar.engine.compact_views import checkpoint_views
from sidecar.engine.compaction import Compaction
from sidecar.engine.config import EngineConfig
from sidecar.engine.counters import Counters
from sidecar.engine.events import Event, EventKind, Events, read_back_publisher
from sidecar.engine.fit_call import FitCall
from sidecar.engine.messages import FitInput, FitResult, Pressure, TokenBasis
from sidecar.engine.rebuild import stored_body
from sidecar.engine.record_call import RecordCall
from sidecar.engine.record_messages import RecordInput, RecordResult, RecoverInput, RecoverResult
from sidecar.engine.recover_call import RecoverCall
from sidecar.engine.retention import RetentionReport, retain
from sidecar.engine.rollback import roll_back
from sidecar.engine.session import Session, SessionCache
from sidecar.ports import Clock, Store, SummaryModel

__all__ = ["Engine"]

T = TypeVar("T")

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
        self.sessions = SessionCache(store, config.cache_bytes, self._loaded)
        self._running: dict[tuple[SessionKey, str], threading.Event] = {}  # model calls of this process
        self._running_lock = threading.Lock()
        self.events = Events()
        self.counters = Counters()
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

    # Compaction -------------------------------------------------------------------------------------------------------

    def compact(self, given: CompactInput, cancel: threading.Event | None = None) -> CompactResult:
        """Replace settled older work by a summary. A model is asked without holding the session.

        Args:
            given: the request.
            cancel: set when the caller is gone: a model's request ends soon after.

        Raises:
            TrimtabError: see the proto's Compact.
        """
        deadline = time.monotonic() + given.timeout_s
        while True:
            running = self._running.get((given.key, given.request_id))
            if running is not None and not running.wait(max(deadline - time.monotonic(), 0.0)):
                raise TooManyError("this compaction is being made", hint="repeat the call with the same request_id")
            result = self._locked(given.key, lambda session: self._compact(session, given))
            if isinstance(result, CompactResult):
                return result
            if isinstance(result, Dispatched):
                break
        return self._ask_model(given, result, deadline, cancel)

    def _compact(self, session: Session, given: CompactInput) -> CompactResult | Dispatched | None:
        if (given.key, given.request_id) in self._running:
            return None
        result = CompactCall(self, session, given).run()
        if isinstance(result, Dispatched):
            with self._running_lock:
                self._running[(given.key, given.request_id)] = threading.Event()
        return result

    def _ask_model(
        self, given: CompactInput, asked: Dispatched, deadline: float, cancel: threading.Event | None
    ) -> CompactResult:
        model, prompt = self.model, asked.prompt
        place = (given.key, asked.attempt.attempt_id)
        attempt_id, include_body = place[1], given.include_body
        try:
            over = self._locked(given.key, lambda session: dispatch(self, session, attempt_id))
            if over is not None:
                return over
            left = max(deadline - time.monotonic(), 0.0)
            try:
                if model is None:
                    raise SummarizerFailedError("there is no model endpoint")
                reply = model.summarize(
                    prompt.system, prompt.user, max_output_bytes=asked.max_output_bytes, timeout_s=left, cancel=cancel
                )
                end = End(reply=reply)
            except SummarizerFailedError as error:
                end = End(failed=error.message)
            except Exception as error:
                end = End(unknown=error.message if isinstance(error, SummarizerUnknownError) else "the model client broke")
            return self._locked(
                given.key, lambda session: FinishCall(self, session, attempt_id, include_body=include_body).run(end)
            )
        finally:
            with self._running_lock:
                self._running.pop(place).set()

    def finish_compact(self, given: FinishInput) -> CompactResult:
        """End a planned compaction: the first end stands.

        Raises:
            TrimtabError: see the proto's FinishCompact.
        """
        return self._locked(
            given.key,
            lambda session: FinishCall(self, session, given.attempt_id, include_body=given.include_body).run(given),
        )

    def rollback(self, given: RollbackInput) -> RollbackResult:
        """Take checkpoints back.

        Raises:
            TrimtabError: see the proto's Rollback.
        """
        result, is_new = self._locked(given.key, lambda session: roll_back(self, session, given))
        if is_new:
            detail = f"{len(result.checkpoint_ids)} checkpoints"
            self.events.publish(Event(EventKind.ROLLED_BACK, given.key, result.revision, self.clock.now_ms(), detail))
        return result

    def checkpoints(self, key: SessionKey) -> list[CheckpointView]:
        """All checkpoints of a session, oldest first. Raises SessionNotFoundError."""

        def views(session: Session) -> list[CheckpointView]:
            if not session.exists and not session.metas:
                raise SessionNotFoundError("no such session", hint="check scope and session_id")
            return checkpoint_views(session)

        return self._locked(key, views)

    def record(self, given: RecordInput) -> RecordResult:
        """Keep items, receipts and anchors between two model calls; durable when it returns.

        Raises:
            TrimtabError: see the proto's Record.
        """
        return self._locked(given.key, lambda session: RecordCall(self, session, given).run())

    def recover(self, given: RecoverInput) -> RecoverResult:
        """What is durably known of a session.

        Raises:
            TrimtabError: see the proto's Recover.
        """
        return self._locked(given.key, lambda session: RecoverCall(self, session, given).run(), flushed=True)

    def current_body(self, session: Session) -> bytes:
        """The body as it would be sent now, from what is known of a locked session. Raises NoBodyError."""
        read_back = ReadBack.UNSPECIFIED if session.head.read_back else self.config.read_back or ReadBack.NONE
        call = FitCall(self, session, FitInput(key=session.key, body=stored_body(self, session), read_back=read_back))
        call.plan()
        return Compaction(call).before.scan.body

    def busy(self, session: Session) -> set[int]:
        """Numbers of items that a model is being asked about in this process."""
        running = [attempt_id for key, attempt_id in list(self._running) if key == session.key]
        attempts = [session.attempts[attempt_id] for attempt_id in running if attempt_id in session.attempts]
        return {number for attempt in attempts for start, end in attempt.numbers for number in range(start, end)}

    def is_asking(self, key: SessionKey) -> bool:
        """A model is being asked about this session, in this process."""
        return any(key == other for other, _ in list(self._running))

    def tell_before_compact(self, session: Session, detail: str, before_bytes: int) -> None:
        """A compaction is about to summarize."""
        now = self.clock.now_ms()
        self.events.publish(Event(EventKind.PRE_COMPACT, session.key, session.head.revision, now, detail, before_bytes))

    def tell_after_compact(self, session: Session, result: CompactResult) -> None:
        """A compaction ended."""
        detail = result.outcome.name if not result.kept_reason else f"{result.outcome.name} {result.kept_reason.name}"
        before = 0 if result.before is None else result.before.total_bytes
        after = 0 if result.after is None else result.after.total_bytes
        now = self.clock.now_ms()
        self.events.publish(Event(EventKind.POST_COMPACT, session.key, result.revision, now, detail, before, after))

    def _loaded(self, session: Session) -> None:
        """A model that was asked by a process that is gone: nobody can say how that ended, and it is not asked again."""
        for attempt in list(session.attempts.values()):
            asked = attempt.kind is Summarizer.MODEL and attempt.state is AttemptState.DISPATCHED
            if asked and (session.key, attempt.attempt_id) not in self._running:
                session.attempts[attempt.attempt_id] = msgspec.structs.replace(
                    attempt, state=AttemptState.UNKNOWN, detail="the sidecar ended while the model was asked"
                )

    def _locked(self, key: SessionKey, work: Callable[[Session], T], *, flushed: bool = False) -> T:
        """Do something with a session that is in step with the store, under its lock; on request with all of it durable."""
        for _ in range(TRIES):
            session = self.sessions.get(key)
            with session.lock:
                if not self.sessions.current(session):
                    continue
                if flushed:
                    self.settle(key)
                if not session.settle_writes():
                    self.sessions.drop(session)
                    continue
                try:
                    return work(session)
                finally:
                    if not session.exists and not session.pending:
                        self.sessions.drop(session)
                    self.sessions.note_size(session)
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

    def retain(self, policy: RetentionPolicy, *, dry_run: bool = False) -> RetentionReport:
        """Remove sessions that a policy lets go, never one in use; see `sidecar.engine.retention.retain`."""
        return retain(self, policy, dry_run=dry_run)

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
