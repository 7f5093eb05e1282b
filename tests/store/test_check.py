"""Damage is found and named, and costs what it hits only. It is done with LMDB alone, behind the store's back."""

from __future__ import annotations

import random
from base64 import b64encode
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import lmdb
import pytest

from sidecar.core.artifacts import build_artifact
from sidecar.core.errors import CorruptedError, StoreFailedError, TrimtabError
from sidecar.core.types import CallKey, EffectState, Encoding, PinKey, ReceiptRecord, SentForm, SessionKey
from store import LmdbStore, codec
from store.check import check
from store.guest import Guest
from store.layout import INDEX, KEY_TOTALS, SEAL_BYTES, Family, blob_key, data_key
from store.records import name_key
from store.sessions import remove_session
from tests.store import build
from tests.store.build import KEY

OTHER = SessionKey("team", "run-2")
HANDLE = 1  # of the first session


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with two sessions."""
    store = LmdbStore(tmp_path, quota_bytes=0)
    store.submit(build.full(KEY, random.Random(1))).result(10)
    store.submit(build.full(OTHER, random.Random(2))).result(10)
    store.close()
    return tmp_path


def edit(folder: Path, change: Callable[[lmdb.Transaction[bytes]], object]) -> None:
    with lmdb.open(str(folder), map_size=1 << 30) as env, env.begin(write=True) as txn:
        change(txn)


def first(txn: lmdb.Transaction[bytes], prefix: bytes) -> tuple[bytes, bytes]:
    cursor = txn.cursor()
    assert cursor.set_range(prefix)
    assert cursor.key().startswith(prefix)
    return cursor.item()


def flip(prefix: bytes, at: int) -> Callable[[lmdb.Transaction[bytes]], None]:
    """Flip one bit of the first value under a prefix."""

    def change(txn: lmdb.Transaction[bytes]) -> None:
        key, value = first(txn, prefix)
        place = at % len(value)
        txn.put(key, value[:place] + bytes([value[place] ^ 1]) + value[place + 1 :])

    return change


def remove(prefix: bytes) -> Callable[[lmdb.Transaction[bytes]], None]:
    def change(txn: lmdb.Transaction[bytes]) -> None:
        txn.delete(first(txn, prefix)[0])

    return change


def errors(folder: Path) -> list[str]:
    store = LmdbStore(folder, quota_bytes=0)
    *findings, count = store.check()
    store.close()
    assert count["error_count"] == sum(finding["level"] == "error" for finding in findings)
    return [f"{finding['level']} {finding['where']}: {finding['what']}" for finding in findings]


def test_check_sound_store_counts_everything(folder: Path) -> None:
    store = LmdbStore(folder, quota_bytes=0)
    [count] = store.check()
    assert count == {
        "level": "info",
        "what": "count",
        "where": "",
        "session_count": 2,
        "item_count": 8,
        "artifact_count": 4,
        "large_value_count": 4,
        "checkpoint_count": 4,
        "attempt_count": 6,
        "error_count": 0,
        "warning_count": 0,
    }
    store.close()


@pytest.mark.parametrize("family", list(Family))
@pytest.mark.parametrize("at", [0, SEAL_BYTES, SEAL_BYTES + 7, -1])
def test_check_flipped_bit_in_any_value_is_found(folder: Path, family: Family, at: int) -> None:
    edit(folder, flip(data_key(HANDLE, family), at))
    found = errors(folder)
    assert found != []
    assert all(line.startswith("error session 'team' 'run-1'") for line in found)


@pytest.mark.parametrize("family", list(Family))
def test_check_missing_value_is_found(folder: Path, family: Family) -> None:
    edit(folder, remove(data_key(HANDLE, family)))
    found = errors(folder)
    assert found != []
    assert all("session 'team' 'run-1'" in line for line in found)


@pytest.mark.parametrize("family", list(Family))
def test_kind15_damage_to_one_session_leaves_the_other_whole(folder: Path, family: Family) -> None:
    edit(folder, flip(data_key(HANDLE, family), -1))
    store = LmdbStore(folder, quota_bytes=0)
    expected = build.full(OTHER, random.Random(2))
    assert store.load(OTHER) is not None
    assert store.read_envelope(OTHER) == expected.envelope
    assert {one.key for one in store.list_sessions("team", "")} == {KEY, OTHER}
    assert store.delete_session(KEY) is True
    assert [finding["what"] for finding in store.check()] == ["count"]
    assert store.stats().used_bytes == sum(one.stored_bytes for one in store.list_sessions("team", ""))
    store.close()


@pytest.mark.parametrize(
    ("family", "read"),
    [
        (Family.HEAD, lambda store: store.load(KEY)),
        (Family.ANCHORS, lambda store: store.load(KEY)),
        (Family.PINS, lambda store: store.load(KEY)),
        (Family.DELTA, lambda store: store.load(KEY)),
        (Family.ATTEMPT, lambda store: store.load(KEY)),
        (Family.PLAN, lambda store: store.read_plan(KEY, "try-2")),
        (Family.CHUNK, lambda store: store.read_item(KEY, 0)),
        (Family.LARGE, lambda store: [store.read_item(KEY, number) for number in (1, 2)]),
        (Family.PART, lambda store: store.read_envelope(KEY)),
        (Family.ENVELOPE, lambda store: store.read_envelope(KEY)),
        (Family.SOURCE, lambda store: store.list_sources(KEY, -1, 9)),
        (Family.ARTIFACT, lambda store: [store.read_artifact(KEY, name) for name in store.load(KEY).artifact_ids]),
    ],
)
def test_read_damaged_value_raises_corrupted(folder: Path, family: Family, read: Callable[[LmdbStore], object]) -> None:
    edit(folder, flip(data_key(HANDLE, family), -1))
    store = LmdbStore(folder, quota_bytes=0)
    with pytest.raises(CorruptedError):
        read(store)
    store.close()


def test_read_value_under_wrong_key_raises_corrupted(folder: Path) -> None:
    """Ensure that a value which is whole but stands in another's place is seen."""

    def change(txn: lmdb.Transaction[bytes]) -> None:
        _, value = first(txn, data_key(HANDLE + 1, Family.ANCHORS))
        txn.put(data_key(HANDLE, Family.ANCHORS), value)

    edit(folder, change)
    store = LmdbStore(folder, quota_bytes=0)
    with pytest.raises(CorruptedError):
        store.load(KEY)
    store.close()


