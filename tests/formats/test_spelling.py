from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.formats.base import Style
from sidecar.formats.spelling import spell, style_of

STYLES = [Style(ascii, slash, spaced) for ascii in (False, True) for slash in (False, True) for spaced in (False, True)]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (b'{"role": "user", "content": "\\u00e9"}', Style(ascii=True, slash=False, spaced=True)),
        ('{"role":"user","content":"é"}'.encode(), Style(ascii=False, slash=False, spaced=False)),
        (b'{"role":"user","content":"a\\/b"}', Style(ascii=True, slash=True, spaced=False)),
        (b'{"role":"user","content":"a/b \\/"}', Style(ascii=True, slash=False, spaced=False)),
        (b'{"role":"user","content":"C:\\\\\\\\/x"}', Style(ascii=True, slash=False, spaced=False)),
        (b'{\n  "role": "user"\n}', Style(ascii=True, slash=False, spaced=True)),
        (b'{"a\\"b: c" :"user"}', Style(ascii=True, slash=False, spaced=False)),
        (b'"no object"', Style(ascii=True, slash=False, spaced=False)),
        (b"", Style(ascii=True, slash=False, spaced=False)),
        (b'{"x":"\xff"}', Style(ascii=False, slash=False, spaced=False)),
    ],
)
def test_style_of_item_is_told_from_its_bytes(item: bytes, expected: Style) -> None:
    assert style_of(item) == expected


@pytest.mark.parametrize("style", STYLES)
def test_style_of_what_was_spelled_is_that_style(style: Style) -> None:
    value = {"role": "user", "content": "é/", "more": [1, {"a": "b/"}]}
    assert style_of(spell(value, style)) == style


@given(text=st.text(st.characters(codec=None)), style=st.sampled_from(STYLES))
def test_spell_any_text_reads_back_equal(text: str, style: Style) -> None:
    made = spell({"k": [text]}, style)
    assert json.loads(made.decode("utf-8")) == {"k": [text]}


@given(text=st.text(st.characters(codec=None)))
def test_spell_ascii_style_has_no_other_byte(text: str) -> None:
    assert spell(text, Style(ascii=True, slash=False, spaced=False)).isascii()


@given(text=st.text(alphabet='/\\"a'))
def test_spell_slash_style_leaves_no_bare_slash(text: str) -> None:
    made = spell(text, Style(ascii=False, slash=True, spaced=False))
    assert made.count(b"/") == made.count(b"\\/") == text.count("/")
