"""The end of an attempt: what a model or the caller brought is judged, and committed or not. The first end stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from sidecar.core.compaction import AttemptRecord, AttemptState, CompactMode, KeptReason
from sidecar.core.errors import AttemptNotFoundError, MalformedBodyError, SessionNotFoundError
from sidecar.core.replies import ModelReply, Stop
from sidecar.core.types import ReadBack
from sidecar.engine.commit import unchanged
from sidecar.engine.compact_call import commit_checkpoint, notes_limit, write
from sidecar.engine.compact_messages import CompactResult, FinishInput
from sidecar.engine.compact_views import ended
from sidecar.engine.compaction import Compaction, Kept, Origin
from sidecar.engine.fit_call import FitCall
from sidecar.engine.messages import FitInput
from sidecar.engine.rebuild import stored_body
from sidecar.engine.session import Session
from sidecar.formats import adapter as adapter_of
from sidecar.summarize.prompt import build_prompt
from sidecar.summarize.verdict import Rejection, judge_reply

if TYPE_CHECKING:
    from sidecar.engine.engine import Engine

__all__ = ["End", "FinishCall", "read_end"]


class End(msgspec.Struct, frozen=True):
    """How a model request went; exactly one is set."""

    reply: ModelReply | None = None
    rejected: str = ""
    failed: str = ""
    unknown: str = ""


def read_end(session: Session, given: FinishInput) -> End:
    """What FinishCompact says."""
    if given.failed is not None:
        return End(failed=given.failed or "the caller's request failed")
    if given.unknown is not None:
        return End(unknown=given.unknown or "the caller cannot say whether its request was made")
    if given.text is not None:
        return End(reply=ModelReply(given.text, Stop.END))
    try:
        return End(reply=adapter_of(session.head.format).read_reply(given.response or b""))
    except MalformedBodyError as error:
        return End(rejected=f"the response cannot be read: {error.message}")


class FinishCall:
    """Ends one attempt. Used once, under the session's lock."""

    def __init__(self, engine: Engine, session: Session, attempt_id: str, *, include_body: bool = False) -> None:
        """Nothing is read or written yet."""
        self.engine = engine
        self.session = session
        self.attempt_id = attempt_id
        self.include_body = include_body

    def run(self, end: End | FinishInput) -> CompactResult:
        """Judge and commit."""
        session = self.session
        if not session.exists and not session.metas:
            raise SessionNotFoundError("no such session", hint="check scope and session_id; a deleted session is gone for good")
        attempt = session.attempts.get(self.attempt_id)
        if attempt is None or attempt.state is AttemptState.RESERVED:  # it was never told to anybody
            raise AttemptNotFoundError(
                "this session has no such attempt", hint="attempt_id is that of the PLANNED answer: the request_id of Compact"
            )
        if attempt.state is not AttemptState.DISPATCHED:
            return self._with_body(ended(session, attempt))
        if isinstance(end, FinishInput):
            end = read_end(session, end)
        if end.failed:
            return self._end(attempt, AttemptState.FAILED, KeptReason.SUMMARIZER_FAILED, end.failed)
        if end.unknown:
            return self._end(attempt, AttemptState.UNKNOWN, KeptReason.UNSPECIFIED, end.unknown)
        if end.rejected or end.reply is None:
            return self._end(attempt, AttemptState.FAILED, KeptReason.SUMMARY_REJECTED, end.rejected)
        if end.reply.usage is not None:
            attempt = msgspec.structs.replace(attempt, usage=end.reply.usage)
        return self._judge(attempt, end.reply)

    def _judge(self, attempt: AttemptRecord, reply: ModelReply) -> CompactResult:
        self._plan()
        work = Compaction(self.fit)
        older = {
            each.checkpoint_id
            for each in self.session.live
            if attempt.mode is CompactMode.REDERIVE and each.revision <= attempt.base_revision
        }
        chosen = work.again({number for start, end in attempt.numbers for number in range(start, end)}, older)
        if chosen is None:
            detail = "what it covers is covered by now, no longer settled, or not on the current branch"
            return self._end(attempt, AttemptState.FAILED, KeptReason.NO_CANDIDATE, detail)
        limit = notes_limit(self.fit.limits.summary_bytes)
        prompt = build_prompt(work.facts(chosen.units), attempt.focus, limit, 1 << 20)
        notes = judge_reply(reply, limit, prompt.user)
        if isinstance(notes, Rejection):
            return self._end(attempt, AttemptState.FAILED, KeptReason.SUMMARY_REJECTED, notes.reason)
        origin = Origin(attempt.attempt_id, attempt.summarizer, attempt.model, attempt.boundary, attempt.mode)
        built = work.build(chosen, origin, notes)
        if isinstance(built, Kept):
            after = 0 if built.after is None else len(built.after.scan.body)
            attempt = msgspec.structs.replace(attempt, before_bytes=len(work.before.scan.body), after_bytes=after)
            return self._end(attempt, AttemptState.FAILED, built.reason, built.detail)
        record = built.record
        attempt = msgspec.structs.replace(
            attempt,
            state=AttemptState.COMMITTED,
            checkpoint_id=record.checkpoint_id,
            before_bytes=record.before_bytes,
            after_bytes=record.after_bytes,
            revision=record.revision,
        )
        notes_told = [note for note in self.fit.notes if note.reason in ("INVALID_HISTORY", "CHECKPOINT_ASIDE")]
        return commit_checkpoint(self.engine, self.fit, work, built, attempt, self.include_body, notes_told)

    def _plan(self) -> None:
        """The newest body that is known, as Fit would leave it."""
        session, engine = self.session, self.engine
        head = session.head
        read_back = ReadBack.UNSPECIFIED if head.read_back else engine.config.read_back or ReadBack.NONE
        body = stored_body(engine, session)
        self.fit = FitCall(engine, session, FitInput(key=session.key, body=body, read_back=read_back))
        self.fit.tells = False
        self.fit.plan()

    def _end(self, attempt: AttemptRecord, state: AttemptState, reason: KeptReason, detail: str) -> CompactResult:
        """Without a checkpoint."""
        session = self.session
        attempt = msgspec.structs.replace(
            attempt, state=state, kept_reason=reason, detail=detail[:1024], revision=session.head.revision
        )
        change = unchanged(session)
        change.attempts = [attempt]
        write(self.engine, session, change)
        result = self._with_body(ended(session, attempt))
        self.engine.tell_after_compact(session, result)
        return result

    def _with_body(self, result: CompactResult) -> CompactResult:
        if not self.include_body:
            return result
        return msgspec.structs.replace(result, body=self.engine.current_body(self.session))