def test_read_range_next_to_damage_is_still_read(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, quota_bytes=0)
    raw = build.raw_item("".join(f"{n:07}\n" for n in range(50_000)))
    store.submit(build.plain(KEY, 0, [raw, b"near"])).result(10)
    store.close()
    digest = sha256(raw[raw.find(b'":"000') + 3 : -2]).digest()
    edit(tmp_path, flip(blob_key(HANDLE, Family.LARGE, digest, 3), 5_000))
    store = LmdbStore(tmp_path, quota_bytes=0)
    assert store.read_item(KEY, 1) == b"near"
    assert store.read_item_range(KEY, 0, 0, 150_000) == raw[:150_000]
    assert store.read_item_range(KEY, 0, 300_000, len(raw)) == raw[300_000:]
    with pytest.raises(CorruptedError):
        store.read_item_range(KEY, 0, 200_000, 200_001)
    with pytest.raises(CorruptedError):
        store.read_item(KEY, 0)
    store.close()


def reseal(key: bytes, payload: bytes) -> bytes:
    return codec.seal(key, payload)


def test_check_large_value_resealed_with_other_content_is_found(folder: Path) -> None:
    """Ensure that digests of content are proved, not only seals: here the seal is right."""

    def change(txn: lmdb.Transaction[bytes]) -> None:
        key, value = first(txn, data_key(HANDLE, Family.LARGE))
        payload = value[SEAL_BYTES:]
        txn.put(key, reseal(key, payload[:100] + bytes([payload[100] ^ 1]) + payload[101:]))

    edit(folder, change)
    found = errors(folder)
    assert any("large value" in line and "digest that names it" in line for line in found)
    assert any("item" in line and "CRC-32" in line for line in found)
    assert any("artifact" in line and "size and digest" in line for line in found)


