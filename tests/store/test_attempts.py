"""Attempts to summarize, what they end in, and their summary requests."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from sidecar.core.compaction import AttemptRecord, AttemptState, CheckpointRecord, RequestRecord, RollbackRecord
from sidecar.core.errors import StoreFailedError, StoreFullError
from sidecar.core.types import SessionKey
from sidecar.ports import Batch
from store import LmdbStore
from store.layout import PIECE_BYTES
from tests.store import build, processes
from tests.store.build import KEY
from tests.store.child import BATCH_ITEMS, step

ENDS = [AttemptState.COMMITTED, AttemptState.FAILED, AttemptState.UNKNOWN]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbStore]:
    opened = LmdbStore(tmp_path / "data", quota_bytes=0)
    opened.submit(build.plain(KEY, 0, [b"0", b"1", b"2", b"3"])).result(10)
    yield opened
    opened.close()


def batch(
    *attempts: AttemptRecord,
    plans: Sequence[tuple[str, bytes]] = (),
    checkpoints: Sequence[CheckpointRecord] = (),
    revision: int = 0,
    base_revision: int = 0,
    live: int = 0,
) -> Batch:
    made = build.plain(KEY, 4, [], revision=revision)
    made.base_revision = base_revision
    made.head = msgspec.structs.replace(build.head(revision=revision, count=4), checkpoint_count=live)
    made.attempts, made.plans, made.checkpoints = attempts, plans, checkpoints
    return made


def attempts(store: LmdbStore) -> list[AttemptRecord]:
    image = store.load(KEY)
    assert image is not None
    return image.attempts


def findings(store: LmdbStore) -> list[str]:
    return [f"{one['where']}: {one['what']}" for one in store.check() if one["level"] != "info"]


def test_submit_attempt_newest_state_counts_in_order_of_the_first(store: LmdbStore) -> None:
    one, two, three = (build.attempt(name, AttemptState.RESERVED) for name in ("b", "a", "c"))
    store.submit(batch(one, two)).result(10)
    gone_on = build.attempt("b", AttemptState.DISPATCHED, detail="sent")
    store.submit(batch(three, gone_on)).result(10)
    assert attempts(store) == [gone_on, two, three]
    failed = build.attempt("a", AttemptState.FAILED, detail="refused")
    store.submit(batch(build.attempt("a", AttemptState.DISPATCHED), failed)).result(10)
    assert attempts(store) == [gone_on, failed, three]
    assert findings(store) == []


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("later", [*ENDS, AttemptState.RESERVED, AttemptState.DISPATCHED])
def test_submit_end_that_is_durable_is_not_written_over(store: LmdbStore, end: AttemptState, later: AttemptState) -> None:
    ended = build.attempt("a", end, detail="as it was")
    store.submit(batch(ended)).result(10)
    used = store.stats().used_bytes
    with pytest.raises(StoreFailedError, match="ended would be written over") as caught:
        store.submit(batch(build.attempt("a", later, detail="another"), build.attempt("b", later))).result(10)
    assert caught.value.details == {"state": end.name}
    assert attempts(store) == [ended]
    store.submit(batch(ended)).result(10)
    assert attempts(store) == [ended]
    assert store.stats().used_bytes == used


def test_submit_end_within_one_batch_is_not_written_over(store: LmdbStore) -> None:
    ended = build.attempt("a", AttemptState.UNKNOWN)
    with pytest.raises(StoreFailedError, match="ended would be written over"):
        store.submit(batch(ended, build.attempt("a", AttemptState.FAILED))).result(10)
    assert attempts(store) == []


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3_000_000])
def test_read_plan_any_size_equals_what_was_handed_out(tmp_path: Path, size: int) -> None:
    plan = build.plan("a", size)
    store = LmdbStore(tmp_path, quota_bytes=0)
    store.submit(build.plain(KEY, 0, [b"0", b"1", b"2", b"3"])).result(10)
    store.submit(batch(build.attempt("a", AttemptState.DISPATCHED, has_plan=True), plans=[("a", plan)])).result(10)
    assert findings(store) == []
    store.close()
    store = LmdbStore(tmp_path, quota_bytes=0)
    assert store.read_plan(KEY, "a") == plan
    assert store.read_plan(KEY, "b") is None
    assert store.read_plan(SessionKey("team", "none"), "a") is None
    store.close()


@pytest.mark.parametrize("end", ENDS)
def test_submit_end_drops_the_plan_and_gives_its_room_back(store: LmdbStore, end: AttemptState) -> None:
    store.submit(batch(build.attempt("a", AttemptState.RESERVED))).result(10)
    before = store.stats().used_bytes
    plan = build.plan("a", 500_000)
    store.submit(batch(build.attempt("a", AttemptState.DISPATCHED, has_plan=True), plans=[("a", plan)])).result(10)
    assert store.stats().used_bytes > before + 500_000
    store.submit(batch(build.attempt("a", end, has_plan=True))).result(10)
    assert store.stats().used_bytes < before + 200
    assert store.read_plan(KEY, "a") is None
    assert findings(store) == []


def test_submit_plan_of_attempt_that_is_durable_is_kept_once(store: LmdbStore) -> None:
    store.submit(batch(build.attempt("a", AttemptState.RESERVED))).result(10)
    store.submit(batch(plans=[("a", b"ask this")])).result(10)
    store.submit(batch(build.attempt("a", AttemptState.DISPATCHED, has_plan=True), plans=[("a", b"ask this")])).result(10)
    assert store.read_plan(KEY, "a") == b"ask this"
    with pytest.raises(StoreFailedError, match="handed out would be written over"):
        store.submit(batch(plans=[("a", b"ask that")])).result(10)
    assert store.read_plan(KEY, "a") == b"ask this"


@pytest.mark.parametrize(
    "bad",
    [
        batch(plans=[("a", b"x")]),
        batch(build.attempt("a", AttemptState.RESERVED), plans=[("a", b"x"), ("a", b"y")]),
        batch(build.attempt("a", AttemptState.DISPATCHED, has_plan=True)),
    ],
    ids=["no attempt", "two plans", "no plan"],
)
def test_submit_plans_and_attempts_that_do_not_meet_fail_their_batch(store: LmdbStore, bad: Batch) -> None:
    with pytest.raises(StoreFailedError):
        store.submit(bad).result(10)
    assert attempts(store) == []
    assert findings(store) == []


@pytest.mark.parametrize("attempt_id", ["", "nul\x00", "é" * 200, "half \ud800", "../../x"])
def test_submit_attempt_any_id_is_found_again(store: LmdbStore, attempt_id: str) -> None:
    record = build.attempt("x", AttemptState.DISPATCHED, has_plan=True)
    record = msgspec.structs.replace(record, attempt_id=attempt_id)
    store.submit(batch(record, plans=[(attempt_id, b"plan")])).result(10)
    assert store.read_plan(KEY, attempt_id) == b"plan"
    ended = msgspec.structs.replace(record, state=AttemptState.FAILED)
    store.submit(batch(ended)).result(10)
    assert [one.state for one in attempts(store)] == [AttemptState.FAILED]
    assert findings(store) == []


def test_submit_records_keep_their_order_over_batches(store: LmdbStore) -> None:
    made = []
    for revision in (1, 2, 3):
        one = batch(revision=revision, base_revision=revision - 1, live=revision)
        one.checkpoints = [build.checkpoint(f"c{revision}", "", revision, revision)]
        one.rollbacks = [RollbackRecord(f"r{revision}", b"d" * 32, (f"c{revision}",), revision, 5)]
        one.requests = [RequestRecord(f"q{revision}", b"d" * 32, revision, 4, b"h")]
        store.submit(one).result(10)
        made.append(one)
    image = store.load(KEY)
    assert image is not None
    assert image.checkpoints == [record for one in made for record in one.checkpoints]
    assert image.rollbacks == [record for one in made for record in one.rollbacks]
    assert image.requests == [record for one in made for record in one.requests]
    summary = store.summary(KEY)
    assert summary is not None
    assert summary.checkpoint_count == 3
    assert [one.checkpoint_count for one in store.list_sessions("team", "")] == [3]
    assert findings(store) == []


def test_submit_plan_over_quota_is_refused_whole(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, quota_bytes=200_000)
    store.submit(build.plain(KEY, 0, [b"0", b"1", b"2", b"3"])).result(10)
    record = build.attempt("a", AttemptState.DISPATCHED, has_plan=True)
    with pytest.raises(StoreFullError):
        store.submit(batch(record, plans=[("a", build.plan("a", 300_000))])).result(10)
    assert attempts(store) == []
    store.submit(batch(record, plans=[("a", build.plan("a", 100_000))])).result(10)
    assert attempts(store) == [record]
    store.close()


def test_delete_session_takes_attempts_and_plans(store: LmdbStore) -> None:
    record = build.attempt("a", AttemptState.DISPATCHED, has_plan=True)
    store.submit(batch(record, plans=[("a", build.plan("a"))])).result(10)
    store.delete_session(KEY)
    assert store.stats().used_bytes == 0
    store.submit(build.plain(KEY, 0, [b"0", b"1", b"2", b"3"])).result(10)
    assert store.read_plan(KEY, "a") is None
    assert attempts(store) == []


WRONG = {
    "gone": {"gone": ((3, 9),)},
    "trims": {"trims": ((7, (0,)),)},
    "after": {"after": 4},
    "pointer": {"pointers": (-1,)},
    "artifact": {"artifact_ids": ("0" * 32,)},
    "superseded": {"superseded": ("c0",)},
    "attempt": {"attempt_id": "none"},
    "open attempt": {"attempt_id": "open"},
    "revision": {"revision": 2},
}


@pytest.mark.parametrize("fields", list(WRONG.values()), ids=list(WRONG))
def test_check_checkpoint_that_refers_to_nothing_is_found(store: LmdbStore, fields: dict[str, object]) -> None:
    record = msgspec.structs.replace(build.checkpoint("c1", "", 1, 1), **fields)
    one = batch(build.attempt("open", AttemptState.RESERVED), checkpoints=[record], revision=1, live=1)
    store.submit(one).result(10)
    assert findings(store) == ["session 'team' 'run-1' checkpoint 0: a record refers to what is not there"]


@pytest.mark.parametrize("numbers", [[1, 2, 3], [1, 3, 2], [1, 2]])
def test_check_checkpoint_is_of_the_items_that_it_covers(store: LmdbStore, numbers: list[int]) -> None:
    image = store.load(KEY)
    assert image is not None
    digest = sha256(b"".join(image.items[number].digest for number in numbers)).digest()
    record = msgspec.structs.replace(build.checkpoint("c1", "", 1, 1), gone=((1, 4),), trims=(), items_sha256=digest)
    store.submit(batch(checkpoints=[record], revision=1, live=1)).result(10)
    told = ["session 'team' 'run-1' checkpoint 0: a checkpoint covers items that are not those it was made of"]
    assert findings(store) == ([] if numbers == [1, 2, 3] else told)


def test_check_counts_and_names_of_compaction_that_are_wrong_are_found(store: LmdbStore) -> None:
    one = batch(build.attempt("a", AttemptState.COMMITTED, checkpoint_id="c9"), live=2)
    one.rollbacks = [RollbackRecord("r", b"", ("c7",), 0, 5)]
    one.requests = [RequestRecord("q", b"", 9, 4, b"")]
    store.submit(one).result(10)
    assert [line.removeprefix("session 'team' 'run-1'").strip() for line in findings(store)] == [
        ": 2 checkpoints are counted as live, there are 0",
        "rollback 0: a record refers to what is not there",
        "request 0: a record refers to what is not there",
        "attempt 0: a record refers to what is not there",
    ]


@pytest.mark.parametrize("place", ["before_commit", "after_commit"])
@pytest.mark.parametrize("passes", [1, 2])
def test_kill_around_the_commit_of_an_attempt_is_before_or_after_it(tmp_path: Path, place: str, passes: int) -> None:
    """Ensure that an attempt, its summary request and the checkpoint that ends it are there together, or none of them."""
    with processes.start("steps", tmp_path, env={"TRIMTAB_FAILPOINTS": f"{place}=kill@{passes}"}) as child:
        text, _ = child.communicate(timeout=60)
        assert child.returncode == -signal.SIGKILL
    done = passes if place == "after_commit" else passes - 1
    assert text.split() == [str(number) for number in range(passes - 1)]
    store = LmdbStore(tmp_path, quota_bytes=0)
    image = store.load(KEY)
    made = [step(KEY, number * BATCH_ITEMS, number) for number in range(done)]
    assert (image is not None) is (done > 0)
    found = ([], [], None) if image is None else (image.attempts, image.checkpoints, store.read_plan(KEY, "try-0"))
    expected = {
        0: ([], [], None),
        1: ([made[0].attempts[0]] if made else [], [], dict(made[0].plans)["try-0"] if made else None),
        2: ([made[-1].attempts[1], made[-1].attempts[0]], list(made[-1].checkpoints), None) if done == 2 else ([], [], None),
    }
    assert found == expected[done]
    assert findings(store) == []
    store.close()
