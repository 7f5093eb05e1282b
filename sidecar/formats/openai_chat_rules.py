"""Structural rules of `openai-chat`: what the API refuses, each with its source.

Not rules, because the API takes it: several user or assistant items in a row, an assistant item first, empty strings, system
items anywhere, arguments that are no JSON. Legacy `function_call` and `function` items carry no ids: they are joined by
position and name.
"""

from __future__ import annotations

from collections.abc import Iterator

from fastpath import Part, ValueType
from sidecar.formats.base import Violation
from sidecar.formats.rules import (
    ARGUMENTS_TYPE,
    ASSISTANT,
    CALL,
    CALL_OPEN,
    CALL_WITHOUT_RESULT,
    CONTENT_EMPTY,
    CONTENT_TYPE,
    MARKERS_TOO_MANY,
    MAX_MARKER_COUNT,
    OTHER,
    RESULT_ITEM,
    ROLE_UNKNOWN,
    TEXT,
    History,
    Rule,
    check_turn,
    is_empty_array,
    show,
)

__all__ = ["LOCAL_RULES", "WHOLE_RULES"]

STRING = int(ValueType.STRING)
ARRAY = int(ValueType.ARRAY)
NULL = int(ValueType.NULL)


def check_pairs(history: History) -> Iterator[Violation]:
    """Results directly after the item that holds their calls, all of them, and nothing else between.

    Source: the API's own messages, as in https://github.com/langchain-ai/langchain-academy/issues/59 ("An assistant message
    with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'") and
    https://github.com/miurla/morphic/issues/136 ("messages with role 'tool' must be a response to a preceeding message with
    'tool_calls'").
    """
    roles, items, parts = history.roles, history.items, history.parts
    calls: list[Part] = []
    results: list[Part] = []
    for index in history.indices():
        role = roles[index]
        if role == RESULT_ITEM:
            results.append(parts[items[index][4]])
            continue
        if calls or results:
            yield from check_turn(history, calls, results, CALL_WITHOUT_RESULT)
            calls, results = [], []
        if role == ASSISTANT:
            calls = [part for part in history.item_parts(items[index]) if part[0] == CALL]
    yield from check_turn(history, calls, results, CALL_OPEN)


def check_roles(history: History) -> Iterator[Violation]:
    """Only the six roles.

    Source: openai-python, types/chat/chat_completion_message_param.py: a closed union.
    """
    for index in history.indices():
        if history.roles[index] == OTHER:
            yield Violation(ROLE_UNKNOWN, index, history.items[index].start, "item has no role that the dialect knows")


def check_content(history: History) -> Iterator[Violation]:
    """Content is a string or a list that is not empty; null only with calls, a refusal or audio, or in a legacy result.

    Source: openai-python, types/chat/chat_completion_*_message_param.py (types; "Required unless `tool_calls` or
    `function_call` is specified"). That `[]` is refused: the API's "[] is too short - 'messages.0.content'".
    """
    for index in history.indices():
        role, item = history.roles[index], history.items[index]
        if role == RESULT_ITEM:
            part = history.parts[item[4]]
            kind = part[12]
            if kind == STRING or (kind == ARRAY and item[5] > 1) or (kind <= NULL and part[6] < 0):
                continue
        elif item[5] and (role != ASSISTANT or any(part[0] in (CALL, TEXT) for part in history.item_parts(item))):
            continue  # a part that is neither a call nor reasoning stands in a list
        if role == OTHER:
            continue  # said by check_roles
        span = history.content_span(index)
        first = history.body[span[0]] if span is not None else 0
        if first == 0x22:
            continue
        if first != 0x5B:
            if role == ASSISTANT and history.has_any(index, b"refusal", b"audio"):
                continue
            yield Violation(CONTENT_TYPE, index, item.start, "content is neither a string nor a list of parts")
        elif span is not None and is_empty_array(history.body, span):
            yield Violation(CONTENT_EMPTY, index, item.start, "content is an empty list")


def check_arguments(history: History) -> Iterator[Violation]:
    """Arguments are a string, whatever stands in it.

    Source: openai-python, types/chat/chat_completion_message_function_tool_call_param.py.
    """
    for part in history.calls:
        if part[12] != STRING:
            yield Violation(ARGUMENTS_TYPE, part.item, part.start, f"arguments of call {show(history.id(part))} are not a string")


def check_markers(history: History) -> Iterator[Violation]:
    """At most four `cache_control` markers, which gateways hand on to Anthropic.

    OpenAI's own `prompt_cache_breakpoint` is not counted: more than four are allowed, the newest count. Source:
    https://github.com/BerriAI/litellm (AnthropicCacheControlHook, MAX_CACHE_CONTROL_BLOCKS = 4); openai-python,
    types/chat/completion_create_params.py (prompt_cache_options).
    """
    if history.scan.marker_count <= MAX_MARKER_COUNT:
        return
    # A quoted name inside a text has its quotes escaped, so this finds keys (and values, which only makes the rule milder).
    count = history.scan.marker_count - history.body.count(b'"prompt_cache_breakpoint"')
    if count > MAX_MARKER_COUNT:
        yield Violation(MARKERS_TOO_MANY, -1, 0, f"{count} cache markers, at most {MAX_MARKER_COUNT} are allowed")


LOCAL_RULES: tuple[Rule, ...] = (check_pairs, check_roles, check_content, check_arguments)
WHOLE_RULES: tuple[Rule, ...] = (check_markers,)
