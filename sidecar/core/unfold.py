"""An adopted body back to raw items: a summary that we wrote is replaced by the items that it covers.

A summary is recognized by lookup, never by shape: a text that is, letter for letter, the summary of a checkpoint of this
session, in a place where the items that stayed of its range stand before it. One that stands elsewhere is text
(`SUMMARY_DISPLACED`). What stayed is taken as the client sent it, markers and spelling included; what was covered comes from the
journal. The answer is a body of raw items, on which everything else works as on one whose client kept its raw history.

Pure: raw items come by a callback.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

from fastpath import Edit, Item, ItemFlag, Kind, Part, PartFlag, Role, canon, splice
from sidecar.core.compaction import CheckpointRecord
from sidecar.core.summary import LABEL, pointer_text
from sidecar.formats.base import Adapter, ContentSpan
from sidecar.formats.spelling import PLAIN

__all__ = ["Known", "Unfolded", "unfold"]

_FENCE = LABEL.encode()


class Known(NamedTuple):
    """What is known of a session's checkpoints and items."""

    checkpoints: Sequence[CheckpointRecord]  # all, in order of commit
    branch: Sequence[int]  # numbers
    is_form: Callable[[int, bytes, bytes], bool]  # an item of that number may come in this strict, loose digest
    raw: Callable[[int], bytes]  # raw bytes of an item
    role: Callable[[int], int]  # of an item


class Unfolded(NamedTuple):
    """A body of raw items."""

    body: bytes
    markers: Mapping[str, bytes]  # by checkpoint: cache marker that its summary had
    end: int  # bytes of the body as it came, up to the end of the last item that was unfolded
    displaced: int  # summaries that stand elsewhere


class _Hit(NamedTuple):
    """A summary in a body."""

    item: int
    element: int  # of its content
    record: CheckpointRecord
    marker: bytes


class _Atom(NamedTuple):
    """An element of a user item's content, or a whole item."""

    item: int
    element: int  # -1: the whole item


class _Token(NamedTuple):
    """What stands at a place of a range: an item that is gone or stays, a summary, a pointer."""

    number: int  # -1: a summary or pointer
    trimmed: tuple[int, ...] = ()
    gone: bool = False
    hit: _Hit | None = None
    pointer: str = ""


def unfold(
    adapter: Adapter,
    body: bytes,
    items: Sequence[Item],
    parts: Sequence[Part],
    decode: Callable[[int, int], bytes],
    known: Known,
) -> Unfolded | None:
    """Replace summaries by what they cover. None when there is none in the body. One search when nothing looks like it.

    Args:
        adapter: of the dialect.
        body: as it came.
        items: of it.
        parts: of it.
        decode: content of the JSON value at a span.
        known: of the session.
    """
    if not known.checkpoints or _FENCE not in body:
        return None
    hits, displaced = _hits(adapter, body, items, parts, decode, known)
    opener = _Opener(adapter, body, items, known)
    # One that stands elsewhere must not keep the others from being opened.
    for chosen in (hits, *([hit for hit in hits if hit is not other] for other in hits if len(hits) > 1)):
        edit = opener.open(chosen) if chosen else None
        if edit is not None:
            markers = {hit.record.checkpoint_id: hit.marker for hit in chosen if hit.marker}
            return Unfolded(splice(body, [edit]), markers, edit.end, displaced + len(hits) - len(chosen))
    return Unfolded(body, {}, 0, displaced + len(hits)) if hits or displaced else None


def _hits(
    adapter: Adapter,
    body: bytes,
    items: Sequence[Item],
    parts: Sequence[Part],
    decode: Callable[[int, int], bytes],
    known: Known,
) -> tuple[list[_Hit], int]:
    """Summaries in the body, and how many came a second time."""
    by_text = {sha256(record.summary.encode("utf-8", "replace")).digest(): record for record in known.checkpoints}
    by_item = {_digest(adapter, adapter.text_item(each.summary, each.role, b"", PLAIN)): each for each in known.checkpoints}
    hits: list[_Hit] = []
    again = 0
    taken: set[str] = set()

    def hit(item: int, element: int, record: CheckpointRecord, marked: bool) -> None:
        nonlocal again
        if record.checkpoint_id in taken:
            again += 1
            return
        taken.add(record.checkpoint_id)
        marker = adapter.last_marker(body, items[item].start, items[item].end) if marked else b""
        hits.append(_Hit(item, element, record, marker))

    for index, item in enumerate(items):
        if item.role not in (Role.USER, Role.ASSISTANT) or body.find(_FENCE, item.start, item.end) < 0:
            continue
        whole = by_item.get(_digest(adapter, body[item.start : item.end]))
        if whole is not None:
            hit(index, 0, whole, bool(item.flags & ItemFlag.MARKED))
            continue
        span = adapter.content_span(body, item) if item.role == Role.USER else None
        for part in parts[item.first_part : item.first_part + item.part_count]:
            if part.parent >= 0 or part.kind != Kind.TEXT or part.payload_start < 0 or span is None:
                continue
            record = by_text.get(sha256(decode(part.payload_start, part.payload_end)).digest())
            if record is not None:
                element = next((n for n, each in enumerate(span.elements) if each[1] >= part.end), 0)
                hit(index, element, record, bool(part.flags & PartFlag.MARKED))
    return hits, again


