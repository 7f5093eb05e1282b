"""A session's structure: what refers to what, and whether it is there. The first half of `check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import TypeVar

import lmdb

from sidecar.core.compaction import AttemptState, CheckpointRecord, RequestRecord, RollbackRecord
from sidecar.core.types import (
    ArtifactRecord,
    ArtifactSource,
    CallKey,
    ItemMeta,
    Offload,
    PinKey,
    ReceiptRecord,
    SentForm,
)
from store import codec
from store.attempts import attempt_name, has_ended
from store.blobs import piece_count
from store.codec import AttemptEntry, DamageError, EnvelopeRecord, HeadRecord, NewerError, unseal
from store.journal import parse_chunk
from store.layout import Family, number_in, session_prefix, stored_bytes
from store.records import index_bytes, stored_in
from store.walk import scan

__all__ = ["Structure", "read_structure"]

SHA256_BYTES = 32

T = TypeVar("T")


class Structure:
    """What was found of one session.

    Attributes:
        findings: (level, what, where).
        items: metas, as far as they could be read.
        artifacts: records, as far as they could be read.
        large: large values by digest, with the size that items give them; only those that are all there.
        plans: names of attempts whose summary request is all there.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.findings: list[tuple[str, str, str]] = []
        self.items: list[ItemMeta] = []
        self.artifacts: list[ArtifactRecord] = []
        self.large: dict[bytes, int] = {}
        self.plans: list[bytes] = []
        self.head: HeadRecord | None = None
        self.envelope: EnvelopeRecord | None = None
        self.forms: list[SentForm] = []
        self.offloads: list[Offload] = []
        self.receipts: list[ReceiptRecord] = []
        self.sources: list[ArtifactSource] = []
        self.checkpoints: list[CheckpointRecord] = []
        self.rollbacks: list[RollbackRecord] = []
        self.requests: list[RequestRecord] = []
        self.attempts: dict[bytes, AttemptEntry] = {}  # by what names it in its key
        self.pins: tuple[PinKey, ...] = ()
        self.sizes: dict[int, int] = {}  # of items, as their chunks give them
        self.holes: dict[bytes, int] = {}
        self.pieces: dict[Family, Counter[bytes]] = {Family.LARGE: Counter(), Family.PART: Counter(), Family.PLAN: Counter()}
        self.stored = 0
        self.intact = True  # every value could be read: only then is a missing reference told as such

    def error(self, what: str, where: str = "") -> None:
        """Note a finding."""
        self.findings.append(("error", what, where))

    def warning(self, what: str, where: str) -> None:
        """Note something that is out of reach."""
        self.findings.append(("warning", what, where))


def read_structure(txn: lmdb.Transaction[memoryview], name: bytes, handle: int) -> Structure:
    """Read all of a session but its large values and the parts of its envelope, and compare. Raises lmdb.Error only."""
    found = Structure()
    found.stored = index_bytes(name)
    prefix = session_prefix(handle)
    for key, value in scan(txn, prefix):
        found.stored += stored_bytes(len(key), len(value))
        try:
            _read(found, key, value)
        except (DamageError, NewerError, ValueError) as err:
            found.intact = False
            found.error(str(err), _place(key, len(prefix)))
    if found.head is None:
        found.error("the session's head is missing or damaged")
        return found
    _compare(found, found.head, name)
    return found


def _place(key: bytes, at: int) -> str:
    family = Family(key[at]).name.lower() if key[at] in set(Family) else f"family {key[at]}"
    rest = key[at + 1 :]
    return f"{family} {number_in(key) if len(rest) == 8 else rest.hex()[:16]}".rstrip()


