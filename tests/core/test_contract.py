"""The contract fails on a body that is broken in exactly one way, clause by clause, and passes on the same body unbroken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath import Edit, Scan, locate, scan, splice
from sidecar.core.contract import PRESERVES, Placed, check_finished, new_violations, open_spans
from sidecar.core.errors import InternalError
from sidecar.core.types import EffectState, Path, ReductionKind
from sidecar.core.units import build_units, mark_settled
from sidecar.formats.base import Adapter, Violation
from tests.core.build import CHAT, MESSAGES, decode_at, dump, receipt

RESULT = ReductionKind.RESULT
ARGUMENTS = ReductionKind.ARGUMENTS
MEDIA = ReductionKind.MEDIA
REASONING = ReductionKind.REASONING

CHAT_ITEMS: list[dict[str, Any]] = [
    {"role": "system", "content": "be kind"},
    {
        "role": "user",
        "content": [{"type": "text", "text": "go"}, {"type": "image_url", "image_url": {"url": "data:;base64,AAAA"}}],
    },
    {
        "role": "assistant",
        "content": "sure",
        "reasoning_content": "hm",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}", "thought_signature": "s"}}],
    },
    {"role": "tool", "tool_call_id": "a", "content": "ok", "extra": "note"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "ok", "cache_control": {"type": "ephemeral"}}]},
]
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
MESSAGES_ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "go"}, IMAGE]},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "thinking", "thinking": "so", "signature": "t"},
            {"type": "text", "text": "sure"},
            {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "ok"}, IMAGE], "is_error": False},
            {"type": "text", "text": "and then?"},
        ],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
    {"role": "user", "content": "bye"},
]


class Change(NamedTuple):
    """One edit, told by the place of the value that it replaces."""

    item: int
    path: Path
    data: bytes
    kind: ReductionKind = RESULT
    settled: bool = True


def before_of(adapter: Adapter) -> Scan:
    items = CHAT_ITEMS if adapter is CHAT else MESSAGES_ITEMS
    return scan(dump({"model": "m", "messages": items}), adapter.grammar)


def place(before: Scan, change: Change) -> Placed:
    span = locate(before.body, before.item(change.item).start, change.path)
    assert span is not None
    return Placed(Edit(*span, change.data), change.kind, change.item, change.settled)


def check(
    adapter: Adapter, placed: Sequence[Placed], *, after: bytes | None = None, size_bytes: int | None = None, rules: bool = False
) -> None:
    """Check what the edits make of the body, or another body in its place."""
    before = before_of(adapter)
    made = splice(before.body, [each.edit for each in placed]) if after is None else after
    finished = scan(made, adapter.grammar)
    violations = (adapter.check(before), adapter.check(finished)) if rules else ((), ())
    check_finished(before, finished, placed, len(made) if size_bytes is None else size_bytes, *violations)


def check_changes(adapter: Adapter, *changes: Change, **told: Any) -> None:
    before = before_of(adapter)
    check(adapter, sorted((place(before, each) for each in changes), key=lambda each: each.edit.start), **told)


STUB = Change(3, (b"content",), b'"stub"')
GOOD = [
    (CHAT, STUB),
    (CHAT, Change(3, (b"content",), b'"stub"', ReductionKind.EXTERNALIZE)),
    (CHAT, Change(3, (b"content",), b'"stub"', ReductionKind.RECENT_RESULT)),
    (CHAT, Change(3, (b"extra",), b'"stub"')),
    (CHAT, Change(5, (b"content", 0, b"text"), b'"stub"')),
    (CHAT, Change(4, (b"tool_calls", 0, b"function", b"arguments"), b'"{\\"_moved_out\\":\\"x\\"}"', ARGUMENTS)),
    (CHAT, Change(1, (b"content", 1), b'{"type":"text","text":"stub"}', MEDIA)),
    (CHAT, Change(2, (b"reasoning_content",), b'""', REASONING)),
    (MESSAGES, Change(2, (b"content", 0, b"content"), b'[{"type":"text","text":"stub"}]')),
    (MESSAGES, Change(2, (b"content", 0, b"content", 0, b"text"), b'"stub"')),
    (MESSAGES, Change(2, (b"content", 0, b"content", 1), b'{"type":"text","text":"stub"}', MEDIA)),
    (MESSAGES, Change(0, (b"content", 1), b'{"type":"text","text":"stub"}', MEDIA)),
    (MESSAGES, Change(1, (b"content", 3, b"input"), b'{"_moved_out":"x"}', ARGUMENTS)),
]


@pytest.mark.parametrize(("adapter", "change"), GOOD, ids=str)
def test_check_finished_of_a_good_edit_passes(adapter: Adapter, change: Change) -> None:
    check_changes(adapter, change, rules=True)


@pytest.mark.parametrize(("adapter", "change"), GOOD, ids=str)
def test_check_finished_of_a_good_edit_in_an_unsettled_unit_fails(adapter: Adapter, change: Change) -> None:
    with pytest.raises(InternalError, match="unsettled work"):
        check_changes(adapter, change._replace(settled=False))


def test_check_finished_of_work_that_is_not_settled_fails() -> None:
    with pytest.raises(InternalError):
        check_changes(CHAT, STUB._replace(settled=False))


BAD_PLACES = [
    # Text of system, user and assistant items, by every kind that could claim it.
    *((CHAT, Change(0, (b"content",), b'"x"', kind)) for kind in ReductionKind),
    *((CHAT, Change(1, (b"content", 0, b"text"), b'"x"', kind)) for kind in ReductionKind),
    *((CHAT, Change(2, (b"content",), b'"x"', kind)) for kind in ReductionKind),
    *((MESSAGES, Change(4, (b"content",), b'"x"', kind)) for kind in ReductionKind),
    *((MESSAGES, Change(2, (b"content", 1, b"text"), b'"x"', kind)) for kind in ReductionKind),
    # The right place by the wrong kind.
    (CHAT, Change(3, (b"content",), b'"x"', ARGUMENTS)),
    (CHAT, Change(3, (b"content",), b'"x"', REASONING)),
    (CHAT, Change(4, (b"tool_calls", 0, b"function", b"arguments"), b'"{}"', RESULT)),
    (CHAT, Change(1, (b"content", 1), b'{"type":"text","text":"x"}', RESULT)),
    (MESSAGES, Change(1, (b"content", 3, b"input"), b"{}", RESULT)),
    (MESSAGES, Change(1, (b"content", 0, b"thinking"), b'"x"', RESULT)),
    # Part of arguments, or more than them.
    (MESSAGES, Change(1, (b"content", 3, b"input", b"x"), b"2", ARGUMENTS)),
    (MESSAGES, Change(1, (b"content", 3), b'{"type":"tool_use","id":"a","name":"f","input":{}}', ARGUMENTS)),
]


@pytest.mark.parametrize(("adapter", "change"), BAD_PLACES, ids=str)
def test_check_finished_of_an_edit_where_its_kind_may_not_write_fails(adapter: Adapter, change: Change) -> None:
    with pytest.raises(InternalError, match="stands where it may not"):
        check_changes(adapter, change)


@pytest.mark.parametrize(
    ("adapter", "change"),
    [
        (CHAT, Change(3, (b"tool_call_id",), b'"z"')),
        (MESSAGES, Change(2, (b"content", 0, b"tool_use_id"), b'"z"')),
        (MESSAGES, Change(2, (b"content", 0, b"is_error"), b"true")),
    ],
    ids=str,
)
def test_check_finished_of_a_result_with_another_joint_fails(adapter: Adapter, change: Change) -> None:
    with pytest.raises(InternalError, match="lost its id"):
        check_changes(adapter, change)


@pytest.mark.parametrize("key", [b"id", b"name"])
def test_check_finished_of_a_call_with_another_joint_fails(key: bytes) -> None:
    before = before_of(MESSAGES)
    edit = place(before, Change(1, (b"content", 3, b"input"), b'{}, "%s": "z"' % key, ARGUMENTS))
    with pytest.raises(InternalError, match="lost its id"):
        check(MESSAGES, [edit])


def test_check_finished_of_a_call_that_is_gone_fails() -> None:
    before = before_of(MESSAGES)
    edit = place(before, Change(2, (b"content", 0, b"content"), b'"x", "type": "text"'))
    with pytest.raises(InternalError, match="lost its id"):
        check(MESSAGES, [edit])


def test_check_finished_of_an_item_with_another_role_fails() -> None:
    before = before_of(CHAT)
    edit = place(before, Change(3, (b"extra",), b'"x", "role": "user"'))
    with pytest.raises(InternalError, match="changed its role"):
        check(CHAT, [edit])


def test_check_finished_of_a_signed_part_that_changed_fails() -> None:
    arguments: Path = (b"tool_calls", 0, b"function", b"arguments")
    with pytest.raises(InternalError, match="signed part"):
        check_changes(CHAT, Change(2, arguments, b'"{\\"x\\":1}"', ARGUMENTS))


def test_check_finished_of_a_signed_call_beside_reasoning_that_goes_fails() -> None:
    """Ensure that reasoning, which may be signed and go, does not take the check of other signed parts with it."""
    arguments: Path = (b"tool_calls", 0, b"function", b"arguments")
    with pytest.raises(InternalError, match="signed part"):
        check_changes(
            CHAT, Change(2, (b"reasoning_content",), b'""', REASONING), Change(2, arguments, b'"{\\"x\\":1}"', ARGUMENTS)
        )


@pytest.mark.parametrize(
    ("adapter", "item", "path"), [(CHAT, 1, (b"content", 0, b"text")), (MESSAGES, 2, (b"content", 1, b"text"))]
)
def test_check_finished_of_a_users_text_that_was_touched_fails(adapter: Adapter, item: int, path: Path) -> None:
    with pytest.raises(InternalError):
        check_changes(adapter, Change(item, path, b'"x"'))


# Elements that are left out


def cut_elements(first: int, last: int, comma: str) -> Placed:
    """Leave out content elements of the assistant's turn, with the comma before or behind them."""
    before = before_of(MESSAGES)
    start = before.item(1).start
    spans = [locate(before.body, start, (b"content", index)) for index in range(4)]
    assert all(span is not None for span in spans)
    known = [span for span in spans if span is not None]
    if comma == "behind":
        return Placed(Edit(known[first][0], known[last + 1][0], b""), REASONING, 1, True)
    return Placed(Edit(known[first - 1][1], known[last][1], b""), REASONING, 1, True)


