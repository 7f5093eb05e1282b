"""Paths inside an item: found in any client's form of it, shifted by what was left out, and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath import Edit, locate, splice
from sidecar.core.paths import find, raw_path, removal_spans, shift
from sidecar.core.types import Path


def at(body: bytes, span: tuple[int, int] | None) -> bytes | None:
    return None if span is None else body[span[0] : span[1]]


# Spelled with and without white space, because the commas must come out right in both.
SPELLINGS = [(",", ":"), (", ", ": "), (" ,\n\t", " : ")]
values = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(values, min_size=1, max_size=7), st.data(), st.sampled_from(SPELLINGS))
def test_removal_spans_of_any_subset_leaves_exactly_the_rest(
    elements: list[Any], data: st.DataObject, separators: tuple[str, str]
) -> None:
    gone = data.draw(st.sets(st.integers(0, len(elements) - 1), max_size=len(elements)))
    body = json.dumps({"a": 1, "content": elements, "b": [2]}, separators=separators).encode()
    paths = [(b"content", index) for index in gone]
    spans = removal_spans(body, 0, paths)
    after = splice(body, [Edit(start, end, b"") for start, end in sorted(spans.values())])
    # A list that would be left empty keeps all that it has.
    left = elements if len(gone) == len(elements) else [each for index, each in enumerate(elements) if index not in gone]
    assert json.loads(after) == {"a": 1, "content": left, "b": [2]}
    assert set(spans) == (set() if len(gone) == len(elements) else set(paths))


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5), min_size=1, max_size=4),
    st.data(),
)
def test_removal_spans_of_several_lists_take_each_by_itself(lists: list[list[int]], data: st.DataObject) -> None:
    body = json.dumps({"x": lists}).encode()
    gone = [data.draw(st.sets(st.integers(0, len(one) - 1))) for one in lists]
    paths = [(b"x", index, element) for index, each in enumerate(gone) for element in each]
    spans = removal_spans(body, 0, paths)
    after = json.loads(splice(body, [Edit(start, end, b"") for start, end in sorted(spans.values())]))
    assert after["x"] == [
        one if len(each) == len(one) else [value for index, value in enumerate(one) if index not in each]
        for one, each in zip(lists, gone, strict=True)
    ]


def test_removal_spans_of_what_is_not_there_is_nothing() -> None:
    body = b'{"content":[1,2],"text":"x"}'
    assert removal_spans(body, 0, [(b"content", 5), (b"other", 0), (b"text", 0)]) == {}
    assert removal_spans(body, 0, []) == {}


def test_removal_spans_counts_from_the_item_not_from_the_body() -> None:
    body = b'[{"c":[9]},{"c":[1,2]}]'
    spans = removal_spans(body, 11, [(b"c", 0)])
    assert splice(body, [Edit(*spans[(b"c", 0)], b"")]) == b'[{"c":[9]},{"c":[2]}]'


@pytest.mark.parametrize(
    ("path", "removed", "expected"),
    [
        ((b"content", 2), [], (b"content", 2)),
        ((b"content", 2), [(b"content", 0)], (b"content", 1)),
        ((b"content", 2), [(b"content", 0), (b"content", 1)], (b"content", 0)),
        ((b"content", 2), [(b"content", 3)], (b"content", 2)),
        ((b"content", 2, b"text"), [(b"content", 1)], (b"content", 1, b"text")),
        ((b"content", 2, b"content", 1), [(b"content", 2, b"content", 0)], (b"content", 2, b"content", 0)),
        ((b"content", 2, b"content", 1), [(b"content", 0), (b"content", 2, b"content", 0)], (b"content", 1, b"content", 0)),
        ((b"content", 2, b"content", 1), [(b"content", 1, b"content", 0)], (b"content", 2, b"content", 1)),
        ((b"other", 2), [(b"content", 0)], (b"other", 2)),
        ((b"content",), [(b"content", 0)], (b"content",)),
        ((), [(b"content", 0)], ()),
    ],
)
def test_shift_moves_later_siblings_only(path: Path, removed: list[Path], expected: Path) -> None:
    assert shift(path, removed) == expected


@given(st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=4), min_size=1, max_size=5), st.data())
def test_shift_and_raw_path_undo_each_other(lists: list[list[int]], data: st.DataObject) -> None:
    """Ensure that a value is found in the form without some elements, and told back where it stood."""
    raw = json.dumps({"content": [{"inner": one} for one in lists]}).encode()
    every = [(b"content", index, b"inner", place) for index, one in enumerate(lists) for place in range(len(one))]
    outer: list[Path] = [(b"content", index) for index in data.draw(st.sets(st.integers(0, len(lists) - 1)))]
    kept = [path for path in every if path[:2] not in outer]
    inner: list[Path] = list(data.draw(st.sets(st.sampled_from(kept)))) if kept else []
    removed: list[Path] = [*outer, *inner]
    value = json.loads(raw)
    for path in sorted(removed, key=lambda p: (len(p), p[1], p[-1]), reverse=True):
        holder = value["content"] if len(path) == 2 else value["content"][path[1]]["inner"]
        del holder[path[-1]]
    form = json.dumps(value).encode()
    for path in kept:
        if path in inner:
            continue
        moved = shift(path, removed)
        assert at(form, locate(form, 0, moved)) == at(raw, locate(raw, 0, path))
        assert raw_path(raw, moved, removed, is_string=False) == path


BLOCK = b'{"role":"tool","content":[{"type":"text","text":"hello"}]}'
STRING = b'{"role":"tool","content":"hello"}'


@pytest.mark.parametrize(
    ("raw_form", "path", "body"),
    [
        (STRING, (b"content",), STRING),
        (STRING, (b"content",), BLOCK),
        (BLOCK, (b"content", 0, b"text"), BLOCK),
        (BLOCK, (b"content", 0, b"text"), STRING),
    ],
)
def test_find_of_a_text_in_either_spelling_finds_it(raw_form: bytes, path: Path, body: bytes) -> None:
    assert at(raw_form, locate(raw_form, 0, path)) == b'"hello"'
    span = find(body, 0, path, is_string=True)
    assert at(body, span) == b'"hello"'


def test_find_of_a_value_that_is_no_string_asks_for_its_own_place() -> None:
    assert at(BLOCK, find(BLOCK, 0, (b"content",), is_string=False)) == b'[{"type":"text","text":"hello"}]'
    assert at(BLOCK, find(BLOCK, 0, (b"content", 0), is_string=False)) == b'{"type":"text","text":"hello"}'
    assert find(STRING, 0, (b"content", 0), is_string=False) is None


def test_find_of_a_string_that_became_something_else_finds_nothing() -> None:
    assert find(b'{"content":7}', 0, (b"content",), is_string=True) is None
    assert find(b'{"content":[{"type":"text","text":7}]}', 0, (b"content",), is_string=True) is None
    assert find(b'{"content":null}', 0, (b"content", 0, b"text"), is_string=True) is None
    assert find(b"{}", 0, (b"content",), is_string=True) is None


def test_find_in_an_item_that_lacks_elements_counts_them() -> None:
    body = b'{"content":["c","d"]}'
    removed: list[Path] = [(b"content", 0), (b"content", 1)]
    assert at(body, find(body, 0, (b"content", 3), removed, is_string=True)) == b'"d"'


def test_raw_path_of_a_text_in_the_other_spelling_is_the_raw_one() -> None:
    assert raw_path(STRING, (b"content", 0, b"text"), [], is_string=True) == (b"content",)
    assert raw_path(BLOCK, (b"content",), [], is_string=True) == (b"content", 0, b"text")
    assert raw_path(BLOCK, (b"content", 0, b"text"), [], is_string=True) == (b"content", 0, b"text")
    assert raw_path(STRING, (b"other",), [], is_string=True) is None
    assert raw_path(b'{"content":7}', (b"content",), [], is_string=True) is None
