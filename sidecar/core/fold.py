"""Live checkpoints at work in a body: what they cover leaves, their summaries stand in its place.

What stays of a covered range stands in raw order, byte for byte; then the summary. Where a dialect's neighboring user items are
one, what now stands side by side becomes one item with its blocks in order, never one that holds results. All of that is a set
of edits on the raw body, so records of other kinds go on applying to what stays.

Pure. The layout is decided once, at commit (`layout.py`); here it is only carried out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fastpath import Edit, Item, ItemFlag, Kind, Part, Role
from sidecar.core.checkpoints import Applicable
from sidecar.core.summary import pointer_text
from sidecar.formats.base import Adapter, ContentSpan
from sidecar.formats.spelling import PLAIN, spell

__all__ = ["Fold", "LayoutError", "fold", "holds_results"]


class LayoutError(ValueError):
    """A layout cannot be carried out on this body."""


class Fold(NamedTuple):
    """Checkpoints at work in one body. Nothing in it is mutated."""

    adapter: Adapter
    edits: list[tuple[Edit, int]]  # in order, each with the index of an item that it touches
    applied: list[Applicable]
    gone: frozenset[int]  # indices of items that leave whole
    kept_spans: dict[int, tuple[int, int]]  # of trimmed items: what stays of the content
    saved: dict[int, int]  # by item: bytes that leave; what comes in counts against the item behind which it stands
    places: list[int]  # by index: place in the finished body, -1 for those that leave
    texts: list[bytes]  # JSON strings of the texts that were put in, in order of place
    finished_count: int  # items of the finished body
    item_count: int  # leading items of the body that any of this touches, the one behind it included
    marker_count: int  # cache markers that summaries had in the body as it came: no raw item has them

    def over(self, item_count: int) -> Fold:
        """The same on a body with more or fewer items, all that this touches included."""
        known = len(self.places)
        if item_count == known:
            return self
        places = self.places[:item_count]
        places += range(self.finished_count, self.finished_count + item_count - known)
        return self._replace(places=places, finished_count=places[-1] + 1)

    @property
    def saved_bytes(self) -> int:
        """Of all edits together."""
        return sum(edit.end - edit.start - len(edit.data) for edit, _ in self.edits)


class _Text(NamedTuple):
    """A text that is put in."""

    text: str
    role: int
    marker: bytes
    behind: int  # index of the item behind which it stands


class _Kept(NamedTuple):
    """An item that stays."""

    at: int  # index in the body
    span: ContentSpan | None  # where it may become one with its neighbors
    inner: tuple[int, int]  # of the content: what stays


def holds_results(item: Item, parts: Sequence[Part]) -> bool:
    """The item is a result, or a user item that holds some."""
    own = parts[item.first_part : item.first_part + item.part_count]
    return item.role == Role.RESULT or any(part.kind == Kind.RESULT for part in own)


def fold(
    adapter: Adapter,
    body: bytes,
    items: Sequence[Item],
    parts: Sequence[Part],
    applied: list[Applicable],
    markers: Mapping[str, bytes],
) -> Fold:
    """Carry out the layouts of checkpoints. O(items), and a few times what stands at the joints.

    Args:
        adapter: of the dialect.
        body: with all raw items.
        items: of it.
        parts: of it.
        applied: checkpoints, by places in the body.
        markers: by checkpoint: cache marker that its summary had in the body as it came.
    """
    gone = {index for each in applied for index in each.gone}
    trims = {index: blocks for each in applied for index, blocks in each.trims.items()}
    texts: dict[int, list[_Text]] = {}
    for each in applied:
        for at in each.pointers:
            texts.setdefault(at, []).append(_Text(pointer_text(each.record.checkpoint_id), Role.ASSISTANT, b"", at))
        marker = markers.get(each.record.checkpoint_id, b"") or _retired_marker(adapter, body, items, each.gone)
        texts.setdefault(each.after, []).append(_Text(each.record.summary, each.record.role, marker, each.after))
    runs = _runs(adapter, body, items, parts, gone, trims, texts)
    writer = _Writer(adapter, body, items)
    writer.write(runs)
    saved = {index: items[index].end - items[index].start for index in gone}
    last = max((*gone, *trims, *texts), default=-1)
    left = sum(edit.end - edit.start - len(edit.data) for edit, _ in writer.edits) - sum(saved.values())
    if last >= 0 and left:
        saved[last] = saved.get(last, 0) + left
    inner = {kept.at: kept.inner for run in runs for kept in run if isinstance(kept, _Kept) and kept.at in trims}
    return Fold(
        adapter,
        writer.edits,
        applied,
        frozenset(gone),
        inner,
        saved,
        writer.places,
        writer.texts,
        writer.count,
        last + 2 if last >= 0 or texts else 0,
        sum(1 for each in applied if markers.get(each.record.checkpoint_id)),
    )


def _retired_marker(adapter: Adapter, body: bytes, items: Sequence[Item], gone: Sequence[int]) -> bytes:
    for index in reversed(gone):
        item = items[index]
        if item.flags & ItemFlag.MARKED:
            found = adapter.last_marker(body, item.start, item.end)
            if found:
                return found
    return b""


_Run = list["_Kept | _Text"]


def _runs(
    adapter: Adapter,
    body: bytes,
    items: Sequence[Item],
    parts: Sequence[Part],
    gone: set[int],
    trims: Mapping[int, tuple[int, ...]],
    texts: Mapping[int, list[_Text]],
) -> list[_Run]:
    """Elements of the finished history; those that become one item stand in one run."""
    runs: list[_Run] = []

    def joins(element: _Kept | _Text) -> bool:
        if isinstance(element, _Text):
            return element.role == Role.USER
        if element.span is None or items[element.at].role != Role.USER:
            return False
        return element.at in trims or not holds_results(items[element.at], parts)

    def add(element: _Kept | _Text) -> None:
        if adapter.merges_users and runs and not natural and joins(runs[-1][-1]) and joins(element):
            runs[-1].append(element)
        else:
            runs.append([element])

    natural = True  # the element to come follows the one before as it did
    for text in texts.get(-1, ()):
        add(text)
        natural = False
    for index in range(len(items)):
        if index in gone:
            natural = False
        else:
            at_joint = not natural or index + 1 in gone or index in texts or index in trims
            span = adapter.content_span(body, items[index]) if at_joint and items[index].role == Role.USER else None
            add(_Kept(index, span, _inner(span, trims.get(index, ()))))
            natural = True
        for text in texts.get(index, ()):
            natural = False
            add(text)
    return runs


def _inner(span: ContentSpan | None, leaving: Sequence[int]) -> tuple[int, int]:
    if span is None:
        return (0, 0)
    stay = [element for at, element in enumerate(span.elements) if at not in leaving]
    if not stay:
        raise LayoutError("nothing would stay of an item that keeps something")
    return stay[0][0], stay[-1][1]


class _Writer:
    """Turns runs into edits on the body."""

    def __init__(self, adapter: Adapter, body: bytes, items: Sequence[Item]) -> None:
        """Nothing written."""
        self._adapter = adapter
        self._body = body
        self._items = items
        self._wrap = tuple(adapter.wrap_string(b'""').split(b'""', 1))
        self.edits: list[tuple[Edit, int]] = []
        self.places = [-1] * len(items)
        self.texts: list[bytes] = []
        self.count = 0

    def write(self, runs: list[_Run]) -> None:
        """All edits, in order."""
        items = self._items
        waiting: list[bytes] = []  # texts that are items of their own, since the item that was kept last
        last = -1  # index of that item
        for place, run in enumerate(runs):
            kept = [element for element in run if isinstance(element, _Kept)]
            self.texts += [spell(element.text, PLAIN) for element in run if isinstance(element, _Text)]
            if not kept:
                waiting.append(self._text_item([element for element in run if isinstance(element, _Text)]))
                continue
            self._gap(last, kept[0].at, waiting)
            waiting = []
            if len(run) > 1 or self._is_trimmed(kept[0]):
                self._join(run, kept)
            for element in kept:
                self.places[element.at] = place
            last = kept[-1].at
        self.count = len(runs)
        if waiting or last != len(items) - 1:
            self._end(last, waiting)

    def _text_item(self, texts: Sequence[_Text]) -> bytes:
        """Texts that are one item of their own."""
        first = texts[0]
        item = self._adapter.text_item(first.text, first.role, first.marker, PLAIN)
        if len(texts) == 1:
            return item
        span = self._adapter.content_span(item, Item(0, len(item), first.role, 0, 0, 0, 0, 0, 0, 0))
        if span is None:
            raise LayoutError("an item of texts alone has no content to add to")
        blocks = b",".join(self._adapter.text_part(text.text, text.marker, PLAIN) for text in texts)
        return item[: span.start] + b"[" + blocks + b"]" + item[span.end :]

    def _separator(self, index: int) -> bytes:
        """What stands behind an item, before the next."""
        items = self._items
        index = max(index, 0)
        return self._body[items[index].end : items[index + 1].start] if index + 1 < len(items) else b","

    def _gap(self, last: int, index: int, waiting: Sequence[bytes]) -> None:
        """Between two items that stay."""
        if last + 1 == index and not waiting:
            return
        separator = self._separator(last)
        data = b"".join(separator + text for text in waiting)
        if last < 0:
            start, data = self._items[0].start, b"".join(text + separator for text in waiting)
        else:
            start, data = self._items[last].end, data + separator
        self._edit(start, self._items[index].start, data, max(last, 0) if last + 1 == index else index - 1)

    def _end(self, last: int, waiting: Sequence[bytes]) -> None:
        """Behind the last item that stays."""
        items = self._items
        separator = self._separator(last) if last + 1 < len(items) else self._separator(max(last - 1, 0))
        if last < 0:
            self._edit(items[0].start, items[-1].end, separator.join(waiting), 0)
        else:
            self._edit(items[last].end, items[-1].end, b"".join(separator + text for text in waiting), len(items) - 1)

    def _is_trimmed(self, kept: _Kept) -> bool:
        span = kept.span
        return span is not None and kept.inner != (span.elements[0][0], span.elements[-1][1])

    def _join(self, run: _Run, kept: Sequence[_Kept]) -> None:
        """Make one item of a run: that of its first kept item, with the blocks of all in order."""
        body, items = self._body, self._items
        first = kept[0]
        opened = closed = b""  # of the kept element before
        blocks: list[bytes] = []  # texts since then
        before: _Kept | None = None
        for element in run:
            if isinstance(element, _Text):
                blocks.append(self._adapter.text_part(element.text, element.marker, PLAIN))
                continue
            opened = self._wrap[0] if element.span is not None and element.span.is_string else b""
            middle = b"".join(b"," + block for block in blocks)
            if before is None:
                start = element.span.start if element.span is not None else element.inner[0]
                self._edit(start, element.inner[0], b"[" + b"".join(block + b"," for block in blocks) + opened, element.at)
            else:
                self._edit(before.inner[1], element.inner[0], closed + middle + b"," + opened, before.at)
            closed = self._wrap[1] if opened else b""
            blocks, before = [], element
        if before is None or first.span is None:
            return
        tail = body[first.span.end : items[first.at].end]
        data = closed + b"".join(b"," + block for block in blocks) + b"]" + tail
        self._edit(before.inner[1], items[before.at].end, data, before.at)

    def _edit(self, start: int, end: int, data: bytes, item: int) -> None:
        if self._body[start:end] != data:
            self.edits.append((Edit(start, end, data), item))
