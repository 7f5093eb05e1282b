from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from google.protobuf.message import Message

from sidecar.core.errors import InvalidFieldError
from sidecar.core.types import (
    EffectState,
    Format,
    LimitsGiven,
    Preset,
    ReadBack,
    ReductionKind,
    SessionKey,
    UsageFigures,
    WorkState,
)
from sidecar.engine import messages
from sidecar.engine.messages import (
    Advice,
    AnchorsGiven,
    ArtifactView,
    Blocker,
    CallRef,
    ConstraintGiven,
    CriterionGiven,
    DecisionGiven,
    FitOutcome,
    FitResult,
    HistoryMatch,
    KeptReason,
    Note,
    PinGiven,
    Pressure,
    ReceiptGiven,
    Reduction,
    ReductionTotal,
    SourceRef,
    TokenBasis,
    WorkGiven,
)
from sidecar.rpc.fit_mapping import decode_fit, encode_fit
from sidecar.rpc.mapping import decode_page_size, encode_text
from trimtab.v1 import common_pb2 as common
from trimtab.v1 import context_pb2 as context

REF = common.SessionRef(scope="team", session_id="run")


def _request(**fields: object) -> context.FitRequest:
    return context.FitRequest(**{"session": REF, "body": b"{}", **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ours", "proto"),
    [
        (Format, common.Format),
        (Preset, common.Preset),
        (ReadBack, context.ReadBack),
        (ReductionKind, context.ReductionKind),
        (EffectState, common.EffectState),
        (WorkState, common.WorkState),
        (FitOutcome, context.FitOutcome),
        (TokenBasis, common.TokenBasis),
        (KeptReason, context.KeptReason),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_enums_have_the_names_and_numbers_of_the_proto(ours: type, proto: object) -> None:
    values = dict(proto.items())  # type: ignore[attr-defined]
    prefix = next(name for name, number in values.items() if number == 0).removesuffix("UNSPECIFIED")
    assert {member.name: member.value for member in ours} == {  # type: ignore[attr-defined]
        name.removeprefix(prefix): number for name, number in values.items()
    }


@pytest.mark.parametrize(
    ("ours", "proto"),
    [
        (LimitsGiven, common.Limits),
        (UsageFigures, common.Usage),
        (Pressure, common.Pressure),
        (CallRef, common.CallRef),
        (Reduction, context.Reduction),
        (ReductionTotal, context.ReductionTotal),
        (HistoryMatch, context.HistoryMatch),
        (Blocker, context.Blocker),
        (Note, context.Note),
        (Advice, context.CompactionAdvice),
        (FitResult, context.FitResponse),
    ],
    ids=lambda value: value.__name__,
)
def test_structs_have_the_fields_of_the_proto(ours: type[msgspec.Struct], proto: type[Message]) -> None:
    assert set(ours.__struct_fields__) == {field.name for field in proto.DESCRIPTOR.fields}


def test_decode_fit_reads_every_field() -> None:
    call = common.CallRef(call_id="c", item_index=3, call_index=0)
    request = _request(
        format=common.FORMAT_ANTHROPIC_MESSAGES,
        limits=common.Limits(preset=common.PRESET_MINIMAL, soft_bytes=2048, externalize_bytes=0),
        anchors=common.Anchors(
            goal="g",
            success_criteria=[common.Criterion(id="s", text="t", revoked=True)],
            constraints=[common.Constraint(id="r", text="t", source=common.Source(item_index=0), revoked=True)],
            decisions=[common.Decision(id="d", text="t", sources=[common.Source(artifact_id="a"), common.Source(call=call)])],
            work=[common.WorkItem(id="w", text="t", state=common.WORK_STATE_DONE, evidence=[common.Source(note="n")])],
        ),
        receipts=[
            common.Receipt(call=call, state=common.EFFECT_STATE_WAITING, idempotency_key="k", detail="d", result=b"1"),
        ],
        pins=[context.Pin(call=call), context.Pin(tool_name="bash", released=True)],
        read_back=context.READ_BACK_TOOL,
        read_back_tool_name="recall",
        previous_usage=common.Usage(input_tokens=0),
        dry_run=True,
        list_applied=True,
        expected_revision=7,
    )
    ref = CallRef("c", 3, 0)
    assert decode_fit(request) == messages.FitInput(
        key=SessionKey("team", "run"),
        body=b"{}",
        format=Format.ANTHROPIC_MESSAGES,
        limits=LimitsGiven(preset=Preset.MINIMAL, soft_bytes=2048, externalize_bytes=0),
        anchors=AnchorsGiven(
            "g",
            (CriterionGiven("s", "t", True),),
            (ConstraintGiven("r", "t", SourceRef(item_index=0), True),),
            (DecisionGiven("d", "t", (SourceRef(artifact_id="a"), SourceRef(call=ref))),),
            (WorkGiven("w", "t", WorkState.DONE, (SourceRef(note="n"),)),),
        ),
        receipts=(ReceiptGiven(ref, EffectState.WAITING, "k", "d", b"1"),),
        pins=(PinGiven(call=ref), PinGiven(tool_name="bash", released=True)),
        read_back=ReadBack.TOOL,
        read_back_tool_name="recall",
        usage=UsageFigures(input_tokens=0),
        dry_run=True,
        list_applied=True,
        expected_revision=7,
    )


def test_decode_fit_what_is_not_given_stays_unknown() -> None:
    assert decode_fit(_request()) == messages.FitInput(key=SessionKey("team", "run"), body=b"{}")


def test_decode_fit_usage_as_json_is_passed_as_it_came() -> None:
    decoded = decode_fit(_request(previous_usage_json=b'{"input_tokens": 5}'))
    assert (decoded.usage, decoded.usage_json) == (None, b'{"input_tokens": 5}')


_CALL = common.CallRef(call_id="c")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"session": common.SessionRef(scope="s")}, "session.session_id"),
        ({"session": common.SessionRef(session_id="\u00e9" * 129)}, "session.session_id"),
        ({"session": common.SessionRef(session_id="x", scope="s" * 129)}, "session.scope"),
        ({"format": 99}, "format"),
        ({"read_back": 99}, "read_back"),
        ({"read_back_tool_name": "n" * 257}, "read_back_tool_name"),
        ({"limits": common.Limits(preset=99)}, "limits.preset"),  # type: ignore[arg-type]
        ({"limits": common.Limits(soft_bytes=1023)}, "limits.soft_bytes"),
        ({"limits": common.Limits(target_bytes=-1)}, "limits.target_bytes"),
        ({"limits": common.Limits(keep_unit_count=-1)}, "limits.keep_unit_count"),
        ({"limits": common.Limits(cache_ttl_ms=-1)}, "limits.cache_ttl_ms"),
        ({"previous_usage": common.Usage(output_tokens=-1)}, "previous_usage.output_tokens"),
        ({"expected_revision": -1}, "expected_revision"),
        ({"receipts": [common.Receipt(state=common.EFFECT_STATE_PENDING)]}, "receipts[0].call"),
        ({"receipts": [common.Receipt(call=_CALL)]}, "receipts[0].state"),
        ({"receipts": [common.Receipt(call=_CALL, state=77)]}, "receipts[0].state"),  # type: ignore[arg-type]
        ({"receipts": [common.Receipt(call=common.CallRef(item_index=1), state=1)]}, "receipts[0].call"),  # type: ignore[arg-type]
        ({"pins": [context.Pin(tool_name="a"), context.Pin()]}, "pins[1]"),
        ({"pins": [context.Pin(call=common.CallRef(call_id="x", item_index=-1))]}, "pins[0].call.item_index"),
        ({"anchors": common.Anchors(success_criteria=[common.Criterion(text="t")])}, "anchors.success_criteria[0].id"),
        ({"anchors": common.Anchors(constraints=[common.Constraint(text="t")])}, "anchors.constraints[0].id"),
        (
            {"anchors": common.Anchors(constraints=[common.Constraint(id="r", source=common.Source())])},
            "anchors.constraints[0].source",
        ),
        (
            {"anchors": common.Anchors(decisions=[common.Decision(id="d", sources=[common.Source(call=common.CallRef())])])},
            "anchors.decisions[0].sources[0].call",
        ),
        ({"anchors": common.Anchors(work=[common.WorkItem(id="w")])}, "anchors.work[0].state"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_decode_fit_bad_field_is_named(fields: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidFieldError) as caught:
        decode_fit(_request(**fields))
    assert caught.value.details == {"field": field}


def test_decode_fit_longest_names_pass() -> None:
    longest = common.SessionRef(scope="s" * 128, session_id="\u00e9" * 128)
    assert decode_fit(_request(session=longest)).key == SessionKey("s" * 128, "\u00e9" * 128)


def _result() -> FitResult:
    call = CallRef("c\ud800", 4, 1)
    return FitResult(
        outcome=FitOutcome.FITTED,
        body=b'{"messages":[]}',
        before=Pressure(total_bytes=10, user_bytes=10),
        after=Pressure(total_bytes=9, user_bytes=9, tokens=0, token_basis=TokenBasis.ESTIMATED),
        reductions=(Reduction(ReductionKind.RESULT, 5, call, "a" * 32, "", 100),),
        totals=(ReductionTotal(ReductionKind.RESULT, 1, 100),),
        artifacts=(ArtifactView("a" * 32, b"\x01" * 32, 5, 1, "text/plain", "bash", None, -1, True, 1_700_000_000_123),),
        advice=Advice(True, 2, 300, KeptReason.MID_STAGE),
        blockers=(Blocker(-1, 5, "TOOLS"),),
        notes=(Note("TOKENS_UNKNOWN", "m"),),
        match=HistoryMatch(1, 2, 3, 0, 5),
        revision=6,
        item_count=7,
        history_digest=b"d",
        stable_prefix_bytes=8,
        journal_durable=True,
        read_back_tool_name="trimtab_read",
        effective_limits=LimitsGiven(preset=Preset.BALANCED, soft_bytes=2048, externalize_bytes=0),
    )


def test_encode_fit_writes_every_field() -> None:
    expected: Callable[..., context.FitResponse] = context.FitResponse
    assert encode_fit(_result()) == expected(
        outcome=context.FIT_OUTCOME_FITTED,
        body=b'{"messages":[]}',
        before=common.Pressure(total_bytes=10, user_bytes=10, token_basis=common.TOKEN_BASIS_UNKNOWN),
        after=common.Pressure(total_bytes=9, user_bytes=9, tokens=0, token_basis=common.TOKEN_BASIS_ESTIMATED),
        reductions=[
            context.Reduction(
                kind=context.REDUCTION_KIND_RESULT,
                item_index=5,
                call=common.CallRef(call_id="c\ufffd", item_index=4, call_index=1),
                artifact_id="a" * 32,
                saved_bytes=100,
            )
        ],
        totals=[context.ReductionTotal(kind=context.REDUCTION_KIND_RESULT, count=1, saved_bytes=100)],
        artifacts=[
            common.Artifact(
                artifact_id="a" * 32,
                sha256=b"\x01" * 32,
                size_bytes=5,
                line_count=1,
                media_type="text/plain",
                tool_name="bash",
                item_index=-1,
                is_error=True,
                create_time={"seconds": 1_700_000_000, "nanos": 123_000_000},
            )
        ],
        advice=context.CompactionAdvice(eligible=True, unit_count=2, range_bytes=300, reason=context.KEPT_REASON_MID_STAGE),
        blockers=[context.Blocker(item_index=-1, size_bytes=5, reason="TOOLS")],
        notes=[context.Note(reason="TOKENS_UNKNOWN", message="m")],
        match=context.HistoryMatch(
            matched_item_count=1, rewritten_item_count=2, new_item_count=3, diverged_at=0, inapplicable_record_count=5
        ),
        revision=6,
        item_count=7,
        history_digest=b"d",
        stable_prefix_bytes=8,
        journal_durable=True,
        read_back_tool_name="trimtab_read",
        effective_limits=common.Limits(preset=common.PRESET_BALANCED, soft_bytes=2048, externalize_bytes=0),
    )


def test_encode_fit_unknown_stays_unset() -> None:
    response = encode_fit(msgspec.structs.replace(_result(), match=HistoryMatch()))
    assert not response.before.HasField("tokens")
    assert response.after.HasField("tokens")
    assert not response.match.HasField("diverged_at")
    assert response.effective_limits.HasField("externalize_bytes")
    assert not response.effective_limits.HasField("hard_bytes")


def test_encode_text_cuts_on_a_character() -> None:
    assert encode_text("a" + "\u20ac" * 200) == "a" + "\u20ac" * 85
    assert encode_text("x" * 256) == "x" * 256
    assert encode_text("\udfff") == "\ufffd"


def test_decode_page_size_zero_means_the_limit_and_more_is_cut() -> None:
    assert [decode_page_size(size, 100) for size in (0, 5, 100, 101)] == [100, 5, 100, 100]
    with pytest.raises(InvalidFieldError):
        decode_page_size(-1, 100)
