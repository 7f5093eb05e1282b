"""Checkpoints in bodies that go on otherwise than when they were made: Compact, Fit and Recover over a real sidecar."""

from __future__ import annotations

import json

import pytest

from tests.helpers.bodies import FORMATS, TYPED, History, history, words
from tests.helpers.client import Sidecar, notes, tight
from tests.helpers.compacting import FORMATS as FORMAT_OF
from tests.helpers.compacting import violations
from trimtab.v1 import common_pb2, context_pb2, session_pb2

THINKING = {"type": "enabled", "budget_tokens": 1024}
COVERED = (context_pb2.REDUCTION_KIND_CHECKPOINT, 1)


def limits(keep_unit_count: int = 1) -> common_pb2.Limits:
    """Nothing is cut; a compaction covers all settled work before the newest units."""
    return tight(
        1 << 30,
        1 << 29,
        externalize_bytes=0,
        compact_target_bytes=1,
        compact_min_saving_bytes=1,
        keep_unit_count=keep_unit_count,
    )


def fit(sidecar: Sidecar, session_id: str, run: History, **fields: object) -> tuple[context_pb2.FitResponse, bytes]:
    """The answer, and the body to send."""
    answer = sidecar.fit(session_id, run.body(), format=run.format, **fields)
    return answer, answer.body or run.body()


def compact(sidecar: Sidecar, session_id: str, request_id: str = "stage-1", body: bytes = b"") -> context_pb2.CompactResponse:
    """By ledger, whatever the pressure; a checkpoint must come of it."""
    request = context_pb2.CompactRequest(
        session=common_pb2.SessionRef(session_id=session_id),
        request_id=request_id,
        body=body,
        ignore_pressure=True,
        force_mid_stage=True,
        summarizer=context_pb2.SUMMARIZER_LEDGER,
        include_body=True,
    )
    answer: context_pb2.CompactResponse = sidecar.context.Compact(request, timeout=60)
    assert answer.outcome == context_pb2.COMPACT_OUTCOME_COMMITTED, answer.detail
    return answer


def applied(answer: context_pb2.FitResponse) -> list[tuple[int, int]]:
    """How often which kind of reduction is in a body."""
    return [(total.kind, total.count) for total in answer.totals]


def recovered(sidecar: Sidecar, session_id: str) -> bytes:
    """The body that Recover gives."""
    request = context_pb2.RecoverRequest(session=common_pb2.SessionRef(session_id=session_id), include_body=True)
    return bytes(sidecar.context.Recover(request, timeout=60).body)


def test_fit_thinking_turned_on_over_a_summary_answers_the_raw_items(sidecar: Sidecar) -> None:
    """DESIGN 3, 14: what stays of the open loop has no thinking to begin with; with the covered items it has."""
    run = history("anthropic-messages").user("go").call(("read_file", {}), thinking=words(100, 1)).results(words(900, 1))
    run.step(words(900, 2)).step(words(900, 3)).step(words(900, 4))
    fit(sidecar, "thinking-on", run, limits=limits())
    compact(sidecar, "thinking-on")
    run.rest["thinking"] = THINKING
    answer, sent = fit(sidecar, "thinking-on", run)
    assert sent == run.body()
    assert "CHECKPOINT_ASIDE" in notes(answer)
    assert not violations(FORMAT_OF["anthropic-messages"], recovered(sidecar, "thinking-on"))


def test_fit_loop_that_is_open_again_answers_the_raw_items(sidecar: Sidecar) -> None:
    """A rewind to before a user item opens the loop that had ended when the summary was made."""
    run = history("anthropic-messages").user("go").call(("read_file", {}), thinking=words(100, 1)).results(words(900, 1))
    run.step(words(900, 2)).step(words(900, 3)).answer("done").user("next")
    run.call(("read_file", {}), thinking=words(90, 5)).results("x")
    run.rest["thinking"] = THINKING
    fit(sidecar, "open-again", run, limits=limits(keep_unit_count=3))
    compact(sidecar, "open-again")
    del run.items[7:]
    run.items[-1:] = []
    answer, sent = fit(sidecar, "open-again", run)
    assert sent == run.body()
    assert "CHECKPOINT_ASIDE" in notes(answer)


