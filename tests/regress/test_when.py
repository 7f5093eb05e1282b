"""When Fit cuts, and how deep: the tail after arrivals, a changed limit, a hard limit that short stubs reach."""

from __future__ import annotations

import pytest

from tests.helpers.bodies import FORMATS, history, words
from tests.helpers.client import INJECT, NONE, Agent, Sidecar, tight
from trimtab.v1 import common_pb2, context_pb2


@pytest.mark.parametrize("format_name", FORMATS)
def test_fit_result_gone_on_arrival_does_not_count_for_the_tail(sidecar: Sidecar, format_name: str) -> None:
    """DESIGN 5, step 4: only when the tail alone is over the target. After the arrival left, it is half of that."""
    run = history(format_name).user(words(60_000, "spec")).steps(3, 1500)
    run.step(words(40_000, "big")).step(words(3000, "small"))
    agent = Agent(sidecar, format_name, tight(30_000, 20_000, keep_unit_count=5, externalize_bytes=8000))
    agent.fit(run.body())
    kinds = {reduction.kind for reduction in agent.response.reductions}
    assert kinds == {context_pb2.REDUCTION_KIND_EXTERNALIZE}


@pytest.mark.parametrize("format_name", FORMATS)
def test_fit_smaller_tail_given_cuts_at_once(sidecar: Sidecar, format_name: str) -> None:
    """A cut ended above its target: arguments in the tail stay. With a small tail there is much to cut: nothing to wait for."""
    run = history(format_name).user("go")
    for index in range(30):
        run.step("done", arguments={"text": words(1500, index)})
    agent = Agent(sidecar, format_name, tight(20_000, 10_000, keep_unit_count=20, externalize_bytes=0))
    first = agent.fit(run.body())
    assert agent.count > 0
    second = agent.fit(run.body(), limits=common_pb2.Limits(keep_unit_count=2))
    assert len(second) < 20_000 < len(first)


@pytest.mark.parametrize("format_name", FORMATS)
def test_fit_released_pins_cut_at_once(sidecar: Sidecar, format_name: str) -> None:
    """As above, with pins: what held the body above its target is gone."""
    run = history(format_name).user("go").steps(25, 1500).steps(5, 1500, name="other")
    agent = Agent(sidecar, format_name, tight(20_000, 10_000, keep_unit_count=0, externalize_bytes=0))
    first = agent.fit(run.body(), pins=[context_pb2.Pin(tool_name="read_file")])
    second = agent.fit(run.body(), pins=[context_pb2.Pin(tool_name="read_file", released=True)])
    assert len(second) < 20_000 < len(first)


@pytest.mark.parametrize("format_name", FORMATS)
def test_fit_hard_limit_that_stubs_without_preview_reach_is_reached(sidecar: Sidecar, format_name: str) -> None:
    """CANNOT_FIT is "over a hard limit that nothing here can reach"; a preview stands only where the limit allows."""
    run = history(format_name).user("go").steps(10, 3000)
    limits = common_pb2.Limits(keep_unit_count=100, hard_bytes=15_000, soft_bytes=200_000)
    agent = Agent(sidecar, format_name, limits)
    assert len(agent.fit(run.body())) <= 15_000
    assert agent.response.outcome == context_pb2.FIT_OUTCOME_FITTED


@pytest.mark.parametrize("format_name", FORMATS)
def test_fit_read_back_none_after_inject_keeps_the_tool_and_the_bytes(sidecar: Sidecar, format_name: str) -> None:
    """The tool is added "from the session's first Fit on": without it the stubs cannot be followed and the prefix breaks."""
    run = history(format_name).user("go").steps(30, 1500)
    agent = Agent(sidecar, format_name, tight(20_000, 10_000, externalize_bytes=0), read_back=INJECT)
    sent = agent.fit(run.body())
    assert agent.count > 0
    assert agent.fit(run.body(), read_back=NONE, oracle=False) == sent
