"""Sessions in memory stay within cache_bytes, whatever their last call was; a delete does not trouble a Fit."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from sidecar.app import SystemClock
from sidecar.core.errors import StoreFullError, TrimtabError
from sidecar.core.types import Format, LimitsGiven, ReadBack, SessionKey
from sidecar.engine.config import EngineConfig
from sidecar.engine.engine import Engine
from sidecar.engine.messages import FitInput
from store.store import LmdbStore
from tests.engine.held import open_store

CACHE_BYTES = 256 * 1024


@pytest.fixture
def engine() -> Iterator[Engine]:
    """A real engine and store."""
    with open_store() as store:
        yield Engine(store, SystemClock(), EngineConfig(cache_bytes=CACHE_BYTES, read_back=ReadBack.CALLER))


def body(name: str, step_count: int) -> bytes:
    """A run of so many steps of 2,000 bytes."""
    items: list[dict[str, object]] = [{"role": "user", "content": name}]
    for index in range(step_count):
        call = {"id": f"c{index}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        items.append({"role": "assistant", "content": None, "tool_calls": [call]})
        items.append({"role": "tool", "tool_call_id": f"c{index}", "content": f"{name}.{index} " * 250})
    return json.dumps({"model": "m", "messages": items}).encode()


def fit(engine: Engine, name: str, step_count: int, limits: LimitsGiven | None = None, session: str = "") -> None:
    """One Fit."""
    key = SessionKey("", session or name)
    engine.fit(FitInput(key=key, body=body(name, step_count), format=Format.OPENAI_CHAT, limits=limits))


def test_fit_many_sessions_whose_last_write_was_not_waited_for_stay_bounded(engine: Engine) -> None:
    for number in range(60):
        fit(engine, f"run{number}", 5)
        fit(engine, f"run{number}", 6)
    engine.settle()
    fit(engine, "last", 5)
    count, size = engine.sessions.stats()
    assert size <= CACHE_BYTES, f"{count} sessions hold {size} bytes"


def test_fit_malformed_bodies_under_new_names_leave_no_session_behind(engine: Engine) -> None:
    for number in range(200):
        with pytest.raises(TrimtabError):
            engine.fit(FitInput(key=SessionKey("", f"bad{number}"), body=b"{", format=Format.OPENAI_CHAT))
    assert engine.sessions.stats()[0] <= 1


class Interposed:
    """A real store with some methods replaced."""

    def __init__(self, store: LmdbStore, **methods: Callable[..., Any]) -> None:
        self._store = store
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        return self._methods.get(name) or getattr(self._store, name)


@pytest.mark.parametrize("step_count", [1, 6])
def test_fit_session_deleted_while_it_was_loaded_begins_anew(step_count: int) -> None:
    """A Fit that waits while its session is deleted begins a new one: its client is not told of a failed store."""
    key = SessionKey("", "run")
    with open_store() as store:
        fit(Engine(store, SystemClock(), EngineConfig(read_back=ReadBack.CALLER)), "run", 5)
        loaded, deleted = threading.Event(), threading.Event()

        def load(key: SessionKey) -> object:
            image = store.load(key)
            loaded.set()
            assert deleted.wait(10)
            return image

        slow: Any = Interposed(store, load=load)
        engine = Engine(slow, SystemClock(), EngineConfig(read_back=ReadBack.CALLER))
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(
                fit, engine, "run", step_count, LimitsGiven(soft_bytes=1024, min_saving_bytes=1, keep_unit_count=0)
            )
            assert loaded.wait(10)
            assert engine.delete(key)
            deleted.set()
            running.result(10)
        engine.settle()
        summary = store.summary(key)
        assert summary is not None
        assert summary.head.revision == 1


def test_fit_store_full_is_noted_in_every_answer() -> None:
    """DESIGN 5, store trouble: it answers with journal_durable false and note STORE_FULL; not every second time only."""

    def submit(batch: object) -> Future[None]:
        failed: Future[None] = Future()
        failed.set_exception(StoreFullError("full", hint="free space"))
        return failed

    with open_store() as store:
        fit(Engine(store, SystemClock(), EngineConfig(read_back=ReadBack.CALLER)), "run", 2)
        full: Any = Interposed(store, submit=submit)
        engine = Engine(full, SystemClock(), EngineConfig(read_back=ReadBack.CALLER))
        noted = []
        for step_count in range(3, 9):
            given = FitInput(key=SessionKey("", "run"), body=body("run", step_count), format=Format.OPENAI_CHAT)
            result = engine.fit(given)
            assert not result.journal_durable
            noted.append(any(note.reason == "STORE_FULL" for note in result.notes))
        assert all(noted[1:]), noted
