"""Units: what is kept or retired whole, and whether it is settled.

A unit is one turn (the item, or run of items, of one model answer) with all its calls, all their results and the reasoning
bound to it. A result belongs to a call of the newest turn before it by id, and by order where ids are missing; ids repeat
between turns, can be empty and can be missing, so an id alone never decides. A result that answers nothing belongs to no unit
and is never touched.

A unit is settled when each call has its final result and no receipt says otherwise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from fastpath import Item, Kind, Part, Role
from sidecar.core.types import EffectState, ReceiptRecord

__all__ = ["Call", "Unit", "build_units", "mark_settled"]


class Call:
    """One call, with what answered it."""

    __slots__ = ("call_index", "id", "index", "item", "part", "results", "server")

    def __init__(self, item: int, call_index: int, index: int, part: Part, id: bytes, server: bool) -> None:
        """A call without results yet."""
        self.item = item  # index in the body
        self.call_index = call_index  # among the item's calls
        self.index = index  # of its part
        self.part = part
        self.id = id  # decoded; empty when there is none
        self.server = server  # the provider ran it
        self.results: list[int] = []  # indices of result parts


class Unit:
    """One turn and what belongs to it."""

    __slots__ = ("calls", "end", "first", "reasoning", "settled", "turn")

    def __init__(self, first: int) -> None:
        """A turn that begins at an item."""
        self.first = first  # index of its first item
        self.end = first + 1  # one past the last item that holds something of it
        self.turn: list[int] = [first]  # items of the model's answer
        self.calls: list[Call] = []
        self.reasoning: list[int] = []  # indices of its reasoning parts
        self.settled = False


class _Open:
    """Calls that wait for a result, by what could answer them. Each call enters and leaves a queue once."""

    __slots__ = ("by_id", "by_name", "decode", "in_turn", "last", "late", "unit")

    def __init__(self, decode: Callable[[int, int], bytes]) -> None:
        """Nothing was called yet."""
        self.decode = decode
        self.unit: Unit | None = None  # the newest
        self.by_id: dict[tuple[bytes, bool], deque[Call]] = {}  # of the newest turn, oldest first
        self.last: dict[tuple[bytes, bool], Call] = {}  # of the newest turn: its last call with that id
        self.in_turn: tuple[deque[Call], deque[Call]] = (deque(), deque())  # of the newest turn, the provider's own apart
        self.by_name: dict[tuple[bytes, bool], deque[Call]] | None = None  # the same by name; made when it is asked for
        self.late: dict[tuple[bytes, bool], list[tuple[Unit, Call]]] = {}  # of older turns, newest last

    def begin(self, unit: Unit) -> None:
        """A new turn: what is still open is answered late, if ever."""
        if self.unit is not None:
            for call in self.unit.calls:
                if call.id and not call.results:
                    self.late.setdefault((call.id, call.server), []).append((self.unit, call))
        self.unit = unit
        self.by_id, self.last, self.in_turn, self.by_name = {}, {}, (deque(), deque()), None

    def add(self, call: Call) -> None:
        """A call of the newest turn."""
        if call.id:
            self.by_id.setdefault((call.id, call.server), deque()).append(call)
            self.last[(call.id, call.server)] = call
        self.in_turn[call.server].append(call)
        if self.by_name is not None:
            self._name(self.by_name, call)

    def owner(self, part: Part) -> tuple[Unit, Call] | None:
        """The call that a result answers, with its unit: of the newest turn first, unanswered first."""
        if self.unit is None:
            return None
        server = part.kind == Kind.SERVER_RESULT
        id = self.decode(part.id_start, part.id_end) if part.id_start >= 0 else b""
        if not id:
            return self._by_order(part, server)
        call = _next(self.by_id.get((id, server)))
        if call is not None:
            return self.unit, call
        late = self.late.get((id, server))
        if late:
            return late.pop()
        again = self.last.get((id, server))
        return None if again is None else (self.unit, again)

    def _by_order(self, part: Part, server: bool) -> tuple[Unit, Call] | None:
        """Of the newest turn, by name. One that no open call has tells nothing: some clients put a title there."""
        call = None
        if part.name_start >= 0:
            if self.by_name is None:
                self.by_name = {}
                for each in self.unit.calls if self.unit is not None else ():
                    self._name(self.by_name, each)
            call = _next(self.by_name.get((self.decode(part.name_start, part.name_end), server)))
        call = call or _next(self.in_turn[server])
        return None if call is None or self.unit is None else (self.unit, call)

    def _name(self, by_name: dict[tuple[bytes, bool], deque[Call]], call: Call) -> None:
        part = call.part
        if part.name_start >= 0:
            by_name.setdefault((self.decode(part.name_start, part.name_end), call.server), deque()).append(call)


def _next(queue: deque[Call] | None) -> Call | None:
    """The first call of a queue without a result; those that were answered leave it."""
    while queue:
        call = queue.popleft()
        if not call.results:
            return call
    return None


def build_units(items: Sequence[Item], parts: Sequence[Part], decode: Callable[[int, int], bytes]) -> list[Unit]:
    """Group a body's items into units, oldest first. O(parts).

    Args:
        items: all items of the body.
        parts: all its parts.
        decode: content of the JSON value at a span, for ids: a string's text, anything else as it stands.
    """
    units: list[Unit] = []
    unit: Unit | None = None
    answering = False  # the last item was part of the newest turn
    waiting = _Open(decode)
    for at, item in enumerate(items):
        if item.role == Role.ASSISTANT:
            if unit is None or not answering:
                unit = Unit(at)
                units.append(unit)
                waiting.begin(unit)
            else:
                unit.turn.append(at)
                unit.end = at + 1
            answering = True
        elif item.part_count == 0:
            answering = False
            continue
        else:
            answering = False
        call_index = 0
        for index in range(item.first_part, item.first_part + item.part_count):
            part = parts[index]
            kind = part.kind
            if kind in (Kind.CALL, Kind.SERVER_CALL):
                if unit is None:
                    continue
                id = decode(part.id_start, part.id_end) if part.id_start >= 0 else b""
                call = Call(at, call_index, index, part, id, kind == Kind.SERVER_CALL)
                unit.calls.append(call)
                waiting.add(call)
                call_index += 1
            elif kind == Kind.REASONING:
                if unit is not None and item.role == Role.ASSISTANT:
                    unit.reasoning.append(index)
            elif kind in (Kind.RESULT, Kind.SERVER_RESULT):
                owner = waiting.owner(part)
                if owner is not None:
                    found, call = owner
                    call.results.append(index)
                    found.end = max(found.end, at + 1)
    return units


def mark_settled(
    units: Sequence[Unit],
    parts: Sequence[Part],
    numbers: Sequence[int],
    receipts: Mapping[tuple[int, int], ReceiptRecord],
    faulty_items: set[int],
    closing_items: set[int],
) -> None:
    """Say of each unit whether it is settled.

    Args:
        units: of the body; `settled` is set.
        parts: of the body.
        numbers: of the body's items in the journal; -1 for those that are new.
        receipts: the newest of each call, by (number, call_index).
        faulty_items: indices of items that break a structural rule: their units count as unsettled.
        closing_items: indices of items that only close what a crash interrupted: not final results.
    """
    for unit in units:
        unit.settled = not any(at in faulty_items for at in range(unit.first, unit.end)) and all(
            _settled(call, parts, numbers, receipts, closing_items) for call in unit.calls
        )


def _settled(
    call: Call,
    parts: Sequence[Part],
    numbers: Sequence[int],
    receipts: Mapping[tuple[int, int], ReceiptRecord],
    closing_items: set[int],
) -> bool:
    final = [index for index in call.results if parts[index].item not in closing_items]
    if not final:
        return False
    receipt = receipts.get((numbers[call.item], call.call_index))
    if receipt is None or receipt.state in (EffectState.SETTLED, EffectState.FAILED):
        return True
    if receipt.state in (EffectState.NOT_STARTED, EffectState.PENDING):
        return any(parts[index].item >= receipt.item_count for index in final)
    return False
