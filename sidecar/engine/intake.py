"""A body taken in: read, matched with what the session knows, grouped into units. Changes nothing.

What is byte-equal to the body before, at its front, is taken over: it is not read, digested, matched or grouped again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple
from zlib import crc32

from fastpath import Item, ItemFlag, Part, Role, Scan, canon, common_prefix, strings, strip_markers
from sidecar.core.branch import Ranges, extend_ranges
from sidecar.core.match import Alignment, Matched, align
from sidecar.core.summary import LABEL
from sidecar.core.types import ItemMeta, JournalItem
from sidecar.core.unfold import Known as Checkpoints
from sidecar.core.unfold import unfold
from sidecar.core.units import Grouped, Unit, group_units
from sidecar.engine.reading import Reading, read_body
from sidecar.engine.session import Opened, Seen, Session
from sidecar.engine.tools import Tools
from sidecar.formats.base import Adapter, Violation
from sidecar.ports import Store

__all__ = ["LARGE_BYTES", "Intake", "take_in"]

LARGE_BYTES = 16 * 1024
"""String values from this size on are stored once per session, by digest."""

_LABEL = LABEL.encode()
_MARKED = int(ItemFlag.MARKED)  # a member of a Flag is slow to ask
_QUOTE = ord('"')


class Intake(NamedTuple):
    """One body, understood."""

    adapter: Adapter
    reading: Reading
    tools: Tools
    known: Seen | None  # the body before, where what was understood of it holds
    same_count: int  # leading items that are byte-equal in both, with the same matches
    alignment: Alignment
    numbers: list[int]  # of every item; those that are new have the next ones
    ranges: Ranges  # the same, folded
    raw_bytes: int  # of all these items, as journaled
    new_items: list[JournalItem]
    new_at: list[int]  # their indices in the body
    rewritten_count: int
    grouped: Grouped
    raws: dict[int, bytes]  # by number: raw bytes at hand
    arrived: Reading  # the body as it came; another than `reading` where summaries in it were unfolded
    markers: Mapping[str, bytes]  # by checkpoint: cache marker of its summary in that body
    displaced: int  # summaries of ours in it that stand elsewhere: text

    @property
    def body(self) -> bytes:
        """With all raw items: as it came, or unfolded."""
        return self.reading.scan.body

    @property
    def scan(self) -> Scan:
        """Of the body."""
        return self.reading.scan

    @property
    def items(self) -> list[Item]:
        """Of the body."""
        return self.reading.items

    @property
    def parts(self) -> list[Part]:
        """Of the body."""
        return self.reading.parts

    @property
    def units(self) -> list[Unit]:
        """Of the body, oldest first."""
        return self.grouped.units

    @property
    def violations(self) -> list[Violation]:
        """Structural rules that the body breaks."""
        return self.reading.judged.violations

    def matches_again(self) -> list[Matched]:
        """What each item will match with when it comes again as it is."""
        matches = list(self.alignment.items)
        for at in self.new_at:
            matches[at] = Matched(self.numbers[at], 0)
        return matches


def _canon(adapter: Adapter, body: bytes, item: Item) -> tuple[bytes, bytes | None]:
    """Canonical forms of an item of a body, in whatever form it came."""
    if body[item.start] == _QUOTE:
        alone = adapter.listed(body[item.start : item.end])
        return canon(alone, 0, len(alone), adapter.grammar)
    return canon(body, item.start, item.end, adapter.grammar)


def _digests(scanned: Scan, adapter: Adapter, item: Item) -> tuple[bytes, bytes]:
    strict, loose = _canon(adapter, scanned.body, item)
    return sha256(strict).digest(), b"" if loose is None else sha256(loose).digest()


def large_spans(raw: bytes) -> tuple[tuple[int, int], ...]:
    """Spans of large string values of an item, between their quotes."""
    if len(raw) <= LARGE_BYTES:
        return ()
    return tuple((start + 1, end - 1) for start, end, _ in strings(raw, 0, len(raw), LARGE_BYTES))


def take_in(session: Session, adapter: Adapter, body: bytes, branch: Sequence[int], store: Store) -> Intake:
    """Read a body and match it with a session.

    Args:
        session: locked; not changed.
        adapter: of the body's dialect.
        body: as it came.
        branch: numbers to match with: the session's, or none when the dialect changes.
        store: raw items that summaries in the body cover.
    """
    seen = session.seen if session.seen is not None and session.seen.reading.scan.grammar is adapter.grammar else None
    labelled = bool(session.checkpoints) and _labelled(session, body)
    if labelled:
        arrived, opened = _open(session, adapter, body, branch, store)
    else:
        arrived, opened = read_body(body, adapter, None if seen is None else seen.reading), None
    reading = arrived
    if labelled:  # as it came it was read on from another body than that which is known
        unfolded = body if opened is None else opened.unfolded
        reading = read_body(unfolded, adapter, None if seen is None else seen.reading)
    scanned, items, parts = reading.scan, reading.items, reading.parts
    # What was understood holds as long as no other call changed the session, and the branch is that body's.
    known = seen if seen is not None and seen.revision == session.head.revision and branch is session.branch else None
    reused = 0 if known is None else reading.reused
    taken = [] if known is None else known.matches[:reused]
    digests: dict[int, tuple[bytes, bytes]] = {}

    def digest_of(index: int) -> tuple[bytes, bytes]:
        found = digests.get(index)
        if found is None:
            found = digests[index] = _digests(scanned, adapter, items[index])
        return found

    def renewed(index: int, number: int) -> bool:
        return items[index].role == Role.SYSTEM == session.metas[number].role

    def own(number: int) -> bool:
        return session.metas[number].format == adapter.format

    alignment = align(session.known, branch, len(items), digest_of, taken, own, renewed, session.closing)
    numbers = [] if known is None else known.numbers[:reused]
    new_items: list[JournalItem] = []
    new_at: list[int] = []
    raws: dict[int, bytes] = {}
    rewritten = 0
    raw_bytes = 0 if known is None else known.raw_bytes - sum(session.metas[n].size_bytes for n in known.numbers[reused:])
    for index in range(reused, len(items)):
        match, item = alignment.items[index], items[index]
        if match.number >= 0:
            numbers.append(match.number)
            raw_bytes += session.metas[match.number].size_bytes
            rewritten += _rewritten(session, adapter, scanned, item, index, match)
            continue
        number = len(session.metas) + len(new_items)
        raw = _raw(scanned, adapter, item)
        strict, loose = digest_of(index)
        meta = ItemMeta(number, strict, loose, crc32(raw), len(raw), role=item.role, format=adapter.format)
        new_items.append(JournalItem(meta, raw, large_spans(raw)))
        new_at.append(index)
        raws[number] = raw
        raw_bytes += len(raw)
        numbers.append(number)
    return Intake(
        adapter=adapter,
        reading=reading,
        tools=Tools(adapter, scanned) if seen is None else seen.tools.of(adapter, scanned),
        known=known,
        same_count=reused,
        alignment=alignment,
        numbers=numbers,
        ranges=extend_ranges(() if known is None else known.ranges, reused, numbers[reused:]),
        raw_bytes=raw_bytes,
        new_items=new_items,
        new_at=new_at,
        rewritten_count=rewritten,
        grouped=group_units(items, parts, reading.decode, None if known is None else known.grouped, reading.since),
        raws=raws,
        arrived=arrived,
        markers={} if opened is None else opened.markers,
        displaced=0 if opened is None else opened.displaced,
    )


def _labelled(session: Session, body: bytes) -> bool:
    """Something in the body begins as our summaries do. A front known to hold nothing like it is not searched again."""
    plain = session.unlabelled
    start = 0 if plain is None else max(common_prefix(body, plain) - len(_LABEL), 0)
    found = body.find(_LABEL, start) >= 0
    session.unlabelled = None if found else body
    return found


def _open(session: Session, adapter: Adapter, body: bytes, branch: Sequence[int], store: Store) -> tuple[Reading, Opened | None]:
    """Read a body as it came, and unfold the summaries in it. None: there are none."""
    arrived = read_body(body, adapter, session.sent)
    before = session.opened
    again = before is not None and before.revision == session.head.revision and body.startswith(before.front)
    if before is not None and again and body.find(_LABEL, len(before.front)) < 0:
        return arrived, before._replace(unfolded=before.unfolded + body[len(before.front) :])

    def is_form(number: int, strict: bytes, loose: bytes) -> bool:
        return strict in session.known.forms[number] or (loose or strict) in session.known.loose[number]

    known = Checkpoints(
        session.checkpoints,
        branch,
        len(session.metas),
        is_form,
        lambda number: session.raw(store, number),
        lambda number: session.metas[number].role,
    )
    found = unfold(adapter, body, arrived.items, arrived.parts, arrived.decode, known)
    if found is None:
        return arrived, None
    opened = Opened(body, found.body, found.markers, found.displaced, session.head.revision)
    if found.end and not found.displaced:
        behind = len(body) - found.end
        session.opened = opened._replace(front=body[: found.end], unfolded=found.body[: len(found.body) - behind])
    return arrived, opened


def _raw(scanned: Scan, adapter: Adapter, item: Item) -> bytes:
    if item.flags & _MARKED:
        return strip_markers(scanned.body, item.start, item.end, adapter.grammar)
    return adapter.listed(scanned.body[item.start : item.end])


def _rewritten(session: Session, adapter: Adapter, scanned: Scan, item: Item, index: int, match: Matched) -> bool:
    """A known item that came in other bytes than it did before, cache markers apart."""
    before = None if session.sent is None else session.sent.scan
    places = session.sent_places
    place = index if places is None else places[index] if index < len(places) else -1
    if before is not None and 0 <= place < before.item_count:
        other = before.item(place)
        if before.body[other.start : other.end] == scanned.body[item.start : item.end]:
            return False
    if match.record_count:
        return before is not None
    raw = _raw(scanned, adapter, item)
    meta = session.metas[match.number]
    return len(raw) != meta.size_bytes or crc32(raw) != meta.crc
