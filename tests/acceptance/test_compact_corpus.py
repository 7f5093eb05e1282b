"""Recorded bodies, compacted by ledger at a quarter and a tenth of their size: valid, no word lost, and all of it comes back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastpath import Role, scan
from sidecar.core.errors import TrimtabError
from sidecar.core.types import LimitsGiven
from sidecar.engine.compact_messages import CompactOutcome
from sidecar.formats import ADAPTERS
from tests.helpers.bodies import FORMATS
from tests.helpers.compacting import Client, Plant, plant, wrong
from tests.helpers.corpus import bodies
from tests.helpers.sdk_types import sdk_violations

CASES = [(name, path, share) for name in FORMATS for path in bodies(name) for share in (0.25, 0.1)]


class Recorded(Client):
    """A session of one recorded body."""

    def __init__(self, plant: Plant, format_name: str, recorded: bytes, limits: LimitsGiven) -> None:
        super().__init__(plant, format_name, limits)
        self.recorded = recorded

    def body(self, items: object = None) -> bytes:
        return self.recorded


@pytest.fixture(scope="module")
def world() -> Iterator[Plant]:
    with plant() as made:
        yield made


@pytest.mark.parametrize(("format_name", "path", "share"), CASES, ids=lambda value: getattr(value, "stem", str(value)))
def test_compact_recorded_body_whole_and_back(world: Plant, format_name: str, path: Path, share: float) -> None:
    body = path.read_bytes()
    soft = max(1024, int(len(body) * share))
    limits = LimitsGiven(
        soft_bytes=soft,
        target_bytes=soft * 9 // 10,
        min_saving_bytes=1,
        externalize_bytes=0,
        compact_min_saving_bytes=1,
        compact_target_bytes=soft * 9 // 10,
    )
    client = Recorded(world, format_name, body, limits)
    try:
        before = client.fit()
    except TrimtabError as error:
        assert error.reason == "MALFORMED_BODY"
        return
    assert wrong(client, body) == []
    # Whatever the reserve of words and the newest units: it is compacted as far as it may be.
    answer = client.compact(body=body, limits=LimitsGiven(soft_bytes=len(body), compact_target_bytes=1))
    after = client.fit()
    assert wrong(client, body) == []
    assert sdk_faults(format_name, after) <= sdk_faults(format_name, body)
    if answer.outcome is not CompactOutcome.COMMITTED:
        assert answer.kept_reason.name in ("NO_CANDIDATE", "LOW_BENEFIT", "DOES_NOT_FIT")
        assert after == before
        return
    assert len(after) < len(before)
    assert tail(format_name, after) == tail(format_name, before)
    client.fit(after)
    assert client.sent == after
    assert client.result is not None
    assert client.result.match.new_item_count == 0
    assert client.result.match.diverged_at is None
    client.fit(json.dumps(json.loads(after)).encode())
    assert client.result.match.new_item_count == 0
    assert client.result.match.diverged_at is None
    world.reopen()
    client.fit()
    assert client.sent == after
    assert answer.checkpoint is not None
    client.roll_back(answer.checkpoint.checkpoint_id)
    client.fit()
    assert client.sent == before


def sdk_faults(format_name: str, body: bytes) -> set[str]:
    """What the SDK's types do not allow, wherever it stands: items have moved up."""
    return {re.sub(r"(messages|contents|input)\[\d+\]", r"\1[]", each) for each in sdk_violations(format_name, json.loads(body))}


def tail(format_name: str, body: bytes) -> list[bytes]:
    """The newest turn, and what came after it."""
    adapter = next(each for each in ADAPTERS.values() if each.name == format_name)
    items = scan(body, adapter.grammar).items()
    last = max((at for at, item in enumerate(items) if item.role == Role.ASSISTANT), default=0)
    return [body[item.start : item.end] for item in items[last:]]


def test_corpus_is_at_hand(corpus: Path) -> None:
    assert {name for name, _, _ in CASES} == set(FORMATS)
