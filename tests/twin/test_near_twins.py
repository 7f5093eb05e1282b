"""Both forms of `fastpath/_near*`: the compiled one says what the Python one says, and both say what the definition says."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath import _near_py, locate, splice
from tests.helpers.backends import REQUIRED, outcome
from tests.helpers.json_bodies import CASES, mutations, texts


def _forms() -> Iterator[Any]:
    yield _near_py
    try:
        yield importlib.import_module("fastpath._near")
    except ImportError:
        if REQUIRED:
            raise


FORMS = list(_forms())
NAMES = [form.__name__ for form in FORMS]
each_form = pytest.mark.parametrize("form", FORMS, ids=NAMES)
pieces = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.binary(max_size=9)), max_size=5)


def ordered(body: bytes, given_pieces: list[tuple[int, int, bytes]]) -> list[tuple[int, int, bytes]]:
    """Edits in order that do not overlap, from gaps and lengths."""
    edits, at = [], 0
    for gap, length, data in given_pieces:
        start = min(at + gap, len(body))
        at = min(start + length, len(body))
        edits.append((start, at, data))
    return edits


@each_form
@given(size=st.integers(0, 20_000), at=st.integers(0, 20_000), longer=st.integers(0, 3))
def test_common_prefix_is_where_the_first_difference_is(form: Any, size: int, at: int, longer: int) -> None:
    one = bytes(range(251)) * 80
    one = one[:size]
    other = one[:at] + (bytes([one[at] ^ 1]) if at < size else b"") + one[at + 1 :] + b"x" * longer
    assert form.common_prefix(one, other) == form.common_prefix(other, one) == min(at, size)
    assert form.common_prefix(one, other, min(at, size) // 2) == min(at, size)


@each_form
@pytest.mark.parametrize("known", [-1, 4])
def test_common_prefix_of_which_more_is_known_than_there_is_is_refused(form: Any, known: int) -> None:
    with pytest.raises(ValueError, match="more is known"):
        form.common_prefix(b"abc", b"abcd", known)


@each_form
@given(body=st.binary(max_size=80), changes=pieces)
def test_is_spliced_of_what_splice_made_is_true(form: Any, body: bytes, changes: list[tuple[int, int, bytes]]) -> None:
    edits = ordered(body, changes)
    assert form.is_spliced(body, edits, splice(body, edits))


@each_form
@given(body=st.binary(max_size=80), changes=pieces, data=st.data())
def test_is_spliced_of_anything_else_is_false(
    form: Any, body: bytes, changes: list[tuple[int, int, bytes]], data: st.DataObject
) -> None:
    edits = ordered(body, changes)
    made = splice(body, edits)
    at = data.draw(st.integers(0, len(made)))
    flipped = made[:at] + bytes([made[at] ^ 4]) + made[at + 1 :] if at < len(made) else b""
    for other in (made[:at] + b"x" + made[at:], made[:at] + made[at + 1 :], flipped):
        assert form.is_spliced(body, edits, other) == (other == made)


@each_form
@pytest.mark.parametrize("edits", [[(3, 2, b"")], [(0, 9, b"")], [(2, 3, b""), (1, 2, b"")], [(-1, 0, b"")]])
def test_is_spliced_with_edits_that_cannot_be_is_false(form: Any, edits: list[tuple[int, int, bytes]]) -> None:
    assert not form.is_spliced(b"abcdef", edits, b"abcdef")


@each_form
def test_path_at_each_value_of_a_body_leads_to_it(form: Any) -> None:
    body = b' {"a" : [1, {"b\\u00e9": "x", "": [ ]}, [[2]]], "c": {"d": null}}'
    paths = {offset: form.path_at(body, 1, offset) for offset in range(len(body) + 3)}
    assert {path for path in paths.values() if path is not None} == {
        (), (b"a",), (b"a", 0), (b"a", 1), (b"a", 1, "bé".encode()), (b"a", 1, b""), (b"a", 2), (b"a", 2, 0), (b"a", 2, 0, 0),
        (b"c",), (b"c", b"d"),
    }  # fmt: skip
    for offset, path in paths.items():
        span = None if path is None else locate(body, 1, path)
        assert path is None or span is not None and span[0] == offset


def assert_same_paths(body: bytes, offsets: range) -> None:
    for offset in offsets:
        assert outcome(FORMS[0].path_at, body, 0, offset) == outcome(FORMS[1].path_at, body, 0, offset)


@pytest.mark.skipif(len(FORMS) < 2, reason="the extension fastpath._near is not built")
@pytest.mark.parametrize("body", CASES.values(), ids=CASES)
def test_path_at_of_hand_made_body_is_the_same(body: bytes) -> None:
    assert_same_paths(body, range(0, len(body) + 1, max(len(body) // 40, 1)))


@pytest.mark.skipif(len(FORMS) < 2, reason="the extension fastpath._near is not built")
@settings(deadline=None, max_examples=60)
@given(text=texts, seed=st.integers(0, 10_000))
def test_path_at_of_generated_text_is_the_same(text: bytes, seed: int) -> None:
    whole = b"[" + text + b"]"
    for body in [whole, *(b"[" + each for each in mutations(text + b"]", seed, 2))]:
        assert_same_paths(body, range(0, len(body) + 1, max(len(body) // 40, 1)))
