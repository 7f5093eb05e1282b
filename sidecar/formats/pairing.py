"""Which result answers which call of one turn.

Ids alone never decide: clients and servers repeat them from turn to turn, give one id to all calls, leave them empty or leave
them out. So pairing is always within one turn: by id where there is one, in order among equal ids; without ids by tool name and
order. A client may also give ids to results of calls that came without: those are joined by tool name and order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Key", "Pairing", "pair"]


class Key(NamedTuple):
    """What joins a call and its result."""

    id: bytes  # content; empty when there is none
    name: bytes = b""  # of the tool; empty when not told


class Pairing(NamedTuple):
    """How the results of a turn belong to its calls."""

    call_of: list[int]  # by result: index of its call, -1 when it answers none
    result_of: list[int]  # by call: index of its result, -1 when it is open
    repeats: set[int]  # results without a call whose id a call of the turn has: that call was answered before


def pair(calls: Sequence[Key], results: Sequence[Key]) -> Pairing:
    """Join the results of one turn to its calls. O(calls + results)."""
    if len(calls) == len(results) and all(call.id == result.id != b"" for call, result in zip(calls, results, strict=True)):
        order = list(range(len(calls)))
        return Pairing(order, list(order), set())
    call_of = [-1] * len(results)
    result_of = [-1] * len(calls)
    waiting: dict[bytes, list[int]] = {}
    for index in range(len(calls) - 1, -1, -1):
        waiting.setdefault(calls[index].id, []).append(index)
    for at, result in enumerate(results):
        found = waiting.get(result.id) if result.id else None
        if found:
            call_of[at] = found.pop()
            result_of[call_of[at]] = at
    named: dict[bytes, deque[int]] = {}
    in_turn: deque[int] = deque()
    for index, call in enumerate(calls):
        if result_of[index] < 0:
            in_turn.append(index)
            named.setdefault(call.name, deque()).append(index)
    bare: dict[bytes, deque[int]] = {}
    for index in in_turn:
        if not calls[index].id and calls[index].name:
            bare.setdefault(calls[index].name, deque()).append(index)
    for at, result in enumerate(results):
        if result.id:
            queue = bare.get(result.name) if call_of[at] < 0 and result.id not in waiting else None
            while queue and result_of[queue[0]] >= 0:
                queue.popleft()
            if queue:
                call_of[at] = queue.popleft()
                result_of[call_of[at]] = at
            continue
        # A name that no open call has tells nothing: some clients put a title there.
        for queue in (named.get(result.name) if result.name else None, in_turn):
            while queue and result_of[queue[0]] >= 0:
                queue.popleft()
            if queue:
                call_of[at] = queue.popleft()
                result_of[call_of[at]] = at
                break
    repeats = {at for at, result in enumerate(results) if call_of[at] < 0 and result.id and result.id in waiting}
    return Pairing(call_of, result_of, repeats)
