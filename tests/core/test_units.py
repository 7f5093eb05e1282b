"""Units: what belongs together however ids are given, and when it is settled."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath import Kind, Role
from sidecar.core.types import EffectState
from sidecar.core.units import Unit, build_units, mark_settled
from sidecar.formats.base import Adapter
from sidecar.formats.pairing import Key, pair
from tests.core.build import CHAT, MESSAGES, decode_at, receipt, units_of
from tests.formats.build import asked, call, called, result, text, tool, used

Json = dict[str, Any]


def answers(adapter: Adapter, items: list[Json]) -> list[list[tuple[int, int, list[int]]]]:
    """By unit: each call as (item, place among the item's calls, items of its results)."""
    units, scanned = units_of(adapter, items)
    parts = scanned.parts()
    return [[(c.item, c.call_index, [parts[i].item for i in c.results]) for c in unit.calls] for unit in units]


def spans(units: list[Unit]) -> list[tuple[int, int]]:
    return [(unit.first, unit.end) for unit in units]


def function(name: str, content: str = "ok") -> Json:
    return {"role": "function", "name": name, "content": content}


def legacy(name: str) -> Json:
    return {"role": "assistant", "content": None, "function_call": {"name": name, "arguments": "{}"}}


def answered(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks)}


# What is one unit


def test_build_units_of_a_turn_takes_its_results_and_no_text_of_others() -> None:
    units, _ = units_of(
        CHAT, [asked(), called("a"), tool("a"), asked(), called("b"), tool("b"), {"role": "assistant", "content": "x"}]
    )
    assert spans(units) == [(1, 3), (4, 6), (6, 7)]
    assert [unit.turn for unit in units] == [[1], [4], [6]]


def test_build_units_of_a_parallel_batch_is_one_unit() -> None:
    assert answers(CHAT, [asked(), called("a", "b", "c"), tool("a"), tool("b"), tool("c")]) == [
        [(1, 0, [2]), (1, 1, [3]), (1, 2, [4])]
    ]
    blocks = [asked(), used(call("a"), call("b")), answered(result("a"), result("b"), text())]
    assert answers(MESSAGES, blocks) == [[(1, 0, [2]), (1, 1, [2])]]


def test_build_units_of_a_batch_answered_out_of_order_joins_by_id() -> None:
    assert answers(CHAT, [called("a", "b", "c"), tool("c"), tool("a"), tool("b")]) == [[(0, 0, [2]), (0, 1, [3]), (0, 2, [1])]]


def test_build_units_of_an_answer_in_two_items_is_one_turn() -> None:
    units, _ = units_of(CHAT, [{"role": "assistant", "content": "let me see"}, called("a"), tool("a")])
    assert (spans(units), units[0].turn) == ([(0, 3)], [0, 1])


def test_build_units_keeps_reasoning_with_its_calls() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    units, scanned = units_of(MESSAGES, [asked(), used(thought, call("a")), answered(result("a")), used(thought, text())])
    parts = scanned.parts()
    assert [[parts[i].item for i in unit.reasoning] for unit in units] == [[1], [3]]
    units, scanned = units_of(CHAT, [called("a", reasoning_content="hm"), tool("a")])
    assert [[scanned.parts()[i].item for i in unit.reasoning] for unit in units] == [[0]]


def test_build_units_of_a_system_item_in_between_ends_the_turn() -> None:
    system = {"role": "system", "content": "s"}
    units, _ = units_of(CHAT, [system, called("a"), tool("a"), system, {"role": "assistant", "content": "x"}])
    assert spans(units) == [(1, 3), (4, 5)]


# Ids


def test_build_units_of_an_id_that_repeats_from_turn_to_turn_joins_each_with_its_own() -> None:
    items = [called("x"), tool("x"), called("x"), tool("x"), called("x"), tool("x")]
    assert answers(CHAT, items) == [[(0, 0, [1])], [(2, 0, [3])], [(4, 0, [5])]]


def test_build_units_of_one_id_for_all_calls_of_a_turn_joins_in_order() -> None:
    assert answers(CHAT, [called("x", "x", "x"), tool("x"), tool("x")]) == [[(0, 0, [1]), (0, 1, [2]), (0, 2, [])]]


def test_build_units_of_empty_ids_joins_in_order_within_the_turn() -> None:
    items = [called("", ""), tool(""), tool(""), called(""), tool("")]
    assert answers(CHAT, items) == [[(0, 0, [1]), (0, 1, [2])], [(3, 0, [4])]]


def test_build_units_of_missing_ids_joins_in_order_within_the_turn() -> None:
    def bare(item: Json) -> Json:
        for one in item.get("tool_calls", []):
            del one["id"]
        item.pop("tool_call_id", None)
        return item

    items = [bare(called("a", "b")), bare(tool("a")), bare(tool("b")), bare(called("c")), bare(tool("c"))]
    assert answers(CHAT, items) == [[(0, 0, [1]), (0, 1, [2])], [(3, 0, [4])]]