@pytest.mark.parametrize("format_name", FORMATS)
def test_fit_summary_over_an_item_that_came_back_applies(sidecar: Sidecar, format_name: str) -> None:
    """DESIGN 5: all sources occur in order. After a rewind the same word is said again, between new items that are covered."""
    run = history(format_name).user("go").step(words(900, 1)).answer("what now?").user("continue").step(words(900, 2))
    fit(sidecar, f"again-{format_name}", run, limits=limits())
    del run.items[3:]
    run.answer("shall I go on?").user("continue").step(words(900, 3)).step(words(900, 4))
    fit(sidecar, f"again-{format_name}", run)
    made = compact(sidecar, f"again-{format_name}")
    answer, sent = fit(sidecar, f"again-{format_name}", run)
    assert applied(answer) == [COVERED]
    assert sent == made.body


@pytest.mark.parametrize("format_name", FORMATS)
def test_fit_turn_that_goes_on_after_its_text_was_covered_keeps_the_summary(sidecar: Sidecar, format_name: str) -> None:
    """DESIGN 5: a checkpoint steps aside where another item answers a call that it covers. This call is not covered."""
    run = history(format_name).user("go").step(words(900, 1)).step(words(900, 2)).answer("so far so good")
    fit(sidecar, f"goes-on-{format_name}", run, limits=limits(keep_unit_count=0))
    compact(sidecar, f"goes-on-{format_name}")
    run.step(words(900, 3))
    answer, sent = fit(sidecar, f"goes-on-{format_name}", run)
    assert applied(answer) == [COVERED]
    assert len(sent) < len(run.body())


@pytest.mark.parametrize("format_name", TYPED)
@pytest.mark.parametrize("how", ["cut", "compact"])
def test_rest_of_a_turn_of_which_a_text_was_covered_leaves_like_any_other(sidecar: Sidecar, format_name: str, how: str) -> None:
    """It is settled work: neither a cut nor a summary may pass it by for what an older summary covers."""
    run = history(format_name).user("go").step(words(900, 1)).step(words(900, 2)).answer("so far so good")
    session_id = f"rest-{how}-{format_name}"
    fit(sidecar, session_id, run, limits=limits(keep_unit_count=0))
    compact(sidecar, session_id)
    run.step(words(4_000, 3)).answer("done").user("next")
    if how == "cut":
        answer, sent = fit(sidecar, session_id, run, limits=tight(4_000, 3_500, keep_unit_count=0))
        assert len(sent) <= 4_000
        assert applied(answer) == [(context_pb2.REDUCTION_KIND_RESULT, 1), COVERED]
        return
    fit(sidecar, session_id, run)
    made = compact(sidecar, session_id, "stage-2")
    assert b'"call_0' not in made.body
    answer, sent = fit(sidecar, session_id, run)
    assert sent == made.body
    assert applied(answer) == [(context_pb2.REDUCTION_KIND_CHECKPOINT, 2)]
    assert not sidecar.fit(session_id, sent, format=run.format).body


def test_compact_of_an_invalid_history_says_so_when_it_commits(sidecar: Sidecar) -> None:
    """DESIGN 7: a fault on arrival is never hidden, whatever the outcome."""
    run = history("openai-chat").user("go").step(words(900, 1)).step(words(900, 2))
    run.items.append({"role": "tool", "tool_call_id": "nobody", "content": "?"})
    run.user("next").step(words(900, 3))
    answer, _ = fit(sidecar, "invalid", run, limits=limits())
    assert "INVALID_HISTORY" in notes(answer)
    made = compact(sidecar, "invalid", body=run.body())
    assert "INVALID_HISTORY" in {note.reason for note in made.notes}


@pytest.mark.parametrize("format_name", FORMATS)
def test_fit_summary_pasted_at_the_end_of_a_raw_body_is_text(sidecar: Sidecar, format_name: str) -> None:
    """DESIGN 5: a summary is ours only in its place. What it covers stands before it: a person quotes it."""
    run = history(format_name).user("go").step(words(900, 1)).step(words(900, 2))
    session_id = f"pasted-{format_name}"
    fit(sidecar, session_id, run, limits=limits(keep_unit_count=0))
    summary = compact(sidecar, session_id).checkpoint.summary.decode()
    run.answer("well").user(summary)
    answer, sent = fit(sidecar, session_id, run)
    assert answer.item_count == len(run.items)
    assert "SUMMARY_DISPLACED" in notes(answer)
    assert sent.decode().count(json.dumps(summary)) == 2


