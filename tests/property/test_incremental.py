"""An engine that takes over what it understood of the body before answers as one that understands each body anew.

Two engines over two stores get the same calls; one of them is made to forget the body before each. Every field of every answer
is compared. So is the answer of a third, fresh engine over the first one's store to the same body.

Histories grow, are adopted, lose their oldest items, are edited in the middle, get results late, come twice; calls bring
receipts, pins, other limits, another way to read back, or are dry.
"""

from __future__ import annotations

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
from sidecar.core.types import EffectState, Format, LimitsGiven, ReadBack, SessionKey
from sidecar.engine.config import EngineConfig
from sidecar.engine.engine import Engine
from sidecar.engine.messages import CallRef, FitInput, FitResult, PinGiven, ReceiptGiven
from store.store import LmdbStore
from tests.engine.held import open_store
from tests.helpers.bodies import FORMATS, History, history
from tests.property.test_fit_histories import apply_step, steps

SETTINGS = settings(
    max_examples=int(os.environ.get("TRIMTAB_EXAMPLES", "40")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
NAMED = {"openai-chat": Format.OPENAI_CHAT, "anthropic-messages": Format.ANTHROPIC_MESSAGES}
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
    st.tuples(st.just("cut short"), st.integers(1, 3)),
)
receipts = st.builds(
    lambda at, state: ReceiptGiven(CallRef(item_index=at, call_index=0), state),
    PLACES,
    st.sampled_from([EffectState.PENDING, EffectState.SETTLED, EffectState.UNKNOWN]),
)
extras = st.fixed_dictionaries(
    {},
    optional={
        "receipts": st.tuples(receipts),
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
        run.items[:] = json.loads(sent)["messages"]
    elif kind == "drop":
        del items[1 : 1 + value]
    elif kind == "cut short":
        del items[max(len(items) - value, 1) :]
    elif kind == "edit":
        items[value % len(items)] = {"role": "user", "content": [{"type": "text", "text": f"edited {index}"}]}
    elif kind == "move" and len(items) > 2:
        items.insert(value % len(items), items.pop())


@pytest.mark.parametrize("format_name", FORMATS)
@SETTINGS
@given(plan=st.lists(st.tuples(changes, extras), min_size=3, max_size=16), first=limits, number=st.uuids())
def test_engine_that_takes_over_answers_as_one_that_does_not(
    stores: tuple[LmdbStore, LmdbStore], format_name: str, plan: list[Any], first: LimitsGiven, number: Any
) -> None:
    key = SessionKey("", f"{format_name}-{number}")
    knowing, forgetting = (Engine(store, Clock(), EngineConfig()) for store in stores)
    run = history(format_name).user("begin")
    sent = b""
    told: dict[str, Any] = {"limits": first, "read_back": ReadBack.CALLER}
    for index, (change, extra) in enumerate(plan):
        change_history(run, change, index, sent)
        given = FitInput(key=key, body=run.body(), format=NAMED[format_name], **{**told, **extra})
        told = {}
        forget_body(forgetting, key)
        known, anew = ask(knowing, given), ask(forgetting, given)
        assert differences(known, anew) == {}
        if isinstance(known, FitResult):
            sent = known.body or given.body
        again = FitInput(key=key, body=run.body(), format=NAMED[format_name], list_applied=True, dry_run=True)
        fresh = Engine(stores[0], Clock(), EngineConfig())
        assert differences(ask(fresh, again), ask(knowing, again)) == {}