def test_check_finished_of_reasoning_that_is_left_out_passes() -> None:
    check(MESSAGES, [cut_elements(0, 0, "behind")], rules=True)
    check(MESSAGES, [cut_elements(1, 1, "before")], rules=True)
    check(MESSAGES, [cut_elements(0, 0, "behind"), cut_elements(1, 1, "behind")], rules=True)


@pytest.mark.parametrize(("first", "last", "comma"), [(1, 2, "before"), (0, 2, "behind"), (1, 2, "behind")])
def test_check_finished_of_text_that_is_left_out_with_reasoning_fails(first: int, last: int, comma: str) -> None:
    with pytest.raises(InternalError, match="stands where it may not"):
        check(MESSAGES, [cut_elements(first, last, comma)])


@pytest.mark.parametrize(("index", "comma"), [(2, "before"), (3, "before")])
def test_check_finished_of_an_element_that_is_no_reasoning_fails(index: int, comma: str) -> None:
    with pytest.raises(InternalError, match="stands where it may not"):
        check(MESSAGES, [cut_elements(index, index, comma)])


# The body as a whole


@pytest.mark.parametrize("by", [-1, 1])
def test_check_finished_of_another_size_than_computed_fails(by: int) -> None:
    with pytest.raises(InternalError, match="size"):
        check_changes(CHAT, STUB, size_bytes=len(before_of(CHAT).body) + 2 + by)


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"be kind", b"be mean"), (b'"model":"m"', b'"model":"n"'), (b'"stub"', b'"stab"'), (b'"extra":"note"', b'"extra":"nota"')],
)
def test_check_finished_of_bytes_that_changed_anywhere_fails(old: bytes, new: bytes) -> None:
    before = before_of(CHAT)
    placed = place(before, STUB)
    good = splice(before.body, [placed.edit])
    assert good.count(old) == 1
    check(CHAT, [placed], after=good)
    with pytest.raises(InternalError, match="bytes outside"):
        check(CHAT, [placed], after=good.replace(old, new))


