"""The same history gives the same bytes: again, after SIGKILL, grown, under other limits, and whoever keeps the history."""

from __future__ import annotations

import json

import pytest

from tests.helpers.bodies import FORMATS, History, history, words
from tests.helpers.client import INJECT, NONE, Agent, Sidecar, tight
from tests.helpers.server import Server
from tests.helpers.translate import history_of
from tests.helpers.view import read_view
from trimtab.v1 import common_pb2, context_pb2

SOFT = 40_000
LIMITS = {"target_bytes": 20_000, "keep_unit_count": 3}


def long_run(format_name: str, count: int = 40) -> History:
    """Forty steps of plain work, some of it large, with a word from the user now and then."""
    run = history(format_name).user("Build it. Keep the tests green.")
    for index in range(count):
        run.step(words(400 + 977 * (index % 5), index), text=f"Step {index}.")
        if index % 13 == 12:
            run.answer("A pause.").user(f"Go on with part {index}.")
    return run


def keys(response: context_pb2.FitResponse) -> set[tuple[int, int, str]]:
    """Reductions by what they are."""
    return {(reduction.kind, reduction.item_index, reduction.artifact_id) for reduction in response.reductions}


def assert_same_until_first_new_edit(
    format_name: str, before: bytes, after: bytes, first: context_pb2.FitResponse, second: context_pb2.FitResponse
) -> None:
    """Items that got no new edit stand as they stood, and up to the first new edit every byte does."""
    assert keys(first) <= keys(second)
    fresh = {item for _, item, _ in keys(second) - keys(first)}
    old, new = read_view(format_name, before), read_view(format_name, after)
    assert len(old.items) <= len(new.items)
    changed = [i for i, (a, b) in enumerate(zip(old.items, new.items, strict=False)) if a.raw(before) != b.raw(after)]
    assert set(changed) <= fresh
    end = old.items[min(changed)].start if changed else old.items[-1].end
    assert before[:end] == after[:end]


@pytest.fixture(params=FORMATS)
def agent(request: pytest.FixtureRequest, sidecar: Sidecar) -> Agent:
    """An agent whose limits cut."""
    return Agent(sidecar, request.param, tight(SOFT, **LIMITS))


def test_fit_same_body_again_same_bytes(agent: Agent) -> None:
    body = long_run(agent.format_name).body()
    first = agent.fit(body)
    assert agent.count > 0
    revision, digest = agent.response.revision, agent.response.history_digest
    assert [agent.fit(body) for _ in range(3)] == [first] * 3
    assert (agent.response.revision, agent.response.history_digest) == (revision, digest)
    assert agent.response.stable_prefix_bytes == len(first)


def test_fit_same_body_in_a_new_session_same_bytes(agent: Agent) -> None:
    body = long_run(agent.format_name).body()
    assert Agent(agent.sidecar, agent.format_name, agent.limits).fit(body) == agent.fit(body)


@pytest.mark.parametrize("format_name", FORMATS)
def test_fit_after_sigkill_same_bytes(own_server: Server, format_name: str) -> None:
    assert own_server.channel is not None
    run = long_run(format_name)
    agent = Agent(Sidecar(own_server.channel), format_name, tight(SOFT, **LIMITS))
    first, response = agent.fit(run.body()), agent.response
    own_server.restart()
    agent.sidecar = Sidecar(own_server.channel)
    assert agent.fit(run.body(), limits=None, read_back=0, format=0) == first
    assert agent.response.revision == response.revision
    assert agent.response.match.matched_item_count == len(run.items)
    assert agent.response.history_digest == response.history_digest
    own_server.restart()
    agent.sidecar = Sidecar(own_server.channel)
    second = agent.fit(long_run(format_name, 44).body(), limits=None, read_back=0, format=0)
    assert_same_until_first_new_edit(format_name, first, second, response, agent.response)


def test_fit_history_grown_by_ten_steps_same_prefix(agent: Agent) -> None:
    run = long_run(agent.format_name)
    first, response = agent.fit(run.body()), agent.response
    for index in range(10):
        run.step(words(1500, f"more {index}"))
        second = agent.fit(run.body())
        assert_same_until_first_new_edit(agent.format_name, first, second, response, agent.response)
        common = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second)))
        assert agent.response.stable_prefix_bytes == common
        first, response = second, agent.response


