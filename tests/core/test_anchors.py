"""Anchors: merged by id in the order first given, kept verbatim until revoked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.anchors import merge_anchors
from sidecar.core.types import Anchors, CallKey, Constraint, Criterion, Decision, Source, WorkItem, WorkState

NOTE = Source(note="user, turn 3")
OLD = Anchors(
    goal="ship it",
    success_criteria=(Criterion("c1", "tests pass"),),
    constraints=(Constraint("k1", "never push to main", NOTE), Constraint("k2", "ask before deleting")),
    decisions=(Decision("d1", "use sqlite", (NOTE,)),),
    work=(WorkItem("w1", "write parser", WorkState.OPEN),),
    revision=4,
)


def test_merge_anchors_of_nothing_new_is_the_same_object() -> None:
    assert merge_anchors(OLD, Anchors(), 9) is OLD
    assert merge_anchors(OLD, OLD, 9) is OLD


def test_merge_anchors_of_something_new_takes_the_revision() -> None:
    merged = merge_anchors(OLD, Anchors(goal="ship it today"), 9)
    assert (merged.goal, merged.revision, merged.constraints) == ("ship it today", 9, OLD.constraints)


def test_merge_anchors_never_removes_what_is_left_out() -> None:
    merged = merge_anchors(OLD, Anchors(constraints=(Constraint("k3", "be brief"),)), 9)
    assert [(each.id, each.text) for each in merged.constraints] == [
        ("k1", "never push to main"),
        ("k2", "ask before deleting"),
        ("k3", "be brief"),
    ]
    assert (merged.goal, merged.success_criteria, merged.decisions, merged.work) == (
        OLD.goal,
        OLD.success_criteria,
        OLD.decisions,
        OLD.work,
    )


def test_merge_anchors_of_a_known_id_changes_it_in_its_place() -> None:
    merged = merge_anchors(OLD, Anchors(constraints=(Constraint("k1", "never push"),)), 9)
    assert merged.constraints == (Constraint("k1", "never push", NOTE), OLD.constraints[1])


def test_merge_anchors_of_a_revocation_keeps_text_and_source() -> None:
    newer = Anchors(
        success_criteria=(Criterion("c1", revoked=True),),
        constraints=(Constraint("k1", revoked=True),),
        decisions=(Decision("d1", revoked=True),),
    )
    merged = merge_anchors(OLD, newer, 9)
    assert merged.constraints[0] == Constraint("k1", "never push to main", NOTE, revoked=True)
    assert merged.success_criteria == (Criterion("c1", "tests pass", revoked=True),)
    assert merged.decisions == (Decision("d1", "use sqlite", (NOTE,), revoked=True),)


def test_merge_anchors_of_work_changes_state_and_keeps_evidence_until_new_is_given() -> None:
    proof = Source(call=CallKey(7, 0))
    done = merge_anchors(OLD, Anchors(work=(WorkItem("w1", "", WorkState.DONE, (proof,)),)), 5)
    assert done.work == (WorkItem("w1", "write parser", WorkState.DONE, (proof,)),)
    again = merge_anchors(done, Anchors(work=(WorkItem("w1", "", WorkState.BLOCKED),)), 6)
    assert again.work == (WorkItem("w1", "write parser", WorkState.BLOCKED, (proof,)),)


def test_merge_anchors_keeps_texts_verbatim() -> None:
    text = "  Tabs\tand\r\nlines \u202e\x00 \ud800 é漢🙂  "
    merged = merge_anchors(Anchors(), Anchors(goal=text, constraints=(Constraint("k", text),)), 1)
    assert (merged.goal, merged.constraints[0].text) == (text, text)


IDS = st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from(["", "x", "y"]), st.booleans()), max_size=6)


@given(IDS, IDS)
def test_merge_anchors_keeps_the_order_first_given_and_each_id_once(
    older: list[tuple[str, str, bool]], newer: list[tuple[str, str, bool]]
) -> None:
    first = merge_anchors(Anchors(), Anchors(decisions=tuple(Decision(i, t, (), r) for i, t, r in older)), 1)
    merged = merge_anchors(first, Anchors(decisions=tuple(Decision(i, t, (), r) for i, t, r in newer)), 2)
    assert [each.id for each in merged.decisions] == list(dict.fromkeys(id for id, _, _ in [*older, *newer]))
    for each in merged.decisions:
        texts = [text for id, text, _ in [*older, *newer] if id == each.id and text]
        assert each.text == (texts[-1] if texts else "")
        assert each.revoked == [revoked for id, _, revoked in [*older, *newer] if id == each.id][-1]
