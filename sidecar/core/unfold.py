"""An adopted body back to raw items: a summary that we wrote is replaced by the items that it covers.

A summary is recognized by lookup, never by shape: a text that is, letter for letter, the summary of a checkpoint of this
session, in a place where the items that stayed of its range stand before it, and where it covers items of another branch, in a
body of that branch: where the current one simply goes on, somebody quotes it. One that stands elsewhere is text
(`SUMMARY_DISPLACED`). What stayed is taken as the client sent it, markers and spelling included; what was covered comes from the
journal. The answer is a body of raw items, on which everything else works as on one whose client kept its raw history.

Pure: raw items come by a callback.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

from fastpath import Edit, Item, ItemFlag, Kind, Part, Role, canon, scan, splice
from sidecar.core.compaction import CheckpointRecord
from sidecar.core.summary import LABEL, pointer_text
from sidecar.formats.base import Adapter, ContentSpan
from sidecar.formats.spelling import PLAIN

__all__ = ["Known", "Unfolded", "unfold"]

_FENCE = LABEL.encode()
MAX_TRIED = 64
"""So many summaries are looked at, one by one, where not all of them stand in their places."""


class Known(NamedTuple):
    """What is known of a session's checkpoints and items."""

    checkpoints: Sequence[CheckpointRecord]  # all, in order of commit
    branch: Sequence[int]  # numbers
    number_count: int  # of numbers given out
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
    perhaps: bool = False  # it may be of another branch, and not be there


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
    hits = _hits(adapter, body, items, parts, decode, known)
    if not hits:
        return None
    chosen, edit = _choose(_Opener(adapter, body, items, known), hits)
    if edit is None:
        return Unfolded(body, {}, 0, len(hits))
    markers = {hit.record.checkpoint_id: hit.marker for hit in chosen if hit.marker}
    return Unfolded(splice(body, [edit]), markers, edit.end, len(hits) - len(chosen))


def _choose(opener: _Opener, hits: Sequence[_Hit]) -> tuple[list[_Hit], Edit | None]:
    """The summaries that stand in their places, with the edit that unfolds them. One that does not, keeps no other from it.

    A summary of items off the branch is where we put it only in a body of another branch: where this one simply goes on, with
    what is on it unfolded, somebody quotes it.
    """
    here = [hit for hit in hits if opener.is_here(hit)]
    chosen, edit = _most(opener, here)
    if len(here) == len(hits) or opener.goes_on(edit):
        return chosen, edit
    return _most(opener, hits)


def _most(opener: _Opener, hits: Sequence[_Hit]) -> tuple[list[_Hit], Edit | None]:
    """As many as there can be, one of each checkpoint."""
    first: dict[str, _Hit] = {}
    for hit in hits:
        first.setdefault(hit.record.checkpoint_id, hit)
    all_of_them = list(first.values())
    edit = opener.open(all_of_them) if all_of_them else None
    if edit is not None or not all_of_them:
        return all_of_them, edit
    # Ranges may reach into each other, so the most are wanted: all but one, else one after the other.
    for other in all_of_them if 1 < len(all_of_them) <= MAX_TRIED else ():
        chosen = [hit for hit in all_of_them if hit is not other]
        edit = opener.open(chosen)
        if edit is not None:
            return _add(opener, [hit for hit in hits if hit is not other], chosen, edit)
    return _add(opener, hits, [], None)


def _add(opener: _Opener, hits: Sequence[_Hit], chosen: list[_Hit], edit: Edit | None) -> tuple[list[_Hit], Edit | None]:
    """Whatever else of these stands in its place, one of each checkpoint."""
    for hit in hits[:MAX_TRIED]:
        if all(hit.record is not each.record for each in chosen):
            more = sorted([*chosen, hit])
            found = opener.open(more)
            if found is not None:
                chosen, edit = more, found
    return chosen, edit


