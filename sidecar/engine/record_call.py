"""One call of Record: items, receipts and anchors between two model calls, durable when it returns.

Recorded items go through the same pipeline as a body's: the history as last told, with them at its end, is taken in as if it had
come. So the next body, which repeats them, finds everything understood already.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from fastpath import Edit, Kind, MalformedError, canon, scan, splice, strip_markers
from sidecar.core.branch import Ranges, from_ranges, to_ranges
from sidecar.core.compaction import RequestRecord
from sidecar.core.errors import InvalidFieldError, MalformedBodyError, RequestIdReusedError, RevisionConflictError
from sidecar.core.types import Format, JournalItem, ReadBack
from sidecar.engine.compact_call import NO_CUTS, write
from sidecar.engine.fit_call import FitCall
from sidecar.engine.fit_change import change_of
from sidecar.engine.messages import FitInput
from sidecar.engine.rebuild import Spans, known_body
from sidecar.engine.record_messages import RecordInput, RecordResult
from sidecar.engine.session import Session
from sidecar.formats import adapter as adapter_of
from sidecar.formats.base import Adapter
from sidecar.formats.values import value_text

if TYPE_CHECKING:
    from sidecar.engine.engine import Engine

__all__ = ["RecordCall", "plan_on", "read_items", "untold_with"]


class RecordCall:
    """State of one call. Used once, under the session's lock."""

    def __init__(self, engine: Engine, session: Session, given: RecordInput) -> None:
        """Nothing is read or written yet."""
        self.engine = engine
        self.session = session
        self.given = given

    def run(self) -> RecordResult:
        """Do it."""
        given, session = self.given, self.session
        digest = content_digest(given)
        known = known_request(session, given.request_id, digest)
        if known is not None:
            return RecordResult(known.revision, known.item_count, known.history_digest)
        head = session.head
        if given.expected_revision is not None and given.expected_revision != head.revision:
            raise RevisionConflictError(
                f"the session is at revision {head.revision}, not {given.expected_revision}",
                hint="another writer was faster: read the session again, then repeat",
                revision=head.revision,
            )
        adapter = self._adapter()
        body = self._body(adapter, read_items(given.items, adapter))
        fit = plan_on(self.engine, session, adapter, body, given)
        change = change_of(fit, NO_CUTS, fit.intake.scan)
        revision = head.revision + 1
        change.head = msgspec.structs.replace(
            change.head,
            revision=revision,
            read_back=head.read_back,
            read_back_tool_name=head.read_back_tool_name,
            injected=head.injected,
            untold=untold_with(head.untold, change.items),
        )
        change.scan = None  # no body was told: the newest envelope stays
        history = fit.history_digest()
        request = RequestRecord(given.request_id, digest, revision, len(fit.intake.items), history)
        change.requests = [request]
        change.must_keep = change.must_wait = True
        write(self.engine, session, change)
        session.seen = fit.seen()
        return RecordResult(revision, request.item_count, history)

    def _adapter(self) -> Adapter:
        given, head = self.given, self.session.head
        found = given.format or head.format
        if found is Format.UNSPECIFIED:
            raise InvalidFieldError("format is required for a session that has none", field="format")
        if head.format not in (Format.UNSPECIFIED, found):
            raise InvalidFieldError(
                f"the session speaks {head.format.name}; items in another dialect come by Fit", field="format"
            )
        return adapter_of(found)

    def _body(self, adapter: Adapter, items: Sequence[bytes]) -> bytes:
        """The history as last told, with the items in their place. What they repeat stays; what they contradict goes."""
        session, first = self.session, self.given.first_item_index
        body, spans = known_body(self.engine, session, adapter)
        count = len(session.branch)
        if first is None:
            first = count
            answered, items = self._answered(adapter, body, items)
            if answered is not body:
                body, spans = answered, Spans.of(answered, adapter)
        if not 0 <= first <= count:
            raise InvalidFieldError(
                f"first_item_index is {first}; the history has {count} items",
                hint="leave it out to add behind the last item known",
                field="first_item_index",
            )
        for at, item in enumerate(items):
            place = first + at
            if place < count and self._is_known(adapter, session.branch[place], item):
                continue
            return spans.around(body, place, items[at:])
        return body

    def _answered(self, adapter: Adapter, body: bytes, items: Sequence[bytes]) -> tuple[bytes, Sequence[bytes]]:
        """The body with real results in the place of those that only closed their calls, and the items that are left.

        They come from a process that did not die after all, and knows nothing of the close. An item is taken so where each of its
        blocks is such a result, wherever the closing one stands and whatever else its item holds.
        """
        if not self.session.closed:
            return body, items
        given = [(item, _results_of(adapter, item)) for item in items]
        if not any(real for _, real in given):
            return body, items
        fit = plan_on(self.engine, self.session, adapter, body, RecordInput(self.session.key, ""))
        waiting: dict[bytes, list[int]] = {}  # by id: results that only close a call, of the newest turn first
        open_ids: set[bytes] = set()
        for unit in reversed(fit.intake.units):
            for call in unit.calls:
                waiting.setdefault(call.id, []).extend(index for index in call.results if index in fit.closing)
                if not call.results:
                    open_ids.add(call.id)
        edits: list[Edit] = []
        left: list[bytes] = []
        for item, real in given:
            ids = [id for id, _ in real]
            known = all(id and id not in open_ids and len(waiting.get(id, ())) >= ids.count(id) for id in ids)
            if not real or not known:
                left.append(item)
                continue
            for id, result in real:
                part = fit.intake.parts[waiting[id].pop(0)]
                edits.append(Edit(part.start, part.end, result))
        return splice(body, sorted(edits, key=lambda edit: edit[0])) if edits else body, left

    def _is_known(self, adapter: Adapter, number: int, item: bytes) -> bool:
        strict, loose = canon(item, 0, len(item), adapter.grammar)
        known = self.session.known
        own = sha256(strict).digest()
        return own in known.forms[number] or (own if loose is None else sha256(loose).digest()) in known.loose[number]