@pytest.mark.parametrize(
    "limits",
    [
        common_pb2.Limits(soft_bytes=10_000_000, target_bytes=9_000_000),
        common_pb2.Limits(preset=common_pb2.PRESET_MINIMAL),
        common_pb2.Limits(soft_bytes=30_000, target_bytes=5_000, keep_unit_count=1, min_saving_bytes=1),
        common_pb2.Limits(externalize_bytes=0),
        common_pb2.Limits(externalize_bytes=1000),
        common_pb2.Limits(preset=common_pb2.PRESET_WINDOW, window_tokens=200_000),
    ],
    ids=["roomy", "minimal", "tighter", "no-externalize", "externalize-more", "window"],
)
def test_fit_other_limits_same_bytes_up_to_first_new_edit(agent: Agent, limits: common_pb2.Limits) -> None:
    body = long_run(agent.format_name).body()
    first, response = agent.fit(body), agent.response
    second = agent.fit(body, limits=limits)
    assert_same_until_first_new_edit(agent.format_name, first, second, response, agent.response)


def test_fit_pins_and_read_back_none_same_bytes(agent: Agent) -> None:
    body = long_run(agent.format_name).body()
    first = agent.fit(body)
    out = agent.response.reductions[0].call
    pins = [context_pb2.Pin(call=out), context_pb2.Pin(tool_name="read_file")]
    assert agent.fit(body, pins=pins) == first
    assert agent.fit(body, read_back=NONE) == first


def adopted(sent: bytes, fresh: list[dict[str, object]]) -> bytes:
    """The body that an agent sends which took over the fitted items and went on."""
    value = json.loads(sent)
    history_of(value).extend(fresh)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize("pattern", ["a", "ra", "raa", "rrra"], ids=["adopts", "every-other", "mostly-adopts", "mostly-raw"])
def test_fit_adopted_and_raw_history_same_bytes(agent: Agent, pattern: str) -> None:
    other = Agent(agent.sidecar, agent.format_name, agent.limits)
    run = long_run(agent.format_name, 26)
    expected = agent.fit(run.body())
    assert other.fit(run.body()) == expected
    for index in range(14):
        known = len(run.items)
        run.step(words(1200 + 500 * (index % 3), f"then {index}"), text=f"Then {index}.")
        mixed = adopted(other.sent, run.items[known:]) if pattern[index % len(pattern)] == "a" else run.body()
        expected = agent.fit(run.body())
        assert other.fit(mixed, raw=run.body()) == expected
        assert other.response.match.matched_item_count == known
        assert other.response.match.new_item_count == len(run.items) - known
        assert not other.response.match.HasField("diverged_at")
        assert keys(other.response) == keys(agent.response)
    assert agent.count > 0
    assert other.response.revision == agent.response.revision
    assert other.response.history_digest == agent.response.history_digest


@pytest.mark.parametrize("format_name", FORMATS)
def test_fit_injected_tool_adopted_once(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, tight(SOFT, **LIMITS), read_back=INJECT)
    run = long_run(format_name)
    sent = agent.fit(run.body())
    name = agent.response.read_back_tool_name.encode()
    run.step(words(900, "next"))
    again = agent.fit(adopted(sent, run.items[-2:]), oracle=False)
    assert again.count(b'"name":"' + name + b'"') == 1
    assert agent.fit(run.body()) == again


@pytest.mark.parametrize("format_name", FORMATS)
def test_fit_adopted_history_over_sigkills_same_bytes(own_server: Server, sidecar: Sidecar, format_name: str) -> None:
    """The process dies between any two steps, also where nothing was flushed for a while: the agent does not notice."""
    assert own_server.channel is not None
    steady = Agent(sidecar, format_name, tight(SOFT, **LIMITS))
    shaken = Agent(Sidecar(own_server.channel), format_name, tight(SOFT, **LIMITS))
    run = long_run(format_name, 26)
    assert shaken.fit(run.body()) == steady.fit(run.body())
    for index in range(9):
        known = len(run.items)
        run.step(words(1500, f"shaken {index}"))
        expected = steady.fit(run.body())
        assert shaken.fit(adopted(shaken.sent, run.items[known:]), raw=run.body()) == expected
        if index % 3 == 2:
            own_server.restart()
            shaken.sidecar = Sidecar(own_server.channel)
    assert keys(shaken.response) == keys(steady.response)
    assert shaken.response.revision == steady.response.revision
