"""Recorded bodies, squeezed to a half, a quarter and a tenth of their size: nothing is lost and every figure is exact."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.bodies import FORMATS
from tests.helpers.client import Agent, Sidecar, tight
from tests.helpers.corpus import bodies
from tests.helpers.sdk_types import sdk_violations
from trimtab.v1 import context_pb2

OUTCOMES: dict[str, list[tuple[int, int, str]]] = {}
"""By dialect: bytes of each body, bytes of its answer, and why it is over its limit; for the table in the summary."""

CASES = [(name, path, share) for name in FORMATS for path in bodies(name) for share in (0.5, 0.25, 0.1)]


@pytest.mark.parametrize(("format_name", "path", "share"), CASES, ids=lambda value: getattr(value, "stem", str(value)))
def test_fit_recorded_body_reasoned_and_whole(sidecar: Sidecar, format_name: str, path: Path, share: float) -> None:
    body = path.read_bytes()
    limit = max(1024, int(len(body) * share))
    agent = Agent(sidecar, format_name, tight(limit))
    sent = agent.fit(body)
    response = agent.response
    over = len(sent) > limit
    assert response.outcome == (context_pb2.FIT_OUTCOME_OVER if over else context_pb2.FIT_OUTCOME_FITTED)
    assert over or not response.blockers
    assert not over or response.blockers or response.advice.eligible
    assert [blocker.size_bytes for blocker in response.blockers] == sorted(
        (b.size_bytes for b in response.blockers), reverse=True
    )
    assert response.advice.eligible or response.advice.reason
    assert sdk_violations(format_name, json.loads(sent)) <= sdk_violations(format_name, json.loads(body))
    assert agent.fit(body, oracle=False) == sent
    why = response.blockers[0].reason if over and response.blockers else "NOT_COMPACTED" if over else ""
    OUTCOMES.setdefault(format_name, []).append((len(body), len(sent), why))


def test_corpus_is_at_hand(corpus: Path) -> None:
    assert {name for name, _, _ in CASES} == set(FORMATS)
