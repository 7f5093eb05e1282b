"""What goes in comes out, at once and after a reopening."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.core.envelope import envelope_digest
from sidecar.core.errors import CorruptedError, InvalidFieldError, NotServingError, SessionNotFoundError
from sidecar.core.types import Anchors, SentForm, SessionKey
from sidecar.ports import Batch, Store
from store import LmdbStore
from tests.store import build
from tests.store.build import KEY


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbStore]:
    opened = LmdbStore(tmp_path / "data", quota_bytes=0)
    yield opened
    opened.close()


def put(store: Store, *batches: Batch) -> None:
    for future in [store.submit(batch) for batch in batches]:
        future.result(10)


def errors(store: Store) -> list[object]:
    findings = list(store.check())
    assert findings[-1]["what"] == "count"
    return list(findings[:-1])


def test_load_unknown_session_is_none(store: LmdbStore) -> None:
    assert store.load(KEY) is None
    assert store.read_envelope(KEY) is None
    assert store.summary(KEY) is None
    assert store.list_sources(KEY, -1, 10) == []
    assert store.list_sessions("team", "") == []
    assert store.delete_session(KEY) is False
    with pytest.raises(SessionNotFoundError):
        store.read_item(KEY, 0)


def test_submit_everything_loads_equal_after_reopen(tmp_path: Path) -> None:
    batch = build.full(KEY, random.Random(7))
    store = LmdbStore(tmp_path, quota_bytes=0)
    put(store, batch)
    before = store.load(KEY)
    store.close()
    store = LmdbStore(tmp_path, quota_bytes=0)
    image = store.load(KEY)
    assert image is not None
    assert image == before
    assert image.head == batch.head
    assert image.next_number == len(batch.items)
    assert image.items == [one.meta for one in batch.items]
    assert image.forms == list(batch.forms)
    assert image.offloads == list(batch.offloads)
    assert image.receipts == list(batch.receipts)
    assert image.checkpoints == list(batch.checkpoints)
    assert image.attempts == list(batch.attempts)
    assert image.rollbacks == list(batch.rollbacks)
    assert image.requests == list(batch.requests)
    assert [("try-2", store.read_plan(KEY, "try-2"))] == list(batch.plans)
    assert image.anchors == batch.anchors
    assert batch.pins is not None
    assert image.pins == list(batch.pins)
    assert image.artifact_ids == {one.artifact_id for one in batch.artifacts}
    assert batch.envelope is not None
    assert image.envelope_digest == envelope_digest(batch.envelope)
    assert [store.read_item(KEY, one.meta.number) for one in batch.items] == [one.raw for one in batch.items]
    assert store.read_envelope(KEY) == batch.envelope
    assert [store.read_artifact(KEY, one.artifact_id) for one in batch.artifacts] == list(batch.artifacts)
    assert store.list_sources(KEY, -1, 10) == list(enumerate(batch.sources))
    assert errors(store) == []
    store.close()


def test_submit_without_anchors_and_pins_keeps_them(store: LmdbStore) -> None:
    first = build.full(KEY, random.Random(7))
    put(store, first, build.plain(KEY, 4, [build.raw_item("more")], revision=3))
    image = store.load(KEY)
    assert image is not None
    assert image.anchors == first.anchors
    assert first.pins is not None
    assert image.pins == list(first.pins)
    assert image.envelope_digest != b""
    batch = build.plain(KEY, 5, [], revision=3)
    batch.pins = ()
    batch.anchors = Anchors(goal="another")
    put(store, batch)
    image = store.load(KEY)
    assert image is not None
    assert image.anchors == Anchors(goal="another")
    assert image.pins == []


def test_read_item_range_equals_slice_of_raw_everywhere(store: LmdbStore) -> None:
    rng = random.Random(11)
    piece = 65_488
    raw = b"<" + rng.randbytes(20_000) + b"|" + rng.randbytes(2 * piece) + b"|" + rng.randbytes(piece + 5) + b">"
    large = [(1, 20_001), (20_002, 20_002 + 2 * piece), (20_003 + 2 * piece, len(raw) - 1)]
    raws = [b"small", raw, b"", rng.randbytes(50_000), b"tail"]
    batch = build.plain(KEY, 0, raws)
    batch.items = [
        build.item(0, raws[0]),
        build.item(1, raw, large=large),
        *[build.item(n, raws[n], large=[]) for n in (2, 3, 4)],
    ]
    put(store, batch)
    assert [store.read_item(KEY, number) for number in range(5)] == raws
    edges = sorted(
        {0, 1, len(raw)} | {place + step for span in large for place in span for step in (-1, 0, 1)} | {20_002 + piece}
    )
    edges = [edge for edge in edges if 0 <= edge <= len(raw)]
    spans = [(start, end) for start in edges for end in edges if start <= end]
    spans += [(start, rng.randrange(start, len(raw))) for start in rng.sample(range(len(raw)), 200)]
    for start, end in spans:
        assert store.read_item_range(KEY, 1, start, end) == raw[start:end]
    for start, end in [(0, 50_000), (16_383, 16_385), (49_999, 50_000), (7, 7)]:
        assert store.read_item_range(KEY, 3, start, end) == raws[3][start:end]


@pytest.mark.parametrize(("number", "start", "end"), [(0, 0, 6), (0, 3, 2), (0, -1, 2), (1, 0, 0), (-0, 6, 6)])
def test_read_item_range_out_of_bounds_raises_corrupted(store: LmdbStore, number: int, start: int, end: int) -> None:
    put(store, build.plain(KEY, 0, [b"12345"]))
    with pytest.raises(CorruptedError):
        store.read_item_range(KEY, number, start, end)


def test_submit_same_large_value_again_is_stored_once(store: LmdbStore) -> None:
    text = "a line of output\n" * 40_000
    put(store, build.plain(KEY, 0, [build.raw_item(text)]))
    once = store.stats().used_bytes
    put(store, build.plain(KEY, 1, [build.raw_item(text), build.raw_item(text, "user")]))
    assert store.stats().used_bytes - once < 2_000
    other = SessionKey("team", "run-2")
    put(store, build.plain(other, 0, [build.raw_item(text)]))
    assert store.stats().used_bytes > 2 * once
    assert store.read_item(KEY, 2) == build.raw_item(text, "user")


def test_submit_envelope_again_writes_only_what_changed(store: LmdbStore) -> None:
    batch = build.plain(KEY, 0, [b"{}"])
    batch.envelope = build.envelope(tools=500)
    put(store, batch)
    full = store.stats().used_bytes
    for turn in range(5):
        batch = build.plain(KEY, 1, [])
        batch.envelope = build.envelope(system=f"It is {turn} o'clock.", tools=500, model=f"m-{turn}")
        put(store, batch)
        assert store.read_envelope(KEY) == batch.envelope
        assert abs(store.stats().used_bytes - full) < 100
        assert errors(store) == []


def test_submit_artifact_again_keeps_first_record(store: LmdbStore) -> None:
    raw = build.raw_item("x" * 30_000)
    first = build.artifact(0, raw)
    batch = build.plain(KEY, 0, [raw, raw])
    batch.artifacts = [first]
    put(store, batch)
    again = build.plain(KEY, 2, [])
    again.artifacts = [build.artifact(1, raw)]
    put(store, again)
    assert store.read_artifact(KEY, first.artifact_id) == first
    summary = store.summary(KEY)
    assert summary is not None
    assert summary.artifact_count == 1


@pytest.mark.parametrize("artifact_id", ["", "zz", "../../etc/passwd", "a" * 31, "A" * 32, "a" * 34, "0" * 32, "\ud800"])
def test_read_artifact_foreign_id_is_none(store: LmdbStore, artifact_id: str) -> None:
    put(store, build.full(KEY, random.Random(1)))
    assert store.read_artifact(KEY, artifact_id) is None


def test_list_sources_after_and_limit_pages_through_all(store: LmdbStore) -> None:
    raw = build.raw_item("z" * 20_000)
    record = build.artifact(0, raw)
    batch = build.plain(KEY, 0, [raw])
    batch.artifacts = [record]
    batch.sources = [build.source(record.artifact_id, 0)]
    put(store, batch)
    for count in (3, 1, 4):
        batch = build.plain(KEY, 1, [])
        batch.sources = [build.source(record.artifact_id, 0) for _ in range(count)]
        put(store, batch)
    everything = store.list_sources(KEY, -1, 100)
    assert [number for number, _ in everything] == list(range(9))
    for after in range(-1, 10):
        for limit in (0, 1, 2, 5, 100):
            assert store.list_sources(KEY, after, limit) == everything[after + 1 :][:limit]


@pytest.mark.parametrize(
    ("scope", "session_id"),
    [
        ("", ""),
        ("", "a/b/../../c"),
        ("s", "nul\x00nul"),
        ("s\x00", "nul"),
        ("é" * 64, "漢" * 85),
        ("x" * 128, "y" * 256),
        ("s", "\ud800 half"),
        ("s", "emoji 🙂"),
        ("\xff", "\xff"),
    ],
)
def test_session_names_any_text_stay_apart(store: LmdbStore, scope: str, session_id: str) -> None:
    key = SessionKey(scope, session_id)
    near = [SessionKey(scope, session_id[:-1] + "~"), SessionKey(scope + "q", session_id[1:])]
    put(store, build.plain(key, 0, [b"mine"]), *[build.plain(one, 0, [b"other"]) for one in near])
    assert store.read_item(key, 0) == b"mine"
    assert [store.read_item(one, 0) for one in near] == [b"other", b"other"]
    assert key in [summary.key for summary in store.list_sessions(scope, session_id[:1])]
    assert near[1] not in [summary.key for summary in store.list_sessions(scope, "")]
    assert store.delete_session(key) is True
    assert store.load(key) is None
    assert [store.read_item(one, 0) for one in near] == [b"other", b"other"]
    assert errors(store) == []


def test_session_names_too_long_raise_invalid_field(store: LmdbStore) -> None:
    with pytest.raises(InvalidFieldError):
        store.load(SessionKey("s" * 300, "x"))
    with pytest.raises(InvalidFieldError):
        store.submit(build.plain(SessionKey("", "x" * 600), 0, [])).result(10)


def test_list_sessions_prefix_newest_first(store: LmdbStore) -> None:
    for name, time in [("run-a", 5), ("run-b", 9), ("job", 7), ("run", 1)]:
        put(store, build.plain(SessionKey("s", name), 0, [b"1", b"22"], update_ms=time))
    put(store, build.plain(SessionKey("", "run-z"), 0, [b"1"]))
    assert [one.key.session_id for one in store.list_sessions("s", "")] == ["run-b", "job", "run-a", "run"]
    assert [one.key.session_id for one in store.list_sessions("s", "run")] == ["run-b", "run-a", "run"]
    assert [one.item_count for one in store.list_sessions("s", "run-")] == [2, 2]
    assert [one.key for one in store.list_sessions("", "")] == [SessionKey("", "run-z")]


def test_submit_text_with_half_surrogates_is_kept_as_replacement(store: LmdbStore) -> None:
    batch = build.full(KEY, random.Random(3))
    batch.anchors = Anchors(goal="half \ud83d and whole 🙂 é")
    put(store, batch)
    image = store.load(KEY)
    assert image is not None
    assert image.anchors.goal == "half \ufffd and whole 🙂 é"


def test_submit_forms_keeps_order_of_commit(store: LmdbStore) -> None:
    put(store, build.full(KEY, random.Random(3)))
    batch = build.plain(KEY, 4, [], revision=3)
    batch.forms = [SentForm(2, 1, b"d" * 32, b"")]
    put(store, batch)
    image = store.load(KEY)
    assert image is not None
    assert [form.number for form in image.forms] == [1, 2]


def test_calls_after_close_raise_not_serving(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, quota_bytes=0)
    store.close()
    store.close()
    with pytest.raises(NotServingError):
        store.load(KEY)
    with pytest.raises(NotServingError):
        store.submit(build.plain(KEY, 0, [])).result(1)
    with pytest.raises(NotServingError):
        store.delete_session(KEY)


def test_close_writes_what_waits(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, quota_bytes=0)
    futures = [store.submit(build.plain(SessionKey("s", str(n)), 0, [b"x" * 5_000])) for n in range(300)]
    store.close()
    assert [future.result(0) for future in futures] == [None] * 300
    store = LmdbStore(tmp_path, quota_bytes=0)
    assert store.stats().session_count == 300
    store.close()
