"""Rules of dialects in which a turn's calls stand in assistant items, and all their results in the user item behind.

Neighbours of one role are one run: of assistant items, which hold the calls, then of user items, which begin with the results.
"""

from __future__ import annotations

from collections.abc import Iterator

from fastpath import Part, ValueType
from sidecar.formats.base import Violation
from sidecar.formats.rules import (
    ARGUMENTS_TYPE,
    ASSISTANT,
    CALL_ID_REPEATED,
    CALL_OPEN,
    CALL_WITHOUT_RESULT,
    CALL_WRONG_ROLE,
    OTHER,
    REASONING,
    RESULT,
    RESULT_AFTER_TEXT,
    RESULT_WRONG_ROLE,
    SERVER_RESULT,
    THINKING_NOT_FIRST,
    USER,
    History,
    check_turn,
    show,
    text_is_blank,
)

__all__ = ["OBJECT", "begins_with_thinking", "check_arguments", "check_pairs", "check_places", "is_usual"]

OBJECT = int(ValueType.OBJECT)


def check_pairs(history: History, *, results_first: bool = True, unique_ids: bool = True) -> Iterator[Violation]:
    """Results directly after the turn that holds their calls, all of them, one each, before any other block.

    Args:
        history: to judge.
        results_first: nothing may stand before a result.
        unique_ids: ids are unique within a turn.

    Source: https://github.com/anthropics/claude-code/issues/8210 ("`tool_use` ids were found without `tool_result` blocks
    immediately after"), .../issues/18947 ("unexpected `tool_use_id` found in `tool_result` blocks"),
    https://github.com/vectorize-io/hindsight/pull/4250 ("each tool_use must have a single result"),
    https://github.com/apify/tester-mcp-client/issues/12 ("Messages following tool_use blocks must begin with a matching number
    of tool_result blocks"); platform.claude.com, "Handle tool calls".
    """
    if _all_plain(history):
        return
    calls, results = iter(history.calls), iter(history.results)
    call, result = next(calls, None), next(results, None)
    for first, middle, end in _turns(history.roles, history.since):
        asked: list[Part] = []
        while call is not None and call[2] < end:
            if first <= call[2] < middle:  # else it stands in an item of the wrong role: check_roles says so
                asked.append(call)
            call = next(calls, None)
        answered: list[Part] = []
        while result is not None and result[2] < end:
            if middle <= result[2]:
                answered.append(result)
            result = next(results, None)
        if not asked and not answered:
            continue
        if len(asked) > 1 and unique_ids:
            yield from _repeated_ids(history, asked)
        late, other = _out_of_place(history, middle, end)
        for part in late if asked and results_first else ():
            message = f"result {show(history.id(part))} stands after another block"
            yield Violation(RESULT_AFTER_TEXT, part.item, part.start, message)
        waits = end == len(history.roles) and not other
        yield from check_turn(history, asked, answered, CALL_OPEN if waits else CALL_WITHOUT_RESULT)


def _all_plain(history: History) -> bool:
    """Whether the whole history is of the usual kind, so that nothing more need be looked at.

    That is: each turn with calls is one item, the next begins with their results, in order, and no id needs a second look.
    """
    body, roles, items, parts = history.body, history.roles, history.items, history.parts
    if len(history.calls) != len(history.results):
        return False
    user, index = -1, 0
    batch: set[bytes] = set()
    for call, result in zip(history.calls, history.results, strict=True):
        id = body[call[6] : call[7]]
        if len(id) <= 2 or b"\\" in id or id != body[result[6] : result[7]] or call[2] + 1 != result[2]:
            return False
        if result[2] != user:
            user = result[2]
            index = items[user][4]
            batch = {id}
            if roles[user] != USER or roles[user - 1] != ASSISTANT:
                return False
        else:
            index += 1
            while parts[index][3] >= 0:
                index += 1
            if id in batch:
                return False
            batch.add(id)
        if parts[index] is not result:
            return False
    return True


def is_usual(history: History) -> bool:
    """Whether all that is new is of the usual kind, in which no local rule finds anything.

    That is: calls and their results as they belong, an object in each call, something in each item.
    """
    since = history.since
    if not since or not _all_plain(history):
        return False  # a first item is looked at by itself
    for item in history.items[since:]:
        if not item[5] or item[2] == OTHER:
            return False
    for part in history.calls:
        if part[12] != OBJECT:
            return False
    for part in history.server:
        if part[2] >= since:
            return False
    return not any(text_is_blank(history.body, part) for part in history.texts)


def _repeated_ids(history: History, calls: list[Part]) -> Iterator[Violation]:
    """Ids of calls are unique within a turn.

    Source: https://github.com/BerriAI/litellm/issues/23510 ("`tool_use` ids must be unique").
    """
    seen: set[bytes] = set()
    for part in calls:
        id = history.id(part)
        if id and id in seen:
            yield Violation(CALL_ID_REPEATED, part.item, part.start, f"two calls of one turn have the id {show(id)}")
        seen.add(id)


def _turns(roles: list[int], index: int) -> Iterator[tuple[int, int, int]]:
    """Runs of assistant items from `index` on, each with the user items after it: (first, where the user's begin, end)."""
    count = len(roles)
    while index < count:
        first = index
        while index < count and roles[index] == ASSISTANT:
            index += 1
        middle = index
        while index < count and roles[index] == USER:
            index += 1
        if index == first:
            index += 1  # neither: it ends the turn before it
        yield first, middle, index


def _out_of_place(history: History, start: int, end: int) -> tuple[list[Part], bool]:
    """Results that stand after something else in a run of user items, and whether there is anything else."""
    late: list[Part] = []
    other = False
    for index in range(start, end):
        item = history.items[index]
        if not item[5]:
            other = True
        for part in history.item_parts(item):
            if part[3] >= 0:
                continue
            if part[0] != RESULT:
                other = True
            elif other:
                late.append(part)
    return late, other


def check_arguments(history: History) -> Iterator[Violation]:
    """The input of a call is an object.

    Source: https://github.com/anthropics/claude-code/issues/6696 ("tool_use.input: Input should be a valid dictionary").
    """
    for part in (*history.calls, *history.server):
        if part[12] != OBJECT and part[0] != SERVER_RESULT and part[2] >= history.since:
            yield Violation(ARGUMENTS_TYPE, part.item, part.start, f"input of call {show(history.id(part))} is not an object")


def check_places(history: History) -> Iterator[Violation]:
    """Calls stand in assistant items, results in user items."""
    for part in history.calls:
        if history.roles[part[2]] != ASSISTANT:
            message = f"call {show(history.id(part))} stands in an item that is not the assistant's"
            yield Violation(CALL_WRONG_ROLE, part.item, part.start, message)
    for part in history.results:
        if history.roles[part[2]] != USER:
            message = f"result {show(history.id(part))} stands in an item that is not the user's"
            yield Violation(RESULT_WRONG_ROLE, part.item, part.start, message)


def begins_with_thinking(history: History) -> Iterator[Violation]:
    """The first turn of a tool loop that is still open begins with reasoning, where thinking is on."""
    begin = history.asked[-1] + 1 if history.asked else 0
    first = next((index for index in range(begin, len(history.roles)) if history.roles[index] == ASSISTANT), None)
    if first is None:
        return
    parts = history.item_parts(history.items[first])
    if not parts or parts[0][0] != REASONING:
        start = history.items[first].start
        yield Violation(THINKING_NOT_FIRST, first, start, "thinking is on, and the open turn does not start with it")
