"""The steps of `prepare`, answered by hand: what is asked of whom, in what order, and what stands in the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import grpc
import pytest

import trimtab
from trimtab.fail_open import FailOpen
from trimtab.prepare import Call, Prepared, PrepareOptions, Step, drive, drive_async, prepare_steps
from trimtab.settings import make_settings
from trimtab.v1 import context_pb2

OVER, CANNOT_FIT, FITTED = context_pb2.FIT_OUTCOME_OVER, context_pb2.FIT_OUTCOME_CANNOT_FIT, context_pb2.FIT_OUTCOME_FITTED
COMMITTED, PLANNED = context_pb2.COMPACT_OUTCOME_COMMITTED, context_pb2.COMPACT_OUTCOME_PLANNED
KEPT, UNKNOWN = context_pb2.COMPACT_OUTCOME_KEPT, context_pb2.COMPACT_OUTCOME_UNKNOWN

SETTINGS = make_settings(
    "unix:/x",
    format="openai-chat",
    read_back="inject",
    read_back_tool_name="",
    scope="team",
    fail_open=False,
    timeout=10.0,
    max_message_bytes=1 << 20,
    limits={"soft_bytes": 9_000},
)


def fit(outcome: int, *, eligible: bool = False, body: bytes = b"fitted", item_count: int = 41) -> context_pb2.FitResponse:
    advice = context_pb2.CompactionAdvice(eligible=eligible)
    return context_pb2.FitResponse(
        outcome=outcome,  # type: ignore[arg-type]
        body=body,
        advice=advice,
        item_count=item_count,
        history_digest=b"\xab" * 32,
        revision=9,
    )


def compacted(outcome: int, reason: str = "UNSPECIFIED", *, attempt: bool = False) -> context_pb2.CompactResponse:
    response = context_pb2.CompactResponse(outcome=outcome, kept_reason=f"KEPT_REASON_{reason}", summary_request=b'{"ask":1}')  # type: ignore[arg-type]
    response.checkpoint.live = outcome == COMMITTED
    if attempt or outcome == PLANNED:
        response.attempt.attempt_id = "attempt-7"
    return response


def finished(outcome: int, reason: str = "UNSPECIFIED", detail: str = "") -> context_pb2.FinishCompactResponse:
    response = context_pb2.FinishCompactResponse(compact=compacted(outcome, reason, attempt=True))
    response.compact.detail = detail
    return response


def error(kind: type[trimtab.TrimtabError], code: grpc.StatusCode) -> trimtab.TrimtabError:
    return kind("no", code=code)


class Script:
    """Answers steps in order, or raises where an answer is an error, and keeps what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Step] = []

    def take(self, step: Step) -> Any:
        self.asked.append(step)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def names(self) -> list[str]:
        return [step.method if isinstance(step, Call) else "summarize" for step in self.asked]

    def requests(self, method: str) -> list[Any]:
        return [step.request for step in self.asked if isinstance(step, Call) and step.method == method]


def run(script: Script, *, boundary: str = "", has_model: bool = False, fails_open: bool = False, **options: Any) -> Prepared:
    given: PrepareOptions = options  # type: ignore[assignment]
    steps = prepare_steps(SETTINGS, FailOpen(fails_open), "run", b"{}", given, boundary=boundary, has_model=has_model)
    prepared = drive(steps, script.take)
    assert script.answers == []
    return prepared


@pytest.mark.parametrize(
    ("first", "boundary"),
    [
        (fit(FITTED, eligible=True), "stage 1"),
        (fit(context_pb2.FIT_OUTCOME_UNCHANGED, eligible=True), "stage 1"),
        (fit(OVER, eligible=True), ""),
        (fit(CANNOT_FIT, eligible=False), "stage 1"),
    ],
    ids=["fitted", "unchanged", "over mid-stage", "nothing eligible"],
)
def test_prepare_where_fit_is_enough_or_nothing_may_retire_asks_no_more(first: context_pb2.FitResponse, boundary: str) -> None:
    script = Script(first)
    assert run(script, boundary=boundary, has_model=True) == Prepared(first, None)
    assert script.names() == ["Fit"]


