"""A copy is taken while the store is written, proves sound, opens as a store; else nothing is left of it."""

from __future__ import annotations

import os
import random
import signal
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from sidecar.core.errors import CorruptedError, NotServingError, StoreFailedError, StoreFullError, TrimtabError
from sidecar.core.types import SessionKey
from store import LmdbStore, backup_folder, failpoints
from store.guest import Guest
from store.layout import FORMAT_VERSION, KEY_FORMAT, MAGIC, Family, data_key
from tests.store import build, processes
from tests.store.build import KEY
from tests.store.child import BATCH_ITEMS, step
from tests.store.test_check import edit, flip
from tests.store.test_kill import Acknowledged, prove_session

MIB = 1 << 20


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbStore]:
    """Three MiB in two sessions."""
    opened = LmdbStore(tmp_path / "data", quota_bytes=0)
    opened.submit(build.full(KEY, random.Random(1))).result(10)
    raws = [random.Random(n).randbytes(100_000) for n in range(30)]
    opened.submit(build.plain(SessionKey("", "large"), 0, raws)).result(10)
    yield opened
    failpoints.configure("")
    opened.close()


def names(folder: Path) -> list[str]:
    return sorted(place.name for place in folder.iterdir())


def test_backup_opens_as_a_store_that_holds_all(store: LmdbStore, tmp_path: Path) -> None:
    target = tmp_path / "copies" / "one"
    told: list[tuple[str, int, int]] = []
    made = store.backup(target, lambda *words: told.append(words))
    assert names(target) == ["data.mdb"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o700
    assert stat.S_IMODE((target / "data.mdb").stat().st_mode) == 0o600
    assert made.size_bytes == (target / "data.mdb").stat().st_size > 3 * MIB
    assert made.counts["session_count"] == 2
    assert made.counts["error_count"] == 0
    assert [phase for phase, _, _ in told] == sorted((phase for phase, _, _ in told), reverse=True)
    for phase in ("copy", "check"):
        steps = [(done, total) for name, done, total in told if name == phase]
        assert len(steps) > 3
        assert steps == sorted(steps)
        assert steps[-1][0] == steps[-1][1] > 0
    copy = LmdbStore(target, quota_bytes=0)
    assert copy.unclean_end is False
    assert copy.load(KEY) == store.load(KEY)
    assert copy.list_sessions("", "") == store.list_sessions("", "")
    assert copy.read_plan(KEY, "try-2") == build.plan("try-2")
    assert [copy.read_item(KEY, n) for n in range(4)] == [store.read_item(KEY, n) for n in range(4)]
    assert copy.stats() == store.stats()
    copy.submit(build.plain(KEY, 4, [b"goes on"], revision=3)).result(10)
    copy.close()
    store.submit(build.plain(KEY, 4, [b"goes on"], revision=3)).result(10)
    assert store.unclean_end is False


def test_backup_leaves_free_pages_behind(store: LmdbStore, tmp_path: Path) -> None:
    before = (tmp_path / "data" / "data.mdb").stat().st_size
    assert store.delete_session(SessionKey("", "large"))
    assert store.backup(tmp_path / "copy").size_bytes < before // 3


def test_backup_has_all_that_was_acknowledged_before_while_writes_go_on(store: LmdbStore, tmp_path: Path) -> None:
    key = SessionKey("busy", "one")
    done = [0]
    enough, end = threading.Event(), threading.Event()

    def write() -> None:
        while not end.is_set():
            store.submit(step(key, done[0] * BATCH_ITEMS, done[0])).result(20)
            done[0] += 1
            if done[0] == 20:
                enough.set()

    thread = threading.Thread(target=write)
    thread.start()
    assert enough.wait(30)
    found = []
    for number in range(3):
        before = done[0]
        store.backup(tmp_path / str(number))
        found.append((before, done[0]))
    end.set()
    thread.join()
    for number, (before, after) in enumerate(found):
        copy = LmdbStore(tmp_path / str(number), quota_bytes=0)
        assert before <= prove_session(copy, key) // BATCH_ITEMS <= after + 1
        copy.close()
    assert prove_session(store, key) == done[0] * BATCH_ITEMS
    assert [finding["what"] for finding in store.check()] == ["count"]


def test_backup_folder_of_a_serving_process_is_hot_and_leaves_it_alone(tmp_path: Path) -> None:
    told = Acknowledged()
    with processes.start("writers", tmp_path / "data", 5) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "open 0\n"
        lines = [child.stdout.readline() for _ in range(60)]
        told.read(lines)
        before = set(names(tmp_path / "data"))
        holder = (tmp_path / "data" / "holder.json").read_bytes()
        try:
            made = backup_folder(tmp_path / "data", tmp_path / "copy")
            after = [child.stdout.readline() for _ in range(60)]
            alive = child.poll() is None
        finally:
            child.kill()
    assert alive
    assert all(after)
    assert set(names(tmp_path / "data")) == before
    assert (tmp_path / "data" / "holder.json").read_bytes() == holder
    assert made.counts["session_count"] != 0
    told.read(after)  # what was removed meanwhile need not be in the copy
    copy = LmdbStore(tmp_path / "copy", quota_bytes=0)
    proven = {one.key: prove_session(copy, one.key) for life in range(50) for one in copy.list_sessions(f"life-{life}", "")}
    early = Acknowledged()
    early.read(lines)
    gone = told.removed | told.removing
    assert {key for key, base in early.bases.items() if key not in gone and proven.get(key, 0) < base + BATCH_ITEMS} == set()
    assert [finding["level"] for finding in copy.check()][-1] == "info"
    assert copy.unclean_end is False
    copy.close()


def test_start_after_a_kill_beside_a_guest_goes_on(tmp_path: Path) -> None:
    """Ensure that who reads while the holder is killed keeps nobody from writing on there, and sees its moment."""
    told = Acknowledged()
    with processes.start("writers", tmp_path, 6) as child:
        assert child.stdout is not None
        told.read([child.stdout.readline() for _ in range(40)])
        with Guest(tmp_path / "data.mdb") as guest, guest.read("look") as txn:
            before = {bytes(key): bytes(value) for key, value in txn.cursor()}
            child.kill()
            told.read(line for line in child.stdout if line.endswith("\n"))
            with processes.start("writers", tmp_path, 7) as again:
                assert again.stdout is not None
                lines = [again.stdout.readline() for _ in range(60)]
                again.kill()
            assert {bytes(key): bytes(value) for key, value in txn.cursor()} == before
    assert lines[0] == "open 1\n"
    told.read(lines[1:])
    store = LmdbStore(tmp_path, quota_bytes=0)
    told.settle(store)
    proven = {one.key: prove_session(store, one.key) for one in store.all_sessions()}
    assert {key for key, base in told.bases.items() if proven.get(key, 0) < base + BATCH_ITEMS} <= told.removed
    assert [finding["what"] for finding in store.check()] == ["count"]
    store.close()


def test_backup_folder_that_nobody_holds_is_copied_and_untouched(tmp_path: Path) -> None:
    LmdbStore(tmp_path / "data", quota_bytes=0).close()
    (tmp_path / "data" / "lock.mdb").unlink()
    before = names(tmp_path / "data")
    data = (tmp_path / "data" / "data.mdb").read_bytes()
    backup_folder(tmp_path / "data", tmp_path / "copy")
    assert names(tmp_path / "data") == before
    assert (tmp_path / "data" / "data.mdb").read_bytes() == data
    backup_folder(tmp_path / "copy", tmp_path / "copy of a copy")
    LmdbStore(tmp_path / "copy of a copy", quota_bytes=0).close()


def test_backup_folder_that_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreFailedError, match="No such file"):
        backup_folder(tmp_path / "none", tmp_path / "copy")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "data.mdb").write_bytes(b"something of yours" * 1_000)
    with pytest.raises(StoreFailedError, match="not a store of this program"):
        backup_folder(tmp_path / "other", tmp_path / "copy")
    LmdbStore(tmp_path / "later", quota_bytes=0).close()
    edit(tmp_path / "later", lambda txn: txn.put(KEY_FORMAT, MAGIC + (FORMAT_VERSION + 1).to_bytes(4, "big")))
    with pytest.raises(StoreFailedError, match=f"version {FORMAT_VERSION + 1}, this program knows {FORMAT_VERSION}"):
        backup_folder(tmp_path / "later", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_backup_folder_cut_short_is_refused_as_damaged(store: LmdbStore, tmp_path: Path) -> None:
    """Ensure that a file without its end is told, not the end of the process."""
    store.close()
    os.truncate(tmp_path / "data" / "data.mdb", 2 * MIB)
    with pytest.raises(CorruptedError):
        backup_folder(tmp_path / "data", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_backup_folder_without_pages_that_nothing_uses_is_copied(tmp_path: Path) -> None:
    """Ensure that a file which ends before its last page is no damage where that page is free, held by another or not."""
    data = tmp_path / "data"
    LmdbStore(data, quota_bytes=0).close()
    with lmdb.open(str(data), map_size=1 << 24) as env:
        for key in (b"\x00a", b"\x00b"):
            with env.begin(write=True) as txn:
                txn.put(key, bytes(500_000))
        for _ in range(3):
            with env.begin(write=True) as txn:
                txn.delete(b"\x00b")
    with processes.start("hold", data) as child:
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == "held\n"
            size = (data / "data.mdb").stat().st_size - 16_384
            os.truncate(data / "data.mdb", size)
            backup_folder(data, tmp_path / "held")
            assert (data / "data.mdb").stat().st_size == size
        finally:
            child.kill()
    backup_folder(data, tmp_path / "free")
    assert (data / "data.mdb").stat().st_size == size + 16_384
    for target in ("held", "free"):
        LmdbStore(tmp_path / target, quota_bytes=0).close()


def test_backup_into_what_is_there_is_refused(store: LmdbStore, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "yours").write_text("x")
    (tmp_path / "file").write_text("x")
    for target in (tmp_path / "full", tmp_path / "data"):
        with pytest.raises(StoreFailedError, match="not empty") as caught:
            store.backup(target)
        assert caught.value.hint
    with pytest.raises(StoreFailedError, match="make the folder of the copy"):
        store.backup(tmp_path / "file")
    assert names(tmp_path / "full") == ["yours"]
    assert (tmp_path / "file").read_text() == "x"
    (tmp_path / "empty").mkdir()
    store.backup(tmp_path / "empty")
    assert names(tmp_path / "empty") == ["data.mdb"]


@pytest.mark.parametrize(
    ("points", "error"),
    [
        ("backup_write=error:ENOSPC@1", StoreFullError),
        ("backup_write=error:EDQUOT@3", StoreFullError),
        ("backup_write=error:EIO@2", StoreFailedError),
        ("backup_rename=error:EIO", StoreFailedError),
    ],
)
@pytest.mark.parametrize("there", [False, True])
def test_backup_that_fails_leaves_nothing(
    store: LmdbStore, tmp_path: Path, points: str, error: type[TrimtabError], there: bool
) -> None:
    target = tmp_path / "copy"
    if there:
        target.mkdir()
    failpoints.configure(points)
    with pytest.raises(error, match="could not write the copy"):
        store.backup(target)
    failpoints.configure("")
    assert target.exists() is there
    assert list(target.glob("*")) == []
    store.submit(build.plain(KEY, 4, [b"goes on"], revision=3)).result(10)
    store.backup(target)
    assert LmdbStore.is_at(target)


def test_backup_to_a_disk_that_is_really_full_leaves_nothing(store: LmdbStore, tmp_path: Path) -> None:
    store.close()
    assert processes.run("backup", tmp_path / "data", 2 * MIB) == ["STORE_FULL", "[]"]
    assert processes.run("backup", tmp_path / "data", 20 * MIB) == ["copied", "['data.mdb']"]


@pytest.mark.parametrize("points", ["backup_write=kill@2", "backup_rename=kill"])
def test_backup_that_is_killed_leaves_no_store_and_can_be_repeated(store: LmdbStore, tmp_path: Path, points: str) -> None:
    store.close()
    with processes.start("backup", tmp_path / "data", 20 * MIB, env={"TRIMTAB_FAILPOINTS": points}) as child:
        child.communicate(timeout=60)
        assert child.returncode == -signal.SIGKILL
    target = tmp_path / "data-copy"
    assert names(target) == ["data.mdb.partial"]
    assert not LmdbStore.is_at(target)
    backup_folder(tmp_path / "data", target)
    assert names(target) == ["data.mdb"]


@pytest.mark.parametrize("family", [Family.DELTA, Family.LARGE, Family.PLAN])
def test_backup_of_a_damaged_store_is_refused_and_removed(store: LmdbStore, tmp_path: Path, family: Family) -> None:
    store.close()
    edit(tmp_path / "data", flip(data_key(1, family), -1))
    with pytest.raises(CorruptedError, match="does not prove sound") as caught:
        backup_folder(tmp_path / "data", tmp_path / "copy")
    assert caught.value.details["error_count"] != 0
    assert not (tmp_path / "copy").exists()


def test_backup_ended_by_its_progress_leaves_nothing(store: LmdbStore, tmp_path: Path) -> None:
    for phase in ("copy", "check"):

        def stop(name: str, _done: int, _total: int, phase: str = phase) -> None:
            if name == phase:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            store.backup(tmp_path / "copy", stop)
        assert not (tmp_path / "copy").exists()
    assert not [thread for thread in threading.enumerate() if thread.name == "store-backup"]


def test_close_ends_a_backup_that_runs(store: LmdbStore, tmp_path: Path) -> None:
    closing: list[threading.Thread] = []

    def close(_phase: str, _done: int, _total: int) -> None:
        if not closing:
            closing.append(threading.Thread(target=store.close))
            closing[0].start()
            while not store._env.closed:
                threading.Event().wait(0.001)

    with pytest.raises(NotServingError, match="closed while it was copied"):
        store.backup(tmp_path / "copy", close)
    closing[0].join(20)
    assert not closing[0].is_alive()
    assert not (tmp_path / "copy").exists()
    LmdbStore(tmp_path / "data", quota_bytes=0).close()
    with pytest.raises(NotServingError):
        store.backup(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
