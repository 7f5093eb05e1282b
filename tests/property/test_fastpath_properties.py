"""What holds for every input, in both forms."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fastpath import GrammarSpec, Shape
from tests.helpers.backends import BACKENDS, Backend, outcome, scan_outcome
from tests.helpers.grammars import MESSAGES, TORTURE
from tests.helpers.json_bodies import mutations, texts, torture_bodies

pytestmark = pytest.mark.parametrize("fp", BACKENDS, ids=lambda backend: backend.name)

BLIND = GrammarSpec(history=(b"messages",), system=(), tools=(), item="item", shapes={"item": Shape()})


def reads_as_json(text: bytes) -> bool:
    """What Python's own reader thinks, but for NaN and the infinities, which are not JSON."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        json.loads(text.decode("utf-8", "surrogateescape"), parse_constant=refuse)
    except ValueError:
        return False
    return True


def is_valid(fp: Backend, text: bytes) -> bool:
    return outcome(fp.strings, text, 0, len(text), 0)[0] == "returned"


@settings(max_examples=200, deadline=None)
@given(text=texts, seed=st.integers(0, 10_000))
def test_text_is_valid_when_json_says_so(fp: Backend, text: bytes, seed: int) -> None:
    assert is_valid(fp, text)
    for changed in mutations(text, seed, 5):
        assert is_valid(fp, changed) == reads_as_json(changed)
        body = b'{"messages":[' + changed + b"]}"
        assert (scan_outcome(fp, body, fp.grammar(BLIND))[0] == "returned") == reads_as_json(body)


@settings(max_examples=300, deadline=None)
@given(text=st.text(alphabet='{}[]",:\\u0129dDeE.+- \n\x01truefalsn/é', max_size=12))
def test_any_text_is_valid_when_json_says_so(fp: Backend, text: str) -> None:
    assert is_valid(fp, text.encode()) == reads_as_json(text.encode())


@settings(max_examples=200, deadline=None)
@given(body=torture_bodies, seed=st.integers(0, 10_000))
def test_error_offset_ends_a_prefix_that_could_go_on(fp: Backend, body: bytes, seed: int) -> None:
    """Ensure that what stands before the offset is blameless: cut there, the text is whole, or all that is wrong is its end."""
    grammar = fp.grammar(BLIND)
    for changed in mutations(body, seed, 5):
        kind, fault = outcome(fp.canon, changed, 0, len(changed), grammar)
        offset: int = fault[0] if kind == "malformed" else len(changed)  # type: ignore[index]
        cut_kind, cut_fault = outcome(fp.canon, changed, 0, offset, grammar)
        assert (cut_kind == "returned" and reads_as_json(changed[:offset])) or cut_fault == (
            offset,
            "",
            f"unexpected end at byte {offset}",
        )


@settings(max_examples=150, deadline=None)
@given(body=torture_bodies)
def test_scan_rows_are_consistent(fp: Backend, body: bytes) -> None:
    kind, scan = outcome(fp.scan, body, fp.grammar(TORTURE))
    assume(kind == "returned")
    found: Any = scan
    assert json.loads(body[slice(*found.history)].decode("utf-8", "surrogateescape")) is not None
    assert sum(found.sizes[1:]) == found.sizes.total == len(body)
    assert all(size >= 0 for size in found.sizes)
    parts = found.parts()
    first = 0
    for index, item in enumerate(found.items()):
        assert item.first_part == first
        first += item.part_count
        assert is_valid(fp, body[item.start : item.end])
        for number in range(item.first_part, first):
            part = parts[number]
            assert part.item == index
            assert -1 <= part.parent < number
            around = parts[part.parent] if part.parent >= 0 else item
            assert around.start <= part.start < part.end <= around.end
            for start, end in (part[6:8], part[8:10], part[10:12]):
                assert (start, end) == (-1, -1) or part.start <= start < end <= part.end
    assert first == found.part_count


@settings(max_examples=150, deadline=None)
@given(first=torture_bodies, second=torture_bodies, cut=st.integers(0, 300))
def test_scan_with_previous_is_the_scan(fp: Backend, first: bytes, second: bytes, cut: int) -> None:
    """Ensure that a previous scan never shows, whatever the two bodies share."""
    grammar = fp.grammar(TORTURE)
    kind, previous = outcome(fp.scan, first, grammar)
    assume(kind == "returned")
    for body in (first, second, first[:cut] + second[cut:], first[:cut] + second, first + b" ", first[:cut]):
        assert scan_outcome(fp, body, grammar, previous) == scan_outcome(fp, body, grammar)


# ---- canonical form ----

values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)),
    max_leaves=12,
)
dumps = st.builds(
    dict,
    ensure_ascii=st.booleans(),
    sort_keys=st.booleans(),
    indent=st.sampled_from([None, 0, 1, "\t"]),
    separators=st.sampled_from([None, (",", ":"), (" , ", " : ")]),
)


def exact(value: Any) -> Any:
    """A value to compare by: numbers by decimal value, apart from truth values and text."""
    if isinstance(value, bool) or value is None:
        return ("word", value)
    if isinstance(value, int | Decimal):
        return ("number", Decimal(value) + 0 if value else Decimal(0))
    if isinstance(value, str):
        return ("text", value)
    if isinstance(value, list):
        return ("list", [exact(each) for each in value])
    return ("object", {key: exact(each) for key, each in value.items()})


