"""Structural rules of `anthropic-messages`: what the API refuses, each with its source.

The API joins neighbours of one role, so a turn is a run of assistant items, and its results are those of the run of user items
after it. Source: anthropic-sdk-python, types/message_create_params.py ("consecutive `user` or `assistant` turns ... will be
combined"), in versions that still said so; the behavior stands. Not rules: alternation of roles; ids that repeat in later
turns; thinking without a signature, and empty ids, which servers other than Anthropic's send and take.
"""

from __future__ import annotations

from collections.abc import Iterator

from fastpath import Part
from sidecar.formats.base import Violation
from sidecar.formats.rules import (
    ASSISTANT,
    CONTENT_EMPTY,
    CONTENT_TYPE,
    FIRST_ITEM_NOT_USER,
    MARKERS_TOO_MANY,
    MAX_MARKER_COUNT,
    OTHER,
    ROLE_UNKNOWN,
    SERVER_CALL,
    SERVER_CALL_WITHOUT_RESULT,
    SERVER_RESULT_WITHOUT_CALL,
    SYSTEM,
    TEXT_EMPTY,
    USER,
    History,
    Rule,
    is_blank_string,
    is_empty_array,
    show,
    text_is_blank,
)
from sidecar.formats.turn_rules import begins_with_thinking, check_arguments, check_pairs, check_places
from sidecar.formats.values import string_at

__all__ = ["LOCAL_RULES", "WHOLE_RULES"]


def check_roles(history: History) -> Iterator[Violation]:
    """Only user, assistant and, newer, system; a user item first; calls by the assistant, results by the user.

    Source: anthropic-sdk-python, types/message_param.py; https://github.com/anthropics/anthropic-sdk-typescript/issues/622
    ("first message must use the "user" role": refused on Bedrock, no longer everywhere);
    https://github.com/tghamm/Anthropic.SDK/issues/128 ("`tool_result` blocks can only be in `user` messages").
    """
    for index in history.indices():
        if history.roles[index] == OTHER:
            yield Violation(ROLE_UNKNOWN, index, history.items[index].start, "item has no role that the dialect knows")
    if history.since == 0 and history.roles and history.roles[0] != USER:
        yield Violation(FIRST_ITEM_NOT_USER, 0, history.items[0].start, "the first item is not a user item")
    yield from check_places(history)


def check_content(history: History) -> Iterator[Violation]:
    """Content is a string or a list; not empty, and no text block blank, except in an assistant item at the very end.

    Source: https://github.com/anthropics/claude-code/issues/6774 ("all messages must have non-empty content except for the
    optional final assistant message"), .../issues/59812 ("text content blocks must be non-empty"), .../issues/23369 ("must
    contain non-whitespace text").
    """
    final = len(history.roles) - 1 if history.roles and history.roles[-1] == ASSISTANT else -1
    for index in history.indices():
        item = history.items[index]
        if item[5] or index == final or history.roles[index] == OTHER:
            continue
        span = history.content_span(index)
        first = history.body[span[0]] if span is not None else 0
        if span is not None and first == 0x5B:
            if is_empty_array(history.body, span):
                yield Violation(CONTENT_EMPTY, index, item.start, "content is an empty list")
        elif span is not None and first == 0x22:
            if is_blank_string(history.body, span):
                yield Violation(CONTENT_EMPTY, index, item.start, "content is empty")
        elif span is not None or history.roles[index] != SYSTEM:
            # A system item may carry output_config alone. Source: types/beta/beta_system_message_param.py.
            yield Violation(CONTENT_TYPE, index, item.start, "content is neither a string nor a list of blocks")
    for part in history.texts:
        if part[2] != final and text_is_blank(history.body, part):
            yield Violation(TEXT_EMPTY, part.item, part.start, "a text block is empty or only white space")


def check_server_tools(history: History) -> Iterator[Violation]:
    """A server tool's result stands after its call, in the same turn or a later one; a call left behind has its result.

    A call of the last turn may be open: a paused turn is sent back as it is (stop_reason pause_turn), and code that calls
    client tools waits for their results. Source: https://github.com/anthropics/claude-code/issues/65726 ("must have a
    corresponding `server_tool_use` block before it"); platform.claude.com, "Stop reasons".
    """
    if not history.server:
        return
    waiting: dict[bytes, list[Part]] = {}
    for part in history.server:
        if part[0] == SERVER_CALL:
            waiting.setdefault(history.id(part), []).append(part)
        else:
            calls = waiting.get(history.id(part))
            if not calls:
                yield Violation(
                    SERVER_RESULT_WITHOUT_CALL,
                    part.item,
                    part.start,
                    f"server result {show(history.id(part))} has no call before it",
                )
            else:
                calls.pop()
    open_calls = [part for calls in waiting.values() for part in calls]
    if not open_calls:
        return
    for part in open_calls:
        if history.asked and part.item < history.asked[-1]:
            yield Violation(
                SERVER_CALL_WITHOUT_RESULT, part.item, part.start, f"server call {show(history.id(part))} has no result"
            )


def check_thinking(history: History) -> Iterator[Violation]:
    """With thinking on, the turn of an open tool loop starts with thinking.

    The loop begins after the last user item without results. `adaptive` thinking does not ask for it. Source:
    https://github.com/anomalyco/opencode/issues/3077 ("a final `assistant` message must start with a thinking block (preceeding
    the lastmost set of `tool_use` and `tool_result` blocks)"); platform.claude.com, "Adaptive thinking".
    """
    thinking = history.member(b"thinking")
    if not thinking or string_at(thinking, b"type") != b"enabled":
        return
    yield from begins_with_thinking(history)


def check_markers(history: History) -> Iterator[Violation]:
    """At most four cache markers in the whole body; a `cache_control` of the body itself takes one of the four.

    Source: https://github.com/continuedev/continue/pull/6937 ("A maximum of 4 blocks with cache_control may be provided");
    platform.claude.com, "Prompt caching", on automatic caching.
    """
    count = history.scan.marker_count + (history.member(b"cache_control")[:1] == b"{")
    if count > MAX_MARKER_COUNT:
        yield Violation(MARKERS_TOO_MANY, -1, 0, f"{count} cache markers, at most {MAX_MARKER_COUNT} are allowed")


LOCAL_RULES: tuple[Rule, ...] = (check_pairs, check_roles, check_content, check_arguments)
WHOLE_RULES: tuple[Rule, ...] = (check_server_tools, check_thinking, check_markers)
