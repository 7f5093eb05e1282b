"""Failure kinds of histories: 1 orphans, 2 parallel calls and ids, 3 reasoning, 5 role order, 6 empty content."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.helpers.bodies import FORMATS, TYPED, History, history, words
from tests.helpers.client import Agent, Sidecar, notes, tight
from tests.helpers.view import read_view
from trimtab.v1 import common_pb2, context_pb2

both = pytest.mark.parametrize("format_name", FORMATS)
both_typed = pytest.mark.parametrize("format_name", TYPED)
REASONING = context_pb2.REDUCTION_KIND_REASONING


@both
def test_kind01_any_depth_of_cut_keeps_pairs(sidecar: Sidecar, format_name: str) -> None:
    rand = random.Random(101)
    run = history(format_name).user("go")
    for index in range(25):
        count = rand.choice([1, 1, 2, 3])
        run.call(*[("tool", {"n": n, "text": words(rand.randrange(20, 2_000), (index, n))}) for n in range(count)])
        run.results(*[words(rand.randrange(10, 4_000), (index, n, "r")) for n in range(count)])
    body = run.body()
    for percent in range(95, 0, -7):
        Agent(sidecar, format_name, tight(max(1_024, len(body) * percent // 100), keep_unit_count=percent % 4)).fit(body)


@both
def test_kind01_no_tail_and_newest_item_a_result(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, tight(1_024, keep_unit_count=0))
    agent.fit(history(format_name).user("go").steps(3, 2_000).body())
    assert agent.count > 0


@both
def test_kind01_call_that_waits_for_a_person_is_kept_until_the_answer(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, tight(20_000, 8_000, keep_unit_count=2))
    run = history(format_name).user("go").steps(2, 2_000).call(("ask_person", {"text": words(3_000)}))
    waiting = run.open_ids[0]
    receipt = common_pb2.Receipt(call=common_pb2.CallRef(call_id=waiting), state=common_pb2.EFFECT_STATE_WAITING)
    agent.fit(run.body(), receipts=[receipt], kept=[(5, 0)])
    run.results("the person said yes " * 100)
    agent.fit(run.body(), kept=[(5, 0)])
    agent.fit(run.steps(8, 3_000).body(), kept=[(5, 0)])
    assert agent.count > 0


@both_typed
def test_kind01_user_text_between_call_and_result_is_told_not_repaired(sidecar: Sidecar, format_name: str) -> None:
    run = history(format_name).user("go").steps(6, 2_500).call(("tool", {"n": 1}))
    held = list(run.open_ids)
    if format_name == "anthropic-messages":
        run.items.append({"role": "user", "content": [{"type": "text", "text": "are you there?"}]})
        run.items[-1]["content"].append({"type": "tool_result", "tool_use_id": held[0], "content": words(2_500)})
        run.open_ids = []
    else:
        run.user("are you there?").results(words(2_500))
    place = len(run.items) - 1
    run.answer("yes").user("ok").steps(6, 2_500)
    agent = Agent(sidecar, format_name, tight(16_000, 8_000, keep_unit_count=2))
    agent.fit(run.body())
    assert agent.count > 3
    assert "INVALID_HISTORY" in notes(agent.response)
    assert place not in {reduction.item_index for reduction in agent.response.reductions}


@both_typed
def test_kind01_orphan_result_is_left_alone(sidecar: Sidecar, format_name: str) -> None:
    run = history(format_name).user("go").steps(8, 2_500)
    orphan = words(3_000, "orphan")
    if format_name == "openai-chat":
        run.items.insert(1, {"role": "tool", "tool_call_id": "gone", "content": orphan})
    else:
        run.items[0]["content"].insert(0, {"type": "tool_result", "tool_use_id": "gone", "content": orphan})
    agent = Agent(sidecar, format_name, tight(12_000, 8_000, keep_unit_count=2))
    agent.fit(run.body())
    assert agent.count > 2
    assert orphan.encode() in agent.sent.replace(b"\\n", b"\n")
    assert "INVALID_HISTORY" in notes(agent.response)


def repeating(format_name: str, ids: list[str]) -> History:
    """Nine turns of three calls, with the same ids in every turn."""
    run = history(format_name).user("go")
    for index in range(9):
        run.call(*[("tool", {"turn": index, "n": n}) for n in range(3)], ids=ids).results(
            *[words(900, (index, n)) for n in range(3)]
        )
    return run


@pytest.mark.parametrize(
    ("format_name", "ids"),
    [
        ("openai-chat", ["call_0", "call_1", "call_2"]),
        ("openai-chat", ["same"] * 3),
        ("openai-chat", [""] * 3),
        ("anthropic-messages", ["call_0", "call_1", "call_2"]),
        ("anthropic-messages", [""] * 3),
    ],
    ids=["chat-per-turn", "chat-one", "chat-empty", "messages-per-turn", "messages-empty"],
)
def test_kind02_ids_that_repeat_every_turn(sidecar: Sidecar, format_name: str, ids: list[str]) -> None:
    run = repeating(format_name, ids)
    agent = Agent(sidecar, format_name, tight(18_000, 9_000, keep_unit_count=3))
    agent.fit(run.body())
    assert agent.count > 3
    refs = {(reduction.call.item_index, reduction.call.call_index) for reduction in agent.response.reductions}
    assert len(refs) == agent.count
    agent.fit(run.call(("tool", {"n": 1}), ids=ids[:1]).results("fresh").body())
    assert agent.sent.count(b'"fresh"') == 1


def test_kind02_equal_ids_in_one_messages_turn_are_a_fault_and_told(sidecar: Sidecar) -> None:
    agent = Agent(sidecar, "anthropic-messages", tight(18_000, 9_000, keep_unit_count=3))
    agent.fit(repeating("anthropic-messages", ["same"] * 3).body())
    assert agent.count == 0
    assert "INVALID_HISTORY" in notes(agent.response)


@both
def test_kind02_results_in_another_order_than_calls(sidecar: Sidecar, format_name: str) -> None:
    run = history(format_name).user("go")
    for index in range(8):
        run.call(*[("tool", {"n": n}) for n in range(4)])
        run.open_ids.reverse()
        run.results(*[words(900, (index, n)) for n in range(4)])
    agent = Agent(sidecar, format_name, tight(16_000, 9_000, keep_unit_count=2))
    agent.fit(run.body())
    assert agent.count > 8


@both
def test_kind02_one_result_of_a_batch_missing_keeps_the_batch(sidecar: Sidecar, format_name: str) -> None:
    run = history(format_name).user("go").call(*[("tool", {"n": n, "t": words(1_500, n)}) for n in range(3)])
    run.results(words(3_000, 0), words(3_000, 1)).user("never mind the third").steps(8, 2_500)
    agent = Agent(sidecar, format_name, tight(16_000, 8_000, keep_unit_count=2))
    agent.fit(run.body(), kept=[(1, 0), (1, 1), (1, 2)])
    assert agent.count > 4


@both
def test_kind02_newest_batch_together_over_the_limit(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, tight(120_000, 60_000, hard_bytes=150_000))
    run = history(format_name).user("go").call(*[("tool", {"n": n}) for n in range(12)])
    run.results(*[words(29_000, n) for n in range(12)])
    sent = agent.fit(run.body())
    assert len(sent) <= 120_000
    assert {reduction.kind for reduction in agent.response.reductions} == {context_pb2.REDUCTION_KIND_RECENT_RESULT}


def interleaved(count: int) -> dict[str, Any]:
    """One assistant turn of thinking, text and calls in turn, signed."""
    blocks: list[dict[str, Any]] = []
    for index in range(count):
        blocks.append({"type": "thinking", "thinking": words(400, index), "signature": f"c2lnbmF0dXJl{index:04d}"})
        blocks.append(
            {"type": "tool_use", "id": f"tu_{index}", "name": "read_file", "input": {"n": index, "t": words(1_200, index)}}
        )
    return {"role": "assistant", "content": blocks}


@pytest.mark.parametrize("newest", [True, False], ids=["newest", "old"])
def test_kind03_signed_blocks_keep_place_and_bytes(sidecar: Sidecar, newest: bool) -> None:
    run = history("anthropic-messages").user("go")
    run.items.append(interleaved(40))
    run.open_ids = [f"tu_{index}" for index in range(40)]
    run.results(*[words(900, index) for index in range(40)])
    thinking = [block for block in run.items[1]["content"] if block["type"] == "thinking"]
    if not newest:
        run.steps(8, 1_500)
    agent = Agent(sidecar, "anthropic-messages", tight(20_000, 10_000, keep_unit_count=1))
    agent.fit(run.body())
    assert [block for block in json.loads(agent.sent)["messages"][1]["content"] if block["type"] == "thinking"] == thinking


def test_kind03_old_reasoning_goes_by_whole_turns(sidecar: Sidecar) -> None:
    run = history("anthropic-messages").user("go")
    run.items.append(interleaved(6))
    run.items[-1]["content"].insert(3, {"type": "redacted_thinking", "data": "UkVEQUNURUQ" * 40})
    run.open_ids = [f"tu_{index}" for index in range(6)]
    run.results(*[words(50, index) for index in range(6)]).answer("done").user("next").steps(8, 200)
    agent = Agent(sidecar, "anthropic-messages", tight(4_000, 2_000, keep_unit_count=1))
    agent.fit(run.body())
    gone = [reduction for reduction in agent.response.reductions if reduction.kind == REASONING]
    assert {reduction.item_index for reduction in gone} == {1}
    left = {block["type"] for block in json.loads(agent.sent)["messages"][1]["content"]}
    assert left == {"tool_use"}


def test_kind03_reasoning_of_the_open_tool_loop_stays(sidecar: Sidecar) -> None:
    run = history("anthropic-messages").user("go")
    for index in range(10):
        run.call(("tool", {"n": index}), thinking=words(900, index)).results(words(500, index))
    agent = Agent(sidecar, "anthropic-messages", tight(4_000, 2_000, keep_unit_count=1))
    agent.fit(run.body())
    assert agent.sent.count(b'"type":"thinking"') == 10


def test_kind03_chat_reasoning_keeps_its_key(sidecar: Sidecar) -> None:
    run = history("openai-chat").user("go")
    for index in range(10):
        run.call(("tool", {"n": index}), thinking=words(900, index) if index % 2 else "").results(words(300, index))
    run.items[1]["reasoning_content"] = ""
    run.user("and?").steps(3, 200)
    agent = Agent(sidecar, "openai-chat", tight(5_000, 2_000, keep_unit_count=1))
    agent.fit(run.body())
    had = ["reasoning_content" in item for item in run.items]
    assert ["reasoning_content" in item for item in json.loads(agent.sent)["messages"]] == had
    assert REASONING in {reduction.kind for reduction in agent.response.reductions}


@both_typed
def test_kind05_people_and_system_speak_as_they_spoke(sidecar: Sidecar, format_name: str) -> None:
    run = history(format_name).user(words(2_000, "first")).steps(6, 2_500)
    if format_name == "openai-chat":
        run.items.insert(0, {"role": "developer", "content": words(1_500, "dev")})
        run.items.append({"role": "system", "content": [{"type": "text", "text": words(1_500, "mid")}]})
    else:
        run.rest["system"] = [{"type": "text", "text": words(1_500, "sys"), "cache_control": {"type": "ephemeral"}}]
    run.user(words(2_000, "also")).user(words(1_000, "again")).steps(6, 2_500)
    agent = Agent(sidecar, format_name, tight(9_000, 5_000, keep_unit_count=1))
    agent.fit(run.body())
    roles = [item["role"] for item in json.loads(agent.sent)["messages"]]
    assert roles == [item["role"] for item in run.items]
    assert agent.count > 6


@both
def test_kind05_user_text_in_one_item_with_results_stays(sidecar: Sidecar, format_name: str) -> None:
    run = history(format_name).user("go")
    for index in range(8):
        run.step(words(2_500, index)).user(f"remark {index}: " + words(300, index))
    agent = Agent(sidecar, format_name, tight(9_000, 5_000, keep_unit_count=1))
    agent.fit(run.body())
    assert agent.count > 3


@both
@pytest.mark.parametrize("empty", ["", " \n", [], None], ids=["empty", "blank", "no-blocks", "null"])
def test_kind06_empty_results_travel_as_they_came(sidecar: Sidecar, format_name: str, empty: Any) -> None:
    run = history(format_name).user("go")
    for index in range(8):
        run.step(empty).step(words(2_500, index))
    agent = Agent(sidecar, format_name, tight(9_000, 5_000, keep_unit_count=1))
    agent.fit(run.body())
    assert agent.count > 3
    whole = read_view(format_name, run.body())
    fitted = read_view(format_name, agent.sent)
    pairs = list(zip(whole.results, fitted.results, strict=True))[::2]
    assert all(a.node.raw(run.body()) == b.node.raw(agent.sent) for a, b in pairs)


def test_kind06_empty_compaction_block_travels(sidecar: Sidecar) -> None:
    run = history("anthropic-messages").user("go")
    run.items.append(
        {"role": "assistant", "content": [{"type": "compaction", "content": None}, {"type": "text", "text": "so far"}]}
    )
    run.user("on").steps(8, 2_500)
    agent = Agent(sidecar, "anthropic-messages", tight(9_000, 5_000, keep_unit_count=1))
    agent.fit(run.body())
    assert b'{"type":"compaction","content":null}' in agent.sent
