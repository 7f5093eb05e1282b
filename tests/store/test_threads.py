"""Many threads at once: readers take no locks and leave nothing behind."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from sidecar.core.errors import StoreFailedError, TrimtabError
from sidecar.core.types import SessionKey
from store import LmdbStore, env, writer
from tests.store import build
from tests.store.build import KEY


def together(count: int, work: Callable[[int], None]) -> list[BaseException]:
    """Run `work` in many threads that begin at once; what they raised."""
    barrier = threading.Barrier(count)
    raised: list[BaseException] = []

    def run(number: int) -> None:
        try:
            barrier.wait(30)
            work(number)
        except BaseException as err:
            raised.append(err)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def test_read_200_threads_at_once(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, quota_bytes=0)
    batch = build.full(KEY, random.Random(5))
    store.submit(batch).result(10)
    expected = store.load(KEY)
    seen = []

    def work(_: int) -> None:
        for item in batch.items:
            seen.append(store.read_item(KEY, item.meta.number) == item.raw)
        seen.append(store.load(KEY) == expected)
        seen.append(store.read_envelope(KEY) == batch.envelope)

    assert together(200, work) == []
    assert len(seen) == 200 * 6
    assert all(seen)
    assert store._env._lmdb.info()["num_readers"] <= 200
    store.close()


def test_read_more_threads_than_reader_slots_waits_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env, "MAX_READERS", 2)
    monkeypatch.setattr(env, "LOCK_BYTES", 0)
    monkeypatch.setattr(env, "SPARE_TXNS", 0)
    store = LmdbStore(tmp_path, quota_bytes=0)
    raw = build.raw_item("x" * 2_000_000)
    store.submit(build.plain(KEY, 0, [raw])).result(10)
    assert store._env._lmdb.info()["max_readers"] == 2
    with store._env._lmdb.begin(), store._env._lmdb.begin(), pytest.raises(lmdb.ReadersFullError):
        store._env._lmdb.begin()
    seen = []
    assert together(40, lambda _: seen.append(store.read_item(KEY, 0) == raw)) == []
    assert seen == [True] * 40
    store.close()


def test_kind25_read_with_every_reader_slot_taken_for_long_is_refused_and_over_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(env, "MAX_READERS", 2)
    monkeypatch.setattr(env, "LOCK_BYTES", 0)
    monkeypatch.setattr(env, "SPARE_TXNS", 0)
    monkeypatch.setattr(env, "READER_TRIES", 3)
    store = LmdbStore(tmp_path, quota_bytes=0)
    store.submit(build.plain(KEY, 0, [b"{}"])).result(10)
    with store._env._lmdb.begin(), store._env._lmdb.begin():
        with pytest.raises(StoreFailedError, match="read"):
            store.read_item(KEY, 0)
        store.submit(build.plain(KEY, 1, [b"[]"])).result(10)  # writes need no slot
    assert [store.read_item(KEY, number) for number in range(2)] == [b"{}", b"[]"]
    store.close()


def test_kind25_readers_that_were_killed_do_not_pin_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "IDLE_SECONDS", 0.02)
    store = LmdbStore(tmp_path, quota_bytes=0)
    store.submit(build.plain(KEY, 0, [b"x"])).result(10)
    script = (
        "import lmdb, os, sys\n"
        "env = lmdb.open(sys.argv[1], readonly=True, max_spare_txns=0)\n"
        "kept = [env.begin() for _ in range(130)]\n"
        "print(len(kept), flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "130\n"
        reader.kill()
    for turn in range(400):
        batch = build.plain(KEY, 1, [])
        batch.envelope = build.envelope(system="s" * 60_000 + str(turn))
        store.submit(batch).result(10)
    assert (tmp_path / "data.mdb").stat().st_size < 4_000_000
    store.close()


def test_write_64_threads_each_its_own_session(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, quota_bytes=0)

    def work(number: int) -> None:
        key = SessionKey("s", str(number))
        for base in range(10):
            store.submit(build.plain(key, base, [b"%d/%d" % (number, base)])).result(30)
            assert store.read_item(key, base) == b"%d/%d" % (number, base)

    assert together(64, work) == []
    assert store.stats().session_count == 64
    assert [finding["what"] for finding in store.check()] == ["count"]
    store.close()


def test_write_two_threads_one_session_one_wins_each_step(tmp_path: Path) -> None:
    """Ensure that two that believe in the same base cannot both be written, and that nothing of the loser is there."""
    store = LmdbStore(tmp_path, quota_bytes=0)
    refused = []

    def work(number: int) -> None:
        done = 0
        while done < 25:
            image = store.load(KEY)
            base = 0 if image is None else image.next_number
            raw = b"thread %d step %d" % (number, done)
            try:
                store.submit(build.plain(KEY, base, [raw])).result(30)
            except TrimtabError as err:
                refused.append(err.reason)
                continue
            assert store.read_item(KEY, base) == raw
            done += 1

    assert together(4, work) == []
    image = store.load(KEY)
    assert image is not None
    assert image.next_number == 100
    raws = [store.read_item(KEY, number) for number in range(100)]
    assert sorted(raws) == sorted(b"thread %d step %d" % (number, done) for number in range(4) for done in range(25))
    assert set(refused) == {"STORE_FAILED"}
    store.close()


def test_read_while_sessions_come_and_go_sees_whole_ones_or_none(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, quota_bytes=0)
    stop = threading.Event()
    odd: list[object] = []
    seen = {True: 0, False: 0}
    batch = build.full(KEY, random.Random(5))
    raws = [item.raw for item in batch.items]

    def read() -> None:
        while not stop.is_set():
            image = store.load(KEY)
            seen[image is None] += 1
            if image is not None and (image.next_number, len(image.items), len(image.artifact_ids)) != (4, 4, 2):
                odd.append(image)
            try:
                if store.read_item(KEY, 1) != raws[1]:
                    odd.append("item")
            except TrimtabError as err:
                if err.reason != "SESSION_NOT_FOUND":
                    odd.append(err)
            odd.extend(finding for finding in store.check() if finding["level"] != "info")

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(60):
        store.submit(batch).result(30)
        assert store.delete_session(KEY) is True
    stop.set()
    for thread in threads:
        thread.join()
    assert odd == []
    assert seen[True] > 0
    assert seen[False] > 0
    store.close()


def test_close_while_threads_read_ends_them_clearly(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, quota_bytes=0)
    raw = build.raw_item("x" * 3_000_000)
    store.submit(build.plain(KEY, 0, [raw])).result(10)
    started = threading.Barrier(9)
    ended: list[str] = []

    def read() -> None:
        started.wait(30)
        try:
            while True:
                assert store.read_item(KEY, 0) == raw
        except TrimtabError as err:
            ended.append(err.reason)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    started.wait(30)
    store.close()
    for thread in threads:
        thread.join()
    assert ended == ["NOT_SERVING"] * 8


def test_write_during_many_reads_keeps_the_file_small(tmp_path: Path) -> None:
    """Ensure that no read outlives its call: pages of old envelopes are used again."""
    store = LmdbStore(tmp_path, quota_bytes=0)
    for turn in range(300):
        batch = build.plain(KEY, 0, [])
        batch.envelope = build.envelope(system="s" * 60_000 + str(turn))
        store.submit(batch).result(10)
        assert store.read_envelope(KEY) == batch.envelope
        assert store.load(KEY) is not None
    # 300 times 60 KB were written; three generations of pages are what LMDB needs.
    assert (tmp_path / "data.mdb").stat().st_size < 1_000_000
    store.close()
