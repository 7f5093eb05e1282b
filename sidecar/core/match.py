"""Whose item is it: which raw item of the session each item of a body is.

An agent may keep its raw history and send it each time, or adopt the fitted body; both work, also mixed. A body is aligned with
the session's current branch in order, leftmost: by raw items and by items as they were sent. What matches nothing there is
looked for among the session's other items (an older branch comes back), else it is new. Identity is the digest of the canonical
form; the looser form counts only at the very position where an item is expected.

Pure: no I/O. What must change together: `Known.add_*` with `engine/session.py`, which keeps it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

__all__ = ["Alignment", "Known", "Matched", "align"]


class Matched(NamedTuple):
    """One item of a body."""

    number: int  # of the raw item; -1: new
    record_count: int  # how many of the item's records, in order of commit, are already in it; 0: it is raw


class Alignment(NamedTuple):
    """A whole body against the session."""

    items: list[Matched]  # from the first item on
    matched_count: int
    new_count: int
    diverged_at: int | None  # first position of the branch that the body contradicts or leaves out
    numbers_reused: bool  # an item of another branch came back
    replaced: bool = False  # an item that only closed what a crash interrupted is not in the body: a real one is, or none


class Known:
    """Forms in which each raw item of a session may come. Grows, never shrinks."""

    __slots__ = ("_by_form", "forms", "loose")

    def __init__(self) -> None:
        """Nothing known."""
        self.forms: list[dict[bytes, int]] = []  # by number: digest -> record_count, the raw form (0) included
        self.loose: list[dict[bytes, int]] = []
        self._by_form: dict[bytes, list[int]] = {}  # digest -> numbers, ascending

    def add_item(self, digest: bytes, loose: bytes) -> int:
        """A new raw item; returns its number."""
        number = len(self.forms)
        self.forms.append({digest: 0})
        self.loose.append({loose or digest: 0})
        self._by_form.setdefault(digest, []).append(number)
        return number

    def add_form(self, number: int, record_count: int, digest: bytes, loose: bytes) -> None:
        """A form in which a known item was sent; the same digest again keeps the larger count."""
        known = self.forms[number]
        if digest not in known:
            insort(self._by_form.setdefault(digest, []), number)  # whatever the order in which forms were sent or are loaded
        known[digest] = max(record_count, known.get(digest, 0))
        table = self.loose[number]
        table[loose or digest] = max(record_count, table.get(loose or digest, 0))

    def numbers(self, digest: bytes) -> Sequence[int]:
        """Items that may come in this form."""
        return self._by_form.get(digest, ())


def align(
    known: Known,
    branch: Sequence[int],
    count: int,
    digest_of: Callable[[int], tuple[bytes, bytes]],
    taken: Sequence[Matched] = (),
    own: Callable[[int], bool] = lambda number: True,
    renewed: Callable[[int, int], bool] = lambda index, number: False,
    closing: Collection[int] = (),
) -> Alignment:
    """Align a body's items with a branch. O(items) but for repeats, which cost a binary search.

    Args:
        known: forms of the session's items.
        branch: numbers of the current branch, oldest first.
        count: items in the body.
        digest_of: strict and loose digest of the body's item at an index; the loose one empty when it is the same. Called for
            items past `taken` only, at most once each.
        taken: leading items that are byte-equal to the leading items of the branch; their matches.
        own: whether an item off the branch is of the body's dialect; others never match.
        renewed: whether the body's item at an index is a new text of the branch's item of that number: a system item
            that carries the time, say. It takes that item's place, and the history goes on.
        closing: numbers of items that only close what a crash interrupted: a body that lacks them holds the branch.

    Returns:
        One match for each item; `diverged_at` is None when the body holds the whole branch, in order, and only adds behind it.
    """
    items: list[Matched] = list(taken)
    used: set[int] | None = None  # numbers in items; made, as positions are, when something does not match as expected
    expected = len(items)
    diverged: int | None = None
    positions: dict[int, int] | None = None
    new = 0
    reused = replaced = False
    end = len(branch)
    unmatched = 0  # items since the last match: an edited item stands where the branch has another

    for index in range(len(items), count):
        strict, loose = digest_of(index)
        if closing and expected < end and branch[expected] in closing and _form(known, branch[expected], strict, loose) is None:
            replaced = True
            goes_on = _behind(known, branch, expected + 1, closing, strict, loose)
            if goes_on >= 0:
                expected = goes_on
            elif _later(known.numbers(strict), positions := positions or _places(branch), expected) is None:
                # One item, a real result most often, stands for one closing item.
                used = {match.number for match in items} if used is None else used
                number = _elsewhere(known.numbers(strict), used, positions, closing, own)
                new += number < 0
                reused = reused or number >= 0
                used.add(number)
                items.append(Matched(number, known.forms[number][strict] if number >= 0 else 0))
                expected += 1
                continue
        if expected < end:
            number = branch[expected]
            record_count = known.forms[number].get(strict)
            if record_count is None:
                record_count = known.loose[number].get(loose or strict)
            if record_count is not None:
                items.append(Matched(number, record_count))
                if used is not None:
                    used.add(number)
                expected += 1
                unmatched = 0
                continue
        candidates = known.numbers(strict)
        if expected == end and not candidates:  # new at the end, as nearly always
            new += 1
            items.append(Matched(-1, 0))
            continue
        if used is None or positions is None:
            used = {match.number for match in items}
            positions = _places(branch)
        if expected < end:
            number = branch[expected]
            later = _later(candidates, positions, expected)
            aligned = expected + unmatched
            record_count = None
            if later is not None:
                record_count = known.forms[branch[later]][strict]
            elif unmatched and aligned < end:
                later, record_count = aligned, known.loose[branch[aligned]].get(loose or strict)
            if later is not None and record_count is not None:
                if diverged is None:
                    diverged = expected
                items.append(Matched(branch[later], record_count))
                used.add(branch[later])
                expected = later + 1
                unmatched = 0
                continue
            if renewed(index, number):
                again = next((n for n in candidates if n not in used and n not in positions and own(n)), -1)
                new += again < 0
                reused = reused or again >= 0
                used.add(again)
                items.append(Matched(again, 0))
                expected += 1
                continue
            if diverged is None:
                diverged = expected
        unmatched += 1
        number = _elsewhere(candidates, used, positions, closing, own)
        if number < 0:
            new += 1
            items.append(Matched(-1, 0))
        else:
            reused = True
            used.add(number)
            items.append(Matched(number, known.forms[number][strict]))
    while expected < end and branch[expected] in closing:
        expected += 1
        replaced = True
    if diverged is None and expected < end:
        diverged = expected
    return Alignment(items, count - new, new, diverged, reused, replaced)


def _places(branch: Sequence[int]) -> dict[int, int]:
    return {number: position for position, number in enumerate(branch)}


def _form(known: Known, number: int, strict: bytes, loose: bytes) -> int | None:
    """How many of an item's records are in it as it came here, where it is expected. None: it is another item."""
    found = known.forms[number].get(strict)
    return known.loose[number].get(loose or strict) if found is None else found


def _behind(known: Known, branch: Sequence[int], at: int, closing: Collection[int], strict: bytes, loose: bytes) -> int:
    """Where the branch goes on with this item, from `at` on, over closing items only; -1 when it does not."""
    while at < len(branch):
        if _form(known, branch[at], strict, loose) is not None:
            return at
        if branch[at] not in closing:
            break
        at += 1
    return -1


def _elsewhere(
    candidates: Sequence[int],
    used: Collection[int],
    positions: Mapping[int, int],
    closing: Collection[int],
    own: Callable[[int], bool],
) -> int:
    """An item off the branch, or a closing one that the body had not where it was; -1 when there is none."""
    return next((n for n in candidates if n not in used and (n not in positions or n in closing) and own(n)), -1)


def _later(numbers: Sequence[int], positions: dict[int, int], expected: int) -> int | None:
    """Leftmost position on the branch, at or after `expected`, of any of these items."""
    places = sorted(positions[number] for number in numbers if number in positions)
    at = bisect_left(places, expected)
    return places[at] if at < len(places) else None