def strict(fp: Backend, text: bytes) -> bytes:
    return fp.canon(text, 0, len(text), fp.grammar(BLIND))[0]


@settings(max_examples=200, deadline=None)
@given(value=values, one=dumps, other=dumps)
def test_canon_of_any_two_dumps_is_the_same(fp: Backend, value: Any, one: dict[str, Any], other: dict[str, Any]) -> None:
    assert strict(fp, json.dumps(value, **one).encode()) == strict(fp, json.dumps(value, **other).encode())


@settings(max_examples=300, deadline=None)
@given(one=values, other=values)
def test_canon_of_two_values_is_the_same_only_when_they_are(fp: Backend, one: Any, other: Any) -> None:
    texts_ = [json.dumps(value).encode() for value in (one, other)]
    same = exact(json.loads(texts_[0], parse_float=Decimal)) == exact(json.loads(texts_[1], parse_float=Decimal))
    assert (strict(fp, texts_[0]) == strict(fp, texts_[1])) == same


@settings(max_examples=200, deadline=None)
@given(text=texts)
def test_canon_is_json_and_its_own_canon(fp: Backend, text: bytes) -> None:
    for grammar in (MESSAGES, BLIND):
        once, loose = fp.canon(text, 0, len(text), fp.grammar(grammar))
        assert reads_as_json(once)
        assert fp.canon(once, 0, len(once), fp.grammar(grammar)) == (once, loose)
        looser = once if loose is None else loose
        assert fp.canon(looser, 0, len(looser), fp.grammar(grammar)) == (looser, None)


@settings(max_examples=200, deadline=None)
@given(text=texts)
def test_strip_markers_changes_no_canon_and_strips_once(fp: Backend, text: bytes) -> None:
    grammar = fp.grammar(TORTURE)
    stripped = fp.strip_markers(text, 0, len(text), grammar)
    assert fp.canon(stripped, 0, len(stripped), grammar) == fp.canon(text, 0, len(text), grammar)
    assert fp.strip_markers(stripped, 0, len(stripped), grammar) == stripped


@settings(max_examples=300, deadline=None)
@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_loose_canon_of_number_reads_as_the_same_double(fp: Backend, value: float) -> None:
    for text in (repr(value), f"{value:.25e}", f"{value:.17g}"):
        once, loose = fp.canon(text.encode(), 0, len(text), fp.grammar(BLIND))
        assert float(loose or once) == value
    assert len({fp.canon(text.encode(), 0, len(text), fp.grammar(BLIND))[1] for text in (f"{value:.40e}", f"{value:.60e}")}) == 1


# ---- paths, text, splice ----


@settings(max_examples=150, deadline=None)
@given(text=texts)
def test_strings_are_where_locate_finds_them(fp: Backend, text: bytes) -> None:
    for start, end, path in fp.strings(text, 0, len(text), 0):
        assert fp.locate(text, 0, path) == (start, end)
        for depth in range(1, len(path) + 1):
            span = fp.locate_removal(text, 0, path[:depth])
            assert span is not None
            assert is_valid(fp, text[: span[0]] + text[span[1] :])


@settings(max_examples=200, deadline=None)
@given(content=st.text(max_size=60), ensure_ascii=st.booleans(), block_bytes=st.integers(1, 20))
def test_decode_blocks_cut_content_at_characters(fp: Backend, content: str, ensure_ascii: bool, block_bytes: int) -> None:
    raw = json.dumps(content, ensure_ascii=ensure_ascii).encode()[1:-1]
    decoded, starts = fp.decode_blocks(raw, block_bytes)
    assert decoded == content.encode() == fp.decode_string(raw)
    assert starts[0] == (0, 0)
    bounds = [*starts, (len(raw), len(decoded))]
    for (raw_start, start), (raw_end, end) in zip(bounds, bounds[1:], strict=False):
        assert fp.decode_string(raw[raw_start:raw_end]) == decoded[start:end]
        decoded[start:end].decode()
        assert end - start < block_bytes + 4
        assert end > start or not decoded


@settings(max_examples=200, deadline=None)
@given(
    body=st.binary(max_size=80),
    cuts=st.lists(st.integers(0, 80), max_size=10),
    data=st.lists(st.binary(max_size=6), min_size=5, max_size=5),
)
def test_splice_is_slicing(fp: Backend, body: bytes, cuts: list[int], data: list[bytes]) -> None:
    points = sorted(min(cut, len(body)) for cut in cuts)
    edits = [(points[place], points[place + 1], data[place // 2]) for place in range(0, len(points) - 1, 2)]
    expected = body
    for start, end, new in reversed(edits):
        expected = expected[:start] + new + expected[end:]
    assert fp.splice(body, edits) == expected
    assert fp.size(body, edits) == len(expected)


def test_numbers_of_javascript_and_python_are_one(fp: Backend) -> None:
    """Ensure that what Node prints for a double is recognized: 1e21 for 1e+21, 1e-7, no trailing zero."""
    pairs = [
        ("1e+21", "1e21"),
        ("1e-7", "1e-07"),
        ("100000000000000000000", "1e20"),
        ("0.000001", "1e-06"),
        ("5", "5.0"),
        ("-0", "0"),
    ]
    for node, python in pairs:
        assert re.fullmatch(r"-?\d[\d.e+-]*", node)
        assert strict(fp, node.encode()) == strict(fp, python.encode())