def test_build_units_of_ids_in_other_spellings_joins_them() -> None:
    body = (
        b'{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"\\u0061/\\ud83d\\ude00","type":"function",'
        b'"function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a\\/\xf0\x9f\x98\x80","content":"ok"}]}'
    )
    from fastpath import scan

    scanned = scan(body, CHAT.grammar)
    units = build_units(scanned.items(), scanned.parts(), lambda a, b: decode_at(body, a, b))
    assert [len(one.results) for one in units[0].calls] == [1]


def test_build_units_of_legacy_calls_joins_by_name_and_order() -> None:
    items = [asked(), legacy("f"), function("f"), legacy("g"), function("g"), legacy("f"), function("f")]
    assert answers(CHAT, items) == [[(1, 0, [2])], [(3, 0, [4])], [(5, 0, [6])]]


def test_build_units_of_results_without_ids_joins_by_name_before_order() -> None:
    two = [legacy("f"), legacy("g")]
    assert answers(CHAT, [*two, function("g"), function("f")]) == [[(0, 0, [3]), (1, 0, [2])]]


def test_build_units_of_a_result_whose_name_no_call_has_joins_in_order() -> None:
    """Ensure that a client that puts a title there does not leave its calls open for ever, as the structural rules see it."""
    assert answers(CHAT, [legacy("f"), function("Reading files")]) == [[(0, 0, [1])]]


# Late, second and foreign results


def test_build_units_of_a_late_result_joins_the_older_turn() -> None:
    items = [called("a", "b"), tool("a"), called("c"), tool("c"), tool("b")]
    assert answers(CHAT, items) == [[(0, 0, [1]), (0, 1, [4])], [(2, 0, [3])]]
    units, _ = units_of(CHAT, items)
    assert spans(units) == [(0, 5), (2, 4)]


def test_build_units_of_a_second_result_stays_with_its_call() -> None:
    assert answers(CHAT, [called("a"), tool("a", "started"), tool("a", "done")]) == [[(0, 0, [1, 2])]]


def test_build_units_of_a_result_that_answers_nothing_belongs_to_no_unit() -> None:
    assert answers(CHAT, [tool("z"), called("a"), tool("z"), tool("a")]) == [[(1, 0, [3])]]


def test_build_units_of_a_repeated_result_of_an_old_turn_is_not_taken_by_a_newer_one() -> None:
    assert answers(CHAT, [called("a"), tool("a"), called("b"), tool("a"), tool("b")]) == [[(0, 0, [1])], [(2, 0, [4])]]


# Tools that the provider ran


def test_build_units_of_server_calls_joins_them_inside_the_turn() -> None:
    turn = used(
        {"type": "server_tool_use", "id": "s", "name": "bash_code_execution", "input": {}},
        {"type": "bash_code_execution_tool_result", "tool_use_id": "s", "content": {"type": "x", "stdout": "out"}},
        call("a"),
    )
    units, scanned = units_of(MESSAGES, [asked(), turn, answered(result("a"))])
    parts = scanned.parts()
    assert [(c.server, [parts[i].item for i in c.results]) for c in units[0].calls] == [(True, [1]), (False, [2])]


def test_build_units_of_a_server_result_never_answers_a_clients_call_of_that_id() -> None:
    turn = used(call("x"), {"type": "mcp_tool_result", "tool_use_id": "x", "content": "out"})
    assert answers(MESSAGES, [asked(), turn]) == [[(1, 0, [])]]


# Against the rules' own pairing

IDS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=5)


@given(IDS, IDS)
def test_build_units_of_any_turn_with_ids_joins_as_the_rules_do(calls: list[str], results: list[str]) -> None:
    found = answers(CHAT, [called(*calls), *(tool(id) for id in results)])
    expected = pair([Key(id.encode()) for id in calls], [Key(id.encode()) for id in results])
    first = [items[0] - 1 if items else -1 for _, _, items in found[0]]
    assert first == expected.result_of


NAMES = st.lists(st.sampled_from(["f", "g", "h"]), min_size=1, max_size=5)


@given(NAMES, NAMES)
def test_build_units_of_any_turn_without_ids_joins_as_the_rules_do(calls: list[str], results: list[str]) -> None:
    found = answers(CHAT, [*(legacy(name) for name in calls), *(function(name) for name in results)])
    expected = pair([Key(b"", name.encode()) for name in calls], [Key(b"", name.encode()) for name in results])
    assert [items[0] - len(calls) if items else -1 for _, _, items in found[0]] == expected.result_of


@pytest.mark.parametrize("id", ["x", ""])
def test_build_units_of_a_huge_batch_with_one_id_takes_no_quadratic_time(id: str) -> None:
    items = [called(*[id] * 10_000), *(tool(id) for _ in range(10_000))]
    start = time.perf_counter()
    found = answers(CHAT, items)
    assert time.perf_counter() - start < 3
    assert [place[2] for place in found[0]] == [[at + 1] for at in range(10_000)]


# Settled


