"""The compiled form says what the Python form says: the same rows, the same bytes, the same error at the same offset."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastpath
from fastpath import Edit, GrammarSpec
from sidecar.formats import ADAPTERS
from tests.helpers.backends import PURE, Backend, compiled, outcome, scan_outcome
from tests.helpers.corpus import corpus_dir
from tests.helpers.grammars import CHAT, MESSAGES, TORTURE
from tests.helpers.json_bodies import CASES, SMALL_BODY, mutations, texts, torture_bodies

SPECS = {"messages": MESSAGES, "chat": CHAT, "torture": TORTURE}
FILES = sorted(corpus_dir().glob("*/*.json"))
HISTORY_KEYS = (b"messages", b"contents", b"input")


def assert_same_scan(fast: Backend, body: bytes, spec: GrammarSpec) -> None:
    assert scan_outcome(fast, body, fast.grammar(spec)) == scan_outcome(PURE, body, PURE.grammar(spec))


def assert_same_forms(fast: Backend, text: bytes, spec: GrammarSpec) -> None:
    ours, reference = fast.grammar(spec), PURE.grammar(spec)
    assert outcome(fast.canon, text, 0, len(text), ours) == outcome(PURE.canon, text, 0, len(text), reference)
    assert outcome(fast.strip_markers, text, 0, len(text), ours) == outcome(PURE.strip_markers, text, 0, len(text), reference)


def assert_same_paths(fast: Backend, text: bytes) -> None:
    assert outcome(fast.strings, text, 0, len(text), 0) == outcome(PURE.strings, text, 0, len(text), 0)


def test_backend_when_required_is_compiled() -> None:
    """Ensure that an environment that demands the extension did get it."""
    demanded = os.environ.get("FASTPATH_REQUIRE_C") == "1" and os.environ.get("FASTPATH_PURE") != "1"
    assert fastpath.backend.startswith("c-") or not demanded


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize("body", CASES.values(), ids=CASES)
def test_scan_of_hand_made_body_is_the_same(body: bytes, spec: GrammarSpec) -> None:
    fast = compiled()
    assert_same_scan(fast, body, spec)
    assert_same_forms(fast, body, spec)
    assert_same_paths(fast, body)


@settings(max_examples=150, deadline=None)
@given(body=torture_bodies, seed=st.integers(0, 10_000))
def test_scan_of_generated_body_is_the_same(body: bytes, seed: int) -> None:
    fast = compiled()
    for spec in SPECS.values():
        assert_same_scan(fast, body, spec)
        for changed in mutations(body, seed, 2):
            assert_same_scan(fast, changed, spec)


@settings(max_examples=150, deadline=None)
@given(text=texts, seed=st.integers(0, 10_000))
def test_forms_of_generated_text_are_the_same(text: bytes, seed: int) -> None:
    fast = compiled()
    for each in [text, *mutations(text, seed, 2)]:
        assert_same_paths(fast, each)
        for spec in SPECS.values():
            assert_same_forms(fast, each, spec)


@settings(max_examples=100, deadline=None)
@given(first=torture_bodies, second=torture_bodies, cut=st.integers(0, 200))
def test_scan_with_previous_reuses_as_much(first: bytes, second: bytes, cut: int) -> None:
    fast = compiled()
    ours, reference = fast.grammar(TORTURE), PURE.grammar(TORTURE)
    later = first[:cut] + second[cut:]
    earlier = outcome(fast.scan, first, ours), outcome(PURE.scan, first, reference)
    got = [kind for kind, _ in earlier]
    assert got[0] == got[1]
    previous = [found if kind == "returned" else None for kind, found in earlier]
    assert scan_outcome(fast, later, ours, previous[0]) == scan_outcome(PURE, later, reference, previous[1])
    counts = [
        getattr(outcome(backend.scan, later, grammar, before)[1], "reused_item_count", -1)
        for backend, grammar, before in ((fast, ours, previous[0]), (PURE, reference, previous[1]))
    ]
    assert counts[0] == counts[1]


def test_scan_of_body_cut_anywhere_fails_at_the_end() -> None:
    """Ensure that no prefix of a body passes, and that its end is what is wrong with it."""
    fast = compiled()
    for spec in SPECS.values():
        ours, reference = fast.grammar(spec), PURE.grammar(spec)
        for end in range(len(SMALL_BODY) - 1):  # without its final line feed it is whole
            found = scan_outcome(fast, SMALL_BODY[:end], ours)
            assert found == scan_outcome(PURE, SMALL_BODY[:end], reference)
            assert found == ("malformed", (end, "", f"unexpected end at byte {end}"))


def test_scan_of_body_with_any_byte_changed_is_the_same() -> None:
    fast = compiled()
    ours, reference = fast.grammar(MESSAGES), PURE.grammar(MESSAGES)
    for at in range(len(SMALL_BODY)):
        for byte in b'"\\}],x\x00':
            changed = SMALL_BODY[:at] + bytes([byte]) + SMALL_BODY[at + 1 :]
            assert scan_outcome(fast, changed, ours) == scan_outcome(PURE, changed, reference)


_RAW_PIECES = [
    *rb"\n \u00e9 \ud83d\ude00 \ud83d \ude00 \u20ac \" \\ \/ \u0000".split(),
    *"a bc é 😀 €".encode().split(),
    b"\x80",
    b"\xe2\x82",
]
_BAD_ENDS = [b"", b"", b"", b"\\", rb"\u12", rb"\x", rb"\u12G4", rb"\ud83d\u12"]


@settings(max_examples=300, deadline=None)
@given(
    pieces=st.lists(st.sampled_from([*_RAW_PIECES, b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]), max_size=30),
    end=st.sampled_from(_BAD_ENDS),
    block_bytes=st.integers(1, 12),
)
def test_decode_is_the_same(pieces: list[bytes], end: bytes, block_bytes: int) -> None:
    fast = compiled()
    raw = b"".join(pieces) + end
    assert outcome(fast.decode_string, raw) == outcome(PURE.decode_string, raw)
    assert outcome(fast.decode_blocks, raw, block_bytes) == outcome(PURE.decode_blocks, raw, block_bytes)


_DIGITS = st.text("0123456789", min_size=1, max_size=30)
_NUMBERS = st.builds(
    lambda sign, whole, fraction, exponent: f"{sign}{int(whole)}{fraction}{exponent}".encode(),
    st.sampled_from(["", "-"]),
    _DIGITS,
    st.one_of(
        st.just(""), _DIGITS.map(lambda digits: "." + digits), st.integers(0, 400).map(lambda count: "." + "0" * count + "1")
    ),
    st.one_of(st.just(""), st.builds(lambda mark, digits: mark + digits, st.sampled_from(["e", "E+", "e-"]), _DIGITS)),
)


@settings(max_examples=500, deadline=None)
@given(number=st.one_of(_NUMBERS, st.floats(allow_nan=False, allow_infinity=False).map(lambda value: repr(value).encode())))
def test_canon_of_number_is_the_same(number: bytes) -> None:
    assert_same_forms(compiled(), number, MESSAGES)


@pytest.mark.parametrize(
    "number",
    [
        b"5e-324",
        b"2.2250738585072011e-308",
        b"1.7976931348623159e308",
        b"1e999999999999999999",
        b"1e-999999999999999999",
        b"10e999999999999999999",
        b"0.1e-999999999999999999",
        b"100e-1000000000000000000",
        b"0.001e1000000000000000000",
        b"10e9999999999999999999999999",
        b"10e-9999999999999999999999999",
        b"1e00000000000000000000000001",
        b"9" * 5000,
        b"0." + b"0" * 3000 + b"123456789012345678901234567890",
        b"1" + b"0" * 2000 + b"1e-2000",
        b"5.684341886080802e-14",
        b"9007199254740993",
    ],
)
def test_canon_of_extreme_number_is_the_same(number: bytes) -> None:
    fast = compiled()
    for sign in (b"", b"-"):
        assert_same_forms(fast, sign + number, MESSAGES)


@settings(max_examples=150, deadline=None)
@given(body=st.binary(max_size=60), cuts=st.lists(st.integers(-2, 62), max_size=6), data=st.binary(max_size=5))
def test_splice_is_the_same(body: bytes, cuts: list[int], data: bytes) -> None:
    fast = compiled()
    edits = [Edit(start, end, data) for start, end in pairwise(cuts)]
    for ours, reference in ((fast.size, PURE.size), (fast.splice, PURE.splice)):
        results: list[object] = []
        for function in (ours, reference):
            try:
                results.append(function(body, edits))
            except ValueError as error:
                results.append(str(error))
        assert results[0] == results[1]


# ---- recorded bodies ----


def spec_of(path: Path) -> GrammarSpec:
    """The grammar of a recorded body's dialect."""
    name = path.name.partition("--")[0] if path.parent.name == "malformed" else path.parent.name
    (adapter,) = (each for each in ADAPTERS.values() if each.name == name)
    spec: GrammarSpec = adapter.grammar.spec
    return spec


