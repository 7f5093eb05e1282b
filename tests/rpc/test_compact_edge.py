"""Compact, FinishCompact, Rollback and ListCheckpoints at the edge: what reaches an engine, and how its answers travel."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import grpc
import msgspec
import pytest
from google.protobuf.message import Message

from sidecar.core.compaction import AttemptState, CompactMode, Summarizer
from sidecar.core.errors import (
    AttemptNotFoundError,
    CheckpointNotFoundError,
    SummarizerFailedError,
    SummarizerNotConfiguredError,
    SummarizerUnknownError,
)
from sidecar.core.types import LimitsGiven, SessionKey
from sidecar.engine.compact_messages import (
    AttemptView,
    BudgetGiven,
    CheckpointView,
    CompactInput,
    CompactOutcome,
    CompactResult,
    FinishInput,
    RollbackInput,
    RollbackResult,
)
from sidecar.rpc.interceptor import WAITING_COUNT
from tests.rpc.compact_fake import FakeEngine, checkpoint, full_result, serving
from tests.rpc.running import reason_of
from trimtab.v1 import common_pb2 as common
from trimtab.v1 import context_pb2 as context
from trimtab.v1 import session_pb2 as session

REF = common.SessionRef(scope="team", session_id="run")
KEY = SessionKey("team", "run")


def _refused(call: Callable[[], Any]) -> tuple[grpc.StatusCode, str, dict[str, str]]:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value.code(), *reason_of(caught.value)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("ours", "proto"),
    [
        (CompactMode, common.CompactMode),
        (Summarizer, context.Summarizer),
        (AttemptState, context.AttemptState),
        (CompactOutcome, context.CompactOutcome),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_enums_have_the_names_and_numbers_of_the_proto(ours: Any, proto: Any) -> None:
    values = dict(proto.items())
    prefix = next(name for name, number in values.items() if number == 0).removesuffix("UNSPECIFIED")
    assert {member.name: member.value for member in ours} == {name.removeprefix(prefix): n for name, n in values.items()}


@pytest.mark.parametrize(
    ("ours", "proto", "other"),
    [
        (CompactInput, context.CompactRequest, {"key": "session", "timeout_s": None}),
        (FinishInput, context.FinishCompactRequest, {"key": "session"}),
        (RollbackInput, session.RollbackRequest, {"key": "session"}),
        (RollbackResult, session.RollbackResponse, {}),
        (BudgetGiven, context.Budget, {}),
        (CompactResult, context.CompactResponse, {}),
        (CheckpointView, common.Checkpoint, {"create_ms": "create_time"}),
        (AttemptView, context.Attempt, {"create_ms": "create_time"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_structs_have_the_fields_of_the_proto(ours: type[msgspec.Struct], proto: type[Message], other: dict[str, str]) -> None:
    names = {other.get(name, name) for name in ours.__struct_fields__} - {None}
    assert names == {field.name for field in proto.DESCRIPTOR.fields}


def test_compact_every_field_reaches_the_engine() -> None:
    engine = FakeEngine()
    request = context.CompactRequest(
        session=REF,
        request_id="stage-1",
        body=b'{"b":"\xff"}',
        boundary="stage 1",
        force_mid_stage=True,
        ignore_pressure=True,
        mode=common.COMPACT_MODE_REDERIVE,
        summarizer=context.SUMMARIZER_CALLER,
        budget=context.Budget(requests_left=0, tokens_left=5, tokens_reserved=9),
        focus="é" * 2048,
        limits=common.Limits(soft_bytes=2048),
        anchors=common.Anchors(goal="g"),
        receipts=[common.Receipt(call=common.CallRef(call_id="c"), state=common.EFFECT_STATE_WAITING)],
        dry_run=True,
        include_body=True,
        expected_revision=0,
    )
    with serving(engine) as stubs:
        stubs.context.Compact(request, timeout=30)
    (given,) = engine.asked
    assert isinstance(given, CompactInput)
    assert 20 < given.timeout_s < 31  # clocks of two kinds are compared
    assert given.anchors is not None
    assert (given.anchors.goal, given.receipts[0].call.call_id) == ("g", "c")
    plain = msgspec.structs.replace(given, anchors=None, receipts=(), timeout_s=60.0)
    assert plain == CompactInput(
        key=KEY,
        request_id="stage-1",
        body=b'{"b":"\xff"}',
        boundary="stage 1",
        force_mid_stage=True,
        ignore_pressure=True,
        mode=CompactMode.REDERIVE,
        summarizer=Summarizer.CALLER,
        budget=BudgetGiven(requests_left=0, tokens_left=5, tokens_reserved=9),
        focus="é" * 2048,
        limits=LimitsGiven(soft_bytes=2048),
        dry_run=True,
        include_body=True,
        expected_revision=0,
    )


def test_compact_what_is_not_given_stays_not_told() -> None:
    engine = FakeEngine()
    with serving(engine) as stubs:
        stubs.context.Compact(context.CompactRequest(session=REF, request_id="i" * 128))
    assert engine.asked == [CompactInput(key=KEY, request_id="i" * 128, timeout_s=60.0)]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"session": common.SessionRef()}, "session.session_id"),
        ({"request_id": ""}, "request_id"),
        ({"request_id": "é" * 65}, "request_id"),
        ({"boundary": "b" * 257}, "boundary"),
        ({"mode": 9}, "mode"),
        ({"summarizer": 9}, "summarizer"),
        ({"focus": "é" * 2049}, "focus"),
        ({"budget": context.Budget(requests_left=-1)}, "budget.requests_left"),
        ({"budget": context.Budget(requests_reserved=-1)}, "budget.requests_reserved"),
        ({"budget": context.Budget(tokens_left=-1)}, "budget.tokens_left"),
        ({"budget": context.Budget(tokens_reserved=-1)}, "budget.tokens_reserved"),
        ({"limits": common.Limits(soft_bytes=1)}, "limits.soft_bytes"),
        ({"anchors": common.Anchors(work=[common.WorkItem(id="w")])}, "anchors.work[0].state"),
        ({"receipts": [common.Receipt()]}, "receipts[0].call"),
        ({"expected_revision": -1}, "expected_revision"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_compact_field_that_may_not_be_so_is_refused_by_name(fields: dict[str, Any], field: str) -> None:
    engine = FakeEngine()
    with serving(engine) as stubs:
        request = context.CompactRequest(**{"session": REF, "request_id": "r", **fields})
        code, reason, details = _refused(lambda: stubs.context.Compact(request))
    assert (code, reason, details["field"]) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", field)
    assert engine.asked == []


@pytest.mark.parametrize(
    ("end", "value"),
    [("response", b'{"\xff":1}'), ("response", b""), ("text", "Notes: é"), ("text", ""), ("failed", ""), ("unknown", "lost")],
)
def test_finish_compact_exactly_the_end_that_was_given_reaches_the_engine(end: str, value: Any) -> None:
    engine = FakeEngine()
    sent = value.encode() if end == "text" else value
    with serving(engine) as stubs:
        request = context.FinishCompactRequest(session=REF, attempt_id="a", include_body=True, **{end: sent})
        answer = stubs.context.FinishCompact(request)
    assert engine.asked == [FinishInput(key=KEY, attempt_id="a", include_body=True, **{end: value})]
    assert answer.compact.checkpoint.checkpoint_id == "c1"


def test_finish_compact_words_of_a_caller_are_cut_not_refused() -> None:
    engine = FakeEngine()
    with serving(engine) as stubs:
        stubs.context.FinishCompact(context.FinishCompactRequest(session=REF, attempt_id="a", failed="é" * 9_000))
    (given,) = engine.asked
    assert isinstance(given, FinishInput)
    assert given.failed == "é" * 512


@pytest.mark.parametrize(
    ("fields", "field", "hint"),
    [
        ({"attempt_id": "", "failed": "x"}, "attempt_id", "PLANNED"),
        ({"attempt_id": "a" * 129, "failed": "x"}, "attempt_id", ""),
        ({}, "result", "response, text, failed or unknown"),
        ({"text": b"\xff"}, "text", "response"),
        ({"session": common.SessionRef(), "failed": "x"}, "session.session_id", ""),
    ],
)
def test_finish_compact_field_that_may_not_be_so_is_refused_by_name(fields: dict[str, Any], field: str, hint: str) -> None:
    engine = FakeEngine()
    with serving(engine) as stubs:
        request = context.FinishCompactRequest(**{"session": REF, "attempt_id": "a", **fields})
        code, reason, details = _refused(lambda: stubs.context.FinishCompact(request))
    assert (code, reason, details["field"]) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", field)
    assert hint in details.get("hint", "")
    assert engine.asked == []


def test_compact_answer_carries_every_field() -> None:
    with serving(FakeEngine()) as stubs:
        answer = stubs.context.Compact(context.CompactRequest(session=REF, request_id="r"))
    assert (answer.outcome, answer.kept_reason, answer.detail) == (1, 5, "why")
    assert (answer.summary_request, answer.body, answer.revision, answer.item_count) == (b'{"r":1}', b'{"b":"\xff"}', 6, 21)
    assert (answer.before.total_bytes, answer.before.HasField("tokens")) == (9_000, True)
    assert (answer.after.total_bytes, answer.after.HasField("tokens")) == (2_000, False)
    assert [(note.reason, note.message) for note in answer.notes] == [("SOME_NOTE", "text")]
    attempt = answer.attempt
    assert (attempt.attempt_id, attempt.state, attempt.summarizer, attempt.detail) == (
        "stage-1",
        3,
        "caller/1",
        "it \ufffd ended",
    )
    assert [(each.start, each.end) for each in attempt.items] == [(1, 9)]
    assert (attempt.usage.input_tokens, attempt.usage.HasField("cached_input_tokens"), attempt.usage.output_tokens) == (
        7,
        False,
        3,
    )
    made = answer.checkpoint
    assert [(each.start, each.end) for each in made.items] == [(1, 9), (11, 13)]
    assert made.create_time.ToMilliseconds() == 1_700_000_000_123
    for name in CheckpointView.__struct_fields__:
        if name not in ("items", "create_ms", "superseded_checkpoint_ids"):
            assert getattr(made, name) == getattr(checkpoint(), name)
    assert list(made.superseded_checkpoint_ids) == ["c0"]


def test_compact_answer_leaves_unset_what_there_is_not() -> None:
    engine = FakeEngine()
    engine.result = CompactResult(CompactOutcome.KEPT)
    with serving(engine) as stubs:
        answer = stubs.context.Compact(context.CompactRequest(session=REF, request_id="r"))
    assert [field.name for field, _ in answer.ListFields()] == ["outcome"]


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (AttemptNotFoundError("no"), grpc.StatusCode.NOT_FOUND, "ATTEMPT_NOT_FOUND"),
        (CheckpointNotFoundError("no"), grpc.StatusCode.NOT_FOUND, "CHECKPOINT_NOT_FOUND"),
        (SummarizerNotConfiguredError("no"), grpc.StatusCode.FAILED_PRECONDITION, "SUMMARIZER_NOT_CONFIGURED"),
        (SummarizerFailedError("SECRET"), grpc.StatusCode.INTERNAL, "INTERNAL"),
        (SummarizerUnknownError("SECRET"), grpc.StatusCode.INTERNAL, "INTERNAL"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_compact_error_of_the_engine_has_its_code_and_reason(
    error: Exception, code: grpc.StatusCode, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    engine = FakeEngine()
    engine.error = error
    with caplog.at_level(logging.ERROR), serving(engine) as stubs, pytest.raises(grpc.RpcError) as caught:
        stubs.context.Compact(context.CompactRequest(session=REF, request_id="r"))
    assert (caught.value.code(), reason_of(caught.value)[0]) == (code, reason)  # type: ignore[attr-defined]
    assert "SECRET" not in str(caught.value)


def test_compact_that_is_cancelled_tells_the_engine() -> None:
    engine = FakeEngine()
    engine.waits = True
    with serving(engine) as stubs:
        call = stubs.context.Compact.future(context.CompactRequest(session=REF, request_id="r"))
        assert engine.entered.wait(10)
        call.cancel()
        assert engine.cancelled.wait(10)


def test_compact_whose_deadline_passes_tells_the_engine() -> None:
    engine = FakeEngine()
    engine.waits = True
    with serving(engine) as stubs, pytest.raises(grpc.RpcError):
        stubs.context.Compact(context.CompactRequest(session=REF, request_id="r"), timeout=0.2)
    assert engine.cancelled.wait(10)


def test_compact_calls_that_wait_leave_the_threads_to_others_and_one_too_many_is_told() -> None:
    engine = FakeEngine()
    engine.waits = True
    with serving(engine, threads=1) as stubs:
        request = context.CompactRequest(session=REF, request_id="r")
        calls = [stubs.context.Compact.future(request) for _ in range(WAITING_COUNT + 1)]
        # Which one is too many is not said; it is the only one that ends.
        (refused,) = _ended(calls)
        assert reason_of(refused.exception())[0] == "TOO_MANY"
        assert (
            _refused(lambda: stubs.context.Fit(context.FitRequest(session=REF, body=b"{}"), timeout=10))[1] == "SESSION_NOT_FOUND"
        )
        for call in calls:
            call.cancel()


def _ended(calls: list[Any]) -> list[Any]:
    """Those that have ended, once one has."""
    one = threading.Event()
    for call in calls:
        call.add_done_callback(lambda _: one.set())
    assert one.wait(10)
    return [call for call in calls if call.done()]


def test_rollback_reaches_the_engine_and_its_answer_comes_back() -> None:
    engine = FakeEngine()
    with serving(engine) as stubs:
        request = session.RollbackRequest(session=REF, request_id="back", checkpoint_id="c1", expected_revision=8)
        answer = stubs.sessions.Rollback(request)
    assert engine.asked == [RollbackInput(KEY, "back", "c1", 8)]
    assert (list(answer.checkpoint_ids), answer.revision) == (["c1", "c2"], 9)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"session": common.SessionRef()}, "session.session_id"),
        ({"request_id": ""}, "request_id"),
        ({"request_id": "r" * 129}, "request_id"),
        ({"checkpoint_id": ""}, "checkpoint_id"),
        ({"checkpoint_id": "c" * 257}, "checkpoint_id"),
        ({"expected_revision": -1}, "expected_revision"),
    ],
)
def test_rollback_field_that_may_not_be_so_is_refused_by_name(fields: dict[str, Any], field: str) -> None:
    engine = FakeEngine()
    with serving(engine) as stubs:
        request = session.RollbackRequest(**{"session": REF, "request_id": "r", "checkpoint_id": "c1", **fields})
        code, reason, details = _refused(lambda: stubs.sessions.Rollback(request))
    assert (code, reason, details["field"]) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", field)
    assert engine.asked == []


def _pages(stubs: Any, **fields: Any) -> list[list[str]]:
    pages, request = [], session.ListCheckpointsRequest(session=REF, **fields)
    while True:
        answer = stubs.sessions.ListCheckpoints(request)
        pages.append([each.checkpoint_id for each in answer.checkpoints])
        request.page_token = answer.next_page_token
        if not request.page_token:
            return pages


def test_list_checkpoints_gives_all_on_pages_oldest_first() -> None:
    engine = FakeEngine()
    with serving(engine) as stubs:
        assert _pages(stubs) == [[]]
        engine.views = [checkpoint(f"c{number}") for number in range(1, 6)]
        assert _pages(stubs) == [["c1", "c2", "c3", "c4", "c5"]]
        assert _pages(stubs, page_size=2) == [["c1", "c2"], ["c3", "c4"], ["c5"]]
        assert _pages(stubs, page_size=5) == [["c1", "c2", "c3", "c4", "c5"]]


def test_list_checkpoints_page_ends_before_its_summaries_get_large() -> None:
    engine = FakeEngine()
    sizes = (600_000, 500_000, 500_000, 2_000_000, 10)
    engine.views = [checkpoint(f"c{number}", b"s" * size) for number, size in enumerate(sizes, 1)]
    with serving(engine) as stubs:
        assert _pages(stubs) == [["c1"], ["c2", "c3"], ["c4"], ["c5"]]


def test_list_checkpoints_token_of_another_session_is_refused() -> None:
    engine = FakeEngine()
    engine.views = [checkpoint("c1"), checkpoint("c2")]
    with serving(engine) as stubs:
        token = stubs.sessions.ListCheckpoints(session.ListCheckpointsRequest(session=REF, page_size=1)).next_page_token
        other = session.ListCheckpointsRequest(session=common.SessionRef(session_id="other"), page_token=token)
        assert _refused(lambda: stubs.sessions.ListCheckpoints(other))[1] == "PAGE_TOKEN_INVALID"
        negative = session.ListCheckpointsRequest(session=REF, page_size=-1)
        assert _refused(lambda: stubs.sessions.ListCheckpoints(negative))[2]["field"] == "page_size"


def test_full_result_leaves_no_field_out() -> None:
    """Ensure that the tests above see each field: a default would hide one that the mapping forgot."""
    empty = CompactResult(CompactOutcome.KEPT)
    full = full_result()
    assert [name for name in full.__struct_fields__ if getattr(full, name) == getattr(empty, name)] == []