@given(st.data())
def test_check_finished_of_any_flipped_byte_fails(data: st.DataObject) -> None:
    before = before_of(CHAT)
    placed = place(before, STUB)
    good = splice(before.body, [placed.edit])
    # Inside texts, so that the body stays readable: all other bytes are caught by the scan.
    inside = [
        at for text in (b"be kind", b"stub", b"sure", b"hm") for at in range(good.index(text), good.index(text) + len(text))
    ]
    at = data.draw(st.sampled_from(inside))
    with pytest.raises(InternalError):
        check(CHAT, [placed], after=good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])


def test_check_finished_of_edits_out_of_order_fails() -> None:
    before = before_of(CHAT)
    placed = [place(before, Change(5, (b"content", 0, b"text"), b'"x"')), place(before, STUB)]
    good = splice(before.body, sorted(each.edit for each in placed))
    check(CHAT, placed[::-1], after=good)
    with pytest.raises(InternalError, match="not in its place"):
        check(CHAT, placed, after=good)


@pytest.mark.parametrize("data", [b'"x"},{"role":"user","content":"y"', b'"x"},{"role":"tool","tool_call_id":"a","content":"y"'])
def test_check_finished_of_an_item_that_was_added_fails(data: bytes) -> None:
    before = before_of(CHAT)
    placed = place(before, Change(3, (b"extra",), data))
    with pytest.raises(InternalError, match="an item was added or lost"):
        check(CHAT, [placed])


