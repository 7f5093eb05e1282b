"""Limits in tokens, by the cache's age, by the provider's own figures; and what an answer lists."""

from __future__ import annotations

import json
import time

import pytest

from tests.helpers.bodies import FORMATS, history, words
from tests.helpers.client import Agent, Sidecar, notes, tight
from tests.helpers.view import read_view
from trimtab.v1 import common_pb2, context_pb2

FITTED = context_pb2.FIT_OUTCOME_FITTED
UNCHANGED = context_pb2.FIT_OUTCOME_UNCHANGED

pytestmark = pytest.mark.parametrize("format_name", FORMATS)


def usage_json(format_name: str, tokens: int, cached: int | None) -> bytes:
    """The provider's usage object; without a figure for the cache when that is None."""
    if format_name == "openai-chat":
        details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0}}
        return json.dumps({"prompt_tokens": tokens, "completion_tokens": 9, "total_tokens": tokens + 9, **details}).encode()
    if format_name == "openai-responses":
        details = {} if cached is None else {"input_tokens_details": {"cached_tokens": cached}}
        return json.dumps({"input_tokens": tokens, "output_tokens": 9, "total_tokens": tokens + 9, **details}).encode()
    if format_name == "gemini":
        details = {} if cached is None else {"cachedContentTokenCount": cached}
        return json.dumps({"promptTokenCount": tokens, "candidatesTokenCount": 9, **details}).encode()
    if format_name == "bedrock-converse":
        read = {} if cached is None else {"cacheReadInputTokens": cached, "cacheWriteInputTokens": 0}
        return json.dumps({"inputTokens": tokens - (cached or 0), "outputTokens": 9, "totalTokens": tokens + 9, **read}).encode()
    read = {} if cached is None else {"cache_read_input_tokens": cached, "cache_creation_input_tokens": 0}
    return json.dumps({"input_tokens": tokens - (cached or 0), "output_tokens": 9, **read}).encode()


@pytest.mark.parametrize(
    ("cached", "outcome"), [(0, FITTED), (39_000, UNCHANGED), (None, UNCHANGED)], ids=["lost", "warm", "not-told"]
)
def test_fit_usage_as_the_provider_gave_it(sidecar: Sidecar, format_name: str, cached: int | None, outcome: int) -> None:
    agent = Agent(sidecar, format_name)
    run = history(format_name).user("go").steps(50, 3_000)
    agent.fit(run.body())
    agent.fit(run.steps(1, 100).body(), previous_usage_json=usage_json(format_name, 40_000, cached))
    assert agent.response.outcome == outcome
    assert agent.response.before.token_basis == common_pb2.TOKEN_BASIS_CALIBRATED
    assert 40_000 < agent.response.before.tokens < 42_000


def test_fit_usage_that_is_no_json_refused(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name)
    run = history(format_name).user("go").steps(2, 300)
    agent.fit(run.body())
    failure = sidecar.failure(agent.session_id, run.body(), format=format_name, previous_usage_json=b"{tokens: many}")
    assert failure.reason in {"MALFORMED_BODY", "INVALID_FIELD"}


def test_fit_tokens_not_told_are_not_zero(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name)
    agent.fit(history(format_name).user("go").body())
    assert not agent.response.before.HasField("tokens")
    assert agent.response.before.token_basis == common_pb2.TOKEN_BASIS_UNKNOWN


def test_fit_window_and_reply_make_a_hard_limit(sidecar: Sidecar, format_name: str) -> None:
    limits = common_pb2.Limits(window_tokens=20_000, reply_tokens=4_000, externalize_bytes=0)
    agent = Agent(sidecar, format_name, limits)
    agent.fit(history(format_name).user("go").steps(20, 3_000).body())
    assert agent.response.before.token_basis == common_pb2.TOKEN_BASIS_ESTIMATED
    assert agent.response.before.tokens > 16_000
    assert agent.count > 0
    assert agent.response.after.tokens <= 16_000
    assert agent.response.outcome == FITTED
    other = Agent(sidecar, format_name, limits)
    other.fit(history(format_name).user(words(60_000)).body())
    assert other.response.outcome == context_pb2.FIT_OUTCOME_CANNOT_FIT


