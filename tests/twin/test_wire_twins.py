"""Both forms of `fastpath/_wire*`: the compiled one says what the Python one says, and both agree with protobuf's own runtime."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from fastpath import _wire_py
from tests.helpers.backends import REQUIRED
from trimtab.v1 import common_pb2, context_pb2


def _forms() -> Iterator[Any]:
    yield _wire_py
    try:
        yield importlib.import_module("fastpath._wire")
    except ImportError:
        if REQUIRED:
            raise


FORMS = list(_forms())
each_form = pytest.mark.parametrize("form", FORMS, ids=[form.__name__ for form in FORMS])
BODY = 3

int64s = st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.sampled_from([0, 1, 127, 128, 1 << 35, -1]))
values = st.one_of(st.none(), int64s, st.booleans(), st.binary(max_size=200), st.lists(st.binary(max_size=9), max_size=3))


def varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


fields = st.one_of(
    st.builds(lambda number, value: varint(number << 3) + varint(value), st.integers(1, 20), st.integers(0, (1 << 64) - 1)),
    st.builds(
        lambda number, data: varint(number << 3 | 2) + varint(len(data)) + data, st.integers(1, 20), st.binary(max_size=20)
    ),
    st.builds(lambda number, data: varint(number << 3 | 1) + data, st.integers(1, 20), st.binary(min_size=8, max_size=8)),
    st.builds(lambda number, data: varint(number << 3 | 5) + data, st.integers(1, 20), st.binary(min_size=4, max_size=4)),
)


def outcome(call: Callable[..., Any], *given_values: object) -> Any:
    try:
        return call(*given_values)
    except (DecodeError, OverflowError) as error:
        return type(error)


def request(body: bytes) -> bytes:
    session = common_pb2.SessionRef(session_id="s")
    return context_pb2.FitRequest(session=session, body=body, read_back=context_pb2.READ_BACK_CALLER).SerializeToString()


@each_form
def test_take_field_gives_the_content_and_the_rest(form: Any) -> None:
    body = b"x" * 300
    assert form.take_field(request(body), BODY) == (body, request(b""))


@each_form
@pytest.mark.parametrize(
    "message",
    [
        b"",
        request(b""),  # not there
        request(b"a") + b"\x1a\x01b",  # twice
        b"\x18\x01",  # there as a number
        b"\x1a\x01b\x18\x01",  # and as bytes
        b"\x1a\x05abc",  # ends outside
        b"\x1a",
        b"\x1a\xff\xff\xff\xff\x7f",
        b"\x1a\xff\xff\xff\xff\xff\x01",
        b"\x1a\x01b\x23\x24",  # a group
        b"\x1a\x01b\x26",
        b"\x1a\x01b\x02\x00",  # field 0
        b"\x1a\x01b\x08" + b"\xff" * 10,  # a number without end
        b"\x1a\x01b\x09\x00",
        b"\x1a\x01b\x0d\x00",
        b"\x1a\x01b\xff\xff\xff\xff\x7f\x01",  # a tag over 32 bits
    ],
)
def test_take_field_what_is_not_usual_is_left_alone(form: Any, message: bytes) -> None:
    assert form.take_field(message, BODY) is None


@each_form
@given(parts=st.lists(fields, max_size=6), cut=st.integers(0, 8))
def test_take_field_says_what_protobuf_reads(form: Any, parts: list[bytes], cut: int) -> None:
    message = b"".join(parts)
    message = message[: len(message) - cut] if cut else message
    taken = form.take_field(message, BODY)
    assert taken == _wire_py.take_field(message, BODY)
    if taken is not None:
        whole, rest = (outcome(context_pb2.FitRequest.FromString, each) for each in (message, taken[1]))
        if isinstance(rest, context_pb2.FitRequest):
            rest.body = taken[0]
        assert whole == rest


@pytest.mark.skipif(len(FORMS) < 2, reason="the extension fastpath._wire is not built")
@given(message=st.binary(max_size=60), number=st.integers(1, 5))
def test_take_field_twins_agree_on_anything(message: bytes, number: int) -> None:
    assert FORMS[1].take_field(message, number) == _wire_py.take_field(message, number)


@pytest.mark.skipif(len(FORMS) < 2, reason="the extension fastpath._wire is not built")
@given(given_values=st.lists(values, max_size=64), present=st.integers(0, (1 << 64) - 1))
@example(given_values=[1 << 63], present=0)
@example(given_values=[None] * 65, present=0)
def test_write_message_twins_agree(given_values: list[Any], present: int) -> None:
    one, other = (outcome(form.write_message, given_values, present) for form in FORMS)
    assert one == other


@each_form
@pytest.mark.parametrize("value", [1 << 63, -(1 << 63) - 1])
def test_write_message_too_large_a_number_is_refused(form: Any, value: int) -> None:
    with pytest.raises(OverflowError):
        form.write_message((value,))


@each_form
@pytest.mark.parametrize("value", ["text", 1.0, ["text"], (b"x",)])
def test_write_message_another_type_is_refused(form: Any, value: object) -> None:
    with pytest.raises(TypeError):
        form.write_message((value,))


@each_form
@given(limit=st.none() | int64s, size=int64s, tokens=st.none() | int64s)
def test_write_message_writes_what_protobuf_writes(form: Any, limit: int | None, size: int, tokens: int | None) -> None:
    written = form.write_message((0, limit), 0b10)
    assert written == common_pb2.Limits(soft_bytes=limit).SerializeToString()
    written = form.write_message((size, *(0,) * 9, tokens), 1 << 10)
    assert written == common_pb2.Pressure(total_bytes=size, tokens=tokens).SerializeToString()


@each_form
def test_write_message_repeated_and_empty_fields(form: Any) -> None:
    note = context_pb2.Note(reason="R")
    expected = context_pb2.FitResponse(before=common_pb2.Pressure(), notes=[note, context_pb2.Note()], history_digest=b"d")
    values = (0, b"", b"", None, [], [], [], None, [], [note.SerializeToString(), b""], None, 0, 0, b"d")
    assert form.write_message(values, 0b100) == expected.SerializeToString()