def test_fit_summary_pasted_behind_what_a_rewind_left_is_text(sidecar: Sidecar) -> None:
    """As above, where only the front of what it covers is left."""
    run = (
        history("openai-chat").user("go").step(words(900, 1)).answer("a").user("more").answer("b").user("on").step(words(900, 2))
    )
    fit(sidecar, "quoted", run, limits=limits(keep_unit_count=0))
    summary = compact(sidecar, "quoted").checkpoint.summary.decode()
    del run.items[4:]
    fit(sidecar, "quoted", run.user("other").answer("c"))
    del run.items[4:]
    run.user("more").user(summary).answer("I see")
    answer, sent = fit(sidecar, "quoted", run)
    assert json.loads(sent)["messages"] == run.items
    assert answer.item_count == len(run.items)


def rolled_back(sidecar: Sidecar, session_id: str, checkpoint_id: str) -> None:
    """Takes a checkpoint back."""
    request = session_pb2.RollbackRequest(
        session=common_pb2.SessionRef(session_id=session_id), request_id=f"back-{checkpoint_id}", checkpoint_id=checkpoint_id
    )
    sidecar.sessions.Rollback(request, timeout=60)


@pytest.mark.parametrize("format_name", FORMATS)
def test_fit_summary_of_a_left_branch_pasted_where_the_history_goes_on_is_text(sidecar: Sidecar, format_name: str) -> None:
    """DESIGN 5: what a person says stays. What it covers is off the branch, so nothing of it stands before the quotation."""
    run = history(format_name).user("go").step(words(900, 1)).step(words(900, 2)).answer("a").user("more").step(words(900, 3))
    session_id = f"left-{format_name}"
    fit(sidecar, session_id, run, limits=limits(keep_unit_count=0))
    summary = compact(sidecar, session_id).checkpoint.summary.decode()
    rolled_back(sidecar, session_id, "c1")
    del run.items[1:]
    run.step(words(900, 4)).answer("b").user(summary).step(words(900, 5)).answer("c")
    _, sent = fit(sidecar, session_id, run)
    assert sent == run.body()
    made = compact(sidecar, session_id, "stage-2")
    answer = sidecar.fit(session_id, made.body, format=run.format)
    assert not answer.body
    assert not answer.match.HasField("diverged_at")
    assert answer.match.new_item_count == 0
    assert "SUMMARY_DISPLACED" in notes(answer)
    answer, sent = fit(sidecar, session_id, run)
    assert sent == made.body
    assert applied(answer) == [COVERED]


def test_compact_over_a_summary_that_stepped_aside_takes_its_place(sidecar: Sidecar) -> None:
    """DESIGN 3, 6: no two live checkpoints cover the same item; what was committed applies to the next body."""
    run = history("anthropic-messages").user("go").call(("read_file", {}), thinking=words(100, 1)).results(words(900, 1))
    run.step(words(900, 2)).step(words(900, 3)).step(words(900, 4))
    fit(sidecar, "takes-place", run, limits=limits())
    compact(sidecar, "takes-place")
    run.rest["thinking"] = THINKING
    answer, sent = fit(sidecar, "takes-place", run)
    assert "CHECKPOINT_ASIDE" in notes(answer)
    fit(sidecar, "takes-place", run, limits=limits(keep_unit_count=0))
    made = compact(sidecar, "takes-place", "stage-2")
    assert made.checkpoint.superseded_checkpoint_ids == ["c1"]
    answer, sent = fit(sidecar, "takes-place", run)
    assert sent == made.body
    assert applied(answer) == [COVERED]
    rolled_back(sidecar, "takes-place", "c2")
    del run.rest["thinking"]
    answer, _ = fit(sidecar, "takes-place", run)
    assert applied(answer) == [COVERED]  # c1 is live again


@pytest.mark.parametrize("format_name", TYPED)
def test_fit_rewind_that_ends_in_a_quotation_of_the_newest_summary_is_text(sidecar: Sidecar, format_name: str) -> None:
    """It covers up to the end of the branch that was left, and stands at the end: that is no evidence of its place."""
    run = history(format_name).user("go").step(words(900, 1)).answer("a").user("on").step(words(900, 2)).answer("b").user("more")
    session_id = f"rewound-quote-{format_name}"
    run.step(words(900, 3)).step(words(900, 4))
    fit(sidecar, session_id, run, limits=limits(keep_unit_count=0))
    compact(sidecar, session_id)
    run.step(words(900, 5)).step(words(900, 6))
    fit(sidecar, session_id, run)
    summary = compact(sidecar, session_id, "stage-2").checkpoint.summary.decode()
    del run.items[3:]
    run.answer("other").user("so?").answer("yes").user(summary)
    answer, sent = fit(sidecar, session_id, run)
    assert json.loads(sent)["messages"] == run.items
    assert answer.item_count == len(run.items)
    assert "SUMMARY_DISPLACED" in notes(answer)
