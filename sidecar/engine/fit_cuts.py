"""The ladder's view of a body, and the stubs it asks for: where core's decisions meet the session and the store."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from fastpath import Kind
from sidecar.core.artifacts import find_artifact_id
from sidecar.core.cuts import Built, Candidate, build, text_of
from sidecar.core.fit import FitView
from sidecar.core.paths import marker_paths
from sidecar.core.projection import Projection
from sidecar.core.readback import READ_BACK_TOOL_NAME
from sidecar.core.records import removals
from sidecar.core.retirable import Sums
from sidecar.core.stubs import FENCE
from sidecar.core.tokens import cache_lost
from sidecar.core.types import UsageFigures
from sidecar.core.units import Call

if TYPE_CHECKING:
    from sidecar.engine.fit_call import FitCall

__all__ = ["Cutter"]

_CALL = int(Kind.CALL)  # a member of an IntEnum is slow to compare
_FENCE = FENCE.encode()


class Cutter:
    """Builds cuts for one call of Fit."""

    def __init__(self, call: FitCall) -> None:
        """For a body that is taken in."""
        self._call = call
        self._own = {READ_BACK_TOOL_NAME, call.read_tool}

    def view(self, projection: Projection, sums: Sums | None, base: int, usage: UsageFigures | None) -> FitView:
        """What the ladder sees.

        Args:
            projection: records at work in the body.
            sums: of its units, with them applied.
            base: size of the body with them applied.
            usage: what the provider reported for the request before.
        """
        fit = self._call
        session, intake = fit.session, fit.intake
        tools = {pin.tool_name for pin in fit.pins if pin.call is None}
        calls = {(pin.call.number, pin.call.call_index) for pin in fit.pins if pin.call is not None}

        def pinned(call: Call) -> bool:
            return (intake.numbers[call.item], call.call_index) in calls or (bool(tools) and self.tool_name(call) in tools)

        fresh = fit.first_told.union(intake.new_at)
        fresh.update(index for receipt in fit.new_receipts if (index := fit.refs.index_of(receipt.call.number)) >= 0)
        idle = fit.now_ms - session.last_ms if session.last_ms else 0
        scanned = intake.scan
        units = intake.units
        if projection.fold is not None:
            stays = (unit.without(projection.fold.gone, intake.parts) for unit in units)
            units = [unit for unit in stays if unit is not None]
        return FitView(
            fit.adapter,
            fit.intake.body,
            intake.items,
            intake.parts,
            units,
            fit.limits,
            base,
            projection.saved,
            projection.taken,
            fresh,
            pinned,
            lambda call: self.tool_name(call) in self._own,
            cache_lost(usage, idle, fit.limits.cache_ttl_ms),
            0 if fit.retold else session.head.floor_bytes,
            fit.can_cut,
            self._build,
            (sum(end - start for start, end in scanned.system), sum(end - start for start, end in scanned.tools)),
            sums,
            frozenset() if projection.fold is None else projection.fold.gone,
        )

    def tool_name(self, call: Call) -> str:
        """Name of the tool that was called."""
        return text_of(self._call.intake.body, call.part.name_start, call.part.name_end)

    def _build(self, candidate: Candidate, with_preview: bool) -> Built | None:
        fit = self._call
        session, intake = fit.session, fit.intake
        number = intake.numbers[candidate.item]
        records = session.records.get(number, [])
        removed = removals(records, intake.alignment.items[candidate.item].record_count)
        raw = self.raw(candidate.item, number)
        call = candidate.call
        asked = "" if call is None else text_of(fit.intake.body, call.part.payload_start, call.part.payload_end)
        tool = "" if call is None else self.tool_name(call)
        came_from = ""
        if tool and tool in self._own:
            came_from = find_artifact_id(asked) or ""
            came_from = came_from if came_from in session.artifact_ids else ""
        return build(
            fit.adapter,
            fit.intake.body,
            candidate,
            raw=raw,
            number=number,
            removed=removed,
            markers=marker_paths(intake.body, intake.items[candidate.item], intake.parts),
            tool_name=tool,
            asked=asked,
            read_tool=fit.read_tool,
            came_from=came_from,
            with_preview=with_preview,
            create_ms=fit.now_ms,
        )

    def raw(self, at: int, number: int) -> bytes:
        """Raw bytes of an item: the body's own where it came as it was journaled, else from the store."""
        fit = self._call
        raws = fit.intake.raws
        found = raws.get(number)
        if found is None:
            item, meta = fit.intake.items[at], fit.session.metas[number]
            found = fit.intake.body[item.start : item.end]
            if len(found) != meta.size_bytes or crc32(found) != meta.crc:
                found = fit.session.raw(fit.engine.store, number)
            raws[number] = found
        return found

    def note_stubs(self) -> None:
        """A new call that copies one of our stubs into its arguments would act on a stub as if it were content."""
        fit, intake = self._call, self._call.intake
        for at in intake.new_at:
            item = intake.items[at]
            for part in intake.parts[item.first_part : item.first_part + item.part_count]:
                if part[0] != _CALL or part.payload_start < 0:
                    continue
                payload = fit.intake.body[part.payload_start : part.payload_end]
                if _FENCE in payload:
                    found = find_artifact_id(payload.decode("utf-8", "replace"))
                    if found is not None and found in fit.session.artifact_ids:
                        fit.note(
                            "STUB_IN_CALL", f"item {at}: a call's arguments hold the stub of artifact {found}, not its content"
                        )
