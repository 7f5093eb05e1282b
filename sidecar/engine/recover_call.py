"""One call of Recover: what is durably known of a session, from the store alone; on request, what died is closed."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from fastpath import Edit, Item, Role, splice
from sidecar.core.branch import BranchIndex
from sidecar.core.closing import Closing, OpenTurn, closing_of, open_turns
from sidecar.core.compaction import AttemptState, RequestRecord
from sidecar.core.errors import InternalError, InvalidFieldError, MalformedBodyError, RevisionConflictError, SessionNotFoundError
from sidecar.core.fold import holds_results
from sidecar.core.types import Anchors, CallKey, EffectState, ReceiptRecord, Source
from sidecar.core.units import Call
from sidecar.engine.answer import pressure
from sidecar.engine.compact_call import NO_CUTS, write
from sidecar.engine.compact_views import attempt_view, checkpoint_views
from sidecar.engine.fit_call import FitCall
from sidecar.engine.fit_change import change_of
from sidecar.engine.messages import (
    AnchorsGiven,
    CallRef,
    ConstraintGiven,
    CriterionGiven,
    DecisionGiven,
    Note,
    SourceRef,
    TokenBasis,
    WorkGiven,
)
from sidecar.engine.reading import Reading
from sidecar.engine.rebuild import known_body, stored_body
from sidecar.engine.receipts import items_of, late_results, part_of
from sidecar.engine.record_call import known_request, plan_on, untold_with
from sidecar.engine.record_messages import (
    OpenCallView,
    PinView,
    ReceiptView,
    RecordInput,
    RecoverInput,
    RecoverResult,
)
from sidecar.engine.refs import shown
from sidecar.engine.session import Session
from sidecar.formats import adapter as adapter_of
from sidecar.formats.base import Adapter, ContentSpan, ReadBackCall

if TYPE_CHECKING:
    from sidecar.engine.engine import Engine

__all__ = ["RecoverCall"]

Late = dict[int, bytes]
"""By the index of a result part that only closes its call: the result that came since."""

Closed = dict[tuple[int, int], bytes]
"""By (number of the item that holds the call, call_index): the result that was written for it."""

_CLOSED = msgspec.msgpack.Decoder(list[tuple[int, int, bytes]])


_NOTES_OF_BODY = ("INVALID_HISTORY", "CHECKPOINT_ASIDE", "ANCHORS_CHANGED")


class _Placed(NamedTuple):
    """An item to add."""

    behind: int  # index of the item before it
    item: bytes
    closes: bool  # something in it is no real result


class _Settled(NamedTuple):
    """What a turn lacks."""

    items: list[_Placed]
    results: Closed
    waits: bool  # there are calls that stay open
    told: bool  # some of the results are the agent's own


class RecoverCall:
    """State of one call. Used once, under the session's lock."""

    def __init__(self, engine: Engine, session: Session, given: RecoverInput) -> None:
        """Nothing is read or written yet."""
        self.engine = engine
        self.session = session
        self.given = given
        self.notes: list[Note] = []

    def run(self) -> RecoverResult:
        """Do it. All of the session is durable, and in step with the store."""
        given, session = self.given, self.session
        if not session.exists and not session.metas:
            raise SessionNotFoundError("no such session", hint="check scope and session_id; a deleted session is gone for good")
        if given.include_body and not session.envelope_digest:
            stored_body(self.engine, session)  # refuses, before anything is written
        adapter = adapter_of(session.head.format)
        fit = self._read(adapter)
        turns = open_turns(fit.intake.units, fit.not_final)
        if given.close_interrupted:
            closed = self._close(adapter, fit, turns)
            keys = list(closed)
            keys += [key for turn in turns for call in turn.open if (key := _key(fit, call)) not in closed]
            fit = self._read(adapter)
            self._note_waiting(fit)
        else:
            closed = {}
            keys = [_key(fit, call) for turn in turns for call in turn.open]
            fit = self._with_recorded(adapter, fit, turns)
        calls = [call for key in keys if (call := fit.refs.call_at(*key)) is not None]
        calls.sort(key=lambda call: (call.item, call.call_index))
        return self._answer(adapter, fit, tuple(self._open_view(fit, call, closed) for call in calls))

    # Reading ----------------------------------------------------------------------------------------------------------

    def _read(self, adapter: Adapter) -> FitCall:
        """What is durable: cache markers that a body brought are not in it."""
        body, _ = known_body(self.engine, self.session, adapter, stored=True)
        return plan_on(self.engine, self.session, adapter, body, RecordInput(self.session.key, ""))

    def _with_recorded(self, adapter: Adapter, fit: FitCall, turns: Sequence[OpenTurn]) -> FitCall:
        """The same body with the results of turns of which each call's is known; nothing is written."""
        placed: list[_Placed] = []
        late = self._late(adapter, fit)
        for turn in turns:
            found = self._settle_turn(adapter, fit, turn)
            if not found.waits and found.told:
                placed += found.items
        if not placed and not late:
            return fit
        touched = len(placed) + len({fit.intake.parts[index].item for index in late})
        self.notes.append(
            Note("RESULTS_FROM_RECEIPTS", f"{touched} items hold results that came with receipts: adopt the body with them")
        )
        body = _with(adapter, fit, placed, late, [])
        return plan_on(self.engine, self.session, adapter, body, RecordInput(self.session.key, ""))

    def _late(self, adapter: Adapter, fit: FitCall) -> Late:
        """Results that came with receipts after their calls were closed, by the part that closed each."""
        late = late_results(self.session.receipts, self.session.closed, fit.refs, fit.closing)
        return {index: part_of(adapter, result) for call, result in late for index in call.results if index in fit.closing}

    # Closing ----------------------------------------------------------------------------------------------------------

    def _close(self, adapter: Adapter, fit: FitCall, turns: Sequence[OpenTurn]) -> Closed:
        """Give calls that died an honest result. When this was asked before: what it came to then."""
        given, session = self.given, self.session
        if not given.request_id:
            raise InvalidFieldError("request_id is required with close_interrupted", field="request_id")
        digest = sha256(b"close_interrupted").digest()
        known = known_request(session, given.request_id, digest)
        if known is not None:
            return {(number, index): result for number, index, result in _CLOSED.decode(known.detail)}
        head = session.head
        if given.expected_revision is not None and given.expected_revision != head.revision:
            raise RevisionConflictError(
                f"the session is at revision {head.revision}, not {given.expected_revision}",
                hint="another process is at work on this session",
                revision=head.revision,
            )
        closed: Closed = {}
        receipts: list[ReceiptRecord] = []
        placed: list[_Placed] = []
        for turn in turns:
            written = [self._closing_receipt(adapter, fit, call, closing) for call, closing in self._died(adapter, fit, turn)]
            found = self._settle_turn(adapter, fit, turn, written)
            receipts += written
            placed += found.items
            closed.update(found.results)
        self._write(adapter, fit, digest, closed, receipts, placed, self._late(adapter, fit))
        return closed

    def _note_waiting(self, fit: FitCall) -> None:
        """Say which turns are not closed."""
        waiting = [turn for turn in open_turns(fit.intake.units, fit.not_final) if any(not call.results for call in turn.open)]
        if waiting:
            self.notes.append(
                Note("CALLS_WAITING", f"{len(waiting)} turns have calls that wait for a person or a long job: they stay open")
            )

    def _died(self, adapter: Adapter, fit: FitCall, turn: OpenTurn) -> list[tuple[Call, Closing]]:
        """Calls without any result, with what an honest one says."""
        found = []
        for call in turn.open:
            receipt = self._receipt(fit, call)
            closing = closing_of(receipt)
            known = call.results or (receipt is not None and receipt.result)
            if closing is not None and not known and adapter.takes_text(_content(fit, call)):
                found.append((call, closing))
        return found

    def _closing_receipt(self, adapter: Adapter, fit: FitCall, call: Call, closing: Closing) -> ReceiptRecord:
        receipt = self._receipt(fit, call)
        number, index = _key(fit, call)
        return ReceiptRecord(
            call=CallKey(number, index, shown(call.id)),
            state=closing.state,
            idempotency_key="" if receipt is None else receipt.idempotency_key,
            detail="closed after a crash" if receipt is None else receipt.detail,
            result=adapter.result(_asked(adapter, fit, call), closing.text, is_error=closing.state is not EffectState.SETTLED),
            revision=self.session.head.revision + 1,
            next_number=len(self.session.metas),
            closing=True,
            holds=receipt is not None and receipt.state is EffectState.UNKNOWN,
        )

    def _settle_turn(self, adapter: Adapter, fit: FitCall, turn: OpenTurn, written: Sequence[ReceiptRecord] = ()) -> _Settled:
        """Items with the results that a turn lacks, from receipts: those there are, and those written now."""
        receipts = dict(self.session.receipts)
        receipts.update({(each.call.number, each.call.call_index): each for each in written})
        results: Closed = {}
        groups: dict[int, list[ReceiptRecord]] = {}  # by the item behind which they stand
        waits = False
        for call in turn.open:
            if call.results:
                continue  # closed before
            key = _key(fit, call)
            receipt = receipts.get(key)
            if receipt is None or not receipt.result:
                waits = True
                continue
            results[key] = receipt.result
            groups.setdefault(turn.unit.turn[-1] if adapter.behind_turn else call.item, []).append(receipt)
        if waits and adapter.joins_results:
            groups = {}  # its results are one item, which is not complete
        items = []
        for at, group in groups.items():
            if adapter.joins_results:
                closes = any(receipt.closing for receipt in group)
                items += [_Placed(at, item, closes) for item in items_of(adapter, [receipt.result for receipt in group])]
                continue
            behind = _last_result(fit, at)
            items += [_Placed(behind, item, each.closing) for each in group for item in items_of(adapter, [each.result])]
        told = any(not receipt.closing for group in groups.values() for receipt in group)
        return _Settled(items, results, waits, told)

    def _write(
        self,
        adapter: Adapter,
        fit: FitCall,
        digest: bytes,
        closed: Closed,
        receipts: list[ReceiptRecord],
        placed: Sequence[_Placed],
        late: Late,
    ) -> None:
        session, given, head = self.session, self.given, self.session.head
        again = fit
        joined: list[bytes] = []
        if placed or late:
            body = _with(adapter, fit, placed, late, joined)
            again = plan_on(self.engine, session, adapter, body, RecordInput(session.key, ""))
        change = change_of(again, NO_CUTS, again.intake.scan)
        revision = head.revision + (1 if placed or late or receipts else 0)
        change.scan = None
        closing = {*joined, *(each.item for each in placed if each.closes)}
        change.items = [
            msgspec.structs.replace(item, meta=msgspec.structs.replace(item.meta, closing=item.raw in closing))
            for item in change.items
        ]
        change.head = msgspec.structs.replace(
            change.head,
            revision=revision,
            read_back=head.read_back,
            read_back_tool_name=head.read_back_tool_name,
            injected=head.injected,
            untold=untold_with(head.untold, change.items),
        )
        change.receipts = receipts
        detail = msgspec.msgpack.encode([(number, index, result) for (number, index), result in closed.items()])
        change.requests = [
            RequestRecord(given.request_id, digest, revision, len(again.intake.items), again.history_digest(), detail)
        ]
        change.must_keep = change.must_wait = True
        write(self.engine, session, change)

    def _receipt(self, fit: FitCall, call: Call) -> ReceiptRecord | None:
        return self.session.receipts.get(_key(fit, call))

    # The answer -------------------------------------------------------------------------------------------------------

    def _sent(self, fit: FitCall) -> Reading | None:
        """The body, held against the contract. What else is known of the session is told whatever became of it."""
        try:
            return fit.by_records()
        except InternalError as error:
            if self.given.include_body:
                raise
            self.notes.append(Note("BODY_BROKEN", error.message))
            return None

    def _open_view(self, fit: FitCall, call: Call, closed: Closed) -> OpenCallView:
        receipt = self._receipt(fit, call)
        return OpenCallView(
            call=CallRef(shown(call.id), call.item, call.call_index),
            tool_name=shown(_name(fit, call)),
            content=_content(fit, call),
            receipt=None if receipt is None else self._receipt_view(receipt, fit),
            closed_by=closed.get(_key(fit, call), b""),
        )

    def _receipt_view(self, receipt: ReceiptRecord, fit: FitCall) -> ReceiptView:
        index = fit.refs.index_of(receipt.call.number)
        ref = CallRef(receipt.call.call_id, None if index < 0 else index, receipt.call.call_index)
        return ReceiptView(ref, receipt.state, receipt.idempotency_key, receipt.detail, receipt.result)

    def _answer(self, adapter: Adapter, fit: FitCall, views: tuple[OpenCallView, ...]) -> RecoverResult:
        session, given = self.session, self.given
        index = BranchIndex(session.head.branch)
        final = {
            _key(fit, call)
            for unit in fit.intake.units
            for call in unit.calls
            if any(index not in fit.closing for index in call.results)
        }
        # What closed a call says nothing any more once its real result came.
        told = [each for key, each in session.receipts.items() if not (each.closing and not each.holds and key in final)]
        receipts = sorted(
            told,
            key=lambda each: (index.index_of(each.call.number) < 0, index.index_of(each.call.number), each.call.call_index),
        )
        attempts = [
            attempt_view(each, index)
            for each in session.attempts.values()
            if each.state in (AttemptState.RESERVED, AttemptState.DISPATCHED, AttemptState.UNKNOWN)
        ]
        has_body = bool(session.envelope_digest)
        sent = self._sent(fit) if has_body else None
        told_of_body = [note for note in fit.notes if note.reason in _NOTES_OF_BODY] if has_body else []
        return RecoverResult(
            format=adapter.format,
            revision=session.head.revision,
            item_count=len(session.branch),
            history_digest=session.chain[-1] if session.chain else b"",
            anchors=anchors_view(session.anchors, index),
            body=sent.scan.body if given.include_body and sent is not None else b"",
            pressure=None if sent is None else pressure(sent.scan.sizes, None, TokenBasis.UNKNOWN),
            checkpoints=tuple(view for view in checkpoint_views(session) if view.live),
            attempts=tuple(attempts),
            open_calls=views,
            artifact_count=len(session.artifact_ids),
            notes=(*self.notes, *told_of_body),
            receipts=tuple(self._receipt_view(each, fit) for each in receipts),
            pins=tuple(
                PinView(
                    None
                    if pin.call is None
                    else CallRef(
                        pin.call.call_id,
                        None if index.index_of(pin.call.number) < 0 else index.index_of(pin.call.number),
                        pin.call.call_index,
                    ),
                    pin.tool_name,
                )
                for pin in session.pins
            ),
        )


