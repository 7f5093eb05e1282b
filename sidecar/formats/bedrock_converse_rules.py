"""Structural rules of `bedrock-converse`: what the API refuses, each with its source.

Roles alternate strictly, so a turn is one assistant item, and its results are those of the user item behind it. Not rules: ids
that repeat in later turns; lengths and alphabets of ids and names, which differ between models; `status`.
"""

from __future__ import annotations

from collections.abc import Iterator

from fastpath import ItemFlag
from sidecar.formats.base import Violation
from sidecar.formats.rules import (
    CALL,
    CONTENT_EMPTY,
    CONTENT_TYPE,
    FIRST_ITEM_NOT_USER,
    MARKER,
    MARKER_AFTER_REASONING,
    MARKER_FIRST,
    MARKERS_TOO_MANY,
    MAX_MARKER_COUNT,
    OTHER,
    REASONING,
    RESULT,
    ROLE_UNKNOWN,
    ROLES_NOT_ALTERNATING,
    SYSTEM,
    TEXT_EMPTY,
    TOOLS_MISSING,
    USER,
    History,
    Rule,
    is_empty_array,
    text_is_blank,
)
from sidecar.formats.turn_rules import begins_with_thinking, check_arguments, check_pairs, check_places
from sidecar.formats.turn_rules import is_usual as turns_are_usual
from sidecar.formats.values import string_at, value_at

__all__ = ["LOCAL_RULES", "WHOLE_RULES", "is_usual", "thinking_of"]

MARKED = int(ItemFlag.MARKED)


def is_usual(history: History) -> bool:
    """Whether all that is new is of the usual kind, in which no local rule finds anything."""
    roles = history.roles
    alternate = all(roles[index] != roles[index - 1] for index in range(max(history.since, 1), len(roles)))
    return alternate and not history.scan.marker_count and turns_are_usual(history)


def check_roles(history: History) -> Iterator[Violation]:
    """User and assistant in turns, the user first; calls by the assistant, results by the user.

    Source: https://github.com/langchain-ai/langchain-aws/issues/130 ("A conversation must alternate between user and assistant
    roles"), https://github.com/quarkiverse/quarkus-langchain4j/issues/1764 ("A conversation must start with a user message").
    """
    roles = history.roles
    for index in history.indices():
        start = history.items[index].start
        if roles[index] == OTHER:
            yield Violation(ROLE_UNKNOWN, index, start, "item has no role that the dialect knows")
        elif index and roles[index] == roles[index - 1] and roles[index] != SYSTEM:
            yield Violation(ROLES_NOT_ALTERNATING, index, start, "the item before has the same role")
    if history.since == 0 and roles and roles[0] != USER:
        yield Violation(FIRST_ITEM_NOT_USER, 0, history.items[0].start, "the first item is not a user item")
    yield from check_places(history)


def check_content(history: History) -> Iterator[Violation]:
    """Content is a list of blocks that is not empty; no text is blank; no cache point stands first, or behind reasoning.

    Source: https://github.com/earendil-works/pi/pull/3443 ("The content field in the Message object at ... is empty"),
    https://github.com/OpenHands/OpenHands/issues/5339 ("The text field in the ContentBlock object at ... is blank"),
    https://github.com/anomalyco/opencode/issues/36517 ("Cache point cannot be inserted after reasoning block"); pydantic-ai,
    models/bedrock.py (a cache point cannot be the first content of a user message).
    """
    for index in history.indices():
        if history.roles[index] == OTHER:
            continue
        item, span = history.items[index], history.content_span(index)
        if span is None or history.body[span[0]] != 0x5B:
            yield Violation(CONTENT_TYPE, index, item.start, "content is not a list of blocks")
        elif is_empty_array(history.body, span):
            yield Violation(CONTENT_EMPTY, index, item.start, "content is an empty list")
        elif item[3] & MARKED:
            yield from _cache_points(history, index)
    for part in history.texts:
        if text_is_blank(history.body, part):
            yield Violation(TEXT_EMPTY, part.item, part.start, "a text block is empty or only white space")


def _cache_points(history: History, index: int) -> Iterator[Violation]:
    before = -1
    for part in history.item_parts(history.items[index]):
        if part[3] >= 0:
            continue
        if part[0] == MARKER and before < 0:
            yield Violation(MARKER_FIRST, index, part.start, "content begins with a cache point")
        elif part[0] == MARKER and before == REASONING:
            yield Violation(MARKER_AFTER_REASONING, index, part.start, "a cache point stands directly behind reasoning")
        before = part[0]


def check_tools(history: History) -> Iterator[Violation]:
    """Tools are declared wherever the history has calls or results.

    Source: https://github.com/langgenius/dify/issues/17545 ("The toolConfig field must be defined when using toolUse and
    toolResult content blocks").
    """
    tools = history.member(b"toolConfig")
    if tools[:1] == b"{" and value_at(tools, b"tools")[:1] == b"[":
        return
    if any(part[0] in (CALL, RESULT) for part in history.parts):
        yield Violation(TOOLS_MISSING, -1, 0, "there are calls or results, and toolConfig declares no tools")


def thinking_of(fields: bytes) -> bytes:
    """The member of `additionalModelRequestFields` that turns thinking on, JSON; empty for none.

    Source: docs.aws.amazon.com/bedrock, "Extended thinking" (`thinking`, and `reasoning_config` with Converse).
    """
    if fields[:1] != b"{":
        return b""
    found = [value_at(fields, key) for key in (b"thinking", b"reasoning_config")]
    return next((value for value in found if value[:1] == b"{"), b"")


def check_thinking(history: History) -> Iterator[Violation]:
    """With thinking on, the turn of an open tool loop begins with reasoning. Source: as for `anthropic-messages`."""
    thinking = thinking_of(history.member(b"additionalModelRequestFields"))
    if thinking and string_at(thinking, b"type") == b"enabled":
        yield from begins_with_thinking(history)


def check_markers(history: History) -> Iterator[Violation]:
    """At most four cache points in the whole body.

    Source: docs.aws.amazon.com/bedrock, "Prompt caching for faster model inference", table of models.
    """
    count = history.scan.marker_count
    if count > MAX_MARKER_COUNT:
        yield Violation(MARKERS_TOO_MANY, -1, 0, f"{count} cache points, at most {MAX_MARKER_COUNT} are allowed")


LOCAL_RULES: tuple[Rule, ...] = (check_pairs, check_roles, check_content, check_arguments)
WHOLE_RULES: tuple[Rule, ...] = (check_tools, check_thinking, check_markers)
