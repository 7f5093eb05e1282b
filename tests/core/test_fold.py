"""Layouts carried out: what stays in raw order, then the summary; neighbors become one item where the dialect joins them."""

from __future__ import annotations

import json

import pytest

from fastpath import Kind, Role
from sidecar.core.fold import holds_results
from sidecar.core.summary import pointer_text
from sidecar.formats.base import Adapter
from tests.core.build import CHAT, MESSAGES
from tests.core.folding import SUMMARY, Folded, ask, asked, dump, folded, record, spoken

BOTH = pytest.mark.parametrize("adapter", [CHAT, MESSAGES], ids=["chat", "messages"])
MARK = {"cache_control": {"type": "ephemeral"}}


def check(found: Folded) -> None:
    """What a fold says of itself is so."""
    assert found.fold.finished_count == found.after.item_count
    assert found.fold.saved_bytes == len(found.before.body) - len(found.after.body) == sum(found.fold.saved.values())
    old, new = found.before.items(), found.after.items()
    for at, place in enumerate(found.fold.places):
        assert (place < 0) == (at in found.fold.gone)
        assert place < 0 or old[at].role == new[place].role


@BOTH
def test_fold_range_between_people_summary_in_its_place(adapter: Adapter) -> None:
    items = [ask("go"), *asked(adapter, "a"), *asked(adapter, "b"), ask("then"), *asked(adapter, "c")]
    count = len(items) - len(asked(adapter, "c")) - 1
    found = folded(adapter, items, record(range(1, count), count - 1))
    check(found)
    tail = spoken(asked(adapter, "c"))
    if adapter is CHAT:
        assert spoken(found.items) == [("user", ["go"]), ("user", [SUMMARY]), ("user", ["then"]), *tail]
    else:
        assert spoken(found.items) == [("user", ["go", SUMMARY, "then"]), *tail]


@BOTH
def test_fold_tail_behind_summary_untouched_bytes(adapter: Adapter) -> None:
    items = [ask("go"), *asked(adapter, "a"), *asked(adapter, "b")]
    last = len(items) - len(asked(adapter, "b"))
    found = folded(adapter, items, record(range(1, last), last - 1))
    check(found)
    old, new = found.before.items(), found.after.items()
    for at in range(last, len(items)):
        place = found.fold.places[at]
        assert found.after.body[new[place].start : new[place].end] == found.before.body[old[at].start : old[at].end]


def test_fold_messages_string_and_content_first_joined_verbatim() -> None:
    raw = b'{"messages": [{"content": "h\\u00e9\\/", "role": "user"} ,\n '
    raw += dump(asked(MESSAGES, "a"))[1:-1] + b' , {"role":"user","content":[ {"text":"b" ,"type":"text"} ]}], "model":"m"}'
    found = folded(MESSAGES, raw, record([1, 2], 2))
    check(found)
    assert spoken(found.items) == [("user", ["hé/", SUMMARY, "b"])]
    assert b'"h\\u00e9\\/"' in found.after.body
    assert b'{"text":"b" ,"type":"text"}' in found.after.body
    assert found.after.body.startswith(b'{"messages": [{"content": [')
    assert found.after.body.endswith(b'], "model":"m"}')


@pytest.mark.parametrize(
    "odd",
    [
        {"role": "user", "content": "x", "name": "bob"},
        {"role": "user", "content": []},
        {"role": "user", "content": "  "},
        {"role": "user", "content": ["x"]},
        {"role": "user"},
    ],
    ids=["extra", "empty", "blank", "strings", "none"],
)
@BOTH
def test_fold_item_that_may_not_be_joined_stands_alone(adapter: Adapter, odd: dict[str, object]) -> None:
    items = [odd, *asked(adapter, "a"), odd]
    found = folded(adapter, items, record(range(1, len(items) - 1), len(items) - 2))
    check(found)
    assert found.items[0] == odd
    assert found.items[-1] == odd
    assert spoken(found.items[1:-1]) == [("user", [SUMMARY])]


def test_fold_item_with_results_never_joined() -> None:
    mixed = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "k", "content": "x"}, {"type": "text", "text": "t"}],
    }
    kept = [{"role": "assistant", "content": [{"type": "tool_use", "id": "k", "name": "ls", "input": {}}]}, mixed]
    items = [ask("go"), *kept, *asked(MESSAGES, "a"), ask("next")]
    found = folded(MESSAGES, items, record([3, 4], 4, role=Role.ASSISTANT))
    check(found)
    assert found.items[:3] == items[:3]
    assert spoken(found.items[3:]) == [("assistant", [SUMMARY]), ("user", ["next"])]


