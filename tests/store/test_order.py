"""Batches follow one another, go together into one commit, and do not spoil each other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import msgspec
import pytest

from sidecar.core.errors import StoreFailedError, StoreFullError, TrimtabError
from sidecar.core.types import SessionKey
from store import LmdbStore, failpoints
from store.env import Env
from tests.store import build
from tests.store.build import KEY


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbStore]:
    opened = LmdbStore(tmp_path, quota_bytes=0)
    yield opened
    failpoints.configure("")
    opened.close()


def commits(store: LmdbStore) -> int:
    return int(store._env._lmdb.info()["last_txnid"])


def busy(store: LmdbStore) -> Future[None]:
    """Something that takes the writer long enough for what follows to wait together."""
    return store.submit(build.plain(SessionKey("busy", str(commits(store))), 0, [bytes(12 << 20)]))


def ends(futures: list[Future[None]]) -> list[str]:
    """How each ended: a reason, or nothing."""
    return [getattr(future.exception(20), "reason", "") for future in futures]


def test_submit_out_of_sequence_is_refused_and_names_both(store: LmdbStore) -> None:
    store.submit(build.plain(KEY, 0, [b"1", b"2"], revision=0)).result(10)
    for base, revision in [(0, 0), (1, 0), (3, 0), (2, 1)]:
        batch = build.plain(KEY, base, [b"x"], revision=revision)
        with pytest.raises(StoreFailedError, match="session is at item 2 and revision 0"):
            store.submit(batch).result(10)
    with pytest.raises(StoreFailedError):
        store.submit(build.plain(SessionKey("new", ""), 1, [b"x"])).result(10)
    image = store.load(KEY)
    assert image is not None
    assert image.next_number == 2
    assert store.load(SessionKey("new", "")) is None
    store.submit(build.plain(KEY, 2, [b"3"])).result(10)
    assert store.read_item(KEY, 2) == b"3"


def test_submit_after_failed_batch_of_same_session_is_refused_too(store: LmdbStore) -> None:
    first = busy(store)
    bad = build.plain(KEY, 0, [b"0123456789"])
    bad.items = [build.item(0, b"0123456789", large=[(5, 20)])]
    batches = [bad, build.plain(KEY, 1, [b"x"]), build.plain(SessionKey("o", ""), 0, [b"y"])]
    futures = [store.submit(batch) for batch in batches]
    assert ends([first, *futures]) == ["", "STORE_FAILED", "STORE_FAILED", ""]
    assert store.load(KEY) is None


@pytest.mark.parametrize("large", [[(0, 0)], [(3, 2)], [(4, 6), (5, 7)], [(-1, 3)], [(8, 11)]])
def test_submit_spans_out_of_order_fail_only_their_batch(store: LmdbStore, large: list[tuple[int, int]]) -> None:
    bad = build.plain(KEY, 0, [b"0123456789"])
    bad.items = [build.item(0, b"0123456789", large=large)]
    assert ends([store.submit(bad), store.submit(build.plain(KEY, 0, [b"ok"]))]) == ["STORE_FAILED", ""]
    assert store.read_item(KEY, 0) == b"ok"


def test_submit_wrong_numbers_fail_only_their_batch(store: LmdbStore) -> None:
    bad = build.plain(KEY, 0, [b"a"])
    bad.items = [build.item(1, b"a")]
    assert ends([store.submit(bad)]) == ["STORE_FAILED"]


def test_submit_artifact_id_of_other_digest_is_refused(store: LmdbStore) -> None:
    batch = build.plain(KEY, 0, [build.raw_item("text")])
    record = build.artifact(0, batch.items[0].raw)
    batch.artifacts = [msgspec.structs.replace(record, artifact_id="0" * 32)]
    assert ends([store.submit(batch)]) == ["STORE_FAILED"]


def test_submit_many_waiting_share_commits(store: LmdbStore) -> None:
    first = busy(store)
    before = commits(store)
    futures = [store.submit(build.plain(SessionKey("s", str(n)), 0, [b"x" * 100])) for n in range(256)]
    assert ends([first, *futures]) == [""] * 257
    # The first batch and the five groups of at most 64 that can have formed, with room for a slow start.
    assert commits(store) - before <= 12


def test_submit_pipeline_of_one_session_lands_in_order(store: LmdbStore) -> None:
    futures = [store.submit(build.plain(KEY, n, [b"%d" % n])) for n in range(200)]
    assert ends(futures) == [""] * 200
    assert [store.read_item(KEY, n) for n in range(200)] == [b"%d" % n for n in range(200)]
    assert [finding["what"] for finding in store.check()] == ["count"]


@pytest.mark.parametrize(("code", "reason"), [("EIO", "STORE_FAILED"), ("ENOSPC", "STORE_FULL"), ("EDQUOT", "STORE_FULL")])
def test_submit_failing_commit_leaves_nothing_and_recovers(store: LmdbStore, code: str, reason: str) -> None:
    store.submit(build.plain(KEY, 0, [b"first"])).result(10)
    used = store.stats().used_bytes
    failpoints.configure(f"before_commit=error:{code}")
    first = busy(store)
    futures = [first, store.submit(build.plain(KEY, 1, [b"second"])), store.submit(build.plain(SessionKey("o", ""), 0, [b"y"]))]
    assert ends(futures) == [reason] * 3
    assert store.stats().used_bytes == used
    assert store.load(SessionKey("o", "")) is None
    failpoints.configure("")
    store.submit(build.plain(KEY, 1, [b"second"])).result(10)
    assert store.read_item(KEY, 1) == b"second"
    assert [finding["what"] for finding in store.check()] == ["count"]


def test_submit_fails_after_commit_is_durable_and_told_as_failed(store: LmdbStore) -> None:
    failpoints.configure("after_commit=error:EIO@1")
    assert ends([store.submit(build.plain(KEY, 0, [b"first"]))]) == ["STORE_FAILED"]
    assert store.read_item(KEY, 0) == b"first"
    store.submit(build.plain(KEY, 1, [b"second"])).result(10)


def test_submit_full_map_in_a_group_fails_only_what_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ensure that with our own bound out of the way, LMDB's own refusal in the middle of a group costs one batch."""
    monkeypatch.setattr(Env, "room_bytes", lambda *_: 1 << 60)
    store = LmdbStore(tmp_path, quota_bytes=0, map_bytes=4 << 20)
    first = store.submit(build.plain(SessionKey("busy", ""), 0, [bytes(2 << 20)]))
    sizes = [1_000, 3 << 20, 1_000]
    futures = [store.submit(build.plain(SessionKey("s", str(n)), 0, [b"x" * size])) for n, size in enumerate(sizes)]
    assert ends([first, *futures]) == ["", "", "STORE_FULL", ""]
    assert [finding["what"] for finding in store.check()] == ["count"]
    store.close()