def settled(adapter: Adapter, items: list[Json], **told: Any) -> list[bool]:
    units, scanned = units_of(adapter, items)
    numbers = told.get("numbers", list(range(len(items))))
    receipts = told.get("receipts", {})
    mark_settled(units, scanned.parts(), numbers, receipts, set(told.get("faulty", ())), set(told.get("closing", ())))
    return [unit.settled for unit in units]


ONE = [asked(), called("a"), tool("a")]


def test_mark_settled_without_receipts_asks_for_a_result_of_each_call() -> None:
    assert settled(CHAT, [called("a", "b"), tool("a")]) == [False]
    assert settled(CHAT, [called("a", "b"), tool("a"), tool("b")]) == [True]
    assert settled(CHAT, [{"role": "assistant", "content": "done"}]) == [True]


def test_mark_settled_of_one_dangling_call_leaves_other_units_settled() -> None:
    items = [called("a"), tool("a"), called("b"), asked(), called("c"), tool("c")]
    assert settled(CHAT, items) == [True, False, True]


@pytest.mark.parametrize(
    ("state", "given_at", "expected"),
    [
        (EffectState.SETTLED, 2, True),
        (EffectState.FAILED, 2, True),
        (EffectState.NOT_STARTED, 2, True),  # the result came after it
        (EffectState.PENDING, 2, True),
        (EffectState.NOT_STARTED, 3, False),  # the result was there before it
        (EffectState.PENDING, 3, False),
        (EffectState.WAITING, 2, False),  # holds until a new receipt
        (EffectState.WAITING, 3, False),
        (EffectState.UNKNOWN, 2, False),
        (EffectState.UNKNOWN, 3, False),
        (EffectState.UNSPECIFIED, 2, False),
    ],
)
def test_mark_settled_of_an_answered_call_follows_its_receipt(state: EffectState, given_at: int, expected: bool) -> None:
    assert settled(CHAT, ONE, receipts={(1, 0): receipt(1, state, given_at)}) == [expected]


@pytest.mark.parametrize("state", list(EffectState))
def test_mark_settled_without_a_result_is_never_settled_whatever_the_receipt(state: EffectState) -> None:
    assert settled(CHAT, ONE[:2], receipts={(1, 0): receipt(1, state, 1)}) == [False]


@pytest.mark.parametrize("state", [EffectState.PENDING, EffectState.WAITING, EffectState.UNKNOWN])
def test_mark_settled_of_one_call_of_a_batch_holds_the_whole_unit(state: EffectState) -> None:
    items = [called("a", "b"), tool("a"), tool("b")]
    assert settled(CHAT, items, receipts={(0, 1): receipt(0, state, 3, 1)}) == [False]


def test_mark_settled_of_a_second_result_after_a_pending_receipt_is_settled() -> None:
    items = [called("a"), tool("a", "started"), asked(), tool("a", "done")]
    receipts = {(0, 0): receipt(0, EffectState.PENDING, 2)}
    assert settled(CHAT, items[:2], receipts=receipts) == [False]
    assert settled(CHAT, items, receipts=receipts) == [True]


def test_mark_settled_finds_receipts_by_number_not_by_index() -> None:
    receipts = {(7, 0): receipt(7, EffectState.WAITING, 3)}
    assert settled(CHAT, ONE, receipts=receipts, numbers=[5, 7, 9]) == [False]
    assert settled(CHAT, ONE, receipts=receipts, numbers=[7, 5, 9]) == [True]


def test_mark_settled_of_a_closing_result_is_not_final() -> None:
    closing = [part_of_result(ONE)]
    assert settled(CHAT, ONE, closing=closing) == [False]
    assert settled(CHAT, [*ONE, tool("a", "real")], closing=closing) == [True]


def test_mark_settled_of_a_receipt_that_closed_a_call_ends_with_a_real_result_whenever_that_was_stored() -> None:
    closed = msgspec.structs.replace(receipt(1, EffectState.UNKNOWN, 9), closing=True)
    assert settled(CHAT, ONE, receipts={(1, 0): closed}) == [True]
    assert settled(CHAT, ONE, receipts={(1, 0): closed}, closing=[part_of_result(ONE)]) == [False]


def part_of_result(items: list[Json]) -> int:
    """Index of the first result among the parts of a chat body."""
    _, scanned = units_of(CHAT, items)
    return next(index for index, part in enumerate(scanned.parts()) if part.kind == Kind.RESULT)


@pytest.mark.parametrize("at", [1, 2, 3])
def test_mark_settled_of_a_faulty_item_holds_its_unit_only(at: int) -> None:
    items = [asked(), called("a", "b"), tool("a"), tool("b"), called("c"), tool("c")]
    assert settled(CHAT, items, faulty=[at]) == [False, True]
    assert settled(CHAT, items, faulty=[0]) == [True, True]


def test_role_of_results_is_what_these_tests_assume() -> None:
    _, scanned = units_of(CHAT, ONE)
    assert [item.role for item in scanned.items()] == [Role.USER, Role.ASSISTANT, Role.RESULT]
