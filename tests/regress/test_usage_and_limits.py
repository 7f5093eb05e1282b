"""Figures: what a dry or refused call must not leave behind, and numbers at the ends of their range."""

from __future__ import annotations

import uuid

import grpc
import pytest

from tests.helpers.bodies import FORMATS, history
from tests.helpers.client import Agent, Failure, Sidecar
from tests.helpers.server import Server
from trimtab.v1 import common_pb2

ROOMY = common_pb2.Limits(soft_bytes=10_000_000)
BODY = history("openai-chat").user("go").steps(10, 1500)


def fit_or_reason(sidecar: Sidecar, session_id: str, **fields: object) -> str:
    """The error's reason; empty when there is none."""
    try:
        sidecar.fit(session_id, BODY.body(), format="openai-chat", **fields)
    except grpc.RpcError as error:
        return Failure.of(error).reason
    return ""


@pytest.mark.parametrize("format_name", FORMATS)
def test_fit_dry_run_does_not_remember_usage(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, ROOMY)
    body = history(format_name).user("go").steps(10, 1500).body()
    agent.fit(body)
    before = agent.response.before
    agent.fit(body, dry_run=True, previous_usage=common_pb2.Usage(input_tokens=10), oracle=False)
    agent.fit(body)
    assert agent.response.before == before


def test_fit_refused_call_does_not_remember_usage(sidecar: Sidecar) -> None:
    run = BODY.copy()
    agent = Agent(sidecar, "openai-chat", ROOMY)
    agent.fit(run.body())
    run.steps(1, 100)
    refused = sidecar.failure(
        agent.session_id,
        run.body(),
        format="openai-chat",
        expected_revision=99,
        previous_usage=common_pb2.Usage(input_tokens=7),
    )
    assert refused.reason == "REVISION_CONFLICT"
    agent.fit(run.body())
    assert not agent.response.after.HasField("tokens")


def test_fit_repeated_with_its_usage_same_tokens(sidecar: Sidecar) -> None:
    """Fit is repeatable: the usage of a repeat still belongs to the request before."""
    run = BODY.copy()
    agent = Agent(sidecar, "openai-chat", ROOMY)
    agent.fit(run.body())
    usage = common_pb2.Usage(input_tokens=len(run.body()) // 4)
    run.steps(10, 1500)
    agent.fit(run.body(), previous_usage=usage)
    tokens = agent.response.after.tokens
    agent.fit(run.body(), previous_usage=usage)
    assert agent.response.after.tokens == tokens


@pytest.mark.parametrize("preset", [common_pb2.PRESET_BALANCED, common_pb2.PRESET_WINDOW])
def test_fit_largest_window_is_answered_or_refused_and_the_session_lives(sidecar: Sidecar, preset: common_pb2.Preset) -> None:
    session_id = f"run-{uuid.uuid4().hex}"
    limits = common_pb2.Limits(preset=preset, window_tokens=2**63 - 1)
    assert fit_or_reason(sidecar, session_id, limits=limits) in {"", "INVALID_FIELD"}
    assert fit_or_reason(sidecar, session_id) == ""


@pytest.mark.parametrize("name", ["keep_result_tokens", "reply_tokens", "hard_bytes", "cache_ttl_ms", "summary_bytes"])
def test_fit_largest_limit_is_answered_or_refused(sidecar: Sidecar, name: str) -> None:
    limits = common_pb2.Limits(**{name: 2**63 - 1})  # type: ignore[arg-type]
    assert fit_or_reason(sidecar, f"run-{uuid.uuid4().hex}", limits=limits) in {"", "INVALID_FIELD"}


def test_fit_one_token_usage_in_a_large_window_is_answered(sidecar: Sidecar) -> None:
    session_id = f"run-{uuid.uuid4().hex}"
    limits = common_pb2.Limits(preset=common_pb2.PRESET_WINDOW, window_tokens=2**55)
    assert fit_or_reason(sidecar, session_id, limits=limits) == ""
    assert fit_or_reason(sidecar, session_id, previous_usage=common_pb2.Usage(input_tokens=1)) in {"", "INVALID_FIELD"}
    assert fit_or_reason(sidecar, session_id) == ""


@pytest.mark.parametrize("key", ["prompt_tokens", "completion_tokens"])
def test_fit_usage_figure_over_int64_is_refused(sidecar: Sidecar, key: str) -> None:
    session_id = f"run-{uuid.uuid4().hex}"
    assert fit_or_reason(sidecar, session_id) == ""
    usage = b'{"prompt_tokens":5,"%s":99999999999999999999999}' % key.encode()
    assert fit_or_reason(sidecar, session_id, previous_usage_json=usage) in {"MALFORMED_BODY", "INVALID_FIELD"}
    assert fit_or_reason(sidecar, session_id) == ""


def raw_call(channel: grpc.Channel, method: str, data: bytes) -> Failure:
    """Send bytes that are no request."""
    call = channel.unary_unary(method, request_serializer=bytes, response_deserializer=bytes)
    with pytest.raises(grpc.RpcError) as caught:
        call(data, timeout=10)
    return Failure.of(caught.value)


@pytest.mark.parametrize(
    "data",
    [b"\xff\xff\xff\xff", b"\x0a\x04\x12\x02\xff\xfe" + b"\x1a\x02{}"],
    ids=["garbage", "session-id-not-utf-8"],
)
def test_call_that_is_no_message_is_refused_with_a_reason(server: Server, sidecar: Sidecar, data: bytes) -> None:
    """DESIGN 4: every error has a stable reason and the trailer; INTERNAL means a broken invariant of ours."""
    assert server.channel is not None
    refused = raw_call(server.channel, "/trimtab.v1.ContextService/Fit", data)
    assert (refused.code, refused.trailer) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")
