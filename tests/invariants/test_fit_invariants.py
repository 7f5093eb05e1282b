"""What only a whole Fit can show: durable and read back before the reply, the same bytes again, nothing done without need.

A real engine over a real store; a wrapper stands between the two where a test needs a slow, failing or damaged one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from sidecar.core.errors import CorruptedError, InternalError, StoreFailedError
from sidecar.core.types import Format, LimitsGiven, Preset, ReadBack, SessionKey, UsageFigures
from sidecar.engine.config import EngineConfig
from sidecar.engine.engine import Engine
from sidecar.engine.messages import CallRef, FitInput, FitOutcome, FitResult, PinGiven, TokenBasis
from sidecar.formats import ADAPTERS
from sidecar.ports import Batch
from store.store import LmdbStore
from tests.helpers.bodies import FORMATS, TYPED, History, history, words

KEY = SessionKey("", "run")
TIGHT = LimitsGiven(soft_bytes=4_000, target_bytes=1_000, min_saving_bytes=1, externalize_bytes=0, keep_unit_count=1)
each_format = pytest.mark.parametrize("format_name", FORMATS)
each_typed = pytest.mark.parametrize("format_name", TYPED)


class Clock:
    def now_ms(self) -> int:
        return 1_000


class Between:
    """Hands everything on to a store; what a test changes is on the way."""

    def __init__(self, store: LmdbStore) -> None:
        self._store = store
        self.delay_s = 0.0
        self.flushed: list[bool] = []
        self.damage = False
        self.reads = 0
        self.submitted: list[Batch] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def submit(self, batch: Batch) -> Future[None]:
        self.submitted.append(batch)
        inner = self._store.submit(batch)
        inner.result()
        outer: Future[None] = Future()

        def flush() -> None:
            self.flushed.append(True)
            outer.set_result(None)

        Timer(self.delay_s, flush).start()
        return outer

    def read_item_range(self, key: SessionKey, number: int, start: int, end: int) -> bytes:
        self.reads += 1
        raw = self._store.read_item_range(key, number, start, end)
        return raw[:-1] + bytes([raw[-1] ^ 1]) if self.damage else raw


@contextmanager
def engine_on(folder: Path, **config: Any) -> Iterator[tuple[Engine, Between]]:
    store = Between(LmdbStore(folder, quota_bytes=1 << 28, map_bytes=1 << 30))
    engine = Engine(store, Clock(), EngineConfig(**config))
    try:
        yield engine, store
    finally:
        engine.close()


def fit(engine: Engine, made: History | bytes, limits: LimitsGiven | None = TIGHT, **told: Any) -> FitResult:
    body = made.body() if isinstance(made, History) else made
    format = Format.UNSPECIFIED if isinstance(made, bytes) else Format(made.format)
    return engine.fit(FitInput(KEY, body, format, limits, read_back=ReadBack.CALLER, **told))


def run(format_name: str, count: int = 4) -> History:
    return history(format_name).user("go").steps(count, 2_000)


@each_format
def test_fit_without_need_answers_unchanged_without_a_body(format_name: str, tmp_path: Path) -> None:
    with engine_on(tmp_path) as (engine, _):
        result = fit(engine, run(format_name), LimitsGiven())
        assert (result.outcome, result.body, result.reductions) == (FitOutcome.UNCHANGED, b"", ())
        assert result.after.total_bytes == len(run(format_name).body())


def test_fit_answers_only_after_the_flush(tmp_path: Path) -> None:
    with engine_on(tmp_path) as (engine, store):
        store.delay_s = 0.1
        result = fit(engine, run("openai-chat"))
        assert (result.outcome, store.flushed, result.journal_durable) == (FitOutcome.FITTED, [True], True)


def test_fit_whose_flush_does_not_end_is_an_error(tmp_path: Path) -> None:
    with engine_on(tmp_path, write_timeout_s=0.01) as (engine, store):
        store.delay_s = 0.3
        with pytest.raises(StoreFailedError):
            fit(engine, run("openai-chat"))
        time.sleep(0.4)


def test_fit_reads_back_what_its_stubs_name_before_it_answers(tmp_path: Path) -> None:
    with engine_on(tmp_path) as (engine, store):
        store.damage = True
        with pytest.raises(CorruptedError):
            fit(engine, run("openai-chat"))
        assert store.reads > 0


@pytest.mark.parametrize(
    ("format_name", "stub"), [("openai-chat", b"7"), ("anthropic-messages", b'"x","tool_use_id":"z"')], ids=TYPED
)
def test_fit_of_a_body_that_would_break_its_contract_is_an_error_and_keeps_nothing(
    format_name: str, stub: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = run(format_name)
    monkeypatch.setattr(type(ADAPTERS[Format(made.format)]), "stub", lambda *_: stub)
    with engine_on(tmp_path) as (engine, store):
        with pytest.raises(InternalError):
            fit(engine, made)
        assert store.submitted == []


@each_format
@pytest.mark.parametrize(
    "other",
    [
        LimitsGiven(soft_bytes=10**9, target_bytes=10**9, externalize_bytes=10**9, keep_unit_count=99),
        LimitsGiven(preset=Preset.WINDOW, window_tokens=10**9),
        LimitsGiven(preset=Preset.MINIMAL, soft_bytes=10**9, target_bytes=10**9),
    ],
    ids=["wide", "window", "minimal"],
)
def test_fit_of_the_same_body_gives_the_same_bytes_whatever_the_call_brings(
    format_name: str, other: LimitsGiven, tmp_path: Path
) -> None:
    made = run(format_name)
    with engine_on(tmp_path) as (engine, store):
        first = fit(engine, made)
        assert len(first.body) < len(made.body())
        records = len(store.load(KEY).offloads)
        usage = UsageFigures(input_tokens=10, cached_input_tokens=10)
        pins = (PinGiven(CallRef("call_000001")), PinGiven(tool_name="read_file"))
        assert fit(engine, made, other, usage=usage, pins=pins).body == first.body
        assert len(store.load(KEY).offloads) == records
    with engine_on(tmp_path) as (engine, store):
        assert fit(engine, made, other).body == first.body  # after a restart too


@each_format
def test_fit_of_a_grown_history_changes_no_committed_record(format_name: str, tmp_path: Path) -> None:
    made = run(format_name)
    with engine_on(tmp_path) as (engine, store):
        first = fit(engine, made)
        records = list(store.load(KEY).offloads)
        made.steps(4, 2_000)
        second = fit(engine, made)
        assert list(store.load(KEY).offloads)[: len(records)] == records
        assert len(store.load(KEY).offloads) > len(records)
        at = first.body.rindex(b"[trimtab")
        assert second.body[:at] == first.body[:at]


@each_typed
def test_fit_tells_of_each_reduction_its_artifact_source_and_place(format_name: str, tmp_path: Path) -> None:
    made = history(format_name).user("go")
    for index in range(4):
        made.step(words(2_000, index))
    with engine_on(tmp_path) as (engine, _):
        result = fit(engine, made)
        messages = json.loads(result.body)["messages"]
        assert len(result.reductions) == 3
        for index, reduction in enumerate(result.reductions):
            assert reduction.call == CallRef(f"call_{index + 1:06d}", 2 * index + 1, 0)
            assert reduction.item_index == 2 * index + 2
            assert reduction.artifact_id in json.dumps(messages[reduction.item_index])
            content = engine.reader.read(KEY, reduction.artifact_id).content
            assert content.decode() == words(2_000, index)


def test_fit_without_usage_says_that_tokens_are_unknown_and_not_zero(tmp_path: Path) -> None:
    with engine_on(tmp_path) as (engine, _):
        result = fit(engine, run("openai-chat"), LimitsGiven())
        assert (result.before.tokens, result.before.token_basis) == (None, TokenBasis.UNKNOWN)
        assert [note.reason for note in result.notes] == ["TOKENS_UNKNOWN"]
