"""Reading an artifact back: any range of any content, what it costs, and what is refused."""

from __future__ import annotations

import base64
from collections.abc import Callable
from hashlib import sha256

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath import decode_string
from sidecar.core.errors import (
    ArtifactNotFoundError,
    CorruptedError,
    InvalidFieldError,
    PageTokenInvalidError,
    RangeInvalidError,
    SessionNotFoundError,
)
from sidecar.core.types import ArtifactSource, CallKey, Encoding, SessionKey
from sidecar.engine.artifacts import ArtifactReader
from sidecar.engine.messages import CallRef
from store.store import LmdbStore
from tests.engine.counting import CountingStore
from tests.engine.held import Held

Make = Callable[[], Held]

PIECES = st.sampled_from(
    [
        b"a",
        b"\\n",
        b"\\r\\n",
        b"\\\\",
        b"\\/",
        b"\\u00e9",
        "é漢🙂".encode(),
        b"\\ud83d\\ude00",
        b"\\ud800",
        b"\\udc00x",
        b"\xff\xfe",
        b"\\u0000",
    ]
)
RAW_STRINGS = st.builds(
    lambda pieces, size: b"".join(pieces) * (size // sum(map(len, pieces)) + 1),
    st.lists(PIECES, min_size=1, max_size=9),
    st.sampled_from([0, 1, 50, 5_000, 70_000, 150_000]),
)


def lines_of(content: bytes) -> list[bytes]:
    """A line ends with LF and nothing else."""
    parts = content.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


@settings(max_examples=60, deadline=None)
@given(raw=RAW_STRINGS, data=st.data())
def test_read_of_any_range_of_any_text_equals_the_slice(store: LmdbStore, held: Make, raw: bytes, data: st.DataObject) -> None:
    session = held()
    record = session.add(raw)
    content = decode_string(raw)
    reader = ArtifactReader(store)
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.none() | st.integers(start, len(content) + 9))
    got = reader.read(session.key, record.artifact_id, byte_range=(start, end))
    assert (got.content, got.start, got.next_start) == (content[start:end], start, None)
    assert (got.record.size_bytes, got.record.sha256) == (len(content), sha256(content).digest())


@settings(max_examples=30, deadline=None)
@given(content=st.binary(max_size=200), times=st.sampled_from([1, 400, 1_000]), data=st.data())
def test_read_of_any_range_of_any_media_equals_the_slice(
    store: LmdbStore, held: Make, content: bytes, times: int, data: st.DataObject
) -> None:
    session = held()
    content *= times
    record = session.add_media(content)
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, len(content)))
    got = ArtifactReader(store).read(session.key, record.artifact_id, byte_range=(start, end))
    assert got.content == content[start:end]