def test_prepare_over_at_a_boundary_compacts_by_ledger_and_fits_again() -> None:
    second = fit(FITTED)
    script = Script(fit(OVER), compacted(COMMITTED), second)
    prepared = run(script, boundary="stage 1", focus="tests", budget={"requests_left": 3}, limits={"hard_bytes": 99_000})
    assert script.names() == ["Fit", "Compact", "Fit"]
    assert prepared.fit is second
    assert prepared.compact is not None
    assert prepared.compact.outcome == COMMITTED
    (request,) = script.requests("Compact")
    assert (request.session.scope, request.session.session_id) == ("team", "run")
    assert request.request_id == "stage 1:41:" + "ab" * 8
    assert (request.body, request.boundary, request.summarizer) == (b"{}", "stage 1", context_pb2.SUMMARIZER_LEDGER)
    assert (request.focus, request.budget.requests_left, request.force_mid_stage) == ("tests", 3, False)


def test_prepare_that_cannot_fit_compacts_mid_stage_too() -> None:
    script = Script(fit(CANNOT_FIT, eligible=True), compacted(COMMITTED), fit(FITTED))
    run(script)
    (request,) = script.requests("Compact")
    assert (request.force_mid_stage, request.boundary) == (True, "")
    assert request.request_id == "mid-stage:41:" + "ab" * 8


def test_prepare_tells_usage_receipts_and_anchors_once_and_limits_each_time() -> None:
    script = Script(fit(OVER), compacted(COMMITTED), fit(FITTED))
    run(
        script,
        boundary="b",
        usage={"input_tokens": 5},
        anchors={"goal": "g"},
        expected_revision=3,
        limits={"target_bytes": 5_000},
        list_applied=True,
    )
    first, second = script.requests("Fit")
    assert (first.previous_usage_json, first.anchors.goal, first.expected_revision) == (b'{"input_tokens":5}', "g", 3)
    assert (second.previous_usage_json, second.HasField("anchors"), second.HasField("expected_revision")) == (b"", False, False)
    assert [(each.limits.target_bytes, each.limits.soft_bytes, each.list_applied) for each in (first, second)] == [
        (5_000, 9_000, True)
    ] * 2


def test_prepare_kept_gives_what_fit_gave() -> None:
    first = fit(OVER)
    script = Script(first, compacted(KEPT, "NO_CANDIDATE"))
    prepared = run(script, boundary="b", has_model=True)
    assert prepared.fit is first
    assert prepared.compact is not None
    assert prepared.compact.kept_reason == context_pb2.KEPT_REASON_NO_CANDIDATE
    assert script.requests("Compact")[0].summarizer == context_pb2.SUMMARIZER_CALLER


@pytest.mark.parametrize(
    ("made", "field", "value"),
    [
        ("notes \ud800", "text", b"notes ?"),
        (b'{"choices":[]}', "response", b'{"choices":[]}'),
        ({"choices": []}, "response", b'{"choices":[]}'),
        (trimtab.SummaryNotMade("rate limit"), "failed", "rate limit"),
        (ValueError("SECRET"), "unknown", "ValueError"),
        (error(trimtab.UnavailableError, grpc.StatusCode.UNAVAILABLE), "unknown", "UnavailableError"),
        (None, "unknown", "TypeError"),
    ],
    ids=["text", "bytes", "dict", "not made", "raised", "raised one of ours", "nothing"],
)
def test_prepare_planned_asks_the_callers_model_and_tells_how_that_went(made: Any, field: str, value: Any) -> None:
    script = Script(fit(OVER), compacted(PLANNED), made, finished(COMMITTED), fit(FITTED))
    run(script, boundary="b", has_model=True)
    assert script.names() == ["Fit", "Compact", "summarize", "FinishCompact", "Fit"]
    assert script.asked[2].request == b'{"ask":1}'
    (request,) = script.requests("FinishCompact")
    assert (request.attempt_id, request.WhichOneof("result"), getattr(request, field)) == ("attempt-7", field, value)