def test_check_artifact_resealed_with_other_block_digest_is_found(folder: Path) -> None:
    def change(txn: lmdb.Transaction[bytes]) -> None:
        key = blob_key(HANDLE, Family.ARTIFACT, record.sha256[:16])
        value = txn.get(key)
        assert value is not None
        txn.put(key, reseal(key, value[SEAL_BYTES:].replace(record.blocks[1].sha256, bytes(32))))

    record = build.full(KEY, random.Random(1)).artifacts[0]
    assert len(record.blocks) > 2
    edit(folder, change)
    assert [line.rsplit(": ", 1)[1] for line in errors(folder)] == ["a block of an artifact does not have its digest"]


@pytest.mark.parametrize("encoding", list(Encoding))
@pytest.mark.parametrize("spoil", [False, True])
def test_check_artifact_of_each_encoding_is_proved(tmp_path: Path, encoding: Encoding, spoil: bool) -> None:
    content = random.Random(3).randbytes(150_000)
    value = {
        Encoding.JSON_STRING: b'"' + content.hex().encode() + b'\\n\\ud83d\\ude00"',
        Encoding.JSON: b'{"a":["' + content.hex().encode() + b'"]}',
        Encoding.BASE64_STRING: b'"' + b64encode(content).replace(b"/", b"\\/") + b'"',
    }[encoding]
    raw = b'{"role":"tool","content":' + value + b"}"
    quote = 0 if encoding is Encoding.JSON else 1
    start, end = 25 + quote, len(raw) - 1 - quote
    record, made = build_artifact(raw, 0, start, end, encoding)
    assert record.encoding is encoding
    assert (made == content) is (encoding is Encoding.BASE64_STRING)
    batch = build.plain(KEY, 0, [raw])
    batch.items = [build.item(0, raw, large=[(start, end)])]
    batch.artifacts = [build.msgspec_replace(record, size_bytes=record.size_bytes + 1) if spoil else record]
    batch.sources = [build.source(record.artifact_id, 0)]
    store = LmdbStore(tmp_path, quota_bytes=0)
    store.submit(batch).result(10)
    levels = [finding["level"] for finding in store.check()]
    store.close()
    assert levels == (["error", "info"] if spoil else ["info"])


def test_check_references_that_dangle_are_found(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, quota_bytes=0)
    raw = build.raw_item("y" * 20_000)
    record = build.artifact(0, raw)
    batch = build.plain(KEY, 0, [raw])
    batch.head = build.head(count=5)
    batch.artifacts = [build.msgspec_replace(record, end=len(raw) + 1)]
    batch.sources = [build.source("0" * 32, 0), build.source(record.artifact_id, 1)]
    batch.offloads = [build.offload(0, "1" * 32, 1), build.offload(7, "", 1)]
    batch.forms = [SentForm(0, 2, bytes(32), b""), SentForm(9, 0, bytes(32), b"")]
    batch.receipts = [ReceiptRecord(CallKey(3, 0), EffectState.PENDING)]
    batch.pins = [PinKey(call=CallKey(4, 0))]
    store.submit(batch).result(10)
    store.close()
    places = [line.split("'run-1' ")[1].split(":")[0] for line in errors(tmp_path)]
    assert places == [
        "branch",
        f"artifact {record.artifact_id}",
        "offload 0",
        "offload 1",
        "artifact source 0",
        "artifact source 1",
        "sent form 0",
        "sent form 1",
        "receipt 0",
        "pin 0",
        f"artifact {record.artifact_id}",
    ]


def test_check_counters_that_are_wrong_are_found(folder: Path) -> None:
    def change(txn: lmdb.Transaction[bytes]) -> None:
        value = (5).to_bytes(8, "big") * 3
        txn.put(KEY_TOTALS, reseal(KEY_TOTALS, value))

    edit(folder, change)
    assert [line.split(":")[0] for line in errors(folder)] == ["error totals", "error totals"]


def test_check_values_of_no_session_are_found(folder: Path) -> None:
    edit(folder, lambda txn: txn.put(data_key(77, Family.CHUNK, 0), b"left over"))
    assert errors(folder) == ["error handle 77: values belong to no session"]


def test_check_value_that_nothing_refers_to_is_a_warning(folder: Path) -> None:
    def change(txn: lmdb.Transaction[bytes]) -> None:
        key = blob_key(HANDLE, Family.LARGE, bytes(32), 0)
        txn.put(key, reseal(key, b"lost"))

    edit(folder, change)
    found = errors(folder)
    assert any(line.startswith("warning") and "nothing refers to" in line for line in found)
    assert any("bytes, " in line and "are counted" in line for line in found)


