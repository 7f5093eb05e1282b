"""Drives a recorded body through a sidecar, as the agent would have: one Fit before each model call, and a compaction on request.

What the agent would have paid is worked out twice over the same steps, each against its own previous body: for the bodies as the
recording has them, and for those that Fit answered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

import msgspec

from fastpath import scan
from sidecar.core.types import ReadBack
from sidecar.formats.base import Adapter
from sidecar.replay.compact import CompactionReport, ContextStub, compact_step, over_reason, stage_end
from sidecar.replay.cost import CostMeter, Sent
from sidecar.replay.steps import grow_body, plan_steps, read_history, step_body
from trimtab.v1 import common_pb2, context_pb2

__all__ = ["KindTotal", "ReplayReport", "StepReport", "replay_body"]


class StepReport(msgspec.Struct, frozen=True):
    """One model call.

    Attributes:
        item_count: items of the recording that the body stands for.
        raw: what sending the recording's own body cost.
        sent: what sending Fit's answer cost.
        outcome: UNCHANGED, FITTED, OVER or CANNOT_FIT (the body is counted as sent all the same).
        artifact_count: artifacts made by this call.
        notes: reasons, in order.
        fit_ms: wall time of the call, or of both around a compaction, as the client saw it.
        over_reason: why the body goes out over its soft limit; empty when it does not.
    """

    item_count: int
    raw: Sent
    sent: Sent
    outcome: str
    artifact_count: int
    notes: tuple[str, ...]
    fit_ms: float
    over_reason: str = ""


class KindTotal(msgspec.Struct, frozen=True):
    """Reductions of one kind in the last body."""

    kind: str
    count: int
    saved_bytes: int


class ReplayReport(msgspec.Struct, frozen=True):
    """A whole run.

    Attributes:
        name: of the recording.
        format: dialect's name.
        steps: one entry a model call, oldest first.
        raw_cost: in plain input bytes, by `sidecar.replay.cost`.
        sent_cost: likewise.
        raw_break_count: steps at which bytes sent before changed, raw.
        sent_break_count: likewise, as sent.
        totals: reductions in the last body, by kind.
        soft_bytes: limit in force at the end; 0 when not told.
        target_bytes: likewise.
        compact: off, or auto.
        compactions: all calls of Compact, oldest first, with those that kept the history.
    """

    name: str
    format: str
    steps: tuple[StepReport, ...]
    raw_cost: float
    sent_cost: float
    raw_break_count: int
    sent_break_count: int
    totals: tuple[KindTotal, ...]
    soft_bytes: int
    target_bytes: int
    compact: str = "off"
    compactions: tuple[CompactionReport, ...] = ()

    @property
    def cost_ratio(self) -> float:
        """Cost as sent, as a share of the cost raw; 1.0 for a run without steps."""
        return self.sent_cost / self.raw_cost if self.raw_cost else 1.0

    @property
    def raw_bytes(self) -> int:
        """The largest raw body."""
        return max((step.raw.size_bytes for step in self.steps), default=0)

    @property
    def sent_bytes(self) -> int:
        """The largest body sent."""
        return max((step.sent.size_bytes for step in self.steps), default=0)

    @property
    def artifact_count(self) -> int:
        """Artifacts made in the run."""
        return sum(step.artifact_count for step in self.steps)

    @property
    def checkpoint_count(self) -> int:
        """Compactions that made a checkpoint."""
        return sum(each.outcome == "COMMITTED" for each in self.compactions)

    @property
    def refused_count(self) -> int:
        """Steps whose body must not be sent: over a hard limit that Fit could not reach."""
        return sum(step.outcome == "CANNOT_FIT" for step in self.steps)


def replay_body(
    stub: ContextStub,
    session: common_pb2.SessionRef,
    body: bytes,
    adapter: Adapter,
    *,
    read_back: ReadBack,
    read_back_tool_name: str = "",
    limits: common_pb2.Limits | None = None,
    adopt: bool = False,
    compact: bool = False,
    stage_tools: Collection[str] = (),
    name: str = "",
    on_step: Callable[[int, int, StepReport], None] | None = None,
) -> ReplayReport:
    """Send every body of a recorded run through Fit, in order.

    Args:
        stub: of the sidecar's ContextService.
        session: where the run goes; best a new one.
        body: the recording, the run's last body.
        adapter: of its dialect.
        read_back: how the model could read back.
        read_back_tool_name: with a tool of the caller's own.
        limits: given with each call; None leaves the sidecar's.
        adopt: the agent keeps what Fit answered as its history and appends to that; else it keeps the raw history.
        compact: where a stage ends and Fit says OVER, compact and fit again; also where Fit says that a body must not be sent.
        stage_tools: tools whose calls end a stage, as user items do.
        name: of the recording, for the report.
        on_step: called after each step with its index, the number of steps and its report.

    Raises:
        MalformedError: the recording cannot be read.
        grpc.RpcError: the sidecar refused.
    """
    recording = scan(body, adapter.grammar)
    counts = plan_steps(recording)
    raw_meter, sent_meter = CostMeter(), CostMeter()
    steps: list[StepReport] = []
    compactions: list[CompactionReport] = []
    held_body, held_end, held_count, told_count = b"", 0, 0, 0
    seen = None
    response = context_pb2.FitResponse()
    for index, count in enumerate(counts):
        raw_body = step_body(recording, count)
        asked = grow_body(held_body, held_end, recording, held_count, count) if adopt and held_count else raw_body
        request = context_pb2.FitRequest(
            session=session,
            format=f"FORMAT_{adapter.format.name}",
            body=asked,
            limits=limits,
            read_back=f"READ_BACK_{read_back.name}",
            read_back_tool_name=read_back_tool_name,
        )
        began = time.perf_counter()
        response = stub.Fit(request)
        fit_ms = (time.perf_counter() - began) * 1000
        artifact_count = len(response.artifacts)
        compaction = None
        if compact:
            boundary = stage_end(recording, told_count, count, stage_tools)
            compaction = compact_step(stub, session, index, asked, boundary, response)
        if compaction is not None:
            compactions.append(compaction)
            if compaction.outcome == "COMMITTED":
                began = time.perf_counter()
                response = stub.Fit(request)
                fit_ms += (time.perf_counter() - began) * 1000
                artifact_count += len(response.artifacts)
        sent_body = response.body or asked
        history = read_history(sent_body, adapter.grammar, seen)
        seen, held_body, held_end, held_count = history.scan, sent_body, history.items_end, count
        told_count = count
        step = StepReport(
            item_count=count,
            raw=raw_meter.add(raw_body, recording.item(count - 1).end),
            sent=sent_meter.add(sent_body, history.items_end),
            outcome=context_pb2.FitOutcome.Name(response.outcome).removeprefix("FIT_OUTCOME_"),
            artifact_count=artifact_count,
            notes=tuple(note.reason for note in response.notes),
            fit_ms=fit_ms,
            over_reason=over_reason(response, compaction, asks=compact),
        )
        steps.append(step)
        if on_step is not None:
            on_step(index, len(counts), step)
    return ReplayReport(
        name=name,
        format=adapter.name,
        steps=tuple(steps),
        raw_cost=raw_meter.cost,
        sent_cost=sent_meter.cost,
        raw_break_count=raw_meter.break_count,
        sent_break_count=sent_meter.break_count,
        totals=tuple(
            KindTotal(
                context_pb2.ReductionKind.Name(total.kind).removeprefix("REDUCTION_KIND_"),
                total.count,
                total.saved_bytes,
            )
            for total in response.totals
        ),
        soft_bytes=response.effective_limits.soft_bytes,
        target_bytes=response.effective_limits.target_bytes,
        compact="auto" if compact else "off",
        compactions=tuple(compactions),
    )
