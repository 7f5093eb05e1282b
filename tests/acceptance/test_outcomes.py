"""What Fit comes to: unchanged, fitted, over, cannot; and what it leaves alone."""

from __future__ import annotations

import pytest

from tests.helpers.bodies import FORMATS, history, words
from tests.helpers.client import CALLER, NONE, Agent, Sidecar, notes, tight
from trimtab.v1 import common_pb2, context_pb2

UNCHANGED = context_pb2.FIT_OUTCOME_UNCHANGED
FITTED = context_pb2.FIT_OUTCOME_FITTED
OVER = context_pb2.FIT_OUTCOME_OVER
CANNOT_FIT = context_pb2.FIT_OUTCOME_CANNOT_FIT
EXTERNALIZE = context_pb2.REDUCTION_KIND_EXTERNALIZE
RECENT_RESULT = context_pb2.REDUCTION_KIND_RECENT_RESULT

pytestmark = pytest.mark.parametrize("format_name", FORMATS)


def test_fit_under_the_limits_unchanged_without_body(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name)
    run = history(format_name).user("go")
    for _ in range(4):
        body = run.steps(5, 9_000).body()
        agent.fit(body)
        assert agent.response.outcome == UNCHANGED
        assert agent.response.body == b""
        assert agent.count == 0
        assert not agent.response.artifacts
        assert not agent.response.totals
        assert agent.response.before == agent.response.after
    assert agent.response.match.new_item_count == 10
    assert sidecar.session(agent.session_id).artifact_count == 0


def test_fit_result_over_externalize_bytes_leaves_on_arrival(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name)
    run = history(format_name).user("go").steps(3, 2_000).step(words(32_000, "just under"))
    agent.fit(run.body())
    assert agent.response.outcome == UNCHANGED
    big = words(33_500, "over")
    agent.fit(run.step(big).body())
    assert agent.response.outcome == FITTED
    assert [reduction.kind for reduction in agent.response.reductions] == [EXTERNALIZE]
    assert sidecar.read(agent.session_id, agent.response.reductions[0].artifact_id) == big.encode()
    assert [artifact.artifact_id for artifact in agent.response.artifacts] == [agent.response.reductions[0].artifact_id]
    agent.fit(run.steps(2, 100).body())
    assert (agent.count, len(agent.response.artifacts)) == (1, 0)


def test_fit_externalize_turned_off_unchanged(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, common_pb2.Limits(externalize_bytes=0))
    agent.fit(history(format_name).user("go").step(words(90_000)).body())
    assert agent.response.outcome == UNCHANGED


def test_fit_externalize_waits_for_the_whole_batch(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name)
    run = history(format_name).user("go").call(("a", {}), ("b", {})).results(words(50_000))
    agent.fit(run.body())
    assert agent.count == 0
    agent.fit(run.results("short").body())
    assert [reduction.kind for reduction in agent.response.reductions] == [EXTERNALIZE]


@pytest.mark.parametrize(
    ("usage", "preset", "outcome"),
    [
        ({"input_tokens": 40_000, "cached_input_tokens": 0}, common_pb2.PRESET_BALANCED, FITTED),
        ({"input_tokens": 40_000, "cached_input_tokens": 39_000}, common_pb2.PRESET_BALANCED, UNCHANGED),
        ({"input_tokens": 40_000}, common_pb2.PRESET_BALANCED, UNCHANGED),
        ({"input_tokens": 40_000, "cached_input_tokens": 0}, common_pb2.PRESET_MINIMAL, UNCHANGED),
    ],
    ids=["lost", "warm", "not-told", "minimal"],
)
def test_fit_lost_cache_cuts_early(
    sidecar: Sidecar, format_name: str, usage: dict[str, int], preset: common_pb2.Preset, outcome: int
) -> None:
    agent = Agent(sidecar, format_name, common_pb2.Limits(preset=preset))
    run = history(format_name).user("go").steps(50, 3_000)
    agent.fit(run.body())
    assert agent.response.outcome == UNCHANGED
    agent.fit(run.steps(1, 100).body(), previous_usage=common_pb2.Usage(**usage))
    assert agent.response.outcome == outcome


