"""One call of Fit, from the request's values to the answer's: take in, apply records, plan, check, commit, read back.

The order is the promise: nothing is told before it is durable, no body leaves that was not checked whole, and a failing store
fails the call only when something new had to be kept.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from fastpath import Edit, Role, common_prefix
from sidecar.core.anchors import merge_anchors
from sidecar.core.branch import from_ranges
from sidecar.core.compaction import CheckpointRecord
from sidecar.core.contract import Placed, open_spans
from sidecar.core.cuts import Built
from sidecar.core.errors import InternalError, InvalidFieldError, ReadBackRequiredError, RevisionConflictError, TrimtabError
from sidecar.core.fit import plan_fit
from sidecar.core.limits import Effective, check_given, merge, resolve
from sidecar.core.paths import marker_paths
from sidecar.core.projection import Projection, totals_of
from sidecar.core.readback import READ_BACK_TOOL_NAME
from sidecar.core.records import Applied, apply_records, replace_value
from sidecar.core.retirable import add_up
from sidecar.core.types import (
    Anchors,
    EffectState,
    Format,
    Path,
    PinKey,
    ReadBack,
    ReceiptRecord,
    UsageFigures,
)
from sidecar.core.units import Call, mark_settled
from sidecar.engine.commit import Change, commit
from sidecar.engine.fit_answer import answer
from sidecar.engine.fit_change import change_of
from sidecar.engine.fit_cuts import Cutter
from sidecar.engine.intake import take_in
from sidecar.engine.messages import (
    FitInput,
    FitResult,
    Note,
)
from sidecar.engine.reading import Reading
from sidecar.engine.receipts import check_result, closing_results, late_results
from sidecar.engine.refs import Refs
from sidecar.engine.session import Again, Seen, Session
from sidecar.engine.shape import Shape, hold, plain_shape, position, shape, with_tool
from sidecar.engine.tools import Tools
from sidecar.formats import adapter as adapter_of
from sidecar.formats import detect
from sidecar.formats.base import Adapter, Violation

if TYPE_CHECKING:
    from sidecar.engine.engine import Engine

__all__ = ["FitCall"]

NOTED_FAULTS = 5


_ENDED = (EffectState.SETTLED, EffectState.FAILED)
"""What is known of an effect once it is over. A call that was closed so needs no result beside the one that closed it."""

_SAYS_LESS = (EffectState.PENDING, EffectState.UNKNOWN, EffectState.WAITING)
"""What does not speak against a result that was recorded before."""


class FitCall:
    """State of one call. Used once, under the session's lock."""

    def __init__(self, engine: Engine, session: Session, given: FitInput, *, retries: bool = False) -> None:
        """Nothing is read or written yet."""
        self.engine = engine
        self.session = session
        self.given = given
        self.tells = True  # the body is what the agent sends; False: what the session knows
        self.retries = retries  # an earlier write of the session failed: this one is waited for
        self.notes: list[Note] = []
        self.cut_edits: dict[tuple[int, Path], Edit] = {}  # by item and raw path: where each cut of this call stands
        self.now_ms = engine.clock.now_ms()

    # Step by step -----------------------------------------------------------------------------------------------------

    def run(self) -> FitResult:
        """Do it all."""
        self.plan()
        self.cutter.note_stubs()
        return self._finish()

    def plan(self) -> None:
        """Take the body in, apply records, and choose what is to be cut. Changes nothing."""
        given, session = self.given, self.session
        adapter = self._adapter()
        self._settings()
        changed_format = session.head.format not in (Format.UNSPECIFIED, adapter.format)
        if changed_format:
            self.note("FORMAT_CHANGED", f"the session was {session.head.format.name} before: this history is a branch of its own")
        intake = take_in(session, adapter, given.body, () if changed_format else session.branch, self.engine.store)
        self.intake, self.adapter, self.changed_format = intake, adapter, changed_format
        self.refs = Refs(intake.units, intake.numbers, intake.ranges)
        usage = self._usage(adapter)
        self.limits = self._limits(usage)
        self._given_state(len(session.metas) + len(intake.new_items))
        self._faults(intake.violations)
        self.stable = self._settle()
        self._replaced()
        self._recorded()
        self.inject = self._read_back(intake.tools)
        self._shape(shape(self))
        self._note_checkpoints()

    def note(self, reason: str, message: str) -> None:
        """Something that the caller should know."""
        self.notes.append(Note(reason, message))

    def _adapter(self) -> Adapter:
        given, head = self.given, self.session.head
        if len(given.body) > self.engine.config.max_body_bytes:
            raise InvalidFieldError(
                f"the body has {len(given.body)} bytes; the server takes {self.engine.config.max_body_bytes}",
                hint="raise max_message_bytes in the server's configuration",
                field="body",
            )
        fmt = given.format or head.format
        return adapter_of(fmt if fmt is not Format.UNSPECIFIED else detect(given.body))

    def _settings(self) -> None:
        """Limits and the way to read back: what was given holds until given again."""
        given, head, config = self.given, self.session.head, self.engine.config
        if given.limits is not None:
            check_given(given.limits)
        self.limits_given = merge(head.limits, given.limits)
        self.read_back = given.read_back or head.read_back or config.read_back
        if self.read_back is ReadBack.UNSPECIFIED:
            raise ReadBackRequiredError(
                "no way to read content back was told",
                hint="set read_back to TOOL, INJECT (the model calls a tool), CALLER (your own way) or NONE (nothing goes)",
            )
        told = given.read_back_tool_name or head.read_back_tool_name or config.read_back_tool_name
        if self.read_back is ReadBack.CALLER:
            self.read_tool = told
        else:
            self.read_tool = READ_BACK_TOOL_NAME if self.read_back is ReadBack.INJECT or not told else told

    def _limits(self, usage: UsageFigures | None) -> Effective:
        """In force, by this session's token ratio. A repeated call brings its usage again: that is not learned twice."""
        session = self.session
        merged = merge(self.engine.config.limits, self.limits_given)
        self.usage, self.ratio = usage, session.ratio
        repeated = session.seen is not None and usage == session.usage and session.seen.reading.scan.body == self.intake.body
        if usage is not None and session.sent is not None and not repeated:
            self.ratio = session.ratio.learned(len(session.sent.scan.body), usage)
        return resolve(merged, self.ratio.bytes_per_token())

    def _usage(self, adapter: Adapter) -> UsageFigures | None:
        if self.given.usage_json is not None:
            return adapter.usage(self.given.usage_json)
        return self.given.usage

    def _given_state(self, next_number: int) -> None:
        """Receipts, pins and anchors with this call's in."""
        given, session = self.given, self.session
        revision = session.head.revision + 1
        told = [
            msgspec.structs.replace(receipt, result=self._checked(self.refs.call(receipt.call), receipt.result))
            if receipt.result
            else receipt
            for receipt in given.receipts
        ]
        self.new_receipts: list[ReceiptRecord] = [
            receipt
            for new in self.refs.receipts(told, revision, next_number)
            for receipt in [_with_result(session.receipts.get((new.call.number, new.call.call_index)), new)]
            if not _same_receipt(session.receipts.get((receipt.call.number, receipt.call.call_index)), receipt)
        ]
        self.receipts = session.receipts
        if self.new_receipts:
            self.receipts = {**session.receipts, **{(r.call.number, r.call.call_index): r for r in self.new_receipts}}
        pins = self.refs.pins(session.pins, given.pins) if given.pins else session.pins
        self.new_pins: list[PinKey] | None = None if pins == session.pins else pins
        self.pins = pins
        self.new_anchors: Anchors | None = None
        if given.anchors is not None:
            merged = merge_anchors(session.anchors, self.refs.anchors(given.anchors), revision)
            self.new_anchors = None if merged is session.anchors else merged
        self.anchors = session.anchors if self.new_anchors is None else self.new_anchors

    def _checked(self, call: Call, result: bytes) -> bytes:
        start, end = call.part.name_start, call.part.name_end
        return check_result(self.adapter, call, self.intake.reading.decode(start, end) if start >= 0 else b"", result)

    def _faults(self, violations: Sequence[Violation]) -> None:
        for violation in violations[:NOTED_FAULTS]:
            self.note(
                "INVALID_HISTORY",
                f"item {violation.item_index}: {violation.rule} at byte {violation.offset_bytes}: {violation.message}",
            )
        if len(violations) > NOTED_FAULTS:
            self.note("INVALID_HISTORY", f"{len(violations) - NOTED_FAULTS} more faults")

    def _settle(self) -> int:
        """Say which units are settled. Returns how many leading ones are as they were in the body before."""
        intake, known, units = self.intake, self.intake.known, self.intake.units
        faulty = {violation.item_index for violation in intake.violations}
        closed = self.session.closed
        self.closing = self._closing(closed)
        self.not_final = self._closing({key: closed[key] for key in closed if self.receipts[key].state not in _ENDED})
        stable = 0
        indices: list[int] | None = None  # all
        if known is not None:
            since = intake.reading.since
            before = {violation.item_index for violation in known.reading.judged.violations}
            if {at for at in faulty if at < since} == {at for at in before if at < since}:
                items = [self.refs.index_of(receipt.call.number) for receipt in self.new_receipts]
                touched = {bisect_right(units, at, key=lambda unit: unit.first) - 1 for at in items}
                stable = min((intake.grouped.shared, *touched))
                # In any order, a touched one perhaps twice: each is looked at by itself.
                indices = [*touched, *range(intake.grouped.shared, len(units))]
        mark_settled(units, intake.parts, intake.numbers, self.receipts, faulty, self.not_final, indices)
        return stable

    def _closing(self, closed: Mapping[tuple[int, int], tuple[bytes, ...]]) -> set[int]:
        """Result parts that only close what a crash interrupted."""
        if not closed:
            return set()
        calls = [(call, result) for key, result in closed.items() if (call := self.refs.call_at(*key)) is not None]
        return closing_results(self.adapter, self.intake.body, self.intake.parts, calls)

    def _recorded(self) -> None:
        """Which recorded items this body tells for the first time; say so where it lacks some: those stay off the branch."""
        session, index_of = self.session, self.refs.index_of
        untold = from_ranges(session.head.untold)
        self.untold = [number for number in untold if index_of(number) < 0]
        self.first_told = {index_of(number) for number in untold} - {-1}
        gone = set(session.branch).intersection(self.untold) if self.untold and not self.changed_format else ()
        if gone:
            self.note(
                "RECORDED_LEFT_OUT", f"{len(gone)} recorded items are not in this body: they stay in the journal, off the branch"
            )
        late = late_results(self.receipts, session.closed, self.refs, self.closing) if self.closing else []
        if late:
            self.note(
                "RESULTS_RECORDED",
                f"{len(late)} calls of this body have a result that only closed them; the real one was recorded: recover has it",
            )

    def _replaced(self) -> None:
        """Say so when this looks like another run under the same name."""
        if not self.session.branch or self.intake.alignment.diverged_at is None:
            return
        items, matches = self.intake.items, self.intake.alignment.items
        people = [at for at, item in enumerate(items) if item.role == Role.USER]
        if people and all(matches[at].number < 0 for at in people):
            self.note(
                "HISTORY_REPLACED", "no user item of this body was in the session before; give each run a session_id of its own"
            )

    def _shape(self, found: Shape) -> None:
        """Take records as they are at work, and choose what is to be cut beside them."""
        intake, session, given = self.intake, self.session, self.given
        self.projection, self.held, self.aside, self.finished = found
        earlier = intake.known.sums if intake.known is not None and self.held else None
        self.sums = None
        if self.projection.fold is None:
            self.sums = add_up(intake.units, intake.items, intake.parts, self.projection.saved, earlier, self.stable)
        inject = self.inject
        base = len(intake.body) - self.projection.saved_bytes
        base += len(inject.data) - inject.end + inject.start if inject else 0
        # What held a cut above its target may be gone: the next need not wait.
        head = session.head
        other_way = given.read_back not in (ReadBack.UNSPECIFIED, head.read_back)
        self.retold = self.limits_given != head.limits or self.new_pins is not None or other_way
        self.cutter = Cutter(self)
        self.view = self.cutter.view(self.projection, self.sums, base, self.usage)
        self.fit_plan = plan_fit(self.view)

    def by_records(self) -> Reading:
        """The body with all records at work and no new cut, held against the contract. Raises InternalError."""
        if self.finished is None:
            known = self.intake.known
            proven = self.held and known is not None and known.proven
            self.finished = hold(self, with_tool(self, self.projection.placed), self.projection.fold, proven=proven)
        return self.finished

    def _note_checkpoints(self) -> None:
        self._note_aside(self.aside)
        if self.intake.displaced:
            self.note("SUMMARY_DISPLACED", f"{self.intake.displaced} summaries do not stand in their place: they are text")
        folded = self.projection.fold
        if folded is not None and any(each.record.anchors_revision < self.anchors.revision for each in folded.applied):
            self.note(
                "ANCHORS_CHANGED", "anchors were changed after a summary in this body was written: it shows them as they were"
            )

    def _note_aside(self, records: Sequence[CheckpointRecord]) -> None:
        for record in records:
            self.note("CHECKPOINT_ASIDE", f"{record.checkpoint_id} does not fit this history: its items stand as they came")

    def _read_back(self, tools: Tools) -> Edit | None:
        """Whether a new stub could be followed (`can_cut`), and the edit that injects the tool."""
        self.can_cut = True
        self.injected = self.session.head.injected
        mode = self.read_back
        first = not self.session.envelope_digest  # Record may have come before it
        # A tool that was added once stays: stubs in the body are read by it, and its going would break the cached prefix.
        kept = tools.injection if self.injected and mode is not ReadBack.INJECT else None
        if mode is ReadBack.NONE:
            self.can_cut = False
        elif mode is ReadBack.TOOL:
            self.can_cut = self.read_tool.encode() in tools.names
            if not self.can_cut:
                self.note("READ_BACK_TOOL_MISSING", f"the body does not declare {self.read_tool}: nothing new was taken out")
        elif mode is ReadBack.INJECT:
            edit = tools.injection if first or self.injected else None
            there = edit is not None and not edit.data
            if edit is None and self.read_tool.encode() in tools.names and not first and not self.injected:
                edit = tools.injection
                there = edit is not None and not edit.data
                edit = edit if there else None
            if edit is None:
                self.can_cut = False
                self.note(
                    "READ_BACK_NOT_INJECTED",
                    "the tool cannot be added to this body, or the session began without it: nothing new was taken out",
                )
                return None
            self.injected = self.injected or first
            return None if there else edit
        return kept if kept is not None and kept.data else None

    # The finished body ------------------------------------------------------------------------------------------------

    def _finish(self) -> FitResult:
        given, session, intake = self.given, self.session, self.intake
        finished = self._finished()
        projection, plan, view = self.projection, self.fit_plan, self.view
        after = finished.scan
        change = change_of(self, plan, after)
        if given.expected_revision is not None and change.anything and given.expected_revision != session.head.revision:
            raise RevisionConflictError(
                f"the session is at revision {session.head.revision}, not {given.expected_revision}",
                hint="another writer was faster: read the session again, then repeat",
                revision=session.head.revision,
            )
        durable, revision = session.flushed(), session.head.revision
        stable = self._stable_bytes(finished)
        sent = session.sent
        self.front_changed = sent is not None and bool(sent.items) and stable < sent.items[-1].end
        if not given.dry_run:
            durable, revision = self._commit(change)
            session.seen = self.seen(proven=not plan.cuts)
            session.sent = finished
            session.sent_places = None if projection.fold is None else projection.fold.places
            session.last_ms = self.now_ms
            session.ratio, session.usage = self.ratio, self.usage
        totals = totals_of(self.applied, projection.fold) if plan.cuts else projection.totals
        inapplicable = projection.record_count - len(projection.applied) - projection.hidden_count + len(self.aside)
        result = answer(
            self,
            self.applied,
            totals,
            inapplicable,
            finished.scan.body != given.body,
            self.placed,
            view,
            plan,
            change,
            after,
            stable,
            durable,
            revision,
        )
        # What a call that changed nothing answers, it answers again: an agent repeats a request that its provider refused.
        steady = not change.anything and durable and stable == len(after.body) and intake.rewritten_count == 0
        told = given.usage is not None or given.usage_json is not None
        timed = self.limits.cache_ttl_ms > 0
        if not given.dry_run:
            session.again = Again(given, result, session.head) if steady and not told and not timed else None
        return result

    def _finished(self) -> Reading:
        """The body as it leaves."""
        if self.fit_plan.cuts and self.projection.fold is not None:
            try:
                return self._cut()
            except InternalError:
                # It held before these cuts. Without summaries there is no more to it than cuts.
                before = {id(record) for record in self.aside}
                self._shape(plain_shape(self))
                self._note_aside([record for record in self.aside if id(record) not in before])
        return self._cut()

    def _cut(self) -> Reading:
        self.applied = self.projection.applied
        placed = self.projection.placed
        if not self.fit_plan.cuts:
            self.placed = with_tool(self, placed)
            return self.by_records()
        placed, self.applied = self._place(self.adapter, self.projection, self.fit_plan.cuts)
        self.placed = with_tool(self, placed)
        return hold(self, self.placed, self.projection.fold)

    def _stable_bytes(self, finished: Reading) -> int:
        """Leading bytes that are those of the body answered before; what was taken over from it is not compared again."""
        session = self.session
        if session.sent is None:
            return 0
        read_from = session.sent if finished is not self.intake.reading else session.seen and session.seen.reading
        known = finished.items[finished.reused - 1].end if finished.reused and read_from is session.sent else 0
        return common_prefix(finished.scan.body, session.sent.scan.body, known)

    def seen(self, *, proven: bool = False) -> Seen:
        """What the next call can take over, once all of this call is kept."""
        intake = self.intake
        return Seen(
            reading=intake.reading,
            tools=intake.tools,
            matches=intake.matches_again(),
            numbers=intake.numbers,
            ranges=intake.ranges,
            raw_bytes=intake.raw_bytes,
            grouped=intake.grouped,
            sums=self.sums,
            projection=self.projection,
            proven=proven,
            markers=intake.markers,
            revision=self.session.head.revision,
        )

    def history_digest(self) -> bytes:
        """Equal for equal histories."""
        new = {item.meta.number: item.meta.digest for item in self.intake.new_items}
        metas = self.session.metas
        return self.session.chain_of(
            self.intake.numbers, lambda number: new[number] if number in new else metas[number].digest, self.intake.same_count
        )

    def _place(self, adapter: Adapter, projection: Projection, cuts: Sequence[Built]) -> tuple[list[Placed], list[Applied]]:
        """All edits in order of position. Elements that go from one list are placed together, so that commas stay right."""
        going: dict[int, list[Path]] = {}
        for cut in cuts:
            if not cut.replacement:
                going.setdefault(cut.candidate.item, []).append(cut.raw_path)
        placed = [each for each in projection.placed if each.item not in going]
        applied = [each for each in projection.applied if each.item not in going]
        spans: dict[tuple[int, Path], tuple[int, int]] = {}
        for at, paths in going.items():
            records = self.session.records.get(self.intake.numbers[at], [])
            count = self.intake.alignment.items[at].record_count
            item = self.intake.items[at]
            markers = marker_paths(self.intake.body, item, self.intake.parts)
            again, found = apply_records(adapter, self.intake.body, item.start, at, records, count, paths, markers)
            applied += again
            placed += [Placed(each.edit, each.record.kind, at, True) for each in again if each.edit is not None]
            spans.update({(at, path): span for path, span in found.items()})
        held = open_spans(self.intake.items, self.intake.parts, self.intake.units) if cuts else []
        for cut in cuts:
            at = cut.candidate.item
            span = (cut.candidate.start, cut.candidate.end) if cut.replacement else spans[(at, cut.raw_path)]
            edit = replace_value(adapter, self.intake.body, span, cut.replacement)
            settled = not any(start < edit.end and edit.start < end for start, end in held)
            placed.append(Placed(edit, cut.candidate.kind, at, settled))
            self.cut_edits[(at, cut.raw_path)] = edit
        placed.sort(key=position)
        return placed, applied

    def _commit(self, change: Change) -> tuple[bool, int]:
        """Durable or queued; (journal_durable, revision)."""
        try:
            return commit(self.engine, self.session, change)
        except TrimtabError as error:
            self.engine.sessions.drop(self.session)
            if change.must_keep or error.reason not in ("STORE_FULL", "STORE_FAILED"):
                raise
            self.note(error.reason, f"{error}: the body may be sent; nothing new was kept")
            return False, change.old_head.revision


def _with_result(old: ReceiptRecord | None, new: ReceiptRecord) -> ReceiptRecord:
    """A receipt without a result, with the one that was recorded before, unless it says that the effect ended otherwise."""
    if old is None or new.result or old.closing or not (new.state is old.state or new.state in _SAYS_LESS):
        return new
    return msgspec.structs.replace(new, result=old.result) if old.result else new


def _same_receipt(old: ReceiptRecord | None, new: ReceiptRecord) -> bool:
    """It says nothing new: a repeated Fit brings the same receipts again."""
    return old is not None and (old.state, old.idempotency_key, old.detail, old.result) == (
        new.state,
        new.idempotency_key,
        new.detail,
        new.result,
    )
