"""A session in memory: what is durable, plus what is queued to become so.

Memory never runs ahead of what a reply says: a revision is told only after its batch was flushed. When a queued batch fails,
the whole session is dropped and loaded again from the store, which is the only truth.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from hashlib import sha256
from typing import NamedTuple

from sidecar.core.branch import Ranges, from_ranges
from sidecar.core.checkpoints import live_checkpoints
from sidecar.core.compaction import AttemptRecord, CheckpointRecord, RequestRecord, RollbackRecord
from sidecar.core.errors import TrimtabError
from sidecar.core.match import Known, Matched
from sidecar.core.projection import Projection
from sidecar.core.retirable import Sums
from sidecar.core.tokens import Ratio
from sidecar.core.types import (
    Anchors,
    ItemMeta,
    JournalItem,
    Offload,
    PinKey,
    ReceiptRecord,
    ReductionKind,
    SentForm,
    SessionKey,
    UsageFigures,
)
from sidecar.core.units import Grouped
from sidecar.engine.messages import FitInput, FitResult
from sidecar.engine.reading import ROW_BYTES, Reading
from sidecar.engine.tools import Tools
from sidecar.ports import SessionHead, SessionImage, Store

__all__ = ["Again", "Opened", "Seen", "Session", "SessionCache"]

ITEM_OVERHEAD_BYTES = 1000
"""Memory of one known item beside bodies: its meta and its digests in the tables. tracemalloc gives 987 for 10,000 items."""
RECORD_OVERHEAD_BYTES = 850
"""The same of a record, with its stub and the artifact's id. tracemalloc gives 820 for 1,660 stubs, after a load."""
RECEIPT_OVERHEAD_BYTES = 700  # beside its result


class Seen(NamedTuple):
    """The body that came last, as it was understood. Nothing in it is mutated."""

    reading: Reading
    tools: Tools
    matches: list[Matched]  # as its items would match if they came again
    numbers: list[int]
    ranges: Ranges  # the same, folded
    raw_bytes: int  # of these items, as journaled
    grouped: Grouped
    sums: Sums | None
    projection: Projection
    proven: bool  # the body answered for it held the contract with the projection's edits alone
    revision: int  # of the session, when it was understood: what was changed since by another call is not in here
    markers: Mapping[str, bytes]  # by checkpoint: cache marker of its summary in the body as it came


class Opened(NamedTuple):
    """The front of an adopted body as it was unfolded, so that it need not be done again."""

    front: bytes  # as it came
    unfolded: bytes
    markers: Mapping[str, bytes]
    displaced: int
    revision: int


class Again(NamedTuple):
    """A call that changed nothing, and its answer: the same call gets the same answer while the session is as it was."""

    given: FitInput
    result: FitResult
    head: SessionHead  # by identity: whatever changes a session gives it a new one