def test_fit_dry_run_of_a_new_session_writes_nothing(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, tight(30_000, 10_000))
    body = history(format_name).user("go").steps(20, 3_000).body()
    agent.fit(body, dry_run=True, oracle=False)
    plan = agent.response
    assert plan.outcome == FITTED
    assert plan.body == b""
    assert not plan.artifacts
    assert not sidecar.exists(agent.session_id)
    agent.fit(body)
    assert list(agent.response.reductions) == list(plan.reductions)
    assert (agent.response.before, agent.response.after) == (plan.before, plan.after)


def test_fit_dry_run_of_a_known_session_writes_nothing(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, tight(40_000, 20_000))
    run = history(format_name).user("go").steps(20, 3_000)
    first = agent.fit(run.body())
    session, revision = sidecar.session(agent.session_id), agent.response.revision
    grown = run.copy().steps(9, 3_000)
    anchors = common_pb2.Anchors(goal="never kept")
    pins = [context_pb2.Pin(tool_name="read_file")]
    agent.fit(grown.body(), limits=tight(20_000, 5_000), anchors=anchors, pins=pins, dry_run=True, oracle=False)
    after = sidecar.session(agent.session_id)
    assert (after.revision, after.item_count, after.stored_bytes, after.artifact_count) == (
        session.revision,
        session.item_count,
        session.stored_bytes,
        session.artifact_count,
    )
    assert agent.fit(run.body(), limits=None) == first
    assert agent.response.revision == revision
    assert agent.response.effective_limits.soft_bytes == 40_000
    assert agent.response.match.new_item_count == 0


def test_fit_read_back_none_replaces_nothing(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, tight(20_000, 10_000), read_back=NONE)
    agent.fit(history(format_name).user("go").steps(20, 3_000).step(words(60_000)).body())
    assert agent.response.outcome == OVER
    assert (agent.count, agent.response.body, len(agent.response.artifacts)) == (0, b"", 0)
    assert agent.response.blockers


def test_fit_read_back_none_later_keeps_what_is_out(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, tight(20_000, 10_000))
    run = history(format_name).user("go").steps(20, 3_000)
    agent.fit(run.body())
    count = agent.count
    agent.fit(run.steps(10, 3_000).body(), read_back=NONE)
    assert agent.count == count > 0


def test_fit_dangling_call_blocks_nothing_else(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, tight(30_000, 12_000))
    run = history(format_name).user("go").call(("lost", {"text": words(4_000)}))
    run.user("what happened?").steps(30, 3_000)
    agent.fit(run.body())
    assert agent.count >= 20
    assert "INVALID_HISTORY" in notes(agent.response)
    assert agent.response.outcome in {FITTED, OVER}


def test_fit_hard_limit_not_reachable_cannot_fit(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, tight(30_000, 20_000, hard_bytes=40_000))
    agent.fit(history(format_name).user(words(50_000)).steps(3, 1_000).body())
    assert agent.response.outcome == CANNOT_FIT
    assert agent.response.blockers[0].reason == "USER_TEXT"
    assert agent.response.blockers[0].item_index == 0
    assert agent.response.blockers[0].size_bytes >= 50_000


def test_fit_hard_limit_takes_from_the_tail(sidecar: Sidecar, format_name: str) -> None:
    limits = common_pb2.Limits(soft_bytes=200_000, target_bytes=100_000, hard_bytes=60_000, externalize_bytes=0)
    agent = Agent(sidecar, format_name, limits)
    sent = agent.fit(history(format_name).user("go").steps(2, 1_000).step(words(70_000, "a")).step(words(20_000, "b")).body())
    assert len(sent) <= 60_000
    assert [reduction.kind for reduction in agent.response.reductions] == [RECENT_RESULT]
    assert agent.response.outcome == FITTED


def test_fit_cut_above_its_target_waits_before_the_next(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, tight(40_000, 20_000, keep_unit_count=1))
    run = history(format_name).user(words(30_000)).steps(6, 3_000)
    floor = len(agent.fit(run.body()))
    assert 20_000 < floor <= 40_000
    count, waited, cut = agent.count, 0, 0
    for index in range(8):
        sent = agent.fit(run.step(words(2_500, f"w{index}")).body())
        if agent.count > count:
            cut += 1
            fresh = sum(artifact.size_bytes for artifact in agent.response.artifacts)
            assert len(sent) + fresh >= floor + 10_000
            break
        waited += len(sent) > 40_000
    assert waited >= 1
    assert cut == 1