def test_corpus_is_there() -> None:
    """Ensure that automated runs do not skip the recorded bodies in silence."""
    if not FILES and not os.environ.get("CI"):
        pytest.skip("no recorded bodies: set TRIMTAB_CORPUS")
    assert FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_recorded_body_is_the_same(path: Path) -> None:
    fast = compiled()
    spec, body = spec_of(path), path.read_bytes()
    ours, reference = fast.grammar(spec), PURE.grammar(spec)
    found = scan_outcome(fast, body, ours)
    assert found == scan_outcome(PURE, body, reference)
    for item in outcome(PURE.scan, body, reference)[1].items():  # type: ignore[attr-defined]
        span = (body, item.start, item.end)
        assert fast.canon(*span, ours) == PURE.canon(*span, reference)
        assert fast.strip_markers(*span, ours) == PURE.strip_markers(*span, reference)
    for start, end, path_to in fast.strings(body, 0, len(body), 10_000):
        assert fast.decode_blocks(body[start + 1 : end - 1], 4096) == PURE.decode_blocks(body[start + 1 : end - 1], 4096)
        assert fast.locate(body, 0, path_to) == (start, end)
    count = max(2, min(40, 1_000_000 // len(body)))
    for changed in mutations(body, len(body), count):
        assert scan_outcome(fast, changed, ours) == scan_outcome(PURE, changed, reference)
