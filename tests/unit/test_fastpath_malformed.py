"""A body that cannot be read is an error with the right offset, and every bound holds."""

from __future__ import annotations

import pytest

from fastpath import MalformedError, _json_py, _scan_py
from fastpath.limits import BODY_LIMIT_BYTES, DEPTH_LIMIT, ITEM_LIMIT, VALUE_LIMIT
from tests.helpers.backends import BACKENDS, PURE, Backend, compiled
from tests.helpers.grammars import MESSAGES
from tests.helpers.json_bodies import CASES

both = pytest.mark.parametrize("fp", BACKENDS, ids=lambda backend: backend.name)

# Where each hand-made body goes wrong for MESSAGES; what is not named here is right.
_H = len('{"messages":[')
OFFSETS = {
    "empty": 0,
    "space only": 2,
    "byte order mark": 0,
    "not an object": 0,
    "a number": 0,
    "no members": 1,
    "no history": 6,
    "history is null": 12,
    "history is a string": 12,
    "later history is no array": 41,
    "trailing comma in history": _H + 3,
    "leading comma in history": _H,
    "two commas": _H + 3,
    "no comma": _H + 3,
    "trailing comma in root": 15,
    "comma only": 1,
    "missing colon": 12,
    "missing value": 12,
    "key without quotes": 1,
    "trailing data": 15,
    "trailing object": 16,
    "other space": 15,
    "wrong bracket": _H + 1,
    "wrong closing": _H,
    "NaN": _H,
    "nan": _H + 1,
    "Infinity": _H + 1,
    "True": _H,
    "truth": _H + 3,
    "nulls": _H + 4,
    "leading zero": _H + 1,
    "minus only": _H + 1,
    "minus zero one": _H + 2,
    "plus": _H,
    "point only": _H,
    "point at the end": _H + 2,
    "point then exponent": _H + 2,
    "two points": _H + 3,
    "exponent only": _H + 2,
    "exponent sign only": _H + 3,
    "two exponents": _H + 3,
    "point in exponent": _H + 3,
    "hexadecimal": _H + 1,
    "number then letters": _H + 2,
    "single quotes": _H,
    "unclosed string": _H + 4,
    "unclosed key": 10,
    "line feed in string": _H + 2,
    "tab in string": _H + 2,
    "zero byte in string": _H + 2,
    "control in key": 6,
    "bad escape": _H + 3,
    "bad escape of a zero": _H + 3,
    "escaped line feed": _H + 3,
    "escape at the end": _H + 3,
    "short unicode escape": _H + 5,
    "cut unicode escape": _H + 5,
    "no digits": _H + 3,
    "invalid UTF-8 outside": _H,
    "one too deep": _H + 510,
    "deep objects": _H + 510 * 7,
    "two kinds, the better first": -1,
    "better history is no array": -1,
    "two kinds of history": -1,
}


@both
@pytest.mark.parametrize("name", CASES)
def test_scan_of_hand_made_body_fails_where_it_is_wrong(fp: Backend, name: str) -> None:
    try:
        fp.scan(CASES[name], fp.grammar(MESSAGES))
        offset = -1
    except MalformedError as error:
        offset = error.offset_bytes
    assert offset == OFFSETS.get(name, -1)


@both
@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_scan_of_ten_thousand_levels_fails_by_depth(fp: Backend, opening: bytes) -> None:
    for depth in (DEPTH_LIMIT - 1, 10_000):
        with pytest.raises(MalformedError) as caught:
            fp.scan(b'{"messages":[],"x":' + opening * (depth + 1), fp.grammar(MESSAGES))
        assert (caught.value.bound, caught.value.offset_bytes) == ("depth", 19 + (DEPTH_LIMIT - 1) * len(opening))


def check_item_bound(fp: Backend, limit: int) -> None:
    items = b"{}," * (limit - 1) + b"{}"
    assert fp.scan(b'{"messages":[' + items + b"]}", fp.grammar(MESSAGES)).item_count == limit
    with pytest.raises(MalformedError) as caught:
        fp.scan(b'{"messages":[' + items + b",{}]}", fp.grammar(MESSAGES))
    assert (caught.value.bound, caught.value.offset_bytes) == ("items", 13 + len(items) + 1)