def test_check_unknown_family_is_found(folder: Path) -> None:
    edit(folder, lambda txn: txn.put(data_key(HANDLE, Family.SOURCE)[:-1] + b"\xee", b"?" * 40))
    assert any("family 238" in line for line in errors(folder))


@pytest.fixture(
    params=[
        Family.HEAD,
        Family.ANCHORS,
        Family.PINS,
        Family.DELTA,
        Family.ENVELOPE,
        Family.ARTIFACT,
        Family.SOURCE,
        Family.ATTEMPT,
    ]
)
def newer(request: pytest.FixtureRequest, folder: Path) -> Iterator[tuple[Path, Family]]:
    """A store in which one record has the version of another day."""
    family = request.param

    def change(txn: lmdb.Transaction[bytes]) -> None:
        key, value = first(txn, data_key(HANDLE, family))
        txn.put(key, reseal(key, b"\x09" + value[SEAL_BYTES + 1 :]))

    edit(folder, change)
    yield folder, family


def test_read_newer_record_is_refused_naming_both_versions(newer: tuple[Path, Family]) -> None:
    folder, family = newer
    store = LmdbStore(folder, quota_bytes=0)
    raised: list[TrimtabError] = []
    for read in (
        lambda: store.load(KEY),
        lambda: store.read_envelope(KEY),
        lambda: store.list_sources(KEY, -1, 9),
        lambda: [store.read_artifact(KEY, one.artifact_id) for one in build.full(KEY, random.Random(1)).artifacts],
    ):
        try:
            read()
        except TrimtabError as err:
            raised.append(err)
    store.close()
    assert [type(err) for err in raised] == [StoreFailedError]
    known = {Family.HEAD: 2, Family.DELTA: 2}.get(family, 1)
    assert f"has version 9, this program knows {known}" in raised[0].message
    assert raised[0].details == {"found_version": 9, "known_version": known}
    assert any("has version 9" in line for line in errors(folder))


def test_errors_and_findings_hold_no_content(folder: Path) -> None:
    """Ensure that what is told of damage can be logged: no payload in it."""
    for family in Family:
        edit(folder, flip(data_key(HANDLE, family), -1))
    lines = errors(folder)
    assert lines != []
    assert not any(word in line for line in lines for word in ("ship it", "never push", "line é", "careful", "idem-1"))


def test_check_index_that_points_nowhere_is_found(folder: Path) -> None:
    edit(folder, lambda txn: txn.put(INDEX + b"\x01sx", (99).to_bytes(8, "big")))
    found = errors(folder)
    assert any("session 's' 'x'" in line for line in found)
    assert any("3 sessions, 2 are counted" in line for line in found)


def test_check_lists_what_is_out_of_reach_and_it_is_no_error(folder: Path) -> None:
    """Ensure that an artifact that no place names, and a session that is on its way out, are told apart from damage."""
    raw = build.raw_item("z" * 20_000)
    store = LmdbStore(folder, quota_bytes=0)
    batch = build.plain(SessionKey("team", "run-3"), 0, [raw])
    batch.artifacts = [build.artifact(0, raw)]
    store.submit(batch).result(10)
    store.close()
    with lmdb.open(str(folder), map_size=1 << 30) as env, env.begin(write=True, buffers=True) as txn:
        remove_session(txn, name_key(OTHER.scope, OTHER.session_id))
    with Guest(folder / "data.mdb") as guest:
        *findings, count = check(guest)
    assert [(one["level"], one["what"]) for one in findings] == [
        ("info", "a session is being removed: its values are out of reach"),
        ("warning", "an artifact that no place names"),
    ]
    assert (count["error_count"], count["warning_count"]) == (0, 1)


def test_check_tells_its_progress_in_order_to_the_end(folder: Path) -> None:
    told: list[tuple[int, int]] = []
    store = LmdbStore(folder, quota_bytes=0)
    assert [finding["what"] for finding in store.check(lambda done, total: told.append((done, total)))] == ["count"]
    assert told == sorted(told)
    assert len({total for _, total in told}) == 1
    assert told[0][0] == 0
    assert told[-1] == (store.stats().used_bytes,) * 2
    store.close()
