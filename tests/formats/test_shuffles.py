"""The quick answer for usual histories is the slow one's answer: sound histories, then one thing out of place in each."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from fastpath import scan
from sidecar.formats.anthropic_messages_rules import check_pairs
from sidecar.formats.rules import History
from tests.formats.build import MESSAGES, asked, call, result, text, used


def sound(rand: random.Random) -> list[Any]:
    items: list[Any] = [asked("start")]
    for turn in range(rand.randrange(1, 6)):
        ids = [f"t{turn}_{index}" for index in range(rand.randrange(0, 4))]
        items.append(used(*([text()] if rand.random() < 0.5 or not ids else []), *(call(id) for id in ids)))
        after = [text("more")] if rand.random() < 0.3 or not ids else []
        items.append(asked([*(result(id, [text()] if rand.random() < 0.3 else "x") for id in ids), *after]))
    return items


def spoiled(items: list[Any], rand: random.Random) -> list[Any]:
    """One result moved, dropped, doubled, renamed or put after text."""
    holders = [
        item
        for item in items
        if item["role"] == "user" and any(b["type"] == "tool_result" for b in item["content"] if isinstance(b, dict))
    ]
    blocks = rand.choice(holders)["content"]
    at = rand.choice([index for index, block in enumerate(blocks) if block["type"] == "tool_result"])
    how = rand.randrange(5)
    if how == 0:
        items.append(asked([blocks.pop(at)]))
    elif how == 1:
        blocks[at] = text("gone")
    elif how == 2:
        blocks.insert(at, blocks[at])
    elif how == 3:
        blocks[at] = blocks[at] | {"tool_use_id": "other"}
    else:
        blocks.insert(0, text("first"))
    return items


def rules(items: list[Any]) -> list[tuple[str, int]]:
    body = json.dumps({"messages": items}).encode()
    return [(found.rule, found.item_index) for found in check_pairs(History(scan(body, MESSAGES.grammar)))]


@pytest.mark.parametrize("seed", range(60))
def test_check_pairs_sound_history_has_no_fault_whatever_the_order_of_results(seed: int) -> None:
    rand = random.Random(seed)
    items = sound(rand)
    assert rules(items) == []
    for item in items:
        if item["role"] == "user" and isinstance(item["content"], list):
            results = [block for block in item["content"] if block["type"] == "tool_result"]
            rand.shuffle(results)
            item["content"] = results + [block for block in item["content"] if block["type"] != "tool_result"]
    assert rules(items) == []


@pytest.mark.parametrize("seed", range(60))
def test_check_pairs_one_result_out_of_place_is_found(seed: int) -> None:
    rand = random.Random(seed)
    items = sound(rand) + [used(call("last")), asked([result("last"), text("go on")])]
    assert rules(spoiled(items, rand)) != []
