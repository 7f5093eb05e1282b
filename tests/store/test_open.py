"""Opening a data folder: whose it is, what is in it, how it was left."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import lmdb
import pytest

from sidecar.core.errors import NotServingError, StoreFailedError
from sidecar.core.types import SessionKey
from store import LmdbStore, failpoints, mounts
from store.layout import FORMAT_VERSION, KEY_FORMAT, MAGIC
from tests.store import build, processes
from tests.store.build import KEY


class FixedClock:
    """A clock that stands."""

    def now_ms(self) -> int:
        return 1_234_567


@pytest.fixture
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277, 0o777], indirect=True)
def test_open_files_are_owner_only_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    folder = tmp_path / "data"
    store = LmdbStore(folder, quota_bytes=0)
    store.submit(build.plain(KEY, 0, [b"x"])).result(10)
    modes = {place.name: stat.S_IMODE(place.stat().st_mode) for place in [folder, *folder.iterdir()]}
    store.close()
    assert modes == {"data": 0o700, "data.mdb": 0o600, "lock.mdb": 0o600, "holder.json": 0o600, "reserve": 0o600}


def test_open_narrows_what_was_wider(tmp_path: Path) -> None:
    LmdbStore(tmp_path, quota_bytes=0).close()
    tmp_path.chmod(0o755)
    for place in tmp_path.iterdir():
        place.chmod(0o666)
    store = LmdbStore(tmp_path, quota_bytes=0)
    modes = {stat.S_IMODE(place.stat().st_mode) for place in tmp_path.iterdir()}
    store.close()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700
    assert modes == {0o600}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to be two users")
@pytest.mark.parametrize("mask", [0o022, 0o777])
def test_open_folder_of_other_user_is_used_and_said(mask: int) -> None:
    """Ensure that a volume whose root belongs to another can be the data folder: the files are ours only all the same."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgid(65_534)
            os.setuid(65_534)
            os.umask(mask)
            store = LmdbStore(folder, quota_bytes=0)
            store.submit(build.plain(KEY, 0, [b"x"])).result(10)
            modes = {(place.stat().st_uid, stat.S_IMODE(place.stat().st_mode)) for place in folder.iterdir()}
            code = 0 if store.folder_is_shared and modes == {(65_534, 0o600)} else 2
            store.close()
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    shutil.rmtree(folder)
    assert status == 0


def test_open_keeps_lmdbs_own_lock(tmp_path: Path) -> None:
    """Ensure that another program's LMDB sees that the environment is in use, and so leaves the table of readers alone."""
    store = LmdbStore(tmp_path, quota_bytes=0)
    script = (
        "import fcntl, os, struct, sys\n"
        "fd = os.open(sys.argv[1], os.O_RDWR)\n"
        "lock = fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack('hhqqi', fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))\n"
        "print(struct.unpack('hhqqi', lock)[4])\n"
    )
    holder = subprocess.run([sys.executable, "-c", script, tmp_path / "lock.mdb"], capture_output=True, text=True, check=True)
    assert int(holder.stdout) == os.getpid()
    assert store._env._lmdb.info()["max_readers"] >= 1024
    store.close()


def test_open_folder_held_by_other_process_names_it(tmp_path: Path) -> None:
    with processes.start("hold", tmp_path) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreFailedError, match=f"held by process {holder.pid} \\(holder\\) on ") as caught:
            LmdbStore(tmp_path, quota_bytes=0)
        assert caught.value.details["pid"] == holder.pid
        assert caught.value.details["host"] == socket.gethostname()
        assert int(caught.value.details["start_ms"]) > 1_600_000_000_000
        assert caught.value.hint
        holder.communicate("go\n", timeout=20)
    LmdbStore(tmp_path, quota_bytes=0).close()


def test_open_folder_of_killed_process_is_taken_and_unclean(tmp_path: Path) -> None:
    with processes.start("hold", tmp_path) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holder.kill()
    store = LmdbStore(tmp_path, quota_bytes=0)
    assert store.unclean_end is True
    store.close()
    store = LmdbStore(tmp_path, quota_bytes=0)
    assert store.unclean_end is False
    store.close()


def test_open_new_folder_is_not_unclean(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "a" / "b", quota_bytes=0)
    assert store.unclean_end is False
    assert store.map_is_reduced is False
    assert store.map_bytes == store.stats().map_bytes == 1 << 40
    store.close()