def test_fit_window_preset_acts_by_share(sidecar: Sidecar, format_name: str) -> None:
    limits = common_pb2.Limits(preset=common_pb2.PRESET_WINDOW, window_tokens=40_000)
    agent = Agent(sidecar, format_name, limits)
    run = history(format_name).user("go").steps(30, 1_500)
    agent.fit(run.body())
    assert agent.count == 0
    usage = common_pb2.Usage(input_tokens=33_000, cached_input_tokens=32_000)
    agent.fit(run.steps(10, 1_500).body(), previous_usage=usage)
    assert agent.count > 0
    assert agent.response.after.tokens < agent.response.before.tokens
    effective = agent.response.effective_limits
    assert 0 < effective.target_bytes < effective.soft_bytes


def test_fit_window_without_figures_is_told(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, common_pb2.Limits(preset=common_pb2.PRESET_WINDOW, window_tokens=40_000))
    agent.fit(history(format_name).user("go").steps(3, 500).body())
    assert "TOKENS_UNKNOWN" in notes(agent.response)


def test_fit_keep_result_tokens_protects_the_newest(sidecar: Sidecar, format_name: str) -> None:
    run = history(format_name).user("go").steps(30, 2_000)
    agent = Agent(sidecar, format_name, tight(50_000, 30_000, keep_unit_count=1, keep_result_tokens=8_000))
    agent.fit(run.body())
    assert agent.count > 0
    view = read_view(format_name, agent.sent)
    kept = [result for result in view.results if result.node.end - result.node.start > 2_000]
    assert sum(result.node.end - result.node.start for result in kept[-8:]) >= 16_000
    assert [result.item for result in kept[-7:]] == [result.item for result in view.results[-7:]]


def test_fit_session_idle_past_the_cache_ttl_cuts_early(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, common_pb2.Limits(cache_ttl_ms=150))
    run = history(format_name).user("go").steps(50, 3_000)
    agent.fit(run.body())
    agent.fit(run.steps(1, 100).body())
    assert agent.response.outcome == UNCHANGED
    time.sleep(0.4)
    agent.fit(run.steps(1, 100).body())
    assert agent.response.outcome == FITTED


def test_fit_min_saving_is_kept(sidecar: Sidecar, format_name: str) -> None:
    run = history(format_name).user(words(30_000)).steps(8, 1_500)
    for least, cuts in ((20_000, False), (3_000, True)):
        agent = Agent(sidecar, format_name, tight(30_000, 20_000, min_saving_bytes=least, keep_unit_count=2))
        agent.fit(run.body())
        assert (agent.count > 0) == cuts
        assert agent.response.outcome == context_pb2.FIT_OUTCOME_OVER


def test_fit_without_list_applied_lists_only_new_reductions(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, tight(30_000, 12_000))
    run = history(format_name).user("go").steps(20, 3_000)
    agent.fit(run.body())
    totals, count = list(agent.response.totals), agent.count
    answer = sidecar.fit(agent.session_id, run.body(), list_applied=False, format=format_name)
    assert (len(answer.reductions), list(answer.totals)) == (0, totals)
    assert answer.body == agent.sent
    grown = run.steps(14, 3_000).body()
    answer = sidecar.fit(agent.session_id, grown, list_applied=False, format=format_name)
    assert 0 < len(answer.reductions) == sum(total.count for total in answer.totals) - count
    assert {a.artifact_id for a in answer.artifacts} == {r.artifact_id for r in answer.reductions}


def test_read_items_are_the_bytes_that_first_came(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, tight(20_000, 9_000))
    run = history(format_name).user("go \u00e9").steps(9, 3_000).step(words(20_000, "large")).user("ok")
    body = json.dumps(run.value(), indent=3).encode().replace(b'"go ', b'"\\u0067o ')
    agent.fit(body)
    assert agent.count > 0
    agent.fit(run.body(), raw=run.body())
    view = read_view(format_name, body)
    assert sidecar.items(agent.session_id) == [item.raw(body) for item in view.items]