class Session:
    """One agent run. Every field is read and written under `lock`."""

    def __init__(self, key: SessionKey, image: SessionImage | None) -> None:
        """From what is durable; None begins a new one."""
        self.key = key
        self.lock = threading.Lock()
        self.exists = image is not None
        self.head = image.head if image is not None else SessionHead()
        self.known = Known()
        self.metas: list[ItemMeta] = []
        self.records: dict[int, list[Offload]] = {}
        self.record_count = 0
        self.anchors = image.anchors if image is not None else Anchors()
        self.receipts: dict[tuple[int, int], ReceiptRecord] = {}
        self.receipt_bytes = 0  # of the results in these
        self.pins: list[PinKey] = list(image.pins) if image is not None else []
        self.artifact_ids: set[str] = set(image.artifact_ids) if image is not None else set()
        self.envelope_digest = image.envelope_digest if image is not None else b""
        self.branch: list[int] = []
        self.chain: list[bytes] = []  # history digest after each item of the branch
        self.pending_raw: dict[int, bytes] = {}
        self.pending: list[tuple[Future[None], int]] = []  # with the next number after each
        self.seen: Seen | None = None
        self.again: Again | None = None
        self.sent: Reading | None = None  # body answered last
        self.sent_places: list[int] | None = None  # by raw item: its place in that body; None: each at its own
        self.opened: Opened | None = None
        self.unlabelled: bytes | None = None  # a body without anything that looks like a summary
        self.checkpoints: list[CheckpointRecord] = list(image.checkpoints) if image is not None else []
        self.rollbacks: list[RollbackRecord] = list(image.rollbacks) if image is not None else []
        self.attempts: dict[str, AttemptRecord] = {}
        self.requests: dict[str, RequestRecord] = {}
        self.live: list[CheckpointRecord] = []  # of the checkpoints
        self.reasoning_left = False  # some record leaves reasoning out
        self.closing: set[int] = set()  # numbers of items that only close what a crash interrupted
        self.closed: dict[tuple[int, int], tuple[bytes, ...]] = {}  # calls that were closed after a crash: results that say so
        self.trouble: TrimtabError | None = None  # why a queued batch failed
        self.ratio = Ratio()
        self.usage: UsageFigures | None = None
        self.last_ms = self.head.update_ms
        if image is not None:
            for meta in image.items:
                self.add_meta(meta)
            for form in image.forms:
                self.known.add_form(form.number, form.record_count, form.digest, form.loose)
            for record in image.offloads:
                self.add_record(record)
            for receipt in image.receipts:
                self.add_receipt(receipt)
            self.set_branch(from_ranges(self.head.branch))
            self.attempts = {attempt.attempt_id: attempt for attempt in image.attempts}
            self.requests = {request.request_id: request for request in image.requests}
            self.refresh_live()

    def add_meta(self, meta: ItemMeta) -> None:
        """A raw item, in order of numbers."""
        self.known.add_item(meta.digest, meta.loose)
        self.metas.append(meta)
        if meta.closing:
            self.closing.add(meta.number)

    def add_receipt(self, receipt: ReceiptRecord) -> None:
        """A receipt, in order of commit."""
        key = (receipt.call.number, receipt.call.call_index)
        older = self.receipts.get(key)
        self.receipt_bytes += len(receipt.result) - (0 if older is None else len(older.result))
        self.receipts[key] = receipt
        if receipt.closing:
            self.closed[key] = (*self.closed.get(key, ()), receipt.result)

    def add_record(self, record: Offload) -> None:
        """A record, in order of commit."""
        self.records.setdefault(record.number, []).append(record)
        self.record_count += 1
        self.reasoning_left = self.reasoning_left or record.kind is ReductionKind.REASONING

    def refresh_live(self) -> None:
        """Checkpoints or rollbacks have changed."""
        self.live = live_checkpoints(self.checkpoints, self.rollbacks)

    @property
    def shape(self) -> int:
        """Grows with each record that shapes a projection."""
        return self.record_count + len(self.checkpoints) + len(self.rollbacks)

    def set_branch(self, numbers: list[int], same_count: int = 0) -> None:
        """The current branch; what stays of it keeps its history digests. `same_count` leading numbers are known to stay.

        The list is kept as it is: nobody changes it.
        """
        same = self._same(numbers, same_count)
        del self.chain[same:]
        link = self.chain[-1] if self.chain else b""
        for number in numbers[same:]:
            link = sha256(link + self.metas[number].digest).digest()
            self.chain.append(link)
        self.branch = numbers

    def chain_of(self, numbers: Sequence[int], digest_of: Callable[[int], bytes], same_count: int = 0) -> bytes:
        """History digest of items: equal for equal histories. The front that it shares with the branch is not hashed again."""
        same = self._same(numbers, same_count)
        link = self.chain[same - 1] if same else b""
        for number in numbers[same:]:
            link = sha256(link + digest_of(number)).digest()
        return link

    def _same(self, numbers: Sequence[int], same: int) -> int:
        """Leading numbers that are the branch's, from `same` of which that is known."""
        end = min(len(self.branch), len(numbers))
        while same < end and self.branch[same] == numbers[same]:
            same += 1
        return same

    def raw(self, store: Store, number: int) -> bytes:
        """Raw bytes of an item, durable or queued."""
        queued = self.pending_raw.get(number)
        return store.read_item(self.key, number) if queued is None else queued

    def settle_writes(self) -> bool:
        """Forget queued batches that are flushed. False when one failed: the session must be dropped."""
        while self.pending and self.pending[0][0].done():
            future, next_number = self.pending[0]
            failure = future.exception()
            if failure is not None:
                self.trouble = failure if isinstance(failure, TrimtabError) else None
                return False
            self.pending.pop(0)
            for number in [number for number in self.pending_raw if number < next_number]:
                del self.pending_raw[number]
        return True

    def flushed(self) -> bool:
        """Nothing of this session waits to be written."""
        return self.settle_writes() and not self.pending

    def queue(self, future: Future[None], items: Sequence[JournalItem]) -> None:
        """A batch is on its way."""
        for item in items:
            self.pending_raw[item.meta.number] = item.raw
        self.pending.append((future, len(self.metas)))

    def memory_bytes(self) -> int:
        """About what it takes in memory."""
        sent, seen = self.sent, None if self.seen is None else self.seen.reading
        bodies = 0 if sent is None else len(sent.scan.body) + sent.row_count * ROW_BYTES
        if seen is not None and seen is not sent:
            bodies += len(seen.scan.body) + seen.row_count * ROW_BYTES
        if self.opened is not None:
            bodies += len(self.opened.front) + len(self.opened.unfolded)
        known = len(self.metas) * ITEM_OVERHEAD_BYTES + self.record_count * RECORD_OVERHEAD_BYTES
        known += len(self.receipts) * RECEIPT_OVERHEAD_BYTES + self.receipt_bytes
        known += sum(len(each.summary) for each in self.checkpoints) + sum(len(each.detail) for each in self.requests.values())
        return bodies + known + sum(map(len, self.pending_raw.values())) + 4096


