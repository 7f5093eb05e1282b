"""Where a summary may stand."""

from __future__ import annotations

import pytest

from fastpath import Role, scan
from sidecar.core.layout import Layout, layouts
from sidecar.formats.base import Adapter
from tests.core.build import CHAT, MESSAGES
from tests.core.folding import Json, ask, asked, dump

BOTH = pytest.mark.parametrize("adapter", [CHAT, MESSAGES], ids=["chat", "messages"])


def offered(
    adapter: Adapter, items: list[Json], leaving: set[int], also: set[int] | None = None, trimmed: set[int] | None = None
) -> list[Layout]:
    found = scan(dump({"messages": items}), adapter.grammar)
    return list(
        layouts(
            found.items(),
            found.parts(),
            leaving,
            also or set(),
            trimmed or set(),
            merges_users=adapter.merges_users,
        )
    )


@BOTH
def test_layouts_plain_range_behind_what_leaves_last(adapter: Adapter) -> None:
    items = [ask("go"), *asked(adapter, "a"), *asked(adapter, "b")]
    last = len(asked(adapter, "a"))
    assert offered(adapter, items, set(range(1, last + 1)))[0] == Layout(last, Role.USER, ())


@BOTH
def test_layouts_kept_results_before_user_text_assistant_item(adapter: Adapter) -> None:
    kept = asked(adapter, "k")
    items = [ask("go"), *kept, *asked(adapter, "a"), ask("then")]
    first = 1 + len(kept)
    last = len(items) - 2
    found = offered(adapter, items, set(range(first, last + 1)))
    assert found[0] == Layout(last, Role.ASSISTANT, ())
    assert found[-1].after in (0, -1)


def test_layouts_kept_results_before_a_turn_summary_moves_where_users_merge() -> None:
    for adapter in (CHAT, MESSAGES):
        kept = asked(adapter, "k")
        items = [ask("go"), *kept, *asked(adapter, "a"), *asked(adapter, "b")]
        first = 1 + len(kept)
        last = first + len(kept) - 1
        found = offered(adapter, items, set(range(first, last + 1)))
        if adapter is CHAT:
            assert found[0] == Layout(last, Role.USER, ())
        else:
            assert found == [Layout(0, Role.USER, ())]


@BOTH
def test_layouts_other_places_where_results_meet_text_get_pointers(adapter: Adapter) -> None:
    kept = asked(adapter, "k")
    items = [ask("go"), *kept, *asked(adapter, "a"), ask("and"), *asked(adapter, "b"), *asked(adapter, "c")]
    size = len(kept)
    first = set(range(1 + size, 1 + 2 * size))
    second = set(range(2 + 2 * size, 2 + 3 * size))
    found = offered(adapter, items, first | second)
    assert found[0] == Layout(max(second), Role.USER, (max(first),))
    assert found[1] == Layout(max(first), Role.ASSISTANT, ())


@BOTH
def test_layouts_nothing_before_the_range_first_of_all(adapter: Adapter) -> None:
    items = [*asked(adapter, "a"), *asked(adapter, "b")]
    found = offered(adapter, items, set(range(len(asked(adapter, "a")))))
    assert found[0] == Layout(len(asked(adapter, "a")) - 1, Role.USER, ())
    assert found[-1] == Layout(-1, Role.USER, ())


def test_layouts_trimmed_item_summary_behind_its_words() -> None:
    turn, results = asked(MESSAGES, "a")
    results["content"].append({"type": "text", "text": "said"})
    items = [ask("go"), turn, results, *asked(MESSAGES, "b")]
    assert offered(MESSAGES, items, {1}, trimmed={2})[0] == Layout(2, Role.USER, ())


@BOTH
def test_layouts_items_gone_by_others_are_no_place(adapter: Adapter) -> None:
    size = len(asked(adapter, "a"))
    items = [ask("go"), *asked(adapter, "a"), *asked(adapter, "b"), *asked(adapter, "c")]
    also, leaving = set(range(1, 1 + size)), set(range(1 + size, 1 + 2 * size))
    assert offered(adapter, items, leaving, also)[0] == Layout(2 * size, Role.USER, ())
