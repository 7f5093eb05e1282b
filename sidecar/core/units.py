"""Units: what is kept or retired whole, and whether it is settled.

A unit is one turn (the item, or run of items, of one model answer) with all its calls, all their results and the reasoning
bound to it. A result belongs to a call of the newest turn before it by id, and by order where ids are missing; ids repeat
between turns, can be empty and can be missing, so an id alone never decides. A result that answers nothing belongs to no unit
and is never touched.

A unit is settled when each call has its final result and no receipt says otherwise.

A body is most often the one before with a few items more: its units are grouped on from there. Units that are taken over are
shared, so nothing of them is changed: where a late result belongs to one of them, all are grouped anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from fastpath import Item, Kind, Part, Role
from sidecar.core.types import EffectState, ReceiptRecord

__all__ = ["Call", "Grouped", "Unit", "build_units", "current_reasoning", "group_units", "mark_settled"]

# A member of an IntEnum costs as much as the rest of a loop: plain numbers here.
ASSISTANT = int(Role.ASSISTANT)
CALL = int(Kind.CALL)
REASONING = int(Kind.REASONING)
RESULT = int(Kind.RESULT)
SERVER_CALL = int(Kind.SERVER_CALL)
SERVER_RESULT = int(Kind.SERVER_RESULT)


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

    __slots__ = ("calls", "end", "first", "reach", "reasoning", "settled", "turn")

    def __init__(self, first: int) -> None:
        """A turn that begins at an item."""
        self.first = first  # index of its first item
        self.end = first + 1  # one past the last item that holds something of it
        self.turn: list[int] = [first]  # items of the model's answer
        self.calls: list[Call] = []
        self.reasoning: list[int] = []  # indices of its reasoning parts
        self.reach = self.end  # the largest end of this unit and all before it
        self.settled = False

    def settled_as(self, settled: bool) -> Unit:
        """This unit, or, where it is not so yet, another like it that is: units are shared."""
        if self.settled == settled:
            return self
        other = Unit(self.first)
        other.end, other.reach, other.settled = self.end, self.reach, settled
        other.turn, other.calls, other.reasoning = self.turn, self.calls, self.reasoning
        return other

    def without(self, gone: Collection[int], parts: Sequence[Part]) -> Unit | None:
        """What stays of it where items leave; None where all of its turn does. A call that leaves takes its results along."""
        turn = [at for at in self.turn if at not in gone]
        if len(turn) == len(self.turn):
            return self
        if not turn:
            return None
        other = Unit(turn[0])
        other.turn, other.end, other.reach, other.settled = turn, self.end, self.reach, self.settled
        other.calls = [call for call in self.calls if call.item not in gone]
        other.reasoning = [index for index in self.reasoning if parts[index].item not in gone]
        return other


Waiting = dict[tuple[bytes, bool], list[tuple[Unit, Call]]]
"""Calls without a result, by id and whether the provider runs them; newest last."""


class Grouped(NamedTuple):
    """Units of a body, oldest first."""

    units: list[Unit]
    late: Waiting  # calls of all units but the newest that no result has answered yet
    shared: int = 0  # leading units that were taken over from an earlier body


class _AnsweredLateError(Exception):
    """A result belongs to a unit that was taken over."""


class _Open:
    """Calls that wait for a result, by what could answer them. Each call enters and leaves a queue once."""

    __slots__ = ("bare", "by_id", "by_name", "decode", "in_turn", "last", "late", "since", "unit")

    def __init__(self, decode: Callable[[int, int], bytes], since: int, late: Waiting) -> None:
        """Units before item `since` are taken over, with what waits in them."""
        self.decode = decode
        self.since = since
        self.unit: Unit | None = None  # the newest
        self.by_id: dict[tuple[bytes, bool], deque[Call]] = {}  # of the newest turn, oldest first
        self.last: dict[tuple[bytes, bool], Call] = {}  # of the newest turn: its last call with that id
        self.in_turn: tuple[deque[Call], deque[Call]] = (deque(), deque())  # of the newest turn, the provider's own apart
        self.by_name: dict[tuple[bytes, bool], deque[Call]] | None = None  # the same by name; made when it is asked for
        self.bare: dict[tuple[bytes, bool], deque[Call]] | None = None  # the same, of those without an id
        self.late = late  # of older turns

    def begin(self, unit: Unit) -> None:
        """A new turn: what is still open is answered late, if ever."""
        if self.unit is not None:
            for call in self.unit.calls:
                if call.id and not call.results:
                    self.late.setdefault((call.id, call.server), []).append((self.unit, call))
        self.unit = unit
        self.by_id, self.last, self.in_turn, self.by_name, self.bare = {}, {}, (deque(), deque()), None, None

    def add(self, call: Call) -> None:
        """A call of the newest turn."""
        if call.id:
            self.by_id.setdefault((call.id, call.server), deque()).append(call)
            self.last[(call.id, call.server)] = call
        self.in_turn[call.server].append(call)
        if self.by_name is not None:
            self._name(self.by_name, call)
        if self.bare is not None and not call.id:
            self._name(self.bare, call)

    def owner(self, part: Part) -> tuple[Unit, Call] | None:
        """The call that a result answers, with its unit: of the newest turn first, unanswered first."""
        if self.unit is None:
            return None
        server = part[0] == SERVER_RESULT
        id = self.decode(part[6], part[7]) if part[6] >= 0 else b""
        if not id:
            return self._by_order(part, server)
        call = _next(self.by_id.get((id, server)))
        if call is not None:
            return self.unit, call
        late = self.late.get((id, server))
        if late:
            if late[-1][1].item < self.since:
                raise _AnsweredLateError
            return late.pop()
        again = self.last.get((id, server))
        if again is None and part.name_start >= 0:
            # Some clients give ids to results of calls that came without.
            if self.bare is None:
                self.bare = {}
                for each in self.unit.calls:
                    if not each.id:
                        self._name(self.bare, each)
            again = _next(self.bare.get((self.decode(part.name_start, part.name_end), server)))
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
    """Group a body's items into units, oldest first. See `group_units`."""
    return group_units(items, parts, decode).units


