"""What sessions cost in the file and in time: follows the new bytes, not the history."""

from __future__ import annotations

import random
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

from sidecar.core.compaction import AttemptState
from store import LmdbStore
from tests.store import build
from tests.store.build import KEY


def test_file_after_2000_small_batches_is_about_its_content(tmp_path: Path) -> None:
    rng = random.Random(9)
    store = LmdbStore(tmp_path, quota_bytes=0)
    raw_bytes = 0
    futures = []
    for turn in range(2_000):
        raws = [
            build.raw_item(rng.randbytes(rng.randrange(50, 200)).hex()),
            build.raw_item(rng.randbytes(rng.randrange(1_500)).hex()),
        ]
        raw_bytes += sum(map(len, raws))
        futures.append(store.submit(build.plain(KEY, 2 * turn, raws)))
        if turn % 8 == 0:
            futures[-1].result(10)
    futures[-1].result(10)
    used = store.stats().used_bytes
    file_bytes = (tmp_path / "data.mdb").stat().st_size
    print(f"raw {raw_bytes} counted {used} file {file_bytes}: {used / raw_bytes:.2f} {file_bytes / raw_bytes:.2f}")
    assert used < 1.6 * raw_bytes
    assert file_bytes < 2.2 * raw_bytes
    store.close()


def test_write_of_a_batch_does_not_grow_with_the_session(tmp_path: Path) -> None:
    """Ensure that the pages that a commit writes do not depend on what is there: read from LMDB, not from a clock."""
    store = LmdbStore(tmp_path, quota_bytes=0)
    growth = []
    for start in (0, 4_000):
        store.submit(build.plain(KEY, start, [b"x" * 300] * 3_000)).result(30)
        before = store.stats().used_bytes
        for number in range(start + 3_000, start + 4_000):
            store.submit(build.plain(KEY, number, [b"x" * 300]))
        store.submit(build.plain(KEY, start + 4_000, [])).result(30)
        growth.append(store.stats().used_bytes - before)
    assert growth[1] < 1.05 * growth[0]
    store.close()


def test_load_5000_items_in_2500_batches_is_fast(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, quota_bytes=0)
    futures = [store.submit(build.plain(KEY, number, [b"a" * 500, b"b" * 900])) for number in range(0, 5_000, 2)]
    for future in futures:
        future.result(30)
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        image = store.load(KEY)
        times.append(time.perf_counter() - begin)
        assert image is not None
        assert len(image.items) == 5_000
    # Ten milliseconds on an idle core; the bound is for a busy one. One LMDB transaction per item would be over it.
    assert median(times) < 0.25
    store.close()


def test_500_checkpoints_cost_each_its_own_bytes_and_all_can_be_read_again(tmp_path: Path) -> None:
    """Ensure that a checkpoint holds its summary and what it names, not the history: the store grows evenly."""
    store = LmdbStore(tmp_path, quota_bytes=0)
    raws = [build.raw_item(f"turn {number} " * 20) for number in range(500)]
    used = [0]
    for number, raw in enumerate(raws):
        batch = build.plain(KEY, number, [raw], revision=number + 1)
        batch.base_revision = number
        name = f"try-{number}"
        batch.attempts = [build.attempt(name, AttemptState.COMMITTED, checkpoint_id=f"c{number}")]
        batch.checkpoints = [build.checkpoint(f"c{number}", name, number, number + 1)]
        store.submit(batch)
        if number % 100 == 99:
            store.submit(build.plain(KEY, number + 1, [], revision=number + 1)).result(30)
            used.append(store.stats().used_bytes)
    grown = [after - before for before, after in pairwise(used)]
    assert max(grown) < 1.05 * min(grown)
    assert [store.read_item(KEY, number) for number in range(500)] == raws
    image = store.load(KEY)
    assert image is not None
    assert image.checkpoints == [build.checkpoint(f"c{n}", f"try-{n}", n, n + 1) for n in range(500)]
    assert [finding["what"] for finding in store.check()] == ["count"]
    store.close()