def test_open_twice_in_one_process_is_refused(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, quota_bytes=0, clock=FixedClock(), what="first")
    with pytest.raises(StoreFailedError, match="first") as caught:
        LmdbStore(tmp_path, quota_bytes=0)
    assert caught.value.details["start_ms"] == 1_234_567
    store.submit(build.plain(KEY, 0, [b"still works"])).result(10)
    store.close()


def test_open_file_that_is_not_lmdb_is_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(b"something of yours" * 1_000)
    with pytest.raises(StoreFailedError, match="not a store of this program") as caught:
        LmdbStore(tmp_path, quota_bytes=0)
    assert str(tmp_path) in caught.value.hint
    assert (tmp_path / "data.mdb").read_bytes() == b"something of yours" * 1_000


def test_open_lmdb_file_of_other_program_is_refused_untouched(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path)) as env, env.begin(write=True) as txn:
        txn.put(b"theirs", b"value")
    with pytest.raises(StoreFailedError, match="not a store of this program"):
        LmdbStore(tmp_path, quota_bytes=0)
    with lmdb.open(str(tmp_path)) as env, env.begin() as txn:
        assert dict(txn.cursor()) == {b"theirs": b"value"}
        assert env.stat()["entries"] == 1


@pytest.mark.parametrize("mark", [MAGIC, MAGIC + b"\x00", b"other", b""])
def test_open_torn_format_mark_is_refused(tmp_path: Path, mark: bytes) -> None:
    with lmdb.open(str(tmp_path)) as env, env.begin(write=True) as txn:
        txn.put(KEY_FORMAT, mark)
    with pytest.raises(StoreFailedError, match="not a store of this program"):
        LmdbStore(tmp_path, quota_bytes=0)


def test_open_newer_format_is_refused_naming_both(tmp_path: Path) -> None:
    LmdbStore(tmp_path, quota_bytes=0).close()
    with lmdb.open(str(tmp_path)) as env, env.begin(write=True) as txn:
        txn.put(KEY_FORMAT, MAGIC + (FORMAT_VERSION + 6).to_bytes(4, "big"))
    with pytest.raises(
        StoreFailedError, match=f"format version {FORMAT_VERSION + 6}, this program knows {FORMAT_VERSION}"
    ) as caught:
        LmdbStore(tmp_path, quota_bytes=0)
    assert caught.value.details == {"found_version": FORMAT_VERSION + 6, "known_version": FORMAT_VERSION}


def test_open_refused_folder_is_let_go(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(b"x" * 9_000)
    for _ in range(3):
        with pytest.raises(StoreFailedError, match="not a store"):
            LmdbStore(tmp_path, quota_bytes=0)
    (tmp_path / "data.mdb").unlink()
    LmdbStore(tmp_path, quota_bytes=0).close()


def test_open_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreFailedError, match="could not open the data folder"):
        LmdbStore(tmp_path / "file", quota_bytes=0)


def test_open_with_little_address_space_takes_smaller_map_and_says_so(tmp_path: Path) -> None:
    [line] = processes.run("space", tmp_path, 1 << 30)
    reduced, map_bytes, digest = line.split()
    assert reduced == "True"
    assert 1 << 24 <= int(map_bytes) <= 1 << 29
    store = LmdbStore(tmp_path, quota_bytes=0)
    assert store.map_is_reduced is False
    assert sha256(store.read_item(KEY, 0)).hexdigest() == digest
    store.close()


def test_kind15_open_copy_that_was_cut_short_reads_the_rest(tmp_path: Path) -> None:
    """Ensure that a file without its end is damage that is told, not the end of the process."""
    store = LmdbStore(tmp_path, quota_bytes=0)
    for number in range(40):
        store.submit(build.plain(KEY, number, [build.raw_item(f"{number:02}" * 9_000)])).result(10)
    store.close()
    size = (tmp_path / "data.mdb").stat().st_size
    os.truncate(tmp_path / "data.mdb", size - 16_384)
    store = LmdbStore(tmp_path, quota_bytes=0)
    findings = list(store.check())
    assert findings[-1]["what"] == "count"
    assert findings[-1]["error_count"] != 0
    assert store.read_item(KEY, 0) == build.raw_item("00" * 9_000)
    store.close()


def test_close_failing_lets_go_of_the_folder_and_is_unclean(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, quota_bytes=0)
    failpoints.configure("close=error:EIO")
    with pytest.raises(StoreFailedError):
        store.close()
    failpoints.configure("")
    store = LmdbStore(tmp_path, quota_bytes=0)
    assert store.unclean_end is True
    store.close()


