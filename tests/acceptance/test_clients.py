"""Clients as they are: rewriting, marker-moving, with a clock, trimming, late. Only real edits make a branch, and only one."""

from __future__ import annotations

import json

import pytest

from tests.helpers.bodies import FORMATS, History, history, words
from tests.helpers.client import Agent, Sidecar, tight
from tests.helpers.cst import parse
from tests.helpers.rewriters import REWRITERS, node_available, with_moved_marker, with_time
from tests.helpers.translate import history_of
from tests.helpers.view import read_view

MARKERS = {"bedrock-converse": (b'"cachePoint"', 2), "gemini": (b"cache", 0), "openai-responses": (b"cache", 0)}
LIMITS = tight(24_000, 12_000, keep_unit_count=3)
NUMBERS = {
    "ratio": 1.0,
    "far": 1e21,
    "tiny": 1e-7,
    "half": 0.5,
    "minus": -3,
    "big": 2512292042121000001,
    "text": "für 3 € / 日本 \u2028",
}


def odd_run(format_name: str, count: int) -> History:
    """Steps whose arguments hold numbers of every kind and whose results hold what encoders spell differently."""
    run = history(format_name).user("Grüße! Fix it / all of it.")
    for index in range(count):
        run.step(
            f"<é/{index}>\t\x7f \U0001f600" + words(900 + 300 * (index % 4), index),
            "patch",
            {"step": index, **NUMBERS},
            text=f"№ {index}",
        )
    return run


def without_markers(value: object) -> object:
    """A value as JSON sees it, cache markers apart."""
    if isinstance(value, dict):
        return {key: without_markers(inner) for key, inner in value.items() if key != "cache_control"}
    return [without_markers(inner) for inner in value] if isinstance(value, list) else value


def assert_nothing_twice(agent: Agent, run: History) -> None:
    """The store holds each raw item and each artifact once; sending the same again changes nothing."""
    session = agent.sidecar.session(agent.session_id)
    listed = agent.sidecar.list_artifacts(agent.session_id)
    places = [(artifact.artifact_id, artifact.item_index, artifact.call.call_id, artifact.call.call_index) for artifact in listed]
    assert len(places) == len(set(places))
    assert {artifact.artifact_id for artifact in listed} >= {r.artifact_id for r in agent.response.reductions}
    assert session.artifact_count == len({artifact.artifact_id for artifact in listed})
    assert session.item_count == len(run.items)
    kept = [json.loads(raw) for raw in agent.sidecar.items(agent.session_id)]
    assert len(kept) == len(run.items)


