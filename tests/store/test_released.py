"""Stores of every released format version open, hold what was written, and are written on; a later one is refused."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import lmdb
import msgspec
import pytest

from sidecar.core.errors import StoreFailedError
from sidecar.core.types import Anchors
from sidecar.ports import Batch, SessionHead
from store import LmdbStore, codec
from store.layout import FORMAT_VERSION, KEY_FORMAT, MAGIC
from tests.store import build
from tests.store.released import content

FILES = Path(content.__file__).parent
VERSIONS: dict[int, Callable[[], list[Batch]]] = {1: content.first, 2: lambda: content.first() + content.second()}
MAP_BYTES = 1 << 24


def unpack(folder: Path, version: int) -> None:
    (folder / "data.mdb").write_bytes(gzip.decompress((FILES / f"format-{version}.gz").read_bytes()))


def mark(folder: Path) -> bytes | None:
    with lmdb.open(str(folder), map_size=MAP_BYTES) as env, env.begin() as txn:
        return txn.get(KEY_FORMAT)


def assert_holds(store: LmdbStore, batches: list[Batch]) -> None:
    """Everything of the batches, and nothing else."""
    for key in (content.ONE, content.TWO):
        mine = [batch for batch in batches if batch.key == key]
        image = store.load(key)
        assert image is not None
        items = [item for batch in mine for item in batch.items]
        assert image.head == mine[-1].head
        assert image.items == [item.meta for item in items]
        assert [store.read_item(key, item.meta.number) for item in items] == [item.raw for item in items]
        for name in ("forms", "offloads", "receipts", "checkpoints", "rollbacks", "requests", "attempts"):
            assert getattr(image, name) == [one for batch in mine for one in getattr(batch, name)], name
        assert image.anchors == next((batch.anchors for batch in reversed(mine) if batch.anchors), Anchors())
        assert image.pins == list(next((batch.pins for batch in reversed(mine) if batch.pins), []))
        assert store.read_envelope(key) == next((batch.envelope for batch in reversed(mine) if batch.envelope), None)
        records = [one for batch in mine for one in batch.artifacts]
        assert [store.read_artifact(key, one.artifact_id) for one in records] == records
        assert [one for _, one in store.list_sources(key, -1, 99)] == [one for batch in mine for one in batch.sources]
        plans = [plan for batch in mine for plan in batch.plans]
        assert [(name, store.read_plan(key, name)) for name, _ in plans] == plans
    assert [finding["what"] for finding in store.check()] == ["count"]


def test_files_are_kept_for_every_version() -> None:
    assert sorted(VERSIONS) == list(range(1, FORMAT_VERSION + 1))
    assert {int(file.stem.removeprefix("format-")) for file in FILES.glob("*.gz")} == set(VERSIONS)
    assert all(file.stat().st_size < 20_000 for file in FILES.glob("*.gz"))


@pytest.mark.parametrize("version", sorted(VERSIONS))
def test_open_store_of_released_version_holds_all_and_is_written_on(tmp_path: Path, version: int) -> None:
    unpack(tmp_path, version)
    assert mark(tmp_path) == MAGIC + version.to_bytes(4, "big")
    batches = VERSIONS[version]()
    store = LmdbStore(tmp_path, quota_bytes=0, map_bytes=MAP_BYTES)
    assert store.unclean_end is False
    assert_holds(store, batches)
    more = build.plain(content.TWO, 1, [b'{"a":1}'], revision=0)
    batches.append(more)
    batches += [] if version > 1 else content.second()
    content.write(store, batches[-1 if version > 1 else -2 :])
    assert_holds(store, batches)
    store.close()
    assert mark(tmp_path) == MAGIC + FORMAT_VERSION.to_bytes(4, "big")
    store = LmdbStore(tmp_path, quota_bytes=0, map_bytes=MAP_BYTES)
    assert_holds(store, batches)
    assert store.delete_session(content.ONE)
    assert store.delete_session(content.TWO)
    assert store.stats().used_bytes == 0
    store.close()


def test_open_store_of_later_version_is_refused_naming_both_and_untouched(tmp_path: Path) -> None:
    unpack(tmp_path, FORMAT_VERSION)
    later = MAGIC + (FORMAT_VERSION + 1).to_bytes(4, "big")
    with lmdb.open(str(tmp_path), map_size=MAP_BYTES) as env, env.begin(write=True) as txn:
        txn.put(KEY_FORMAT, later)
    with pytest.raises(StoreFailedError, match=f"version {FORMAT_VERSION + 1}, this program knows {FORMAT_VERSION}") as caught:
        LmdbStore(tmp_path, quota_bytes=0, map_bytes=MAP_BYTES)
    assert caught.value.hint
    assert mark(tmp_path) == later


def test_decode_head_of_version_1_has_defaults() -> None:
    """Ensure that a head written before live checkpoints and attempts were counted is read, whichever fields it lacks."""
    head = build.head(revision=3, count=4)
    old = {name: value for name, value in msgspec.to_builtins(head).items() if name != "checkpoint_count"}
    fields = [b"name", old, b"", 4, 1, 0, 0, bytes(8)]
    found = codec.HEAD.decode(memoryview(b"\x01" + msgspec.msgpack.encode(fields)))
    assert found.head == head
    assert found.head.checkpoint_count == SessionHead().checkpoint_count == 0
    assert found.attempt_count == 0
    assert codec.HEAD.encode(found)[0] == 2
