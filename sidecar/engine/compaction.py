"""One compaction on one body: what to cover, what the summary says, and the finished body that decides whether it is kept.

Works on a planned `FitCall`: the body as Fit would leave it. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from fastpath import Role
from sidecar.core.branch import ranges_at
from sidecar.core.checkpoints import Applicable
from sidecar.core.compaction import CheckpointRecord, CompactMode, KeptReason, Trim
from sidecar.core.errors import InternalError
from sidecar.core.facts import RangeFacts, RequestFact, collect_facts
from sidecar.core.fit import tail_start
from sidecar.core.fold import LayoutError, fold, holds_results
from sidecar.core.foreign import fenced
from sidecar.core.layout import Layout, layouts
from sidecar.core.limits import MOST
from sidecar.core.projection import project
from sidecar.core.readback import READ_BACK_TOOL_NAME
from sidecar.core.requests import request_states
from sidecar.core.select import Selection, SelectView, select
from sidecar.core.summary import SummaryLabel, render_summary
from sidecar.core.types import Path, ReadBack
from sidecar.core.units import Unit
from sidecar.engine.left_behind import LeftBehind, left_behind
from sidecar.engine.reading import Reading
from sidecar.engine.shape import hold, with_tool
from sidecar.summarize.ledger import write_ledger

if TYPE_CHECKING:
    from sidecar.engine.fit_call import FitCall

__all__ = ["Built", "Compaction", "Kept", "Origin"]

MIN_LEDGER_BYTES = 600
MAX_SHRINKS = 3
SHRINK_BYTES = 64  # beyond what is over: escapes and counts of what was omitted differ
REDERIVE_FACTOR = 4
"""Live summaries that take more than so many times the summary limit are made anew from raw items."""


class Origin(NamedTuple):
    """Where a summary comes from."""

    attempt_id: str
    summarizer: str
    model: str
    boundary: str
    mode: CompactMode


class Kept(NamedTuple):
    """The history stays as it is."""

    reason: KeptReason
    detail: str
    after: Reading | None = None  # the body as it would have been


class Built(NamedTuple):
    """A checkpoint that may be committed."""

    record: CheckpointRecord
    finished: Reading
    left: Sequence[LeftBehind] = ()  # artifacts to be made with it


class Compaction:
    """A range of one body, and what is made of it."""

    def __init__(self, fit: FitCall) -> None:
        """Over a call of Fit that has planned; nothing of it is changed."""
        self.fit = fit
        self.notes: list[tuple[str, str]] = []
        folded = fit.projection.fold
        self._applied: list[Applicable] = [] if folded is None else folded.applied
        self.superseded: list[Applicable] = []
        self._ledger_bytes = 0  # of the ledger written last
        self._left: tuple[tuple[int, ...], list[LeftBehind]] | None = None

    # What leaves ------------------------------------------------------------------------------------------------------

    @property
    def summary_bytes(self) -> int:
        """What live summaries take."""
        return sum(len(each.record.summary.encode()) for each in self._applied)

    def too_many_summaries(self) -> bool:
        """Live summaries are past what a new one should join."""
        return self.summary_bytes > REDERIVE_FACTOR * self.fit.limits.summary_bytes

    def could_join(self, mode: CompactMode) -> bool:
        """There are live summaries that a new one would stand beside, and could take the place of."""
        return mode is not CompactMode.REDERIVE and bool(self._applied) and not self.superseded

    def choose(self, *, everything: bool, again: bool, target_bytes: int, busy: Collection[int] = ()) -> Selection:
        """Choose what leaves.

        Args:
            everything: all settled work before the tail, covered or not.
            again: what live checkpoints cover too, and from there on to the target.
            target_bytes: of the finished body.
            busy: numbers of items that another running attempt covers.
        """
        anew = list(self._applied) if everything or again else []
        while True:
            chosen = self._choose(anew, 0 if everything else target_bytes, busy)
            members = {*chosen.gone, *chosen.trims}
            within = [each for each in anew if members.issuperset(each.gone) and members.issuperset(each.trims)]
            if len(within) == len(anew):
                break
            anew = within
        self.superseded = anew
        return self._sound(chosen, anew, 0 if everything else target_bytes, busy)

    def again(self, wanted: Collection[int], superseding: Collection[str] = ()) -> Selection | None:
        """The units that hold just these items, by number. None where one of them may no longer retire.

        Where the tail begins does not matter: it did when they were chosen.

        Args:
            wanted: numbers of the items.
            superseding: checkpoints that this may take the place of, where it covers all of theirs. Any other covers for good.
        """
        numbers = self.fit.intake.numbers
        places = {at for at, number in enumerate(numbers) if number in wanted}
        self.superseded = [
            each
            for each in self._applied
            if each.record.checkpoint_id in superseding and places.issuperset(each.gone) and places.issuperset(each.trims)
        ]
        stays = [each for each in self._applied if each not in self.superseded]
        view = self._view(self.superseded, stays, -MOST, len(self.fit.intake.items))
        found = select(view, lambda unit: places.isdisjoint(unit.turn))
        if {*found.gone, *found.trims} != places or len(places) != len(wanted):
            return None
        return found if found.units and self._sound(found, self.superseded, -MOST, ()) is found else None

    def _choose(self, anew: Sequence[Applicable], target: int, busy: Collection[int], before: int | None = None) -> Selection:
        stays = [each for each in self._applied if each not in anew]
        view = self._view(anew, stays, target, tail_start(self.fit.view)[1])
        must = {at for each in anew for at in each.gone}
        if must and target:
            view = view._replace(target_bytes=min(target, self._size_without(view, must)))

        def skip(unit: Unit) -> bool:
            late = before is not None and unit.first >= before
            return late or any(self.fit.intake.numbers[at] in busy for at in range(unit.first, unit.end))

        return select(view, skip)

    def _view(self, anew: Sequence[Applicable], stays: Sequence[Applicable], target: int, tail_item: int) -> SelectView:
        """The body as selection sees it, with some checkpoints as if they were not."""
        fit, plan, intake = self.fit, self.fit.fit_plan, self.fit.intake
        saved = dict(fit.view.cut_spans)
        size_bytes = plan.size_bytes
        for each in anew:
            for at in each.gone:
                size_bytes += saved.pop(at, 0)
        for cut in plan.cuts:
            saved[cut.candidate.item] = saved.get(cut.candidate.item, 0) + cut.saved_bytes
        facts = RangeFacts((), (), self._requests(), fit.anchors)
        around = len(render_summary(SummaryLabel("c0", 0, 0, 0, self._lister()), facts, "", "").encode())
        return SelectView(
            adapter=fit.adapter,
            body=intake.body,
            items=intake.items,
            parts=intake.parts,
            units=intake.units,
            tail_item=tail_item,
            covered={at for each in stays for at in (*each.gone, *each.trims)},
            pinned=fit.view.pinned,
            saved=saved,
            size_bytes=size_bytes,
            target_bytes=target,
            added_bytes=around + fit.limits.summary_bytes,
        )

    def _size_without(self, view: SelectView, must: Collection[int]) -> int:
        """A target that makes selection go on at least until all of these are chosen."""
        freed = 0
        left = set(must)
        for unit in view.units:
            if not left:
                break
            own = {*unit.turn, *(view.parts[index].item for call in unit.calls for index in call.results)}
            freed += sum(view.items[at].end - view.items[at].start - view.saved.get(at, 0) + 1 for at in own)
            left -= own
        return view.size_bytes + view.added_bytes - freed

    def _sound(self, chosen: Selection, anew: Sequence[Applicable], target: int, busy: Collection[int]) -> Selection:
        """With thinking on, what follows in an open tool loop must begin with its thinking block, else less leaves."""
        fit, items, parts = self.fit, self.fit.intake.items, self.fit.intake.parts
        asked = max(
            (at for at, item in enumerate(items) if item.role == Role.USER and not holds_results(item, parts)), default=-1
        )
        while chosen.units:
            gone = set(chosen.gone)
            follows = next(
                (at for at in range(asked + 1, len(items)) if items[at].role == Role.ASSISTANT and at not in gone), len(items)
            )
            inside = any(asked < at < follows for at in gone)
            if not inside or follows == len(items):
                return chosen
            if fit.adapter.may_follow_summary(fit.intake.scan, (fit.intake.items, fit.intake.parts), follows):
                return chosen
            chosen = self._choose(anew, target, busy, chosen.units[-1].first)
        return chosen

    # What is said of it -----------------------------------------------------------------------------------------------

    def _requests(self) -> tuple[RequestFact, ...]:
        fit, intake = self.fit, self.fit.intake
        return request_states(
            intake.body,
            intake.items,
            intake.parts,
            intake.units,
            intake.numbers,
            fit.receipts,
            fit.anchors,
            lambda index: False,
        )

    def facts(self, units: Sequence[Unit]) -> RangeFacts:
        """What a summary of these units is made from."""
        fit, intake = self.fit, self.fit.intake

        left: dict[int, list[tuple[Path, str]]] = {}
        for each in self.left(units):
            left.setdefault(each.number, []).append((each.path, each.artifact.artifact_id))

        def artifacts(number: int) -> list[tuple[Path, str]]:
            out = [(record.path, record.artifact_id) for record in fit.session.records.get(number, ()) if record.artifact_id]
            return out + left.get(number, [])

        return collect_facts(
            intake.body,
            intake.items,
            intake.parts,
            intake.units,
            units,
            intake.numbers,
            fit.receipts,
            artifacts,
            fit.anchors,
            self._requests(),
            {each.artifact.artifact_id for each in self.left(units)},
        )

    def left(self, units: Sequence[Unit]) -> list[LeftBehind]:
        """What these units hold that could not be read back once they are covered. Nothing where nobody could follow."""
        key = tuple(unit.first for unit in units)
        if self._left is None or self._left[0] != key:
            self._left = (key, [] if self.fit.read_back is ReadBack.NONE else left_behind(self.fit, units))
        return self._left[1]

    def _lister(self) -> str:
        """Name of our tool, where the model has it: an agent's own does not know checkpoints."""
        fit = self.fit
        ours = fit.read_back in (ReadBack.TOOL, ReadBack.INJECT) and fit.read_tool == READ_BACK_TOOL_NAME
        return READ_BACK_TOOL_NAME if ours else ""

    # The finished body ------------------------------------------------------------------------------------------------

    @property
    def before(self) -> Reading:
        """The body as it would be sent without this compaction."""
        return self.fit.by_records()

    def build(self, selection: Selection, origin: Origin, notes: str) -> Built | Kept:
        """Make the checkpoint, and hold the finished body against what it must be."""
        facts = self.facts(selection.units)
        limits = self.fit.limits
        taken = len(fenced(notes).encode("utf-8", "replace")) if notes else 0
        room = max(limits.summary_bytes - taken, MIN_LEDGER_BYTES)
        found = self._build(selection, origin, facts, room, notes)
        for _ in range(MAX_SHRINKS):
            if not isinstance(found, Kept) or found.reason is not KeptReason.DOES_NOT_FIT or found.after is None:
                break
            # A shorter ledger may do: the least useful detail goes first.
            over = self._fitted(found.after, selection) - self._most()
            room = min(room, self._ledger_bytes) - over - SHRINK_BYTES
            if over <= 0 or room < MIN_LEDGER_BYTES // 2:
                break
            found = self._build(selection, origin, facts, room, notes)
        return found

    def _most(self) -> int:
        limits = self.fit.limits
        return limits.soft_bytes if limits.hard_bytes is None else min(limits.soft_bytes, limits.hard_bytes)

    def _fitted(self, after: Reading, selection: Selection) -> int:
        """Size of a finished body once Fit has made the cuts that it would make in what stays."""
        covered = {*selection.gone, *selection.trims}
        return len(after.scan.body) - sum(cut.saved_bytes for cut in self.fit.fit_plan.cuts if cut.candidate.item not in covered)

    def _build(self, selection: Selection, origin: Origin, facts: RangeFacts, room: int, notes: str) -> Built | Kept:
        fit, session = self.fit, self.fit.session
        limits = fit.limits
        checkpoint_id = f"c{len(session.checkpoints) + 1}"
        revision = session.head.revision + 1
        calls = sum(len(unit.calls) for unit in selection.units)
        covered = len(selection.gone) + len(selection.trims)
        ledger = write_ledger(facts, room, read_tool="" if fit.read_back is ReadBack.NONE else fit.read_tool)
        self._ledger_bytes = len(ledger.encode())
        summary = render_summary(SummaryLabel(checkpoint_id, revision, covered, calls, self._lister()), facts, ledger, notes)
        best: Built | None = None
        for layout in self._layouts(selection):
            record = self._record(selection, origin, layout, checkpoint_id, revision, summary, facts)
            finished = self._finish(selection, record, layout)
            if finished is not None:
                best = Built(record, finished)
                break
        if best is None:
            return Kept(KeptReason.DOES_NOT_FIT, "there is no place where a summary may stand in this history")
        before, after = len(self.before.scan.body), len(best.finished.scan.body)
        record = self._sized(best.record, before, after)
        fitted = self._fitted(best.finished, selection)
        saved = before - after
        hard = limits.hard_bytes
        rescues = hard is not None and before > hard and fitted <= hard
        over = fitted > limits.soft_bytes and not rescues
        if saved < limits.compact_min_saving_bytes and not (rescues and saved > 0) and not (over and self.too_large()):
            least = limits.compact_min_saving_bytes
            return Kept(KeptReason.LOW_BENEFIT, f"it would save {saved} bytes; {least} are asked for", best.finished)
        if over:
            return Kept(
                KeptReason.DOES_NOT_FIT, f"{before} bytes would become {fitted}; the limit is {limits.soft_bytes}", best.finished
            )
        return Built(record, best.finished, self.left(selection.units))

    def _sized(self, record: CheckpointRecord, before: int, after: int) -> CheckpointRecord:
        return msgspec.structs.replace(record, before_bytes=before, after_bytes=after)

    def _layouts(self, selection: Selection) -> list[Layout]:
        fit = self.fit
        stays = [each for each in self._applied if each not in self.superseded]
        return list(
            layouts(
                fit.intake.items,
                fit.intake.parts,
                selection.gone,
                {at for each in stays for at in each.gone},
                selection.trims,
                merges_users=fit.adapter.merges_users,
            )
        )

    def _record(
        self,
        selection: Selection,
        origin: Origin,
        layout: Layout,
        checkpoint_id: str,
        revision: int,
        summary: str,
        facts: RangeFacts,
    ) -> CheckpointRecord:
        fit, session, numbers = self.fit, self.fit.session, self.fit.intake.numbers
        new = {item.meta.number: item.meta.digest for item in fit.intake.new_items}
        hashed = sha256()
        for at in sorted((*selection.gone, *selection.trims)):
            hashed.update(new.get(numbers[at]) or session.metas[numbers[at]].digest)
        named = [artifact for call in facts.calls for artifact in call.artifact_ids if artifact in summary]
        return CheckpointRecord(
            checkpoint_id=checkpoint_id,
            base_revision=session.head.revision,
            revision=revision,
            gone=ranges_at(selection.gone, numbers),
            trims=tuple(Trim(numbers[at], blocks) for at, blocks in sorted(selection.trims.items())),
            after=-1 if layout.after < 0 else numbers[layout.after],
            role=layout.role,
            pointers=tuple(numbers[at] for at in layout.pointers),
            items_sha256=hashed.digest(),
            calls=tuple(fit.refs.key_of(call) for unit in selection.units for call in unit.calls),
            artifact_ids=tuple(dict.fromkeys(named)),
            attempt_id=origin.attempt_id,
            summarizer=origin.summarizer,
            model=origin.model,
            format=fit.adapter.format,
            boundary=origin.boundary,
            mode=origin.mode,
            superseded=tuple(each.record.checkpoint_id for each in self.superseded) + self._swallowed(selection),
            summary=summary,
            anchors_revision=fit.anchors.revision,
            before_bytes=0,
            after_bytes=0,
            create_ms=fit.now_ms,
        )

    def _swallowed(self, selection: Selection) -> tuple[str, ...]:
        """Live checkpoints that stepped aside in this body and cover some of the same items: no two that are live may.

        Those of other branches stay: not all that they cover is here.
        """
        fit = self.fit
        numbers = {fit.intake.numbers[at] for at in (*selection.gone, *selection.trims)}
        found = []
        for each in fit.aside:
            own = [number for start, end in each.gone for number in range(start, end)]
            own += [trim.number for trim in each.trims]
            if not numbers.isdisjoint(own) and all(fit.refs.index_of(number) >= 0 for number in own):
                found.append(each.checkpoint_id)
        return tuple(found)

    def _finish(self, selection: Selection, record: CheckpointRecord, layout: Layout) -> Reading | None:
        """The finished body with a checkpoint; None where it would not hold its contract."""
        fit, intake = self.fit, self.fit.intake
        own = Applicable(record, selection.gone, selection.trims, layout.after, list(layout.pointers))
        applied = [*(each for each in self._applied if each not in self.superseded), own]
        session, current = fit.session, fit.projection.reasoning_end
        try:
            folded = fold(fit.adapter, intake.body, intake.items, intake.parts, applied, intake.markers)
            projection = project(
                fit.adapter,
                intake.body,
                intake.items,
                intake.parts,
                intake.alignment.items,
                intake.numbers,
                session.records,
                session.record_count,
                current,
                folded,
            )
            finished = hold(fit, with_tool(fit, projection.placed), folded)
        except (LayoutError, InternalError):
            return None
        if not all(unit.settled for unit in selection.units):
            raise InternalError("unsettled work was about to retire", hint="nothing was written; please report this")
        return finished

    # Why nothing helps ------------------------------------------------------------------------------------------------

    def too_large(self) -> tuple[str, str] | None:
        """What alone is over the limit, as a note: the tail, or what may never leave."""
        fit, intake = self.fit, self.fit.intake
        most, items = self._most(), intake.items
        _, tail_item = tail_start(fit.view)
        saved = fit.view.cut_spans
        tail = sum(items[at].end - items[at].start - saved.get(at, 0) for at in range(tail_item, len(items)))
        history = sum(item.end - item.start for item in items)
        fixed = len(intake.body) - history + (0 if fit.inject is None else len(fit.inject.data))
        fixed += sum(
            item.end - item.start - saved.get(at, 0)
            for at, item in enumerate(items[:tail_item])
            if item.role in (Role.USER, Role.SYSTEM) and not holds_results(item, intake.parts)
        )
        if fixed > most:
            return "FIXED_PARTS_EXCEED_LIMIT", f"system text, tools and what people said take {fixed} bytes; the limit is {most}"
        if tail > most:
            return "TAIL_EXCEEDS_LIMIT", f"the newest units take {tail} bytes; the limit is {most}"
        return None
