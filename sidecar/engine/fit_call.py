"""One call of Fit, from the request's values to the answer's: take in, apply records, plan, check, commit, read back.

The order is the promise: nothing is told before it is durable, no body leaves that was not checked whole, and a failing store fails the
call only when something new had to be kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from fastpath import Edit, Kind, Scan, canon, size, splice
from sidecar.core.anchors import merge_anchors
from sidecar.core.artifacts import find_artifact_id
from sidecar.core.branch import to_ranges
from sidecar.core.contract import Placed, check_finished
from sidecar.core.cuts import Built, Candidate, build, text_of
from sidecar.core.errors import InvalidFieldError, ReadBackRequiredError, RevisionConflictError, TrimtabError
from sidecar.core.fit import FitPlan, FitView, blockers, plan_fit
from sidecar.core.limits import Effective, check_given, merge, resolve
from sidecar.core.readback import READ_BACK_TOOL_NAME
from sidecar.core.records import Applied, apply_records, removals
from sidecar.core.stubs import FENCE
from sidecar.core.tokens import cache_lost, estimate_tokens
from sidecar.core.types import (
    Anchors,
    ArtifactRecord,
    ArtifactSource,
    Format,
    LimitsGiven,
    Offload,
    Path,
    PinKey,
    ReadBack,
    ReceiptRecord,
    ReductionKind,
    SentForm,
    UsageFigures,
)
from sidecar.core.units import Call, mark_settled
from sidecar.engine.answer import applied_reduction, common_prefix, pressure, totals_of, view_of
from sidecar.engine.commit import Change, commit
from sidecar.engine.intake import Intake, scan_body, take_in
from sidecar.engine.messages import (
    Advice,
    Blocker,
    FitInput,
    FitOutcome,
    FitResult,
    HistoryMatch,
    KeptReason,
    Note,
    Reduction,
    TokenBasis,
)
from sidecar.engine.refs import Refs, shown
from sidecar.engine.session import Seen, Session, form_of
from sidecar.formats import adapter as adapter_of
from sidecar.formats import detect
from sidecar.formats.base import Adapter, Violation

if TYPE_CHECKING:
    from sidecar.engine.engine import Engine

__all__ = ["FitCall"]

NOTED_FAULTS = 5


class FitCall:
    """State of one call. Used once, under the session's lock."""

    def __init__(self, engine: Engine, session: Session, given: FitInput) -> None:
        """Nothing is read or written yet."""
        self.engine = engine
        self.session = session
        self.given = given
        self.notes: list[Note] = []
        self.now_ms = engine.clock.now_ms()

    # Step by step -----------------------------------------------------------------------------------------------------

    def run(self) -> FitResult:
        """Do it all."""
        given, session = self.given, self.session
        adapter = self._adapter()
        self._settings()
        changed_format = session.head.format not in (Format.UNSPECIFIED, adapter.format)
        if changed_format:
            self._note("FORMAT_CHANGED", f"the session was {session.head.format.name} before: this history is a branch of its own")
        floor = len(session.metas) if changed_format else session.head.format_start
        branch: Sequence[int] = () if changed_format else session.branch
        intake = take_in(session, adapter, given.body, branch, floor)
        self.intake, self.adapter, self.floor = intake, adapter, floor
        self.refs = Refs(intake.units, intake.numbers)
        usage = self._usage(adapter)
        self.limits = self._limits(usage)
        self._given_state(len(intake.items))
        self._faults(intake.violations)
        self._settle()
        self._replaced()
        applied, taken = self._apply(adapter)
        inject = self._read_back(adapter, intake.scan)
        edits = [Placed(a.edit, a.record.kind, a.item, True) for a in applied if a.edit is not None]
        base = size(given.body, _in_order(edits, inject))
        view = self._view(adapter, applied, taken, base, usage)
        plan = plan_fit(view)
        self._stub_in_call(intake)
        return self._finish(adapter, applied, edits, inject, view, plan)

    def _note(self, reason: str, message: str) -> None:
        self.notes.append(Note(reason, message))

    def _adapter(self) -> Adapter:
        given, head = self.given, self.session.head
        if len(given.body) > self.engine.config.max_body_bytes:
            raise InvalidFieldError(
                f"the body has {len(given.body)} bytes; the server takes {self.engine.config.max_body_bytes}",
                hint="raise max_message_bytes in the server's configuration",
                field="body",
            )
        fmt = given.format or head.format
        return adapter_of(fmt if fmt is not Format.UNSPECIFIED else detect(given.body))

    def _settings(self) -> None:
        """Limits and the way to read back: what was given holds until given again."""
        given, head, config = self.given, self.session.head, self.engine.config
        if given.limits is not None:
            check_given(given.limits)
        self.limits_given = merge(head.limits, given.limits)
        self.read_back = given.read_back or head.read_back or config.read_back
        if self.read_back is ReadBack.UNSPECIFIED:
            raise ReadBackRequiredError(
                "no way to read content back was told",
                hint="set read_back: TOOL or INJECT (the model calls a tool), CALLER (your own way) or NONE (nothing new is taken out)",
            )
        told = given.read_back_tool_name or head.read_back_tool_name or config.read_back_tool_name
        if self.read_back is ReadBack.CALLER:
            self.read_tool = told
        else:
            self.read_tool = READ_BACK_TOOL_NAME if self.read_back is ReadBack.INJECT or not told else told

    def _limits(self, usage: UsageFigures | None) -> Effective:
        merged = merge(self.engine.config.limits, self.limits_given)
        ratio = self.session.ratio
        if usage is not None:
            ratio.learn(len(self.session.sent), usage)
        return resolve(merged, ratio.bytes_per_token())

    def _usage(self, adapter: Adapter) -> UsageFigures | None:
        if self.given.usage_json is not None:
            return adapter.usage(self.given.usage_json)
        return self.given.usage

    def _given_state(self, item_count: int) -> None:
        """Receipts, pins and anchors with this call's in."""
        given, session = self.given, self.session
        revision = session.head.revision + 1
        self.new_receipts: list[ReceiptRecord] = [
            receipt
            for receipt in self.refs.receipts(given.receipts, revision, item_count)
            if not _same_receipt(session.receipts.get((receipt.call.number, receipt.call.call_index)), receipt)
        ]
        self.receipts = dict(session.receipts)
        for receipt in self.new_receipts:
            self.receipts[(receipt.call.number, receipt.call.call_index)] = receipt
        pins = self.refs.pins(session.pins, given.pins) if given.pins else session.pins
        self.new_pins: list[PinKey] | None = None if pins == session.pins else pins
        self.pins = pins
        self.new_anchors: Anchors | None = None
        if given.anchors is not None:
            merged = merge_anchors(session.anchors, self.refs.anchors(given.anchors), revision)
            self.new_anchors = None if merged is session.anchors else merged

    def _faults(self, violations: Sequence[Violation]) -> None:
        for violation in violations[:NOTED_FAULTS]:
            self._note(
                "INVALID_HISTORY",
                f"item {violation.item_index}: {violation.rule} at byte {violation.offset_bytes}: {violation.message}",
            )
        if len(violations) > NOTED_FAULTS:
            self._note("INVALID_HISTORY", f"{len(violations) - NOTED_FAULTS} more faults")

    def _settle(self) -> None:
        intake = self.intake
        faulty = {violation.item_index for violation in intake.violations}
        metas = self.session.metas
        closing = {
            at for at, number in enumerate(intake.numbers) if number < len(metas) and metas[number].closing
        }
        mark_settled(intake.units, intake.parts, intake.numbers, self.receipts, faulty, closing)

    def _replaced(self) -> None:
        """Say so when this looks like another run under the same name."""
        alignment = self.intake.alignment
        if self.session.branch and self.intake.items and alignment.matched_count == 0:
            self._note("HISTORY_REPLACED", "nothing of this body was in the session before; give each run a session_id of its own")

    def _apply(self, adapter: Adapter) -> tuple[list[Applied], dict[int, set[Path]]]:
        """Records at work in this body, and the paths in it that they replace."""
        applied: list[Applied] = []
        taken: dict[int, set[Path]] = {}
        for at, (match, number) in enumerate(zip(self.intake.alignment.items, self.intake.numbers, strict=True)):
            records = self.session.records.get(number)
            if not records:
                continue
            each, _ = apply_records(adapter, self.given.body, self.intake.items[at].start, at, records, match.record_count)
            applied.extend(each)
            gone = removals(records, match.record_count)
            taken[at] = _taken(records, gone)
        return applied, taken

    def _read_back(self, adapter: Adapter, scanned: Scan) -> Edit | None:
        """Whether a new stub could be followed (`can_cut`), and the edit that injects the tool."""
        self.can_cut = True
        self.injected = self.session.head.injected
        mode = self.read_back
        first = not self.session.exists and not self.session.metas
        if mode is ReadBack.NONE:
            self.can_cut = False
        elif mode is ReadBack.TOOL:
            self.can_cut = self.read_tool.encode() in adapter.tool_names(scanned)
            if not self.can_cut:
                self._note("READ_BACK_TOOL_MISSING", f"the body does not declare {self.read_tool}: nothing new was taken out")
        elif mode is ReadBack.INJECT:
            edit = adapter.inject_tool(scanned) if first or self.injected else None
            there = edit is not None and not edit.data
            if edit is None and self.read_tool.encode() in adapter.tool_names(scanned) and not first and not self.injected:
                edit = adapter.inject_tool(scanned)
                there = edit is not None and not edit.data
                edit = edit if there else None
            if edit is None:
                self.can_cut = False
                self._note(
                    "READ_BACK_NOT_INJECTED",
                    "the tool cannot be added to this body, or the session began without it: nothing new was taken out",
                )
                return None
            self.injected = self.injected or first
            return None if there else edit
        return None

    def _view(
        self,
        adapter: Adapter,
        applied: Sequence[Applied],
        taken: dict[int, set[Path]],
        base: int,
        usage: UsageFigures | None,
    ) -> FitView:
        session, intake = self.session, self.intake
        tools = {pin.tool_name for pin in self.pins if pin.call is None}
        calls = {(pin.call.number, pin.call.call_index) for pin in self.pins if pin.call is not None}
        own = {READ_BACK_TOOL_NAME, self.read_tool}

        def pinned(call: Call) -> bool:
            return (intake.numbers[call.item], call.call_index) in calls or (bool(tools) and self._tool(call) in tools)

        saved: dict[int, int] = {}
        for each in applied:
            if each.edit is not None:
                saved[each.item] = saved.get(each.item, 0) + each.edit.end - each.edit.start - len(each.edit.data)
        fresh = {at for at, match in enumerate(intake.alignment.items) if match.number < 0}
        changed = {receipt.call.number for receipt in self.new_receipts}
        fresh |= {at for at, number in enumerate(intake.numbers) if number in changed}
        idle = self.now_ms - session.last_ms if session.last_ms else 0
        scanned = intake.scan
        return FitView(
            adapter,
            self.given.body,
            intake.items,
            intake.parts,
            intake.units,
            self.limits,
            base,
            saved,
            taken,
            fresh,
            pinned,
            lambda call: self._tool(call) in own,
            cache_lost(usage, idle, self.limits.cache_ttl_ms),
            session.head.floor_bytes,
            self.can_cut,
            self._build,
            (sum(end - start for start, end in scanned.system), sum(end - start for start, end in scanned.tools)),
        )

    def _tool(self, call: Call) -> str:
        return text_of(self.given.body, call.part.name_start, call.part.name_end)

    def _build(self, candidate: Candidate, with_preview: bool) -> Built | None:
        session, intake = self.session, self.intake
        number = intake.numbers[candidate.item]
        records = session.records.get(number, [])
        removed = removals(records, intake.alignment.items[candidate.item].record_count)
        raw = intake.raws.get(number)
        if raw is None:
            raw = intake.raws[number] = session.raw(self.engine.store, number)
        call = candidate.call
        asked = "" if call is None else text_of(self.given.body, call.part.payload_start, call.part.payload_end)
        tool = "" if call is None else self._tool(call)
        came_from = ""
        if call is not None and tool in (READ_BACK_TOOL_NAME, self.read_tool) and tool:
            came_from = find_artifact_id(asked) or ""
            came_from = came_from if came_from in session.artifact_ids else ""
        return build(
            self.adapter,
            self.given.body,
            candidate,
            raw=raw,
            number=number,
            removed=removed,
            tool_name=tool,
            asked=asked,
            read_tool=self.read_tool,
            came_from=came_from,
            with_preview=with_preview,
            create_ms=self.now_ms,
            call=None if call is None else self.refs.key_of(call),
        )

    def _stub_in_call(self, intake: Intake) -> None:
        """A new call that copies one of our stubs into its arguments would act on a stub as if it were content."""
        fence = FENCE.encode()
        for at in intake.new_at:
            item = intake.items[at]
            for part in intake.parts[item.first_part : item.first_part + item.part_count]:
                if part.kind != Kind.CALL or part.payload_start < 0:
                    continue
                payload = self.given.body[part.payload_start : part.payload_end]
                if fence in payload:
                    found = find_artifact_id(payload.decode("utf-8", "replace"))
                    if found is not None and found in self.session.artifact_ids:
                        self._note(
                            "STUB_IN_CALL", f"item {at}: a call's arguments hold the stub of artifact {found}, not its content"
                        )

    # The finished body ------------------------------------------------------------------------------------------------

    def _finish(
        self,
        adapter: Adapter,
        applied: list[Applied],
        edits: list[Placed],
        inject: Edit | None,
        view: FitView,
        plan: FitPlan,
    ) -> FitResult:
        given, session, intake = self.given, self.session, self.intake
        placed, applied = self._place(adapter, applied, edits, plan.cuts)
        if inject is not None:
            placed.append(Placed(inject, ReductionKind.UNSPECIFIED, -1, True))
            placed.sort(key=lambda each: (each.edit.start, each.edit.end))
        body = given.body
        after = intake.scan
        if placed:
            only = [each.edit for each in placed]
            body = splice(given.body, only)
            after = scan_body(body, adapter, session.sent_scan)
            check_finished(intake.scan, after, placed, size(given.body, only), intake.violations, adapter.check(after))
        change = self._change(adapter, placed, plan, after, body)
        if given.expected_revision is not None and change.anything and given.expected_revision != session.head.revision:
            raise RevisionConflictError(
                f"the session is at revision {session.head.revision}, not {given.expected_revision}",
                hint="another writer was faster: read the session again, then repeat",
                revision=session.head.revision,
            )
        durable, revision = session.flushed(), session.head.revision
        previous = session.sent
        if not given.dry_run:
            durable, revision = self._commit(change)
            session.seen = Seen(intake.scan, intake.alignment.items, intake.units, intake.violations)
            session.sent, session.sent_scan = body, after
            session.last_ms = self.now_ms
        return self._answer(applied, placed, view, plan, change, after, body, previous, durable, revision)

    def _place(
        self, adapter: Adapter, applied: list[Applied], edits: list[Placed], cuts: Sequence[Built]
    ) -> tuple[list[Placed], list[Applied]]:
        """All edits in order of position. Elements that go from one list are placed together, so that commas stay right."""
        going: dict[int, list[Path]] = {}
        for cut in cuts:
            if not cut.replacement:
                going.setdefault(cut.candidate.item, []).append(cut.raw_path)
        spans: dict[tuple[int, Path], tuple[int, int]] = {}
        for at, paths in going.items():
            number = self.intake.numbers[at]
            records = self.session.records.get(number, [])
            count = self.intake.alignment.items[at].record_count
            again, found = apply_records(adapter, self.given.body, self.intake.items[at].start, at, records, count, paths)
            applied = [a for a in applied if a.item != at] + again
            edits = [p for p in edits if p.item != at] + [
                Placed(a.edit, a.record.kind, at, True) for a in again if a.edit is not None
            ]
            spans.update({(at, path): span for path, span in found.items()})
        placed = list(edits)
        for cut in cuts:
            at = cut.candidate.item
            span = (cut.candidate.start, cut.candidate.end) if cut.replacement else spans[(at, cut.raw_path)]
            data = cut.replacement
            if data[:1] == b"{":
                data = adapter.with_marker(data, self.given.body[span[0] : span[1]], self.engine.style_of(data))
            placed.append(Placed(Edit(span[0], span[1], data), cut.candidate.kind, at, True))
        placed.sort(key=lambda each: (each.edit.start, each.edit.end))
        return placed, applied

    def _change(self, adapter: Adapter, placed: Sequence[Placed], plan: FitPlan, after: Scan, body: bytes) -> Change:
        """What is to be kept of this call."""
        session, intake = self.session, self.intake
        head = session.head
        alignment = intake.alignment
        branch_changed = bool(session.branch) and (alignment.diverged_at is not None or self.floor != head.format_start)
        bumps = bool(plan.cuts) or self.new_anchors is not None or bool(self.new_receipts) or self.new_pins is not None or branch_changed
        revision = head.revision + (1 if bumps else 0)
        offloads, artifacts, sources = self._records(plan.cuts, revision)
        forms = self._forms(adapter, plan.cuts, after, body) if plan.cuts else []
        floor_bytes = head.floor_bytes
        if plan.pressure_cut:
            floor_bytes = len(body) if plan.over_target else 0
        new_head = msgspec.structs.replace(
            head,
            format=adapter.format,
            read_back=self.given.read_back or head.read_back,
            read_back_tool_name=self.given.read_back_tool_name or head.read_back_tool_name,
            injected=self.injected,
            limits=self.limits_given,
            revision=revision,
            branch=to_ranges(intake.numbers),
            raw_bytes=self._raw_bytes(),
            format_start=self.floor,
            floor_bytes=floor_bytes,
            create_ms=head.create_ms or self.now_ms,
        )
        return Change(
            head=new_head,
            items=intake.new_items,
            numbers=intake.numbers,
            scan=intake.scan,
            forms=forms,
            offloads=offloads,
            artifacts=artifacts,
            sources=sources,
            anchors=self.new_anchors,
            receipts=self.new_receipts,
            pins=self.new_pins,
            must_keep=bool(plan.cuts) or self.new_anchors is not None or bool(self.new_receipts) or self.new_pins is not None,
            must_wait=bumps
            or not session.exists
            or new_head.limits != head.limits
            or (new_head.read_back, new_head.read_back_tool_name) != (head.read_back, head.read_back_tool_name),
            old_head=head,
        )

    def _raw_bytes(self) -> int:
        new = {item.meta.number: item.meta.size_bytes for item in self.intake.new_items}
        return sum(
            new[number] if number in new else self.session.metas[number].size_bytes for number in self.intake.numbers
        )

    def _records(
        self, cuts: Sequence[Built], revision: int
    ) -> tuple[list[Offload], list[ArtifactRecord], list[ArtifactSource]]:
        offloads, artifacts, sources = [], [], []
        known = set(self.session.artifact_ids)
        for cut in cuts:
            candidate = cut.candidate
            number = self.intake.numbers[candidate.item]
            call = None if candidate.call is None else self.refs.key_of(candidate.call)
            tool = "" if candidate.call is None else shown(self._tool(candidate.call).encode("utf-8", "replace"))
            artifact = cut.artifact
            if artifact.artifact_id not in known:
                known.add(artifact.artifact_id)
                artifacts.append(artifact)
            else:
                self.engine.check_same(self.session.key, artifact, artifacts)
            offloads.append(
                Offload(
                    candidate.kind, number, cut.raw_path, cut.replacement, artifact.artifact_id, call, cut.saved_bytes, revision
                )
            )
            sources.append(
                ArtifactSource(
                    artifact.artifact_id, number, cut.raw_path, tool, call, candidate.is_error, self.now_ms
                )
            )
        return offloads, artifacts, sources

    def _forms(self, adapter: Adapter, cuts: Sequence[Built], after: Scan, body: bytes) -> list[SentForm]:
        forms = []
        for at in sorted({cut.candidate.item for cut in cuts}):
            number = self.intake.numbers[at]
            count = len(self.session.records.get(number, ())) + sum(1 for cut in cuts if cut.candidate.item == at)
            item = after.item(at)
            forms.append(form_of(number, count, *canon(body, item.start, item.end, adapter.grammar)))
        return forms

    def _commit(self, change: Change) -> tuple[bool, int]:
        """Durable or queued; (journal_durable, revision)."""
        try:
            return commit(self.engine, self.session, change)
        except TrimtabError as error:
            self.engine.sessions.drop(self.session)
            if change.must_keep or error.reason not in ("STORE_FULL", "STORE_FAILED"):
                raise
            self._note(error.reason, f"{error}: the body may be sent; nothing new was kept")
            return False, change.old_head.revision

    # The answer -------------------------------------------------------------------------------------------------------

    def _answer(
        self,
        applied: Sequence[Applied],
        placed: Sequence[Placed],
        view: FitView,
        plan: FitPlan,
        change: Change,
        after: Scan,
        body: bytes,
        previous: bytes,
        durable: bool,
        revision: int,
    ) -> FitResult:
        given, session, intake, limits = self.given, self.session, self.intake, self.limits
        if limits.hard_bytes is not None and len(body) > limits.hard_bytes:
            outcome = FitOutcome.CANNOT_FIT
        elif len(body) > limits.soft_bytes:
            outcome = FitOutcome.OVER
        else:
            outcome = FitOutcome.FITTED if placed else FitOutcome.UNCHANGED
        old = [(intake.items[a.item].start if a.edit is None else a.edit.start, applied_reduction(a, self.refs)) for a in applied]
        new = self._new_reductions(plan.cuts, placed)
        both = sorted((*old, *new), key=lambda pair: pair[0])
        listed = both if given.list_applied else new
        artifacts = {} if given.dry_run else {artifact.artifact_id: artifact for artifact in (cut.artifact for cut in plan.cuts)}
        views = [
            view_of(artifacts[source.artifact_id], source, self.refs.ref_of(source.call), intake.numbers.index(source.number))
            for source in change.sources
            if source.artifact_id in artifacts
        ]
        blocked = blockers(view, plan) if outcome in (FitOutcome.OVER, FitOutcome.CANNOT_FIT) else []
        numbers = set(intake.numbers)
        alignment = intake.alignment
        tokens = self._tokens(len(given.body), intake.scan), self._tokens(len(body), after)
        return FitResult(
            outcome=outcome,
            body=b"" if given.dry_run or not placed else body,
            before=pressure(intake.scan.sizes, *tokens[0]),
            after=pressure(after.sizes, *tokens[1]),
            reductions=tuple(reduction for _, reduction in sorted(listed, key=lambda pair: pair[0])),
            totals=totals_of(reduction for _, reduction in both),
            artifacts=tuple(views),
            advice=self._advice(plan, len(body)),
            blockers=tuple(Blocker(each.item, each.size_bytes, each.reason) for each in blocked),
            notes=tuple(self.notes),
            match=HistoryMatch(
                alignment.matched_count,
                intake.rewritten_count,
                alignment.new_count,
                alignment.diverged_at if session.branch or alignment.diverged_at is not None else None,
                sum(len(records) for number, records in session.records.items() if number not in numbers),
            ),
            revision=revision,
            item_count=len(intake.items),
            history_digest=self._history_digest(),
            stable_prefix_bytes=common_prefix(body, previous),
            journal_durable=durable,
            read_back_tool_name="" if self.read_back is ReadBack.NONE else self.read_tool,
            effective_limits=limits.shown(),
        )

    def _new_reductions(self, cuts: Sequence[Built], placed: Sequence[Placed]) -> list[tuple[int, Reduction]]:
        edits = {(each.item, each.edit.start): each.edit for each in placed}
        found = []
        for cut in cuts:
            candidate = cut.candidate
            call = None if candidate.call is None else self.refs.ref_of(self.refs.key_of(candidate.call))
            edit = edits.get((candidate.item, candidate.start))
            saved = cut.saved_bytes if edit is None else edit.end - edit.start - len(edit.data)
            found.append(
                (candidate.start, Reduction(candidate.kind, candidate.item, call, cut.artifact.artifact_id, "", saved))
            )
        return found

    def _tokens(self, size_bytes: int, scanned: Scan) -> tuple[int | None, TokenBasis]:
        ratio = self.session.ratio
        if ratio.known:
            return ratio.tokens_of(size_bytes), TokenBasis.CALIBRATED
        if self.limits.window_tokens is None and not self.limits.keep_result_bytes:
            return None, TokenBasis.UNKNOWN  # not zero
        media = sum(1 for part in scanned.parts() if part.kind == Kind.MEDIA)
        return estimate_tokens(scanned.body, scanned.sizes.media, media), TokenBasis.ESTIMATED

    def _advice(self, plan: FitPlan, size_bytes: int) -> Advice:
        if size_bytes <= self.limits.soft_bytes:
            reason = KeptReason.NO_PRESSURE
        elif not plan.unit_count:
            reason = KeptReason.NO_CANDIDATE
        elif plan.range_bytes < self.limits.compact_min_saving_bytes:
            reason = KeptReason.LOW_BENEFIT
        else:
            return Advice(True, plan.unit_count, plan.range_bytes)
        return Advice(False, plan.unit_count, plan.range_bytes, reason)

    def _history_digest(self) -> bytes:
        new = {item.meta.number: item.meta.digest for item in self.intake.new_items}
        return self.session.chain_of(
            self.intake.numbers, lambda number: new[number] if number in new else self.session.metas[number].digest
        )


def _same_receipt(old: ReceiptRecord | None, new: ReceiptRecord) -> bool:
    """It says nothing new: a repeated Fit brings the same receipts again."""
    return old is not None and (old.state, old.idempotency_key, old.detail, old.result) == (
        new.state,
        new.idempotency_key,
        new.detail,
        new.result,
    )


def _taken(records: Sequence[Offload], gone: Sequence[Path]) -> set[Path]:
    """Paths of replaced values as they stand in an item that lacks `gone`, in both spellings of a text."""
    from sidecar.core.paths import shift

    taken: set[Path] = set()
    for record in records:
        path = shift(record.path, gone)
        taken.add(path)
        if record.replacement[:1] == b'"':
            taken.add((*path, 0, b"text"))
            if path[-2:] == (0, b"text"):
                taken.add(path[:-2])
    return taken


def _in_order(placed: Sequence[Placed], inject: Edit | None) -> list[Edit]:
    edits = [each.edit for each in placed]
    if inject is not None:
        edits.append(inject)
    return sorted(edits, key=lambda edit: (edit.start, edit.end))
