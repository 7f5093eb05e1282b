"""Fit's messages read and written on the wire: what the generated classes read and write is the reference."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.errors import InvalidFieldError
from sidecar.core.types import LimitsGiven, Preset, ReductionKind
from sidecar.engine.messages import (
    Advice,
    Blocker,
    FitOutcome,
    FitResult,
    HistoryMatch,
    KeptReason,
    Note,
    Pressure,
    Reduction,
    ReductionTotal,
    TokenBasis,
)
from sidecar.rpc.fit_mapping import decode_fit, encode_fit
from sidecar.rpc.fit_wire import read_fit, write_fit
from trimtab.v1 import common_pb2 as common
from trimtab.v1 import context_pb2 as context

counts = st.integers(0, (1 << 31) - 1)
maybe = st.none() | counts
texts = st.text(max_size=300)
pressures = st.builds(Pressure, *[counts] * 10, maybe, st.sampled_from(TokenBasis))
limits = st.builds(LimitsGiven, st.sampled_from(Preset), *[maybe] * 13)
results = st.builds(
    FitResult,
    outcome=st.sampled_from(FitOutcome),
    body=st.binary(max_size=40),
    before=pressures,
    after=pressures,
    reductions=st.lists(
        st.builds(
            Reduction, st.sampled_from(ReductionKind), counts, st.none(), st.just("a" * 32), st.just(""), st.integers(-5, 5)
        ),
        max_size=2,
    ).map(tuple),
    totals=st.lists(st.builds(ReductionTotal, st.sampled_from(ReductionKind), counts, st.integers(-9, 9)), max_size=2).map(tuple),
    artifacts=st.just(()),
    advice=st.builds(Advice, st.booleans(), counts, counts, st.sampled_from(KeptReason)),
    blockers=st.lists(st.builds(Blocker, st.integers(-1, 9), counts, texts), max_size=2).map(tuple),
    notes=st.lists(st.builds(Note, st.sampled_from(["A", ""]), texts), max_size=3).map(tuple),
    match=st.builds(HistoryMatch, counts, counts, counts, maybe, counts),
    revision=counts,
    item_count=counts,
    history_digest=st.binary(max_size=32),
    stable_prefix_bytes=counts,
    journal_durable=st.booleans(),
    read_back_tool_name=texts,
    effective_limits=limits,
)


def full_request(body: bytes = b"{}") -> context.FitRequest:
    return context.FitRequest(
        session=common.SessionRef(scope="team", session_id="run"),
        format=common.FORMAT_OPENAI_CHAT,
        body=body,
        limits=common.Limits(soft_bytes=2048, externalize_bytes=0),
        anchors=common.Anchors(goal="g"),
        read_back=context.READ_BACK_CALLER,
        previous_usage=common.Usage(input_tokens=5),
        list_applied=True,
        expected_revision=0,
    )


@given(result=results)
def test_write_fit_is_what_the_generated_class_writes(result: FitResult) -> None:
    assert write_fit(result) == encode_fit(result).SerializeToString()


def test_write_fit_one_pressure_for_both_is_written_twice() -> None:
    pressure = Pressure(total_bytes=7)
    result = FitResult(
        FitOutcome.UNCHANGED,
        b"",
        pressure,
        pressure,
        (),
        (),
        (),
        Advice(),
        (),
        (),
        HistoryMatch(),
        0,
        0,
        b"",
        0,
        True,
        "",
        LimitsGiven(),
    )
    assert context.FitResponse.FromString(write_fit(result)).after.total_bytes == 7


@pytest.mark.parametrize("body", [b"", b"{}", b"\xff" * 70_000])
def test_read_fit_is_what_the_generated_class_reads(body: bytes) -> None:
    request = full_request(body)
    for _ in range(2):  # the second time from what was kept
        assert read_fit(request.SerializeToString()) == decode_fit(request)


def test_read_fit_another_body_with_the_same_rest_is_read() -> None:
    one, other = (read_fit(full_request(body).SerializeToString()) for body in (b"[1]", b"[2]"))
    assert (one.body, other.body) == (b"[1]", b"[2]")
    assert msgspec.structs.replace(one, body=b"") == msgspec.structs.replace(other, body=b"")


def test_read_fit_the_last_of_two_bodies_counts() -> None:
    assert read_fit(full_request(b"a").SerializeToString() + b"\x1a\x01b").body == b"b"


def test_read_fit_more_than_is_kept_is_read() -> None:
    request = full_request()
    request.anchors.goal = "g" * 5000
    assert read_fit(request.SerializeToString()) == decode_fit(request)


@pytest.mark.parametrize("data", [b"\x1a\x05abc", b"\xff", full_request().SerializeToString() + b"\x4a\x01\xff"])
def test_read_fit_what_is_no_request_is_refused_without_quoting_it(data: bytes) -> None:
    for _ in range(2):
        with pytest.raises(InvalidFieldError) as refused:
            read_fit(data)
        assert refused.value.details["field"] == "request"
        assert refused.value.__cause__ is None


def test_read_fit_a_bad_field_is_named_each_time() -> None:
    request = full_request()
    request.read_back = 99  # type: ignore[assignment]
    for _ in range(2):
        with pytest.raises(InvalidFieldError) as refused:
            read_fit(request.SerializeToString())
        assert refused.value.details["field"] == "read_back"
