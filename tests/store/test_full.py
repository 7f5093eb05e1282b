"""No room: refused clearly, nothing lost, and over without a restart."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from sidecar.core.errors import StoreFullError
from sidecar.core.types import PinKey, SessionKey
from store import LmdbStore
from tests.store import build, processes
from tests.store.build import KEY


def fill(store: LmdbStore, size: int) -> tuple[dict[SessionKey, list[bytes]], StoreFullError]:
    """Sessions of two items until one is refused."""
    whole: dict[SessionKey, list[bytes]] = {}
    while True:
        key = SessionKey("fill", f"{size}-{len(whole)}")
        raws = [build.raw_item(f"{len(whole)}-{n}-" * (size // 8)) for n in range(2)]
        refusal = store.submit(build.plain(key, 0, raws)).exception(20)
        if refusal is not None:
            assert isinstance(refusal, StoreFullError)
            return whole, refusal
        whole[key] = raws


def kept(store: LmdbStore, whole: dict[SessionKey, list[bytes]]) -> bool:
    return all(store.read_item(key, number) == raw for key, raws in whole.items() for number, raw in enumerate(raws))


def test_submit_over_quota_is_refused_and_delete_frees_at_once(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, quota_bytes=1 << 20)
    whole, refusal = fill(store, 20_000)
    assert refusal.details["quota_bytes"] == 1 << 20
    assert (1 << 20) - 50_000 < int(refusal.details["used_bytes"]) <= 1 << 20
    assert int(refusal.details["used_bytes"]) + int(refusal.details["needed_bytes"]) > 1 << 20
    assert store.stats().used_bytes == refusal.details["used_bytes"]
    small, _ = fill(store, 10)
    assert kept(store, whole | small)
    victim = next(iter(whole))
    taken = store.summary(victim)
    assert taken is not None
    before = store.stats().used_bytes
    assert store.delete_session(victim) is True
    assert store.stats().used_bytes == before - taken.stored_bytes
    store.submit(build.plain(victim, 0, whole[victim])).result(10)
    assert kept(store, whole | small)
    assert [finding["what"] for finding in store.check()] == ["count"]
    store.close()


def test_submit_that_shrinks_is_taken_over_quota(tmp_path: Path) -> None:
    """Ensure that after the quota was lowered, a smaller envelope and a delete still work, and growth does not."""
    store = LmdbStore(tmp_path, quota_bytes=0)
    batch = build.plain(KEY, 0, [b"{}"])
    batch.envelope = build.envelope(tools=1_000)
    store.submit(batch).result(10)
    store.close()
    store = LmdbStore(tmp_path, quota_bytes=1_000)
    with pytest.raises(StoreFullError):
        store.submit(build.plain(KEY, 1, [b"more" * 100])).result(10)
    batch = build.plain(KEY, 1, [])
    batch.envelope = build.envelope(tools=1)
    store.submit(batch).result(10)
    assert store.read_envelope(KEY) == batch.envelope
    assert store.delete_session(KEY) is True
    assert store.stats().used_bytes == 0
    store.close()


def test_stats_used_bytes_is_exact_over_a_life(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, quota_bytes=0)
    for number in range(5):
        key = SessionKey("s", str(number))
        store.submit(build.full(key, random.Random(number))).result(10)
        for base in range(4, 30):
            batch = build.plain(key, base, [build.raw_item("z" * (base * 997 % 40_000))], revision=3, update_ms=base**9)
            batch.envelope = build.envelope(system="s" * base * 100)
            batch.pins = [PinKey(tool_name="t" * base)]
            store.submit(batch).result(10)
        store.delete_session(SessionKey("s", str(number - 2)))
    sessions = store.list_sessions("s", "")
    assert sorted(one.key.session_id for one in sessions) == ["3", "4"]
    assert sum(one.stored_bytes for one in sessions) == store.stats().used_bytes
    assert [finding["what"] for finding in store.check()] == ["count"]
    for one in sessions:
        store.delete_session(one.key)
    assert store.stats().used_bytes == 0
    assert store.stats().session_count == 0
    store.close()


@pytest.mark.parametrize("map_bytes", [1 << 20, 3 << 20])
def test_kind25_submit_map_full_is_refused_and_larger_map_goes_on(tmp_path: Path, map_bytes: int) -> None:
    store = LmdbStore(tmp_path, quota_bytes=0, map_bytes=map_bytes)
    whole, refusal = fill(store, 20_000)
    assert "map is full" in refusal.message
    small, _ = fill(store, 10)
    assert kept(store, whole | small)
    store.close()
    store = LmdbStore(tmp_path, quota_bytes=0, map_bytes=4 * map_bytes)
    assert kept(store, whole | small)
    more, _ = fill(store, 20_001)
    assert len(more) > len(whole)
    assert kept(store, whole | small | more)
    assert [finding["what"] for finding in store.check()] == ["count"]
    store.close()


def test_delete_session_on_full_map_makes_room(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, quota_bytes=0, map_bytes=1 << 20)
    whole, _ = fill(store, 20_000)
    small, _ = fill(store, 10)
    victims = list(whole)[:3]
    for victim in victims:
        assert store.delete_session(victim) is True
        del whole[victim]
    more, _ = fill(store, 15_000)
    assert len(more) >= 3
    assert kept(store, whole | small | more)
    for key in whole | small | more:
        assert store.delete_session(key) is True
    assert store.stats().used_bytes == 0
    again, _ = fill(store, 20_000)
    assert len(again) >= len(whole)  # a little less than at first: free pages are scattered
    assert [finding["what"] for finding in store.check()] == ["count"]
    store.close()


def expect_recovery(lines: list[str]) -> None:
    assert lines == [
        "full 40000 STORE_FULL",
        "full 10 STORE_FULL",
        "kept True",
        "removed [True, True, True]",
        "written",
        "check ['count']",
    ]


def test_submit_file_size_limit_is_store_full_and_over_when_it_is_raised(tmp_path: Path) -> None:
    expect_recovery(processes.run("fill", tmp_path, 1 << 20))
    store = LmdbStore(tmp_path, quota_bytes=0)
    assert [finding["what"] for finding in store.check()] == ["count"]
    store.close()


def can_mount() -> bool:
    return subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="needs a mount namespace")
@pytest.mark.parametrize("size", ["1m", "1036k", "1072k", "1132k", "1500k", "3m"])
def test_submit_full_disk_is_store_full_and_delete_makes_room(tmp_path: Path, size: str) -> None:
    mount = f'mount -t tmpfs -o size={size} tmpfs "{tmp_path}" && exec "$@"'
    expect_recovery(processes.run("fill", tmp_path / "data", prefix=["unshare", "-rm", "sh", "-c", mount, "sh"]))
