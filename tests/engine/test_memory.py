"""What the cache of sessions believes a session takes, beside what it takes: the cache's bound is worth no more than that."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from sidecar.core.types import EffectState, LimitsGiven
from sidecar.engine.session import Session
from tests.helpers.recording import FORMATS, Desk, Run, desk

LIMITS = LimitsGiven(soft_bytes=200_000, target_bytes=100_000, min_saving_bytes=1, keep_unit_count=2)


@pytest.fixture(scope="module")
def place() -> Iterator[Desk]:
    with desk() as made:
        yield made


@pytest.fixture(params=FORMATS)
def run(place: Desk, request: pytest.FixtureRequest) -> Run:
    return place.run(request.param)


def _taken(work: Callable[[], object]) -> int:
    """Bytes that are still allocated after it."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def _session(run: Run) -> Session:
    (session,) = run.engine.sessions.held(run.key)
    return session


def _items(run: Run, count: int, size: int) -> list[object]:
    items: list[object] = [run.user("go")]
    for at in range(count):
        items += [run.calls(f"c{at}"), *run.results(run.result(f"c{at}", f"{at} " + "line of text\n" * (size // 13)))]
    return items


@pytest.mark.parametrize(("count", "size"), [(200, 1500), (600, 30)])
def test_memory_bytes_is_about_what_a_session_takes_when_it_was_loaded(run: Run, count: int, size: int) -> None:
    run.fit(_items(run, count, size), limits=LIMITS)
    told = (run.receipt(f"c{at}", EffectState.SETTLED, result=run.result(f"c{at}", "r" * 2000)) for at in range(0, count, 20))
    run.record(receipts=tuple(told))
    run.desk.reopen()
    taken = _taken(lambda: run.recover(body=False))
    assert 0.85 * taken < _session(run).memory_bytes() < 1.3 * taken


def test_memory_bytes_is_about_what_a_session_takes_when_it_is_in_use(run: Run) -> None:
    items = _items(run, 100, 4000)
    taken = _taken(lambda: run.fit(items, limits=LIMITS))
    assert 0.6 * taken < _session(run).memory_bytes() < 1.6 * taken
