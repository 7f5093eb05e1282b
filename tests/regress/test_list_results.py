"""Results whose content is a list that is replaced whole: cut once, markers kept, readable for ever.

A list of many small text blocks has no large string, so it leaves as one value and a list of one stub block takes its place.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.bodies import TYPED, History, history, words
from tests.helpers.client import Agent, Sidecar, tight
from trimtab.v1 import common_pb2

ALL = tight(1024, 1024, keep_unit_count=0, externalize_bytes=0)
MARKER = {"type": "ephemeral"}


def run_with_list(format_name: str, blocks: list[dict[str, Any]]) -> History:
    """One result of these blocks, then two small steps."""
    return history(format_name).user("go").step(blocks).steps(2, 100)  # type: ignore[arg-type]


def small_blocks(count: int = 40) -> list[dict[str, Any]]:
    """Text blocks too small to leave one by one."""
    return [{"type": "text", "text": words(300, index)} for index in range(count)]


def adopted(sent: bytes, fresh: list[dict[str, Any]]) -> bytes:
    """The answered body with new items at its end."""
    value = json.loads(sent)
    value["messages"] += fresh
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize("format_name", TYPED)
@pytest.mark.parametrize(
    "first",
    [
        common_pb2.Limits(externalize_bytes=4000, keep_unit_count=1),
        tight(2000, 1024, hard_bytes=3000, keep_unit_count=3, externalize_bytes=0),
    ],
    ids=["on-arrival", "in-the-tail"],
)
def test_fit_preview_of_a_list_adopted_is_not_cut_again(sidecar: Sidecar, format_name: str, first: common_pb2.Limits) -> None:
    agent = Agent(sidecar, format_name, first)
    run = history(format_name).user("go").step(small_blocks())  # type: ignore[arg-type]
    sent = agent.fit(run.body())
    assert agent.count == 1
    known = len(run.items)
    run.steps(4, 300)
    again = agent.fit(adopted(sent, run.items[known:]), raw=run.body(), limits=ALL, respelled=True)
    assert json.loads(agent.fit(run.body(), limits=ALL)) == json.loads(again)


@pytest.mark.parametrize("format_name", TYPED)
@pytest.mark.parametrize("where", [(0,), (20,), (39,), (3, 39)], ids=str)
def test_fit_marker_inside_a_list_that_leaves_whole_stays(sidecar: Sidecar, format_name: str, where: tuple[int, ...]) -> None:
    blocks = small_blocks()
    for index in where:
        blocks[index]["cache_control"] = MARKER
    agent = Agent(sidecar, format_name, ALL)
    sent = agent.fit(run_with_list(format_name, blocks).body(), oracle=len(where) == 1)
    assert 1 <= sent.count(b'"cache_control"') <= len(where)


@pytest.mark.parametrize("format_name", TYPED)
def test_fit_marked_block_just_under_the_minimum_fits(sidecar: Sidecar, format_name: str) -> None:
    """The text is too small to leave; with the marker around it, the list is not."""
    for size in (300, 340, 383):
        run = run_with_list(format_name, [{"type": "text", "text": words(size, "m"), "cache_control": MARKER}]).steps(3, 900)
        sent = Agent(sidecar, format_name, ALL).fit(run.body())
        assert sent.count(b'"cache_control"') == 1


@pytest.mark.parametrize("format_name", TYPED)
def test_fit_marker_moved_into_a_list_that_left_stays_once(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, ALL)
    run = run_with_list(format_name, small_blocks())
    agent.fit(run.body())
    count = agent.count
    content = run.items[2]["content"]
    blocks = content if format_name == "openai-chat" else content[0]["content"]
    blocks[-1]["cache_control"] = MARKER
    sent = agent.fit(run.body())
    assert agent.count == count
    assert sent.count(b'"cache_control"') == 1