def form_of(number: int, record_count: int, strict: bytes, loose: bytes | None) -> SentForm:
    """A sent form from canonical bytes."""
    return SentForm(number, record_count, sha256(strict).digest(), b"" if loose is None else sha256(loose).digest())


class SessionCache:
    """Sessions in memory, bounded by bytes, least recently used out first. One in use is never dropped from under its user."""

    def __init__(self, store: Store, limit_bytes: int, on_load: Callable[[Session], None] = lambda session: None) -> None:
        """Empty. `on_load` is told of each session that was read from the store, before anybody gets it."""
        self._store = store
        self._on_load = on_load
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._sessions: OrderedDict[SessionKey, Session] = OrderedDict()
        self._sizes: dict[SessionKey, int] = {}
        self._total_bytes = 0  # of these
        self._forgotten = 0  # sessions deleted so far

    def get(self, key: SessionKey) -> Session:
        """The session, loaded when it is not in memory; a new one, not yet durable, when there is none."""
        while True:
            with self._lock:
                session = self._sessions.get(key)
                if session is not None:
                    self._sessions.move_to_end(key)
                    return session
                forgotten = self._forgotten
            loaded = Session(key, self._store.load(key))
            self._on_load(loaded)
            with self._lock:
                if forgotten != self._forgotten:
                    continue  # a session was deleted meanwhile, this one perhaps
                session = self._sessions.setdefault(key, loaded)
                self._sessions.move_to_end(key)
                return session

    def claim(self, key: SessionKey) -> Session:
        """The session whose lock whoever uses this key meanwhile waits for: that in memory, else an empty one in its place.

        For a deletion, which needs nothing of what is durable; it must `forget` the key before it lets go of the lock.
        """
        with self._lock:
            return self._sessions.setdefault(key, Session(key, None))

    def held(self, key: SessionKey | None = None) -> list[Session]:
        """The session of that key when it is in memory; all that are, without a key. Loads none."""
        with self._lock:
            if key is None:
                return list(self._sessions.values())
            session = self._sessions.get(key)
            return [] if session is None else [session]

    def current(self, session: Session) -> bool:
        """It was not dropped since it was got."""
        with self._lock:
            return self._sessions.get(session.key) is session

    def drop(self, session: Session) -> None:
        """Forget what memory holds of it; the next call loads it anew. Queued writes go on."""
        with self._lock:
            if self._sessions.get(session.key) is session:
                del self._sessions[session.key]
                self._total_bytes -= self._sizes.pop(session.key, 0)

    def forget(self, key: SessionKey) -> None:
        """As `drop`, by key: the session was deleted."""
        with self._lock:
            self._forgotten += 1
            self._sessions.pop(key, None)
            self._total_bytes -= self._sizes.pop(key, 0)

    def note_size(self, session: Session) -> None:
        """Called after a use, under the session's lock: evicts others until all fit."""
        with self._lock:
            if self._sessions.get(session.key) is not session:
                return
            size = session.memory_bytes()
            self._total_bytes += size - self._sizes.get(session.key, 0)
            self._sizes[session.key] = size
            for key in list(self._sessions) if self._total_bytes > self._limit_bytes else ():
                if self._total_bytes <= self._limit_bytes:
                    return
                other = self._sessions[key]
                if other is session or not other.lock.acquire(blocking=False):
                    continue
                try:
                    if other.settle_writes() and other.pending:
                        continue
                    self._total_bytes -= self._sizes.pop(key, 0)
                    del self._sessions[key]
                finally:
                    other.lock.release()

    def stats(self) -> tuple[int, int]:
        """Sessions in memory, and their bytes."""
        with self._lock:
            return len(self._sessions), self._total_bytes