@pytest.mark.parametrize("data", [b'[{"type":"text","text":"stub"}]', b'"stub"'])
def test_check_finished_of_a_marker_that_is_lost_fails(data: bytes) -> None:
    with pytest.raises(InternalError, match="marker"):
        check_changes(CHAT, Change(5, (b"content",), data))


def test_check_finished_of_a_marker_that_is_multiplied_fails() -> None:
    with pytest.raises(InternalError, match="marker"):
        check_changes(CHAT, Change(3, (b"content",), b'[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]'))


def test_check_finished_of_a_rule_that_breaks_now_fails() -> None:
    with pytest.raises(InternalError, match="rule CONTENT_TYPE at item 3"):
        check_changes(CHAT, Change(3, (b"content",), b"7"), rules=True)


def test_check_finished_of_a_tool_in_the_envelope_passes() -> None:
    before = before_of(CHAT)
    placed = Placed(Edit(len(before.body) - 1, len(before.body) - 1, b',"tools":[]'), ReductionKind.UNSPECIFIED, -1, True)
    check(CHAT, [placed])


def test_check_finished_takes_proven_items_as_they_are_and_still_checks_the_whole() -> None:
    bad = Change(0, (b"content",), b'"x"')
    before = before_of(CHAT)
    made = splice(before.body, [place(before, bad).edit])
    after = scan(made, CHAT.grammar)
    check_finished(before, after, [place(before, bad)], len(made), (), (), 1)
    with pytest.raises(InternalError, match="size"):
        check_finished(before, after, [place(before, bad)], len(made) + 1, (), (), 1)
    with pytest.raises(InternalError, match="stands where it may not"):
        check_finished(before, after, [place(before, bad)], len(made), (), (), 0)


def violation(rule: str, item: int, offset: int = 0) -> Violation:
    return Violation(rule, item, offset, "")


def test_new_violations_compares_by_rule_and_item_and_counts() -> None:
    old = [violation("A", 1, 5), violation("A", 1, 9), violation("B", 2)]
    assert new_violations(old, [violation("A", 1, 700), violation("B", 2), violation("A", 1)]) == []
    assert new_violations(old, [violation("A", 1)] * 3) == [violation("A", 1)]
    assert new_violations(old, [violation("A", 2)]) == [violation("A", 2)]
    assert new_violations(old, []) == []


# What unsettled units hold


def test_open_spans_holds_all_of_unsettled_units_and_nothing_else() -> None:
    before = before_of(CHAT)
    items, parts = before.items(), before.parts()
    units = build_units(items, parts, lambda a, b: decode_at(before.body, a, b))
    mark_settled(units, parts, range(len(items)), {(2, 0): receipt(2, EffectState.WAITING, 9)}, set(), set())
    held = [before.body[start:end] for start, end in open_spans(items, parts, units)]
    call = locate(before.body, items[2].start, (b"tool_calls", 0))
    assert call is not None
    assert sorted(held) == sorted([before.body[slice(*call)], b'"hm"', before.body[items[3].start : items[3].end]])
    mark_settled(units, parts, range(len(items)), {}, set(), set())
    assert open_spans(items, parts, units) == []


def test_open_spans_leaves_the_users_text_beside_a_result_out() -> None:
    before = before_of(MESSAGES)
    items, parts = before.items(), before.parts()
    units = build_units(items, parts, lambda a, b: decode_at(before.body, a, b))
    mark_settled(units, parts, range(len(items)), {(1, 0): receipt(1, EffectState.PENDING, 9)}, set(), set())
    held = open_spans(items, parts, units)
    text = locate(before.body, items[2].start, (b"content", 1))
    result = locate(before.body, items[2].start, (b"content", 0))
    assert result in held
    assert text is not None
    assert not any(start < text[1] and text[0] < end for start, end in held)


def test_preserves_names_four_columns_for_each_operation() -> None:
    assert set(PRESERVES) == {"fit", "compact"}
    assert all(all(row) for row in PRESERVES.values())
    assert PRESERVES["fit"]._fields == ("provenance", "unresolved_work", "recovery", "constraints")
