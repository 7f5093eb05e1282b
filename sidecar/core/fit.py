"""When Fit cuts and what: the ladder, planned in one pass, oldest first, so that a cached prefix is broken once.

Steps, each down to the target: 1. results over the externalize limit, in the first call in which their unit is settled,
wherever they stand; 2. outside the tail: settled results and media; 3. only if still over: large arguments of settled calls,
and reasoning, a whole turn's at a time and only where the dialect lets it go; 4. only for a hard limit, or when the tail alone
is over the target: results in the tail, largest first, with a preview.

Never: system, developer and user text, the newest user media, unsettled units, pinned calls and tools, the read-back tool's
output while in the tail, a part that carries a signature. Media leave on step 2 at the earliest: on arrival they have not been
seen yet.

Pure: what a candidate becomes is built by a callback; no I/O, no clock. Cutting goes on past the target until min_saving is
reached: few, deep cuts are the cheaper ones, and a body over its limit is not left there because the limit is near.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

import msgspec

from fastpath import Item, Kind, Part, Role
from sidecar.core.cuts import (
    Built,
    Candidate,
    argument_candidates,
    media_candidates,
    reasoning_candidates,
    result_candidates,
)
from sidecar.core.limits import EARLY_MIN_SAVING_BYTES, Effective
from sidecar.core.retirable import Sums, retirable
from sidecar.core.types import Path, ReductionKind
from sidecar.core.units import Call, Unit, current_reasoning
from sidecar.formats.base import Adapter

__all__ = ["Blocked", "FitPlan", "FitView", "blockers", "plan_fit", "tail_start"]

MIN_REASONING_BYTES = 64
BLOCKER_MIN_BYTES = 1024
BLOCKER_COUNT = 16


class FitView(NamedTuple):
    """A body as the ladder sees it. Nothing in it is mutated."""

    adapter: Adapter
    body: bytes
    items: Sequence[Item]
    parts: Sequence[Part]
    units: Sequence[Unit]  # oldest first, settled or not
    limits: Effective
    base_bytes: int  # the body with all applicable records applied
    cut_spans: dict[int, int]  # bytes that applied records save, by item
    taken: dict[int, set[Path]]  # by item: paths, as they stand in the body, that records replaced
    fresh: Collection[int]  # items that are in a body for the first time, or whose receipts changed now
    pinned: Callable[[Call], bool]
    own_read: Callable[[Call], bool]  # a call of the read-back tool
    cache_lost: bool
    floor_bytes: int
    can_cut: bool  # a stub could be followed
    build: Callable[[Candidate, bool], Built | None]  # with preview or not
    envelope_bytes: tuple[int, int]  # system, tools
    sums: Sums | None = None  # of all units, as the body is with the records applied; None: not at hand
    gone: Collection[int] = ()  # items that a checkpoint covers: what is left at one is a summary


class Blocked(NamedTuple):
    """Something large that stays."""

    item: int
    size_bytes: int
    reason: str


class FitPlan(msgspec.Struct):
    """What is to be cut."""

    cuts: list[Built]
    size_bytes: int  # of the body after them, but for white space around removed elements
    over_target: bool  # a pressure cut was made and ended above its target
    pressure_cut: bool
    unit_count: int  # settled units outside the tail
    range_bytes: int  # that they take after the cuts


def tail_start(view: FitView) -> tuple[int, int]:
    """The tail: index of its first unit, and of its first item."""
    units = view.units
    first = max(len(units) - view.limits.keep_unit_count, 0)
    if view.limits.keep_result_bytes > 0:
        kept = 0
        by_result = len(units)
        while by_result > 0 and kept < view.limits.keep_result_bytes:
            by_result -= 1
            for call in units[by_result].calls:
                kept += sum(view.parts[index].end - view.parts[index].start for index in call.results)
        first = min(first, by_result)
    return first, units[first].first if first < len(units) else len(view.items)


def _text_bytes(view: FitView, index: int) -> int:
    """Bytes of a result, media inside apart."""
    part = view.parts[index]
    item = view.items[part.item]
    size = item.end - item.start if item.role == Role.RESULT else part.end - part.start
    for inner in range(index + 1, item.first_part + item.part_count):
        other = view.parts[inner]
        if other.start >= part.end:
            break
        if other.kind == Kind.MEDIA:
            size -= other.end - other.start
    return size


def _results(view: FitView, unit: Unit, kind: ReductionKind) -> Iterator[tuple[int, Candidate]]:
    """Candidates of a unit's results, with the index of their result part."""
    for call in unit.calls:
        if view.pinned(call):
            continue
        for index in call.results:
            taken = view.taken.get(view.parts[index].item, set())
            for candidate in result_candidates(view.body, view.items, view.parts, index, call, taken):
                yield index, candidate._replace(kind=kind)


