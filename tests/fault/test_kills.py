"""Thirty kills under load; `make kill-test` runs a thousand. See tests/fault/kills."""

from __future__ import annotations

import pytest

from tests.fault.kills.run import ARMED, run

KILLS = 30


@pytest.mark.timeout(600)
def test_thirty_kills_under_load_lose_nothing_acknowledged() -> None:
    outcome = run(KILLS, seed=7, tell=print)
    assert outcome.faults == []
    assert outcome.kills >= KILLS
    assert {place for place in ("random", *ARMED) if not outcome.by_place[place]} == set()
    assert outcome.checkpoints and outcome.receipts and outcome.artifacts and outcome.model_requests
