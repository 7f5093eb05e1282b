"""Records applied to an item: a pure function of the item and its records, whatever form the item comes in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath import splice
from sidecar.core.records import apply_records, removals
from sidecar.core.types import Offload, Path, ReductionKind
from sidecar.formats.base import Adapter
from tests.core.build import CHAT, MESSAGES, dump


def record(path: Path, replacement: bytes, kind: ReductionKind = ReductionKind.RESULT) -> Offload:
    return Offload(kind, 0, path, replacement, "0" * 32, None, 1, 1)


def left_out(path: Path) -> Offload:
    return record(path, b"", ReductionKind.REASONING)


def applied(adapter: Adapter, item: bytes, records: list[Offload], count: int = 0) -> bytes:
    found, _ = apply_records(adapter, item, 0, 0, records, count)
    assert [each.record for each in found] == records
    return splice(item, sorted(each.edit for each in found if each.edit is not None))


TOOL = {"role": "tool", "tool_call_id": "a", "content": "long text"}
STUB = record((b"content",), b'"stub"')


def test_apply_records_of_a_raw_item_replaces_the_value_and_nothing_else() -> None:
    item = b'{ "role":"tool", "tool_call_id":"\\u0061" ,"content" : "long \\u00e9", "x":1.0}'
    assert applied(CHAT, item, [STUB]) == b'{ "role":"tool", "tool_call_id":"\\u0061" ,"content" : "stub", "x":1.0}'


def test_apply_records_of_an_item_as_it_was_sent_changes_nothing() -> None:
    assert applied(CHAT, dump(TOOL | {"content": "stub"}), [STUB], count=1) == dump(TOOL | {"content": "stub"})


def test_apply_records_of_an_item_with_its_older_record_applies_the_newer_only() -> None:
    item = {"role": "user", "content": ["one", "two"]}
    records = [record((b"content", 0), b'"ONE"'), record((b"content", 1), b'"TWO"')]
    assert applied(CHAT, dump(item), records) == dump({"role": "user", "content": ["ONE", "TWO"]})
    sent = {"role": "user", "content": ["ONE", "two"]}
    assert applied(CHAT, dump(sent), records, count=1) == dump({"role": "user", "content": ["ONE", "TWO"]})


def test_apply_records_of_a_text_in_the_other_spelling_replaces_it_there() -> None:
    blocks: dict[str, Any] = TOOL | {"content": [{"type": "text", "text": "long text", "cache_control": {"type": "ephemeral"}}]}
    expected = TOOL | {"content": [{"type": "text", "text": "stub", "cache_control": {"type": "ephemeral"}}]}
    assert applied(CHAT, dump(blocks), [STUB]) == dump(expected)
    back = record((b"content", 0, b"text"), b'"stub"')
    assert applied(CHAT, dump(TOOL), [back]) == dump(TOOL | {"content": "stub"})


def test_apply_records_of_a_block_keeps_the_marker_that_this_body_brings() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    stub = record((b"content", 0), b'{"type":"text","text":"stub"}', ReductionKind.MEDIA)
    plain = applied(MESSAGES, dump({"role": "user", "content": [image]}), [stub])
    assert plain == dump({"role": "user", "content": [{"type": "text", "text": "stub"}]})
    marked = applied(MESSAGES, dump({"role": "user", "content": [image | {"cache_control": {"type": "ephemeral"}}]}), [stub])
    expected = {"type": "text", "text": "stub", "cache_control": {"type": "ephemeral"}}
    assert marked == dump({"role": "user", "content": [expected]})


def test_apply_records_of_a_value_that_a_client_changed_leaves_it() -> None:
    found, _ = apply_records(CHAT, dump(TOOL | {"content": 7}), 0, 3, [STUB], 0)
    assert [(each.item, each.edit) for each in found] == [(3, None)]


def test_apply_records_with_an_element_left_out_finds_what_moved() -> None:
    item = {"role": "assistant", "content": ["thought", "text", "call"]}
    records = [left_out((b"content", 0)), record((b"content", 2), b'"CALL"')]
    assert applied(MESSAGES, dump(item), records) == dump({"role": "assistant", "content": ["text", "CALL"]})
    sent = {"role": "assistant", "content": ["text", "call"]}
    assert applied(MESSAGES, dump(sent), records, count=1) == dump({"role": "assistant", "content": ["text", "CALL"]})


def test_apply_records_places_old_and_new_removals_of_one_list_together() -> None:
    """Ensure that commas stay right when elements that a record left out border on elements that go now."""
    item = dump({"content": ["a", "b", "c", "d"]})
    going: list[Path] = [(b"content", 1)]
    found, spans = apply_records(MESSAGES, item, 0, 0, [left_out((b"content", 0))], 0, going)
    edits = [each.edit for each in found if each.edit is not None]
    assert set(spans) == set(going)
    start, end = spans[(b"content", 1)]
    assert splice(item, sorted([(edit.start, edit.end, b"") for edit in edits] + [(start, end, b"")])) == dump(
        {"content": ["c", "d"]}
    )


def test_removals_names_the_elements_of_the_first_records_only() -> None:
    records = [left_out((b"c", 0)), record((b"c", 1), b'"x"'), left_out((b"c", 2))]
    assert [removals(records, count) for count in range(4)] == [[], [(b"c", 0)], [(b"c", 0)], [(b"c", 0), (b"c", 2)]]


@pytest.mark.parametrize("spaced", [False, True])
@given(data=st.data(), size=st.integers(2, 6))
def test_apply_records_of_any_form_of_an_item_gives_the_same_value(data: st.DataObject, size: int, spaced: bool) -> None:
    """Ensure that raw history and adopted history end in the same projection, however far the agent has adopted."""
    order = data.draw(st.permutations(range(size)))
    gone = set(order[: data.draw(st.integers(0, size - 1))])
    records = [
        left_out((b"content", index)) if index in gone else record((b"content", index, b"text"), b'"stub %d"' % index)
        for index in data.draw(st.permutations(range(size)))
    ]
    expected = [{"type": "text", "text": f"stub {index}"} for index in range(size) if index not in gone]
    for count in range(size + 1):
        done = {int(each.path[1]) for each in records[:count]}
        form = {
            "content": [
                {"type": "text", "text": f"stub {index}" if index in done else f"text {index}"}
                for index in range(size)
                if not (index in gone and index in done)
            ]
        }
        body = json.dumps(form, separators=(", ", ": ") if spaced else (",", ":")).encode()
        assert json.loads(applied(MESSAGES, body, records, count)) == {"content": expected}