def _arrivals(view: FitView) -> list[Built]:
    """Step 1."""
    limit = view.limits.externalize_bytes
    cuts: list[Built] = []
    if limit <= 0 or not view.fresh:
        return cuts
    oldest = min(view.fresh)
    first = bisect_right(view.units, oldest, key=lambda unit: unit.reach)
    for unit in view.units[first:]:
        if not unit.settled or not _is_fresh(view, unit):
            continue
        for index, candidate in _results(view, unit, ReductionKind.EXTERNALIZE):
            if _text_bytes(view, index) <= limit or candidate.call is None or view.own_read(candidate.call):
                continue
            built = view.build(candidate, True) or view.build(candidate, False)
            if built is not None:
                cuts.append(built)
    return cuts


def _is_fresh(view: FitView, unit: Unit) -> bool:
    """Something of a unit itself is new. Others may stand between its items, where a result came late."""
    if not any(at in view.fresh for at in range(unit.first, unit.end)):
        return False
    results = (view.parts[index].item for call in unit.calls for index in call.results)
    return any(at in view.fresh for at in (*unit.turn, *results))


def _old_content(view: FitView, first_tail: int, tail_item: int) -> list[Candidate]:
    """Step 2: settled results and media outside the tail, in order of position."""
    found: list[Candidate] = []
    owners: dict[int, Call] = {}
    free: set[int] = set()  # result parts whose content may go
    for unit in view.units[:first_tail]:
        for call in unit.calls:
            for index in call.results:
                owners[index] = call
                if unit.settled and not call.server and not view.pinned(call):
                    free.add(index)
        if unit.settled:
            found.extend(candidate for _, candidate in _results(view, unit, ReductionKind.RESULT))
    newest_user_media = max(
        (
            part.item
            for part in view.parts
            if part.kind == Kind.MEDIA and part.parent < 0 and view.items[part.item].role == Role.USER
        ),
        default=-1,
    )
    with_media = sorted({part.item for part in view.parts if part.kind == Kind.MEDIA and part.item < tail_item})
    for at in with_media:
        taken = view.taken.get(at, set())
        for candidate in media_candidates(view.adapter, view.body, view.items, view.parts, at, owners.get):
            owner = _owner_part(view, candidate)
            if candidate.path in taken or any(candidate.path[: len(path)] == path for path in taken):
                continue
            if owner >= 0 and owner in free or owner < 0 and view.items[at].role == Role.USER and at != newest_user_media:
                found.append(candidate)
    found.sort(key=lambda candidate: candidate.start)
    return found


def _owner_part(view: FitView, candidate: Candidate) -> int:
    """Index of the result part that a medium stands in, -1 when in none."""
    item = view.items[candidate.item]
    for index in range(item.first_part, item.first_part + item.part_count):
        part = view.parts[index]
        if part.kind == Kind.RESULT and part.start <= candidate.start and candidate.end <= part.end:
            return index
    return -1


def _old_calls(view: FitView, first_tail: int) -> Iterator[list[Candidate]]:
    """Step 3: arguments, each by itself, and reasoning, a turn's together; oldest unit first."""
    current = current_reasoning(view.adapter.reasoning, view.items, view.parts)
    for unit in view.units[:first_tail]:
        if not unit.settled:
            continue
        for call in unit.calls:
            if view.pinned(call):
                continue
            taken = view.taken.get(call.item, set())
            for candidate in argument_candidates(view.body, view.items, call, taken):
                yield [candidate]
        if not unit.reasoning or unit.turn[-1] >= current or any(view.pinned(call) for call in unit.calls):
            continue
        together = reasoning_candidates(view.adapter, view.body, view.items, view.parts, unit.reasoning)
        together = [c for c in together if c.path not in view.taken.get(c.item, set())]
        if sum(c.end - c.start for c in together) >= MIN_REASONING_BYTES:
            yield together


def _has_results(view: FitView, item: Item) -> bool:
    return any(view.parts[index].kind == Kind.RESULT for index in range(item.first_part, item.first_part + item.part_count))