def test_fit_limits_given_once_hold(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, common_pb2.Limits(soft_bytes=50_000))
    run = history(format_name).user("go").steps(3, 1_000)
    agent.fit(run.body())
    assert agent.response.effective_limits.soft_bytes == 50_000
    assert agent.response.effective_limits.target_bytes == 18_750
    assert agent.response.effective_limits.min_saving_bytes == 6_250
    agent.fit(run.steps(1, 10).body(), limits=common_pb2.Limits(keep_unit_count=2), read_back=0, format=0)
    effective = agent.response.effective_limits
    assert (effective.soft_bytes, effective.target_bytes, effective.keep_unit_count) == (50_000, 18_750, 2)
    agent.fit(run.steps(1, 10).body(), limits=common_pb2.Limits(preset=common_pb2.PRESET_MINIMAL), read_back=0, format=0)
    assert agent.response.effective_limits.target_bytes == 43_750


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        (common_pb2.Limits(soft_bytes=2_000, target_bytes=2_001), "target_bytes"),
        (common_pb2.Limits(soft_bytes=1_023), "soft_bytes"),
        (common_pb2.Limits(soft_bytes=-1), "soft_bytes"),
        (common_pb2.Limits(keep_unit_count=-1), "keep_unit_count"),
        (common_pb2.Limits(externalize_bytes=-1), "externalize_bytes"),
        (common_pb2.Limits(preset=common_pb2.PRESET_WINDOW), "window_tokens"),
        (common_pb2.Limits.FromString(b"\x08\x63"), "preset"),  # preset 99
    ],
)
def test_fit_limits_out_of_range_refused(sidecar: Sidecar, format_name: str, limits: common_pb2.Limits, field: str) -> None:
    agent = Agent(sidecar, format_name)
    failure = sidecar.failure(agent.session_id, history(format_name).user("go").body(), limits=limits, format=format_name)
    assert (failure.reason, failure.trailer) == ("INVALID_FIELD", "INVALID_FIELD")
    assert field in failure.details["field"]
    assert not sidecar.exists(agent.session_id)


def test_fit_session_names_checked(sidecar: Sidecar, format_name: str) -> None:
    body = history(format_name).user("go").body()
    for session_id, scope in (("", ""), ("x" * 257, ""), ("ok", "s" * 129)):
        assert sidecar.failure(session_id, body, scope=scope, format=format_name).reason == "INVALID_FIELD"
    assert sidecar.fit("x" * 256, body, scope="s" * 128, format=format_name).outcome == UNCHANGED
    assert sidecar.fit("ü/../\u2028" * 16, body, format=format_name).outcome == UNCHANGED


def test_fit_scopes_do_not_share(sidecar: Sidecar, format_name: str) -> None:
    body = history(format_name).user("go").step(words(40_000)).body()
    first = sidecar.fit(f"shared {format_name}", body, scope="one", format=format_name)
    assert sidecar.fit(f"shared {format_name}", body, scope="two", format=format_name).match.new_item_count == 3
    artifact = first.reductions[0].artifact_id
    assert sidecar.read(f"shared {format_name}", artifact, scope="one") == sidecar.read(
        f"shared {format_name}", artifact, scope="two"
    )
    assert not sidecar.exists(f"shared {format_name}")


def test_fit_format_detected_and_held(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name)
    run = history(format_name).user("go").steps(2, 500)
    agent.fit(run.body(), format=0, read_back=CALLER)
    assert sidecar.session(agent.session_id).format == run.format


def test_fit_dialect_that_there_is_not_refused(sidecar: Sidecar, format_name: str) -> None:
    body = history(format_name).user("go").body()
    for number in (6, 77):
        failure = sidecar.failure(f"dialect {number}", body, format=number)
        assert (failure.reason, failure.details["field"]) == ("INVALID_FIELD", "format")
