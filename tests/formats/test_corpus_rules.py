"""The rules on recorded bodies: those that a provider took break none; those that are known to be damaged are reported."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from fastpath import scan
from sidecar.formats.base import Adapter
from tests.formats.build import CHAT, MESSAGES
from tests.helpers.corpus import bodies

RECORDED = [pytest.param(adapter, path, id=path.name) for adapter in (CHAT, MESSAGES) for path in bodies(adapter.name)]
SOUND = [param for param in RECORDED if param.values[1].parent.name != "malformed"]

# What is known of the damaged ones: calls of aborted turns without results, and a body that ends with a call.
DAMAGED = {
    "anthropic-messages--pi-large-session-unrepaired.json": {"CALL_WITHOUT_RESULT": 18},
    "anthropic-messages--claude-code-cctrace-unrepaired.json": {"CALL_OPEN": 1},
}


@pytest.mark.skipif(not SOUND, reason="no recorded bodies here")
@pytest.mark.parametrize(("adapter", "path"), SOUND)
def test_check_recorded_body_breaks_no_rule(adapter: Adapter, path: Path) -> None:
    assert adapter.check(scan(path.read_bytes(), adapter.grammar)) == []


@pytest.mark.skipif(not SOUND, reason="no recorded bodies here")
@pytest.mark.parametrize("name", DAMAGED)
def test_check_damaged_body_is_reported(name: str) -> None:
    (path,) = (path for path in bodies("anthropic-messages") if path.name == name)
    found = MESSAGES.check(scan(path.read_bytes(), MESSAGES.grammar))
    assert Counter(violation.rule for violation in found) == DAMAGED[name]


@pytest.mark.skipif(not SOUND, reason="no recorded bodies here")
@pytest.mark.parametrize(("adapter", "path"), [param for param in SOUND if param.values[1].stat().st_size < 50_000])
def test_check_recorded_body_without_any_one_item_with_results_is_reported(adapter: Adapter, path: Path) -> None:
    body = json.loads(path.read_bytes())
    holders = [
        index
        for index, item in enumerate(body["messages"])
        if item["role"] == "tool"
        or (isinstance(item.get("content"), list) and any(b.get("type") == "tool_result" for b in item["content"]))
    ]
    unnoticed = []
    for index in holders[:40]:
        cut = body | {"messages": body["messages"][:index] + body["messages"][index + 1 :]}
        rules = {found.rule for found in adapter.check(scan(json.dumps(cut).encode(), adapter.grammar))}
        if not rules & {"CALL_WITHOUT_RESULT", "CALL_OPEN"}:
            unnoticed.append(index)
    assert unnoticed == []
