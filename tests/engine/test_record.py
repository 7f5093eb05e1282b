"""Record: what happens between two model calls is durable when it returns, once, and the next body decides."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from sidecar.core.compaction import CompactMode
from sidecar.core.errors import (
    CallNotFoundError,
    InvalidFieldError,
    MalformedBodyError,
    NoBodyError,
    ReadBackRequiredError,
    RequestIdReusedError,
    RevisionConflictError,
    StoreFullError,
    TrimtabError,
)
from sidecar.core.types import EffectState, Format, LimitsGiven, ReadBack
from sidecar.engine.compact_messages import CompactInput, CompactOutcome, RollbackInput
from sidecar.engine.messages import FitOutcome
from tests.helpers.recording import FORMATS, Desk, Run, desk, dumped, opened

PENDING, SETTLED, WAITING = EffectState.PENDING, EffectState.SETTLED, EffectState.WAITING
NOT_STARTED, FAILED, UNKNOWN = EffectState.NOT_STARTED, EffectState.FAILED, EffectState.UNKNOWN


@pytest.fixture(scope="module")
def place() -> Iterator[Desk]:
    with desk() as made:
        yield made


@pytest.fixture(params=FORMATS)
def run(place: Desk, request: pytest.FixtureRequest) -> Run:
    return place.run(request.param)


def _notes(result: Any) -> list[str]:
    return [note.reason for note in result.notes if note.reason != "TOKENS_UNKNOWN"]


def test_record_items_are_there_after_a_restart_byte_for_byte(run: Run) -> None:
    run.fit([run.user()])
    call = b"{ " + b" ,  ".join(b'"%s" : %s' % (key.encode(), dumped(value)) for key, value in run.calls("a").items()) + b" }"
    answer = run.record(b"[ " + call + b" ]")
    assert (answer.revision, answer.item_count) == (1, 2)
    assert [session.pending for session in run.engine.sessions.held(run.key)] == [[]]
    run.desk.reopen()
    assert run.journal()[1] == call
    known = run.recover()
    assert (known.revision, known.item_count, known.history_digest) == (1, 2, answer.history_digest)


def test_record_moves_the_revision_each_time_and_never_gives_one_twice(run: Run) -> None:
    seen = [run.record([run.user()]).revision, run.record([run.says()]).revision, run.record(goal="g").revision]
    seen.append(run.record(goal="g").revision)  # says nothing new, and is a Record all the same
    run.desk.reopen()
    seen.append(run.record([run.user("b")]).revision)
    assert seen == [1, 2, 3, 4, 5]


def test_record_repeated_answers_as_the_first_did_also_after_a_restart(run: Run) -> None:
    first = run.record([run.user(), run.calls("a")], id="one", receipts=(run.receipt("a", PENDING),))
    run.record([*run.results(run.result("a"))], id="two")
    for _ in range(2):
        again = run.record([run.user(), run.calls("a")], id="one", receipts=(run.receipt("a", PENDING),))
        assert again == first
        run.desk.reopen()
    assert run.stored() == 3
    later = run.record([run.user(), run.calls("a")], id="one", receipts=(run.receipt("a", PENDING),), expected_revision=0)
    assert later == first  # a lost answer is asked for again with the same revision


def test_record_request_id_with_other_content_is_refused_whatever_it_named(run: Run) -> None:
    run.fit([run.user(), run.calls("a"), *run.results(run.result("a", LONG)), run.calls("b"), *run.results(run.result("b"))])
    run.record([run.says("x")], id="one")
    made = run.engine.compact(
        CompactInput(run.key, "compact", ignore_pressure=True, force_mid_stage=True, mode=CompactMode.EXTEND, limits=_TINY)
    )
    assert made.outcome is CompactOutcome.COMMITTED
    run.engine.rollback(RollbackInput(run.key, "back", "c1"))
    run.close(id="closed")
    for id in ("one", "compact", "back", "closed"):
        with pytest.raises(RequestIdReusedError):
            run.record([run.says("y")], id=id)
    for id in ("one", "compact", "back"):
        with pytest.raises(RequestIdReusedError):
            run.close(id=id)
    for id in ("one", "closed"):
        with pytest.raises(RequestIdReusedError):
            run.engine.rollback(RollbackInput(run.key, id, "c1"))
        with pytest.raises(RequestIdReusedError):
            run.engine.compact(CompactInput(run.key, id, force_mid_stage=True))


LONG = "so it went, and went on\n" * 500
_TINY = LimitsGiven(compact_target_bytes=1, compact_min_saving_bytes=1, keep_unit_count=1)


def test_record_two_writers_with_one_revision_one_lands_and_the_other_is_told_the_current_one(run: Run) -> None:
    base = run.record([run.user()]).revision
    won = run.record([run.says("first")], expected_revision=base)
    with pytest.raises(RevisionConflictError) as caught:
        run.record([run.says("second")], expected_revision=base)
    assert caught.value.details["revision"] == won.revision
    run.record([run.says("second")], expected_revision=won.revision)
    assert [json.loads(item) for item in run.journal()] == [run.user(), run.says("first"), run.says("second")]


@pytest.mark.parametrize("reopen", [False, True])
def test_record_then_fit_of_the_same_items_stores_them_once(run: Run, reopen: bool) -> None:
    items = [run.user(), run.calls("a"), *run.results(run.result("a")), run.says()]
    run.fit(items[:1])
    for item in items[1:]:
        answer = run.record([item])
    if reopen:
        run.desk.reopen()
    fitted = run.fit(items)
    assert run.stored() == 4
    assert (fitted.match.matched_item_count, fitted.match.new_item_count, fitted.match.diverged_at) == (4, 0, None)
    assert (fitted.history_digest, fitted.revision) == (answer.history_digest, answer.revision)
    assert _notes(fitted) == []


def test_fit_that_lacks_recorded_items_keeps_them_off_the_branch_and_says_so_once(run: Run) -> None:
    items = [run.user(), run.calls("a"), *run.results(run.result("a"))]
    run.fit(items[:1])
    recorded = run.record(items[1:])
    other = [items[0], run.says("no")]
    told = run.fit(other)
    assert _notes(told) == ["RECORDED_LEFT_OUT"]
    assert "2 recorded items" in told.notes[0].message
    assert (told.revision, told.match.diverged_at) == (recorded.revision + 1, 1)
    assert _notes(run.fit(other)) == []
    assert (run.stored(), len(run.journal())) == (4, 2)
    back = run.fit(items)  # they come back, and are not stored again
    assert (back.match.new_item_count, run.stored()) == (0, 4)


def test_record_of_a_session_that_no_body_told_holds_until_one_does(run: Run) -> None:
    run.record([run.user(), run.calls("a")])
    known = run.recover(body=False)
    assert (known.item_count, known.pressure, known.format) == (2, None, run.format)
    with pytest.raises(NoBodyError):
        run.recover()
    with pytest.raises(NoBodyError):
        run.close()
    assert run.recover(body=False).revision == 1  # nothing was closed by the call that was refused
    with pytest.raises(NoBodyError):
        run.engine.compact(CompactInput(run.key, "c", force_mid_stage=True))
    items = [run.user(), run.calls("a"), *run.results(run.result("a"))]
    with pytest.raises(ReadBackRequiredError):  # Record told no way
        run.fit(items, read_back=ReadBack.UNSPECIFIED)
    fitted = run.fit(run.body(items, tools=[]), read_back=ReadBack.INJECT)
    assert b"trimtab_read" in fitted.body
    assert run.stored() == 3


def test_record_without_a_format_takes_the_sessions_and_never_another(run: Run) -> None:
    with pytest.raises(InvalidFieldError) as caught:
        run.record([run.user()], format=Format.UNSPECIFIED)
    assert caught.value.details["field"] == "format"
    run.record([run.user()])
    run.record([run.says()], format=Format.UNSPECIFIED)
    other = Format.ANTHROPIC_MESSAGES if run.chat else Format.OPENAI_CHAT
    with pytest.raises(InvalidFieldError):
        run.record([run.user()], format=other)
    assert run.stored() == 2


def test_record_at_a_place_stores_what_is_the_same_once_and_branches_where_it_is_not(run: Run) -> None:
    items = [run.user(), run.says("a"), run.user("b"), run.says("c")]
    run.record(items)
    same = run.record(items[1:3], first_item_index=1)
    assert (same.item_count, run.stored()) == (4, 4)
    longer = run.record([*items[2:], run.user("d")], first_item_index=2)
    assert (longer.item_count, run.stored()) == (5, 5)
    other = run.record([items[1], run.user("other")], first_item_index=1)
    assert (other.item_count, run.stored()) == (3, 6)
    assert [json.loads(item) for item in run.journal()] == [*items[:2], run.user("other")]
    behind = run.record([run.says("z")], first_item_index=3)
    assert behind.item_count == 4
    for place in (5, 1 << 40):
        with pytest.raises(InvalidFieldError) as caught:
            run.record([run.user()], first_item_index=place)
        assert caught.value.details["field"] == "first_item_index"
    assert run.stored() == 7


def test_record_the_same_item_spelled_otherwise_is_the_same(run: Run) -> None:
    run.record([run.user("é"), run.calls("a")])
    spelled = json.dumps([run.user("é"), run.calls("a")], indent=1, sort_keys=True).encode()
    assert run.record(spelled, first_item_index=0).item_count == 2
    assert run.stored() == 2


def test_record_leaves_cache_markers_out_and_finds_items_that_have_other_ones(run: Run) -> None:
    blocks = [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]
    marked = run.spelled({"role": "user", "content": blocks})
    plain = run.spelled({"role": "user", "content": [{"type": "text", "text": "x"}]})
    run.fit([run.user("first"), run.says()])
    run.record([marked])
    assert run.journal()[2] == dumped(plain)
    assert run.record([plain], first_item_index=2).item_count == 3
    run.fit([run.user("first"), run.says(), plain])
    run.fit([run.user("first"), run.says(), marked])
    assert run.stored() == 3
    assert b"cache" not in run.recover().body


WRONG = [
    b"{}",
    b'"x"',
    b"null",
    b"7",
    b"[] []",
    b"[],",
    b"[]}",
    b'[],"messages":[]',
    b'[]},{"messages":[]',
    b"[1,]",
    b"[,]",
    b"[NaN]",
    b"[{]",
    b"\xef\xbb\xbf[]",
    b"[" * 600,
    b'[{"role":"user","content":"\n"}]',
    b'[{"role":"user","content":"a\x00"}]',
    b"\x00" * 40,
]


@pytest.mark.parametrize("items", WRONG, ids=lambda value: repr(value[:24]))
def test_record_items_that_are_no_array_are_refused_with_an_offset_and_leave_no_trace(run: Run, items: bytes) -> None:
    with pytest.raises(MalformedBodyError) as caught:
        run.record(items, id="one")
    assert 0 <= int(caught.value.details["offset_bytes"]) <= len(items)
    with pytest.raises(TrimtabError, match="no such session"):
        run.recover(body=False)
    assert run.record([run.user()], id="one").revision == 1  # nothing was remembered under that id


def test_record_items_cut_at_any_byte_are_refused_and_whole_are_taken(run: Run) -> None:
    items = dumped([run.user("é\n\\"), run.calls("a", "b"), *run.results(run.result("a", "\U0001f600"), run.result("b"))])
    run.record([run.user("first")])
    for end in range(1, len(items)):
        with pytest.raises(MalformedBodyError) as caught:
            run.record(items[:end])
        assert 0 <= int(caught.value.details["offset_bytes"]) <= end
    assert run.stored() == 1
    assert run.record(items).item_count == (5 if run.chat else 4)


def test_record_a_run_of_nul_bytes_between_items_is_refused_and_what_was_there_stays(run: Run) -> None:
    run.record([run.user(), run.says("before")])
    with pytest.raises(MalformedBodyError) as caught:
        run.record(b"[" + dumped(run.user("a")) + b"\x00" * 400 + b"," + dumped(run.says("b")) + b"]")
    assert caught.value.details["offset_bytes"] == len(dumped(run.user("a"))) + 1
    run.record([run.user("after")])
    assert [json.loads(item) for item in run.journal()] == [run.user(), run.says("before"), run.user("after")]


@pytest.mark.parametrize(
    "text",
    [rb"\ud800", rb"\udc00 \u0000", b"\xff\xfe", b"\xed\xa0\x80", rb"\ud83d\ude00", b"2512292042121000001"],
    ids=["high", "low and nul", "invalid", "raw surrogate", "pair", "digits"],
)
def test_record_keeps_what_is_not_unicode_byte_for_byte(run: Run, text: bytes) -> None:
    item = b'{"role":"user","content":"' + text + b'","role":"user","n":1.50,"b":12345678901234567890}'
    run.fit([run.user("first"), run.says()])
    run.record(b"[" + item + b"]")
    run.desk.reopen()
    assert run.journal()[2] == item
    assert run.recover().body == run.body([run.user("first"), run.says()])[:-2] + b"," + item + b"]}"
    run.record(b"[" + item + b"]", first_item_index=2)
    assert run.stored() == 3


def test_record_a_huge_result_comes_back_and_leaves_in_the_next_fit(run: Run) -> None:
    limits = LimitsGiven(soft_bytes=1 << 30, target_bytes=1 << 29, externalize_bytes=50_000)
    big = "line of a long log\n" * 300_000
    items = [run.user(), run.calls("a"), *run.results(run.result("a", big))]
    run.fit(items[:2], limits=limits)
    run.record(items[2:])
    assert len(run.recover().body) > 5_000_000
    fitted = run.fit(items, limits=limits)
    assert fitted.outcome is FitOutcome.FITTED
    assert len(fitted.body) < 10_000
    (artifact,) = fitted.artifacts
    assert artifact.size_bytes == len(big)
    run.desk.reopen()
    assert run.recover().body == fitted.body
    assert run.engine.reader.read(run.key, artifact.artifact_id, byte_range=(0, 100)).content == big.encode()[:100]


def test_record_a_large_result_leaves_in_the_first_body_that_tells_it_and_in_no_later_one(run: Run) -> None:
    small = LimitsGiven(soft_bytes=1 << 30, target_bytes=1 << 29, externalize_bytes=4_000)
    items = [run.user(), run.calls("a"), *run.results(run.result("a", LONG)), run.says()]
    for compacted in (False, True):
        other = run.desk.run(run.format_name)
        other.fit(items[:2], limits=small)
        other.record(items[2:])
        if compacted:  # which tells no body
            other.engine.compact(CompactInput(other.key, "c"))
            other.desk.reopen()
        assert other.fit(items, limits=small).outcome is FitOutcome.FITTED
    run.fit(items[:2])
    run.record(items[2:])
    assert run.fit(items).outcome is FitOutcome.UNCHANGED
    run.desk.reopen()
    assert run.fit(items, limits=small).outcome is FitOutcome.UNCHANGED
    assert _notes(run.fit([*items[:2], run.user("other")])) == ["INVALID_HISTORY"]  # told before: a rewind as any other


# Receipts


def test_record_receipt_of_a_call_that_is_not_there_is_refused_and_nothing_is_kept(run: Run) -> None:
    run.record([run.user(), run.calls("a")])
    with pytest.raises(CallNotFoundError):
        run.record([run.says("x")], receipts=(run.receipt("b", PENDING),))
    assert run.stored() == 2


def test_record_receipts_come_back_as_they_were_after_a_restart(run: Run) -> None:
    run.fit([run.user()])
    run.record(
        [run.calls("a", "b")],
        goal="ship",
        receipts=(
            run.receipt("a", PENDING, idempotency_key="k\u00e9y" * 500, detail="d"),
            run.receipt("b", SETTLED, result=run.result("b", "done")),
        ),
    )
    run.desk.reopen()
    known = run.recover()
    assert known.anchors.goal == "ship"
    a, b = known.receipts
    assert (a.call, a.state, a.idempotency_key, a.detail) == (
        msgspec.structs.replace(a.call, call_id="a", item_index=1, call_index=0),
        PENDING,
        "k\u00e9y" * 500,
        "d",
    )
    assert (b.call.call_index, b.state, b.result) == (1, SETTLED, dumped(run.result("b", "done")))
    assert [(each.call.call_id, each.tool_name, each.receipt) for each in known.open_calls] == [
        ("a", "deploy", a),
        ("b", "deploy", b),
    ]
    assert b'"a"' in known.open_calls[0].content


def _bad_results(run: Run) -> list[tuple[bytes, type[TrimtabError]]]:
    good = dumped(run.result("a"))
    found: list[tuple[bytes, type[TrimtabError]]] = [(good[:end], MalformedBodyError) for end in range(1, len(good))]
    found += [(b"[" + good + b"]", MalformedBodyError), (good + b"," + good, MalformedBodyError), (b'"ok"', MalformedBodyError)]
    found += [(good + b"]}", MalformedBodyError), (b"null", MalformedBodyError)]
    found += [(dumped(run.result("b")), InvalidFieldError), (dumped(run.result("")), InvalidFieldError)]
    found += [(dumped(run.user("ok")), InvalidFieldError), (b"{}", InvalidFieldError)]
    found += [(dumped({"type": "text", "text": "ok"}), InvalidFieldError), (dumped(run.calls("a")), InvalidFieldError)]
    return found


def test_record_receipt_with_a_result_that_is_none_of_that_call_is_refused(run: Run) -> None:
    run.fit([run.user(), run.calls("a", "b")])
    for result, error in _bad_results(run):
        with pytest.raises(error) as caught:
            run.record(receipts=(run.receipt("a", SETTLED, result=result),))
        assert caught.value.hint
        with pytest.raises(error):
            run.fit([run.user(), run.calls("a", "b")], receipts=(run.receipt("a", SETTLED, result=result),))
    known = run.recover()
    assert (known.revision, known.receipts) == (0, ())
    run.record(receipts=(run.receipt("a", SETTLED, result=b"\n " + dumped(run.result("a")) + b" "),))
    assert run.recover().receipts[0].result == dumped(run.result("a"))


def _settled(run: Run, items: list[Any]) -> bool:
    """Whether the first unit may retire: Compact by ledger covers it."""
    tail = [run.user("later"), run.calls("z"), *run.results(run.result("z"))]
    more: Any = {"limits": _TINY, "ignore_pressure": True, "force_mid_stage": True}
    run.requests += 1
    answer = run.engine.compact(CompactInput(run.key, f"q{run.requests}", body=run.body([*items, *tail]), **more))
    return answer.outcome is CompactOutcome.COMMITTED


STATES = [
    (NOT_STARTED, True, False),
    (PENDING, True, False),
    (SETTLED, True, True),
    (FAILED, True, True),
    (WAITING, False, False),
    (UNKNOWN, False, False),
]


@pytest.mark.parametrize(("state", "then_result", "after_result"), STATES, ids=lambda value: getattr(value, "name", ""))
def test_record_receipt_before_and_after_the_result_settles_the_unit_as_the_proto_says(
    run: Run, state: EffectState, then_result: bool, after_result: bool
) -> None:
    items = [run.user(), run.calls("a"), *run.results(run.result("a", LONG))]
    before = run.desk.run(run.format_name)
    before.record(items[:2], receipts=(before.receipt("a", state),))
    before.record(items[2:])
    assert _settled(before, items) is then_result
    after = run.desk.run(run.format_name)
    after.record(items)
    after.record(receipts=(after.receipt("a", state),))
    assert _settled(after, items) is after_result
    anew = run.desk.run(run.format_name)
    anew.record(items)
    anew.record(receipts=(anew.receipt("a", state),))
    anew.record(receipts=(anew.receipt("a", SETTLED),))
    assert _settled(anew, items)
    run.desk.reopen()
    assert [each.state for each in anew.recover().receipts] == [SETTLED]


def test_record_sub_agents_have_sessions_of_their_own_listed_by_prefix(run: Run) -> None:
    for name in ("sub", "sub/1", "sub/2", "other"):
        child = Run(run.desk, run.format_name, f"{run.format_name}:{name}")
        child.record([child.user(name)], id="one")
    found = run.desk.store.list_sessions("", f"{run.format_name}:sub/")
    assert sorted(each.key.session_id for each in found) == [f"{run.format_name}:sub/1", f"{run.format_name}:sub/2"]
    child = Run(run.desk, run.format_name, f"{run.format_name}:sub/1")
    assert [json.loads(item) for item in child.journal()] == [child.user("sub/1")]


@pytest.mark.parametrize("format_name", FORMATS)
def test_record_into_a_full_store_is_refused_keeps_nothing_and_works_once_there_is_room(format_name: str) -> None:
    with desk(quota_bytes=4 << 20) as small:
        run, filler = small.run(format_name), small.run(format_name)
        base = run.record([run.user(), run.calls("a")], receipts=(run.receipt("a", PENDING, idempotency_key="k"),))
        filler.record([filler.user()])
        for size_bytes in (200_000, 20_000, 1000):
            with pytest.raises(StoreFullError):
                while True:
                    filler.record([filler.user(secrets.token_hex(size_bytes // 2)), filler.says()])
        with pytest.raises(StoreFullError):
            run.record(run.results(run.result("a", secrets.token_hex(50_000))), id="late")
        with pytest.raises(StoreFullError):
            run.record(receipts=(run.receipt("a", SETTLED, detail="d" * 100_000),))
        known = run.recover(body=False)
        assert (known.revision, known.item_count, opened(known.open_calls)) == (base.revision, 2, ["a"])
        assert [(each.state, each.idempotency_key) for each in known.receipts] == [(PENDING, "k")]
        small.engine.delete(filler.key)
        deadline = time.monotonic() + 20
        while True:
            try:
                late = run.record(run.results(run.result("a", "x" * 50_000)), id="late2")
                break
            except StoreFullError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        assert (late.revision, late.item_count) == (base.revision + 1, 3)


def test_record_by_many_threads_at_one_revision_lands_once_and_without_one_lands_each_time(run: Run) -> None:
    base = run.record([run.user()])
    landed: list[str] = []
    refused: list[int] = []

    def write(name: str, revision: int | None) -> None:
        try:
            run.record([run.says(name)], id=name, expected_revision=revision)
            landed.append(name)
        except RevisionConflictError as error:
            refused.append(int(error.details["revision"]))

    for expected in (base.revision, None):
        threads = [threading.Thread(target=write, args=(f"{expected}-{n}", expected)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert (len(landed), set(refused)) == (17, {base.revision + 1})
    assert run.recover(body=False).revision == base.revision + 17
    assert set(run.journal()[1:]) == {dumped(run.says(name)) for name in landed}
