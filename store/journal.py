"""Raw items: packed together by batch, large values in them apart.

A chunk's payload is: size of the table (four bytes, big-endian), the table (a CHUNK record: one row an item), then the items'
skeletons one after another. A skeleton is the raw item without the values at its holes. Holes are the large string values that
the caller names, stored once per session by digest; and any stretch between them that is large itself (an item of a million
small values has no large string), so that no chunk gets out of hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

import lmdb

from sidecar.core.types import JournalItem
from store import codec
from store.blobs import add_blob, read_blob
from store.change import Change
from store.codec import ChunkItem, DamageError, Hole, unseal
from store.layout import CHUNK_BYTES, Family, data_key, number_in
from store.walk import at_or_before

__all__ = ["Chunk", "add_items", "open_chunk", "parse_chunk", "read_range"]

STRETCH_BYTES = 16_384  # between holes; over this it becomes a hole. As the bound for string values.

_U32 = Struct(">I")


class Chunk(NamedTuple):
    """A chunk in a transaction; not to leave it."""

    first_number: int
    items: tuple[ChunkItem, ...]
    skeletons: memoryview


def add_items(change: Change, handle: int, items: Sequence[JournalItem]) -> None:
    """Plan the writes of a batch's items. O(bytes of the items).

    Raises:
        ValueError: a span of a large value is out of bounds or order.
    """
    rows: list[ChunkItem] = []
    skeletons: list[bytes] = []
    first_number = items[0].meta.number if items else 0
    size = 0
    for item in items:
        row, skeleton = _split(change, handle, item)
        row_bytes = len(skeleton) + 8 + 44 * len(row.holes)
        if rows and size + row_bytes > CHUNK_BYTES:
            _add_chunk(change, handle, first_number, rows, skeletons)
            first_number, rows, skeletons, size = item.meta.number, [], [], 0
        rows.append(row)
        skeletons.append(skeleton)
        size += row_bytes
    if rows:
        _add_chunk(change, handle, first_number, rows, skeletons)


def _add_chunk(change: Change, handle: int, first_number: int, rows: list[ChunkItem], skeletons: list[bytes]) -> None:
    table = codec.CHUNK.encode(tuple(rows))
    change.add(data_key(handle, Family.CHUNK, first_number), b"".join((_U32.pack(len(table)), table, *skeletons)))


def _split(change: Change, handle: int, item: JournalItem) -> tuple[ChunkItem, bytes]:
    """Take an item apart; its large values are planned."""
    raw = memoryview(item.raw)
    kept: list[memoryview] = []
    holes: list[Hole] = []
    at = 0
    for start, end, is_hole in _stretches(len(raw), item.large):
        if is_hole:
            holes.append(Hole(at, add_blob(change, handle, Family.LARGE, raw[start:end]), end - start))
        else:
            kept.append(raw[start:end])
            at += end - start
    return ChunkItem(at, tuple(holes)), b"".join(kept)


def _stretches(size: int, large: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, bool]]:
    """An item's bytes as stretches in order: (start, end, stored apart)."""
    position = 0
    for start, end in large:
        if not position <= start < end <= size:
            raise ValueError("spans of large values must be in order and inside the item")
        if start > position:
            yield position, start, start - position > STRETCH_BYTES
        yield start, end, True
        position = end
    if size > position:
        yield position, size, size - position > STRETCH_BYTES


def parse_chunk(key: bytes, value: memoryview) -> Chunk:
    """Prove a chunk's seal and read its table. Raises DamageError, NewerError."""
    payload = unseal(key, value)
    if len(payload) < _U32.size:
        raise DamageError("a chunk is too short")
    table_end = _U32.size + _U32.unpack(payload[: _U32.size])[0]
    return Chunk(number_in(key), codec.CHUNK.decode(payload[_U32.size : table_end]), payload[table_end:])


def open_chunk(txn: lmdb.Transaction[memoryview], handle: int, number: int) -> Chunk:
    """The chunk that holds an item: one seek, O(chunk) to prove it. Raises DamageError when there is none."""
    found = at_or_before(txn, data_key(handle, Family.CHUNK, number), data_key(handle, Family.CHUNK))
    if found is None:
        raise DamageError("a raw item is missing")
    chunk = parse_chunk(*found)
    if number >= chunk.first_number + len(chunk.items):
        raise DamageError("a raw item is missing")
    return chunk


def read_range(txn: lmdb.Transaction[memoryview], handle: int, number: int, start: int, end: int | None) -> bytes:
    """Bytes [start, end) of a raw item, to its end when `end` is None. Large values outside the range are not read.

    Raises:
        DamageError: a digest does not hold, something is missing, or the item is shorter than `end`.
    """
    chunk = open_chunk(txn, handle, number)
    index = number - chunk.first_number
    base = sum(item.skeleton_bytes for item in chunk.items[:index])
    item = chunk.items[index]
    skeleton = chunk.skeletons[base : base + item.skeleton_bytes]
    size = item.skeleton_bytes + sum(hole.size_bytes for hole in item.holes)
    stop = size if end is None else end
    if not 0 <= start <= stop <= size:
        raise DamageError("a raw item is shorter than it was")
    found: list[bytes] = []
    position = at = 0  # in the raw item, in the skeleton
    for hole in item.holes:
        position = _copy(found, skeleton[at : hole.at], position, start, stop)
        at = hole.at
        if max(start, position) < min(stop, position + hole.size_bytes):
            low, high = max(0, start - position), min(hole.size_bytes, stop - position)
            found.append(read_blob(txn, handle, Family.LARGE, hole.sha256, low, high))
        position += hole.size_bytes
    _copy(found, skeleton[at:], position, start, stop)
    return b"".join(found)


def _copy(found: list[bytes], stretch: memoryview, position: int, start: int, stop: int) -> int:
    """Copy what of a stretch of skeleton is inside [start, stop); the position after it."""
    if position < stop and start < position + len(stretch):
        found.append(bytes(stretch[max(0, start - position) : stop - position]))
    return position + len(stretch)
