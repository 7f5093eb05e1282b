"""A call that changed nothing and comes again is answered from memory, and as a whole Fit would answer it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from sidecar.app import SystemClock
from sidecar.core.types import EffectState, LimitsGiven, ReadBack, SessionKey, UsageFigures
from sidecar.engine.config import EngineConfig
from sidecar.engine.engine import Engine
from sidecar.engine.fit_call import FitCall
from sidecar.engine.messages import AnchorsGiven, CallRef, ConstraintGiven, FitInput, FitResult, PinGiven, ReceiptGiven
from sidecar.formats.adapters import NAMES
from tests.engine.held import open_store
from tests.helpers.bodies import FORMATS, history

FORMAT_OF = {name: format for format, name in NAMES.items()}
KEY = SessionKey("", "run")
TIGHT = LimitsGiven(soft_bytes=20_000, target_bytes=10_000, min_saving_bytes=1, keep_unit_count=2)


class Counted(Engine):
    """Counts whole Fits."""

    whole_count = 0


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    with open_store() as store:
        counted = Counted(store, SystemClock(), EngineConfig(read_back=ReadBack.CALLER))
        run = FitCall.run

        def count(call: FitCall) -> FitResult:
            counted.whole_count += 1
            return run(call)

        monkeypatch.setattr(FitCall, "run", count)
        yield counted


def given(format_name: str, step_count: int = 12, **fields: object) -> FitInput:
    body = history(format_name).user("go").steps(step_count, 3_000).body()
    return msgspec.structs.replace(FitInput(KEY, body, FORMAT_OF[format_name]), **fields)


def whole(engine: Counted, again: FitInput) -> FitResult:
    """What a whole Fit answers."""
    session = engine.sessions.get(KEY)
    session.again = None
    return engine.fit(again)


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("limits", [None, TIGHT], ids=["unchanged", "fitted"])
@pytest.mark.parametrize("list_applied", [False, True])
def test_fit_repeated_is_answered_from_memory_as_a_whole_fit_would(
    engine: Counted, format_name: str, limits: LimitsGiven | None, list_applied: bool
) -> None:
    call = given(format_name, limits=limits, list_applied=list_applied)
    engine.fit(call)
    second = engine.fit(call)
    before = engine.whole_count
    third = engine.fit(call)
    assert engine.whole_count == before
    assert third == second == whole(engine, call)


@pytest.mark.parametrize("format_name", FORMATS)
def test_fit_after_any_change_is_done_whole(engine: Counted, format_name: str) -> None:
    call = given(format_name, limits=TIGHT)
    for _ in range(3):
        engine.fit(call)
    first_call = CallRef(item_index=1, call_index=0)
    others = [
        given(format_name, step_count=13),
        given(format_name, step_count=13, limits=LimitsGiven(soft_bytes=30_000)),
        given(format_name, step_count=13, pins=(PinGiven(tool_name="read_file"),)),
        given(format_name, step_count=13, receipts=(ReceiptGiven(first_call, EffectState.WAITING),)),
        given(format_name, step_count=13, anchors=AnchorsGiven(constraints=(ConstraintGiven("c", "no"),))),
        given(format_name, step_count=13, usage=UsageFigures(1000, 0, 10)),
        given(format_name, step_count=13, dry_run=True),
    ]
    for other in others:
        before = engine.whole_count
        engine.fit(other)
        assert engine.whole_count == before + 1, other
    assert engine.fit(given(format_name, step_count=13)) == whole(engine, given(format_name, step_count=13))


@pytest.mark.parametrize("format_name", FORMATS)
def test_fit_repeated_where_time_or_usage_counts_is_done_whole(engine: Counted, format_name: str) -> None:
    for call in (
        given(format_name, limits=LimitsGiven(cache_ttl_ms=300_000)),
        given(format_name, usage=UsageFigures(1000, 900, 10)),
    ):
        for _ in range(4):
            before = engine.whole_count
            engine.fit(call)
            assert engine.whole_count == before + 1