def _key(fit: FitCall, call: Call) -> tuple[int, int]:
    return fit.intake.numbers[call.item], call.call_index


def _content(fit: FitCall, call: Call) -> bytes:
    return fit.intake.body[call.part.start : call.part.end]


def _name(fit: FitCall, call: Call) -> bytes:
    return fit.intake.reading.decode(call.part.name_start, call.part.name_end) if call.part.name_start >= 0 else b""


def _asked(adapter: Adapter, fit: FitCall, call: Call) -> ReadBackCall:
    """A call as a result of it is written; one that the dialect's own reader refuses has its id all the same."""
    try:
        return adapter.parse_call(_content(fit, call))
    except MalformedBodyError:
        part = call.part
        raw_id = fit.intake.body[part.id_start : part.id_end] if part.id_start >= 0 else b'""'
        return ReadBackCall(shown(call.id), shown(_name(fit, call)), None, raw_id)


def _last_result(fit: FitCall, at: int) -> int:
    """The last of the items with results that stand directly behind an item; that one when there are none."""
    items = fit.intake.items
    while at + 1 < len(items) and items[at + 1].role == Role.RESULT:
        at += 1
    return at


def _with(adapter: Adapter, fit: FitCall, placed: Sequence[_Placed], late: Late, joined: list[bytes]) -> bytes:
    """A body with items added, each behind its turn, and with results in the place of what closed their calls.

    Where the API wants one item, what is added goes to the front of the user item that follows; `joined` gets each that thus
    holds results that only close a call.
    """
    body, items, parts = fit.intake.body, fit.intake.items, fit.intake.parts
    edits = [Edit(parts[index].start, parts[index].end, result) for index, result in late.items()]
    for each in placed:
        span = _follower(adapter, fit, each.behind)
        if span is None:
            edits.append(Edit(items[each.behind].end, items[each.behind].end, b"," + each.item))
            continue
        own = adapter.content_span(each.item, Item(0, len(each.item), Role.USER, 0, 0, 0, 0, 0, 0, 0))
        assert own is not None  # an adapter's own results
        added = each.item[own.elements[0][0] : own.elements[-1][1]] + b","
        edits.append(Edit(span.elements[0][0], span.elements[0][0], added))
        item = items[each.behind + 1]
        if each.closes:
            joined.append(body[item.start : span.elements[0][0]] + added + body[span.elements[0][0] : item.end])
    return splice(body, sorted(edits, key=lambda edit: edit[0]))


