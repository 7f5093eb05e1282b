"""Whole runs through a real sidecar."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from fastpath import scan
from sidecar.core.types import Format, ReadBack
from sidecar.demo.session import DemoSession, build_session
from sidecar.formats import adapter
from sidecar.replay.drive import ReplayReport, StepReport, replay_body
from sidecar.replay.steps import count_steps
from trimtab.v1 import common_pb2, context_pb2

FORMATS = {"anthropic-messages": Format.ANTHROPIC_MESSAGES, "openai-chat": Format.OPENAI_CHAT}
SOFT, TARGET = 65_536, 32_768
_numbers = itertools.count()


@pytest.fixture(scope="module", params=FORMATS)
def session(request: pytest.FixtureRequest) -> DemoSession:
    """Six times the limit below."""
    return build_session(3, min_calls=20, min_bytes=400_000, format=request.param)


class Spy:
    """A stub that keeps what went through it."""

    def __init__(self, stub: Any) -> None:
        self.stub = stub
        self.asked: list[bytes] = []
        self.sent: list[bytes] = []

    def Fit(self, request: context_pb2.FitRequest) -> context_pb2.FitResponse:  # noqa: N802
        response: context_pb2.FitResponse = self.stub.Fit(request)
        self.asked.append(request.body)
        self.sent.append(response.body or request.body)
        return response


def run(stub: Any, session: DemoSession, **options: Any) -> ReplayReport:
    """Replay under a small limit, unless told otherwise."""
    defaults: dict[str, Any] = {"read_back": ReadBack.INJECT, "limits": common_pb2.Limits(soft_bytes=SOFT, target_bytes=TARGET)}
    ref = common_pb2.SessionRef(session_id=f"drive-{next(_numbers)}")
    return replay_body(stub, ref, session.body(), adapter(FORMATS[session.format]), **(defaults | options))


def test_replay_body_with_raw_history_keeps_it_and_cuts_what_is_sent(stubs: Any, session: DemoSession) -> None:
    spy = Spy(stubs.context)
    seen: list[tuple[int, int, StepReport]] = []
    report = run(spy, session, name="one", on_step=lambda *told: seen.append(told))
    grammar = adapter(FORMATS[session.format]).grammar
    assert len(report.steps) == count_steps(scan(session.body(), grammar)) == len(spy.asked)
    assert spy.asked[-1] == session.body()
    assert [step.raw.size_bytes for step in report.steps] == [len(body) for body in spy.asked]
    assert [step.sent.size_bytes for step in report.steps] == [len(body) for body in spy.sent]
    assert [told[:2] for told in seen] == [(index, len(report.steps)) for index in range(len(report.steps))]
    assert (report.name, report.format, report.soft_bytes, report.target_bytes) == ("one", session.format, SOFT, TARGET)
    assert report.raw_break_count == 0
    assert report.sent_break_count == sum(step.sent.broke_prefix for step in report.steps) > 0
    assert report.artifact_count > 10
    assert {"RESULT", "ARGUMENTS"} <= {total.kind for total in report.totals}
    assert report.sent_bytes < report.raw_bytes / 3
    assert report.cost_ratio < 0.5


def test_replay_body_that_adopts_sends_what_it_was_given_and_more(stubs: Any, session: DemoSession) -> None:
    spy = Spy(stubs.context)
    report = run(spy, session, adopt=True)
    raw = run(stubs.context, session)
    # The closing bracket and what follows it move; all else of the body sent before is there.
    tail = len(session.tail)
    assert all(asked.startswith(before[:-tail]) for before, asked in zip(spy.sent, spy.asked[1:], strict=False))
    assert [step.raw.size_bytes for step in report.steps] == [step.raw.size_bytes for step in raw.steps]
    items = [len(json.loads(body)["messages"]) for body in spy.sent]
    assert items == [step.item_count for step in report.steps]
    assert report.sent_bytes < report.raw_bytes / 3


def test_replay_body_without_read_back_sends_every_body_raw(stubs: Any, session: DemoSession) -> None:
    spy = Spy(stubs.context)
    report = run(spy, session, read_back=ReadBack.NONE)
    assert spy.sent == spy.asked
    assert report.cost_ratio == 1.0
    assert (report.sent_break_count, report.artifact_count, report.totals) == (0, 0, ())
    assert {step.outcome for step in report.steps} == {"UNCHANGED", "OVER"}


def test_replay_body_over_a_hard_limit_counts_what_must_not_be_sent(stubs: Any) -> None:
    session = build_session(3, min_calls=8, min_bytes=60_000)
    report = run(stubs.context, session, read_back=ReadBack.NONE, limits=common_pb2.Limits(hard_bytes=50_000))
    assert report.refused_count == sum(step.raw.size_bytes > 50_000 for step in report.steps) > 0
