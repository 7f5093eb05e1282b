"""The store: one folder, one process, one writer thread; `sidecar.ports.Store` says what each call means."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from weakref import WeakSet

from sidecar.core.errors import SessionNotFoundError
from sidecar.core.types import ArtifactRecord, ArtifactSource, Envelope, SessionKey
from sidecar.ports import Batch, Clock, SessionImage, SessionSummary, StoreStats
from store import codec, sessions
from store.attempts import attempt_name, read_plan
from store.backup import Backup, backup
from store.backup import Progress as BackupProgress
from store.check import Progress, check
from store.codec import unseal
from store.env import DEFAULT_MAP_BYTES, Env, is_at
from store.journal import read_range
from store.layout import Family, blob_key
from store.records import find_handle, name_key, read_head
from store.totals import read_totals
from store.writer import Writer

__all__ = ["LmdbStore"]

MAX_QUEUE_BYTES = 512 << 20

_open_stores: WeakSet[LmdbStore] = WeakSet()


class LmdbStore:
    """Sessions in LMDB.

    Attributes:
        unclean_end: the last process that held the folder did not close it. Nothing acknowledged is lost by that.
        map_bytes: size of the map.
        map_is_reduced: the address space did not allow a map as large as asked for.
        folder_is_shared: the folder is another user's and stays as wide as it is (a mounted volume); its files are ours only.
        volatile: the folder is on a file system that goes with the container or with the host's memory.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        quota_bytes: int,
        clock: Clock | None = None,
        map_bytes: int = DEFAULT_MAP_BYTES,
        max_queue_bytes: int = MAX_QUEUE_BYTES,
        what: str = "trimtab",
    ) -> None:
        """Open a data folder, making it when it is missing.

        Args:
            path: the folder; it becomes its owner's only.
            quota_bytes: how much the sessions may take together; 0: no bound but the disk's.
            clock: for the note on who holds the folder.
            map_bytes: sparse, so its size costs nothing.
            max_queue_bytes: what may wait to be written before batches are refused.
            what: who we are, for others that want the folder.

        Raises:
            StoreFailedError: held by another process (named), not a store of ours, or of a newer version.
            StoreFullError: no room for the first page.
        """
        now_ms = time.time_ns() // 1_000_000 if clock is None else clock.now_ms()
        self._quota_bytes = quota_bytes
        self._env = Env(path, map_bytes=map_bytes, what=what, now_ms=now_ms)
        try:
            self._writer = Writer(self._env, quota_bytes=quota_bytes, max_queue_bytes=max_queue_bytes)
        except BaseException:
            self._env.close()
            raise
        self.unclean_end = self._env.unclean_end
        self.map_bytes = self._env.map_bytes
        self.map_is_reduced = self._env.map_is_reduced
        self.folder_is_shared = self._env.folder_is_shared
        self.volatile = self._env.volatile
        _open_stores.add(self)

    @staticmethod
    def is_at(path: str | os.PathLike[str]) -> bool:
        """The folder holds a store's data file. Nothing is opened or made."""
        return is_at(path)

    def load(self, key: SessionKey) -> SessionImage | None:
        """Read a session as it is durable. None when there is none."""
        name = name_key(key.scope, key.session_id)
        with self._env.read("load a session") as txn:
            handle = find_handle(txn, name)
            return None if handle is None else sessions.load_session(txn, handle)

    def submit(self, batch: Batch) -> Future[None]:
        """Queue a batch; the future ends when it is flushed, or with an error and nothing of it written."""
        return self._writer.submit(batch)

    def read_item(self, key: SessionKey, number: int) -> bytes:
        """Raw bytes of an item."""
        return self._read_range(key, number, 0, None)

    def read_item_range(self, key: SessionKey, number: int, start: int, end: int) -> bytes:
        """Part of an item's raw bytes."""
        return self._read_range(key, number, start, end)

    def _read_range(self, key: SessionKey, number: int, start: int, end: int | None) -> bytes:
        name = name_key(key.scope, key.session_id)
        with self._env.read("read an item") as txn:
            handle = find_handle(txn, name)
            if handle is None:
                raise SessionNotFoundError("no such session")
            return read_range(txn, handle, number, start, end)

    def read_envelope(self, key: SessionKey) -> Envelope | None:
        """The newest durable envelope."""
        name = name_key(key.scope, key.session_id)
        with self._env.read("read an envelope") as txn:
            handle = find_handle(txn, name)
            return None if handle is None else sessions.read_envelope(txn, handle)

    def read_artifact(self, key: SessionKey, artifact_id: str) -> ArtifactRecord | None:
        """An artifact's record; None for what is no artifact id of ours."""
        name = name_key(key.scope, key.session_id)
        try:
            wanted = bytes.fromhex(artifact_id)
        except ValueError:
            return None
        if wanted.hex() != artifact_id or len(wanted) != 16:
            return None
        with self._env.read("read an artifact's record") as txn:
            handle = find_handle(txn, name)
            if handle is None:
                return None
            place = blob_key(handle, Family.ARTIFACT, wanted)
            value = txn.get(place)
            return None if value is None else codec.ARTIFACT.decode(unseal(place, value))

    def list_sources(self, key: SessionKey, after: int, limit: int) -> list[tuple[int, ArtifactSource]]:
        """Places that artifacts stood in, oldest first."""
        name = name_key(key.scope, key.session_id)
        with self._env.read("list artifact sources") as txn:
            handle = find_handle(txn, name)
            return [] if handle is None else sessions.read_sources(txn, handle, after, limit)

    def read_plan(self, key: SessionKey, attempt_id: str) -> bytes | None:
        """The summary request of an attempt, as it was handed to the caller. None when it has none, or has ended."""
        name = name_key(key.scope, key.session_id)
        with self._env.read("read a summary request") as txn:
            handle = find_handle(txn, name)
            return None if handle is None else read_plan(txn, handle, attempt_name(attempt_id))

    def list_sessions(self, scope: str, prefix: str) -> list[SessionSummary]:
        """Sessions of a scope whose id begins with prefix, most recently used first."""
        with self._env.read("list sessions") as txn:
            return sessions.summaries(txn, scope, prefix)

    def all_sessions(self) -> list[SessionSummary]:
        """Every session of every scope, by scope and id."""
        with self._env.read("list sessions") as txn:
            return sessions.all_summaries(txn)

    def summary(self, key: SessionKey) -> SessionSummary | None:
        """One session, as in a list."""
        name = name_key(key.scope, key.session_id)
        with self._env.read("read a session's head") as txn:
            handle = find_handle(txn, name)
            return None if handle is None else sessions.summarize(key, read_head(txn, handle))

    def delete_session(self, key: SessionKey) -> bool:
        """Remove a session and all that it holds; durable when it returns.

        The quota is free at once. What a large session held is removed in several transactions, the last ones after this returns.
        """
        return self._writer.remove(key).result()

    def stats(self) -> StoreStats:
        """How full the store is."""
        with self._env.read("read the store's counters") as txn:
            totals = read_totals(txn)
        return StoreStats(totals.used_bytes, self._quota_bytes, totals.session_count, self.map_bytes)

    def check(self, progress: Progress | None = None) -> Iterator[Mapping[str, object]]:
        """Walk everything and prove every digest; see `store.check.check`."""
        return check(self._env, progress)

    def backup(self, path: str | os.PathLike[str], progress: BackupProgress | None = None) -> Backup:
        """Copy the store as it is now into an empty folder, while reads and writes go on; see `store.backup.backup`.

        The copy has all that was acknowledged before this was called. `close` ends a copy that runs.
        """
        return backup(self._env, path, progress)

    def close(self) -> None:
        """Write what is queued, flush, and let go of the folder."""
        _open_stores.discard(self)
        self._writer.close()
        self._env.close()

    def _forget(self) -> None:
        self._writer.forget()
        self._env.forget()


def _after_fork() -> None:
    """A child of a fork has no writer thread and no right to the folder: its stores are closed, the parent's go on."""
    for store in list(_open_stores):
        store._forget()
    _open_stores.clear()


os.register_at_fork(after_in_child=_after_fork)
