"""Scan a body for its items and parts: the reference of c/fp_scan.c.

One pass over the root object. The history array is read item by item, each matched against the grammar's item shape; every
other member is only checked. When a later root member is the history after all (the same key again, or an earlier key of the
grammar's list), the rows read so far are dropped.
"""

from __future__ import annotations

from fastpath._json_py import Node, Reader
from fastpath._match_py import Grammar, ItemMatch
from fastpath.grammar import ItemFlag, Kind, Role
from fastpath.limits import BODY_LIMIT_BYTES, ITEM_LIMIT, MalformedError
from fastpath.rows import Item, Member, Part, Sizes

__all__ = ["Scan", "scan"]

_CLASSES = {
    Kind.CALL: 0,
    Kind.SERVER_CALL: 0,
    Kind.RESULT: 1,
    Kind.SERVER_RESULT: 1,
    Kind.REASONING: 2,
    Kind.MEDIA: 3,
}
_MEDIA = 3


class Scan:
    """What a scan found. Read only; holds the body."""

    def __init__(self, body: bytes, grammar: Grammar) -> None:
        """Make an empty scan; `scan` fills it."""
        self.body = body
        self.grammar = grammar
        self.history = (-1, -1)
        self.members: list[Member] = []
        self.system: list[tuple[int, int]] = []
        self.tools: list[tuple[int, int]] = []
        self.sizes = Sizes(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        self.marker_count = 0
        self.reused_item_count = 0
        self._items: list[Item] = []
        self._parts: list[Part] = []
        self._after: list[tuple[int, int]] = []  # for each item: values read up to its end, its cache markers
        self._member_markers: list[int] = []

    @property
    def item_count(self) -> int:
        """Number of items."""
        return len(self._items)

    @property
    def part_count(self) -> int:
        """Number of parts of all items."""
        return len(self._parts)

    def member(self, key: bytes) -> bytes:
        """Value of the last root member with this decoded key; empty when there is none."""
        for member in reversed(self.members):
            if member.key == key:
                return self.body[member.start : member.end]
        return b""

    def item(self, index: int) -> Item:
        """One item, from 0. Raises IndexError."""
        if not 0 <= index < len(self._items):
            raise IndexError("no such item")
        return self._items[index]

    def items(self, start: int = 0, end: int | None = None) -> list[Item]:
        """Items start to end (all, when None), bounds clipped."""
        return self._items[max(start, 0) : len(self._items) if end is None else max(end, 0)]

    def part(self, index: int) -> Part:
        """One part, from 0. Raises IndexError."""
        if not 0 <= index < len(self._parts):
            raise IndexError("no such part")
        return self._parts[index]

    def parts(self, start: int = 0, end: int | None = None) -> list[Part]:
        """Parts start to end (all, when None), bounds clipped."""
        return self._parts[max(start, 0) : len(self._parts) if end is None else max(end, 0)]


def scan(body: bytes, grammar: Grammar, previous: Scan | None = None) -> Scan:
    """Check a whole body and find its items, parts and sizes. O(n), without what `previous` saves.

    Args:
        body: JSON of the dialect that the grammar describes.
        grammar: the dialect.
        previous: scan of an earlier body. Whole leading items that both bodies begin with are not read again, when its grammar
            is the same object.

    Returns:
        The scan; all but `reused_item_count` is the same with and without `previous`.

    Raises:
        MalformedError: the body is not JSON, not an object, has no history array, or passes a bound.
    """
    if not isinstance(body, bytes):
        raise TypeError("body must be bytes")
    if len(body) > BODY_LIMIT_BYTES:
        raise MalformedError(f"more than {BODY_LIMIT_BYTES} bytes", BODY_LIMIT_BYTES, "body_bytes")
    found = Scan(body, grammar)
    _RootReader(found).read(previous if previous is not None and previous.grammar is grammar else None)
    _measure(found)
    return found


class _RootReader:
    """Reads the root object into a scan."""

    def __init__(self, found: Scan) -> None:
        self.found = found
        self.spec = found.grammar.spec
        self.reader = Reader(found.body, len(found.body))
        self.ranks = {key: rank for rank, key in enumerate(self.spec.history)}
        self.shapes = dict.fromkeys(self.spec.system, self.spec.system_shape)
        self.shapes.update(dict.fromkeys(self.spec.tools, self.spec.tools_shape))
        self.rank = len(self.ranks)  # of the history found so far; the smaller wins
        self.not_array = -1  # where the history's value begins when it is no array

    def read(self, previous: Scan | None) -> None:
        reader = self.reader
        position = reader.skip(0)
        if reader.byte(position) != 0x7B:
            if position == reader.end:
                reader.fail(position)
            raise MalformedError("the body is not an object", position)
        resumed = self._resume(previous) if previous is not None else -1
        if resumed >= 0:
            position = self._items(resumed, resumed=True)
        else:
            reader.value_count = 1
            position = reader.skip(position + 1)
            if reader.byte(position) != 0x7D:
                position = self._member(position)
        position = reader.skip(position)
        while reader.byte(position) != 0x7D:
            position = reader.skip(self._member(reader.skip(reader.expect(position, 0x2C))))
        closing = position
        position = reader.skip(position + 1)
        if position != reader.end:
            reader.fail(position)
        if self.not_array >= 0:
            raise MalformedError("the history is not an array", self.not_array)
        if self.rank == len(self.ranks):
            raise MalformedError("the body has no history", closing)

    def _member(self, position: int) -> int:
        """Read one root member; the offset after it."""
        found = self.found
        key, key_start, start = self.reader.key(position)
        rank = self.ranks.get(key, len(self.ranks))
        markers = 0
        if rank < len(self.ranks) and rank <= self.rank:
            self.rank = rank
            found._items, found._parts, found._after = [], [], []
            if self.reader.byte(start) == 0x5B:
                self.not_array = -1
                found.members.append(Member(key, key_start, start, -1))
                found._member_markers.append(0)
                found.history = (start, -1)
                self.reader.value_count += 1
                return self._items(start + 1, resumed=False)
            if self.spec.history_text and self.reader.byte(start) == 0x22:
                return self._text(key, key_start, start)
            self.not_array = start
            found.history = (-1, -1)
        node = self.reader.value(start, 1, key, key_start)
        shape = self.shapes.get(key, "")
        if shape:
            markers = ItemMatch(found.body, self.spec, node, shape).marker_count
        found.members.append(Member(key, key_start, start, node.end))
        found._member_markers.append(markers)
        return node.end

    def _text(self, key: bytes, key_start: int, start: int) -> int:
        """Read a string that stands for the history; the offset after it."""
        found = self.found
        self.not_array = -1
        node = self.reader.value(start, 2)
        self._file(node)
        found.history = (start, node.end)
        found.members.append(Member(key, key_start, start, node.end))
        found._member_markers.append(0)
        return node.end

    def _items(self, position: int, *, resumed: bool) -> int:
        """Read elements of the history array up to its end; the offset after it."""
        found, reader = self.found, self.reader
        position = reader.skip(position)
        first = not resumed
        while reader.byte(position) != 0x5D:
            if not first:
                position = reader.skip(reader.expect(position, 0x2C))
            first = False
            if len(found._items) >= ITEM_LIMIT:
                raise MalformedError(f"more than {ITEM_LIMIT} items", position, "items")
            node = reader.value(position, 2)
            self._file(node)
            position = reader.skip(node.end)
        position += 1
        found.history = (found.history[0], position)
        found.members[-1] = found.members[-1]._replace(end=position)
        return position

    def _file(self, node: Node) -> None:
        """Make the rows of one item."""
        found = self.found
        match = ItemMatch(found.body, self.spec, node, self.spec.item)
        index, first = len(found._items), len(found._parts)
        flags = ItemFlag.MARKED if match.marked else 0
        if not found.body[node.start : node.end].isascii():
            flags |= ItemFlag.NON_ASCII
        totals = [0, 0, 0, 0]
        classes: list[int] = []
        for part in match.parts:
            size = part.node.end - part.node.start
            around = classes[part.parent] if part.parent >= 0 else -1
            own = _CLASSES.get(Kind(part.kind), -1)
            if around >= 0 and not (own == _MEDIA and around != _MEDIA):
                own = around  # counted with the part that it stands in
            elif own >= 0:
                totals[own] += size
                if around >= 0:
                    totals[around] -= size
            classes.append(own)
            parent = part.parent + first if part.parent >= 0 else -1
            span = (part.node.start, part.node.end)
            found._parts.append(
                Part(part.kind, part.flags, index, parent, *span, *part.id, *part.name, *part.payload, part.payload_type),
            )
        found._items.append(Item(node.start, node.end, match.role, int(flags), first, len(match.parts), *totals))
        found._after.append((self.reader.value_count, match.marker_count))

    def _resume(self, previous: Scan) -> int:
        """Take over what both bodies begin with; the offset to go on from inside the history array, or -1 for none."""
        found, body = self.found, self.found.body
        if previous.body[previous.history[0]] != 0x5B:
            return -1
        common = _common_prefix(body, previous.body)
        count = _whole_items(body, previous._items, common)
        if count == 0:
            return -1
        before = sum(member.start < previous.history[0] for member in previous.members)
        found.members = [*previous.members[:before], previous.members[before]._replace(end=-1)]
        found._member_markers = previous._member_markers[: before + 1]
        found._items = previous._items[:count]
        found._parts = previous._parts[: found._items[-1].first_part + found._items[-1].part_count]
        found._after = previous._after[:count]
        found.history = (previous.history[0], -1)
        found.reused_item_count = count
        self.rank = self.ranks[found.members[-1].key]
        self.reader.value_count = found._after[-1][0]
        return found._items[-1].end


def _common_prefix(one: bytes, other: bytes) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _whole_items(body: bytes, items: list[Item], common: int) -> int:
    """How many leading items lie in the prefix.

    A bare number or literal must be followed by a byte of the prefix: it could go on.
    """
    count = 0
    for item in items:
        if item.end > common or (item.end == common and body[item.end - 1] not in b'}]"'):
            break
        count += 1
    return count


def _measure(found: Scan) -> None:
    """Fill in what follows from the rows."""
    spec = found.grammar.spec
    last = {member.key: index for index, member in enumerate(found.members)}
    places = sorted(last.values())
    system = [index for index in places if found.members[index].key in spec.system]
    tools = [index for index in places if found.members[index].key in spec.tools]
    found.system = [(found.members[index].start, found.members[index].end) for index in system]
    found.tools = [(found.members[index].start, found.members[index].end) for index in tools]
    found.marker_count = sum(found._member_markers[index] for index in [*system, *tools])
    found.marker_count += sum(markers for _, markers in found._after)
    system_bytes = sum(end - start for start, end in found.system)
    tool_bytes = sum(end - start for start, end in found.tools)
    by_role = [0] * (max(Role) + 1)
    call = result = reasoning = media = 0
    for item in found._items:
        call += item.call_bytes
        reasoning += item.reasoning_bytes
        media += item.media_bytes
        rest = item.end - item.start - item.call_bytes - item.reasoning_bytes - item.media_bytes
        if item.role == Role.RESULT:
            result += rest
        else:
            result += item.result_bytes
            by_role[item.role] += rest - item.result_bytes
    system_bytes += by_role[Role.SYSTEM]
    named = (system_bytes, tool_bytes, by_role[Role.USER], by_role[Role.ASSISTANT], reasoning, call, result, media)
    found.sizes = Sizes(len(found.body), *named, len(found.body) - sum(named))