def _hits(
    adapter: Adapter,
    body: bytes,
    items: Sequence[Item],
    parts: Sequence[Part],
    decode: Callable[[int, int], bytes],
    known: Known,
) -> list[_Hit]:
    """Texts in the body that are, letter for letter, summaries of this session; each as often as it comes."""
    by_text = {sha256(record.summary.encode("utf-8", "replace")).digest(): record for record in known.checkpoints}
    by_item = {_digest(adapter, adapter.text_item(each.summary, each.role, b"", PLAIN)): each for each in known.checkpoints}
    hits: list[_Hit] = []

    for index, item in enumerate(items):
        if item.role not in (Role.USER, Role.ASSISTANT) or body.find(_FENCE, item.start, item.end) < 0:
            continue
        whole = by_item.get(_digest(adapter, body[item.start : item.end]))
        if whole is not None:
            marker = adapter.last_marker(body, item.start, item.end) if item.flags & ItemFlag.MARKED else b""
            hits.append(_Hit(index, 0, whole, marker))
            continue
        span = adapter.content_span(body, item) if item.role == Role.USER else None
        for part in parts[item.first_part : item.first_part + item.part_count]:
            if part.parent >= 0 or part.kind != Kind.TEXT or part.payload_start < 0 or span is None:
                continue
            record = by_text.get(sha256(decode(part.payload_start, part.payload_end)).digest())
            if record is not None:
                element = next((n for n, each in enumerate(span.elements) if each[1] >= part.end), 0)
                marker = adapter.element_marker(body, *span.elements[element]) if item.flags & ItemFlag.MARKED else b""
                hits.append(_Hit(index, element, record, marker))
    return hits


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
        """Content of a user item that may be several of ours, or lack results; None for an item that is whole or nothing."""
        parted = self._adapter.joins_results and item.role == Role.USER
        return self._adapter.content_span(body, item) if parted else None

    def is_here(self, hit: _Hit) -> bool:
        """All that the summary covers is on the branch."""
        return all(number in self._place for start, end in hit.record.gone for number in range(start, end))

    def goes_on(self, edit: Edit | None) -> bool:
        """Whether the body, unfolded so far, begins with all of the branch."""
        body = self._body if edit is None else splice(self._body, [edit])
        items = self._items if edit is None else scan(body, self._adapter.grammar).items()
        branch, known = self._known.branch, self._known
        return len(items) >= len(branch) and all(
            known.role(number) == Role.SYSTEM or self._is_form(number, body[item.start : item.end])
            for number, item in zip(branch, items, strict=False)
        )

    def _is_form(self, number: int, item: bytes) -> bool:
        strict, loose = canon(item, 0, len(item), self._adapter.grammar)
        return self._known.is_form(number, sha256(strict).digest(), b"" if loose is None else sha256(loose).digest())

    def open(self, hits: Sequence[_Hit]) -> Edit | None:
        """The edit that unfolds these summaries; None when one does not stand in its place."""
        found = self._tokens(hits)
        if found is None:
            return None
        tokens, numbers, low, high = found
        first_hit = next(at for at, token in enumerate(tokens) if token.hit is not None)
        at = self._atom_of(tokens[first_hit].hit)
        there: list[_Token] = []
        for token in reversed(tokens[:first_hit]):
            if not token.perhaps or self._kept(token, at, backwards=True) is not None:
                there.append(token)
                at -= self._count(token, at - 1)
        if at < 0:
            return None
        start = at
        pieces: list[bytes | int] = []  # raw items by number: what fails needs no store
        for token in (*reversed(there), *tokens[first_hit:]):
            if token.hit is not None:
                if at != self._atom_of(token.hit):
                    return None
                at += 1
            elif token.pointer:
                at += self._count(token, at)
            elif token.gone:
                pieces.append(token.number)
            else:
                taken = self._kept(token, at)
                if taken is None and token.perhaps:
                    continue
                if taken is None:
                    return None
                at += taken[0]
                pieces.append(taken[1])
        before = self._kept(_Token(numbers[low - 1]), start, backwards=True) if low else None
        behind = self._kept(_Token(numbers[high]), at) if high < len(numbers) else None
        left = numbers is not self._known.branch
        first = start == 0 and (left or low == 0)
        if before is None and not first and (left or behind is None):
            return None
        if before is None and self._is_quoted(tokens[:first_hit], start):
            return None
        # What became one item with the first or the last of these stands around them.
        while low and start and before is not None and self._is_one(start - 1, start):
            start, low = start - before[0], low - 1
            pieces.insert(0, before[1])
            before = self._kept(_Token(numbers[low - 1]), start, backwards=True) if low else None
        while behind is not None and at < len(self._atoms) and self._is_one(at - 1, at):
            at, high = at + behind[0], high + 1
            pieces.append(behind[1])
            behind = self._kept(_Token(numbers[high]), at) if high < len(numbers) else None
        head, tail = self._atoms[start], self._atoms[at - 1]
        front = self._leftover(head.item, 0, head.element)
        rest = self._leftover(tail.item, tail.element + 1, None) if tail.element >= 0 else b""
        raws = [self._known.raw(piece) if isinstance(piece, int) else piece for piece in pieces]
        data = b",".join(([front] if front else []) + raws + ([rest] if rest else []))
        return Edit(self._items[head.item].start, self._items[tail.item].end, data)

    def _is_quoted(self, tokens: Sequence[_Token], start: int) -> bool:
        """Whether the first item that a summary covers stands before it all the same: then the summary is a quotation."""
        first = next((token for token in tokens if token.gone), None)
        return first is not None and any(self._kept(_Token(first.number), at) is not None for at in range(start))

    def _is_one(self, at: int, other: int) -> bool:
        return self._atoms[at].item == self._atoms[other].item

    def _tokens(self, hits: Sequence[_Hit]) -> tuple[list[_Token], Sequence[int], int, int] | None:
        """What stands from the first item of these ranges to the last; the branch, and from where to where on it that is.

        A client may come back to a branch that it had left. Which items that had, only the body can tell: those in between are
        there or not, in order of their numbers.
        """
        gone: set[int] = set()
        trims: dict[int, tuple[int, ...]] = {}
        behind: dict[int, list[_Token]] = {}
        wanted: list[int] = []  # numbers
        for hit in hits:
            record = hit.record
            numbers = [number for start, end in record.gone for number in range(start, end)]
            gone.update(numbers)
            trims.update({trim.number: trim.blocks for trim in record.trims})
            if record.after >= 0:
                numbers.append(record.after)
            wanted += [*numbers, *(trim.number for trim in record.trims)]
            for number in record.pointers:
                behind.setdefault(number, []).append(_Token(-1, pointer=pointer_text(record.checkpoint_id)))
            behind.setdefault(record.after, []).append(_Token(-1, hit=hit))
        if not wanted:
            return None
        branch, places = self._known.branch, [self._place.get(number, -1) for number in wanted]
        left = min(places) < 0
        if left:
            branch, places = range(self._known.number_count), wanted
        tokens = list(behind.get(-1, ()))
        low, high = 0 if tokens else min(places), max(places) + 1
        for number in branch[low:high]:
            perhaps = left and number not in wanted
            tokens.append(_Token(number, trims.get(number, ()), number in gone, perhaps=perhaps))
            tokens += behind.get(number, ())
        return tokens, branch, low, high

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
        if not self._adapter.joins_results or role != Role.USER:
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
        return (count, piece) if self._is_form(token.number, piece) else None

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
