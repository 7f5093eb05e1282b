"""What the engine does for those who look at sessions: writes that no reply waited for are waited for, sizes are told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from sidecar.core.types import Format, ReadBack, SessionKey
from sidecar.engine.config import EngineConfig
from sidecar.engine.engine import Engine
from sidecar.engine.messages import FitInput, FitOutcome
from sidecar.ports import Batch
from store.store import LmdbStore
from tests.engine.held import open_store

KEY = SessionKey("", "run")


def body(item_count: int) -> bytes:
    """A history of so many items, too small for anything to leave it."""
    roles = ("user", "assistant")
    items = [{"role": roles[number % 2], "content": f"item {number}"} for number in range(item_count)]
    return json.dumps({"model": "m", "messages": items}).encode()


class Clock:
    def now_ms(self) -> int:
        return 1_000


class SlowStore:
    """A real store that takes each batch a while after it was given."""

    def __init__(self, store: LmdbStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def submit(self, batch: Batch) -> Future[None]:
        later: Future[None] = Future()

        def write() -> None:
            self._store.submit(batch).result()
            later.set_result(None)

        threading.Timer(0.3, write).start()
        return later


@pytest.fixture
def engine() -> Iterator[Engine]:
    with open_store() as store:
        yield Engine(SlowStore(store), Clock(), EngineConfig())  # type: ignore[arg-type]


def fit(engine: Engine, item_count: int) -> bytes:
    """Fit a history. The first Fit of a session waits for its write, later ones that mention nothing new do not."""
    given = FitInput(key=KEY, body=body(item_count), format=Format.OPENAI_CHAT, read_back=ReadBack.NONE)
    assert engine.fit(given).outcome is FitOutcome.UNCHANGED
    return given.body


def stored_count(engine: Engine) -> int:
    """Items of the session in the store; -1 when it is not there."""
    summary = engine.store.summary(KEY)
    return -1 if summary is None else summary.item_count


@pytest.mark.parametrize("key", [KEY, None])
def test_settle_waits_for_writes_that_no_reply_waited_for(engine: Engine, key: SessionKey | None) -> None:
    fit(engine, 1)
    fit(engine, 3)
    assert stored_count(engine) == 1
    engine.settle(key)
    assert stored_count(engine) == 3


def test_delete_takes_with_it_what_was_still_on_its_way(engine: Engine) -> None:
    fit(engine, 1)
    fit(engine, 3)
    assert engine.delete(KEY)
    assert stored_count(engine) == -1
    assert not engine.delete(KEY)


def test_last_pressure_is_that_of_the_body_answered_last(engine: Engine) -> None:
    assert engine.last_pressure(KEY) is None
    sent = fit(engine, 3)
    pressure = engine.last_pressure(KEY)
    assert pressure is not None
    assert pressure.total_bytes == len(sent)
    engine.settle()
    engine.forget(KEY)
    assert engine.last_pressure(KEY) is None
