"""Thirty kills under load; `make kill-test` runs a thousand. See tests/fault/kills."""

from __future__ import annotations

import pytest

from tests.fault.kills.run import run

KILLS = 30


@pytest.mark.timeout(600)
def test_thirty_kills_under_load_lose_nothing_acknowledged() -> None:
    outcome = run(KILLS, seed=7, tell=print)
    assert outcome.faults == []
    assert outcome.kills == KILLS
    assert outcome.by_place["random"] and outcome.by_place["before_commit"] and outcome.by_place["after_commit"]
    assert outcome.checkpoints and outcome.receipts and outcome.artifacts and outcome.model_requests
