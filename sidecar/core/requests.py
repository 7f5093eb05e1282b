"""States of user requests: open, answered, or done. Pure.

A request is a user item that holds text of a person; one that holds only results is none. What follows it, up to the next
request, is its span. Requests with nothing of the assistant between them were asked together, in however many items the dialect
writes them: they have one span.

Answered: the span ends with a text of the assistant. A call after the last text means that the work was not at its end, so the
request is open. Answered says nothing about success: "shall I go on?" answers.

Done: only because the agent says so. A work item in state DONE counts that names the request itself in its evidence, or names
something in the request's own span whose calls all have a receipt in state SETTLED. While other work that names the request
is not done, neither is the request. Nothing else ever makes it done.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence

from fastpath import Item, Kind, Part, Role
from sidecar.core.facts import REQUEST_TEXT_BYTES, RequestFact, item_text
from sidecar.core.foreign import cut_text
from sidecar.core.types import Anchors, EffectState, ReceiptRecord, Source, WorkItem, WorkState
from sidecar.core.units import Call, Unit

__all__ = ["request_states"]

_UNFINISHED = (WorkState.OPEN, WorkState.IN_PROGRESS, WorkState.BLOCKED)


def request_states(
    body: bytes,
    items: Sequence[Item],
    parts: Sequence[Part],
    units: Sequence[Unit],
    numbers: Sequence[int],
    receipts: Mapping[tuple[int, int], ReceiptRecord],
    anchors: Anchors,
    is_summary: Callable[[int], bool],
) -> tuple[RequestFact, ...]:
    """States of all requests of a body, oldest first. O(bytes of user items, and of assistant items that end a span).

    Args:
        body: unfolded.
        items: all its items.
        parts: all its parts.
        units: all its units.
        numbers: of its items.
        receipts: the newest of each call, by (number, call_index).
        anchors: in force.
        is_summary: of an item's index: the item is a summary or a pointer of ours, so nobody's request and nobody's answer.
    """
    asked = [
        (at, text)
        for at, item in enumerate(items)
        if item.role == Role.USER and not is_summary(at) and (text := item_text(body, item, parts))
    ]
    if not asked:
        return ()
    groups = _groups([at for at, _ in asked], items, is_summary)
    ends = [group[0] for group in groups[1:]] + [len(items)]
    answers = {}
    for group, end in zip(groups, ends, strict=True):
        answers.update(dict.fromkeys(group, _answer(body, items, parts, group[-1] + 1, end, is_summary)))
    done = _done_by(groups, ends, _Evidence(units, parts, numbers, receipts), anchors.work)
    last = asked[-1][0]
    return tuple(
        RequestFact(at, cut_text(text, REQUEST_TEXT_BYTES), answers[at], done.get(at, ""), at == last) for at, text in asked
    )


def _groups(asked: Sequence[int], items: Sequence[Item], is_summary: Callable[[int], bool]) -> list[list[int]]:
    """Requests that were asked together."""
    groups = [[asked[0]]]
    for before, at in zip(asked, asked[1:], strict=False):
        if any(items[i].role == Role.ASSISTANT and not is_summary(i) for i in range(before + 1, at)):
            groups.append([at])
        else:
            groups[-1].append(at)
    return groups


def _answer(
    body: bytes, items: Sequence[Item], parts: Sequence[Part], start: int, end: int, is_summary: Callable[[int], bool]
) -> int:
    """The item whose text ends the span [start, end); -1 when a call does, or nothing."""
    for at in range(end - 1, start - 1, -1):
        item = items[at]
        if item.role != Role.ASSISTANT or is_summary(at):
            continue
        own = parts[item.first_part : item.first_part + item.part_count]
        if any(part.kind == Kind.CALL for part in own):
            return -1
        text = item_text(body, item, parts)
        served = max((part.start for part in own if part.kind == Kind.SERVER_CALL), default=-1)
        # The provider's own tools run inside the answer: a text may follow them in the same item.
        if text and (served < 0 or any(part.kind == Kind.TEXT and part.start > served for part in own)):
            return at
        if served >= 0:
            return -1
    return -1


class _Evidence:
    """What sources name, and whether receipts back it."""

    def __init__(
        self,
        units: Sequence[Unit],
        parts: Sequence[Part],
        numbers: Sequence[int],
        receipts: Mapping[tuple[int, int], ReceiptRecord],
    ) -> None:
        self._receipts = receipts
        self._numbers = numbers
        self._index_of = {number: at for at, number in enumerate(numbers)}
        self._at: dict[int, list[Call]] = {}
        for unit in units:
            for call in unit.calls:
                for at in {call.item, *(parts[index].item for index in call.results)}:
                    self._at.setdefault(at, []).append(call)

    def index_of(self, source: Source) -> int:
        """The item that a source names; -1 for none of this body."""
        number = source.number if source.call is None else source.call.number
        return -1 if number is None else self._index_of.get(number, -1)

    def settled(self, source: Source) -> bool:
        """Whether all calls that a source names have receipts that say that they happened."""
        calls = self._at.get(self.index_of(source), [])
        if source.call is not None:
            calls = [call for call in calls if (call.item, call.call_index) == (self.index_of(source), source.call.call_index)]
        return bool(calls) and all(self._is_settled(call) for call in calls)

    def _is_settled(self, call: Call) -> bool:
        receipt = self._receipts.get((self._numbers[call.item], call.call_index))
        return receipt is not None and receipt.state is EffectState.SETTLED


def _done_by(groups: Sequence[list[int]], ends: Sequence[int], evidence: _Evidence, work: Sequence[WorkItem]) -> dict[int, str]:
    """By request: the first work item that says that it is done."""
    starts = [group[0] for group in groups]
    requests = {at for group in groups for at in group}
    done: dict[int, str] = {}
    unfinished: set[int] = set()

    def named(source: Source) -> tuple[int, ...]:
        """Requests that a source names, itself or by what stands in their span."""
        at = evidence.index_of(source)
        if at in requests:
            return (at,) if source.call is None else ()
        which = bisect_right(starts, at) - 1
        return tuple(groups[which]) if which >= 0 and at < ends[which] else ()

    for entry in work:
        for source in entry.evidence:
            about = named(source)
            if entry.state in _UNFINISHED:
                unfinished.update(about)
            elif entry.state is WorkState.DONE:
                itself = evidence.index_of(source) in requests
                # Of several requests with one span it is not known which the evidence is for.
                if itself or (len(about) == 1 and evidence.settled(source)):
                    for at in about:
                        done.setdefault(at, entry.id)
    return {at: id for at, id in done.items() if at not in unfinished}
