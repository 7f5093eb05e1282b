"""The one thread that writes. What waits is committed together: a commit costs two disk syncs whatever is in it.

A batch that is refused (out of sequence, over quota) leaves no trace in the transaction. An error while writing spoils it: then
each batch of the group is tried by itself, so that one that cannot be written does not take others with it. A commit that fails
fails its batches; nothing of them is there, and the next commit stands on what was durable before. Futures end after the flush.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from errno import EIO
from math import inf
from queue import Empty, SimpleQueue
from time import monotonic
from typing import NamedTuple

import lmdb

from sidecar.core.errors import NotServingError, StoreFailedError, StoreFullError, TrimtabError
from sidecar.core.types import SessionKey
from sidecar.ports import Batch
from store import failpoints
from store.change import Change
from store.env import Env
from store.records import name_key, plan_batch
from store.sessions import doomed_handles, purge_some, remove_session
from store.totals import Totals, read_totals, write_totals
from store.trouble import to_ours

__all__ = ["Writer"]

GROUP_COUNT = 64
GROUP_BYTES = 8 << 20
IDLE_SECONDS = 30.0  # between looks at reader slots of dead processes, and tries of what fails
RETRY_SECONDS = 0.05
PURGE_KEYS = 500
ROOM_BYTES = 1 << 20
WRITE = "write to the store"
REMOVE = "remove a session"


class BatchJob(NamedTuple):
    """A batch that waits."""

    batch: Batch
    size_bytes: int
    future: Future[None]


class RemoveJob(NamedTuple):
    """A session that is to go."""

    key: SessionKey
    future: Future[bool]


class Writer:
    """The queue and its thread."""

    def __init__(self, env: Env, *, quota_bytes: int, max_queue_bytes: int) -> None:
        """Start the thread. What a former process began to remove is removed first."""
        self._env = env
        self._quota_bytes = quota_bytes
        self._max_queue_bytes = max_queue_bytes
        self._queue: SimpleQueue[BatchJob | RemoveJob | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._queued_bytes = 0
        self._closed = False
        self._held: deque[BatchJob | RemoveJob | None] = deque()  # taken from the queue, not yet of a group
        with env.read("look for sessions to remove") as txn:
            self._doomed = doomed_handles(txn)
        self._purge_keys = PURGE_KEYS  # of one transaction; fewer while the map is full
        self._purge_at = 0.0
        self._check_at = 0.0
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    def submit(self, batch: Batch) -> Future[None]:
        """Queue a batch."""
        job = BatchJob(batch, _size(batch), Future())
        with self._lock:
            refusal = self._refusal(job.size_bytes)
            if refusal is None:
                self._queued_bytes += job.size_bytes
                self._queue.put(job)
        if refusal is not None:
            job.future.set_exception(refusal)
        return job.future

    def remove(self, key: SessionKey) -> Future[bool]:
        """Queue the removal of a session."""
        job = RemoveJob(key, Future())
        with self._lock:
            refusal = self._refusal(0)
            if refusal is None:
                self._queue.put(job)
        if refusal is not None:
            job.future.set_exception(refusal)
        return job.future

    def close(self) -> None:
        """Write what waits, then end the thread."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    def _refusal(self, size_bytes: int) -> TrimtabError | None:
        if self._closed:
            return NotServingError("the store is closed")
        if self._queued_bytes and self._queued_bytes + size_bytes > self._max_queue_bytes:
            return StoreFailedError(
                "the store cannot keep up: too much waits to be written",
                hint="look at the disk",
                queued_bytes=self._queued_bytes,
                max_queue_bytes=self._max_queue_bytes,
            )
        return None

    def forget(self) -> None:
        """In a forked child, which has no such thread: refuse everything."""
        self._lock = threading.Lock()
        self._closed = True
        self._thread = threading.Thread(target=_nothing)
        self._thread.start()

    def _run(self) -> None:
        while (job := self._next()) is not None:
            if isinstance(job, RemoveJob):
                self._remove(job)
            else:
                self._write_group(self._gather(job))
            self._look_after()

    def _next(self) -> BatchJob | RemoveJob | None:
        """The next job; while there is none, what else is due."""
        while not self._held:
            wait = min(self._check_at, self._purge_at if self._doomed else inf) - monotonic()
            try:
                return self._queue.get(timeout=max(0.0, wait))
            except Empty:
                self._look_after()
        return self._held.popleft()

    def _look_after(self) -> None:
        """One step of a removal, a look at the reader slots, when due. Nobody waits for these: what fails is tried again."""
        now = monotonic()
        try:
            if self._doomed and now >= self._purge_at:
                self._purge(self._doomed[0])
            if now >= self._check_at:
                self._check_at = now + IDLE_SECONDS
                self._env.reader_check()
                self._env.reserve.fill()
        except (lmdb.Error, OSError) as err:
            if isinstance(self._failure(err, REMOVE, 0), StoreFullError) and self._purge_keys > 1:
                self._env.reserve.spend()
                self._purge_keys //= 8
                self._purge_at = now + RETRY_SECONDS
            else:
                self._purge_keys = PURGE_KEYS
                self._purge_at = now + IDLE_SECONDS

    def _gather(self, first: BatchJob) -> list[BatchJob]:
        """What waits behind a batch, up to the bounds of a group."""
        group = [first]
        size = first.size_bytes
        while len(group) < GROUP_COUNT and size < GROUP_BYTES:
            try:
                job = self._queue.get_nowait()
            except Empty:
                break
            if not isinstance(job, BatchJob) or size + job.size_bytes > GROUP_BYTES:
                self._held.append(job)
                break
            group.append(job)
            size += job.size_bytes
        return group

    def _write_group(self, group: list[BatchJob]) -> None:
        """Commit a group, end its futures."""
        live = [job for job in group if job.future.set_running_or_notify_cancel()]
        ends = self._commit(live) if live else []
        with self._lock:
            self._queued_bytes -= sum(job.size_bytes for job in group)
        for job, err in zip(live, ends, strict=True):
            if err is None:
                job.future.set_result(None)
            else:
                job.future.set_exception(err)

    def _commit(self, jobs: list[BatchJob]) -> list[TrimtabError | None]:
        """One transaction for all; by themselves when one of them spoils it. How each ended, in order."""
        try:
            with self._env.write() as txn:
                ends = self._apply(txn, jobs)
                spoiled = ends is None
                if ends is not None and any(err is None for err in ends):
                    failpoints.hit("before_commit")
                    self._env.check_in_place()
                    txn.commit()
                else:
                    txn.abort()
            failpoints.hit("after_commit")
            self._env.check_in_place()  # else the flush was of a file that ends with this process
        except Exception as err:
            return [self._failure(err, WRITE, sum(job.size_bytes for job in jobs))] * len(jobs)
        if not spoiled and ends is not None:
            return ends
        return [end for job in jobs for end in self._commit([job])]

    def _apply(self, txn: lmdb.Transaction[memoryview], jobs: list[BatchJob]) -> list[TrimtabError | None] | None:
        """Write batches that may be written. None when one of several spoiled the transaction."""
        totals = read_totals(txn)
        ends: list[TrimtabError | None] = []
        for job in jobs:
            try:
                change, after = plan_batch(txn, job.batch, totals)
                self._ask_quota(totals, after)
                self._ask_map(txn, change)
            except Exception as err:  # a refusal, or a batch that cannot be encoded: that batch's affair alone
                ends.append(to_ours(err, WRITE))
                continue
            try:
                change.apply()
            except lmdb.Error:
                if len(jobs) > 1:
                    return None
                raise
            totals = after
            ends.append(None)
        write_totals(txn, totals)
        return ends

    def _ask_quota(self, totals: Totals, after: Totals) -> None:
        if self._quota_bytes and after.used_bytes > max(self._quota_bytes, totals.used_bytes):
            raise StoreFullError(
                f"the store's quota of {self._quota_bytes} bytes is full",
                hint="delete sessions, or raise the quota",
                used_bytes=totals.used_bytes,
                quota_bytes=self._quota_bytes,
                needed_bytes=after.used_bytes - totals.used_bytes,
            )

    def _ask_map(self, txn: lmdb.Transaction[memoryview], change: Change) -> None:
        if change.added_bytes > 0 and change.written_bytes > self._env.room_bytes(txn):
            raise StoreFullError(
                "the store's map is full",
                hint="delete sessions, or allow more address space",
                map_bytes=self._env.map_bytes,
            )

    def _failure(self, err: Exception, doing: str, size_bytes: int) -> TrimtabError:
        """What to tell of a transaction that failed."""
        if isinstance(err, lmdb.Error) and err.code == EIO and self._env.is_full(2 * size_bytes + ROOM_BYTES):
            return StoreFullError(f"could not {doing}: the disk is full", hint="free space; no restart is needed", errno=EIO)
        return to_ours(err, doing)

    def _remove(self, job: RemoveJob) -> None:
        """Take a session out of sight in one transaction, with all it holds when that is little; the rest follows soon."""
        if not job.future.set_running_or_notify_cancel():
            return
        try:
            name = name_key(job.key.scope, job.key.session_id)
            try:
                handle, done = self._remove_now(name, self._purge_keys)
            except (lmdb.Error, OSError) as err:
                if not isinstance(self._failure(err, REMOVE, 0), StoreFullError):
                    raise
                self._env.reserve.spend()
                handle, done = self._remove_now(name, 0)
        except Exception as err:
            job.future.set_exception(self._failure(err, REMOVE, 0))
            return
        if not done:
            self._doomed.append(handle)
            self._purge_at = 0.0
        job.future.set_result(handle != 0)

    def _remove_now(self, name: bytes, key_count: int) -> tuple[int, bool]:
        """Handle of the session, 0 for none, and whether all of it is gone."""
        with self._env.write() as txn:
            handle = remove_session(txn, name) or 0
            done = handle == 0 or purge_some(txn, handle, key_count)
            failpoints.hit("before_commit")
            txn.commit()
        failpoints.hit("after_commit")
        return handle, done

    def _purge(self, handle: int) -> None:
        """Remove some more of a session that is out of sight."""
        failpoints.hit("before_purge")
        with self._env.write() as txn:
            done = purge_some(txn, handle, max(1, self._purge_keys))
            failpoints.hit("within_purge")
        failpoints.hit("after_purge")
        self._purge_keys = min(PURGE_KEYS, self._purge_keys * 2 + 1)
        if done:
            self._doomed.remove(handle)


def _nothing() -> None:
    """Body of a thread that is only there to be joined."""


def _size(batch: Batch) -> int:
    """About what a batch holds in memory."""
    size = sum(len(item.raw) for item in batch.items) + sum(len(receipt.result) for receipt in batch.receipts)
    size += sum(len(offload.replacement) for offload in batch.offloads) + sum(len(plan) for _, plan in batch.plans)
    size += sum(len(checkpoint.summary) for checkpoint in batch.checkpoints) + sum(len(one.detail) for one in batch.requests)
    if batch.envelope is not None:
        size += len(batch.envelope.rest) + sum(map(len, batch.envelope.system)) + sum(map(len, batch.envelope.tools))
    return size
