"""From how callers name things to how they are kept: calls, sources, receipts, pins, anchors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from sidecar.core.branch import BranchIndex, Ranges
from sidecar.core.errors import CallNotFoundError, InvalidFieldError
from sidecar.core.types import (
    Anchors,
    CallKey,
    Constraint,
    Criterion,
    Decision,
    EffectState,
    PinKey,
    ReceiptRecord,
    Source,
    WorkItem,
    WorkState,
)
from sidecar.core.units import Call, Unit
from sidecar.engine.messages import AnchorsGiven, CallRef, PinGiven, ReceiptGiven, SourceRef

__all__ = ["Refs"]

_SHOWN_BYTES = 256


def shown(text: bytes) -> str:
    """An id or name for people: U+FFFD for what is not Unicode, cut at 256 bytes."""
    return text[:_SHOWN_BYTES].decode("utf-8", "replace")


class Refs:
    """Names of one body's calls and items."""

    def __init__(self, units: Sequence[Unit], numbers: Sequence[int], ranges: Ranges) -> None:
        """From a body whose items all have numbers; `ranges` are the same, folded. What few calls need is made when asked for."""
        self._numbers = numbers
        self._units = units
        self._ranges = ranges

    @cached_property
    def _calls(self) -> dict[tuple[int, int], Call]:
        return {(call.item, call.call_index): call for unit in self._units for call in unit.calls}

    @cached_property
    def _by_id(self) -> dict[str, Call]:
        return {call.id.decode("utf-8", "replace"): call for unit in self._units for call in unit.calls}

    @cached_property
    def _index(self) -> BranchIndex:
        return BranchIndex(self._ranges)

    def index_of(self, number: int) -> int:
        """Where a raw item stands in the body; -1 when it does not."""
        return self._index.index_of(number)

    def call_at(self, number: int, call_index: int) -> Call | None:
        """The call of a key; None when the body has it not."""
        return self._calls.get((self.index_of(number), call_index))

    def key_of(self, call: Call) -> CallKey:
        """A call's key."""
        return CallKey(self._numbers[call.item], call.call_index, shown(call.id))

    def ref_of(self, key: CallKey | None) -> CallRef | None:
        """A key as callers see it."""
        if key is None:
            return None
        index = self.index_of(key.number)
        return CallRef(key.call_id, None if index < 0 else index, key.call_index)

    def call(self, ref: CallRef) -> Call:
        """The call that a caller names: by position where it is told, else the newest of that id.

        Raises:
            CallNotFoundError: no such call, or the id at that position is another.
        """
        if ref.item_index is not None:
            if ref.call_index is None and ref.call_id:
                found = next((c for c in self._calls.values() if c.item == ref.item_index and _is(c, ref.call_id)), None)
            else:
                found = self._calls.get((ref.item_index, ref.call_index or 0))
                if found is not None and ref.call_id and not _is(found, ref.call_id):
                    found = None
        else:
            found = self._by_id.get(ref.call_id) if ref.call_id else None
        if found is None:
            raise CallNotFoundError(
                "the history holds no such call",
                hint="give call_id as it stands in the body; where ids are missing or repeat, item_index and call_index",
                call_id=ref.call_id[:_SHOWN_BYTES],
                item_index=-1 if ref.item_index is None else ref.item_index,
            )
        return found

    def source(self, ref: SourceRef, field: str) -> Source:
        """What a statement rests on."""
        if ref.call is not None:
            return Source(call=self.key_of(self.call(ref.call)))
        if ref.item_index is not None:
            if not 0 <= ref.item_index < len(self._numbers):
                raise InvalidFieldError(
                    f"{field}.item_index is {ref.item_index}; the history has {len(self._numbers)} items",
                    field=f"{field}.item_index",
                )
            return Source(number=self._numbers[ref.item_index])
        return Source(artifact_id=ref.artifact_id, note=ref.note)

    def receipts(self, given: Sequence[ReceiptGiven], revision: int, next_number: int) -> list[ReceiptRecord]:
        """Receipts with their calls found."""
        records = []
        for receipt in given:
            if receipt.state is EffectState.UNSPECIFIED:
                raise InvalidFieldError("receipts.state is required", field="receipts.state")
            key = self.key_of(self.call(receipt.call))
            records.append(
                ReceiptRecord(key, receipt.state, receipt.idempotency_key, receipt.detail, receipt.result, revision, next_number)
            )
        return records

    def pins(self, older: Sequence[PinKey], given: Sequence[PinGiven]) -> list[PinKey]:
        """All pins in force once these were given."""
        pins = {(pin.tool_name, _place(pin)): pin for pin in older}
        for pin in given:
            if (pin.call is None) == (not pin.tool_name):
                raise InvalidFieldError("a pin names either a call or a tool", field="pins")
            key = PinKey(None if pin.call is None else self.key_of(self.call(pin.call)), pin.tool_name)
            if pin.released:
                pins.pop((key.tool_name, _place(key)), None)
            else:
                pins[(key.tool_name, _place(key))] = key
        return list(pins.values())

    def anchors(self, given: AnchorsGiven) -> Anchors:
        """Anchors with their sources found; not yet merged."""
        one: Callable[[SourceRef, str], Source] = self.source
        for entries, field in (
            (given.success_criteria, "success_criteria"),
            (given.constraints, "constraints"),
            (given.decisions, "decisions"),
            (given.work, "work"),
        ):
            if any(not entry.id for entry in entries):
                raise InvalidFieldError(f"anchors.{field}.id is required", field=f"anchors.{field}.id")
        if any(work.state is WorkState.UNSPECIFIED for work in given.work):
            raise InvalidFieldError("anchors.work.state is required", field="anchors.work.state")
        return Anchors(
            goal=given.goal,
            success_criteria=tuple(Criterion(c.id, c.text, c.revoked) for c in given.success_criteria),
            constraints=tuple(
                Constraint(c.id, c.text, None if c.source is None else one(c.source, "anchors.constraints.source"), c.revoked)
                for c in given.constraints
            ),
            decisions=tuple(
                Decision(d.id, d.text, tuple(one(s, "anchors.decisions.sources") for s in d.sources), d.revoked)
                for d in given.decisions
            ),
            work=tuple(
                WorkItem(w.id, w.text, w.state, tuple(one(s, "anchors.work.evidence") for s in w.evidence)) for w in given.work
            ),
        )


def _is(call: Call, call_id: str) -> bool:
    return call.id.decode("utf-8", "replace") == call_id


def _place(pin: PinKey) -> tuple[int, int] | None:
    return None if pin.call is None else (pin.call.number, pin.call.call_index)
