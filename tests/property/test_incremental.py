"""An engine that takes over what it understood of the body before answers as one that understands each body anew.

Two engines over two stores get the same calls; one of them is made to forget the body before each. Every field of every answer
is compared. So is the answer of a third, fresh engine over the first one's store to the same body.

Histories grow, are adopted, lose their oldest items, are edited in the middle, get results late, come twice; calls bring
receipts, pins, other limits, another way to read back, or are dry.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidecar.core.errors import TrimtabError
from sidecar.core.types import EffectState, LimitsGiven, ReadBack, ReductionKind, SessionKey
from sidecar.engine.config import EngineConfig
from sidecar.engine.engine import Engine
from sidecar.engine.messages import CallRef, FitInput, FitResult, PinGiven, ReceiptGiven
from sidecar.formats.adapters import NAMES
from store.store import LmdbStore
from tests.engine.held import open_store
from tests.helpers.bodies import TYPED, History, history, words
from tests.helpers.translate import history_of
from tests.property.test_fit_histories import apply_step, steps

SETTINGS = settings(
    max_examples=int(os.environ.get("TRIMTAB_EXAMPLES", "120")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
NAMED = {name: format for format, name in NAMES.items()}
_NUMBERS = itertools.count()
PLACES = st.integers(0, 40)

limits = st.builds(
    lambda soft, share, keep, external, hard: LimitsGiven(
        soft_bytes=soft,
        target_bytes=max(1, int(soft * share)),
        min_saving_bytes=1,
        externalize_bytes=external,
        keep_unit_count=keep,
        hard_bytes=soft * 2 if hard else None,
    ),
    st.integers(1_024, 30_000),
    st.floats(0.1, 1.0),
    st.integers(0, 4),
    st.sampled_from([0, 500, 4_000, 32_768]),
    st.booleans(),
)
changes = st.one_of(
    *[st.tuples(st.just("step"), steps)] * 8,
    st.tuples(st.just("adopt"), st.just(0)),
    st.tuples(st.just("again"), st.just(0)),
    st.tuples(st.just("drop"), st.integers(1, 3)),
    st.tuples(st.just("edit"), PLACES),
    st.tuples(st.just("move"), PLACES),
    st.tuples(st.just("cut short"), st.integers(1, 6)),
)
receipts = st.tuples(PLACES, st.sampled_from([EffectState.PENDING, EffectState.SETTLED, EffectState.UNKNOWN]))
extras = st.fixed_dictionaries(
    {},
    optional={
        "receipts": receipts,
        "pins": st.tuples(st.builds(PinGiven, tool_name=st.sampled_from(["read", "write"]), released=st.booleans())),
        "limits": limits,
        "dry_run": st.booleans(),
        "list_applied": st.booleans(),
        "read_back": st.sampled_from([ReadBack.CALLER, ReadBack.NONE, ReadBack.TOOL, ReadBack.INJECT]),
    },
)


class Clock:
    """Stands still: what is told of time is the same for all."""

    def now_ms(self) -> int:
        return 1_000


@pytest.fixture(scope="module")
def stores() -> Iterator[tuple[LmdbStore, LmdbStore]]:
    with ExitStack() as held:
        yield held.enter_context(open_store()), held.enter_context(open_store())


def ask(engine: Engine, given: FitInput) -> FitResult | str:
    """The answer, or the reason of a refusal; all writes done."""
    try:
        result = engine.fit(given)
    except TrimtabError as error:
        return f"{error.reason}: {error}"
    engine.settle(given.key)
    return msgspec.structs.replace(result, journal_durable=True)


def forget_body(engine: Engine, key: SessionKey) -> None:
    """Leave the engine only what it would know of the session after a restart, and the body that it sent."""
    for session in engine.sessions.held(key):
        session.seen = None


def differences(one: FitResult | str, other: FitResult | str) -> dict[str, Any]:
    """Fields that differ, but for what is told by comparing with the body before."""
    if isinstance(one, str) or isinstance(other, str):
        return {} if one == other else {"refused": (one, other)}
    old, new = (
        msgspec.structs.asdict(
            msgspec.structs.replace(
                result, match=msgspec.structs.replace(result.match, rewritten_item_count=0), stable_prefix_bytes=0
            )
        )
        for result in (one, other)
    )
    return {name: (old[name], new[name]) for name in old if old[name] != new[name]}


def change_history(run: History, change: tuple[Any, ...], index: int, sent: bytes) -> None:
    kind, value = change
    items = run.items
    if kind == "step":
        apply_step(run, value, index)
    elif kind == "adopt" and sent:
        run.items[:] = history_of(json.loads(sent))
    elif kind == "drop":
        del items[1 : 1 + value]
    elif kind == "cut short":
        del items[max(len(items) - value, 1) :]
    elif kind == "edit":
        items[value % len(items)] = history(run.format_name).user(f"edited {index}").items[0]
    elif kind == "move" and len(items) > 2:
        items.insert(value % len(items), items.pop())


def receipt_for(run: History, place: int, state: EffectState) -> tuple[ReceiptGiven, ...]:
    """A receipt for one of the calls in the history, when there is any."""
    keys = ('"tool_calls"', '"tool_use"', '"toolUse"', '"functionCall"', '"function_call"')
    calling = [at for at, item in enumerate(run.items) if any(key in json.dumps(item) for key in keys)]
    return (ReceiptGiven(CallRef(item_index=calling[place % len(calling)], call_index=0), state),) if calling else ()


class Pair:
    """One session in two engines: one that takes over, one that is made to forget; over two stores that get the same."""

    def __init__(self, stores: tuple[LmdbStore, LmdbStore], format_name: str, first: LimitsGiven) -> None:
        self.key = SessionKey("", f"run-{next(_NUMBERS)}")
        self.format = NAMED[format_name]
        self.stores = stores
        self.knowing, self.forgetting = (Engine(store, Clock(), EngineConfig()) for store in stores)
        self.told: dict[str, Any] = {"limits": first, "read_back": ReadBack.CALLER}

    def fit(self, body: bytes, **extra: Any) -> FitResult | str:
        """Ask both, and a fresh engine; they must agree."""
        given = FitInput(key=self.key, body=body, format=self.format, **{**self.told, **extra})
        self.told = {}
        forget_body(self.forgetting, self.key)
        known, anew = ask(self.knowing, given), ask(self.forgetting, given)
        assert differences(known, anew) == {}
        again = FitInput(key=self.key, body=body, format=self.format, list_applied=True, dry_run=True)
        fresh = Engine(self.stores[0], Clock(), EngineConfig())
        assert differences(ask(fresh, again), ask(self.knowing, again)) == {}
        return known

    def told_of(self, body: bytes, **extra: Any) -> FitResult:
        """As `fit`, for a call that is not refused."""
        result = self.fit(body, **extra)
        assert isinstance(result, FitResult)
        return result


@pytest.mark.parametrize("format_name", TYPED)
@SETTINGS
@given(plan=st.lists(st.tuples(changes, extras), min_size=3, max_size=16), first=limits, thinking=st.booleans())
def test_engine_that_takes_over_answers_as_one_that_does_not(
    stores: tuple[LmdbStore, LmdbStore], format_name: str, plan: list[Any], first: LimitsGiven, thinking: bool
) -> None:
    pair = Pair(stores, format_name, first)
    run = history(format_name).user("begin")
    run.rest |= {"thinking": {"type": "enabled", "budget_tokens": 1_024}} if thinking else {}
    sent = b""
    for index, (change, extra) in enumerate(plan):
        change_history(run, change, index, sent)
        if "receipts" in extra:
            extra = {**extra, "receipts": receipt_for(run, *extra["receipts"])}
        known = pair.fit(run.body(), **extra)
        if isinstance(known, FitResult):
            sent = known.body or run.body()


WIDE = LimitsGiven(soft_bytes=1 << 30, externalize_bytes=0, keep_unit_count=1)
TIGHT = LimitsGiven(soft_bytes=9_000, target_bytes=1_024, min_saving_bytes=1, externalize_bytes=0, keep_unit_count=0)


@pytest.mark.parametrize("format_name", TYPED)
def test_receipt_for_an_old_call_unsettles_its_unit_at_once_and_later(
    stores: tuple[LmdbStore, LmdbStore], format_name: str
) -> None:
    pair, run = Pair(stores, format_name, WIDE), history(format_name).user("go").steps(6, 800)
    assert pair.told_of(run.body()).advice.unit_count == 5
    unknown = (ReceiptGiven(CallRef(item_index=3, call_index=0), EffectState.UNKNOWN),)
    assert pair.told_of(run.steps(1, 800).body(), receipts=unknown).advice.unit_count == 5
    assert pair.told_of(run.steps(1, 800).body()).advice.unit_count == 6
    settled = (ReceiptGiven(CallRef(item_index=3, call_index=0), EffectState.SETTLED),)
    assert pair.told_of(run.steps(1, 800).body(), receipts=settled).advice.unit_count == 8
    assert pair.told_of(run.steps(1, 800).body()).advice.unit_count == 9


def test_turn_that_broke_a_rule_only_while_it_was_the_last_is_settled_after(stores: tuple[LmdbStore, LmdbStore]) -> None:
    pair, run = Pair(stores, "anthropic-messages", WIDE), history("anthropic-messages").user("go").steps(4, 800)
    run.rest["thinking"] = {"type": "enabled", "budget_tokens": 1_024}
    first = pair.told_of(run.body())
    assert [note.reason for note in first.notes].count("INVALID_HISTORY") == 1  # the open turn does not begin with thinking
    assert first.advice.unit_count == 2
    after = pair.told_of(run.answer("done").user("and now?").call(("read", {}), thinking="so").results("ok").body())
    assert [note.reason for note in after.notes].count("INVALID_HISTORY") == 0
    assert after.advice.unit_count == 5  # the answer without calls is one


@pytest.mark.parametrize("format_name", TYPED)
def test_body_without_its_last_cut_items_has_only_the_records_of_those_before(
    stores: tuple[LmdbStore, LmdbStore], format_name: str
) -> None:
    pair, run = Pair(stores, format_name, TIGHT), history(format_name).user("go").steps(8, 1_500)
    whole = pair.told_of(run.body())
    assert {reduction.item_index for reduction in whole.reductions} >= {2, 14}
    pair.told_of(run.body())
    del run.items[-4:]
    assert pair.told_of(run.body()).match.inapplicable_record_count == 2


def test_reasoning_that_becomes_current_again_stays_and_goes_with_the_next_question(stores: tuple[LmdbStore, LmdbStore]) -> None:
    pair, run = Pair(stores, "anthropic-messages", TIGHT), history("anthropic-messages").user("go")
    for index in range(8):
        run.call(("read", {"n": index}), thinking=words(900, index)).results("ok")
    run.answer("done").user("and now?")
    cut = pair.told_of(run.body())
    assert {reduction.kind for reduction in cut.reductions} == {ReductionKind.REASONING}
    pair.told_of(run.body())
    question = run.items.pop()
    for _ in range(2):
        current = pair.told_of(run.body())
        assert (current.body or run.body()).count(b'"thinking":"') == 8
    run.items.append(question)
    assert pair.told_of(run.body()).body == cut.body
    after = pair.told_of(run.call(("read", {}), thinking="so").results("ok").body())
    assert after.body.count(b'"thinking":"') == cut.body.count(b'"thinking":"') + 1