def test_fork_child_may_not_use_the_store_and_parent_goes_on(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, quota_bytes=0)
    store.submit(build.plain(KEY, 0, [b"x"])).result(10)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            refusals = [store.submit(build.plain(KEY, 1, [b"y"])).exception(5)]
            try:
                store.load(KEY)
            except NotServingError as err:
                refusals.append(err)
            store.close()
            code = 0 if [type(one) for one in refusals] == [NotServingError] * 2 else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    store.submit(build.plain(KEY, 1, [b"y"])).result(10)
    store.close()
    store = LmdbStore(tmp_path, quota_bytes=0)
    assert store.unclean_end is False
    assert store.read_item(KEY, 1) == b"y"
    store.close()


MOUNTINFO = """\
22 1 0:21 / / rw,relatime shared:1 - overlay overlay rw,lowerdir=/a
23 22 0:22 / /proc rw - proc proc rw
24 22 254:0 / /var/lib rw,relatime - ext4 /dev/vda rw
25 22 0:44 / /mnt/share\\040one rw - nfs4 host:/export rw
26 24 0:45 / /var/lib/data rw - fuse.sshfs user@host: rw
27 22 0:46 / /twice rw - ext4 /dev/vdb rw
28 27 0:47 / /twice rw - tmpfs tmpfs rw
broken line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/x", "overlay"),
        ("/var/lib", "ext4"),
        ("/var/library", "overlay"),
        ("/var/lib/data/trimtab", "fuse.sshfs"),
        ("/mnt/share one/d", "nfs4"),
        ("/mnt/share", "overlay"),
        ("/twice/d", "tmpfs"),
    ],
)
def test_mount_of_path_is_the_longest_mount_point(path: str, kind: str) -> None:
    assert mounts.mount_of(path, MOUNTINFO) == kind


@pytest.mark.parametrize("kind", ["nfs4", "9p", "fuse.sshfs", "cifs"])
def test_kind25_open_on_remote_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(f"22 1 0:21 / / rw - {kind} host:/ rw\n")
    monkeypatch.setattr(mounts, "_MOUNTINFO", table)
    with pytest.raises(StoreFailedError, match=f"kind {kind}") as caught:
        LmdbStore(tmp_path / "data", quota_bytes=0)
    assert caught.value.details["file_system"] == kind
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize(("kind", "volatile"), [("tmpfs", True), ("overlay", True), ("ext4", False), ("xfs", False)])
def test_open_on_passing_file_system_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, volatile: bool) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(f"22 1 0:21 / / rw - {kind} x rw\n")
    monkeypatch.setattr(mounts, "_MOUNTINFO", table)
    store = LmdbStore(tmp_path / "data", quota_bytes=0)
    assert store.volatile is volatile
    store.close()


def test_mount_kind_without_table_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "_MOUNTINFO", tmp_path / "none")
    assert mounts.mount_kind(tmp_path) == ""


def test_is_at_tells_a_store_from_a_folder_and_makes_nothing(tmp_path: Path) -> None:
    assert not LmdbStore.is_at(tmp_path / "none")
    assert not LmdbStore.is_at(tmp_path)
    assert list(tmp_path.iterdir()) == []
    LmdbStore(tmp_path / "data", quota_bytes=0).close()
    assert LmdbStore.is_at(tmp_path / "data")


@pytest.mark.parametrize("instead", ["nothing", "a new store", "a file"])
def test_submit_after_the_folder_was_taken_away_is_refused_and_leaves_nothing(tmp_path: Path, instead: str) -> None:
    folder = tmp_path / "data"
    store = LmdbStore(folder, quota_bytes=0)
    raws = [build.raw_item("kept")]
    store.submit(build.plain(KEY, 0, raws)).result(20)
    folder.rename(tmp_path / "away")
    if instead == "a new store":
        LmdbStore(folder, quota_bytes=0).close()
    if instead == "a file":
        folder.write_bytes(b"")
    other = SessionKey("team", "other")
    refusal = store.submit(build.plain(other, 0, raws)).exception(20)
    assert isinstance(refusal, StoreFailedError)
    assert "deleted or replaced" in refusal.message
    assert refusal.hint
    assert store.load(other) is None
    assert store.read_item(KEY, 0) == raws[0]
    store.close()


def test_submit_folder_back_in_its_place_is_written_again(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    store = LmdbStore(folder, quota_bytes=0)
    folder.rename(tmp_path / "away")
    assert store.submit(build.plain(KEY, 0, [build.raw_item("a")])).exception(20) is not None
    (tmp_path / "away").rename(folder)
    assert store.submit(build.plain(KEY, 0, [build.raw_item("a")])).exception(20) is None
    store.close()