@pytest.mark.parametrize("size", [2, 65_535, 65_536, 65_537, 300_001])
def test_read_of_json_equals_its_bytes(store: LmdbStore, held: Make, size: int) -> None:
    session = held()
    raw = b'["' + b"\xc3\xa9" * ((size - 4) // 2) + b'"' + b" " * (size % 2) + b"]" if size > 4 else b"{}"
    record = session.add(raw, Encoding.JSON)
    reader = ArtifactReader(store)
    assert reader.read(session.key, record.artifact_id).content == raw
    assert reader.read(session.key, record.artifact_id, byte_range=(size // 2, None)).content == raw[size // 2 :]


@settings(max_examples=60, deadline=None)
@given(raw=RAW_STRINGS, data=st.data())
def test_read_of_any_lines_equals_the_split(store: LmdbStore, held: Make, raw: bytes, data: st.DataObject) -> None:
    session = held()
    record = session.add(raw)
    lines = lines_of(decode_string(raw))
    assert record.line_count == len(lines)
    first = data.draw(st.integers(0, len(lines)))
    last = data.draw(st.none() | st.integers(first, len(lines) + 3))
    got = ArtifactReader(store).read(session.key, record.artifact_id, line_range=(first, last))
    assert got.content == b"".join(lines[first:last])
    assert got.start == sum(map(len, lines[:first]))


@settings(max_examples=30, deadline=None)
@given(raw=RAW_STRINGS, limit=st.integers(1, 90_000))
def test_read_cut_by_max_bytes_goes_on_at_next_start(store: LmdbStore, held: Make, raw: bytes, limit: int) -> None:
    session = held()
    record = session.add(raw)
    content = decode_string(raw)
    reader = ArtifactReader(store, max_answer_bytes=50_000)
    step = max(limit, len(content) // 20 + 1)
    parts = []
    at: int | None = 0
    while at is not None:
        got = reader.read(session.key, record.artifact_id, byte_range=(at, None), max_bytes=step)
        assert len(got.content) <= min(step, 50_000)
        parts.append(got.content)
        at = got.next_start
    assert b"".join(parts) == content


def test_read_of_lines_cut_by_max_bytes_goes_on_in_bytes(store: LmdbStore, held: Make) -> None:
    session = held()
    record = session.add_text(b"one\ntwo\nthree\nfour\n")
    got = ArtifactReader(store).read(session.key, record.artifact_id, line_range=(1, 3), max_bytes=6)
    assert (got.content, got.start, got.next_start) == (b"two\nth", 4, 10)


def test_read_of_4_kib_in_10_mib_costs_about_one_block(store: LmdbStore, held: Make) -> None:
    session = held()
    record = session.add_text(b"a line of some length, and on it goes\n" * 275_000)
    counting = CountingStore(store)
    reader = ArtifactReader(counting)  # type: ignore[arg-type]
    reader.read(session.key, record.artifact_id, byte_range=(0, 1))
    counting.read_bytes = 0
    got = reader.read(session.key, record.artifact_id, byte_range=(5_000_000, 5_004_096))
    assert len(got.content) == 4_096
    assert counting.read_bytes <= 2 * 80_000
    counting.read_bytes = 0
    got = reader.read(session.key, record.artifact_id, line_range=(200_000, 200_001))
    assert got.content == b"a line of some length, and on it goes\n"
    assert counting.read_bytes <= 3 * 80_000


def test_read_proves_the_whole_once_and_again_when_it_was_forgotten(store: LmdbStore, held: Make) -> None:
    session = held()
    one = session.add_text(b"1" * 200_000)
    two = session.add_text(b"2" * 200_000)
    counting = CountingStore(store)
    reader = ArtifactReader(counting, max_proven_count=1)  # type: ignore[arg-type]
    costs = []
    for record in (one, one, two, one):
        counting.read_bytes = 0
        reader.read(session.key, record.artifact_id, byte_range=(0, 1))
        costs.append(counting.read_bytes > 200_000)
    assert costs == [True, False, True, True]


def test_verify_proves_the_whole_each_time(store: LmdbStore, held: Make) -> None:
    session = held()
    record = session.add_text(b"x" * 200_000)
    counting = CountingStore(store)
    reader = ArtifactReader(counting)  # type: ignore[arg-type]
    for _ in range(2):
        counting.read_bytes = 0
        reader.verify(session.key, record.artifact_id)
        assert counting.read_bytes == 200_000


class DamagedStore(CountingStore):
    """Changes one byte of what is read."""

    at = 0

    def read_item_range(self, key: SessionKey, number: int, start: int, end: int) -> bytes:
        got = bytearray(super().read_item_range(key, number, start, end))
        place = self.at - start
        if 0 <= place < len(got):
            got[place] ^= 1
        return bytes(got)


@pytest.mark.parametrize("encoding", list(Encoding))
def test_read_of_a_damaged_byte_raises_at_first_anywhere_and_later_where_it_is(
    store: LmdbStore, held: Make, encoding: Encoding
) -> None:
    session = held()
    raw = base64.b64encode(bytes(range(256)) * 800)
    record = session.add(b'"' + raw + b'"' if encoding is Encoding.JSON else raw, encoding)
    damaged = DamagedStore(store)
    reader = ArtifactReader(damaged)  # type: ignore[arg-type]
    reader.read(session.key, record.artifact_id, byte_range=(0, 1))
    damaged.at = record.start + 150_000
    with pytest.raises(CorruptedError) as caught:
        reader.read(session.key, record.artifact_id)
    assert caught.value.details["artifact_id"] == record.artifact_id
    assert reader.read(session.key, record.artifact_id, byte_range=(0, 10)).content == ArtifactReader(store).read(
        session.key, record.artifact_id, byte_range=(0, 10)
    ).content  # fmt: skip
    with pytest.raises(CorruptedError):
        ArtifactReader(damaged).read(session.key, record.artifact_id, byte_range=(0, 10))  # type: ignore[arg-type]
    with pytest.raises(CorruptedError):
        reader.verify(session.key, record.artifact_id)


def test_read_of_a_record_with_another_whole_digest_raises(store: LmdbStore, held: Make) -> None:
    """Ensure that blocks that hold do not stand for the whole."""
    session = held()
    record = session.add_text(b"y" * 100)
    forged = msgspec.structs.replace(record, sha256=bytes(16) + record.sha256[16:])

    class Forging(CountingStore):
        def read_artifact(self, key: SessionKey, artifact_id: str) -> object:
            return forged

    with pytest.raises(CorruptedError):
        ArtifactReader(Forging(store)).read(session.key, record.artifact_id)  # type: ignore[arg-type]


@pytest.mark.parametrize("range_", [(-1, None), (5, 4), (12, None), (0, -1), (2**62, None)])
def test_read_of_a_range_outside_raises_with_the_size(store: LmdbStore, held: Make, range_: tuple[int, int | None]) -> None:
    session = held()
    record = session.add_text(b"eleven byte")
    with pytest.raises(RangeInvalidError) as caught:
        ArtifactReader(store).read(session.key, record.artifact_id, byte_range=range_)
    assert caught.value.details["size_bytes"] == 11
    with pytest.raises(RangeInvalidError) as caught:
        ArtifactReader(store).read(session.key, record.artifact_id, line_range=range_)
    assert caught.value.details["line_count"] == 1


def test_read_of_lines_of_binary_content_raises(store: LmdbStore, held: Make) -> None:
    session = held()
    record = session.add_media(b"\x89PNG\n\0\n")
    with pytest.raises(RangeInvalidError, match="no lines"):
        ArtifactReader(store).read(session.key, record.artifact_id, line_range=(1, 2))


@pytest.mark.parametrize("content", [b"", b"x"])
def test_read_of_nothing_is_nothing(store: LmdbStore, held: Make, content: bytes) -> None:
    session = held()
    record = session.add_text(content)
    reader = ArtifactReader(store)
    got = reader.read(session.key, record.artifact_id, byte_range=(len(content), None))
    assert (got.content, got.start, got.next_start) == (b"", len(content), None)
    assert reader.read(session.key, record.artifact_id).content == content
    assert reader.read(session.key, record.artifact_id, line_range=(record.line_count, None)).content == b""


def test_read_with_negative_max_bytes_raises(store: LmdbStore, held: Make) -> None:
    session = held()
    record = session.add_text(b"x")
    with pytest.raises(InvalidFieldError):
        ArtifactReader(store).read(session.key, record.artifact_id, max_bytes=-1)


def test_read_takes_every_shape_of_a_handle_that_is_emitted(store: LmdbStore, held: Make) -> None:
    session = held()
    record = session.add_text(b"content")
    views, _ = ArtifactReader(store).list(session.key, 0, "", lambda number: number)
    for shape in (
        record.artifact_id,
        record.artifact_id.upper(),
        views[0].artifact_id,
        views[0].sha256.hex(),
        f"artifact:{record.artifact_id}",
    ):
        assert ArtifactReader(store).read(session.key, shape).content == b"content"


@pytest.mark.parametrize("wrong", ["", "x", "0" * 32, "0" * 64])
def test_read_of_an_unknown_artifact_raises(store: LmdbStore, held: Make, wrong: str) -> None:
    session = held()
    session.add_text(b"content")
    with pytest.raises(ArtifactNotFoundError):
        ArtifactReader(store).read(session.key, wrong)


def test_read_by_part_of_an_id_or_by_another_whole_digest_raises(store: LmdbStore, held: Make) -> None:
    session = held()
    record = session.add_text(b"content")
    for wrong in (record.artifact_id[:31], record.artifact_id[:12], record.artifact_id + "0" * 32):
        with pytest.raises(ArtifactNotFoundError):
            ArtifactReader(store).read(session.key, wrong)


def test_read_of_another_sessions_artifact_raises(store: LmdbStore, held: Make) -> None:
    mine, other = held(), held()
    mine.add_text(b"mine")
    theirs = other.add_text(b"theirs")
    with pytest.raises(ArtifactNotFoundError):
        ArtifactReader(store).read(mine.key, theirs.artifact_id)


def test_every_call_of_an_unknown_session_raises(store: LmdbStore) -> None:
    key = SessionKey("", "nobody")
    reader = ArtifactReader(store)
    with pytest.raises(SessionNotFoundError):
        reader.read(key, "0" * 32)
    with pytest.raises(SessionNotFoundError):
        reader.verify(key, "0" * 32)
    with pytest.raises(SessionNotFoundError):
        reader.search(key, literal="x")
    with pytest.raises(SessionNotFoundError):
        reader.list(key, 0, "", lambda number: number)


def test_read_of_a_session_deleted_and_begun_anew_proves_anew(store: LmdbStore, held: Make) -> None:
    session = held()
    session.add_text(b"z" * 200_000)
    counting = CountingStore(store)
    reader = ArtifactReader(counting)  # type: ignore[arg-type]
    record = session.add_text(b"w" * 150_000)
    reader.read(session.key, record.artifact_id, byte_range=(0, 1))
    store.delete_session(session.key)
    with pytest.raises(SessionNotFoundError):
        reader.read(session.key, record.artifact_id)
    anew = Held(store, session.key)
    anew.add_text(b"w" * 150_000)
    counting.read_bytes = 0
    reader.read(session.key, record.artifact_id, byte_range=(0, 1))
    assert counting.read_bytes > 150_000


def test_list_gives_every_place_oldest_first_a_page_at_a_time(store: LmdbStore, held: Make) -> None:
    session = held()
    first = session.add_text(b"same", call=CallKey(0, 1, "c0"), tool_name="bash")
    session.add_text(b"other")
    session.add_text(b"same", call=CallKey(2, 0, "c2"), tool_name="grep")
    reader = ArtifactReader(store)
    index_of = {0: 0, 1: -1, 2: 7}.__getitem__
    pages, token = [], ""
    for _ in range(3):
        page, token = reader.list(session.key, 1, token, index_of)
        pages += page
    assert token == ""
    assert [(view.tool_name, view.item_index, view.call) for view in pages] == [
        ("bash", 0, CallRef("c0", 0, 1)),
        ("read_file", -1, None),
        ("grep", 7, CallRef("c2", 7, 0)),
    ]
    assert [view.artifact_id == first.artifact_id for view in pages] == [True, False, True]
    assert reader.list(session.key, 0, "", index_of) == (pages, "")
    assert reader.describe(session.key, first, index_of) == pages[0]
    with pytest.raises(InvalidFieldError):
        reader.list(session.key, -1, "", index_of)


def test_list_with_a_token_of_another_session_raises(store: LmdbStore, held: Make) -> None:
    one, two = held(), held()
    for session in (one, two):
        session.add_text(b"a")
        session.add_text(b"b")
    reader = ArtifactReader(store)
    _, token = reader.list(one.key, 1, "", lambda number: number)
    with pytest.raises(PageTokenInvalidError):
        reader.list(two.key, 1, token, lambda number: number)


def test_list_of_a_place_without_its_artifact_raises(store: LmdbStore, held: Make) -> None:
    session = held()
    session.add_text(b"a")

    class Losing(CountingStore):
        def list_sources(self, key: SessionKey, after: int, limit: int) -> list[tuple[int, ArtifactSource]]:
            return [(0, ArtifactSource("0" * 32, 0, (), "", None, False, 0))]

    with pytest.raises(CorruptedError):
        ArtifactReader(Losing(store)).list(session.key, 1, "", lambda number: number)  # type: ignore[arg-type]


def test_read_tells_on_read_and_verify_does_not(store: LmdbStore, held: Make) -> None:
    session = held()
    record = session.add_text(b"content")
    told: list[tuple[SessionKey, str, int]] = []
    reader = ArtifactReader(store, on_read=lambda *what: told.append(what))
    reader.verify(session.key, record.artifact_id)
    reader.read(session.key, record.artifact_id.upper(), byte_range=(1, 3))
    assert told == [(session.key, record.artifact_id, 2)]


def test_read_of_the_lines_around_every_block_end_equals_the_split(store: LmdbStore, held: Make) -> None:
    session = held()
    content = b"".join(b"%06d %s\n" % (number, b"x" * (number % 50)) for number in range(9_000))
    record = session.add_text(content)
    lines = lines_of(content)
    reader = ArtifactReader(store)
    cut = [block.line for block in record.blocks[1:]]
    assert len(cut) == 4
    for number in {near for line in cut for near in (line - 1, line, line + 1)}:
        got = reader.read(session.key, record.artifact_id, line_range=(number, number + 1))
        assert (got.content, got.start) == (lines[number], sum(map(len, lines[:number])))


def test_read_of_a_session_that_is_deleted_meanwhile_is_no_damage(store: LmdbStore, held: Make) -> None:
    session = held()
    record = session.add_text(b"x" * 100)

    class Vanishing(CountingStore):
        def read_item_range(self, key: SessionKey, number: int, start: int, end: int) -> bytes:
            store.delete_session(key)
            raise CorruptedError("half of it is gone")

    with pytest.raises(SessionNotFoundError):
        ArtifactReader(Vanishing(store)).read(session.key, record.artifact_id)  # type: ignore[arg-type]
