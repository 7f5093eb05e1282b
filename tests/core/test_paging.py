"""Page tokens go on with their own question and with no other."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.errors import PageTokenInvalidError
from sidecar.core.paging import decode_page_token, encode_page_token


class Position(msgspec.Struct, frozen=True, array_like=True):
    number: int
    name: str


@given(st.text(), st.text(), st.binary(), st.integers(0, 2**60), st.text(max_size=100))
def test_decode_page_token_of_the_same_question_gives_the_position(a: str, b: str, c: bytes, number: int, name: str) -> None:
    token = encode_page_token(("kind/1", a, b, c), Position(number, name))
    assert token.isascii()
    assert decode_page_token(("kind/1", a, b, c), token, Position) == Position(number, name)


def test_decode_page_token_of_the_empty_token_is_the_beginning() -> None:
    assert decode_page_token(("kind/1",), "", Position) is None


@pytest.mark.parametrize(
    "question", [("kind/2", "a", "b"), ("kind/1", "ab", ""), ("kind/1", "a"), ("kind/1", b"a", "b"), ("kind/1", "a", "b", 0)]
)
def test_decode_page_token_of_another_question_raises(question: tuple[str | bytes | int, ...]) -> None:
    token = encode_page_token(("kind/1", "a", "b"), Position(7, "x"))
    with pytest.raises(PageTokenInvalidError):
        decode_page_token(question, token, Position)


@given(st.data())
def test_decode_page_token_altered_raises(data: st.DataObject) -> None:
    token = encode_page_token(("kind/1", "a"), Position(70_000, "xyz"))
    # The last character may hold bits that stand for nothing, so it is left alone.
    at = data.draw(st.integers(0, len(token) - 2))
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    other = data.draw(st.sampled_from(digits).filter(lambda digit: digit != token[at]))
    with pytest.raises(PageTokenInvalidError):
        decode_page_token(("kind/1", "a"), token[:at] + other + token[at + 1 :], Position)


@pytest.mark.parametrize("token", ["x", "!!!!", "é", "A" * 5000, "AAAAAAAAAAAAAAAAAAAAAAAA", " "])
def test_decode_page_token_of_no_token_raises(token: str) -> None:
    with pytest.raises(PageTokenInvalidError):
        decode_page_token(("kind/1", "a"), token, Position)