@pytest.mark.parametrize(
    "answers",
    [
        [compacted(PLANNED), "notes", finished(KEPT, "SUMMARY_REJECTED")],
        [compacted(PLANNED), trimtab.SummaryNotMade(), finished(KEPT, "SUMMARIZER_FAILED")],
        [compacted(PLANNED), OSError(), finished(UNKNOWN)],
        [compacted(KEPT, "SUMMARY_REJECTED", attempt=True)],
        [compacted(KEPT, "ATTEMPTS_SPENT")],
        [compacted(KEPT, "RESERVE_PROTECTED")],
        [compacted(KEPT, "DOES_NOT_FIT")],
        [compacted(UNKNOWN, attempt=True)],
    ],
    ids=["rejected", "failed", "unknown", "rejected before", "spent", "reserve", "no room", "unknown before"],
)
def test_prepare_without_a_usable_summary_takes_the_ledger_once_under_another_id(answers: list[Any]) -> None:
    script = Script(fit(OVER), *answers, compacted(COMMITTED), fit(FITTED))
    prepared = run(script, boundary="b", has_model=True)
    first, second = script.requests("Compact")
    assert (first.summarizer, second.summarizer) == (context_pb2.SUMMARIZER_CALLER, context_pb2.SUMMARIZER_LEDGER)
    assert second.request_id == first.request_id + ":ledger"
    assert prepared.fit is not None
    assert prepared.fit.outcome == FITTED


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (finished(KEPT, "SUMMARY_REJECTED", "no heading NEXT"), "(SUMMARY_REJECTED: no heading NEXT)"),
        (finished(KEPT, "SUMMARIZER_FAILED", "SECRET"), "(SUMMARIZER_FAILED)"),
        (finished(UNKNOWN, "UNSPECIFIED", "SECRET"), "(UNKNOWN)"),
    ],
)
def test_prepare_says_why_a_model_gave_no_summary(answer: Any, said: str, caplog: pytest.LogCaptureFixture) -> None:
    script = Script(fit(OVER), compacted(PLANNED), "notes", answer, compacted(COMMITTED), fit(FITTED))
    with caplog.at_level(logging.WARNING, "trimtab"):
        prepared = run(script, boundary="b", has_model=True)
    assert prepared.by_model is not None
    assert prepared.by_model == answer.compact
    assert caplog.text.count(said) == 1
    assert "SECRET" not in caplog.text


def test_prepare_whose_ledger_is_kept_too_gives_what_fit_gave() -> None:
    first = fit(OVER)
    script = Script(first, compacted(PLANNED), "", finished(KEPT, "SUMMARY_REJECTED"), compacted(KEPT, "LOW_BENEFIT"))
    assert run(script, boundary="b", has_model=True).fit is first


def test_prepare_by_the_servers_model_falls_back_as_well() -> None:
    script = Script(fit(OVER), compacted(KEPT, "SUMMARIZER_FAILED", attempt=True), compacted(COMMITTED), fit(FITTED))
    run(script, boundary="b", summarizer="model")
    assert [each.summarizer for each in script.requests("Compact")] == [
        context_pb2.SUMMARIZER_MODEL,
        context_pb2.SUMMARIZER_LEDGER,
    ]


def test_prepare_of_the_same_history_asked_for_otherwise_takes_an_id_of_its_own() -> None:
    reused = error(trimtab.RequestIdReusedError, grpc.StatusCode.FAILED_PRECONDITION)
    ids = []
    for focus in ("one", "one", "two"):
        script = Script(fit(OVER), reused, compacted(COMMITTED), fit(FITTED))
        run(script, boundary="s" * 300, focus=focus)
        ids += [request.request_id for request in script.requests("Compact")][1:]
    assert ids[0] == ids[1] != ids[2]
    assert all(len(each.encode()) <= 128 for each in ids)


@pytest.mark.parametrize("outcome", [COMMITTED, KEPT])
def test_prepare_whose_checkpoint_was_taken_back_asks_anew(outcome: int) -> None:
    old = compacted(COMMITTED)
    old.checkpoint.live = False
    answers = {COMMITTED: [compacted(COMMITTED), fit(FITTED)], KEPT: [compacted(KEPT, "ROLLED_BACK")]}[outcome]
    script = Script(fit(OVER), old, *answers)
    prepared = run(script, boundary="b")
    assert prepared.compact is not None
    assert prepared.compact.outcome == outcome
    first, second = script.requests("Compact")
    assert second.request_id == first.request_id + ":r9"


def test_prepare_request_id_of_the_ledger_after_a_reuse_stays_within_the_limit() -> None:
    reused = error(trimtab.RequestIdReusedError, grpc.StatusCode.FAILED_PRECONDITION)
    spent = compacted(KEPT, "ATTEMPTS_SPENT")
    script = Script(fit(OVER, item_count=10**7), spent, reused, compacted(COMMITTED), fit(FITTED))
    run(script, boundary="é" * 32, has_model=True)
    asked = [request.request_id for request in script.requests("Compact")]
    assert [len(each.encode()) <= 128 for each in asked] == [True] * 3
    assert asked[1] == asked[0] + ":ledger"
    assert asked[2].startswith(asked[1] + ":")