def test_submit_when_lmdb_has_given_up_opens_anew(store: LmdbStore) -> None:
    """Ensure that reads go on while the environment is opened anew between writes."""
    store.submit(build.plain(KEY, 0, [b"kept"])).result(10)
    stop = threading.Event()
    seen: list[bytes] = []

    def read() -> None:
        while not stop.is_set():
            seen.append(store.read_item(KEY, 0))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(1, 30):
        store._env._given_up = True  # as after a failed write of the meta page, which no test can bring about
        store.submit(build.plain(KEY, number, [b"more"])).result(10)
    stop.set()
    for thread in threads:
        thread.join()
    assert len(seen) > 30
    assert set(seen) == {b"kept"}
    assert store.read_item(KEY, 29) == b"more"


def test_submit_over_queue_bound_is_refused_at_once(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, quota_bytes=0, max_queue_bytes=10 << 20)
    batches = [build.plain(SessionKey("s", str(n)), 0, [bytes(8 << 20)]) for n in range(3)]
    futures = [store.submit(batch) for batch in batches]
    assert ends(futures) == ["", "STORE_FAILED", "STORE_FAILED"]
    # Alone, a batch is taken whatever its size; and what was refused may come again.
    assert ends([store.submit(build.plain(SessionKey("t", ""), 0, [bytes(12 << 20)]))]) == [""]
    assert ends([store.submit(batches[1])]) == [""]
    store.close()


def test_submit_canceled_future_is_not_written(store: LmdbStore) -> None:
    first = busy(store)
    future = store.submit(build.plain(KEY, 0, [b"x"]))
    assert future.cancel()
    first.result(10)
    store.submit(build.plain(KEY, 0, [b"y"])).result(10)
    assert store.read_item(KEY, 0) == b"y"


def test_delete_session_waits_its_turn_behind_batches(store: LmdbStore) -> None:
    first = busy(store)
    future = store.submit(build.plain(KEY, 0, [b"x"]))
    assert store.delete_session(KEY) is True
    assert ends([first, future]) == ["", ""]
    assert store.load(KEY) is None
    with pytest.raises(TrimtabError):
        store.submit(build.plain(KEY, 1, [b"y"])).result(10)


def test_delete_session_failing_commit_keeps_it(store: LmdbStore) -> None:
    store.submit(build.plain(KEY, 0, [b"x"])).result(10)
    failpoints.configure("before_commit=error:EIO")
    with pytest.raises(StoreFailedError):
        store.delete_session(KEY)
    failpoints.configure("before_commit=error:ENOSPC")
    with pytest.raises(StoreFullError):
        store.delete_session(KEY)
    failpoints.configure("")
    assert store.read_item(KEY, 0) == b"x"
    assert store.delete_session(KEY) is True
