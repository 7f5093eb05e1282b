"""Record and Recover at the edge: what reaches an engine, and how its answers travel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import msgspec
import pytest
from google.protobuf.message import Message

from sidecar.core.types import EffectState, Format, SessionKey, WorkState
from sidecar.engine.messages import (
    AnchorsGiven,
    CallRef,
    ConstraintGiven,
    CriterionGiven,
    DecisionGiven,
    Note,
    Pressure,
    ReceiptGiven,
    SourceRef,
    WorkGiven,
)
from sidecar.engine.record_messages import (
    OpenCallView,
    PinView,
    ReceiptView,
    RecordInput,
    RecordResult,
    RecoverInput,
    RecoverResult,
)
from tests.rpc.compact_fake import FakeEngine, checkpoint, full_result, serving
from tests.rpc.running import reason_of
from trimtab.v1 import common_pb2 as common
from trimtab.v1 import context_pb2 as context

REF = common.SessionRef(scope="team", session_id="run")
KEY = SessionKey("team", "run")
RECEIPT = common.Receipt(
    call=common.CallRef(call_id="c", item_index=0, call_index=0),
    state=common.EFFECT_STATE_PENDING,
    idempotency_key="k" * 3000,
    detail="d" * 3000,
    result=b'{"r":"\xff"}',
)
VIEW = ReceiptView(CallRef("c", 0, 0), EffectState.PENDING, "k" * 3000, "d" * 3000, b'{"r":"\xff"}')


def _refused(call: Callable[[], Any]) -> tuple[grpc.StatusCode, str, dict[str, str]]:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value.code(), *reason_of(caught.value)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("ours", "proto", "other"),
    [
        (RecordInput, context.RecordRequest, {"key": "session"}),
        (RecordResult, context.RecordResponse, {}),
        (RecoverInput, context.RecoverRequest, {"key": "session"}),
        (RecoverResult, context.RecoverResponse, {}),
        (OpenCallView, context.OpenCall, {}),
        (ReceiptView, common.Receipt, {}),
        (PinView, context.Pin, {}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_structs_have_the_fields_of_the_proto(ours: type[msgspec.Struct], proto: type[Message], other: dict[str, str]) -> None:
    names = {other.get(name, name) for name in ours.__struct_fields__}
    assert names == {field.name for field in proto.DESCRIPTOR.fields} - ({"released"} if ours is PinView else set())


def test_record_every_field_reaches_the_engine() -> None:
    engine = FakeEngine()
    request = context.RecordRequest(
        session=REF,
        request_id="call-1",
        format=common.FORMAT_ANTHROPIC_MESSAGES,
        items=b'[{"b":"\xff"}]',
        first_item_index=0,
        receipts=[RECEIPT],
        anchors=common.Anchors(goal="g"),
        expected_revision=0,
    )
    with serving(engine) as stubs:
        answer = stubs.context.Record(request, timeout=30)
    assert answer == context.RecordResponse(revision=7, item_count=3, history_digest=b"\xff")
    (given,) = engine.asked
    assert given == RecordInput(
        key=KEY,
        request_id="call-1",
        format=Format.ANTHROPIC_MESSAGES,
        items=b'[{"b":"\xff"}]',
        first_item_index=0,
        receipts=(ReceiptGiven(CallRef("c", 0, 0), EffectState.PENDING, "k" * 3000, "d" * 3000, b'{"r":"\xff"}'),),
        anchors=AnchorsGiven(goal="g"),
        expected_revision=0,
    )


def test_record_and_recover_what_is_not_set_is_not_told() -> None:
    engine = FakeEngine()
    with serving(engine) as stubs:
        stubs.context.Record(context.RecordRequest(session=REF, request_id="r"), timeout=30)
        answer = stubs.context.Recover(context.RecoverRequest(session=REF, request_id="ignored"), timeout=30)
    assert engine.asked == [RecordInput(KEY, "r"), RecoverInput(KEY)]
    assert answer == context.RecoverResponse(format=common.FORMAT_OPENAI_CHAT, anchors=common.Anchors())


def test_recover_every_field_reaches_the_engine() -> None:
    engine = FakeEngine()
    request = context.RecoverRequest(
        session=REF, include_body=True, close_interrupted=True, request_id="close-1", expected_revision=0
    )
    with serving(engine) as stubs:
        stubs.context.Recover(request, timeout=30)
    assert engine.asked == [
        RecoverInput(KEY, include_body=True, close_interrupted=True, request_id="close-1", expected_revision=0)
    ]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"session": common.SessionRef()}, "session.session_id"),
        ({"request_id": ""}, "request_id"),
        ({"request_id": "r" * 129}, "request_id"),
        ({"format": 99}, "format"),
        ({"first_item_index": -1}, "first_item_index"),
        ({"expected_revision": -1}, "expected_revision"),
        ({"receipts": [common.Receipt(state=common.EFFECT_STATE_PENDING)]}, "receipts[0].call"),
        ({"receipts": [RECEIPT, common.Receipt(call=common.CallRef(call_id="c"))]}, "receipts[1].state"),
        (
            {"receipts": [common.Receipt(call=common.CallRef(item_index=1), state=common.EFFECT_STATE_PENDING)]},
            "receipts[0].call",
        ),
        ({"anchors": common.Anchors(work=[common.WorkItem(id="w")])}, "anchors.work[0].state"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_record_field_that_may_not_be_so_is_named(fields: dict[str, Any], field: str) -> None:
    engine = FakeEngine()
    request = context.RecordRequest(**{"session": REF, "request_id": "r", **fields})
    with serving(engine) as stubs:
        code, reason, details = _refused(lambda: stubs.context.Record(request, timeout=30))
    assert (code, reason, details["field"]) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", field)
    assert engine.asked == []


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"session": common.SessionRef()}, "session.session_id"),
        ({"close_interrupted": True}, "request_id"),
        ({"close_interrupted": True, "request_id": "r" * 129}, "request_id"),
        ({"expected_revision": -1}, "expected_revision"),
    ],
    ids=["session", "request_id", "long", "revision"],
)
def test_recover_field_that_may_not_be_so_is_named(fields: dict[str, Any], field: str) -> None:
    engine = FakeEngine()
    request = context.RecoverRequest(**{"session": REF, **fields})
    with serving(engine) as stubs:
        code, reason, details = _refused(lambda: stubs.context.Recover(request, timeout=30))
    assert (code, reason, details["field"]) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", field)
    assert engine.asked == []


def test_recover_every_value_travels() -> None:
    engine = FakeEngine()
    attempt = full_result().attempt
    assert attempt is not None
    anchors = AnchorsGiven(
        goal="g",
        success_criteria=(CriterionGiven("s", "t", True),),
        constraints=(ConstraintGiven("c", "t", SourceRef(call=CallRef("c", None, 1)), True), ConstraintGiven("d", "t")),
        decisions=(DecisionGiven("d", "t", (SourceRef(item_index=0), SourceRef(artifact_id="a" * 32)), True),),
        work=(WorkGiven("w", "t", WorkState.DONE, (SourceRef(note="n"),)),),
    )
    engine.known = RecoverResult(
        format=Format.ANTHROPIC_MESSAGES,
        revision=4,
        item_count=5,
        history_digest=b"\xff",
        anchors=anchors,
        body=b'{"b":"\xff"}',
        pressure=Pressure(total_bytes=9),
        checkpoints=(checkpoint(),),
        attempts=(attempt,),
        open_calls=(OpenCallView(CallRef("c", 0, 0), "to\ud800ol", b'{"c":"\xff"}', VIEW, b'{"r":1}'),),
        artifact_count=6,
        notes=(Note("SOME_NOTE", "text"),),
        receipts=(VIEW,),
        pins=(PinView(CallRef("c", 0, 0), ""), PinView(None, "tool")),
    )
    with serving(engine) as stubs:
        answer = stubs.context.Recover(context.RecoverRequest(session=REF), timeout=30)
    fields = {name: getattr(answer, name) for name in ("format", "revision", "item_count", "history_digest", "body")}
    assert list(fields.values()) == [common.FORMAT_ANTHROPIC_MESSAGES, 4, 5, b"\xff", b'{"b":"\xff"}']
    assert (answer.pressure.total_bytes, answer.artifact_count) == (9, 6)
    assert [each.checkpoint_id for each in answer.checkpoints] == ["c1"]
    assert [each.attempt_id for each in answer.attempts] == ["stage-1"]
    opened = context.OpenCall(
        call=RECEIPT.call, tool_name="to\ufffdol", content=b'{"c":"\xff"}', receipt=RECEIPT, closed_by=b'{"r":1}'
    )
    assert list(answer.open_calls) == [opened]
    assert list(answer.receipts) == [RECEIPT]
    assert list(answer.notes) == [context.Note(reason="SOME_NOTE", message="text")]
    assert list(answer.pins) == [context.Pin(call=RECEIPT.call), context.Pin(tool_name="tool")]
    assert answer.anchors == common.Anchors(
        goal="g",
        success_criteria=[common.Criterion(id="s", text="t", revoked=True)],
        constraints=[
            common.Constraint(
                id="c", text="t", source=common.Source(call=common.CallRef(call_id="c", call_index=1)), revoked=True
            ),
            common.Constraint(id="d", text="t"),
        ],
        decisions=[
            common.Decision(
                id="d", text="t", sources=[common.Source(item_index=0), common.Source(artifact_id="a" * 32)], revoked=True
            )
        ],
        work=[common.WorkItem(id="w", text="t", state=common.WORK_STATE_DONE, evidence=[common.Source(note="n")])],
    )