def group_units(
    items: Sequence[Item],
    parts: Sequence[Part],
    decode: Callable[[int, int], bytes],
    earlier: Grouped | None = None,
    since: int = 0,
) -> Grouped:
    """Group a body's items into units. O(parts), or O(parts from `since` on) where units can be taken over.

    Args:
        items: all items of the body.
        parts: all its parts.
        decode: content of the JSON value at a span, for ids: a string's text, anything else as it stands.
        earlier: of a body that begins with the same `since` items. Not changed; the answer is the same as without it.
        since: 0, or an assistant item of this body and of that one that follows an item that is not the assistant's.
    """
    if earlier is not None and since > 0:
        count = len(earlier.units)
        while count and earlier.units[count - 1].first >= since:
            count -= 1  # a body most often goes on from its last unit
        kept = earlier.units[:count]
        if not kept or kept[-1].reach <= since:
            late: Waiting = {}
            for key, calls in earlier.late.items():
                before = [waiting for waiting in calls if waiting[1].item < since]
                if before:
                    late[key] = before
            try:
                return _group(items, parts, since, kept, _Open(decode, since, late))
            except _AnsweredLateError:
                pass
    return _group(items, parts, 0, [], _Open(decode, 0, {}))


def _group(items: Sequence[Item], parts: Sequence[Part], since: int, units: list[Unit], waiting: _Open) -> Grouped:
    """Add the units of items from `since` on."""
    known = len(units)
    unit: Unit | None = None
    answering = False  # the last item was part of the newest turn
    for at in range(since, len(items)):
        item = items[at]
        assistant = item[2] == ASSISTANT
        first_part, part_count = item[4], item[5]
        if assistant:
            if unit is None or not answering:
                unit = Unit(at)
                units.append(unit)
                waiting.begin(unit)
            else:
                unit.turn.append(at)
                unit.end = at + 1
            answering = True
        elif part_count == 0:
            answering = False
            continue
        else:
            answering = False
        call_index = 0
        for index in range(first_part, first_part + part_count):
            part = parts[index]
            kind = part[0]
            if kind in (CALL, SERVER_CALL):
                if unit is None:
                    continue
                id = waiting.decode(part[6], part[7]) if part[6] >= 0 else b""
                call = Call(at, call_index, index, part, id, kind == SERVER_CALL)
                unit.calls.append(call)
                waiting.add(call)
                call_index += 1
            elif kind == REASONING:
                if unit is not None and assistant:
                    unit.reasoning.append(index)
            elif kind in (RESULT, SERVER_RESULT):
                owner = waiting.owner(part)
                if owner is not None:
                    found, call = owner
                    call.results.append(index)
                    if found.end <= at:
                        found.end = at + 1
    reach = units[known - 1].reach if known else 0
    for unit in units[known:]:
        reach = unit.reach = max(reach, unit.end)
    return Grouped(units, waiting.late, known)


