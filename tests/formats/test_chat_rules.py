"""Each structural rule of openai-chat: a body that breaks it is found, its repaired twin is not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.formats.build import CHAT, asked, broken, called, tool

START = asked()
SAID: dict[str, Any] = {"role": "assistant", "content": "so"}


def legacy_call(name: str = "ls") -> dict[str, Any]:
    return {"role": "assistant", "content": None, "function_call": {"name": name, "arguments": "{}"}}


def legacy_result(name: str = "ls", content: Any = "ok") -> dict[str, Any]:
    return {"role": "function", "name": name, "content": content}


def nameless(*names: str) -> dict[str, Any]:
    calls = [{"type": "function", "function": {"name": name, "arguments": "{}"}} for name in names]
    return {"role": "assistant", "content": None, "tool_calls": calls}


# name: items that break a rule, what is broken, items that do not.
PAIRS: dict[str, tuple[list[Any], list[tuple[str, int]], list[Any]]] = {
    "result first": ([tool("a"), START], [("RESULT_WITHOUT_CALL", 0)], [START]),
    "result after text": (
        [START, SAID, tool("a")],
        [("RESULT_WITHOUT_CALL", 2)],
        [START, called("a"), tool("a")],
    ),
    "user text between call and result": (
        [START, called("a"), asked("wait"), tool("a")],
        [("CALL_WITHOUT_RESULT", 1), ("RESULT_WITHOUT_CALL", 3)],
        [START, called("a"), tool("a"), asked("wait")],
    ),
    "one of a batch unanswered": (
        [START, called("a", "b", "c"), tool("a"), tool("c"), SAID],
        [("CALL_WITHOUT_RESULT", 1)],
        [START, called("a", "b", "c"), tool("c"), tool("a"), tool("b"), SAID],
    ),
    "answered twice": (
        [START, called("a"), tool("a"), tool("a"), SAID],
        [("RESULT_REPEATED", 3)],
        [START, called("a"), tool("a"), SAID],
    ),
    "foreign result in the batch": (
        [START, called("a"), tool("a"), tool("z"), SAID],
        [("RESULT_WITHOUT_CALL", 3)],
        [START, called("a", "z"), tool("a"), tool("z"), SAID],
    ),
    "one id for a whole batch, one result missing": (
        [START, called("x", "x", "x"), tool("x"), tool("x"), SAID],
        [("CALL_WITHOUT_RESULT", 1)],
        [START, called("x", "x", "x"), tool("x"), tool("x"), tool("x"), SAID],
    ),
    "next call before the result": (
        [START, called("a"), called("b"), tool("b"), tool("a")],
        [("CALL_WITHOUT_RESULT", 1), ("RESULT_WITHOUT_CALL", 4)],
        [START, called("a"), tool("a"), called("b"), tool("b")],
    ),
    "open at the end": ([START, called("a")], [("CALL_OPEN", 1)], [START, called("a"), tool("a")]),
    "partly open at the end": (
        [START, called("a", "b"), tool("b")],
        [("CALL_OPEN", 1)],
        [START, called("a", "b"), tool("b"), tool("a")],
    ),
    "empty ids, one too few": (
        [START, called("", ""), tool(""), SAID],
        [("CALL_WITHOUT_RESULT", 1)],
        [START, called("", ""), tool(""), tool(""), SAID],
    ),
    "no ids, one too few": (
        [START, nameless("ls", "cat"), {"role": "tool", "content": "x"}, SAID],
        [("CALL_WITHOUT_RESULT", 1)],
        [START, nameless("ls", "cat"), {"role": "tool", "content": "x"}, {"role": "tool", "content": "y"}, SAID],
    ),
    "legacy call without its result": (
        [START, legacy_call(), SAID],
        [("CALL_WITHOUT_RESULT", 1)],
        [START, legacy_call(), legacy_result(), SAID],
    ),
    "legacy result without a call": (
        [START, SAID, legacy_result()],
        [("RESULT_WITHOUT_CALL", 2)],
        [START, legacy_call(), legacy_result()],
    ),
}

CONTENT: dict[str, tuple[list[Any], list[tuple[str, int]], list[Any]]] = {
    "role of another dialect": (
        [START, {"role": "model", "content": "x"}],
        [("ROLE_UNKNOWN", 1)],
        [{"role": "developer", "content": "x"}, {"role": "system", "content": "y"}, START],
    ),
    "item is no object": ([START, "x"], [("ROLE_UNKNOWN", 1)], [START, SAID]),
    "user content null": ([asked(None)], [("CONTENT_TYPE", 0)], [asked("")]),
    "user content a number": ([asked(7)], [("CONTENT_TYPE", 0)], [asked("7")]),
    "user content an object": (
        [asked({"type": "text", "text": "x"})],
        [("CONTENT_TYPE", 0)],
        [asked([{"type": "text", "text": "x"}])],
    ),
    "no content": ([{"role": "user"}], [("CONTENT_TYPE", 0)], [asked()]),
    "empty list": ([asked([])], [("CONTENT_EMPTY", 0)], [asked("")]),
    "assistant with nothing": (
        [START, {"role": "assistant", "content": None}],
        [("CONTENT_TYPE", 1)],
        [START, {"role": "assistant", "content": None, "refusal": "no"}, {"role": "assistant", "audio": {"id": "a"}}],
    ),
    "assistant with only reasoning": (
        [START, {"role": "assistant", "content": None, "reasoning_content": "hm"}],
        [("CONTENT_TYPE", 1)],
        [START, {"role": "assistant", "content": "", "reasoning_content": "hm"}],
    ),
    "result content null": (
        [START, called("a"), tool("a", None)],
        [("CONTENT_TYPE", 2)],
        [START, called("a"), tool("a", "")],
    ),
    "result content an empty list": (
        [START, called("a"), tool("a", [])],
        [("CONTENT_EMPTY", 2)],
        [START, called("a"), tool("a", [{"type": "text", "text": ""}])],
    ),
    "arguments an object": (
        [
            START,
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "a", "type": "function", "function": {"name": "x", "arguments": {}}}],
            },
            tool("a"),
        ],
        [("ARGUMENTS_TYPE", 1)],
        [START, called("a"), tool("a")],
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_check_pairing_fault_is_found_and_its_repair_is_not(name: str) -> None:
    items, rules, repaired = PAIRS[name]
    assert broken(CHAT, items) == rules
    assert broken(CHAT, repaired) == []


@pytest.mark.parametrize("name", CONTENT)
def test_check_content_fault_is_found_and_its_repair_is_not(name: str) -> None:
    items, rules, repaired = CONTENT[name]
    assert broken(CHAT, items) == rules
    assert broken(CHAT, repaired) == []


def test_check_what_the_api_takes_is_no_fault() -> None:
    items = [
        SAID,
        SAID,
        asked(""),
        asked("b"),
        {"role": "system", "content": "late"},
        called("a", content=""),
        tool("a", "", name="ls"),
        legacy_call(),
        legacy_result(content=None),
        {"role": "assistant", "content": "", "tool_calls": None, "function_call": None, "refusal": None},
    ]
    assert broken(CHAT, items) == []


@pytest.mark.parametrize("arguments", ["", "[]", '"x"', "not json", "{}"])
def test_check_arguments_of_any_text_are_no_fault(arguments: str) -> None:
    item = called("a")
    item["tool_calls"][0]["function"]["arguments"] = arguments
    assert broken(CHAT, [START, item, tool("a")]) == []


def test_check_custom_tool_is_paired_like_any_other() -> None:
    item = {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls"}}]}
    assert broken(CHAT, [START, item, tool("c")]) == []
    assert broken(CHAT, [START, item, SAID]) == [("CALL_WITHOUT_RESULT", 1)]


def test_check_five_pairs_of_one_id_are_no_fault() -> None:
    items: list[Any] = [START]
    for _ in range(5):
        items += [called("call_0"), tool("call_0")]
    assert broken(CHAT, items) == []


def test_check_markers_only_those_for_anthropic_are_counted() -> None:
    def parts(key: str, value: Any, count: int) -> list[Any]:
        return [asked([{"type": "text", "text": "t", key: value} for _ in range(count)])]

    assert broken(CHAT, parts("cache_control", {"type": "ephemeral"}, 5)) == [("MARKERS_TOO_MANY", -1)]
    assert broken(CHAT, parts("cache_control", {"type": "ephemeral"}, 4)) == []
    assert broken(CHAT, parts("prompt_cache_breakpoint", {"mode": "explicit"}, 9)) == []
