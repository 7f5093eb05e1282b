"""Histories that go back: reasoning that was old is current again, a dialect is left and taken up again, items are dropped."""

from __future__ import annotations

import json

import pytest

from tests.helpers.bodies import FORMATS, TYPED, history, words
from tests.helpers.client import Agent, Sidecar, notes, tight
from tests.helpers.rewriters import REWRITERS
from trimtab.v1 import common_pb2

ALL = tight(1024, 1024, keep_unit_count=0, externalize_bytes=0)
ROOMY = common_pb2.Limits(soft_bytes=10_000_000, target_bytes=1_000_000)


@pytest.mark.parametrize("thinking_on", [True, False])
def test_fit_rewound_before_the_user_item_that_made_reasoning_old_has_it_again(sidecar: Sidecar, thinking_on: bool) -> None:
    """DESIGN 7: old reasoning may go only before the last user item without results."""
    run = history("anthropic-messages")
    if thinking_on:
        run.rest["thinking"] = {"type": "enabled", "budget_tokens": 2000}
    run.user("go")
    for index in range(4):
        run.call(("read", {"p": index}), thinking=words(600, index)).results(words(700, index))
    before = run.copy()
    run.answer("done").user("next").step("x")
    agent = Agent(sidecar, "anthropic-messages", ALL)
    agent.fit(run.body())
    assert any(reduction.kind == 5 for reduction in agent.response.reductions)
    agent.fit(before.body())  # the user takes the last word back; the oracle says what is gone


@pytest.mark.parametrize("format_name", FORMATS)
def test_fit_back_in_the_first_format_same_bytes(sidecar: Sidecar, format_name: str) -> None:
    """DESIGN 3.11: the same body with the same records gives the same bytes; nothing is stored twice."""
    other = next(name for name in FORMATS if name != format_name)
    run = history(format_name).user("go").steps(30, 1500)
    agent = Agent(sidecar, format_name, tight(20_000, 10_000, externalize_bytes=0))
    sent = agent.fit(run.body())
    Agent(sidecar, other, ROOMY, session_id=agent.session_id).fit(history(other).user("go").steps(3, 100).body())
    assert agent.fit(run.body(), limits=ROOMY) == sent
    assert agent.response.match.new_item_count == 0


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("state", [common_pb2.EFFECT_STATE_PENDING, common_pb2.EFFECT_STATE_NOT_STARTED])
def test_fit_result_after_a_receipt_settles_though_older_items_were_dropped(
    sidecar: Sidecar, format_name: str, state: common_pb2.EffectState
) -> None:
    """Receipt: a call whose newest receipt is NOT_STARTED or PENDING and whose result came after it is settled."""
    run = history(format_name).user("go").steps(12, 900)
    agent = Agent(sidecar, format_name, ROOMY)
    agent.fit(run.body())
    run.call(("deploy", {"x": 1}))
    call_id = run.open_ids[0]
    receipt = common_pb2.Receipt(call=common_pb2.CallRef(call_id=call_id), state=state)
    agent.fit(run.body(), receipts=[receipt])
    run.results(words(5000, "deployed")).steps(6, 900)
    agent.fit(run.body())
    run.items = run.items[:1] + run.items[11:]
    agent.fit(run.body(), limits=ALL)
    assert call_id in {reduction.call.call_id for reduction in agent.response.reductions}


def test_fit_another_run_with_the_same_system_item_says_replaced(sidecar: Sidecar) -> None:
    """DESIGN 5: a first user item of another run is HISTORY_REPLACED."""
    agent = Agent(sidecar, "openai-chat", ROOMY)
    for task in ("one", "two"):
        run = history("openai-chat")
        run.items.append({"role": "system", "content": "You are careful."})
        agent.fit(run.user(f"task {task}").step(words(300, task)).body())
    assert "HISTORY_REPLACED" in notes(agent.response)


def test_fit_dropped_first_system_item_stores_nothing_twice(sidecar: Sidecar) -> None:
    """The second system item moves up to the place of the first; it is not a new text of it."""
    run = history("openai-chat")
    run.items += [{"role": "system", "content": "A"}, {"role": "system", "content": "B"}]
    run.user("go").steps(6, 500)
    agent = Agent(sidecar, "openai-chat", ROOMY)
    agent.fit(run.body())
    del run.items[0]
    agent.fit(run.body())
    assert agent.response.match.new_item_count == 0


@pytest.mark.parametrize("format_name", TYPED)
def test_fit_nulls_added_and_first_item_edited_rest_is_known(sidecar: Sidecar, format_name: str) -> None:
    """DESIGN 5: null equals absent at an item's aligned position; one edit before it does not change where it stands."""
    run = history(format_name).user("go").steps(20, 1500)
    agent = Agent(sidecar, format_name, tight(20_000, 10_000, externalize_bytes=0))
    agent.fit(run.body())
    value = json.loads(run.body())
    value["messages"][0]["content"] = "edited"
    agent.fit(REWRITERS["sdk-with-nulls"](json.dumps(value).encode()))
    assert agent.response.match.new_item_count == 1
    assert agent.response.match.diverged_at == 0
