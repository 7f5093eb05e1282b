"""One call of Recover: what is durably known of a session, from the store alone; on request, what died is closed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from sidecar.core.branch import BranchIndex
from sidecar.core.closing import OpenTurn, closing_of, open_turns
from sidecar.core.compaction import AttemptState, RequestRecord
from sidecar.core.errors import InvalidFieldError, RevisionConflictError, SessionNotFoundError
from sidecar.core.types import Anchors, CallKey, EffectState, ReceiptRecord, Source
from sidecar.core.units import Call
from sidecar.engine.answer import pressure
from sidecar.engine.compact_call import NO_CUTS, write
from sidecar.engine.compact_views import attempt_view, checkpoint_views
from sidecar.engine.compaction import Compaction
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
from sidecar.engine.rebuild import known_body, stored_body
from sidecar.engine.record_call import known_request, plan_on
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
from sidecar.formats.base import Adapter

if TYPE_CHECKING:
    from sidecar.engine.engine import Engine

__all__ = ["RecoverCall"]

Closed = dict[tuple[int, int], bytes]
"""By (number of the item that holds the call, call_index): the result that was written for it."""

_CLOSED = msgspec.msgpack.Decoder(list[tuple[int, int, bytes]])


class RecoverCall:
    """State of one call. Used once, under the session's lock."""

    def __init__(self, engine: Engine, session: Session, given: RecoverInput) -> None:
        """Nothing is read or written yet."""
        self.engine = engine
        self.session = session
        self.given = given
        self.notes: list[Note] = []

    def run(self) -> RecoverResult:
        """Do it."""
        given, session = self.given, self.session
        if not session.exists and not session.metas:
            raise SessionNotFoundError("no such session", hint="check scope and session_id; a deleted session is gone for good")
        adapter = adapter_of(session.head.format)
        fit = self._read(adapter)
        turns = self._turns(fit)
        open_calls = [(turn, call) for turn in turns for call in turn.open]
        closed: Closed = {}
        if given.close_interrupted:
            closed, open_calls = self._close(adapter, fit, turns, open_calls)
            fit = self._read(adapter)
        else:
            fit = self._with_recorded(adapter, fit, turns)
        views = tuple(self._open_view(fit, call, closed) for _, call in open_calls)
        return self._answer(adapter, fit, views)

    # Reading ----------------------------------------------------------------------------------------------------------

    def _read(self, adapter: Adapter) -> FitCall:
        body, _ = known_body(self.engine, self.session, adapter)
        return plan_on(self.engine, self.session, adapter, body, RecordInput(self.session.key, ""))

    def _turns(self, fit: FitCall) -> list[OpenTurn]:
        closing = {index for number in self.session.closing if (index := fit.refs.index_of(number)) >= 0}
        return open_turns(fit.intake.units, fit.intake.parts, closing)

    def _with_recorded(self, adapter: Adapter, fit: FitCall, turns: Sequence[OpenTurn]) -> FitCall:
        """The same body with the results of turns of which each call's was recorded with a receipt; nothing is written."""
        added: dict[int, list[bytes]] = {}
        for turn in turns:
            results = [receipt.result if (receipt := self._receipt(fit, call)) is not None else b"" for call in turn.calls]
            if all(results) and not any(call.results for call in turn.calls):
                added[turn.unit.turn[-1]] = adapter.result_items(results)
        if not added:
            return fit
        self.notes.append(Note("RESULTS_FROM_RECEIPTS", f"{len(added)} turns stand with results that came with receipts alone"))
        return plan_on(self.engine, self.session, adapter, self._with(fit, added), RecordInput(self.session.key, ""))

    def _receipt(self, fit: FitCall, call: Call) -> ReceiptRecord | None:
        return self.session.receipts.get((fit.intake.numbers[call.item], call.call_index))

    def _content(self, fit: FitCall, call: Call) -> bytes:
        return fit.intake.body[call.part.start : call.part.end]

    # Closing ----------------------------------------------------------------------------------------------------------

    def _close(
        self, adapter: Adapter, fit: FitCall, turns: Sequence[OpenTurn], open_calls: list[tuple[OpenTurn, Call]]
    ) -> tuple[Closed, list[tuple[OpenTurn, Call]]]:
        """Give calls that died an honest result. Also the calls that were open when this was first asked."""
        given, session = self.given, self.session
        if not given.request_id:
            raise InvalidFieldError("request_id is required with close_interrupted", field="request_id")
        digest = sha256(b"close_interrupted").digest()
        known = known_request(session, given.request_id, digest)
        if known is not None:
            closed = {(number, index): result for number, index, result in _CLOSED.decode(known.detail)}
            calls = {(fit.intake.numbers[c.item], c.call_index): c for unit in fit.intake.units for c in unit.calls}
            still = {(fit.intake.numbers[c.item], c.call_index): turn for turn, c in open_calls}
            spare = turns[0] if turns else OpenTurn(fit.intake.units[0], [], []) if fit.intake.units else None
            return closed, [(turn, calls[key]) for key in closed if key in calls and (turn := still.get(key, spare)) is not None]
        head = session.head
        if given.expected_revision is not None and given.expected_revision != head.revision:
            raise RevisionConflictError(
                f"the session is at revision {head.revision}, not {given.expected_revision}",
                hint="another process is at work on this session",
                revision=head.revision,
            )
        closed = {}
        receipts: list[ReceiptRecord] = []
        added: dict[int, list[bytes]] = {}  # by index of the item behind which they stand
        for turn in turns:
            self._close_turn(adapter, fit, turn, closed, receipts, added)
        self._write(adapter, fit, digest, closed, receipts, added)
        told = [(turn, call) for turn, call in open_calls]
        return closed, told

    def _close_turn(
        self,
        adapter: Adapter,
        fit: FitCall,
        turn: OpenTurn,
        closed: Closed,
        receipts: list[ReceiptRecord],
        added: dict[int, list[bytes]],
    ) -> None:
        """Results of one turn, where all of its calls have one then; else what can be said is kept with receipts."""
        numbers, next_number = fit.intake.numbers, len(self.session.metas)
        results: list[bytes] = []
        waits = answered = False
        for call in turn.calls:
            receipt = self._receipt(fit, call)
            key = (numbers[call.item], call.call_index)
            if call not in turn.open or call.results:
                answered = True  # by a real result, or closed before
                continue
            if receipt is not None and receipt.result:
                results.append(receipt.result)
                closed[key] = receipt.result
                continue
            closing = closing_of(receipt)
            if closing is None:
                waits = True
                continue
            asked = adapter.parse_call(self._content(fit, call))
            result = adapter.result(asked, closing.text, is_error=closing.state is not EffectState.SETTLED)
            results.append(result)
            closed[key] = result
            receipts.append(
                ReceiptRecord(
                    call=CallKey(key[0], key[1], shown(call.id)),
                    state=closing.state,
                    idempotency_key="" if receipt is None else receipt.idempotency_key,
                    detail="closed after a crash" if receipt is None else receipt.detail,
                    result=result,
                    revision=self.session.head.revision + 1,
                    next_number=next_number,
                    closing=True,
                )
            )
        if not results:
            return
        if adapter.merges_users and (waits or answered):
            return  # its results are one item, which is not complete
        behind = max((fit.intake.parts[index].item for call in turn.calls for index in call.results), default=turn.unit.turn[-1])
        added[max(behind, turn.unit.turn[-1])] = adapter.result_items(results)

    def _write(
        self,
        adapter: Adapter,
        fit: FitCall,
        digest: bytes,
        closed: Closed,
        receipts: list[ReceiptRecord],
        added: Mapping[int, Sequence[bytes]],
    ) -> None:
        session, given, head = self.session, self.given, self.session.head
        closing_now = [item for items in added.values() for item in items]
        body = self._with(fit, added) if closing_now else fit.intake.body
        again = plan_on(self.engine, session, adapter, body, RecordInput(session.key, ""))
        change = change_of(again, NO_CUTS, again.intake.scan)
        revision = head.revision + 1
        change.head = msgspec.structs.replace(
            change.head,
            revision=revision,
            read_back=head.read_back,
            read_back_tool_name=head.read_back_tool_name,
            injected=head.injected,
        )
        change.scan = None
        written = [receipt.result for receipt in receipts]
        change.items = [
            msgspec.structs.replace(
                item,
                meta=msgspec.structs.replace(item.meta, closing=any(result in item.raw for result in written), recorded=True),
            )
            for item in change.items
        ]
        change.receipts = receipts
        detail = msgspec.msgpack.encode([(number, index, result) for (number, index), result in closed.items()])
        change.requests = [
            RequestRecord(given.request_id, digest, revision, len(again.intake.items), again.history_digest(), detail)
        ]
        change.must_keep = change.must_wait = True
        write(self.engine, session, change)
        session.seen = again.seen()

    def _with(self, fit: FitCall, added: Mapping[int, Sequence[bytes]]) -> bytes:
        body, items = fit.intake.body, fit.intake.items
        pieces: list[bytes] = []
        at = 0
        for index in sorted(added):
            end = items[index].end
            pieces.append(body[at:end])
            pieces += [b"," + item for item in added[index]]
            at = end
        pieces.append(body[at:])
        return b"".join(pieces)

    # The answer -------------------------------------------------------------------------------------------------------

    def _open_view(self, fit: FitCall, call: Call, closed: Closed) -> OpenCallView:
        key = (fit.intake.numbers[call.item], call.call_index)
        receipt = self.session.receipts.get(key)
        name = fit.intake.reading.decode(call.part.name_start, call.part.name_end) if call.part.name_start >= 0 else b""
        return OpenCallView(
            call=CallRef(shown(call.id), call.item, call.call_index),
            tool_name=shown(name),
            content=self._content(fit, call),
            receipt=None if receipt is None else self._receipt_view(receipt, fit),
            closed_by=closed.get(key, b""),
        )

    def _receipt_view(self, receipt: ReceiptRecord, fit: FitCall) -> ReceiptView:
        index = fit.refs.index_of(receipt.call.number)
        ref = CallRef(receipt.call.call_id, None if index < 0 else index, receipt.call.call_index)
        return ReceiptView(ref, receipt.state, receipt.idempotency_key, receipt.detail, receipt.result)

    def _answer(self, adapter: Adapter, fit: FitCall, views: tuple[OpenCallView, ...]) -> RecoverResult:
        session, given = self.session, self.given
        index = BranchIndex(session.head.branch)
        closing = {at for number in session.closing if (at := index.index_of(number)) >= 0}
        final = {
            (fit.intake.numbers[call.item], call.call_index)
            for unit in fit.intake.units
            for call in unit.calls
            if any(fit.intake.parts[part].item not in closing for part in call.results)
        }
        # What closed a call says nothing any more once its real result came.
        told = [each for key, each in session.receipts.items() if not (each.closing and key in final)]
        receipts = sorted(
            told,
            key=lambda each: (index.index_of(each.call.number) < 0, index.index_of(each.call.number), each.call.call_index),
        )
        attempts = [
            attempt_view(each, index)
            for each in session.attempts.values()
            if each.state in (AttemptState.RESERVED, AttemptState.DISPATCHED, AttemptState.UNKNOWN)
        ]
        sent = Compaction(fit).before
        has_body = bool(session.envelope_digest)
        if given.include_body and not has_body:
            stored_body(self.engine, session)
        return RecoverResult(
            format=adapter.format,
            revision=session.head.revision,
            item_count=len(session.branch),
            history_digest=session.chain[-1] if session.chain else b"",
            anchors=anchors_view(session.anchors, index),
            body=sent.scan.body if given.include_body else b"",
            pressure=pressure(sent.scan.sizes, None, TokenBasis.UNKNOWN) if has_body else None,
            checkpoints=tuple(view for view in checkpoint_views(session) if view.live),
            attempts=tuple(attempts),
            open_calls=views,
            artifact_count=len(session.artifact_ids),
            notes=tuple(self.notes),
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