def _recent(view: FitView, first_tail: int) -> list[Candidate]:
    """Step 4: results in the tail, largest first."""
    found: list[Candidate] = []
    for unit in view.units[first_tail:]:
        if unit.settled:
            found.extend(
                candidate
                for _, candidate in _results(view, unit, ReductionKind.RECENT_RESULT)
                if candidate.call is not None and not view.own_read(candidate.call)
            )
    found.sort(key=lambda candidate: (candidate.start - candidate.end, candidate.start))
    return found


def plan_fit(view: FitView) -> FitPlan:
    """Choose what leaves the body. O(items) when nothing is over a limit.

    Returns:
        Cuts in the order in which they were chosen; none when what they free is under the minimum and no hard limit is at stake
        (externalizing on arrival needs no minimum).
    """
    limits = view.limits
    first_tail, tail_item = tail_start(view)
    cuts = _arrivals(view) if view.can_cut else []
    size = view.base_bytes - sum(cut.saved_bytes for cut in cuts)
    for_hard = limits.hard_bytes is not None and size > limits.hard_bytes
    resting = view.floor_bytes > 0 and size < view.floor_bytes + (limits.soft_bytes - limits.target_bytes) // 2
    for_soft = size > limits.soft_bytes and not resting
    early = view.cache_lost and limits.cuts_early and size > limits.early_bytes and not resting
    pressure: list[Built] = []
    target = limits.target_bytes if limits.hard_bytes is None else min(limits.target_bytes, limits.hard_bytes)
    if view.can_cut and (for_hard or for_soft or early):
        least = limits.min_saving_bytes if for_soft else EARLY_MIN_SAVING_BYTES if early else 0
        pressure = _descend(view, first_tail, tail_item, size, target, least, for_hard, cuts)
        if limits.hard_bytes is not None and for_hard:
            over = size - sum(cut.saved_bytes for cut in pressure) - limits.hard_bytes
            over -= _drop_previews(view, pressure, over)
            size -= _drop_previews(view, cuts, over)
        saved = sum(cut.saved_bytes for cut in pressure)
        after = size - saved
        enough = (for_soft and saved >= limits.min_saving_bytes) or (early and saved >= EARLY_MIN_SAVING_BYTES)
        rescues = limits.hard_bytes is not None and for_hard and (after <= limits.hard_bytes or saved >= limits.min_saving_bytes)
        if not (saved > 0 and (enough or rescues)):
            pressure = []
    cuts.extend(pressure)
    size = view.base_bytes - sum(cut.saved_bytes for cut in cuts)
    if view.sums is not None and not cuts:
        unit_count, range_bytes = view.sums.counts[first_tail], view.sums.sizes[first_tail]
    else:
        saved_at: dict[int, int] = dict(view.cut_spans)
        for cut in cuts:
            saved_at[cut.candidate.item] = saved_at.get(cut.candidate.item, 0) + cut.saved_bytes
        unit_count, range_bytes = retirable(view.units[:first_tail], view.items, view.parts, saved_at)
    return FitPlan(cuts, size, bool(pressure) and size > target, bool(pressure), unit_count, range_bytes)


def _drop_previews(view: FitView, cuts: list[Built], over_bytes: int) -> int:
    """Write stubs without their previews, in place, until that many bytes more are free. Returns how many are."""
    freed = 0
    for index, cut in enumerate(cuts):
        if freed >= over_bytes:
            break
        if cut.candidate.kind in (ReductionKind.RECENT_RESULT, ReductionKind.EXTERNALIZE):
            short = view.build(cut.candidate, False)
            if short is not None and short.saved_bytes > cut.saved_bytes:
                freed += short.saved_bytes - cut.saved_bytes
                cuts[index] = short
    return freed