def current_reasoning(rule: str, items: Sequence[Item], parts: Sequence[Part], asked: Sequence[int] | None = None) -> int:
    """Index of the first item whose reasoning may not go. O(items after it, parts of these), or O(1) where `asked` is at hand.

    Args:
        rule: `Adapter.reasoning`. Where it goes with its element, only what stands before the last user item without results may.
        items: of the body.
        parts: of the body.
        asked: indices of all user items without results, ascending.
    """
    if rule != "remove_before_last_user":
        return 0 if rule == "never" else len(items)
    if asked is not None:
        return asked[-1] if asked else 0
    for at in range(len(items) - 1, -1, -1):
        item = items[at]
        own = range(item.first_part, item.first_part + item.part_count)
        if item.role == Role.USER and all(parts[index].kind != Kind.RESULT for index in own):
            return at
    return 0


def mark_settled(
    units: list[Unit],
    parts: Sequence[Part],
    numbers: Sequence[int],
    receipts: Mapping[tuple[int, int], ReceiptRecord],
    faulty_items: set[int],
    closing: Collection[int],
    indices: Iterable[int] | None = None,
) -> None:
    """Say of each unit whether it is settled. A unit that was taken over and is not as it was is replaced in the list.

    Args:
        units: of the body; the list is changed, its units are not.
        parts: of the body.
        numbers: of the body's items in the journal; -1 for those that are new.
        receipts: the newest of each call, by (number, call_index).
        faulty_items: indices of items that break a structural rule: their units count as unsettled.
        closing: indices of result parts that only close what a crash interrupted, the outcome unknown: not final.
        indices: units to look at; all, when None.
    """
    for index in range(len(units)) if indices is None else indices:
        unit = units[index]
        broken = bool(faulty_items) and any(at in faulty_items for at in range(unit.first, unit.end))
        settled = not broken and all(_settled(call, parts, numbers, receipts, closing) for call in unit.calls)
        units[index] = unit.settled_as(settled)


def _settled(
    call: Call,
    parts: Sequence[Part],
    numbers: Sequence[int],
    receipts: Mapping[tuple[int, int], ReceiptRecord],
    closing: Collection[int],
) -> bool:
    final = [index for index in call.results if index not in closing] if closing else call.results
    if not final:
        return False
    receipt = receipts.get((numbers[call.item], call.call_index)) if receipts else None
    # What closed a call holds as long as nothing better is known: a real result ends it.
    if receipt is None or (receipt.closing and not receipt.holds):
        return True
    if not receipt.closing and receipt.state in (EffectState.SETTLED, EffectState.FAILED):
        return True
    if receipt.state in (EffectState.NOT_STARTED, EffectState.PENDING):
        return any(numbers[parts[index].item] >= receipt.next_number for index in final)
    return False
