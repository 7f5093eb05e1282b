"""SIGKILL at any moment: what was acknowledged is there, whole; nothing is there in part."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from sidecar.core.types import SessionKey
from store import LmdbStore
from tests.store import processes
from tests.store.child import BATCH_ITEMS, step

ROUNDS = 16


class Acknowledged:
    """What children were told, over all rounds."""

    def __init__(self) -> None:
        self.bases: dict[SessionKey, int] = {}  # first item of the last batch
        self.removed: set[SessionKey] = set()
        self.removing: set[SessionKey] = set()
        self.count = 0

    def read(self, lines: Iterable[str]) -> None:
        for line in lines:
            words = line.split()
            if words[0] == "ack":
                key = SessionKey(words[1], words[2])
                self.bases[key] = int(words[3])
                self.removed.discard(key)
                self.count += 1
            elif words[0] == "removing":
                self.removing.add(SessionKey(words[1], words[2]))
            elif words[0] == "removed":
                key = SessionKey(words[1], words[2])
                self.removed.add(key)
                self.removing.discard(key)
                self.bases.pop(key, None)

    def settle(self, store: LmdbStore) -> None:
        """A removal that was cut off has happened or not; from here on as it turned out."""
        for key in self.removing:
            if store.load(key) is None:
                self.bases.pop(key, None)
        self.removing.clear()


def prove_session(store: LmdbStore, key: SessionKey) -> int:
    """Everything that a session must hold, from its size alone. Its number of items."""
    image = store.load(key)
    assert image is not None
    count, rest = divmod(image.next_number, BATCH_ITEMS)
    assert rest == 0
    assert count > 0
    batches = [step(key, number * BATCH_ITEMS, number) for number in range(count)]
    items = [item for batch in batches for item in batch.items]
    assert image.items == [item.meta for item in items]
    assert [store.read_item(key, item.meta.number) for item in items] == [item.raw for item in items]
    assert image.offloads == [one for batch in batches for one in batch.offloads]
    assert [source for _, source in store.list_sources(key, -1, 10**6)] == [one for batch in batches for one in batch.sources]
    assert [store.read_artifact(key, one.artifact_id) for batch in batches for one in batch.artifacts] == [
        one for batch in batches for one in batch.artifacts
    ]
    assert image.head == batches[-1].head
    assert image.anchors == batches[-1].anchors
    assert store.read_envelope(key) == batches[-1].envelope
    assert image.checkpoints == [one for batch in batches for one in batch.checkpoints]
    assert image.attempts == [one for batch in batches[1:] for one in batch.attempts[1:]] + list(batches[-1].attempts[:1])
    plans = [plan for batch in batches for plan in batch.plans]
    assert [store.read_plan(key, attempt_id) for attempt_id, _ in plans] == [None] * (count - 1) + [plans[-1][1]]
    return image.next_number


@pytest.mark.slow
def test_kill_at_random_moments_loses_nothing_acknowledged(tmp_path: Path) -> None:
    rng = random.Random(20_240)
    told = Acknowledged()
    unclean = []
    for number in range(ROUNDS):
        lines: list[str] = []
        with processes.start("writers", tmp_path, number) as child:
            assert child.stdout is not None
            unclean.append(child.stdout.readline().split() == ["open", "1"])
            reader = threading.Thread(target=lines.extend, args=(child.stdout,))
            reader.start()
            time.sleep(rng.uniform(0.005, 0.4))
            child.kill()
            assert child.wait(20) == -signal.SIGKILL
            reader.join()
        told.read(line for line in lines if line.endswith("\n"))
    store = LmdbStore(tmp_path, quota_bytes=0)
    told.settle(store)
    assert store.unclean_end is True
    assert unclean == [False] + [True] * (ROUNDS - 1)
    assert told.count > ROUNDS
    proven = {}
    for life in range(1_000):
        for summary in store.list_sessions(f"life-{life}", ""):
            proven[summary.key] = prove_session(store, summary.key)
    missing = {key: base for key, base in told.bases.items() if proven.get(key, 0) < base + BATCH_ITEMS}
    assert missing == {}
    assert [finding["what"] for finding in store.check()] == ["count"]
    assert store.stats().session_count == len(proven)
    store.close()


@pytest.mark.parametrize("place", ["before_commit", "after_commit"])
@pytest.mark.parametrize("passes", [1, 8])
def test_kill_around_a_commit_is_before_or_after_it(tmp_path: Path, place: str, passes: int) -> None:
    told = Acknowledged()
    with processes.start("writers", tmp_path, 1, env={"TRIMTAB_FAILPOINTS": f"{place}=kill@{passes}"}) as child:
        text, _ = child.communicate(timeout=60)
        assert child.returncode == -signal.SIGKILL
    told.read(line for line in text.splitlines(keepends=True) if line.endswith("\n"))
    store = LmdbStore(tmp_path, quota_bytes=0)
    told.settle(store)
    proven = {one.key: prove_session(store, one.key) for life in range(50) for one in store.list_sessions(f"life-{life}", "")}
    assert {key: base for key, base in told.bases.items() if proven.get(key, 0) < base + BATCH_ITEMS} == {}
    assert [finding["what"] for finding in store.check()] == ["count"]
    assert (sum(proven.values()) > 0) is (place == "after_commit" or passes > 1)
    store.close()


@pytest.mark.parametrize("passes", [1, 2, 3])
def test_kill_while_a_large_session_is_removed_leaves_no_half_of_it(tmp_path: Path, passes: int) -> None:
    """Ensure that a session whose removal was cut off is gone for every call, and its pages come back at the next start."""
    env = {"TRIMTAB_FAILPOINTS": f"before_purge=kill@{passes}"}
    with processes.start("purge", tmp_path, env=env) as child:
        text, _ = child.communicate(timeout=60)
        assert child.returncode == -signal.SIGKILL
    assert text == "removing\n"
    store = LmdbStore(tmp_path, quota_bytes=0)
    key = SessionKey("large", "one")
    assert store.load(key) is None
    assert store.summary(key) is None
    assert store.list_sessions("large", "") == []
    assert store.stats().used_bytes == 0
    store.submit(step(key, 0, 0)).result(20)
    assert prove_session(store, key) == BATCH_ITEMS
    deadline = time.monotonic() + 20
    while store._writer._doomed and time.monotonic() < deadline:
        time.sleep(0.01)
    assert store._writer._doomed == []
    assert store._env._lmdb.stat()["entries"] < 60
    assert [finding["what"] for finding in store.check()] == ["count"]
    store.close()
