"""Structural rules of `openai-responses`: what the API refuses, each with its source.

Not rules, because the API takes it: outputs that do not stand directly behind their calls, ids that come again in a later turn,
arguments that are no JSON, messages of any role in any order.
"""

from __future__ import annotations

from collections.abc import Iterator

from fastpath import Part, ValueType, locate
from sidecar.formats.base import Violation
from sidecar.formats.rules import (
    ARGUMENTS_TYPE,
    ASSISTANT,
    CALL,
    CALL_OPEN,
    CALL_WITHOUT_RESULT,
    OTHER,
    OTHER_PART,
    REASONING,
    REASONING_ALONE,
    RESULT,
    RESULT_ITEM,
    RESULT_REPEATED,
    RESULT_TYPE,
    RESULT_WITHOUT_CALL,
    ROLE_UNKNOWN,
    History,
    Rule,
    show,
)

__all__ = ["LOCAL_RULES", "WHOLE_RULES"]

STRING = int(ValueType.STRING)
NULL = int(ValueType.NULL)


def check_pairs(history: History) -> Iterator[Violation]:
    """Every call has an output somewhere behind it, every output a call before it.

    Source: https://github.com/bytedance/trae-agent/issues/245 ("No tool output found for function call"),
    https://github.com/continuedev/continue/issues/10092 ("No tool call found for function call output with call_id").
    """
    waiting: dict[bytes, list[Part]] = {}
    answered: set[bytes] = set()
    body, roles = history.body, history.roles
    for part in history.parts:
        kind = part[0]
        if part[3] >= 0 or kind not in (CALL, RESULT):
            continue
        id = body[part[6] : part[7]] if part[6] >= 0 else b""
        if b"\\" in id:
            id = history.id(part)
        if kind == CALL:
            waiting.setdefault(id, []).append(part)
        elif calls := waiting.get(id):
            calls.pop(0)
            answered.add(id)
        else:
            rule = RESULT_REPEATED if id in answered else RESULT_WITHOUT_CALL
            message = f"output {show(history.id(part))} answers no open call before it"
            yield Violation(rule, part.item, part.start, message)
    last = len(roles)
    while last and roles[last - 1] == RESULT_ITEM:
        last -= 1
    while last and roles[last - 1] == ASSISTANT:
        last -= 1
    for calls in waiting.values():
        for part in calls:
            rule = CALL_OPEN if part[2] >= last else CALL_WITHOUT_RESULT
            yield Violation(rule, part.item, part.start, f"call {show(history.id(part))} has no output")


def check_items(history: History) -> Iterator[Violation]:
    """An item has a type, or a role that the dialect knows.

    Source: openai-python, types/responses/response_input_item_param.py: a closed union.
    """
    for index in history.indices():
        item = history.items[index]
        if history.roles[index] == OTHER:
            yield Violation(ROLE_UNKNOWN, index, item.start, "message has no role that the dialect knows")
            continue
        part = history.parts[item[4]] if item[5] == 1 else None
        whole = part is not None and part[0] == OTHER_PART and part[4] == item[0]
        if whole and locate(history.body, item.start, (b"type",)) is None:
            yield Violation(ROLE_UNKNOWN, index, item.start, "item has neither a type nor a role")


def check_values(history: History) -> Iterator[Violation]:
    """Arguments are a string, whatever stands in it; a function has an output.

    Source: openai-python, types/responses/response_function_tool_call_param.py and response_input_item_param.py.
    """
    for part in history.calls:
        if part[10] >= 0 and part[12] != STRING:
            yield Violation(ARGUMENTS_TYPE, part.item, part.start, f"arguments of call {show(history.id(part))} are not a string")
    for part in history.results:
        if part[12] <= NULL:
            yield Violation(RESULT_TYPE, part.item, part.start, f"output {show(history.id(part))} is empty")


def check_reasoning(history: History) -> Iterator[Violation]:
    """Reasoning has an item of the same turn behind it, unless the history ends with it.

    Source: https://github.com/openai/openai-node/issues/1567 ("reasoning was provided without its required following
    item").
    """
    items, parts, roles = history.items, history.parts, history.roles
    count = len(roles)
    for index in history.indices():
        item = items[index]
        if item[5] != 1 or parts[item[4]][0] != REASONING or index + 1 == count:
            continue
        if roles[index + 1] != ASSISTANT:
            yield Violation(REASONING_ALONE, index, item.start, "reasoning stands without the item that it belongs to")


LOCAL_RULES: tuple[Rule, ...] = (check_items, check_values, check_reasoning)
WHOLE_RULES: tuple[Rule, ...] = (check_pairs,)
