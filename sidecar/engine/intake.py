"""A body taken in: read, matched with what the session knows, grouped into units. Changes nothing.

What is byte-equal to the body before, at its front, is taken over: it is not read, digested or matched again.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple
from zlib import crc32

from fastpath import Item, ItemFlag, MalformedError, Part, Role, Scan, canon, decode_string, scan, strings, strip_markers
from sidecar.core.errors import MalformedBodyError
from sidecar.core.match import Alignment, Matched, align
from sidecar.core.types import ItemMeta, JournalItem
from sidecar.core.units import Unit, build_units
from sidecar.engine.session import Session
from sidecar.formats.base import Adapter, Violation

__all__ = ["LARGE_BYTES", "Intake", "scan_body", "take_in"]

LARGE_BYTES = 16 * 1024
"""String values from this size on are stored once per session, by digest."""


class Intake(NamedTuple):
    """One body, understood."""

    adapter: Adapter
    scan: Scan
    items: list[Item]
    parts: list[Part]
    alignment: Alignment
    numbers: list[int]  # of every item; those that are new have the next ones
    new_items: list[JournalItem]
    new_at: list[int]  # their indices in the body
    rewritten_count: int
    units: list[Unit]
    violations: list[Violation]
    raws: dict[int, bytes]  # by number: raw bytes at hand

    def decode(self, start: int, end: int) -> bytes:
        """Text of a string value, or any other value as it stands."""
        return decode_value(self.scan.body, start, end)


def decode_value(body: bytes, start: int, end: int) -> bytes:
    """Text of a string value, or any other value as it stands."""
    return decode_string(body[start + 1 : end - 1]) if body[start : start + 1] == b'"' else body[start:end]


def scan_body(body: bytes, adapter: Adapter, previous: Scan | None) -> Scan:
    """Read a body.

    Raises:
        MalformedBodyError: not JSON, not the dialect's shape, or over a bound; with the byte offset.
    """
    try:
        return scan(body, adapter.grammar, previous)
    except MalformedError as error:
        details: dict[str, str | int] = {"offset_bytes": error.offset_bytes}
        if error.bound:
            details["bound"] = error.bound
        raise MalformedBodyError(
            f"the body cannot be read as {adapter.name}: {error} at byte {error.offset_bytes}",
            hint="send the complete request as it goes to the provider: one JSON object with its history",
            **details,
        ) from error


def _digests(scanned: Scan, adapter: Adapter, item: Item) -> tuple[bytes, bytes]:
    strict, loose = canon(scanned.body, item.start, item.end, adapter.grammar)
    return sha256(strict).digest(), b"" if loose is None else sha256(loose).digest()


def large_spans(raw: bytes) -> tuple[tuple[int, int], ...]:
    """Spans of large string values of an item, between their quotes."""
    if len(raw) <= LARGE_BYTES:
        return ()
    return tuple((start + 1, end - 1) for start, end, _ in strings(raw, 0, len(raw), LARGE_BYTES))


def take_in(session: Session, adapter: Adapter, body: bytes, branch: Sequence[int], floor: int) -> Intake:
    """Read a body and match it with a session.

    Args:
        session: locked; not changed.
        adapter: of the body's dialect.
        body: as it came.
        branch: numbers to match with: the session's, or none when the dialect changes.
        floor: items with smaller numbers never match (they are of another dialect).
    """
    seen = session.seen if session.seen is not None and session.seen.scan.grammar is adapter.grammar else None
    scanned = scan_body(body, adapter, None if seen is None else seen.scan)
    items = scanned.items()
    parts = scanned.parts()
    reused = 0 if seen is None or floor == len(session.metas) else scanned.reused_item_count
    taken: list[Matched] = []
    if seen is not None and reused:
        # What an item of the last body was matched with or became: the branch, since that body made it.
        taken = [
            Matched(number, match.record_count if match.number >= 0 else 0)
            for number, match in zip(branch[:reused], seen.matches[:reused], strict=True)
        ]
    digests: dict[int, tuple[bytes, bytes]] = {}

    def digest_of(index: int) -> tuple[bytes, bytes]:
        found = digests.get(index)
        if found is None:
            found = digests[index] = _digests(scanned, adapter, items[index])
        return found

    def renewed(index: int, number: int) -> bool:
        return items[index].role == Role.SYSTEM == session.metas[number].role

    alignment = align(session.known, branch, len(items), digest_of, taken, floor, renewed)
    numbers: list[int] = []
    new_items: list[JournalItem] = []
    new_at: list[int] = []
    raws: dict[int, bytes] = {}
    rewritten = 0
    for index, (match, item) in enumerate(zip(alignment.items, items, strict=True)):
        if match.number >= 0:
            numbers.append(match.number)
            if index >= reused and _rewritten(session, adapter, scanned, item, index, match):
                rewritten += 1
            continue
        number = len(session.metas) + len(new_items)
        raw = _raw(scanned, adapter, item)
        strict, loose = digest_of(index)
        meta = ItemMeta(number, strict, loose, crc32(raw), len(raw), role=item.role)
        new_items.append(JournalItem(meta, raw, large_spans(raw)))
        new_at.append(index)
        raws[number] = raw
        numbers.append(number)
    units = build_units(items, parts, lambda start, end: decode_value(body, start, end))
    violations = adapter.check(scanned, (items, parts))
    return Intake(adapter, scanned, items, parts, alignment, numbers, new_items, new_at, rewritten, units, violations, raws)


def _raw(scanned: Scan, adapter: Adapter, item: Item) -> bytes:
    if item.flags & ItemFlag.MARKED:
        return strip_markers(scanned.body, item.start, item.end, adapter.grammar)
    return scanned.body[item.start : item.end]


def _rewritten(session: Session, adapter: Adapter, scanned: Scan, item: Item, index: int, match: Matched) -> bool:
    """A known item that came in other bytes than it did before, cache markers apart."""
    before = session.sent_scan
    if before is not None and index < before.item_count:
        other = before.item(index)
        if before.body[other.start : other.end] == scanned.body[item.start : item.end]:
            return False
    if match.record_count:
        return before is not None
    raw = _raw(scanned, adapter, item)
    meta = session.metas[match.number]
    return len(raw) != meta.size_bytes or crc32(raw) != meta.crc
