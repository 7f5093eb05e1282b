"""Where a replay takes a stage to end, and when it asks for a compaction."""

from __future__ import annotations

from typing import Any

import pytest

from fastpath import scan
from sidecar.core.types import Format
from sidecar.formats import adapter
from sidecar.replay.compact import CompactionReport, compact_step, over_reason, stage_end
from tests.rpc.build import to_json
from trimtab.v1 import common_pb2, context_pb2

OVER, CANNOT_FIT = context_pb2.FIT_OUTCOME_OVER, context_pb2.FIT_OUTCOME_CANNOT_FIT
SESSION = common_pb2.SessionRef(session_id="run")

MESSAGES = {
    "messages": [
        {"role": "user", "content": "begin"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "plan", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "b", "name": "bash", "input": {}}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "b", "content": "x"}, {"type": "text", "text": "a reminder"}],
        },
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": [{"type": "text", "text": "go on"}]},
    ]
}
CHAT = {
    "messages": [
        {"role": "user", "content": "begin"},
        {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "plan", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "x"},
        {"role": "user", "content": "go on"},
    ]
}


@pytest.mark.parametrize(
    ("start", "end", "tools", "name"),
    [
        (0, 1, (), "user item 0"),
        (1, 3, (), ""),
        (1, 3, ("plan",), "plan in item 1"),
        (1, 3, ("pla", "bash"), ""),
        (3, 5, ("plan",), ""),
        (3, 5, ("plan", "bash"), "bash in item 3"),
        (5, 7, ("plan",), "user item 6"),
        (0, 7, ("plan",), "user item 6"),
        (2, 2, ("plan",), ""),
    ],
)
def test_stage_end_is_a_user_item_of_its_own_or_a_call_of_a_named_tool(
    start: int, end: int, tools: tuple[str, ...], name: str
) -> None:
    recording = scan(to_json(MESSAGES), adapter(Format.ANTHROPIC_MESSAGES).grammar)
    assert stage_end(recording, start, end, tools) == name


@pytest.mark.parametrize(
    ("start", "end", "tools", "name"), [(1, 3, ("plan",), "plan in item 1"), (1, 3, (), ""), (2, 4, (), "user item 3")]
)
def test_stage_end_in_chat_is_the_same(start: int, end: int, tools: tuple[str, ...], name: str) -> None:
    recording = scan(to_json(CHAT), adapter(Format.OPENAI_CHAT).grammar)
    assert stage_end(recording, start, end, tools) == name


class Stub:
    """Answers Compact as it was told to, and keeps what it was asked."""

    def __init__(self, **answer: Any) -> None:
        self.answer = context_pb2.CompactResponse(**answer)
        self.asked: list[context_pb2.CompactRequest] = []

    def Fit(self, request: context_pb2.FitRequest) -> context_pb2.FitResponse:  # noqa: N802
        raise AssertionError("not asked for here")

    def Compact(self, request: context_pb2.CompactRequest) -> context_pb2.CompactResponse:  # noqa: N802
        self.asked.append(request)
        return self.answer


def fit(outcome: int, *, eligible: bool = False, reason: int = 0) -> context_pb2.FitResponse:
    advice = context_pb2.CompactionAdvice(eligible=eligible, reason=reason)  # type: ignore[arg-type]
    return context_pb2.FitResponse(outcome=outcome, advice=advice)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "boundary", "forced"),
    [(fit(OVER), "user item 3", False), (fit(CANNOT_FIT, eligible=True), "", True)],
    ids=["over at a boundary", "must not be sent"],
)
def test_compact_step_where_it_may_help_asks_the_ledger(answer: context_pb2.FitResponse, boundary: str, forced: bool) -> None:
    stub = Stub(
        outcome=context_pb2.COMPACT_OUTCOME_COMMITTED,
        before=common_pb2.Pressure(total_bytes=900),
        after=common_pb2.Pressure(total_bytes=300),
        checkpoint=common_pb2.Checkpoint(summary=b"sum"),
    )
    report = compact_step(stub, SESSION, 4, b"{}", boundary, answer)
    assert report is not None
    told = (report.step, report.boundary, report.outcome, report.kept_reason)
    assert told == (4, boundary, "COMMITTED", "")
    assert (report.before_bytes, report.after_bytes, report.summary_bytes) == (900, 300, 3)
    (request,) = stub.asked
    assert (request.boundary, request.force_mid_stage, request.body) == (boundary, forced, b"{}")
    assert request.summarizer == context_pb2.SUMMARIZER_LEDGER


@pytest.mark.parametrize(
    ("answer", "boundary"),
    [
        (fit(OVER, eligible=True), ""),
        (fit(CANNOT_FIT), "user item 3"),
        (fit(context_pb2.FIT_OUTCOME_FITTED, eligible=True), "user item 3"),
    ],
)
def test_compact_step_elsewhere_asks_nothing(answer: context_pb2.FitResponse, boundary: str) -> None:
    stub = Stub()
    assert compact_step(stub, SESSION, 4, b"{}", boundary, answer) is None
    assert stub.asked == []


KEPT = CompactionReport(1, "b", "KEPT", "LOW_BENEFIT", 1, 1, 0, 0.0)
MADE = CompactionReport(1, "b", "COMMITTED", "", 1, 1, 0, 0.0)


@pytest.mark.parametrize(
    ("answer", "compaction", "asks", "reason"),
    [
        (fit(context_pb2.FIT_OUTCOME_FITTED), MADE, True, ""),
        (fit(OVER, eligible=True), None, False, "NOT_ASKED"),
        (fit(OVER, eligible=True), None, True, "MID_STAGE"),
        (fit(OVER, reason=context_pb2.KEPT_REASON_NO_CANDIDATE), None, True, "NO_CANDIDATE"),
        (fit(OVER, eligible=True), KEPT, True, "LOW_BENEFIT"),
        (fit(CANNOT_FIT), MADE, True, "STILL_OVER"),
    ],
)
def test_over_reason_says_why_a_body_goes_out_so(
    answer: context_pb2.FitResponse, compaction: CompactionReport | None, asks: bool, reason: str
) -> None:
    assert over_reason(answer, compaction, asks=asks) == reason