def test_scan_of_a_million_items_passes_and_one_more_fails() -> None:
    check_item_bound(compiled(), 1_000_000)


def test_reference_scan_of_too_many_items_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ensure that the reference counts alike; a million would take it a minute."""
    assert ITEM_LIMIT == 1_000_000
    monkeypatch.setattr(_scan_py, "ITEM_LIMIT", 1000)
    check_item_bound(PURE, 1000)


def test_reference_scan_of_too_many_values_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_json_py, "VALUE_LIMIT", 100)
    grammar = PURE.grammar(MESSAGES)
    values = b"0," * 96 + b"0"  # beside the root, the history and the array itself
    assert PURE.scan(b'{"messages":[],"x":[' + values + b"]}", grammar).item_count == 0
    with pytest.raises(MalformedError) as caught:
        PURE.scan(b'{"messages":[],"x":[' + values + b",0]}", grammar)
    assert (caught.value.bound, caught.value.offset_bytes) == ("nodes", 20 + len(values) + 1)


def test_scan_of_too_many_values_fails_by_nodes() -> None:
    fp = compiled()
    grammar = fp.grammar(MESSAGES)
    values = b"0," * (VALUE_LIMIT - 4) + b"0"  # beside the root, the history and the array itself
    assert fp.scan(b'{"messages":[],"x":[' + values + b"]}", grammar).item_count == 0
    with pytest.raises(MalformedError) as caught:
        fp.scan(b'{"messages":[],"x":[' + values + b",0]}", grammar)
    assert (caught.value.bound, caught.value.offset_bytes) == ("nodes", 20 + len(values) + 1)


def test_scan_with_previous_keeps_counting_values() -> None:
    fp = compiled()
    grammar = fp.grammar(MESSAGES)
    item = b"[" + b"0," * 999 + b"0]"
    earlier = b'{"messages":[' + (item + b",") * 3000 + item + b"]}"
    body = earlier[:-2] + (b"," + item) * 1000 + b"]}"
    with pytest.raises(MalformedError) as caught:
        fp.scan(body, grammar, fp.scan(earlier, grammar))
    with pytest.raises(MalformedError) as afresh:
        fp.scan(body, grammar)
    assert (caught.value.bound, caught.value.offset_bytes) == (afresh.value.bound, afresh.value.offset_bytes)
    assert caught.value.bound == "nodes"


@both
def test_scan_of_two_gibibytes_fails_before_reading(fp: Backend) -> None:
    body = bytes(BODY_LIMIT_BYTES + 1)  # zeros that the system never has to make real
    with pytest.raises(MalformedError) as caught:
        fp.scan(body, fp.grammar(MESSAGES))
    assert (caught.value.bound, caught.value.offset_bytes) == ("body_bytes", BODY_LIMIT_BYTES)


@both
@pytest.mark.parametrize("body", [bytearray(b"{}"), "{}", None, memoryview(b"{}")], ids=lambda body: type(body).__name__)
def test_scan_of_what_is_not_bytes_is_a_type_error(fp: Backend, body: object) -> None:
    with pytest.raises(TypeError):
        fp.scan(body, fp.grammar(MESSAGES))


@both
def test_forms_of_a_bad_span_are_refused(fp: Backend) -> None:
    grammar = fp.grammar(MESSAGES)
    for start, end in ((-1, 1), (2, 1), (0, 3)):
        for function in (lambda *span: fp.canon(*span, grammar), lambda *span: fp.strip_markers(*span, grammar)):
            with pytest.raises(ValueError, match="span"):
                function(b"{}", start, end)
        with pytest.raises(ValueError, match="span"):
            fp.strings(b"{}", start, end, 0)
    with pytest.raises(MalformedError) as caught:
        fp.canon(b'[{"a":1}]', 1, 7, grammar)
    assert (caught.value.offset_bytes, str(caught.value)) == (7, "unexpected end at byte 7")