def _read(found: Structure, key: bytes, value: memoryview) -> None:
    """File one value."""
    family = Family(key[9])
    if family in found.pieces:
        found.pieces[family][key[10 : 10 + SHA256_BYTES]] += 1
    elif family is Family.CHUNK:
        chunk = parse_chunk(key, value)
        for place, item in enumerate(chunk.items):
            found.sizes[chunk.first_number + place] = item.skeleton_bytes + sum(hole.size_bytes for hole in item.holes)
            found.holes.update((hole.sha256, hole.size_bytes) for hole in item.holes)
    else:
        payload = unseal(key, value)
        if family is Family.HEAD:
            found.head = codec.HEAD.decode(payload)
        elif family is Family.ANCHORS:
            codec.ANCHORS.decode(payload)
        elif family is Family.PINS:
            found.pins = codec.PINS.decode(payload)
        elif family is Family.ENVELOPE:
            found.envelope = codec.ENVELOPE.decode(payload)
        elif family is Family.DELTA:
            delta = codec.DELTA.decode(payload)
            found.items += delta.items
            found.forms += delta.forms
            found.offloads += delta.offloads
            found.receipts += delta.receipts
            found.checkpoints += delta.checkpoints
            found.rollbacks += delta.rollbacks
            found.requests += delta.requests
        elif family is Family.ATTEMPT:
            found.attempts[key[10:]] = codec.ATTEMPT.decode(payload)
        elif family is Family.ARTIFACT:
            found.artifacts.append(codec.ARTIFACT.decode(payload))
        elif family is Family.SOURCE:
            found.sources += codec.SOURCES.decode(payload)


def _compare(found: Structure, head: HeadRecord, name: bytes) -> None:
    """What the parts say of each other."""
    count = head.next_number
    if head.index_key != name:
        found.error("the session's head belongs to another name")
    if stored_in(head) != found.stored:
        found.error(f"the session takes {found.stored} bytes, {stored_in(head)} are counted")
    if not found.intact:
        return
    if [meta.number for meta in found.items] != list(range(count)):
        found.error(f"the list of items does not go from 0 to {count}")
    if sorted(found.sizes) != list(range(count)):
        found.error(f"the journal does not hold items 0 to {count}")
    if len(found.sources) != head.next_source:
        found.error(f"there are {len(found.sources)} artifact sources, {head.next_source} are counted")
    if len(found.artifacts) != head.artifact_count:
        found.error(f"there are {len(found.artifacts)} artifacts, {head.artifact_count} are counted")
    for start, end in head.head.branch:
        if not 0 <= start < end <= count:
            found.error(f"the branch holds [{start}, {end}) of {count} items", "branch")
    found.large = _compare_blobs(found, Family.LARGE, found.holes)
    _compare_envelope(found, head)
    _compare_attempts(found, head)
    _compare_references(found, count)
    _compare_compaction(found, head)


def _compare_blobs(found: Structure, family: Family, wanted: dict[bytes, int]) -> dict[bytes, int]:
    """Values that are referred to and not there, and the other way round. Those that are well."""
    there = found.pieces[family]
    well = {digest: size for digest, size in wanted.items() if there[digest] == piece_count(size)}
    for digest in wanted.keys() - well.keys():
        found.error("a value that is referred to is missing, or a piece of it", f"{family.name.lower()} {digest.hex()[:16]}")
    for digest in there.keys() - wanted.keys():
        found.warning("a value that nothing refers to", f"{family.name.lower()} {digest.hex()[:16]}")
    return well


def _compare_envelope(found: Structure, head: HeadRecord) -> None:
    envelope = found.envelope
    wanted = {} if envelope is None else dict((envelope.rest, *envelope.system, *envelope.tools))
    _compare_blobs(found, Family.PART, wanted)
    if head.envelope_digest != (b"" if envelope is None else envelope.digest):
        found.error("head and envelope name different envelopes", "envelope")


def _compare_attempts(found: Structure, head: HeadRecord) -> None:
    """Places, names, ends, and the summary requests of those that are open."""
    entries = found.attempts
    if sorted(entry.place for entry in entries.values()) != list(range(head.attempt_count)):
        found.error(f"there are {len(entries)} attempts, {head.attempt_count} are counted")
    for name, entry in entries.items():
        where = f"attempt {entry.place}"
        if attempt_name(entry.record.attempt_id) != name and "\ufffd" not in entry.record.attempt_id:
            found.error("an attempt stands under another's name", where)
        if has_ended(entry.record) and entry.plan is not None:
            found.error("an attempt that has ended has its summary request yet", where)
        if entry.record.has_plan and entry.plan is None and not has_ended(entry.record):
            found.error("an open attempt has lost its summary request", where)
    wanted = {name: entry.plan[0] for name, entry in entries.items() if entry.plan is not None}
    found.plans = list(_compare_blobs(found, Family.PLAN, wanted))


