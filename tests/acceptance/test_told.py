"""What an agent tells along with a body: pins, receipts, anchors, and the revision that it expects."""

from __future__ import annotations

import pytest

from tests.helpers.bodies import FORMATS, History, history, words
from tests.helpers.client import Agent, Sidecar, tight
from tests.helpers.server import Server
from tests.helpers.view import read_view
from trimtab.v1 import common_pb2, context_pb2

LIMITS = tight(40_000, 15_000)

pytestmark = pytest.mark.parametrize("format_name", FORMATS)


def run_with_tools(format_name: str) -> History:
    """Twenty steps, every fourth with the tool `build`."""
    run = history(format_name).user("go")
    for index in range(20):
        run.step(words(3_000, index), "build" if index % 4 == 0 else "read_file")
    return run


def touched(agent: Agent) -> set[str]:
    """Ids of the calls that reductions name."""
    return {reduction.call.call_id for reduction in agent.response.reductions}


def test_fit_pinned_call_stays_until_released(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, LIMITS)
    run = run_with_tools(format_name)
    call = read_view(format_name, run.body()).calls[2]
    ref = common_pb2.CallRef(call_id=call.call_id.decode())
    agent.fit(run.body(), pins=[context_pb2.Pin(call=ref)], kept=[(call.item, call.index)])
    assert agent.count > 5
    agent.fit(run.steps(12, 3_000).body(), kept=[(call.item, call.index)])
    assert ref.call_id not in touched(agent)
    agent.fit(run.steps(12, 3_000).body(), pins=[context_pb2.Pin(call=ref, released=True)])
    assert ref.call_id in touched(agent)


def test_fit_pinned_by_position_stays(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, LIMITS)
    run = run_with_tools(format_name)
    call = read_view(format_name, run.body()).calls[1]
    pin = context_pb2.Pin(call=common_pb2.CallRef(item_index=call.item, call_index=call.index))
    agent.fit(run.body(), pins=[pin], kept=[(call.item, call.index)])
    assert agent.count > 5


def test_fit_pinned_tool_stays(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, LIMITS)
    run = run_with_tools(format_name)
    kept = [(call.item, call.index) for call in read_view(format_name, run.body()).calls if call.name == b"build"]
    agent.fit(run.body(), pins=[context_pb2.Pin(tool_name="build")], kept=kept)
    assert agent.count > 5
    assert agent.response.outcome == context_pb2.FIT_OUTCOME_FITTED or any(b.reason == "PINNED" for b in agent.response.blockers)


def test_fit_everything_pinned_is_over_and_says_so(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, LIMITS)
    run = run_with_tools(format_name)
    agent.fit(run.body(), pins=[context_pb2.Pin(tool_name="build"), context_pb2.Pin(tool_name="read_file")])
    assert agent.response.outcome == context_pb2.FIT_OUTCOME_OVER
    assert agent.count == 0
    assert "PINNED" in {blocker.reason for blocker in agent.response.blockers}


def test_fit_what_is_out_stays_out_when_pinned(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, LIMITS)
    run = run_with_tools(format_name)
    first = agent.fit(run.body())
    assert agent.fit(run.body(), pins=[context_pb2.Pin(tool_name="build"), context_pb2.Pin(tool_name="read_file")]) == first


@pytest.mark.parametrize("state", [common_pb2.EFFECT_STATE_WAITING, common_pb2.EFFECT_STATE_UNKNOWN])
def test_fit_receipt_keeps_its_unit_unsettled_until_a_new_one(
    sidecar: Sidecar, format_name: str, state: common_pb2.EffectState
) -> None:
    agent = Agent(sidecar, format_name, LIMITS)
    run = run_with_tools(format_name)
    call = read_view(format_name, run.body()).calls[0]
    ref = common_pb2.CallRef(call_id=call.call_id.decode())
    agent.fit(run.body(), receipts=[common_pb2.Receipt(call=ref, state=state)], kept=[(call.item, call.index)])
    assert agent.count > 5
    agent.fit(run.steps(12, 3_000).body(), kept=[(call.item, call.index)])
    settled = common_pb2.Receipt(call=ref, state=common_pb2.EFFECT_STATE_SETTLED)
    agent.fit(run.steps(12, 3_000).body(), receipts=[settled])
    assert ref.call_id in touched(agent)


@pytest.mark.parametrize("state", [common_pb2.EFFECT_STATE_PENDING, common_pb2.EFFECT_STATE_NOT_STARTED])
def test_fit_receipt_before_the_result_is_ended_by_it(sidecar: Sidecar, format_name: str, state: common_pb2.EffectState) -> None:
    agent = Agent(sidecar, format_name, LIMITS)
    run = history(format_name).user("go").call(("act", {"n": 1}))
    ref = common_pb2.CallRef(call_id=run.open_ids[0])
    agent.fit(run.body(), receipts=[common_pb2.Receipt(call=ref, state=state, idempotency_key="k-1")])
    agent.fit(run.results(words(5_000)).steps(20, 3_000).body())
    assert ref.call_id in touched(agent)