def test_prepare_caller_without_a_model_is_told_before_anything_is_sent() -> None:
    script = Script()
    with pytest.raises(ValueError, match="needs summarize"):
        run(script, boundary="b", summarizer="caller")


UNAVAILABLE = error(trimtab.UnavailableError, grpc.StatusCode.UNAVAILABLE)
MISTAKE = error(trimtab.InvalidFieldError, grpc.StatusCode.INVALID_ARGUMENT)


@pytest.mark.parametrize("before", [[], [compacted(COMMITTED)]], ids=["Compact fails", "the second Fit fails"])
def test_prepare_failing_open_after_the_first_fit_gives_what_that_gave_and_says_so(
    before: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    first = fit(OVER)
    with caplog.at_level(logging.WARNING, "trimtab"):
        assert run(Script(first, *before, UNAVAILABLE), boundary="b", fails_open=True) == Prepared(first, None)
    assert "not compacted (UNAVAILABLE" in caplog.text


def test_prepare_failing_open_at_the_first_fit_sends_the_body_as_it_is() -> None:
    assert run(Script(UNAVAILABLE), boundary="b", fails_open=True) == Prepared(None, None)


@pytest.mark.parametrize(
    ("answers", "fails_open"),
    [
        ([UNAVAILABLE], False),
        ([fit(OVER), UNAVAILABLE], False),
        ([MISTAKE], True),
        ([fit(OVER), MISTAKE], True),
        ([fit(CANNOT_FIT, eligible=True), UNAVAILABLE], True),
    ],
    ids=["closed", "closed later", "mistake", "mistake later", "must not be sent"],
)
def test_prepare_raises_what_may_not_be_passed_over(answers: list[Any], fails_open: bool) -> None:
    with pytest.raises(trimtab.TrimtabError) as caught:
        run(Script(*answers), boundary="b", fails_open=fails_open)
    assert caught.value is answers[-1]


def test_prepare_logs_no_content_of_what_summarize_raised(caplog: pytest.LogCaptureFixture) -> None:
    script = Script(fit(OVER), compacted(PLANNED), ValueError("SECRET"), finished(UNKNOWN), compacted(COMMITTED), fit(FITTED))
    with caplog.at_level(logging.DEBUG, "trimtab"):
        run(script, boundary="b", has_model=True)
    said = "no summary by a model (ValueError: nobody can say whether it was asked): it is made from records"
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [said]
    assert "SECRET" not in caplog.text + str(script.requests("FinishCompact"))


def test_prepare_whose_end_cannot_be_told_says_why_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    script = Script(fit(OVER), compacted(PLANNED), trimtab.SummaryNotMade("SECRET"), UNAVAILABLE)
    with caplog.at_level(logging.WARNING, "trimtab"):
        run(script, boundary="b", has_model=True, fails_open=True)
    assert "no summary by a model (it was not asked)" in caplog.text
    assert "SECRET" not in caplog.text


def test_drive_async_takes_the_same_steps() -> None:
    script = Script(fit(OVER), compacted(PLANNED), OSError(), finished(UNKNOWN), compacted(COMMITTED), fit(FITTED))

    async def take(step: Step) -> Any:
        await asyncio.sleep(0)
        return script.take(step)

    options: PrepareOptions = {}
    steps = prepare_steps(SETTINGS, FailOpen(False), "run", b"{}", options, boundary="b", has_model=True)
    prepared = asyncio.run(drive_async(steps, take))
    assert prepared.fit is not None
    assert prepared.fit.outcome == FITTED
    assert script.names() == ["Fit", "Compact", "summarize", "FinishCompact", "Compact", "Fit"]


def _interrupt(step: Step) -> Any:
    raise KeyboardInterrupt


def _driven(take: Callable[[Step], Any]) -> None:
    options: PrepareOptions = {}
    drive(prepare_steps(SETTINGS, FailOpen(True), "run", b"{}", options, boundary="", has_model=False), take)


def test_drive_lets_an_interrupt_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        _driven(_interrupt)
