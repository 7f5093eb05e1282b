"""Recorded sessions as they grew: at every point where the agent called its model, at a quarter of the size, the body is whole.

Sent in one session from one point to the next, raw and adopted in turns, compacted twice on the way and recovered at the end.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastpath import Role, Scan, scan
from sidecar.core.types import LimitsGiven, ReadBack, SessionKey
from sidecar.engine.compact_messages import CompactInput
from sidecar.engine.messages import FitInput
from sidecar.engine.record_messages import RecoverInput
from sidecar.formats import ADAPTERS
from sidecar.formats.base import Adapter
from tests.helpers.corpus import bodies
from tests.helpers.recording import Desk, desk
from tests.helpers.sdk_types import sdk_violations

LEAST_ITEMS = 50
CUTS = 40
CASES = [
    (adapter, path)
    for adapter in ADAPTERS.values()
    for path in bodies(adapter.name)
    if path.parent.name != "malformed" and scan(path.read_bytes(), adapter.grammar).item_count >= LEAST_ITEMS
]


@pytest.fixture(scope="module")
def place() -> Iterator[Desk]:
    with desk() as made:
        yield made


def calls_of(adapter: Adapter, body: bytes, scanned: Scan) -> list[bytes]:
    """Bodies that the agent sent, shortest first: those that end with what the model answers next."""
    items = scanned.items()
    found = []
    for count in range(1, len(items) + 1):
        if items[count - 1].role in (Role.USER, Role.RESULT) and (count == len(items) or items[count].role == Role.ASSISTANT):
            found.append(body[: items[count - 1].end] + body[items[-1].end :])
    return found


def chosen(prefixes: list[bytes]) -> list[bytes]:
    """At most so many of them, spread evenly, the last among them."""
    step = max(1, len(prefixes) / CUTS)
    return [prefixes[min(int(at * step), len(prefixes) - 1)] for at in range(min(CUTS, len(prefixes)) - 1)] + prefixes[-1:]


def rules(adapter: Adapter, body: bytes) -> Counter[str]:
    return Counter(found.rule for found in adapter.check(scan(body, adapter.grammar)))


def types(adapter: Adapter, body: bytes) -> set[str]:
    """What the official types refuse, wherever it stands."""
    return {re.sub(r"(messages|contents|input)\[\d+\]", r"\1[]", each) for each in sdk_violations(adapter.name, json.loads(body))}


@pytest.mark.parametrize(("adapter", "path"), CASES, ids=lambda value: getattr(value, "stem", None) or value.name)
def test_fit_of_a_session_as_it_grew_is_whole_at_every_call(place: Desk, adapter: Adapter, path: Path) -> None:
    body = path.read_bytes()
    prefixes = chosen(calls_of(adapter, body, scan(body, adapter.grammar)))
    assert len(prefixes) >= 10
    place.serial += 1
    key = SessionKey("", f"grew-{place.serial}")
    soft = len(body) // 4
    limits = LimitsGiven(soft_bytes=soft, target_bytes=soft * 3 // 4, compact_target_bytes=soft // 2, keep_unit_count=2)

    def fit(sent: bytes) -> bytes:
        given = FitInput(key, sent, format=adapter.format, read_back=ReadBack.INJECT, limits=limits)
        return place.engine.fit(given).body or sent

    answer = b""
    for at, prefix in enumerate(prefixes):
        answer = fit(prefix)
        assert not rules(adapter, answer) - rules(adapter, prefix), f"call {at}"
        if at in (len(prefixes) // 2, len(prefixes) - 2):
            place.engine.compact(CompactInput(key, f"stage-{at}", ignore_pressure=True, force_mid_stage=True))
            answer = fit(prefix)
            assert not rules(adapter, answer) - rules(adapter, prefix), f"compacted at call {at}"
        if at % 13 == 12 or at == len(prefixes) - 1:
            assert types(adapter, answer) <= types(adapter, prefix), f"call {at}"
            assert fit(answer) == answer  # adopted
    place.reopen()
    recovered = place.engine.recover(RecoverInput(key, include_body=True)).body
    assert recovered == answer
    assert len(body) < 100_000 or len(answer) < len(body)


def test_corpus_is_at_hand(corpus: Path) -> None:
    assert {adapter.name for adapter, _ in CASES} == {adapter.name for adapter in ADAPTERS.values()}