def _digest(adapter: Adapter, item: bytes) -> bytes:
    """Of the looser form: SDKs write null for what is absent."""
    strict, loose = canon(item, 0, len(item), adapter.grammar)
    return sha256(loose or strict).digest()


class _Opener:
    """Puts covered items back around what stayed of their ranges."""

    def __init__(self, adapter: Adapter, body: bytes, items: Sequence[Item], known: Known) -> None:
        """For one body."""
        self._adapter = adapter
        self._body = body
        self._items = items
        self._known = known
        self._place = {number: at for at, number in enumerate(known.branch)}
        wrap = adapter.wrap_string(b'""').split(b'""', 1)
        self._wrap = (wrap[0], wrap[1])
        self._spans = [self._span(body, item) for item in items]
        self._atoms = [
            _Atom(index, element)
            for index, span in enumerate(self._spans)
            for element in (range(len(span.elements)) if span is not None else (-1,))
        ]

    def _span(self, body: bytes, item: Item) -> ContentSpan | None:
        """Content of a user item that may be several of ours; None for an item that is whole or nothing."""
        joined = self._adapter.merges_users and item.role == Role.USER
        return self._adapter.content_span(body, item) if joined else None

    def open(self, hits: Sequence[_Hit]) -> Edit | None:
        """The edit that unfolds these summaries; None when one does not stand in its place."""
        found = self._tokens(hits)
        if found is None:
            return None
        tokens, low, high = found
        first_hit = next(at for at, token in enumerate(tokens) if token.hit is not None)
        at = self._atom_of(tokens[first_hit].hit)
        for token in reversed(tokens[:first_hit]):
            at -= self._count(token, at - 1)
        if at < 0:
            return None
        start = at
        pieces: list[bytes] = []
        for token in tokens:
            if token.hit is not None:
                if at != self._atom_of(token.hit):
                    return None
                at += 1
            elif token.pointer:
                at += self._count(token, at)
            elif token.gone:
                pieces.append(self._known.raw(token.number))
            else:
                taken = self._kept(token, at)
                if taken is None:
                    return None
                count, piece = taken
                at += count
                pieces.append(piece)
        # What became one item with the first or the last of these stands around them.
        while start > 0 and low > 0 and self._is_one(start - 1, start):
            taken = self._kept(_Token(self._known.branch[low - 1]), start, backwards=True)
            if taken is None:
                break
            start, low = start - taken[0], low - 1
            pieces.insert(0, taken[1])
        while at < len(self._atoms) and high < len(self._known.branch) and self._is_one(at - 1, at):
            taken = self._kept(_Token(self._known.branch[high]), at)
            if taken is None:
                break
            at, high = at + taken[0], high + 1
            pieces.append(taken[1])
        first, last = self._atoms[start], self._atoms[at - 1]
        before = self._leftover(first.item, 0, first.element)
        after = self._leftover(last.item, last.element + 1, None) if last.element >= 0 else b""
        data = b",".join(([before] if before else []) + pieces + ([after] if after else []))
        return Edit(self._items[first.item].start, self._items[last.item].end, data)

    def _is_one(self, at: int, other: int) -> bool:
        return self._atoms[at].item == self._atoms[other].item

    def _tokens(self, hits: Sequence[_Hit]) -> tuple[list[_Token], int, int] | None:
        """What stands on the branch from the first item of these ranges to the last, with that part of the branch.

        None when something is not on it.
        """
        gone: set[int] = set()
        trims: dict[int, tuple[int, ...]] = {}
        behind: dict[int, list[_Token]] = {}
        places: list[int] = []
        for hit in hits:
            record = hit.record
            numbers = [number for start, end in record.gone for number in range(start, end)]
            gone.update(numbers)
            trims.update({trim.number: trim.blocks for trim in record.trims})
            if record.after >= 0:
                numbers.append(record.after)
            places += [self._place.get(number, -1) for number in (*numbers, *(trim.number for trim in record.trims))]
            for number in record.pointers:
                behind.setdefault(number, []).append(_Token(-1, pointer=pointer_text(record.checkpoint_id)))
            behind.setdefault(record.after, []).append(_Token(-1, hit=hit))
        if not places or min(places) < 0:
            return None
        tokens = list(behind.get(-1, ()))
        low, high = 0 if tokens else min(places), max(places) + 1
        for number in self._known.branch[low:high]:
            tokens.append(_Token(number, trims.get(number, ()), number in gone))
            tokens += behind.get(number, ())
        return tokens, low, high

    def _atom_of(self, hit: _Hit | None) -> int:
        assert hit is not None
        element = -1 if self._spans[hit.item] is None else hit.element
        return self._atoms.index(_Atom(hit.item, element))

    def _count(self, token: _Token, at: int) -> int:
        """How many atoms a token takes; for a pointer, whether there is one at that atom."""
        if token.gone or token.hit is not None:
            return 1 if token.hit is not None else 0
        if token.pointer:
            if not 0 <= at < len(self._atoms):
                return 0
            item = self._items[self._atoms[at].item]
            return int(item.role == Role.ASSISTANT and token.pointer.encode() in self._body[item.start : item.end])
        span = self._raw_span(token.number)
        return 1 if span is None else len(span.elements) - len(token.trimmed)

    def _raw_span(self, number: int) -> ContentSpan | None:
        role = self._known.role(number)
        if not self._adapter.merges_users or role != Role.USER:
            return None
        raw = self._known.raw(number)
        scanned = Item(0, len(raw), role, 0, 0, 0, 0, 0, 0, 0)
        return self._span(raw, scanned)

    def _kept(self, token: _Token, at: int, *, backwards: bool = False) -> tuple[int, bytes] | None:
        """An item that stayed, as it stands at an atom, with what was trimmed from it put back; and how many atoms it is.

        Args:
            token: the item.
            at: its first atom.
            backwards: it ends before that atom.
        """
        count = self._count(token, at)
        at -= count if backwards else 0
        if count < 1 or at < 0 or at + count > len(self._atoms) or not self._is_one(at, at + count - 1):
            return None
        first = self._atoms[at]
        item, span = self._items[first.item], self._spans[first.item]
        if span is None or (count == len(span.elements) and not token.trimmed):
            piece = self._body[item.start : item.end]
        else:
            raw, raw_span = self._known.raw(token.number), self._raw_span(token.number)
            if raw_span is None:
                return None
            inside = self._inside(span, first.element, first.element + count)
            stay = [each for n, each in enumerate(raw_span.elements) if n not in token.trimmed]
            said = raw[stay[0][0] : stay[-1][1]]
            if inside == (self._wrap[0] + said + self._wrap[1] if raw_span.is_string else said):
                return count, raw  # just as it was sent: just as it came
            opened, closed = raw[raw_span.start : stay[0][0]], raw[stay[-1][1] : raw_span.end]
            if raw_span.is_string:
                opened, closed = b"[", b"]"
            piece = self._body[item.start : span.start] + opened + inside + closed + self._body[span.end : item.end]
        strict, loose = canon(piece, 0, len(piece), self._adapter.grammar)
        loose_digest = b"" if loose is None else sha256(loose).digest()
        return (count, piece) if self._known.is_form(token.number, sha256(strict).digest(), loose_digest) else None

    def _inside(self, span: ContentSpan, start: int, end: int) -> bytes:
        """Elements of a content, as they stand in a list."""
        inside = self._body[span.elements[start][0] : span.elements[end - 1][1]]
        return self._wrap[0] + inside + self._wrap[1] if span.is_string else inside

    def _leftover(self, index: int, start: int, end: int | None) -> bytes:
        """An item with the elements of another that belong to no range; empty for none."""
        span = self._spans[index]
        if span is None or span.is_string:
            return b""
        elements = span.elements[start:end]
        if not elements:
            return b""
        item = self._items[index]
        inside = self._body[elements[0][0] : elements[-1][1]]
        return self._body[item.start : span.start] + b"[" + inside + b"]" + self._body[span.end : item.end]
