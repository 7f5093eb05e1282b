"""One call of Compact: select, reserve, summarize, check, commit.

Nothing is dispatched that is not durable, and nothing is committed that was not held against the finished body. A model is
asked outside of the session's lock: `run` then returns what to ask, and `FinishCall` ends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from sidecar.core.branch import to_ranges
from sidecar.core.checkpoints import taken_back
from sidecar.core.compaction import (
    AttemptRecord,
    AttemptState,
    CompactMode,
    KeptReason,
    Summarizer,
)
from sidecar.core.errors import (
    InvalidFieldError,
    RequestIdReusedError,
    RevisionConflictError,
    SessionNotFoundError,
    SummarizerNotConfiguredError,
    TrimtabError,
)
from sidecar.core.fit import FitPlan
from sidecar.core.select import Selection
from sidecar.core.types import ArtifactRecord, ArtifactSource, ReadBack
from sidecar.engine.answer import pressure
from sidecar.engine.commit import Change, commit, unchanged
from sidecar.engine.compact_messages import BudgetGiven, CompactInput, CompactOutcome, CompactResult
from sidecar.engine.compact_views import ended
from sidecar.engine.compaction import Built, Compaction, Kept, Origin
from sidecar.engine.fit_call import FitCall
from sidecar.engine.fit_change import change_of
from sidecar.engine.left_behind import LeftBehind
from sidecar.engine.messages import FitInput, Note, Pressure, TokenBasis
from sidecar.engine.reading import Reading
from sidecar.engine.rebuild import stored_body
from sidecar.engine.session import Session
from sidecar.summarize.ledger import NAME as LEDGER_NAME
from sidecar.summarize.prompt import Prompt, build_prompt

if TYPE_CHECKING:
    from sidecar.engine.engine import Engine

__all__ = ["CompactCall", "Dispatched", "NO_CUTS", "dispatch", "notes_limit", "size_of", "write"]

NO_CUTS = FitPlan([], 0, False, False, 0, 0)
MAX_ATTEMPTS = 2
CALLER_NAME = "caller/1"
INPUT_BYTES = (8 * 1024, 256 * 1024)
"""A summary request is never smaller or larger than this; between, it is half of what a body may have."""


class Dispatched(NamedTuple):
    """A model is to be asked."""

    attempt: AttemptRecord
    prompt: Prompt
    max_output_bytes: int


def notes_limit(summary_bytes: int) -> int:
    """What a model's notes may take of a summary; the ledger has the rest."""
    return max(summary_bytes * 2 // 3, 256)


def size_of(reading: Reading) -> Pressure:
    """Size of a body."""
    return pressure(reading.scan.sizes, None, TokenBasis.UNKNOWN)


def write(engine: Engine, session: Session, change: Change) -> int:
    """Commit, waiting. The session in memory is dropped when that fails. Returns the revision that is durable."""
    try:
        return commit(engine, session, change)[1]
    except TrimtabError:
        engine.sessions.drop(session)
        raise


class CompactCall:
    """State of one call. Used once, under the session's lock."""

    def __init__(self, engine: Engine, session: Session, given: CompactInput) -> None:
        """Nothing is read or written yet."""
        self.engine = engine
        self.session = session
        self.given = given
        self.notes: list[Note] = []

    def run(self) -> CompactResult | Dispatched:
        """Do it, up to a model's turn."""
        given, session = self.given, self.session
        if not session.exists and not session.metas:
            raise SessionNotFoundError("no such session", hint="Fit or Record makes it; check scope and session_id")
        digest = content_digest(given)
        known = self._known(digest)
        if known is not None:
            return known
        self.kind = given.summarizer or self.engine.config.summarizer
        if self.kind is Summarizer.MODEL and self.engine.model is None and self.engine.config.compaction:
            raise SummarizerNotConfiguredError(
                "the server has no model endpoint for summaries",
                hint="set summarizer_client and summarizer_model, or ask for LEDGER or CALLER",
            )
        self._take_in()
        self.work = Compaction(self.fit)
        kept = self._refused()
        if kept is not None:
            return self._keep(kept)
        chosen = self._choose()
        if isinstance(chosen, Kept):
            return self._keep(chosen)
        self.origin = Origin(given.request_id, LEDGER_NAME, "", given.boundary, given.mode or CompactMode.EXTEND)
        if self.kind is Summarizer.LEDGER:
            return self._by_ledger(chosen, digest)
        return self._by_model(chosen, digest)

    # Repeats ----------------------------------------------------------------------------------------------------------

    def _known(self, digest: bytes) -> CompactResult | None:
        """The answer of a call that was made before under this id."""
        session, request_id = self.session, self.given.request_id
        attempt = session.attempts.get(request_id)
        other = request_id in session.requests or any(each.request_id == request_id for each in session.rollbacks)
        if other or (attempt is not None and attempt.digest != digest):
            raise RequestIdReusedError(
                "this request_id was used with other content", hint="a new request needs a new id; a repeat, the same content"
            )
        if attempt is None or self.given.dry_run or attempt.state is AttemptState.RESERVED:
            return None
        plan = b""
        if attempt.state is AttemptState.DISPATCHED and attempt.kind is Summarizer.CALLER:
            plan = self.engine.store.read_plan(session.key, request_id) or b""
        result = ended(session, attempt, plan)
        if self.given.include_body:
            result = msgspec.structs.replace(result, body=self.engine.current_body(session))
        return result

    # The body ---------------------------------------------------------------------------------------------------------

    def _take_in(self) -> None:
        given, session = self.given, self.session
        body = given.body or stored_body(self.engine, session)
        head = session.head
        read_back = head.read_back or self.engine.config.read_back or ReadBack.NONE
        self.fit = FitCall(
            self.engine,
            session,
            FitInput(
                key=given.key,
                body=body,
                limits=given.limits,
                anchors=given.anchors,
                receipts=given.receipts,
                read_back=ReadBack.UNSPECIFIED if head.read_back else read_back,
                dry_run=given.dry_run,
            ),
        )
        self.fit.tells = bool(given.body)
        self.fit.plan()
        if given.expected_revision is not None and given.expected_revision != head.revision:
            raise RevisionConflictError(
                f"the session is at revision {head.revision}, not {given.expected_revision}",
                hint="another writer was faster: read the session again, then repeat",
                revision=head.revision,
            )

    def _refused(self) -> Kept | None:
        """Reasons that need no look at what may retire."""
        given, fit = self.given, self.fit
        if not self.engine.config.compaction:
            return Kept(KeptReason.DISABLED, "new compaction is turned off on this server")
        if not fit.adapter.sees_all(fit.intake.arrived.scan):
            return Kept(KeptReason.NO_CANDIDATE, "the body stands for history that is not in it")
        limits, size_bytes = fit.limits, fit.view.base_bytes
        most = limits.soft_bytes if limits.hard_bytes is None else min(limits.soft_bytes, limits.hard_bytes)
        if not given.ignore_pressure:
            if size_bytes <= most:
                return Kept(KeptReason.NO_PRESSURE, f"{size_bytes} bytes; the limit is {most}", self.work.before)
            if fit.fit_plan.cuts and fit.fit_plan.size_bytes <= most:
                return Kept(
                    KeptReason.FIT_FIRST, f"Fit would bring {size_bytes} bytes to {fit.fit_plan.size_bytes}", self.work.before
                )
        if not given.boundary and not given.force_mid_stage:
            return Kept(KeptReason.MID_STAGE, "no stage ended: give its name as boundary, or force_mid_stage", self.work.before)
        return None

    def _choose(self) -> Selection | Kept:
        """What leaves, or why nothing does."""
        given, work, fit = self.given, self.work, self.fit
        mode = given.mode or CompactMode.EXTEND
        again = False
        if mode is CompactMode.EXTEND and work.too_many_summaries():
            again = self.kind is Summarizer.LEDGER
            message = "live summaries take much of the body: "
            message += "they are made anew from raw items" if again else "REDERIVE, or LEDGER, would make them anew"
            self.notes.append(Note("SUMMARIES_LARGE", message))
        chosen = self._select(everything=mode is CompactMode.REDERIVE, again=again)
        too_large = work.too_large()
        if too_large is not None:
            self.notes.append(Note(*too_large))
        if not chosen.units or not (chosen.gone or chosen.trims):
            if too_large is not None:
                return Kept(KeptReason.DOES_NOT_FIT, too_large[1], work.before)
            return Kept(KeptReason.NO_CANDIDATE, "no settled work stands before the newest units", work.before)
        numbers = {fit.intake.numbers[at] for at in (*chosen.gone, *chosen.trims)}
        if self.kind is Summarizer.LEDGER and not given.force_mid_stage and self._was_taken_back(numbers):
            return Kept(
                KeptReason.ROLLED_BACK, "a rollback took a summary of this back: force_mid_stage, or a model", work.before
            )
        if self.kind is not Summarizer.LEDGER and self._spent(numbers):
            return Kept(KeptReason.ATTEMPTS_SPENT, f"{MAX_ATTEMPTS} attempts on this range have failed", work.before)
        return chosen

    def _select(self, *, everything: bool, again: bool) -> Selection:
        limits = self.fit.limits
        target = limits.compact_target_bytes
        if limits.hard_bytes is not None:
            target = min(target, limits.hard_bytes)
        if self.given.ignore_pressure:
            target = min(target, self.fit.view.base_bytes - limits.compact_min_saving_bytes)
        busy = self.engine.busy(self.session)
        return self.work.choose(everything=everything, again=again, target_bytes=target, busy=busy)

    def _was_taken_back(self, numbers: set[int]) -> bool:
        back = taken_back(self.session.rollbacks)
        covered = {
            number
            for record in self.session.checkpoints
            if record.checkpoint_id in back
            for start, end in record.gone
            for number in range(start, end)
        }
        return not covered.isdisjoint(numbers)

    def _spent(self, numbers: set[int]) -> bool:
        count = 0
        for attempt in self.session.attempts.values():
            over = attempt.state in (AttemptState.FAILED, AttemptState.UNKNOWN) and attempt.kind is not Summarizer.LEDGER
            if over and any(number in numbers for start, end in attempt.numbers for number in range(start, end)):
                count += 1
        return count >= MAX_ATTEMPTS

    # By records alone -------------------------------------------------------------------------------------------------

    def _by_ledger(self, chosen: Selection, digest: bytes) -> CompactResult:
        if not self.given.dry_run:
            self.engine.tell_before_compact(self.session, self.kind.name, len(self.work.before.scan.body))
        built = self.work.build(chosen, self.origin, "")
        if isinstance(built, Kept) and built.reason is KeptReason.DOES_NOT_FIT and self.work.could_join(self.origin.mode):
            # One more summary beside the others is too much: one in the place of all of them may not be.
            chosen = self._select(everything=False, again=True)
            built = self.work.build(chosen, self.origin, "") if chosen.units else built
        if isinstance(built, Kept):
            return self._keep(built)
        if self.given.dry_run:
            return self._keep(Kept(KeptReason.DRY_RUN, "a checkpoint would be made", built.finished))
        record = built.record
        attempt = self._attempt(chosen, digest, AttemptState.COMMITTED, LEDGER_NAME, "")
        attempt = msgspec.structs.replace(
            attempt,
            checkpoint_id=record.checkpoint_id,
            before_bytes=record.before_bytes,
            after_bytes=record.after_bytes,
            revision=record.revision,
        )
        return commit_checkpoint(self.engine, self.fit, self.work, built, attempt, self.given.include_body, self._all_notes())

    def _attempt(self, chosen: Selection, digest: bytes, state: AttemptState, summarizer: str, model: str) -> AttemptRecord:
        numbers = self.fit.intake.numbers
        return AttemptRecord(
            attempt_id=self.given.request_id,
            digest=digest,
            state=state,
            kind=self.kind,
            summarizer=summarizer,
            model=model,
            numbers=to_ranges([numbers[at] for at in sorted((*chosen.gone, *chosen.trims))]),
            mode=self.given.mode or CompactMode.EXTEND,
            boundary=self.given.boundary,
            focus=self.given.focus,
            before_bytes=len(self.work.before.scan.body),
            base_revision=self.session.head.revision,
            create_ms=self.fit.now_ms,
        )

    # By a model -------------------------------------------------------------------------------------------------------

    def _by_model(self, chosen: Selection, digest: bytes) -> CompactResult | Dispatched:
        given, fit, session = self.given, self.fit, self.session
        limits = fit.limits
        room = limits.soft_bytes if limits.hard_bytes is None else min(limits.soft_bytes, limits.hard_bytes)
        input_bytes = min(max(room // 2, INPUT_BYTES[0]), INPUT_BYTES[1])
        notes_bytes = notes_limit(limits.summary_bytes)
        prompt = build_prompt(self.work.facts(chosen.units), given.focus, notes_bytes, input_bytes)
        request = fit.adapter.summary_request(fit.intake.body, prompt.system, prompt.user, notes_bytes // 2)
        protected = self._protected(given.budget, len(request) + notes_bytes)
        if protected:
            return self._keep(Kept(KeptReason.RESERVE_PROTECTED, protected, self.work.before))
        worst = self.work.build(chosen, self.origin, "")
        if isinstance(worst, Kept):
            return self._keep(worst)  # not even records alone would do: no model could
        if given.dry_run:
            return self._keep(Kept(KeptReason.DRY_RUN, "a model would be asked", worst.finished))
        before = self.work.before
        self.engine.tell_before_compact(session, self.kind.name, len(before.scan.body))
        if self.kind is Summarizer.CALLER:
            attempt = self._attempt(chosen, digest, AttemptState.DISPATCHED, CALLER_NAME, "")
            attempt = msgspec.structs.replace(attempt, has_plan=True)
            self._reserve(attempt, [(attempt.attempt_id, request)])
            result = ended(session, attempt, request, tuple(self._all_notes()))
            body = before.scan.body if given.include_body else b""
            return msgspec.structs.replace(result, before=size_of(before), body=body)
        model = self.engine.model
        if model is None:
            raise InvalidFieldError("the server has no model endpoint", field="summarizer")
        attempt = self._attempt(chosen, digest, AttemptState.RESERVED, model.name, model.model)
        self._reserve(attempt, [])
        return Dispatched(attempt, prompt, notes_bytes)

    def _protected(self, budget: BudgetGiven | None, request_bytes: int) -> str:
        """Why what is left is kept for finishing; "" when it is not."""
        if budget is None:
            return ""
        if budget.requests_left is not None and budget.requests_left - 1 < (budget.requests_reserved or 0):
            return f"{budget.requests_left} requests are left, {budget.requests_reserved or 0} are kept for finishing"
        tokens = int(request_bytes / self.fit.ratio.bytes_per_token()) + 1
        if budget.tokens_left is not None and budget.tokens_left - tokens < (budget.tokens_reserved or 0):
            kept = budget.tokens_reserved or 0
            return f"about {tokens} tokens of {budget.tokens_left} would be spent, {kept} are kept for finishing"
        return ""

    def _reserve(self, attempt: AttemptRecord, plans: list[tuple[str, bytes]]) -> None:
        """The attempt is durable before anything is dispatched."""
        change = change_of(self.fit, NO_CUTS, self.fit.intake.scan)
        change.attempts, change.plans = [attempt], plans
        change.must_keep = change.must_wait = True
        write(self.engine, self.session, change)

    # Nothing happens --------------------------------------------------------------------------------------------------

    def _all_notes(self) -> list[Note]:
        told = [note for note in self.fit.notes if note.reason not in ("READ_BACK_TOOL_MISSING", "READ_BACK_NOT_INJECTED")]
        return [*told, *self.notes]

    def _keep(self, kept: Kept) -> CompactResult:
        """Answer KEPT without an attempt. What the call brought is kept all the same."""
        fit, session, given = self.fit, self.session, self.given
        if not given.dry_run:
            change = change_of(fit, NO_CUTS, fit.intake.scan)
            change.must_keep = change.must_wait = change.anything
            write(self.engine, session, change)
        before = self.work.before
        result = CompactResult(
            outcome=CompactOutcome.KEPT,
            kept_reason=kept.reason,
            detail=kept.detail,
            before=size_of(before),
            after=None if kept.after is None else size_of(kept.after),
            body=before.scan.body if given.include_body else b"",
            revision=session.head.revision,
            item_count=len(fit.intake.items),
            notes=tuple(self._all_notes()),
        )
        if not given.dry_run:
            self.engine.tell_after_compact(session, result)
        return result


def commit_checkpoint(
    engine: Engine,
    fit: FitCall,
    work: Compaction,
    built: Built,
    attempt: AttemptRecord,
    include_body: bool,
    notes: list[Note],
) -> CompactResult:
    """Checkpoint, attempt and revision in one transaction, flushed; then the answer."""
    session = fit.session
    change = change_of(fit, NO_CUTS, fit.intake.scan)
    superseded = set(built.record.superseded)
    live = 1 + sum(1 for each in session.live if each.checkpoint_id not in superseded)
    change.head = msgspec.structs.replace(change.head, revision=built.record.revision, checkpoint_count=live)
    change.checkpoints, change.attempts = [built.record], [attempt]
    change.artifacts, change.sources = _new_artifacts(engine, session, built.left)
    change.must_keep = change.must_wait = True
    write(engine, session, change)
    result = ended(session, attempt, notes=tuple(notes))
    body = built.finished.scan.body if include_body else b""
    result = msgspec.structs.replace(result, before=size_of(work.before), after=size_of(built.finished), body=body)
    engine.tell_after_compact(session, result)
    return result


def _new_artifacts(
    engine: Engine, session: Session, left: Sequence[LeftBehind]
) -> tuple[list[ArtifactRecord], list[ArtifactSource]]:
    """Records of contents that are new to the session, and where each stood. Raises CorruptedError: two contents, one id."""
    artifacts: list[ArtifactRecord] = []
    known: set[str] = set()
    for each in left:
        artifact = each.artifact
        if artifact.artifact_id in known or artifact.artifact_id in session.artifact_ids:
            engine.check_same(session.key, artifact, artifacts)
        else:
            known.add(artifact.artifact_id)
            artifacts.append(artifact)
    return artifacts, [each.source for each in left if each.source is not None]


def dispatch(engine: Engine, session: Session, attempt_id: str) -> CompactResult | None:
    """Make it durable that a reserved attempt goes out now: from here on nobody may ask under it again.

    Returns:
        The attempt's end, where it ended meanwhile: nobody is to be asked. Else None.
    """
    attempt = session.attempts.get(attempt_id)
    if attempt is None:  # the session was deleted meanwhile
        raise SessionNotFoundError("no such session", hint="check scope and session_id; a deleted session is gone for good")
    if attempt.state is not AttemptState.RESERVED:
        return ended(session, attempt)
    change = unchanged(session)
    change.attempts = [msgspec.structs.replace(attempt, state=AttemptState.DISPATCHED)]
    write(engine, session, change)
    return None


def content_digest(given: CompactInput) -> bytes:
    """SHA-256 of what makes a request the same request: not what it asks to see, nor how long it may take."""
    same = msgspec.structs.replace(given, include_body=False, expected_revision=None, timeout_s=0.0)
    return sha256(msgspec.msgpack.encode(same)).digest()