def _compare_compaction(found: Structure, head: HeadRecord) -> None:
    """What checkpoints and rollbacks name is there, and no record is of a revision that was not given out."""
    count, last = head.next_number, head.head.revision
    attempts = {entry.record.attempt_id: entry.record for entry in found.attempts.values()}
    artifacts = {record.artifact_id for record in found.artifacts}
    committed: set[str] = set()
    for place, one in enumerate(found.checkpoints):
        ranges = (*one.gone, *((trim.number, trim.number + 1) for trim in one.trims))
        attempt = attempts.get(one.attempt_id)
        whole = (
            one.checkpoint_id not in committed
            and all(0 <= start < end <= count for start, end in ranges)
            and one.after < count
            and all(0 <= number < count for number in one.pointers)
            and all(_is_call(call, count) for call in one.calls)
            and artifacts.issuperset(one.artifact_ids)
            and committed.issuperset(one.superseded)
            and (not one.attempt_id or (attempt is not None and attempt.state is AttemptState.COMMITTED))
            and one.base_revision < one.revision <= last
        )
        if not whole:
            found.error("a record refers to what is not there", f"checkpoint {place}")
        elif not one.trims and one.items_sha256 != _covered_sha256(found, one):
            found.error("a checkpoint covers items that are not those it was made of", f"checkpoint {place}")
        committed.add(one.checkpoint_id)
    if head.head.checkpoint_count > len(committed):
        found.error(f"{head.head.checkpoint_count} checkpoints are counted as live, there are {len(committed)}")
    _all(found, "rollback", found.rollbacks, lambda one: committed.issuperset(one.checkpoint_ids) and one.revision <= last)
    _all(found, "request", found.requests, lambda one: one.revision <= last)
    _all(
        found,
        "attempt",
        [entry.record for entry in found.attempts.values()],
        lambda one: (
            all(0 <= start < end <= count for start, end in one.numbers)
            and (not one.checkpoint_id or one.state is not AttemptState.COMMITTED or one.checkpoint_id in committed)
        ),
    )


def _covered_sha256(found: Structure, record: CheckpointRecord) -> bytes:
    """Over the digests of the items that left whole. Where trimmed ones stood among them, a record does not say."""
    digest = sha256()
    for start, end in record.gone:
        for number in range(start, end):
            digest.update(found.items[number].digest)
    return digest.digest()


def _compare_references(found: Structure, count: int) -> None:
    """Numbers, artifacts and record counts that records name."""
    ids = {record.artifact_id for record in found.artifacts}
    for record in found.artifacts:
        if not 0 <= record.start <= record.end <= found.sizes.get(record.number, -1):
            found.error("an artifact's span is outside its item", f"artifact {record.artifact_id}")
    placed = {one.artifact_id for one in found.sources}
    for record in found.artifacts:
        if record.artifact_id not in placed:
            found.warning("an artifact that no place names", f"artifact {record.artifact_id}")
    _all(found, "offload", found.offloads, lambda one: one.number < count and (not one.artifact_id or one.artifact_id in ids))
    _all(found, "artifact source", found.sources, lambda one: one.number < count and one.artifact_id in ids)
    records = Counter(offload.number for offload in found.offloads)
    _all(found, "sent form", found.forms, lambda one: one.number < count and one.record_count <= records[one.number])
    _all(found, "receipt", found.receipts, lambda one: _is_call(one.call, count))
    _all(found, "pin", found.pins, lambda one: one.call is None or _is_call(one.call, count))


def _is_call(call: CallKey, count: int) -> bool:
    return 0 <= call.number < count


def _all(found: Structure, kind: str, records: Iterable[T], holds: Callable[[T], bool]) -> None:
    for place, record in enumerate(records):
        if not holds(record):
            found.error("a record refers to what is not there", f"{kind} {place}")