def test_fold_trimmed_item_keeps_what_people_wrote() -> None:
    turn, results = asked(MESSAGES, "a", "b")
    results["content"] += [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    items = [ask("go"), turn, results, *asked(MESSAGES, "c")]
    found = folded(MESSAGES, items, record([1], 2, trims={2: (0, 1)}))
    check(found)
    assert spoken(found.items)[0] == ("user", ["go", "one", "two", SUMMARY])
    assert len(found.items) == 3
    start, end = found.fold.kept_spans[2]
    assert found.before.body[start:end] == dump(results["content"][2:])[1:-1]


@BOTH
def test_fold_pointer_and_assistant_summary(adapter: Adapter) -> None:
    kept = asked(adapter, "k")
    items = [ask("go"), *kept, *asked(adapter, "a"), ask("and"), *kept, *asked(adapter, "b"), ask("end")]
    size = len(kept)
    first = list(range(1 + size, 1 + 2 * size))
    second = list(range(2 + 3 * size, 2 + 4 * size))
    found = folded(adapter, items, record([*first, *second], second[-1], role=Role.ASSISTANT, pointers=[first[-1]]))
    check(found)
    expected = [("user", ["go"]), *spoken(kept), ("assistant", [pointer_text("c1")]), ("user", ["and"])]
    assert spoken(found.items) == [*expected, *spoken(kept), ("assistant", [SUMMARY]), ("user", ["end"])]


@BOTH
def test_fold_before_all_and_behind_all(adapter: Adapter) -> None:
    items = asked(adapter, "a")
    found = folded(adapter, items, record(range(len(items)), -1))
    check(found)
    assert spoken(found.items) == [("user", [SUMMARY])]
    items = [ask("go"), *asked(adapter, "a")]
    found = folded(adapter, items, record(range(1, len(items)), len(items) - 1))
    check(found)
    assert [text for _, texts in spoken(found.items) for text in texts] == ["go", SUMMARY]
    assert found.fold.item_count > len(items)  # the next item may join it


@BOTH
def test_fold_marker_of_what_retires_goes_to_the_summary_once(adapter: Adapter) -> None:
    early, late = asked(adapter, "a"), asked(adapter, "b")
    for results in (early[-1], late[-1]):
        if adapter is CHAT:
            results["content"] = [{"type": "text", "text": "got", **MARK}]
        else:
            results["content"][-1].update(MARK)
    items = [ask("go"), *early, *late, ask("then")]
    found = folded(adapter, items, record(range(1, len(items) - 1), len(items) - 2))
    check(found)
    assert (found.before.marker_count, found.after.marker_count, found.fold.marker_count) == (2, 1, 0)
    block = next(b for item in found.items for b in item["content"] if isinstance(b, dict) and b["text"] == SUMMARY)
    assert block["cache_control"] == {"type": "ephemeral"}


@BOTH
def test_fold_marker_that_an_adopted_summary_had_stays(adapter: Adapter) -> None:
    items = [ask("go"), *asked(adapter, "a"), ask("then")]
    marker = b'{"type":"ephemeral","ttl":"1h"}'
    found = folded(adapter, items, record(range(1, len(items) - 1), len(items) - 2), markers={"c1": marker})
    check(found)
    assert found.fold.marker_count == found.after.marker_count == 1
    assert marker in found.after.body


@BOTH
def test_fold_two_checkpoints_each_in_its_place(adapter: Adapter) -> None:
    a, b = asked(adapter, "a"), asked(adapter, "b")
    items = [ask("one"), *a, ask("two"), *b, ask("three")]
    size = len(a)
    other = SUMMARY.replace("c1", "c2")
    first = record(range(1, 1 + size), size)
    second = record(range(2 + size, 2 + 2 * size), 1 + 2 * size, checkpoint_id="c2", summary=other)
    found = folded(adapter, items, first, second)
    check(found)
    assert [text for _, texts in spoken(found.items) for text in texts] == ["one", SUMMARY, "two", other, "three"]
    assert [json.loads(text) for text in found.fold.texts] == [SUMMARY, other]


@BOTH
def test_fold_over_more_items_same_places(adapter: Adapter) -> None:
    items = [ask("go"), *asked(adapter, "a"), ask("then"), {"role": "assistant", "content": "x"}]
    checkpoint = record(range(1, len(items) - 2), len(items) - 3)
    found = folded(adapter, items, checkpoint)
    longer = [*items, ask("more"), {"role": "assistant", "content": "y"}]
    anew = folded(adapter, longer, checkpoint)
    grown = found.fold.over(len(longer))
    assert (grown.places, grown.finished_count) == (anew.fold.places, anew.fold.finished_count)
    assert found.edits == anew.edits
    assert found.fold.over(len(items)) is found.fold


def test_holds_results_by_role_and_part() -> None:
    found = folded(MESSAGES, [ask("go"), *asked(MESSAGES, "a")])
    items, parts = found.before.items(), found.before.parts()
    assert [holds_results(item, parts) for item in items] == [False, False, True]
    assert any(part.kind == Kind.RESULT for part in parts)
    chat = folded(CHAT, [ask("go"), *asked(CHAT, "a")])
    assert [holds_results(item, chat.before.parts()) for item in chat.before.items()] == [False, False, True]


@BOTH
def test_fold_two_summaries_side_by_side(adapter: Adapter) -> None:
    """One behind the other with nobody's words between: where users merge they are one item."""
    a, b = asked(adapter, "a"), asked(adapter, "b")
    items = [*a, *b, {"role": "assistant", "content": "x"}]
    size = len(a)
    other = SUMMARY.replace("c1", "c2")
    first = record(range(size), size - 1)
    second = record(range(size, 2 * size), 2 * size - 1, checkpoint_id="c2", summary=other)
    found = folded(adapter, items, first, second, markers={"c2": b'{"type":"ephemeral"}'})
    check(found)
    expected = [("user", [SUMMARY]), ("user", [other])] if adapter is CHAT else [("user", [SUMMARY, other])]
    assert spoken(found.items) == [*expected, ("assistant", ["x"])]
    assert found.after.marker_count == 1