def test_fit_receipt_of_one_call_keeps_the_batch(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, LIMITS)
    run = history(format_name).user("go").call(("a", {}), ("b", {}), ("c", {}))
    ids = list(run.open_ids)
    run.results(*[words(4_000, name) for name in "abc"]).steps(20, 3_000)
    waiting = common_pb2.Receipt(call=common_pb2.CallRef(call_id=ids[1]), state=common_pb2.EFFECT_STATE_WAITING)
    agent.fit(run.body(), receipts=[waiting], kept=[(1, 0), (1, 1), (1, 2)])
    assert agent.count > 5


def test_fit_receipt_or_pin_of_no_call_refused(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, LIMITS)
    run = history(format_name).user("go").steps(2, 500)
    for ref in (
        common_pb2.CallRef(call_id="nobody"),
        common_pb2.CallRef(item_index=1, call_index=9),
        common_pb2.CallRef(item_index=70, call_index=0),
    ):
        receipt = common_pb2.Receipt(call=ref, state=common_pb2.EFFECT_STATE_PENDING)
        failure = sidecar.failure(agent.session_id, run.body(), receipts=[receipt], format=format_name)
        assert (failure.reason, failure.trailer) == ("CALL_NOT_FOUND", "CALL_NOT_FOUND")
        failure = sidecar.failure(agent.session_id, run.body(), pins=[context_pb2.Pin(call=ref)], format=format_name)
        assert failure.reason == "CALL_NOT_FOUND"
    assert not sidecar.exists(agent.session_id)


def test_fit_receipt_without_state_refused(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name)
    run = history(format_name).user("go").step("x")
    receipt = common_pb2.Receipt(call=common_pb2.CallRef(call_id="call_000001"))
    assert sidecar.failure(agent.session_id, run.body(), receipts=[receipt], format=format_name).reason == "INVALID_FIELD"


def test_fit_anchors_accepted_and_merged(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name)
    run = history(format_name).user("go").steps(2, 500)
    anchors = common_pb2.Anchors(
        goal="ship it",
        constraints=[common_pb2.Constraint(id="c1", text="never push to main", source=common_pb2.Source(item_index=0))],
        decisions=[common_pb2.Decision(id="d1", text="use LMDB", sources=[common_pb2.Source(note="talk")])],
        work=[common_pb2.WorkItem(id="w1", text="write tests", state=common_pb2.WORK_STATE_OPEN)],
    )
    body = run.body()
    assert agent.fit(body, anchors=anchors) == body
    revision = agent.response.revision
    assert agent.response.journal_durable
    agent.fit(body, anchors=anchors)
    assert agent.response.revision == revision
    agent.fit(body, anchors=common_pb2.Anchors(constraints=[common_pb2.Constraint(id="c1", revoked=True)]))
    assert agent.response.revision == revision + 1
    bad = common_pb2.Anchors(work=[common_pb2.WorkItem(id="w2", text="x")])
    assert sidecar.failure(agent.session_id, body, anchors=bad, format=format_name).reason == "INVALID_FIELD"
    nameless = common_pb2.Anchors(constraints=[common_pb2.Constraint(text="no id")])
    assert sidecar.failure(agent.session_id, body, anchors=nameless, format=format_name).reason == "INVALID_FIELD"


def test_fit_expected_revision_checked_when_something_is_new(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, LIMITS)
    run = run_with_tools(format_name)
    agent.fit(run.body())
    revision = agent.response.revision
    assert revision >= 1
    agent.fit(run.body(), expected_revision=revision + 7)
    anchors = common_pb2.Anchors(goal="other")
    failure = sidecar.failure(agent.session_id, run.body(), anchors=anchors, expected_revision=revision + 7, format=format_name)
    assert (failure.reason, failure.trailer) == ("REVISION_CONFLICT", "REVISION_CONFLICT")
    assert failure.details["revision"] == str(revision)
    grown = run.copy().steps(3, 3_000).body()
    assert (
        sidecar.failure(agent.session_id, grown, expected_revision=revision - 1, format=format_name).reason == "REVISION_CONFLICT"
    )
    assert sidecar.session(agent.session_id).item_count == len(run.items)
    agent.fit(grown, expected_revision=revision)


def test_fit_told_things_outlive_sigkill(own_server: Server, format_name: str) -> None:
    assert own_server.channel is not None
    agent = Agent(Sidecar(own_server.channel), format_name, LIMITS)
    run = run_with_tools(format_name)
    calls = read_view(format_name, run.body()).calls
    pin = context_pb2.Pin(call=common_pb2.CallRef(call_id=calls[0].call_id.decode()))
    receipt = common_pb2.Receipt(
        call=common_pb2.CallRef(call_id=calls[1].call_id.decode()), state=common_pb2.EFFECT_STATE_WAITING
    )
    kept = [(calls[0].item, calls[0].index), (calls[1].item, calls[1].index)]
    agent.fit(run.body(), pins=[pin], receipts=[receipt], kept=kept)
    own_server.restart()
    agent.sidecar = Sidecar(own_server.channel)
    agent.fit(run.steps(15, 3_000).body(), limits=None, read_back=0, format=0, kept=kept)
    assert agent.count > 15
