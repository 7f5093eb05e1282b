"""Structural rules of `gemini`: what the API refuses, each with its source.

A turn is a run of the model's items, and its results are those of the user items behind it. Not rules: alternation of roles,
which the API does not ask for; ids, which are optional and are told for results where they were not for calls.
"""

from __future__ import annotations

from collections.abc import Iterator

from fastpath import locate
from sidecar.formats.base import Violation
from sidecar.formats.rules import (
    ARGUMENTS_TYPE,
    ASSISTANT,
    CALL_NOT_AFTER_USER,
    CONTENT_EMPTY,
    CONTENT_TYPE,
    RESULT_TYPE,
    ROLE_UNKNOWN,
    USER,
    History,
    Rule,
    is_empty_array,
    show,
)
from sidecar.formats.turn_rules import OBJECT, check_pairs, check_places
from sidecar.formats.values import string_at

__all__ = ["LOCAL_RULES", "WHOLE_RULES"]

_ROLES = (b"user", b"model", b"function", b"tool")


def check_turns(history: History) -> Iterator[Violation]:
    """Results directly behind the turn that holds their calls, as many as there are calls.

    Source: https://github.com/google-gemini/gemini-cli/issues/4217 ("Please ensure that the number of function response parts
    is equal to the number of function call parts of the function call turn").
    """
    yield from check_pairs(history, results_first=False, unique_ids=False)


def check_roles(history: History) -> Iterator[Violation]:
    """Only the user and the model; calls by the model, results by the user; a turn of calls behind an item of the user.

    Source: google-genai, types.Content (role); https://github.com/google-gemini/gemini-cli/issues/11814 ("Please ensure that
    function call turn comes immediately after a user turn or after a function response turn").
    """
    for index in history.indices():
        if history.roles[index] == USER:
            span = locate(history.body, history.items[index].start, (b"role",))
            role = None if span is None else history.body[span[0] : span[1]]
            if role not in (None, b"null") and string_at(role) not in _ROLES:
                yield Violation(ROLE_UNKNOWN, index, history.items[index].start, "item has no role that the dialect knows")
    yield from check_places(history)
    seen = -1
    for part in history.calls:
        at = part[2]
        if at == seen or history.roles[at] != ASSISTANT:
            continue
        seen = at
        if at == 0 or history.roles[at - 1] != USER:
            yield Violation(CALL_NOT_AFTER_USER, at, part.start, "calls do not stand directly behind an item of the user")


def check_content(history: History) -> Iterator[Violation]:
    """An item has a list of parts that is not empty.

    Source: https://github.com/vercel/ai/issues/3775 ("contents.parts must not be empty").
    """
    for index in history.indices():
        item = history.items[index]
        span = locate(history.body, item.start, (b"parts",))
        if span is None or history.body[span[0]] != 0x5B:
            yield Violation(CONTENT_TYPE, index, item.start, "parts are not a list")
        elif is_empty_array(history.body, span):
            yield Violation(CONTENT_EMPTY, index, item.start, "parts are an empty list")


def check_objects(history: History) -> Iterator[Violation]:
    """The arguments of a call, where there are any, are an object; so is the response of a function.

    Source: google-genai, types.FunctionCall (args) and types.FunctionResponse (response): a Struct.
    """
    for part in history.calls:
        if part[12] not in (OBJECT, 0, 1):
            yield Violation(ARGUMENTS_TYPE, part.item, part.start, f"args of call {show(history.id(part))} are not an object")
    for part in history.results:
        if part[12] not in (OBJECT, 0, 1):
            yield Violation(RESULT_TYPE, part.item, part.start, f"response {show(history.id(part))} is not an object")


LOCAL_RULES: tuple[Rule, ...] = (check_turns, check_roles, check_content, check_objects)
WHOLE_RULES: tuple[Rule, ...] = ()
