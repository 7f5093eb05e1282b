"""Compaction beside signed thinking: what may follow a summary, and what the caller is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sidecar.core.types import LimitsGiven
from sidecar.engine.compact_messages import CompactOutcome
from tests.helpers.bodies import history, words
from tests.helpers.compacting import LOOSE, Client, Plant, Spelled, plant, wrong

PLAIN = Spelled()
ENABLED = {"type": "enabled", "budget_tokens": 1024}


@pytest.fixture(scope="module")
def world() -> Iterator[Plant]:
    with plant() as made:
        yield made


def loop(world: Plant, thoughts: str, thinking: dict[str, Any] | None, *, closed: bool = False) -> Client:
    """One request and a tool loop; a turn for each letter: t with thinking, p plain."""
    made = history("anthropic-messages").user("do it")
    for at, letter in enumerate(thoughts):
        made.step(words(700, at), thinking=words(200, at) if letter == "t" else "")
    if closed:
        made.answer("done").user("and now")
    client = Client(world, "anthropic-messages", LOOSE, thinking)
    client.items = [PLAIN.item(item) for item in made.items]
    client.fit()
    return client


def covered(client: Client) -> int:
    """Turns that retired, in a loop that begins at item 1."""
    answer = client.compact()
    client.fit()
    assert wrong(client, client.body()) == []
    assert answer.outcome is CompactOutcome.COMMITTED
    return len(client.live()[0][2]) // 2


def first_blocks(client: Client) -> list[str]:
    """Kind of the first block of each assistant item."""
    items = json.loads(client.sent)["messages"]
    return [item["content"][0]["type"] for item in items if item["role"] == "assistant"]


def test_compact_open_loop_tail_begins_with_its_thinking(world: Plant) -> None:
    client = loop(world, "tttttt", ENABLED)
    assert covered(client) == 5
    assert first_blocks(client) == ["thinking"]


def test_compact_open_loop_tail_without_thinking_the_cut_moves(world: Plant) -> None:
    client = loop(world, "ttttpp", ENABLED)
    assert covered(client) == 3
    assert first_blocks(client) == ["thinking", "tool_use", "tool_use"]


def test_compact_open_loop_that_never_thought_is_kept_or_whole(world: Plant) -> None:
    """A history that broke the rule as it came may go on breaking it; a sound one never does."""
    client = loop(world, "tppppp", ENABLED)
    answer = client.compact()
    assert answer.outcome is CompactOutcome.KEPT
    before = client.sent
    client.fit()
    assert client.sent == before


@pytest.mark.parametrize("thinking", [None, {"type": "adaptive"}, {"type": "disabled"}])
def test_compact_open_loop_thinking_not_asked_for_no_need(world: Plant, thinking: dict[str, Any] | None) -> None:
    assert covered(loop(world, "ttttpp", thinking)) == 5


def test_compact_closed_loop_no_need(world: Plant) -> None:
    client = loop(world, "ttttpp", ENABLED, closed=True)
    client.compact()
    client.fit(limits=LimitsGiven(keep_unit_count=1))
    assert wrong(client, client.body()) == []
    assert len(client.live()[0][2]) >= 10


def test_compact_signed_reasoning_behind_the_change_noted_once(world: Plant) -> None:
    client = loop(world, "tttttt", ENABLED)
    assert "REASONING_BOUND" not in client.notes
    covered(client)
    assert client.notes.count("REASONING_BOUND") == 1
    client.items += [PLAIN.item(item) for item in history("anthropic-messages").step("more", thinking="hm").items]
    client.fit()
    assert "REASONING_BOUND" not in client.notes
    client.fit(client.adopted())
    assert "REASONING_BOUND" not in client.notes


def test_compact_no_signed_reasoning_behind_nothing_noted(world: Plant) -> None:
    client = loop(world, "pppppp", None)
    covered(client)
    assert "REASONING_BOUND" not in client.notes
