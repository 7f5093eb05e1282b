"""Histories that turn back: rewound, replaced, flipped between two, or in another dialect. One branch for each real edit."""

from __future__ import annotations

import pytest

from tests.helpers.bodies import FORMATS, TYPED, History, history, words
from tests.helpers.client import Agent, Sidecar, notes, tight
from trimtab.v1 import context_pb2

LIMITS = tight(24_000, 12_000, keep_unit_count=3)

each_format = pytest.mark.parametrize("format_name", FORMATS)
each_typed = pytest.mark.parametrize("format_name", TYPED)


def out(agent: Agent) -> set[tuple[int, int, str]]:
    """Reductions in the last answer."""
    return {(reduction.kind, reduction.item_index, reduction.artifact_id) for reduction in agent.response.reductions}


def base(format_name: str) -> History:
    """Enough to be cut."""
    return history(format_name).user("go").steps(20, 1_500)


@each_format
def test_fit_rewound_history_one_branch_and_the_same_bytes(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, LIMITS)
    run = base(format_name)
    sent, before = agent.fit(run.body()), out(agent)
    back = run.copy()
    back.items = back.items[:-4]
    agent.fit(back.body())
    assert agent.response.match.diverged_at == len(back.items)
    assert (agent.response.match.matched_item_count, agent.response.match.new_item_count) == (len(back.items), 0)
    assert {entry for entry in before if entry[1] < len(back.items)} <= out(agent)
    agent.fit(back.answer("another way").user("yes").steps(2, 400).body())
    assert not agent.response.match.HasField("diverged_at")
    agent.fit(back.body())
    assert not agent.response.match.HasField("diverged_at")
    assert agent.response.match.new_item_count == 0
    assert len(sent) > 0


@each_format
def test_fit_last_turn_tried_again_branches_there(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, LIMITS)
    run = base(format_name)
    agent.fit(run.copy().answer("first try").body())
    before = out(agent)
    agent.fit(run.copy().answer("second try").body())
    assert agent.response.match.diverged_at == len(run.items)
    assert agent.response.match.new_item_count == 1
    assert before <= out(agent)


@each_format
def test_fit_flipping_between_two_histories_stores_nothing_twice(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, LIMITS)
    left = base(format_name).answer("left").user("l").steps(3, 1_500, "left")
    right = base(format_name).answer("right").user("r").steps(3, 1_500, "right")
    bodies = [agent.fit(left.body()), agent.fit(right.body())]
    agent.fit(left.body())
    agent.fit(right.body())
    first = sidecar.session(agent.session_id)
    for _ in range(4):
        assert [agent.fit(left.body()), agent.fit(right.body())] == bodies
    last = sidecar.session(agent.session_id)
    assert last.artifact_count == first.artifact_count
    assert last.stored_bytes <= first.stored_bytes + 16_384
    assert last.item_count == len(right.items)
    places = [(a.artifact_id, a.item_index) for a in sidecar.list_artifacts(agent.session_id) if a.item_index >= 0]
    assert len(places) == len(set(places))


@each_format
def test_fit_another_run_under_the_same_name_is_told(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, LIMITS)
    agent.fit(base(format_name).body())
    old = [reduction.artifact_id for reduction in agent.response.reductions]
    other = history(format_name).user("something else entirely").step("a", "other_tool").answer("b")
    agent.fit(other.body())
    assert agent.response.match.matched_item_count == 0
    assert agent.response.match.diverged_at == 0
    assert agent.response.match.HasField("diverged_at")
    assert "HISTORY_REPLACED" in notes(agent.response)
    assert all(sidecar.read(agent.session_id, artifact) for artifact in old)
    agent.fit(other.user("more").body())
    assert "HISTORY_REPLACED" not in notes(agent.response)
    assert not agent.response.match.HasField("diverged_at")


@each_format
def test_fit_in_another_dialect_starts_its_own_branch(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, LIMITS)
    agent.fit(base(format_name).body())
    old = [reduction.artifact_id for reduction in agent.response.reductions]
    other = next(name for name in FORMATS if name != format_name)
    again = Agent(sidecar, other, LIMITS, session_id=agent.session_id)
    again.fit(base(other).body())
    assert "FORMAT_CHANGED" in notes(again.response)
    assert again.count > 0
    assert all(sidecar.read(agent.session_id, artifact) for artifact in old)
    again.fit(base(other).steps(1, 100).body())
    assert "FORMAT_CHANGED" not in notes(again.response)
    assert sidecar.session(agent.session_id).format == base(other).format


@each_typed
def test_fit_item_edited_in_place_loses_only_its_own_record(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, LIMITS)
    run = base(format_name)
    agent.fit(run.body())
    before = out(agent)
    edited = run.copy()
    text = words(1_500, "edited by the user")
    if format_name == "openai-chat":
        edited.items[6]["content"] = text
    else:
        edited.items[6]["content"][0]["content"] = text
    agent.fit(edited.body())
    assert 6 in {entry[1] for entry in before}
    assert agent.response.match.diverged_at == 6
    assert agent.response.match.new_item_count == 1
    assert agent.response.match.inapplicable_record_count >= 1
    assert {entry for entry in before if entry[1] != 6} <= out(agent)


@each_format
def test_fit_an_item_twice_in_a_row_is_matched_in_order(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, LIMITS)
    run = history(format_name).user("go")
    for _ in range(20):
        run.call(("poll", {}), ids=["same"]).results(words(1_500, "the same"))
    agent.fit(run.body())
    assert agent.count > 0
    agent.fit(run.call(("poll", {}), ids=["same"]).results(words(1_500, "the same")).body())
    assert not agent.response.match.HasField("diverged_at")
    assert (agent.response.match.matched_item_count, agent.response.match.new_item_count) == (41, 2)
    assert agent.response.outcome in {context_pb2.FIT_OUTCOME_FITTED, context_pb2.FIT_OUTCOME_OVER}
