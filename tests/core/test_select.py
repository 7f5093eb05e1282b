"""What retires: whole settled units, oldest first, and nothing that is not their own."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from fastpath import scan
from sidecar.core.select import Selection, SelectView, select
from sidecar.core.units import build_units, mark_settled
from sidecar.formats.base import Adapter
from tests.core.build import CHAT, MESSAGES, decode_at
from tests.core.folding import Json, ask, asked, dump

BOTH = pytest.mark.parametrize("adapter", [CHAT, MESSAGES], ids=["chat", "messages"])


def chosen(
    adapter: Adapter,
    items: list[Json],
    *,
    pinned: Collection[str] = (),
    covered: Collection[int] = (),
    tail: int | None = None,
    target: int = 0,
    added: int = 0,
    skip: Any = lambda unit: False,
) -> Selection:
    body = dump({"messages": items})
    found = scan(body, adapter.grammar)
    rows = found.items(), found.parts()
    units = build_units(*rows, lambda a, b: decode_at(body, a, b))
    mark_settled(units, rows[1], range(len(items)), {}, set(), set())
    view = SelectView(
        adapter=adapter,
        body=body,
        items=rows[0],
        parts=rows[1],
        units=units,
        tail_item=len(items) if tail is None else tail,
        covered=covered,
        pinned=lambda call: call.id.decode() in pinned,
        saved={},
        size_bytes=len(body),
        target_bytes=target,
        added_bytes=added,
    )
    return select(view, skip)


@BOTH
def test_select_settled_units_leave_people_stay(adapter: Adapter) -> None:
    items = [ask("go"), *asked(adapter, "a", "b"), ask("then"), *asked(adapter, "c")]
    found = chosen(adapter, items)
    assert found.gone == [at for at, item in enumerate(items) if item not in (ask("go"), ask("then"))]
    assert found.trims == {}
    assert len(found.units) == 2


@BOTH
def test_select_one_dangling_call_blocks_only_its_unit(adapter: Adapter) -> None:
    open_turn = asked(adapter, "x", "y")[:2] if adapter is CHAT else asked(adapter, "x", "y")[:1]
    items = [ask("go"), *open_turn, ask("well"), *asked(adapter, "a"), ask("end")]
    found = chosen(adapter, items)
    start = 2 + len(open_turn)
    assert found.gone == list(range(start, len(items) - 1))


@BOTH
def test_select_pinned_covered_tail_and_skipped_stay(adapter: Adapter) -> None:
    size = len(asked(adapter, "a"))
    items = [ask("go"), *asked(adapter, "a"), *asked(adapter, "b"), *asked(adapter, "c"), *asked(adapter, "d")]
    b, c, d = (list(range(1 + n * size, 1 + (n + 1) * size)) for n in (1, 2, 3))
    assert chosen(adapter, items, pinned=["a"], tail=d[0]).gone == [*b, *c]
    assert chosen(adapter, items, covered=[1], tail=d[0]).gone == [*b, *c]
    assert chosen(adapter, items, skip=lambda unit: unit.first == 1, tail=d[0]).gone == [*b, *c]
    assert chosen(adapter, items, tail=c[-1]).gone == list(range(1, c[0]))


@BOTH
def test_select_stops_at_the_target(adapter: Adapter) -> None:
    items = [ask("go"), *asked(adapter, "a"), *asked(adapter, "b"), *asked(adapter, "c")]
    body = len(dump({"messages": items}))
    assert len(chosen(adapter, items, target=body).units) == 0
    assert len(chosen(adapter, items, target=body - 1).units) == 1
    assert len(chosen(adapter, items, target=body, added=1).units) == 1
    one = chosen(adapter, items, target=body - 1)
    assert one.range_bytes == sum(len(dump(items[at])) + 1 for at in one.gone)
    assert len(chosen(adapter, items, target=body - one.range_bytes - 1).units) == 2


def test_select_results_beside_words_are_trimmed() -> None:
    turn, results = asked(MESSAGES, "a", "b")
    results["content"].append({"type": "text", "text": "said"})
    found = chosen(MESSAGES, [ask("go"), turn, results, ask("end")])
    assert (found.gone, found.trims) == ([1], {2: (0, 1)})


@pytest.mark.parametrize("case", ["between", "foreign", "two units", "extra"])
def test_select_results_that_are_not_alone_its_own_stay(case: str) -> None:
    """Words between results, results of another turn, or members that nobody knows: the unit stays."""
    turn, results = asked(MESSAGES, "a", "b")
    items = [ask("go"), turn, results, ask("end")]
    if case == "between":
        first, second = results["content"]
        results["content"] = [{"type": "text", "text": "x"}, first, {"type": "text", "text": "y"}, second]
    elif case == "foreign":
        results["content"].append({"type": "tool_result", "tool_use_id": "zz", "content": "?"})
    elif case == "two units":
        late = asked(MESSAGES, "k")[0]
        items = [ask("go"), late, ask("well"), turn, results, ask("end")]
        results["content"].append(asked(MESSAGES, "k")[1]["content"][0])
    else:
        results["content"].append({"type": "text", "text": "said"})
        results["name"] = "bob"
    assert chosen(MESSAGES, items).gone == []


def test_select_provider_block_that_stands_for_history_stays() -> None:
    block = {"type": "compaction", "content": "earlier"}
    items = [
        ask("go"),
        {"role": "assistant", "content": [block, {"type": "text", "text": "x"}]},
        *asked(MESSAGES, "a"),
        ask("end"),
    ]
    found = chosen(MESSAGES, items)
    assert 1 not in found.gone


def test_select_late_answer_leaves_with_its_unit() -> None:
    items = [ask("go"), asked(CHAT, "x")[0], ask("well"), *asked(CHAT, "a"), asked(CHAT, "x")[1], ask("end")]
    assert chosen(CHAT, items).gone == [1, 3, 4, 5]
    assert chosen(CHAT, items, tail=5).gone == [3, 4]


@BOTH
def test_select_turn_that_went_on_after_its_text_was_covered_retires_what_is_left(adapter: Adapter) -> None:
    said = {"role": "assistant", "content": [{"type": "text", "text": "first"}]}
    items = [ask("go"), said, *asked(adapter, "a"), ask("end")]
    rest = list(range(2, len(items) - 1))
    assert chosen(adapter, items).gone == [1, *rest]
    assert chosen(adapter, items, covered=[1]).gone == rest
    assert chosen(adapter, items, covered=[1, *rest]).gone == []
    assert chosen(adapter, items, covered=[2]).gone == []  # a covered call: its results are not left to another
