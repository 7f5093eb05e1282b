"""Recover: what is open after a crash, what an honest result says of it, and what ends that again."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from sidecar.core.compaction import CompactMode, Summarizer
from sidecar.core.errors import InvalidFieldError, RevisionConflictError, SessionNotFoundError
from sidecar.core.types import EffectState, LimitsGiven, ReadBack
from sidecar.engine.compact_messages import CompactInput, CompactOutcome, CompactResult, FinishInput
from sidecar.engine.messages import CallRef, FitOutcome
from sidecar.engine.record_messages import RecoverResult
from store import failpoints
from tests.helpers.bodies import TYPED
from tests.helpers.recording import FORMATS, Desk, Run, desk, opened, rules_broken
from tests.helpers.translate import history_of, result_text

PENDING, SETTLED, WAITING = EffectState.PENDING, EffectState.SETTLED, EffectState.WAITING
NOT_STARTED, FAILED, UNKNOWN = EffectState.NOT_STARTED, EffectState.FAILED, EffectState.UNKNOWN
LONG = "so it went, and went on\n" * 500
TINY = LimitsGiven(compact_target_bytes=1, compact_min_saving_bytes=1, keep_unit_count=1)


@pytest.fixture(scope="module")
def place() -> Iterator[Desk]:
    with desk() as made:
        yield made


@pytest.fixture(params=FORMATS)
def run(place: Desk, request: pytest.FixtureRequest) -> Run:
    return place.run(request.param)


@pytest.fixture(params=TYPED)
def apart(place: Desk, request: pytest.FixtureRequest) -> Run:
    """Where user items may stand side by side, so that results that close a turn are an item of their own."""
    return place.run(request.param)


@pytest.fixture
def chat(place: Desk) -> Run:
    return place.run("openai-chat")


@pytest.fixture
def messages(place: Desk) -> Run:
    return place.run("anthropic-messages")


def _history(body: bytes) -> list[Any]:
    return history_of(json.loads(body))


def _texts(body: bytes) -> dict[str, list[str]]:
    """By call id: what the results of a body say."""
    found: dict[str, list[str]] = {}
    for item in _history(body):
        if "parts" in item or isinstance(item["content"], list):
            for part in item.get("parts", item.get("content")):
                inner = part.get("functionResponse") or part.get("toolResult")
                if inner:
                    id = inner.get("id", inner.get("toolUseId"))
                    found.setdefault(id, []).append(result_text(json.dumps(part).encode()))
        blocks = item["content"] if isinstance(item.get("content"), list) else []
        if item["role"] == "tool":
            found.setdefault(item["tool_call_id"], []).append(item["content"])
        for block in blocks:
            if block.get("type") == "tool_result":
                found.setdefault(block["tool_use_id"], []).append(block["content"])
    return found


def _notes(result: Any) -> list[str]:
    return [note.reason for note in result.notes if note.reason != "TOKENS_UNKNOWN"]


def _compact(run: Run, body: bytes = b"", **more: Any) -> CompactResult:
    run.requests += 1
    given: Any = {"limits": TINY, "ignore_pressure": True, "force_mid_stage": True, **more}
    return run.engine.compact(CompactInput(run.key, f"q{run.requests}", body=body, **given))


def _same_after_restart(run: Run, known: RecoverResult) -> None:
    run.desk.reopen()
    again = run.recover(body=bool(known.body))
    assert msgspec.structs.replace(again, open_calls=()) == msgspec.structs.replace(known, open_calls=())
    told = [msgspec.structs.replace(view, closed_by=b"") for view in known.open_calls]
    assert list(again.open_calls) == told


# What is known


def test_recover_of_no_session_is_refused(run: Run) -> None:
    with pytest.raises(SessionNotFoundError):
        run.recover()
    with pytest.raises(SessionNotFoundError):
        run.close()


def test_recover_writes_nothing_and_says_the_same_each_time(run: Run) -> None:
    items = [run.user(), run.calls("a", "b"), *run.results(run.result("a"))]
    run.fit(items)
    before = run.stored(), run.engine.store.summary(run.key)
    first = run.recover()
    assert run.recover() == first
    assert (run.stored(), run.engine.store.summary(run.key)) == before
    assert first.body == run.body(items)
    assert opened(first.open_calls) == ["b"]
    _same_after_restart(run, first)


def test_recover_body_is_that_of_fit_with_stubs_and_a_live_checkpoint(run: Run) -> None:
    limits = LimitsGiven(soft_bytes=30_000, target_bytes=29_000, min_saving_bytes=1, externalize_bytes=20_000)
    items = [run.user("first")]
    for at in range(9):
        items += [run.calls(f"c{at}"), *run.results(run.result(f"c{at}", LONG[: 4000 * (at + 1) if at < 8 else 25_000]))]
    run.fit(items, limits=limits)
    made = _compact(run, limits=LimitsGiven(compact_target_bytes=1, compact_min_saving_bytes=1, keep_unit_count=2))
    assert made.outcome is CompactOutcome.COMMITTED
    items += [run.calls("z"), *run.results(run.result("z"))]
    fitted = run.fit(items, limits=limits)
    assert fitted.outcome is FitOutcome.FITTED
    known = run.recover()
    assert known.body == fitted.body
    assert known.pressure is not None
    assert known.pressure.total_bytes == len(known.body)
    assert [view.checkpoint_id for view in known.checkpoints] == ["c1"]
    assert known.artifact_count > 0
    _same_after_restart(run, known)
    assert run.fit(items, limits=limits).body == known.body
    adopted = run.fit(known.body, limits=limits)
    assert (adopted.outcome, adopted.body) == (FitOutcome.UNCHANGED, b"")


def test_recover_tells_open_and_unknown_attempts(run: Run) -> None:
    items = [run.user()]
    for at in range(3):
        items += [run.calls(f"c{at}"), *run.results(run.result(f"c{at}", LONG))]
    run.fit(items)
    planned = _compact(run, summarizer=Summarizer.CALLER, mode=CompactMode.EXTEND)
    assert planned.outcome is CompactOutcome.PLANNED
    assert planned.attempt is not None
    run.desk.reopen()
    assert [(a.attempt_id, a.state.name) for a in run.recover().attempts] == [(planned.attempt.attempt_id, "DISPATCHED")]
    run.engine.finish_compact(FinishInput(run.key, planned.attempt.attempt_id, unknown="who knows"))
    assert [a.state.name for a in run.recover().attempts] == ["UNKNOWN"]


def test_recover_with_injected_tool_gives_the_body_with_it(run: Run) -> None:
    items = [run.user(), run.says()]
    fitted = run.fit(run.body(items, tools=[]), read_back=ReadBack.INJECT)
    assert run.recover().body == fitted.body
    run.desk.reopen()
    assert run.recover().body == fitted.body


# What is open


def test_recover_open_calls_of_batches_repeated_and_empty_ids(run: Run) -> None:
    items = [
        run.user(),
        run.calls("a"),
        *run.results(run.result("a")),
        run.calls("a", "b", "a"),
    ]
    run.fit(items)
    known = run.recover()
    at = len(items) - 1
    assert [view.call for view in known.open_calls] == [CallRef("a", at, 0), CallRef("b", at, 1), CallRef("a", at, 2)]
    closed = run.close()
    assert len(_texts(closed.body)["a"]) == 3
    assert len(_texts(closed.body)["b"]) == 1


def test_recover_open_calls_without_ids_and_of_the_old_kind_are_closed(chat: Run) -> None:
    legacy = {"role": "assistant", "content": None, "function_call": {"name": "deploy", "arguments": "{}"}}
    chat.fit([chat.user(), legacy])
    known = chat.close()
    assert opened(known.open_calls) == [""]
    assert json.loads(known.open_calls[0].content) == legacy["function_call"]
    assert _history(known.body)[-1]["role"] == "function"
    assert rules_broken(chat, known.body) == []
    other = chat.desk.run("openai-chat")
    other.fit([other.user(), other.calls("", "")])
    known = other.close()
    assert [(view.call.call_index, view.tool_name) for view in known.open_calls] == [(0, "deploy"), (1, "deploy")]
    assert [item["tool_call_id"] for item in _history(known.body)[2:]] == ["", ""]


def test_recover_a_call_without_a_name_is_closed_all_the_same(chat: Run) -> None:
    nameless = {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "type": "function", "function": {}}]}
    chat.fit([chat.user(), nameless])
    assert list(_texts(chat.close().body)) == ["a"]


def test_recover_closes_a_call_that_a_new_user_turn_stands_behind(apart: Run) -> None:
    items = [apart.user(), apart.says(), apart.user("b"), apart.calls("a", "b"), apart.user("new turn"), apart.says("hm")]
    fitted = apart.fit(items)
    assert "INVALID_HISTORY" in _notes(fitted)
    known = apart.close()
    assert rules_broken(apart, known.body) == []
    assert _notes(known) == []
    assert opened(known.open_calls) == ["a", "b"]
    history = _history(known.body)
    assert [item for item in history if item in items] == items
    assert set(_texts(known.body)) == {"a", "b"}
    _same_after_restart(apart, known)
    raw = apart.fit(items)  # the agent goes on with its own history: the closing results are not forced on it
    assert _history(raw.body or apart.body(items)) == items
    back = apart.fit(known.body)
    assert back.match.new_item_count == 0


def test_recover_several_dead_turns_are_closed_at_once(apart: Run) -> None:
    items = [apart.user(), apart.calls("a"), apart.user("b"), apart.calls("b"), apart.user("c"), apart.calls("c", "d")]
    apart.fit(items)
    known = apart.close()
    assert rules_broken(apart, known.body) == []
    assert opened(known.open_calls) == ["a", "b", "c", "d"]
    assert [view.call.item_index for view in known.open_calls] == [1, 4, 7, 7]  # as they stand now


# How it is closed

CLOSED: dict[EffectState | None, tuple[str, EffectState]] = {
    None: ("outcome is unknown", UNKNOWN),
    NOT_STARTED: ("Not run", FAILED),
    PENDING: ("outcome is unknown", UNKNOWN),
    UNKNOWN: ("outcome is unknown", UNKNOWN),
    SETTLED: ("the effect happened", SETTLED),
    FAILED: ("did not happen", FAILED),
}
MATRIX = [
    (state, recorded, waits)
    for state, recorded, waits in itertools.product(CLOSED, [False, True], [False, True])
    if state is not None or not recorded
]


@pytest.mark.parametrize(("state", "recorded", "sibling_waits"), MATRIX, ids=lambda value: str(getattr(value, "name", value)))
def test_recover_closes_by_what_the_receipt_says(
    run: Run, state: EffectState | None, recorded: bool, sibling_waits: bool
) -> None:
    items = [run.user(), run.calls("a", "w") if sibling_waits else run.calls("a")]
    run.fit(items)
    given = [run.receipt("w", WAITING)] if sibling_waits else []
    result = run.result("a", "real") if recorded else None
    if state is not None:
        given.append(run.receipt("a", state, result=result, idempotency_key="key", detail="why"))
    run.record(receipts=tuple(given))
    revision = run.recover().revision
    known = run.close()
    words, after = CLOSED[state]
    view = known.open_calls[0]
    assert opened(known.open_calls) == ["a", "w"][: 1 + sibling_waits]
    text = result_text(view.closed_by)
    assert view.receipt is not None
    assert (view.receipt.idempotency_key, view.receipt.detail) == (("key", "why") if state else ("", "closed after a crash"))
    assert text == "real" if recorded else words in text
    assert view.receipt.state is (state if recorded else after)
    placed = run.chat or not sibling_waits
    assert _texts(known.body) == ({"a": [text]} if placed else {})
    assert _notes(known)[:1] == (["CALLS_WAITING"] if sibling_waits else [])
    assert known.revision == revision + (1 if placed or not recorded else 0)
    assert (rules_broken(run, known.body) == []) is not sibling_waits
    _same_after_restart(run, run.recover())


def test_recover_what_waits_is_never_closed(run: Run) -> None:
    run.fit([run.user(), run.calls("a", "b")])
    run.record(receipts=(run.receipt("a", WAITING), run.receipt("b", WAITING, detail="asked ann")))
    before = run.recover()
    known = run.close()
    assert [(view.closed_by, view.receipt and view.receipt.state) for view in known.open_calls] == [(b"", WAITING)] * 2
    assert (known.body, known.revision, known.receipts) == (before.body, before.revision, before.receipts)


def test_recover_results_of_all_receipts_make_the_item_and_close_nothing(run: Run) -> None:
    items = [run.user(), run.calls("a", "b")]
    run.fit(items)
    run.record(receipts=(run.receipt("b", SETTLED, result=run.result("b", "two")),))
    assert _texts(run.recover().body) == {}
    run.record(receipts=(run.receipt("a", PENDING, result=run.result("a", "one")),))
    run.desk.reopen()
    known = run.recover()
    assert _history(known.body) == [*items, *run.results(run.result("a", "one"), run.result("b", "two"))]
    assert (known.item_count, opened(known.open_calls), _notes(known)) == (2, ["a", "b"], ["RESULTS_FROM_RECEIPTS"])
    closed = run.close()
    assert closed.body == known.body
    assert [result_text(view.closed_by) for view in closed.open_calls] == ["one", "two"]
    assert opened(run.recover().open_calls) == []  # they are final
    adopted = run.fit(closed.body)
    assert (adopted.match.new_item_count, _notes(adopted)) == (0, [])
    assert (
        _compact(run, run.body([*_history(closed.body), run.calls("z"), *run.results(run.result("z"))])).kept_reason.name
        != "NO_CANDIDATE"
    )


def test_recover_places_recorded_results_that_leave_on_arrival_or_are_said_to_be_left_out(run: Run) -> None:
    limits = LimitsGiven(soft_bytes=1 << 30, target_bytes=1 << 29, externalize_bytes=4_000)
    items = [run.user(), run.calls("a")]
    run.fit(items, limits=limits)
    run.record(receipts=(run.receipt("a", SETTLED, result=run.result("a", LONG)),))
    closed = run.close()
    assert LONG in _texts(closed.body)["a"]
    other = run.desk.run(run.format_name)
    other.fit(items, limits=limits)
    other.record(receipts=(other.receipt("a", SETTLED, result=other.result("a", LONG)),))
    other.close()
    assert _notes(other.fit([*items, other.user("never mind")], limits=limits))[-1] == "RECORDED_LEFT_OUT"
    fitted = run.fit(closed.body, limits=limits)
    assert (fitted.outcome, len(fitted.artifacts)) == (FitOutcome.FITTED, 1)


def test_recover_tells_what_is_durable_where_a_write_was_lost(run: Run) -> None:
    items = [run.user(), run.says()]
    run.fit(items)
    run.engine.settle(run.key)
    failpoints.configure("before_commit=error:EIO")
    try:
        run.fit([*items, run.user("lost")])
        known = run.recover()
    finally:
        failpoints.configure("")
    assert (known.item_count, known.body) == (2, run.body(items))
    assert run.fit([*items, run.user("lost")]).match.new_item_count == 1


def test_recover_a_turn_that_waited_is_closed_when_its_last_result_came(run: Run) -> None:
    items = [run.user(), run.calls("a", "w")]
    run.fit(items)
    run.record(receipts=(run.receipt("w", WAITING),))
    first = run.close()
    closing = first.open_calls[0].closed_by
    run.record(receipts=(run.receipt("w", SETTLED, result=run.result("w", "approved")),))
    run.desk.reopen()
    known = run.close()
    texts = _texts(known.body)
    assert texts == {"a": [result_text(closing)], "w": ["approved"]}
    assert rules_broken(run, known.body) == []
    assert opened(run.recover().open_calls) == ["a"]  # what closed it is no final result, in whatever item
    kept = _compact(run, run.body([*_history(known.body), run.calls("z"), *run.results(run.result("z", LONG))]))
    assert kept.kept_reason.name == "NO_CANDIDATE"


def test_recover_a_partly_answered_turn_is_completed(apart: Run) -> None:
    items = [apart.user(), apart.calls("a", "b", "c"), *apart.results(apart.result("b", "real"))]
    apart.fit(items)
    known = apart.close()
    assert rules_broken(apart, known.body) == []
    assert opened(known.open_calls) == ["a", "c"]
    assert _texts(known.body)["b"] == ["real"]
    assert set(_texts(known.body)) == {"a", "b", "c"}
    assert [item for item in _history(known.body) if item in items] == items


def test_recover_closing_results_join_the_user_item_behind_where_roles_alternate(place: Desk) -> None:
    run = place.run("bedrock-converse")
    items = [run.user(), run.calls("a"), run.user("new turn"), run.says("hm"), run.user("more")]
    run.fit(items)
    closed = run.close()
    history = _history(closed.body)
    assert rules_broken(run, closed.body) == []
    assert len(history) == len(items)
    assert history[2]["content"][1:] == items[2]["content"]
    assert "outcome is unknown" in _texts(closed.body)["a"][0]
    run.desk.reopen()
    assert run.recover().body == closed.body
    adopted = run.fit([*history, run.says("done")])
    assert (adopted.match.new_item_count, adopted.match.diverged_at) == (1, None)
    raw = run.fit([*items, run.says("done")])  # a client that goes on with what it had
    assert (raw.match.new_item_count, raw.match.diverged_at) == (0, None)
    real = [run.user(), run.calls("a"), run.user("new turn"), run.says("hm"), run.user("more"), run.says("done")]
    real[2]["content"].insert(0, run.result("a", "real"))
    run.fit(real)
    assert _texts(run.recover().body) == {"a": ["real"]}


@pytest.mark.parametrize("format_name", ["bedrock-converse", "gemini"])
def test_recover_a_partly_answered_turn_is_completed_in_the_item_that_answers_it(place: Desk, format_name: str) -> None:
    run = place.run(format_name)
    items = [run.user(), run.calls("a", "b"), *run.results(run.result("b", "real")), run.says("hm")]
    run.fit(items)
    known = run.close()
    assert rules_broken(run, known.body) == []
    assert len(_history(known.body)) == len(items)
    texts = _texts(known.body)
    assert texts["b"] == ["real"] and "outcome is unknown" in texts["a"][0]
    run.record(receipts=(run.receipt("a", SETTLED, result=run.result("a", "late")),))
    again = run.recover()
    assert _texts(again.body) == {"a": ["late"], "b": ["real"]}
    assert rules_broken(run, again.body) == []
    run.desk.reopen()
    assert run.fit(again.body).match.diverged_at is None


def test_recover_a_partly_answered_turn_with_text_behind_it_is_completed_before_the_text(messages: Run) -> None:
    run = messages
    partly = {"role": "user", "content": [run.result("a", "real"), {"type": "text", "text": "and go on"}]}
    run.fit([run.user(), run.calls("a", "b"), partly])
    known = run.close()
    assert rules_broken(run, known.body) == []
    assert _texts(known.body)["a"] == ["real"]
    assert _history(known.body)[-1] == partly


# Repeats


def test_close_interrupted_repeated_answers_as_it_did_and_closes_nothing_new(run: Run) -> None:
    run.fit([run.user(), run.calls("a")])
    first = run.close(id="one")
    assert run.close(id="one") == first
    run.desk.reopen()
    assert run.close(id="one") == first
    items = _history(first.body)
    run.fit([*items, run.calls("b")])
    later = run.close(id="one", expected_revision=0)  # a repeat, whatever the revision now
    assert [(view.call.call_id, bool(view.closed_by)) for view in later.open_calls] == [("a", True), ("b", False)]
    assert set(_texts(later.body)) == {"a"}
    assert opened(run.recover().open_calls) == ["a", "b"]


def test_close_interrupted_again_under_another_id_closes_only_what_is_new(run: Run) -> None:
    run.fit([run.user(), run.calls("a")])
    first = run.close()
    again = run.close()
    assert (again.body, again.revision) == (first.body, first.revision)
    assert [(view.call.call_id, view.closed_by) for view in again.open_calls] == [("a", b"")]
    run.fit([*_history(first.body), run.calls("b")])
    third = run.close()
    assert [len(texts) for texts in _texts(third.body).values()] == [1, 1]


def test_close_interrupted_of_nothing_moves_no_revision_and_is_remembered(run: Run) -> None:
    items = [run.user(), run.calls("a"), *run.results(run.result("a"))]
    run.fit(items)
    before = run.recover()
    assert run.close(id="one").revision == before.revision
    run.fit([*items, run.calls("b")])
    assert set(_texts(run.close(id="one").body)) == {"a"}


def test_close_interrupted_at_another_revision_is_refused_with_the_current_one(run: Run) -> None:
    run.fit([run.user(), run.calls("a")])
    revision = run.record(receipts=(run.receipt("a", PENDING),)).revision
    with pytest.raises(RevisionConflictError) as caught:
        run.close(expected_revision=revision - 1)
    assert caught.value.details["revision"] == revision
    assert _texts(run.recover().body) == {}
    assert run.close(expected_revision=revision).revision == revision + 1


def test_close_interrupted_without_a_request_id_is_refused(run: Run) -> None:
    run.fit([run.user(), run.calls("a")])
    with pytest.raises(InvalidFieldError):
        run.close(id="")


# What ends it


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("state", [SETTLED, FAILED, UNKNOWN])
def test_a_result_that_comes_with_a_receipt_after_the_close_takes_its_place(run: Run, state: EffectState, again: bool) -> None:
    items = [run.user(), run.calls("a", "b")]
    run.fit(items)
    run.close()
    run.record(receipts=(run.receipt("a", state, result=run.result("a", "real")),))
    run.desk.reopen()
    known = run.close() if again else run.recover()
    closing = _texts(known.body)["b"]
    assert _texts(known.body) == {"a": ["real"], "b": closing}
    assert rules_broken(run, known.body) == []
    assert ("RESULTS_FROM_RECEIPTS" in _notes(known)) is not again
    assert known.item_count == len(_history(known.body))
    if again:
        assert run.recover().body == known.body
        assert run.close().revision == known.revision
    adopted = run.fit(known.body)
    assert (adopted.match.new_item_count, adopted.match.diverged_at) == (0 if again else 1, None)
    assert run.recover().body == known.body
    assert opened(run.recover().open_calls) == ["b"]


@pytest.mark.parametrize("state", [SETTLED, FAILED, PENDING, UNKNOWN, WAITING, NOT_STARTED])
@pytest.mark.parametrize("first", [SETTLED, FAILED, UNKNOWN])
def test_a_recorded_result_stays_until_a_receipt_says_otherwise(run: Run, first: EffectState, state: EffectState) -> None:
    run.fit([run.user(), run.calls("a")])
    run.close()
    run.record(receipts=(run.receipt("a", first, result=run.result("a", "real")),))
    run.record(receipts=(run.receipt("a", state, idempotency_key="k"),))
    stays = state is first or state in (PENDING, UNKNOWN, WAITING)
    for _ in range(2):
        (receipt,) = run.recover().receipts
        assert (receipt.state, receipt.idempotency_key, bool(receipt.result)) == (state, "k", stays)
        assert (_texts(run.recover().body)["a"] == ["real"]) is stays
        run.desk.reopen()


def test_fit_says_that_a_real_result_is_recorded_where_the_body_has_the_closing_one(run: Run) -> None:
    run.fit([run.user(), run.calls("a", "b")])
    closed = _history(run.close().body)
    run.record(receipts=(run.receipt("a", SETTLED, result=run.result("a", "real")),))
    more = [*closed, run.says("so"), run.user("go on")]
    assert _notes(run.fit(more)) == ["RESULTS_RECORDED"]
    run.desk.reopen()
    assert _notes(run.fit(more)) == ["RESULTS_RECORDED"]
    adopted = _history(run.recover().body)
    assert _notes(run.fit(adopted)) == []
    run.record(receipts=(run.receipt("b", FAILED),))
    assert _notes(run.fit(adopted)) == []


@pytest.mark.parametrize("told_first", [True, False])
@pytest.mark.parametrize("state", [SETTLED, FAILED, NOT_STARTED, PENDING, UNKNOWN])
def test_a_closed_call_is_open_only_while_its_outcome_is_unknown(run: Run, state: EffectState, told_first: bool) -> None:
    items = [run.user(), run.calls("a")]
    run.fit(items)
    if told_first:
        run.record(receipts=(run.receipt("a", state, idempotency_key="k"),))
    body = run.close().body
    if not told_first:
        run.record(receipts=(run.receipt("a", state, idempotency_key="k"),))
    ended = state in (SETTLED, FAILED) or (told_first and state is NOT_STARTED)
    for _ in range(2):
        known = run.recover()
        assert opened(known.open_calls) == ([] if ended else ["a"])
        (receipt,) = known.receipts
        assert receipt.idempotency_key == "k"
        run.desk.reopen()
    more = [*_history(body), run.calls("z"), *run.results(run.result("z", LONG))]
    made = _compact(run, run.body([*more, run.calls("y"), *run.results(run.result("y"))]))
    assert made.checkpoint is not None
    assert any(start <= 1 < end for start, end in made.checkpoint.items) is ended  # the turn retires, or stays
    real = [*items, *run.results(run.result("a", "real " + LONG))]
    run.fit(real)
    assert _history(run.recover().body) == real  # a real result takes its place all the same


@pytest.mark.parametrize("reopen", [False, True])
def test_a_real_result_replaces_a_closing_one_once(run: Run, reopen: bool) -> None:
    items = [run.user(), run.calls("a")]
    run.fit(items)
    run.record(receipts=(run.receipt("a", PENDING, idempotency_key="k"),))
    closed = run.close()
    if reopen:
        run.desk.reopen()
    real = [*items, *run.results(run.result("a", "real " + LONG))]
    fitted = run.fit(real)
    assert (fitted.match.new_item_count, fitted.match.diverged_at, fitted.revision) == (1, None, closed.revision + 1)
    assert _notes(fitted) == []
    assert run.fit(real).revision == fitted.revision
    known = run.recover()
    assert known.open_calls == ()
    assert known.receipts == ()  # what closed it says nothing any more
    assert _history(known.body) == real
    more = [*real, run.calls("z"), *run.results(run.result("z"))]
    assert _compact(run, run.body(more)).outcome is CompactOutcome.COMMITTED


def test_a_real_result_by_record_replaces_a_closing_one(run: Run) -> None:
    items = [run.user(), run.calls("a")]
    run.fit(items)
    run.close()
    run.record(run.results(run.result("a", "real")), first_item_index=2)
    known = run.recover()
    assert (_texts(known.body), known.open_calls) == ({"a": ["real"]}, ())


@pytest.mark.parametrize("got", [("a",), ("b",), ("a", "b")])
@pytest.mark.parametrize("goes_on", [False, True])
def test_recorded_results_take_the_place_of_what_closed_their_calls(run: Run, got: tuple[str, ...], goes_on: bool) -> None:
    """By a process that did not die after all, and knows nothing of the close."""
    items = [run.user(), run.calls("a", "b")]
    run.fit([*items, run.user("precious words"), run.says("hm")] if goes_on else items)
    closed = _texts(run.close().body)
    run.record(run.results(*[run.result(id, f"real {id}") for id in got]))
    run.desk.reopen()
    known = run.recover()
    assert _texts(known.body) == {id: [f"real {id}"] if id in got else closed[id] for id in ("a", "b")}
    assert (b"precious words" in known.body) is goes_on
    assert rules_broken(run, known.body) == []
    assert opened(known.open_calls) == [id for id in ("a", "b") if id not in got]
    assert run.fit(known.body).match.diverged_at is None


def test_recorded_result_of_a_new_call_with_an_old_id_is_the_new_calls(run: Run) -> None:
    run.fit([run.user(), run.calls("a")])
    closed = _history(run.close().body)
    run.fit([*closed, run.says("hm"), run.user("again"), run.calls("a")])
    run.record(run.results(run.result("a", "second")))
    texts = _texts(run.recover().body)["a"]
    assert ("outcome is unknown" in texts[0], texts[1]) == (True, "second")


def test_real_results_of_some_calls_and_closing_ones_of_others_stay_told_apart(run: Run) -> None:
    items = [run.user(), run.calls("a", "b")]
    run.fit(items)
    closing = run.close().open_calls[1].closed_by
    for mixed in (
        [*items, *run.results(run.result("a", "real " + LONG), json.loads(closing))],
        [*items, *run.results(json.loads(closing), run.result("a", "real " + LONG))],
    ):
        run.fit(mixed)
        known = run.recover()
        assert opened(known.open_calls) == ["b"]
        assert _history(known.body) == mixed
        more = [*mixed, run.calls("z"), *run.results(run.result("z"))]
        assert _compact(run, run.body(more)).kept_reason.name == "NO_CANDIDATE"
        run.desk.reopen()
        assert opened(run.recover().open_calls) == ["b"]
    done = [*items, *run.results(run.result("a", "real " + LONG), run.result("b", "late"))]
    run.fit(done)
    assert run.recover().open_calls == ()


def test_unknown_by_the_agent_holds_although_a_real_result_came_until_a_new_receipt(run: Run) -> None:
    items = [run.user(), run.calls("a")]
    run.fit(items)
    run.record(receipts=(run.receipt("a", UNKNOWN),))
    run.close()
    real = [*items, *run.results(run.result("a", "real " + LONG)), run.calls("z"), *run.results(run.result("z"))]
    run.fit(real)
    assert [receipt.state for receipt in run.recover().receipts] == [UNKNOWN]
    assert _compact(run).kept_reason.name == "NO_CANDIDATE"
    run.record(receipts=(run.receipt("a", SETTLED),))
    assert _compact(run).outcome is CompactOutcome.COMMITTED


@pytest.mark.parametrize("reopen", [False, True])
def test_a_closed_turn_is_never_retired_until_the_agent_says_how_it_ended(run: Run, reopen: bool) -> None:
    run.fit([run.user(), run.calls("a", arguments={"to": LONG})])
    closed = run.close()
    if reopen:
        run.desk.reopen()
    more = [*_history(closed.body), run.calls("z"), *run.results(run.result("z"))]
    run.fit(more)
    assert _compact(run).kept_reason.name == "NO_CANDIDATE"
    assert opened(run.recover().open_calls) == ["a"]
    run.record(receipts=(run.receipt("a", SETTLED, detail="it was done"),))
    assert _compact(run).outcome is CompactOutcome.COMMITTED


def test_an_agent_that_goes_on_with_raw_history_after_a_close_loses_nothing(run: Run) -> None:
    items = [run.user(), run.calls("a"), *run.results(run.result("a")), run.calls("b", "c")]
    run.fit(items)
    run.close()
    own = run.results(run.result("b", "I was interrupted"), run.result("c", "I was interrupted"))
    gone_on = [*items, *own, run.says("so be it")]
    fitted = run.fit(gone_on)
    assert (fitted.outcome, fitted.match.diverged_at, _notes(fitted)) == (FitOutcome.UNCHANGED, None, [])
    _same_after_restart(run, run.recover())
    assert run.recover().body == run.body(gone_on)


def test_closing_results_that_a_body_lacks_do_not_come_back_twice(run: Run) -> None:
    items = [run.user(), run.calls("a", "b")]
    run.fit(items)
    first = run.close()
    run.fit(items)  # raw, without them
    assert run.recover().body == run.body(items)
    known = run.close()
    assert known.body == first.body
    assert run.stored() == (4 if run.chat else 3)


def test_recover_reads_what_record_left_and_says_what_a_body_lacks(run: Run) -> None:
    """A log that ends with a call, then a new user turn, and the mirror case: a result whose call was never told."""
    run.fit([run.user()])
    run.record(run.results(run.result("ghost", "result of nothing")))
    known = run.recover()
    assert known.open_calls == ()
    assert "INVALID_HISTORY" in _notes(known)
    assert run.close().body == known.body
