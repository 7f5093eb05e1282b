"""Compaction in a replay: where a stage ends, and what is done there when Fit says that its own means are not enough.

A recording does not say where its agent's stages ended. Two signs stand in for it: a user item of its own (results in it make it
a part of the stage), and a call of a tool that the caller names, such as one that writes a plan. No I/O but the stub's calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Protocol

import msgspec

from fastpath import Kind, Role, Scan, decode_string
from trimtab.v1 import common_pb2, context_pb2

__all__ = ["CompactionReport", "ContextStub", "compact_step", "over_reason", "stage_end"]


class ContextStub(Protocol):
    """What is needed of a ContextService stub."""

    @property
    def Fit(self) -> Callable[[context_pb2.FitRequest], context_pb2.FitResponse]:  # noqa: N802 (gRPC's spelling)
        """Call Fit."""

    @property
    def Compact(self) -> Callable[[context_pb2.CompactRequest], context_pb2.CompactResponse]:  # noqa: N802
        """Call Compact."""


class CompactionReport(msgspec.Struct, frozen=True):
    """One call of Compact.

    Attributes:
        step: index of the model call that it stood before.
        boundary: the stage that had ended; empty where a body that must not be sent forced it.
        outcome: COMMITTED or KEPT.
        kept_reason: why the history stayed; empty when it did not.
        before_bytes: body as Fit left it.
        after_bytes: with the summary in it, or as it would have been.
        summary_bytes: of the summary; 0 without one.
        compact_ms: wall time of the call, as the client saw it.
    """

    step: int
    boundary: str
    outcome: str
    kept_reason: str
    before_bytes: int
    after_bytes: int
    summary_bytes: int
    compact_ms: float


def stage_end(recording: Scan, start: int, end: int, stage_tools: Collection[str]) -> str:
    """The stage that ended with the last of items `start` to `end`, by a name that is its own; empty when none did."""
    found = ""
    names = {name.encode() for name in stage_tools}
    for index, item in enumerate(recording.items(start, end), start):
        parts = recording.parts(item.first_part, item.first_part + item.part_count)
        if item.role == Role.USER and all(part.kind != Kind.RESULT for part in parts):
            found = f"user item {index}"
        for part in parts:
            if part.kind == Kind.CALL and part.name_start >= 0:
                name = decode_string(recording.body[part.name_start + 1 : part.name_end - 1])
                if name in names:
                    found = f"{name.decode()} in item {index}"
    return found


def compact_step(
    stub: ContextStub,
    session: common_pb2.SessionRef,
    step: int,
    body: bytes,
    boundary: str,
    fit: context_pb2.FitResponse,
) -> CompactionReport | None:
    """Compact by ledger before a model call, where `prepare` of the client would; None where it would not.

    Args:
        stub: of the sidecar's ContextService.
        session: the run's.
        step: index of the model call.
        body: as it was given to Fit.
        boundary: the stage that just ended; empty is mid-stage.
        fit: what Fit answered.
    """
    must = fit.outcome == context_pb2.FIT_OUTCOME_CANNOT_FIT
    if not (must and fit.advice.eligible) and not (fit.outcome == context_pb2.FIT_OUTCOME_OVER and boundary):
        return None
    request = context_pb2.CompactRequest(
        session=session,
        request_id=f"step-{step}",
        body=body,
        boundary=boundary,
        force_mid_stage=must,
        summarizer=context_pb2.SUMMARIZER_LEDGER,
    )
    began = time.perf_counter()
    answer = stub.Compact(request)
    compact_ms = (time.perf_counter() - began) * 1000
    return CompactionReport(
        step=step,
        boundary=boundary,
        outcome=context_pb2.CompactOutcome.Name(answer.outcome).removeprefix("COMPACT_OUTCOME_"),
        kept_reason=_reason(answer.kept_reason),
        before_bytes=answer.before.total_bytes,
        after_bytes=answer.after.total_bytes,
        summary_bytes=len(answer.checkpoint.summary),
        compact_ms=compact_ms,
    )


def over_reason(fit: context_pb2.FitResponse, compaction: CompactionReport | None, *, asks: bool) -> str:
    """Why a body goes out over its soft limit; empty when it does not.

    Args:
        fit: the last answer of Fit before it goes out.
        compaction: that was asked for before it.
        asks: this replay compacts.
    """
    if fit.outcome not in (context_pb2.FIT_OUTCOME_OVER, context_pb2.FIT_OUTCOME_CANNOT_FIT):
        return ""
    if not asks:
        return "NOT_ASKED"
    if compaction is not None:
        return compaction.kept_reason or "STILL_OVER"
    return "MID_STAGE" if fit.advice.eligible else _reason(fit.advice.reason) or "STILL_OVER"


def _reason(reason: context_pb2.KeptReason) -> str:
    return context_pb2.KeptReason.Name(reason).removeprefix("KEPT_REASON_") if reason else ""