def compact(value: object) -> bytes:
    """JSON as an SDK writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def adopted(sent: bytes, fresh: list[dict[str, object]]) -> bytes:
    """The answered body with new items at its end."""
    value = json.loads(sent)
    history_of(value).extend(fresh)
    return compact(value)


def same_items(format_name: str, old: bytes, new: bytes) -> bool:
    """The items of the old body stand in the new one byte for byte."""
    pairs = zip(read_view(format_name, old).items, read_view(format_name, new).items, strict=False)
    return all(a.raw(old) == b.raw(new) for a, b in pairs)


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("name", REWRITERS)
def test_fit_rewriting_client_matched_by_value(sidecar: Sidecar, format_name: str, name: str) -> None:
    if name == "node" and not node_available():
        pytest.skip("Node is not installed")
    rewrite = REWRITERS[name]
    run = odd_run(format_name, 24)
    agent = Agent(sidecar, format_name, LIMITS)
    sent = agent.fit(run.body())
    assert agent.count > 0
    rewritten, differs = 0, False
    out = {(r.kind, r.item_index, r.artifact_id) for r in agent.response.reductions}
    for index in range(8):
        known = len(run.items)
        run.step(words(700, f"late {index}"), "patch", {"step": index, **NUMBERS}, text=f"late {index} ü")
        body = rewrite(adopted(sent, run.items[known:]))
        differs = differs or not same_items(format_name, sent, body)
        sent = agent.fit(body, oracle=False)
        match = agent.response.match
        assert not match.HasField("diverged_at"), f"step {index}: diverged at {match.diverged_at}"
        assert (match.matched_item_count, match.new_item_count) == (known, len(run.items) - known)
        rewritten += match.rewritten_item_count
        now = {(r.kind, r.item_index, r.artifact_id) for r in agent.response.reductions}
        assert out <= now
        out = now
        json.loads(sent)
    assert (rewritten > 0) == differs
    revision, stored = agent.response.revision, sidecar.session(agent.session_id).stored_bytes
    assert agent.fit(body, oracle=False) == sent
    assert agent.response.revision == revision
    assert sidecar.session(agent.session_id).stored_bytes <= stored + 512
    assert_nothing_twice(agent, run)
    reader = sidecar.reader(agent.session_id)
    texts = [compact(item).decode() for item in run.items]
    for reduction in agent.response.reductions:
        content = reader(reduction.artifact_id).decode()
        assert any(content in text or json.dumps(content, ensure_ascii=False)[1:-1] in text for text in texts)


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("adopts", [False, True], ids=["raw", "adopts"])
def test_fit_moving_cache_markers_no_branch(sidecar: Sidecar, format_name: str, adopts: bool) -> None:
    run = odd_run(format_name, 20)
    agent = Agent(sidecar, format_name, LIMITS)
    sent = agent.fit(with_moved_marker(run.body()))
    stored = sidecar.session(agent.session_id).stored_bytes
    for index in range(8):
        known = len(run.items)
        run.step(words(900, f"m{index}")) if index % 3 else run.answer("Done.").user(f"Next: {index}.")
        body = with_moved_marker(adopted(sent, run.items[known:]) if adopts else run.body())
        sent = agent.fit(body, raw=with_moved_marker(run.body()) if adopts else None)
        key, there = MARKERS.get(format_name, (b'"cache_control"', 2))
        assert sent.count(key) == body.count(key) == there
        assert not agent.response.match.HasField("diverged_at")
        assert (agent.response.match.matched_item_count, agent.response.match.new_item_count) == (known, 2)
    assert agent.count > 0
    assert sidecar.session(agent.session_id).stored_bytes < stored + 65_536
    assert_nothing_twice(agent, run)


@pytest.mark.parametrize("format_name", FORMATS)
def test_fit_system_text_with_the_time_no_branch(sidecar: Sidecar, format_name: str) -> None:
    run = odd_run(format_name, 20)
    agent = Agent(sidecar, format_name, LIMITS)
    agent.fit(with_time(format_name, run.body(), 0))
    out = {(r.item_index, r.artifact_id) for r in agent.response.reductions}
    assert out
    for minute in range(1, 8):
        run.step(words(900, f"t{minute}"))
        agent.fit(with_time(format_name, run.body(), minute))
        assert not agent.response.match.HasField("diverged_at")
        # In chat the system text is an item, and a new one each time; elsewhere it is envelope.
        assert agent.response.match.new_item_count == (3 if format_name == "openai-chat" else 2)
        now = {(r.item_index, r.artifact_id) for r in agent.response.reductions}
        assert out <= now
        out = now
    places = [(a.artifact_id, a.item_index) for a in sidecar.list_artifacts(agent.session_id)]
    assert len(places) == len(set(places))


@pytest.mark.parametrize("format_name", FORMATS)
def test_fit_ten_oldest_dropped_one_branch_once(sidecar: Sidecar, format_name: str) -> None:
    run = history(format_name).user("Begin.").steps(4, 1100, "d").answer("So far.").user("More.").steps(30, 1100, "e")
    agent = Agent(sidecar, format_name, LIMITS)
    agent.fit(run.body())
    assert agent.count > 0
    before = sidecar.session(agent.session_id)
    artifacts = {a.artifact_id for a in sidecar.list_artifacts(agent.session_id)}
    run.items = run.items[10:]
    agent.fit(run.body())
    assert agent.response.match.diverged_at == 0 and agent.response.match.HasField("diverged_at")
    assert agent.response.match.matched_item_count == len(run.items)
    assert agent.response.match.new_item_count == 0
    for index in range(5):
        run.step(words(500, f"after {index}"))
        agent.fit(run.body())
        assert not agent.response.match.HasField("diverged_at")
        assert agent.response.match.new_item_count == 2
    after = sidecar.session(agent.session_id)
    assert after.item_count == len(run.items)
    assert after.stored_bytes < before.stored_bytes + 5 * 6_000 + 32_768
    assert artifacts <= {a.artifact_id for a in sidecar.list_artifacts(agent.session_id)}
    assert_nothing_twice(agent, run)


@pytest.mark.parametrize("format_name", FORMATS)
def test_fit_late_result_inserted_one_branch_once(sidecar: Sidecar, format_name: str) -> None:
    def build(late: bool, steps: int) -> History:
        run = history(format_name).user("Begin.").steps(6, 1500, "a")
        run.call(("slow", {"n": 1}), ("quick", {"n": 2}))
        run.open_ids.reverse()
        run.results("quick came", *(["slow came at last " * 60] if late else []))
        run.answer("Waiting.").user("Go on.").steps(14, 1500, "b")
        return run.steps(steps, 700, "c")

    agent = Agent(sidecar, format_name, LIMITS)
    agent.fit(build(False, 0).body())
    first = {(r.kind, r.artifact_id) for r in agent.response.reductions}
    stored = sidecar.session(agent.session_id).stored_bytes
    assert first
    agent.fit(build(True, 0).body())
    assert agent.response.match.HasField("diverged_at")
    assert agent.response.match.diverged_at >= 13
    assert agent.response.match.new_item_count == 1
    assert first <= {(r.kind, r.artifact_id) for r in agent.response.reductions}
    for steps in range(1, 4):
        agent.fit(build(True, steps).body())
        assert not agent.response.match.HasField("diverged_at")
    assert sidecar.session(agent.session_id).stored_bytes < stored + 65_536
    assert_nothing_twice(agent, build(True, 3))


@pytest.mark.parametrize("format_name", FORMATS)
def test_fit_numbers_beyond_doubles_travel_untouched(sidecar: Sidecar, format_name: str) -> None:
    run = history(format_name).user("go").steps(12, 2000).step("x", "exact", {"n": 2512292042121000001}).user("ok")
    agent = Agent(sidecar, format_name, tight(8_000, 4_000, keep_unit_count=1))
    sent = agent.fit(run.body())
    assert b"2512292042121000001" in sent
    assert parse(sent).kind == "object"