def _results_of(adapter: Adapter, item: bytes) -> list[tuple[bytes, bytes]]:
    """Id and JSON of each result in an item, cache markers left out; none where it holds anything else."""
    plain = strip_markers(item, 0, len(item), adapter.grammar)
    found = scan(adapter.empty_body[:-2] + plain + b"]}", adapter.grammar)
    own = [part for part in found.parts() if part.parent < 0]
    if any(part.kind != Kind.RESULT for part in own):
        return []
    return [
        (value_text(found.body[part.id_start : part.id_end]) if part.id_start >= 0 else b"", found.body[part.start : part.end])
        for part in own
    ]


def plan_on(engine: Engine, session: Session, adapter: Adapter, body: bytes, given: RecordInput) -> FitCall:
    """The pipeline of Fit over a body that nobody sent: nothing is cut, and the way to read back is not told by it."""
    read_back = ReadBack.UNSPECIFIED if session.head.read_back else ReadBack.NONE
    fit = FitCall(
        engine,
        session,
        FitInput(
            key=session.key,
            body=body,
            format=adapter.format,
            anchors=given.anchors,
            receipts=given.receipts,
            read_back=read_back,
        ),
    )
    fit.tells = False
    fit.plan()
    return fit


def untold_with(untold: Ranges, items: Sequence[JournalItem]) -> Ranges:
    """Numbers of items that no body has told, with new ones; what only closes a call is none of them."""
    return to_ranges([*from_ranges(untold), *(item.meta.number for item in items if not item.meta.closing)])


def read_items(items: bytes, adapter: Adapter) -> list[bytes]:
    """Elements of a JSON array of items, as they came. Raises MalformedBodyError with the offset in the array."""
    if not items.strip():
        return []
    prefix = adapter.empty_body[:-3]
    body = prefix + items + b"}"
    try:
        found = scan(body, adapter.grammar)
    except MalformedError as error:
        offset = min(max(error.offset_bytes - len(prefix), 0), len(items))
        raise MalformedBodyError(
            f"items cannot be read as a JSON array of {adapter.name} items: {error}",
            hint="give the items as they will stand in the next body",
            offset_bytes=offset,
            bound=error.bound,
        ) from error
    if len(found.members) != 1 or found.history[1] != len(body) - 1 - (len(items) - len(items.rstrip())):
        raise MalformedBodyError("items are not one JSON array", hint="give one array", offset_bytes=0, bound="")
    return [body[item.start : item.end] for item in found.items()]


def known_request(session: Session, request_id: str, digest: bytes) -> RequestRecord | None:
    """What was answered under this id. Raises RequestIdReusedError when that was for other content."""
    known = session.requests.get(request_id)
    taken = request_id in session.attempts or any(each.request_id == request_id for each in session.rollbacks)
    if taken or (known is not None and known.digest != digest):
        raise RequestIdReusedError(
            "this request_id was used with other content", hint="a new request needs a new id; a repeat, the same content"
        )
    return known


def content_digest(given: RecordInput) -> bytes:
    """SHA-256 of what makes a request the same request."""
    return sha256(msgspec.msgpack.encode(msgspec.structs.replace(given, expected_revision=None))).digest()
