"""A body as the ladder sees it, made without engine and store: real scan, real adapter, real stubs."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fastpath import Edit, Scan, decode_string, scan, splice, strip_markers
from sidecar.core.cuts import Built, Candidate, build, text_of
from sidecar.core.fit import FitPlan, FitView, plan_fit
from sidecar.core.limits import Effective, resolve
from sidecar.core.paths import marker_paths
from sidecar.core.records import apply_records
from sidecar.core.types import CallKey, EffectState, Format, LimitsGiven, Offload, Path, ReceiptRecord, ReductionKind
from sidecar.core.units import Call, Unit, build_units, mark_settled
from sidecar.formats import ADAPTERS
from sidecar.formats.base import Adapter
from tests.helpers.bodies import History

__all__ = [
    "CHAT",
    "MESSAGES",
    "READ_TOOL",
    "Taken",
    "cuts_of",
    "decode_at",
    "dump",
    "finished",
    "limits",
    "offload",
    "receipt",
    "replaced",
    "scan_items",
    "take",
    "units_of",
]

CHAT: Adapter = ADAPTERS[Format.OPENAI_CHAT]
MESSAGES: Adapter = ADAPTERS[Format.ANTHROPIC_MESSAGES]
READ_TOOL = "trimtab_read"


def dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def decode_at(body: bytes, start: int, end: int) -> bytes:
    """Text of a string value, or any other value as it stands."""
    return decode_string(body[start + 1 : end - 1]) if body[start : start + 1] == b'"' else body[start:end]


def scan_items(adapter: Adapter, items: Sequence[Any]) -> Scan:
    return scan(dump({"model": "m", "messages": list(items)}), adapter.grammar)


def units_of(adapter: Adapter, items: Sequence[Any]) -> tuple[list[Unit], Scan]:
    scanned = scan_items(adapter, items)
    return build_units(scanned.items(), scanned.parts(), lambda a, b: decode_at(scanned.body, a, b)), scanned


def receipt(item: int, state: EffectState, next_number: int = 0, call_index: int = 0) -> ReceiptRecord:
    return ReceiptRecord(CallKey(item, call_index), state, next_number=next_number)


def limits(**given: Any) -> Effective:
    """Limits in force: nothing is externalized on arrival and one newest unit is kept, unless told."""
    told = {"externalize_bytes": 0, "keep_unit_count": 1, "min_saving_bytes": 1, **given}
    return resolve(LimitsGiven(**told), 2.0)


class Taken(NamedTuple):
    """A body with its view; numbers are indices, every item is as it came first."""

    scan: Scan
    view: FitView

    @property
    def plan(self) -> FitPlan:
        return plan_fit(self.view)


def take(
    history: History | bytes,
    effective: Effective,
    *,
    adapter: Adapter | None = None,
    fresh: Collection[int] | None = (),
    pinned_calls: Iterable[str] = (),
    own_tools: Iterable[str] = (READ_TOOL,),
    receipts: Mapping[tuple[int, int], ReceiptRecord] | None = None,
    faulty: Iterable[int] = (),
    records: Mapping[int, list[Offload]] | None = None,
    cache_lost: bool = False,
    floor_bytes: int = 0,
    can_cut: bool = True,
) -> Taken:
    """What the ladder sees of a body.

    Args:
        history: a body, or what makes one.
        effective: limits.
        adapter: of the dialect; told by the history when it is one.
        fresh: items that are in a body for the first time; None: all.
        pinned_calls: ids of calls that stay.
        own_tools: names of read-back tools.
        receipts: by (item, call_index).
        faulty: items that break a rule.
        records: by item, all of them to be applied to it now.
        cache_lost: the provider's.
        floor_bytes: where the last cut ended, when above its target.
        can_cut: a stub could be followed.
    """
    body = history.body() if isinstance(history, History) else history
    if adapter is None:
        assert isinstance(history, History)
        adapter = ADAPTERS[Format(history.format)]
    chosen = adapter
    scanned = scan(body, chosen.grammar)
    items, parts = scanned.items(), scanned.parts()
    units = build_units(items, parts, lambda a, b: decode_at(body, a, b))
    numbers = list(range(len(items)))
    mark_settled(units, parts, numbers, dict(receipts or {}), set(faulty), set())
    pinned = set(pinned_calls)
    own = set(own_tools)
    saved: dict[int, int] = {}
    taken: dict[int, set[Path]] = {}
    base = len(body)
    for at, known in (records or {}).items():
        applied, _ = apply_records(chosen, body, items[at].start, at, known, 0)
        taken[at] = {record.path for record in known}
        for each in applied:
            assert each.edit is not None
            gain = each.edit.end - each.edit.start - len(each.edit.data)
            saved[at] = saved.get(at, 0) + gain
            base -= gain

    def build_one(candidate: Candidate, with_preview: bool) -> Built | None:
        call = candidate.call
        item = items[candidate.item]
        return build(
            chosen,
            body,
            candidate,
            raw=strip_markers(body, item.start, item.end, chosen.grammar),
            number=candidate.item,
            removed=[],
            markers=marker_paths(body, item, parts),
            tool_name="" if call is None else name_of(call),
            asked="" if call is None else text_of(body, call.part.payload_start, call.part.payload_end),
            read_tool=READ_TOOL,
            came_from="",
            with_preview=with_preview,
            create_ms=1,
        )

    def name_of(call: Call) -> str:
        return text_of(body, call.part.name_start, call.part.name_end)

    return Taken(
        scanned,
        FitView(
            adapter=chosen,
            body=body,
            items=items,
            parts=parts,
            units=units,
            limits=effective,
            base_bytes=base,
            cut_spans=saved,
            taken=taken,
            fresh=set(numbers) if fresh is None else set(fresh),
            pinned=lambda call: call.id.decode() in pinned,
            own_read=lambda call: name_of(call) in own,
            cache_lost=cache_lost,
            floor_bytes=floor_bytes,
            can_cut=can_cut,
            build=build_one,
            envelope_bytes=(sum(b - a for a, b in scanned.system), sum(b - a for a, b in scanned.tools)),
        ),
    )


def cuts_of(taken: Taken) -> list[tuple[ReductionKind, int]]:
    """Kind and item of each cut, in the order in which they were chosen."""
    return [(cut.candidate.kind, cut.candidate.item) for cut in taken.plan.cuts]


def replaced(taken: Taken) -> list[int]:
    """Items with a cut, in order."""
    return sorted({cut.candidate.item for cut in taken.plan.cuts})


def offload(built: Built, number: int) -> Offload:
    """The record that a cut becomes."""
    kind = built.candidate.kind
    return Offload(kind, number, built.raw_path, built.replacement, built.artifact.artifact_id, None, built.saved_bytes, 1)


def finished(taken: Taken, plan: FitPlan | None = None) -> bytes:
    """The body with a plan's cuts, through the records that they become."""
    view = taken.view
    edits: list[Edit] = []
    by_item: dict[int, list[Offload]] = {}
    for cut in (plan or taken.plan).cuts:
        by_item.setdefault(cut.candidate.item, []).append(offload(cut, cut.candidate.item))
    for at, records in by_item.items():
        applied, _ = apply_records(view.adapter, view.body, view.items[at].start, at, records, 0)
        edits.extend(each.edit for each in applied if each.edit is not None)
    return splice(view.body, sorted(edits))
