"""Rows that a scan yields. Offsets are bytes in the body; spans are half-open; an absent span is (-1, -1)."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Edit", "Item", "Member", "Part", "Sizes"]


class Item(NamedTuple):
    """One element of the history array."""

    start: int
    end: int
    role: int  # Role
    flags: int  # ItemFlag
    first_part: int  # index into the scan's parts
    part_count: int  # children included, in order of position
    call_bytes: int  # whole CALL and SERVER_CALL parts, media inside apart
    result_bytes: int  # whole RESULT and SERVER_RESULT parts, media inside apart
    reasoning_bytes: int
    media_bytes: int


class Part(NamedTuple):
    """One part of an item."""

    kind: int  # Kind
    flags: int  # PartFlag
    item: int  # index of its item
    parent: int  # index of the part that it stands in, or -1
    start: int
    end: int
    id_start: int  # spans of values; a string's span holds its quotes
    id_end: int
    name_start: int
    name_end: int
    payload_start: int
    payload_end: int
    payload_type: int  # ValueType


class Member(NamedTuple):
    """One member of the root object."""

    key: bytes  # decoded
    key_start: int  # at its quote
    start: int  # of the value
    end: int


class Sizes(NamedTuple):
    """Size of a body by component, in bytes. All but the first add up to the first."""

    total: int
    system: int  # root members named system, and system items
    tools: int
    user: int  # user items, less results and media in them
    assistant: int  # assistant items, less calls, results, reasoning and media in them
    reasoning: int
    call: int
    result: int  # RESULT items whole, RESULT and SERVER_RESULT parts elsewhere, less media in them
    media: int
    other: int


class Edit(NamedTuple):
    """Replace body[start:end] by data. Edits of one body are in order and do not overlap; an insertion has start == end."""

    start: int
    end: int
    data: bytes
