"""How the model reads back what left: the tool in the body, the tool injected, the agent's own way; and the calls."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.bodies import FORMATS, History, history, words
from tests.helpers.client import CALLER, INJECT, TOOL, Agent, Sidecar, notes, tight
from tests.helpers.rewriters import REWRITERS
from tests.helpers.translate import history_of, result_text, tool_call, tools_of, with_tools
from tests.helpers.view import read_view
from trimtab.v1 import context_pb2

LIMITS = tight(30_000, 12_000)

pytestmark = pytest.mark.parametrize("format_name", FORMATS)


def big_run(format_name: str) -> History:
    """Over the limits."""
    return history(format_name).user("go").steps(20, 3_000)


def our_call(format_name: str, name: str, arguments: dict[str, Any], call_id: str = "rb_1") -> bytes:
    """A read-back call as the model makes it."""
    value = tool_call(format_name, name, arguments, call_id)
    return json.dumps(value).encode()


def given(tool: Any) -> list[Any]:
    """The read-back tool as an element of what a body declares."""
    value = json.loads(tool.tool)
    return list(value.get("functionDeclarations", [value]))


def text_of(result: bytes) -> str:
    """Content of a result item or block."""
    return result_text(result)


def test_fit_without_a_way_refused(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name)
    failure = sidecar.failure(agent.session_id, big_run(format_name).body(), read_back=0, format=format_name)
    assert (failure.reason, failure.trailer) == ("READ_BACK_REQUIRED", "READ_BACK_REQUIRED")
    assert not sidecar.exists(agent.session_id)


def test_fit_tool_missing_no_stub(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, LIMITS, read_back=TOOL)
    agent.fit(big_run(format_name).body())
    assert agent.count == 0
    assert "READ_BACK_TOOL_MISSING" in notes(agent.response)
    assert agent.response.outcome == context_pb2.FIT_OUTCOME_OVER


def test_fit_tool_present_cuts(sidecar: Sidecar, format_name: str) -> None:
    tool = sidecar.read_back_tool(format_name)
    agent = Agent(sidecar, format_name, LIMITS, read_back=TOOL)
    run = big_run(format_name)
    declared = with_tools(run.value(), [*tools_of(run.value()), *given(tool)])
    agent.fit(run.body(**declared))
    count = agent.count
    assert count > 0
    assert agent.response.read_back_tool_name == tool.name
    agent.fit(run.steps(9, 3_000).body())
    assert agent.count == count
    assert "READ_BACK_TOOL_MISSING" in notes(agent.response)
    agent.fit(run.body(**declared))
    assert agent.count > count


def test_fit_tool_of_another_name_is_looked_for(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, LIMITS, read_back=TOOL)
    agent.fit(big_run(format_name).body(), read_back_tool_name="fetch_more")
    assert agent.count == 0
    other = Agent(sidecar, format_name, LIMITS, read_back=TOOL)
    other.fit(big_run(format_name).body(), read_back_tool_name="read_file")
    assert other.count > 0
    assert other.response.read_back_tool_name == "read_file"
    assert b"read_file" in other.sent


def test_fit_inject_adds_the_tool_last(sidecar: Sidecar, format_name: str) -> None:
    tool = sidecar.read_back_tool(format_name)
    agent = Agent(sidecar, format_name, read_back=INJECT)
    run = history(format_name).user("go").steps(2, 500)
    sent = agent.fit(run.body())
    assert agent.response.outcome == context_pb2.FIT_OUTCOME_FITTED
    assert tools_of(json.loads(sent)) == [*tools_of(run.value()), *given(tool)]
    assert agent.response.read_back_tool_name == tool.name
    again = agent.fit(run.steps(2, 500).body(), read_back=INJECT)
    assert tools_of(json.loads(again)) == tools_of(json.loads(sent))


def test_fit_inject_into_a_body_without_tools(sidecar: Sidecar, format_name: str) -> None:
    value = big_run(format_name).value()
    value.pop("tools", None)
    value.pop("toolConfig", None)
    body = json.dumps(value).encode()
    agent = Agent(sidecar, format_name, LIMITS, read_back=INJECT)
    sent = agent.fit(body)
    has_tool = bool({"tools", "toolConfig"} & json.loads(sent).keys())
    assert has_tool == (agent.count > 0)
    assert has_tool != ("READ_BACK_NOT_INJECTED" in notes(agent.response))


@pytest.mark.parametrize("name", sorted(set(REWRITERS) - {"node"}))
def test_fit_inject_adopted_and_rewritten_stands_once(sidecar: Sidecar, format_name: str, name: str) -> None:
    tool = sidecar.read_back_tool(format_name)
    agent = Agent(sidecar, format_name, LIMITS, read_back=INJECT)
    run = big_run(format_name)
    agent.fit(run.body())
    for index in range(3):
        known = len(run.items)
        value = json.loads(agent.sent)
        history_of(value).extend(run.steps(1, 500, index).items[known:])
        agent.fit(REWRITERS[name](json.dumps(value).encode()), oracle=False)
        assert tools_of(json.loads(agent.sent)) == [*tools_of(run.value()), *given(tool)]
        assert not agent.response.match.HasField("diverged_at")
    agent.fit(run.body())
    assert tools_of(json.loads(agent.sent))[-1:] == given(tool)


def test_fit_inject_where_the_agent_has_the_tool_already(sidecar: Sidecar, format_name: str) -> None:
    tool = sidecar.read_back_tool(format_name)
    agent = Agent(sidecar, format_name, LIMITS, read_back=INJECT)
    run = big_run(format_name)
    tools = [*given(tool), *tools_of(run.value())]
    agent.fit(run.body(**with_tools(run.value(), tools)), oracle=False)
    assert tools_of(json.loads(agent.sent)) == tools
    assert agent.count > 0


def test_fit_inject_into_tools_that_are_no_list_refused(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, LIMITS, read_back=INJECT)
    body = big_run(format_name).body(**{"toolConfig" if format_name == "bedrock-converse" else "tools": "all of them"})
    assert agent.fit(body, oracle=False) == body
    assert "READ_BACK_NOT_INJECTED" in notes(agent.response)
    assert agent.count == 0


def test_fit_inject_after_a_beginning_without_refused(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, LIMITS)
    run = history(format_name).user("go").steps(2, 500)
    agent.fit(run.body(), read_back=CALLER)
    body = run.steps(20, 3_000).body()
    assert agent.fit(body, read_back=INJECT, oracle=False) == body
    assert "READ_BACK_NOT_INJECTED" in notes(agent.response)
    assert agent.count == 0


def test_resolve_call_gives_the_content_in_pages(sidecar: Sidecar, format_name: str) -> None:
    tool = sidecar.read_back_tool(format_name)
    content = words(100_000, "paged")
    agent = Agent(sidecar, format_name)
    agent.fit(history(format_name).user("go").step(content).body())
    artifact = agent.response.reductions[0].artifact_id
    call = our_call(format_name, tool.name, {"artifact_id": artifact})
    answer = sidecar.resolve(agent.session_id, call)
    assert not answer.not_ours
    text = text_of(answer.result)
    assert content[:10_000] in text
    assert len(text.encode()) <= 32 * 1024
    assert "rb_1" in answer.result.decode()


@pytest.mark.parametrize(
    "arguments", [{}, {"artifact_id": "0" * 32}, {"artifact_id": 7}, {"artifact_id": "../../etc"}, {"id": "x", "range": None}]
)
def test_resolve_call_wrong_call_answered_by_a_result(sidecar: Sidecar, format_name: str, arguments: dict[str, Any]) -> None:
    tool = sidecar.read_back_tool(format_name)
    agent = Agent(sidecar, format_name)
    agent.fit(history(format_name).user("go").step(words(40_000)).body())
    answer = sidecar.resolve(agent.session_id, our_call(format_name, tool.name, arguments))
    assert not answer.not_ours
    assert len(text_of(answer.result)) > 10


def test_resolve_call_of_another_tool_is_not_ours(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name)
    agent.fit(history(format_name).user("go").body())
    answer = sidecar.resolve(agent.session_id, our_call(format_name, "read_file", {"path": "x"}))
    assert answer.not_ours
    assert answer.result == b""


def test_fit_read_back_result_stays_in_the_tail_and_names_its_source_when_old(sidecar: Sidecar, format_name: str) -> None:
    tool = sidecar.read_back_tool(format_name)
    agent = Agent(sidecar, format_name, tight(60_000, 20_000, keep_unit_count=3), read_back=INJECT)
    run = history(format_name).user("go").step(words(100_000, "source"))
    agent.fit(run.body())
    artifact = agent.response.reductions[0].artifact_id
    arguments = {"artifact_id": artifact}
    run.call((tool.name, arguments), ids=["rb_1"])
    result = sidecar.resolve(agent.session_id, our_call(format_name, tool.name, arguments)).result
    run.results(text_of(result))
    at = len(run.items) - 1
    agent.fit(run.body())
    assert [reduction.item_index for reduction in agent.response.reductions] == [2]
    agent.fit(run.steps(12, 5_000).body(), read_back_items={at: artifact})
    assert at in {reduction.item_index for reduction in agent.response.reductions}


def test_fit_stub_copied_into_a_new_call_noted(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name)
    run = history(format_name).user("go").call(("write", {"path": "a", "text": words(40_000)})).results("ok").steps(20, 300)
    agent.fit(run.body(), limits=tight(20_000, 9_000))
    out = [r for r in agent.response.reductions if r.kind == context_pb2.REDUCTION_KIND_ARGUMENTS]
    assert len(out) == 1
    node = read_view(format_name, agent.sent).calls[0].arguments
    assert node is not None
    copied: Any = json.loads(node.raw(agent.sent))
    agent.fit(run.call(("write", copied)).results("hm").body())
    assert "STUB_IN_CALL" in notes(agent.response)