def _follower(adapter: Adapter, fit: FitCall, at: int) -> ContentSpan | None:
    """Content of the user item behind an item where results that are added must be in that item."""
    items, parts = fit.intake.items, fit.intake.parts
    if adapter.one_item == "none" or at + 1 >= len(items) or items[at + 1].role != Role.USER:
        return None
    if adapter.one_item == "results" and not holds_results(items[at + 1], parts):
        return None
    return adapter.content_span(fit.intake.body, items[at + 1])


def anchors_view(anchors: Anchors, index: BranchIndex) -> AnchorsGiven:
    """Anchors in force, with sources by place on the branch."""

    def source(each: Source) -> SourceRef:
        if each.call is not None:
            at = index.index_of(each.call.number)
            return SourceRef(call=CallRef(each.call.call_id, None if at < 0 else at, each.call.call_index))
        if each.number is not None:
            return SourceRef(item_index=index.index_of(each.number))
        return SourceRef(artifact_id=each.artifact_id, note=each.note)

    return AnchorsGiven(
        goal=anchors.goal,
        success_criteria=tuple(CriterionGiven(c.id, c.text, c.revoked) for c in anchors.success_criteria),
        constraints=tuple(
            ConstraintGiven(c.id, c.text, None if c.source is None else source(c.source), c.revoked) for c in anchors.constraints
        ),
        decisions=tuple(DecisionGiven(d.id, d.text, tuple(map(source, d.sources)), d.revoked) for d in anchors.decisions),
        work=tuple(WorkGiven(w.id, w.text, w.state, tuple(map(source, w.evidence))) for w in anchors.work),
    )
