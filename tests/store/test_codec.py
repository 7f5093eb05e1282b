"""Seals, versions, keys, sizes: no LMDB."""

from __future__ import annotations

from hashlib import sha256

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.types import Anchors, CallKey, LimitsGiven, PinKey
from sidecar.ports import SessionHead
from store import codec, layout
from store.codec import DamageError, NewerError, Record


class First(msgspec.Struct, frozen=True, array_like=True):
    """A record as it was."""

    name: str
    count: int


class Second(msgspec.Struct, frozen=True, array_like=True):
    """The same, grown at its end."""

    name: str
    count: int
    extra: tuple[int, ...] = ()


OLD = Record("thing", First, 1)
NEW = Record("thing", Second, 2)


def test_decode_older_record_takes_defaults() -> None:
    assert NEW.decode(memoryview(OLD.encode(First("a", 3)))) == Second("a", 3, ())


def test_decode_newer_record_is_refused_naming_both() -> None:
    with pytest.raises(NewerError, match="thing record has version 2, this program knows 1") as caught:
        OLD.decode(memoryview(NEW.encode(Second("a", 3, (1,)))))
    assert (caught.value.found, caught.value.known) == (2, 1)


@pytest.mark.parametrize("payload", [b"", b"\x01", b"\x01\xc1", b"\x01\x92\xa1a", b"\x01\x91\xa1a", b"\x01\x92\x01\x02"])
def test_decode_torn_record_is_damage(payload: bytes) -> None:
    with pytest.raises(DamageError):
        OLD.decode(memoryview(payload))


def test_decode_keeps_no_view() -> None:
    payload = bytearray(codec.SOURCES.encode(()) + b"")
    head = codec.HeadRecord(b"k" * 40, SessionHead(branch=((0, 3),)), b"d" * 32, 3, 1, 0, 0, bytes(8))
    buffer = bytearray(codec.HEAD.encode(head))
    decoded = codec.HEAD.decode(memoryview(buffer))
    buffer[:] = bytes(len(buffer))
    payload.clear()
    assert decoded == head


@given(st.binary(max_size=200), st.binary(max_size=200), st.data())
def test_unseal_any_flipped_bit_or_other_key_is_damage(key: bytes, payload: bytes, data: st.DataObject) -> None:
    value = codec.seal(key, payload)
    assert bytes(codec.unseal(key, memoryview(value))) == payload
    place = data.draw(st.integers(0, len(value) * 8 - 1))
    spoiled = bytearray(value)
    spoiled[place // 8] ^= 1 << place % 8
    for other_key, other_value in [(key, bytes(spoiled)), (key + b"x", value), (key, value[:-1]), (key, b"")]:
        with pytest.raises(DamageError):
            codec.unseal(other_key, memoryview(other_value))


@given(st.text(alphabet=st.characters(), max_size=40))
def test_encode_any_text_is_never_refused(text: str) -> None:
    record = Anchors(goal=text)
    decoded = codec.ANCHORS.decode(memoryview(codec.ANCHORS.encode(record)))
    encodable = not any(0xD800 <= ord(char) <= 0xDFFF for char in text)
    assert (decoded == record) is encodable
    assert len(decoded.goal) == len(text)


def test_encode_half_surrogates_at_any_depth_keep_the_rest() -> None:
    pins = (PinKey(call=CallKey(3, 1, "a\udc00b")), PinKey(tool_name="\ud83d"))
    expected = (PinKey(call=CallKey(3, 1, "a\ufffdb")), PinKey(tool_name="\ufffd"))
    assert codec.PINS.decode(memoryview(codec.PINS.encode(pins))) == expected


def test_head_record_size_does_not_depend_on_stored_bytes() -> None:
    heads = [
        codec.HeadRecord(b"k", SessionHead(limits=LimitsGiven(soft_bytes=5)), b"", 1, 2, 3, 4, stored.to_bytes(8, "big"))
        for stored in (0, 255, 1 << 40, (1 << 64) - 1)
    ]
    assert len({len(codec.HEAD.encode(head)) for head in heads}) == 1


NAMES = st.text(alphabet=st.characters(), max_size=30)


@given(NAMES, NAMES, NAMES, NAMES)
def test_index_key_of_different_names_differs(scope: str, name: str, other_scope: str, other_name: str) -> None:
    key = layout.index_key(scope, name)
    assert layout.index_names(key) == (scope, name)
    assert (key == layout.index_key(other_scope, other_name)) is ((scope, name) == (other_scope, other_name))
    assert key.startswith(layout.index_prefix(scope, name[:3]))
    assert key.startswith(layout.index_prefix(other_scope, "")) is (scope == other_scope)


def test_index_key_longest_names_of_the_api_fit() -> None:
    assert len(layout.index_key("s" * 128, "i" * 256)) <= 511
    for scope, name in [("s" * 256, ""), ("s" * 255, "i" * 255), ("", "é" * 255)]:
        with pytest.raises(ValueError, match="too long"):
            layout.index_key(scope, name)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_data_key_orders_as_numbers(left: int, right: int) -> None:
    keys = [layout.data_key(7, layout.Family.CHUNK, number) for number in (left, right)]
    assert (keys[0] < keys[1]) is (left < right)
    assert [layout.number_in(key) for key in keys] == [left, right]
    assert (layout.session_prefix(left) < layout.session_prefix(right)) is (left < right)


def test_keys_are_within_lmdbs_bound() -> None:
    digest = sha256(b"").digest()
    assert len(layout.blob_key(2**64 - 1, layout.Family.LARGE, digest, 2**32 - 1)) <= 511


@pytest.mark.parametrize(
    ("value_bytes", "pages"),
    [(layout.PIECE_BYTES + layout.SEAL_BYTES, 16), (layout.CHUNK_BYTES + layout.SEAL_BYTES, 8), (4_080, 1), (4_081, 2)],
)
def test_stored_bytes_full_values_waste_no_page(value_bytes: int, pages: int) -> None:
    assert pages * 4_096 <= layout.stored_bytes(18, value_bytes) < pages * 4_096 + 64
