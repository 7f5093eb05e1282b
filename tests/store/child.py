"""A process that writes until it is killed, and says what was acknowledged: `python -m tests.store.child MODE FOLDER [SEED]`."""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import threading
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import msgspec

from sidecar.core.compaction import AttemptState
from sidecar.core.errors import TrimtabError
from sidecar.core.types import Anchors, SessionKey
from sidecar.ports import Batch
from store import LmdbStore, backup_folder
from tests.store import build

BATCH_ITEMS = 3


def step(key: SessionKey, base: int, revision: int) -> Batch:
    """The batch that begins at item `base`; a function of its arguments, so that a reader knows what must be there."""
    rng = random.Random(f"{key.scope}/{key.session_id}/{base}")
    sizes = [rng.choice([20, 500, 5_000]), rng.choice([100, 20_000, 90_000]), 50]
    raws = [build.raw_item(rng.randbytes(size // 2).hex()) for size in sizes]
    batch = build.plain(key, base, raws, revision=revision + 1)
    batch.base_revision = revision
    record = build.artifact(base + 1, raws[1])
    batch.artifacts = [record]
    batch.sources = [build.source(record.artifact_id, base + 1)]
    batch.offloads = [build.offload(base + 1, record.artifact_id, revision + 1)]
    batch.envelope = build.envelope(system=f"system at {base}")
    batch.anchors = Anchors(goal=f"goal at {base}", revision=revision + 1)
    batch.attempts = [build.attempt(f"try-{base}", AttemptState.DISPATCHED, has_plan=True)]
    batch.plans = [(f"try-{base}", build.plan(f"try-{base}", rng.choice([100, 70_000])))]
    if base:
        before = base - BATCH_ITEMS
        batch.attempts.append(build.attempt(f"try-{before}", AttemptState.COMMITTED, has_plan=True, checkpoint_id=f"c{before}"))
        batch.checkpoints = [build.checkpoint(f"c{before}", f"try-{before}", before, revision + 1)]
        batch.head = msgspec.structs.replace(batch.head, checkpoint_count=base // BATCH_ITEMS)
    return batch


def say(lock: threading.Lock, *words: object) -> None:
    """One line, whole, at once."""
    with lock:
        sys.stdout.write(" ".join(map(str, words)) + "\n")
        sys.stdout.flush()


def write(store: LmdbStore, name: str, lock: threading.Lock, rng: random.Random) -> None:
    """Write batches of one session, several in flight, each acknowledged; now and then remove the session and begin again."""
    life = 0
    while True:
        key = SessionKey(f"life-{life}", name)
        image = store.load(key)
        base, revision = (0, 0) if image is None else (image.next_number, image.head.revision)
        for _ in range(rng.randrange(5, 40)):
            futures = []
            for _ in range(rng.randrange(1, 4)):
                futures.append((base, store.submit(step(key, base, revision))))
                base, revision = base + BATCH_ITEMS, revision + 1
            for number, future in futures:
                future.result()
                say(lock, "ack", key.scope, name, number)
        if rng.random() < 0.3:
            say(lock, "removing", key.scope, name)
            store.delete_session(key)
            say(lock, "removed", key.scope, name)
        life += 1


def run_writers(folder: str, seed: str) -> None:
    """Four threads."""
    store = LmdbStore(folder, quota_bytes=0, what="writers")
    lock = threading.Lock()
    say(lock, "open", int(store.unclean_end))
    for name in ("a", "b", "c", "d"):
        threading.Thread(target=write, args=(store, name, lock, random.Random(seed + name)), daemon=True).start()
    threading.Event().wait()


def run_hold(folder: str, _seed: str) -> None:
    """Hold the folder until told to go on."""
    store = LmdbStore(folder, quota_bytes=0, what="holder")
    print("held", flush=True)
    sys.stdin.readline()
    store.close()


def run_fill(folder: str, seed: str) -> None:
    """Fill the disk, to the last small batch; then remove sessions, and write again. Prints what happened.

    With `seed`, a bound on the size of files plays the full disk, and is raised before the removal: pages are all that a store
    can make free by itself.
    """
    store = LmdbStore(folder, quota_bytes=0)
    if seed:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(seed), resource.RLIM_INFINITY))
    rng = random.Random(1)
    whole: dict[SessionKey, list[bytes]] = {}
    for size in (40_000, 10):
        error = ""
        while not error:
            key = SessionKey(str(size), str(len(whole)))
            raws = [build.raw_item(rng.randbytes(size // 2).hex()) for _ in range(2)]
            try:
                store.submit(build.plain(key, 0, raws)).result()
                whole[key] = raws
            except TrimtabError as err:
                error = err.reason
        print("full", size, error, flush=True)
    print("kept", all(store.read_item(key, n) == raw for key, raws in whole.items() for n, raw in enumerate(raws)))
    if seed:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 * int(seed), resource.RLIM_INFINITY))
    victims = [key for key in whole if key.scope == "40000"][:3]
    print("removed", [store.delete_session(key) for key in victims])
    for _ in range(100):
        try:
            store.submit(build.plain(SessionKey("after", ""), 0, [build.raw_item("x" * 10_000)])).result()
            print("written", flush=True)
            break
        except TrimtabError:
            threading.Event().wait(0.05)
    print("check", [finding["what"] for finding in store.check()])
    store.close()


def run_space(folder: str, seed: str) -> None:
    """Open with little address space."""
    before = int(Path("/proc/self/statm").read_text().split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (before + int(seed), before + int(seed)))
    store = LmdbStore(folder, quota_bytes=0)
    store.submit(build.plain(build.KEY, 0, [b"x" * 100_000])).result()
    print(store.map_is_reduced, store.map_bytes, sha256(store.read_item(build.KEY, 0)).hexdigest())
    store.close()


def run_purge(folder: str, _seed: str) -> None:
    """Remove a session that takes several transactions to remove, and wait to be killed in one of them."""
    store = LmdbStore(folder, quota_bytes=0)
    key = SessionKey("large", "one")
    futures = [store.submit(step(key, number * BATCH_ITEMS, number)) for number in range(1_500)]
    for future in futures:
        future.result()
    print("removing", flush=True)
    store.delete_session(key)
    threading.Event().wait(30)


def run_backup(folder: str, seed: str) -> None:
    """Copy a folder to one beside it, under a bound on the size of files. Prints how it ended, and what is there."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(seed), resource.RLIM_INFINITY))
    target = Path(folder + "-copy")
    try:
        backup_folder(folder, target)
        print("copied")
    except TrimtabError as err:
        print(err.reason)
    print(sorted(place.name for place in target.glob("*")))


def run_flush(folder: str, place: str) -> None:
    """Write steps of one session; in between, flushes fail, which the file at `place` brings about. Ends by SIGKILL."""
    store = LmdbStore(folder, quota_bytes=0)
    done = 0

    def seen() -> int:
        image = store.load(build.KEY)
        return 0 if image is None else image.next_number // BATCH_ITEMS

    def one(what: str, work: Callable[[], object]) -> bool:
        try:
            work()
            print(what, "ok", flush=True)
        except TrimtabError as err:
            print(what, err.reason, end="\n" if what != "backup" else " ", flush=True)
            return False
        return True

    def write() -> object:
        return store.submit(step(build.KEY, done * BATCH_ITEMS, done)).result(30)

    done += one("before", write)
    Path(place).touch()
    done += one("failing", write)
    done += one("failing", write)
    print("seen", seen(), flush=True)
    one("remove", lambda: store.delete_session(build.KEY))
    one("backup", lambda: store.backup(folder + "-copy"))
    print(sorted(Path(folder + "-copy").glob("*")), flush=True)
    Path(place).unlink()
    done += one("after", write)
    done += one("after", write)
    print("seen", seen(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def run_steps(folder: str, _seed: str) -> None:
    """Write steps of one session, one after another, until killed."""
    store = LmdbStore(folder, quota_bytes=0)
    for number in range(100):
        store.submit(step(build.KEY, number * BATCH_ITEMS, number)).result()
        print(number, flush=True)


MODES: dict[str, Callable[[str, str], None]] = {
    "writers": run_writers,
    "hold": run_hold,
    "fill": run_fill,
    "purge": run_purge,
    "space": run_space,
    "steps": run_steps,
    "flush": run_flush,
    "backup": run_backup,
}

if __name__ == "__main__":
    MODES[sys.argv[1]](sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "")
