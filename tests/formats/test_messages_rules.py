"""Each structural rule of anthropic-messages: a body that breaks it is found, its repaired twin is not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.formats.build import MESSAGES, asked, broken, call, dump, result, text, used

START = asked("do it")
THINKING = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
MARK = {"cache_control": {"type": "ephemeral"}}

# name: items that break a rule, what is broken, items that do not.
PAIRS: dict[str, tuple[list[Any], list[tuple[str, int]], list[Any]]] = {
    "result that answers nothing": (
        [START, used(text()), asked([result("a")])],
        [("RESULT_WITHOUT_CALL", 2)],
        [START, used(call("a")), asked([result("a")])],
    ),
    "result before any turn": (
        [asked([result("a")])],
        [("RESULT_WITHOUT_CALL", 0)],
        [asked([text()])],
    ),
    "result of an earlier turn's call": (
        [START, used(call("a")), asked([result("a")]), used(call("b")), asked([result("b"), result("a")])],
        [("RESULT_WITHOUT_CALL", 4)],
        [START, used(call("a")), asked([result("a")]), used(call("b")), asked([result("b")])],
    ),
    "call left behind": (
        [START, used(call("a")), asked("never mind")],
        [("CALL_WITHOUT_RESULT", 1)],
        [START, used(call("a")), asked([result("a"), text("never mind")])],
    ),
    "call left behind by the next turn": (
        [START, used(call("a")), asked([text()]), used(call("b")), asked([result("b")])],
        [("CALL_WITHOUT_RESULT", 1)],
        [START, used(call("a")), asked([result("a")]), used(call("b")), asked([result("b")])],
    ),
    "one of a batch unanswered": (
        [START, used(call("a"), call("b"), call("c")), asked([result("a"), result("c")]), used(text())],
        [("CALL_WITHOUT_RESULT", 1)],
        [START, used(call("a"), call("b"), call("c")), asked([result("c"), result("a"), result("b")]), used(text())],
    ),
    "late result": (
        [START, used(call("a")), asked("wait"), used(text()), asked([result("a")])],
        [("CALL_WITHOUT_RESULT", 1), ("RESULT_WITHOUT_CALL", 4)],
        [START, used(call("a")), asked([result("a"), text("wait")]), used(text()), asked("go on")],
    ),
    "system item between call and result": (
        [START, used(call("a")), {"role": "system", "content": "note"}, asked([result("a")])],
        [("CALL_WITHOUT_RESULT", 1), ("RESULT_WITHOUT_CALL", 3)],
        [START, used(call("a")), asked([result("a")]), {"role": "system", "content": "note"}],
    ),
    "two results of one call": (
        [START, used(call("a")), asked([result("a"), result("a")])],
        [("RESULT_REPEATED", 2)],
        [START, used(call("a")), asked([result("a")])],
    ),
    "ids repeated in one turn": (
        [START, used(call("a"), call("a")), asked([result("a"), result("a")])],
        [("CALL_ID_REPEATED", 1)],
        [START, used(call("a"), call("b")), asked([result("a"), result("b")])],
    ),
    "ids repeated in a turn of two items": (
        [START, used(call("a")), used(call("a")), asked([result("a"), result("a")])],
        [("CALL_ID_REPEATED", 2)],
        [START, used(call("a")), asked([result("a")]), used(call("a")), asked([result("a")])],
    ),
    "text before a result": (
        [START, used(call("a")), asked([text(), result("a")])],
        [("RESULT_AFTER_TEXT", 2)],
        [START, used(call("a")), asked([result("a"), text()])],
    ),
    "text between results": (
        [START, used(call("a"), call("b")), asked([result("a"), text(), result("b")])],
        [("RESULT_AFTER_TEXT", 2)],
        [START, used(call("a"), call("b")), asked([result("a"), result("b"), text()])],
    ),
    "text item before the item with the result": (
        [START, used(call("a")), asked("so"), asked([result("a")])],
        [("RESULT_AFTER_TEXT", 3)],
        [START, used(call("a")), asked([result("a")]), asked("so")],
    ),
    "open at the end": (
        [START, used(call("a"))],
        [("CALL_OPEN", 1)],
        [START, used(text())],
    ),
    "partly open at the end": (
        [START, used(call("a"), call("b")), asked([result("a")])],
        [("CALL_OPEN", 1)],
        [START, used(call("a"), call("b")), asked([result("a")]), asked([result("b")])],
    ),
    "open at the end, but the user went on": (
        [START, used(call("a"), call("b")), asked([result("a"), text("and?")])],
        [("CALL_WITHOUT_RESULT", 1)],
        [START, used(call("a"), call("b")), asked([result("a"), result("b"), text("and?")])],
    ),
    "long ids": (
        [START, used(call("x" * 2048)), asked([result("x" * 2047)])],
        [("CALL_OPEN", 1), ("RESULT_WITHOUT_CALL", 2)],
        [START, used(call("x" * 2048)), asked([result("x" * 2048)])],
    ),
    "empty ids, one too few": (
        [START, used(call(""), call("")), asked([result("")]), used(text())],
        [("CALL_WITHOUT_RESULT", 1)],
        [START, used(call(""), call("")), asked([result(""), result("")]), used(text())],
    ),
}

PLACES: dict[str, tuple[list[Any], list[tuple[str, int]], list[Any]]] = {
    "assistant first": ([used(text()), START], [("FIRST_ITEM_NOT_USER", 0)], [START, used(text())]),
    "role of another dialect": (
        [START, {"role": "tool", "content": "x"}],
        [("ROLE_UNKNOWN", 1)],
        [START, {"role": "assistant", "content": "x"}],
    ),
    "no role": ([START, {"content": "x"}], [("ROLE_UNKNOWN", 1)], [START, asked("x")]),
    "call by the user": ([asked([call("a")])], [("CALL_WRONG_ROLE", 0)], [asked([text()])]),
    "result by the assistant": (
        [START, used(call("a"), result("a"))],
        [("CALL_OPEN", 1), ("RESULT_WRONG_ROLE", 1)],
        [START, used(call("a")), asked([result("a")])],
    ),
    "empty string": ([asked("")], [("CONTENT_EMPTY", 0)], [asked("x")]),
    "white space": ([asked(" \n\u00a0")], [("CONTENT_EMPTY", 0)], [asked(" x")]),
    "empty list": ([asked([])], [("CONTENT_EMPTY", 0)], [asked([text()])]),
    "empty assistant in the middle": (
        [START, used(), START],
        [("CONTENT_EMPTY", 1)],
        [START, used()],  # the last item may be empty: it is what the model goes on from
    ),
    "content is a number": ([asked(1)], [("CONTENT_TYPE", 0)], [asked("1")]),
    "content is null": (
        [START, {"role": "assistant", "content": None}, START],
        [("CONTENT_TYPE", 1)],
        [START, used(text()), START],
    ),
    "no content": ([{"role": "user"}], [("CONTENT_TYPE", 0)], [START, {"role": "system", "output_config": {"effort": "low"}}]),
    "empty text block": ([asked([text(), text("")])], [("TEXT_EMPTY", 0)], [asked([text()])]),
    "blank text block": ([asked([text("\u2003\n")])], [("TEXT_EMPTY", 0)], [asked([text("\u2003\u2192")])]),
    "input that is a string": (
        [START, used(call("a", input="{}")), asked([result("a")])],
        [("ARGUMENTS_TYPE", 1)],
        [START, used(call("a")), asked([result("a")])],
    ),
    "server result without its call": (
        [START, used(FOUND, text())],
        [("SERVER_RESULT_WITHOUT_CALL", 1)],
        [START, used(SEARCH, FOUND, text())],
    ),
    "server result before its call": (
        [START, used(FOUND, SEARCH)],
        [("SERVER_RESULT_WITHOUT_CALL", 1)],
        [START, used(SEARCH), used(FOUND)],  # a paused turn that went on
    ),
    "server call left behind": (
        [START, used(SEARCH, text()), asked("and?")],
        [("SERVER_CALL_WITHOUT_RESULT", 1)],
        [START, used(SEARCH)],  # a paused turn, sent back as it is
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_check_pairing_fault_is_found_and_its_repair_is_not(name: str) -> None:
    items, rules, repaired = PAIRS[name]
    assert broken(MESSAGES, items) == rules
    assert broken(MESSAGES, repaired) == []


@pytest.mark.parametrize("name", PLACES)
def test_check_misplaced_content_is_found_and_its_repair_is_not(name: str) -> None:
    items, rules, repaired = PLACES[name]
    assert broken(MESSAGES, items) == rules
    assert broken(MESSAGES, repaired) == []


LOOP = [START, used(call("a")), asked([result("a")]), used(call("b")), asked([result("b")])]
ON = {"type": "enabled", "budget_tokens": 1024}


@pytest.mark.parametrize(
    ("items", "thinking", "expected"),
    [
        (LOOP, ON, [("THINKING_NOT_FIRST", 1)]),
        ([START, used(THINKING, call("a")), *LOOP[2:]], ON, []),
        (LOOP, {"type": "adaptive"}, []),
        (LOOP, {"type": "disabled"}, []),
        ([*LOOP, used(text()), START], ON, []),  # the loop is closed
        ([*LOOP, used(text()), START, used(text())], ON, [("THINKING_NOT_FIRST", 7)]),
        ([START, used({"type": "redacted_thinking", "data": "x"}, call("a")), *LOOP[2:]], ON, []),
        ([START, {"role": "assistant", "content": "so"}], ON, [("THINKING_NOT_FIRST", 1)]),
    ],
)
def test_check_thinking_on_wants_the_open_loop_to_start_with_it(
    items: list[Any], thinking: Any, expected: list[tuple[str, int]]
) -> None:
    assert broken(MESSAGES, items, thinking=thinking) == expected


def marked(count: int) -> list[Any]:
    return [asked([text(f"t{index}") | MARK for index in range(count)])]


def test_check_markers_more_than_four_anywhere_are_found() -> None:
    system = [text("rules") | MARK]
    tools = [{"name": "ls", "input_schema": {"type": "object", "properties": {"cache_control": {"type": "string"}}}} | MARK]
    assert broken(MESSAGES, marked(5)) == [("MARKERS_TOO_MANY", -1)]
    assert broken(MESSAGES, marked(4)) == []
    assert broken(MESSAGES, marked(3), system=system, tools=tools) == [("MARKERS_TOO_MANY", -1)]
    assert broken(MESSAGES, marked(2), system=system, tools=tools) == []
    assert broken(MESSAGES, marked(2), system=system, tools=tools, **MARK) == [("MARKERS_TOO_MANY", -1)]
    assert broken(MESSAGES, marked(1), system=system, tools=tools, **MARK) == []


def test_check_markers_inside_results_and_arguments_are_told_apart() -> None:
    nested = [START, used(call("a", input=MARK)), asked([result("a", [text() | MARK]) | MARK])]
    assert broken(MESSAGES, [*nested, *marked(2)]) == []
    assert broken(MESSAGES, [*nested, *marked(3)]) == [("MARKERS_TOO_MANY", -1)]


def test_check_null_marker_is_no_marker() -> None:
    assert broken(MESSAGES, [asked([text() | {"cache_control": None} for _ in range(9)])]) == []


def test_check_ids_of_one_value_in_every_turn_are_no_fault() -> None:
    items = [START]
    for _ in range(5):
        items += [used(call("call_0")), asked([result("call_0")])]
    assert broken(MESSAGES, items) == []


def test_check_ids_spelled_in_two_ways_are_one_id() -> None:
    items = [START, used(call("a")), asked([result("\\u0061")])]
    body = dump({"messages": items}).replace(b"\\\\u0061", b"\\u0061")
    assert MESSAGES.check(_scan(body)) == []


def test_check_several_faults_of_one_item_are_all_listed() -> None:
    found = broken(MESSAGES, [START, used(call("a"), call("b")), asked("no")])
    assert found == [("CALL_WITHOUT_RESULT", 1), ("CALL_WITHOUT_RESULT", 1)]


def test_check_message_names_ids_without_control_characters_and_capped() -> None:
    id = "\x1b[31m\u202e" + "x" * 5000
    (found,) = MESSAGES.check(_scan(dump({"messages": [START, used(call(id))]})))
    assert "\x1b" not in found.message
    assert "\u202e" not in found.message
    assert len(found.message) < 300


def test_check_offset_points_at_the_block() -> None:
    body = dump({"messages": [START, used(text(), call("a"))]})
    (found,) = MESSAGES.check(_scan(body))
    assert body[found.offset_bytes :].startswith(b'{"type": "tool_use"')


def _scan(body: bytes) -> Any:
    from fastpath import scan

    return scan(body, MESSAGES.grammar)