def _descend(
    view: FitView,
    first_tail: int,
    tail_item: int,
    size: int,
    target: int,
    least: int,
    for_hard: bool,
    arrivals: Sequence[Built],
) -> list[Built]:
    """Steps 2 to 4, until the body is at its target and at least `least` came free."""
    arrived = {(cut.candidate.item, cut.candidate.path) for cut in arrivals}
    chosen: list[Built] = []
    saved = 0

    def done() -> bool:
        return size - saved <= target and saved >= least

    def take(candidates: list[Candidate], with_preview: bool) -> None:
        nonlocal saved
        if any((c.item, c.path) in arrived for c in candidates):
            return
        built = [view.build(candidate, with_preview) for candidate in candidates]
        made = [each for each in built if each is not None]
        if len(made) == len(candidates):
            chosen.extend(made)
            saved += sum(each.saved_bytes for each in made)

    for candidate in _old_content(view, first_tail, tail_item):
        if done():
            return chosen
        take([candidate], False)
    for together in _old_calls(view, first_tail):
        if done():
            return chosen
        take(together, False)
    tail_bytes = sum(item.end - item.start for item in view.items[tail_item:])
    tail_bytes -= sum(saved_bytes for at, saved_bytes in view.cut_spans.items() if at >= tail_item)
    tail_bytes -= sum(cut.saved_bytes for cut in arrivals if cut.candidate.item >= tail_item)

    def over_hard() -> bool:
        return view.limits.hard_bytes is not None and size - saved > view.limits.hard_bytes

    if (for_hard and over_hard()) or tail_bytes > target:
        left: list[Candidate] = []
        for candidate in _recent(view, first_tail):
            if done():
                return chosen
            before = len(chosen)
            take([candidate], True)
            if len(chosen) == before:
                left.append(candidate)
        # Too short for a preview: only what brings the body under a hard limit.
        for candidate in left:
            if not (for_hard and over_hard()):
                return chosen
            take([candidate], False)
    return chosen


def blockers(view: FitView, plan: FitPlan) -> list[Blocked]:
    """What is large and stays, largest first; where nothing is large, the largest."""
    first_tail, tail_item = tail_start(view)
    unsettled: set[int] = set()
    pinned: set[int] = set()
    for unit in view.units:
        for call in unit.calls:
            touched = {call.item, *(view.parts[index].item for index in call.results)}
            if not unit.settled:
                unsettled |= touched
            if view.pinned(call):
                pinned |= touched
    saved: dict[int, int] = dict(view.cut_spans)
    for cut in plan.cuts:
        saved[cut.candidate.item] = saved.get(cut.candidate.item, 0) + cut.saved_bytes
    found = [Blocked(-1, size, reason) for size, reason in zip(view.envelope_bytes, ("SYSTEM", "TOOLS"), strict=True) if size]
    for at, item in enumerate(view.items):
        size = item.end - item.start - saved.get(at, 0)
        if at in view.gone:
            reason = "SUMMARY"
        elif at in unsettled:
            reason = "UNSETTLED"
        elif at in pinned:
            reason = "PINNED"
        elif item.role in (Role.USER, Role.SYSTEM) and not _has_results(view, item):
            reason = "USER_MEDIA" if item.media_bytes * 2 > size else "USER_TEXT" if item.role == Role.USER else "SYSTEM_TEXT"
        elif at >= tail_item:
            reason = "PROTECTED_TAIL"
        elif item.reasoning_bytes * 2 > size:
            reason = "REASONING"
        elif not view.can_cut:
            reason = "NO_READ_BACK"
        elif item.role == Role.ASSISTANT and not item.call_bytes:
            reason = "ASSISTANT_TEXT"
        else:
            reason = "NOTHING_LARGE"
        found.append(Blocked(at, size, reason))
    found.sort(key=lambda each: (-each.size_bytes, each.item))
    found = [each for each in found[:BLOCKER_COUNT] if each.size_bytes >= BLOCKER_MIN_BYTES] or found[:1]
    if plan.pressure_cut or not any(each.reason == "NOTHING_LARGE" for each in found):
        return found
    free = _free_bytes(view, first_tail)
    return [
        each._replace(reason="LATER") if each.reason == "NOTHING_LARGE" and free.get(each.item, 0) * 2 > each.size_bytes else each
        for each in found
    ]


def _free_bytes(view: FitView, first_tail: int) -> dict[int, int]:
    """By item: bytes of what may leave outside the tail, where no cut was made because it was not yet worth one."""
    free: dict[int, int] = {}
    for unit in view.units[:first_tail]:
        if unit.settled:
            found = [candidate for _, candidate in _results(view, unit, ReductionKind.RESULT)]
            for call in unit.calls:
                found += argument_candidates(view.body, view.items, call, view.taken.get(call.item, set()))
            for candidate in found:
                size = candidate.end - candidate.start
                if size >= BLOCKER_MIN_BYTES:  # larger than any stub
                    free[candidate.item] = free.get(candidate.item, 0) + size
    return free
