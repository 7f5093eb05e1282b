"""States of requests: what answers one, and what alone makes one done."""

from __future__ import annotations

import pytest

from sidecar.core.types import Anchors, CallKey, EffectState, Source, WorkItem, WorkState
from tests.helpers.bodies import FORMATS, TYPED, ChatHistory, MessagesHistory, history, words
from tests.summarize.build import FIRST_NUMBER, facts_of, requests_of, settled

FORMAT = pytest.mark.parametrize("format_name", FORMATS)
TYPED_FORMAT = pytest.mark.parametrize("format_name", TYPED)


def item(index: int) -> Source:
    return Source(number=FIRST_NUMBER + index)


def call(index: int, call_index: int = 0) -> Source:
    return Source(call=CallKey(FIRST_NUMBER + index, call_index))


def work(*evidence: Source, state: WorkState = WorkState.DONE, id: str = "W1") -> WorkItem:
    return WorkItem(id, "the work", state, evidence)


@FORMAT
def test_request_states_tell_answered_by_the_last_text_and_open_without_one(format_name: str) -> None:
    run = history(format_name).user("first").step("ok").answer("shall I go on?").user("second").step("ok")
    assert requests_of(run) == [(0, 3, ""), (4, -1, "")]
    facts = facts_of(run)
    assert [(fact.text, fact.is_last) for fact in facts.requests] == [("first", False), ("second", True)]


@FORMAT
def test_request_states_of_a_call_after_a_text_is_open(format_name: str) -> None:
    run = history(format_name).user("go").answer("I begin").call(("bash", {}), text="now this").results("ok")
    assert requests_of(run) == [(0, -1, "")]


@FORMAT
def test_request_states_of_a_blank_text_is_no_answer(format_name: str) -> None:
    assert requests_of(history(format_name).user("go").answer(" \n ")) == [(0, -1, "")]


@FORMAT
def test_request_states_of_items_without_text_of_a_person_is_none(format_name: str) -> None:
    run = history(format_name).user(" \n").answer("hello").call(("bash", {})).results("please do this")
    assert requests_of(run) == []


def test_request_states_of_results_with_text_counts_by_its_text() -> None:
    run = MessagesHistory().user("go").step("ok").user("and also that").step("ok").answer("so be it")
    assert requests_of(run) == [(0, -1, ""), (2, 5, "")]
    assert [fact.text for fact in facts_of(run).requests] == ["go", "and also that"]


def test_request_states_of_neighbors_have_one_answer_as_where_they_are_one_item() -> None:
    assert requests_of(ChatHistory().user("do").user("that").answer("so")) == [(0, 2, ""), (1, 2, "")]
    assert requests_of(ChatHistory().user("do").user("that")) == [(0, -1, ""), (1, -1, "")]


def test_request_states_of_a_providers_tool_before_the_text_is_answered() -> None:
    used = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    text = {"type": "text", "text": "it is so"}
    for blocks, answered in (([used, found, text], 1), ([text, used, found], -1), ([used], -1)):
        run = MessagesHistory().user("search").answer("x")
        run.items[-1]["content"] = blocks
        assert requests_of(run) == [(0, answered, "")]


@FORMAT
def test_request_states_of_summaries_are_nobodys_request_and_nobodys_answer(format_name: str) -> None:
    run = history(format_name).user("go").step("ok").answer("pointer")
    assert requests_of(run, summaries=[3]) == [(0, -1, "")]
    assert requests_of(run, summaries=[0]) == []


@FORMAT
def test_request_states_of_done_work_that_names_the_request_is_done(format_name: str) -> None:
    run = history(format_name).user("a").answer("x").user("b").answer("y")
    assert requests_of(run, anchors=Anchors(work=(work(item(2)),))) == [(0, 1, ""), (2, 3, "W1")]


@FORMAT
@pytest.mark.parametrize("state", [state for state in WorkState if state is not WorkState.DONE])
def test_request_states_of_other_work_is_never_done(format_name: str, state: WorkState) -> None:
    run = history(format_name).user("a").step("ok").answer("done!")
    receipts = [settled(1)]
    for source in (item(0), call(1), item(1)):
        assert requests_of(run, anchors=Anchors(work=(work(source, state=state),)), receipts=receipts) == [(0, 3, "")]


@FORMAT
def test_request_states_of_done_work_on_a_call_need_its_receipt(format_name: str) -> None:
    run = history(format_name).user("a").step("ok").answer("done!").user("b").step("ok")
    for source in (call(1), item(1), item(2)):
        anchors = Anchors(work=(work(source),))
        assert requests_of(run, anchors=anchors) == [(0, 3, ""), (4, -1, "")]
        assert requests_of(run, anchors=anchors, receipts=[settled(1)]) == [(0, 3, "W1"), (4, -1, "")]
        for state in (EffectState.FAILED, EffectState.PENDING, EffectState.UNKNOWN):
            assert requests_of(run, anchors=anchors, receipts=[settled(1, state=state)])[0] == (0, 3, "")


@FORMAT
def test_request_states_of_a_receipt_or_words_alone_is_never_done(format_name: str) -> None:
    run = history(format_name).user("a").step("Succeeded, all done").answer("It is done.")
    assert requests_of(run, receipts=[settled(1)]) == [(0, 3, "")]
    for source in (Source(note="done"), Source(artifact_id="0" * 32), Source(number=1)):
        assert requests_of(run, anchors=Anchors(work=(work(source),)), receipts=[settled(1)]) == [(0, 3, "")]


@TYPED_FORMAT
def test_request_states_of_a_batch_item_need_all_its_receipts(format_name: str) -> None:
    run = history(format_name).user("a").call(("x", {}), ("y", {})).results("1", "2").answer("so")
    anchors = Anchors(work=(work(item(1)),))
    assert requests_of(run, anchors=anchors, receipts=[settled(1, 0)])[0][2] == ""
    assert requests_of(run, anchors=anchors, receipts=[settled(1, 0), settled(1, 1)])[0][2] == "W1"


@FORMAT
def test_request_states_of_a_request_with_work_left_is_not_done(format_name: str) -> None:
    run = history(format_name).user("do a and b").step("ok").answer("a is done, b follows")
    half = (work(call(1)), work(item(0), state=WorkState.OPEN, id="W2"))
    assert requests_of(run, anchors=Anchors(work=half), receipts=[settled(1)]) == [(0, 3, "")]
    both = (work(call(1)), work(item(0), state=WorkState.DROPPED, id="W2"))
    assert requests_of(run, anchors=Anchors(work=both), receipts=[settled(1)]) == [(0, 3, "W1")]


def test_request_states_of_shared_spans_are_done_by_name_only() -> None:
    run = ChatHistory().user("do").user("that").step("ok").answer("so")
    assert [done for *_, done in requests_of(run, anchors=Anchors(work=(work(call(2)),)), receipts=[settled(2)])] == ["", ""]
    assert [done for *_, done in requests_of(run, anchors=Anchors(work=(work(item(0)),)))] == ["W1", ""]


@FORMAT
def test_request_states_of_a_long_request_keep_its_beginning(format_name: str) -> None:
    (fact,) = facts_of(history(format_name).user(words(5000))).requests
    assert fact.text == words(5000)[:1024]
