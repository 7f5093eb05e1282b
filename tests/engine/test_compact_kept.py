"""Why a history stays as it is: each reason, with both figures where there are two, and nothing done that was not asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from sidecar.core.compaction import AttemptState, CompactMode, KeptReason, Summarizer
from sidecar.core.errors import NoBodyError, RequestIdReusedError, RevisionConflictError, SessionNotFoundError
from sidecar.core.types import EffectState, Format, LimitsGiven, ReadBack, SessionKey
from sidecar.engine.compact_messages import BudgetGiven, CompactInput, CompactOutcome, CompactResult, FinishInput, RollbackInput
from sidecar.engine.config import EngineConfig
from sidecar.engine.engine import Engine
from sidecar.engine.messages import AnchorsGiven, CallRef, ConstraintGiven, FitInput, FitOutcome, PinGiven, ReceiptGiven
from sidecar.engine.record_messages import RecordInput
from tests.helpers.bodies import FORMATS, History, history, words
from tests.helpers.compacting import Plant, plant
from tests.helpers.translate import history_of

NOTES = "## Accomplished\n- read files\n## In progress\n- none\n## Next steps\n- go on\n## Facts to keep\n- none\n"
TIGHT = LimitsGiven(soft_bytes=30_000, target_bytes=20_000, externalize_bytes=0, keep_unit_count=2)


@pytest.fixture(scope="module")
def world() -> Iterator[Plant]:
    with plant() as made:
        yield made


class Run:
    """A session over its limit, of which nothing is cut: NONE keeps Fit from it."""

    def __init__(self, world: Plant, form: str, steps: int = 30, size_bytes: int = 2_000, limits: LimitsGiven = TIGHT) -> None:
        world.serial += 1
        self.world = world
        self.key = SessionKey("", f"kept-{world.serial}")
        self.history: History = history(form).user("please go through the files").steps(steps, size_bytes, world.serial)
        self.limits = limits
        self.form = Format(self.history.format)
        self.result = self.fit()

    def fit(self, **fields: Any) -> Any:
        fields.setdefault("read_back", ReadBack.NONE)
        return self.world.engine.fit(FitInput(self.key, self.history.body(), format=self.form, limits=self.limits, **fields))

    def compact(self, request_id: str = "r1", **fields: Any) -> CompactResult:
        fields.setdefault("body", self.history.body())
        fields.setdefault("boundary", "stage")
        return self.world.engine.compact(CompactInput(self.key, request_id, **fields))

    def revision(self) -> int:
        summary = self.world.store.summary(self.key)
        assert summary is not None
        return summary.head.revision


@pytest.fixture(params=FORMATS)
def run(request: pytest.FixtureRequest, world: Plant) -> Run:
    return Run(world, request.param)


def test_compact_over_the_limit_commits_and_fit_applies_it_to_raw_history(run: Run) -> None:
    assert run.result.outcome is FitOutcome.OVER
    assert run.result.advice.eligible
    made = run.compact(include_body=True)
    assert (made.outcome, made.kept_reason) == (CompactOutcome.COMMITTED, KeptReason.UNSPECIFIED)
    assert made.checkpoint is not None and made.attempt is not None and made.before is not None and made.after is not None
    assert made.attempt.state is AttemptState.COMMITTED
    assert (made.before.total_bytes, made.after.total_bytes) == (made.checkpoint.before_bytes, made.checkpoint.after_bytes)
    after = run.fit()
    assert after.body == made.body
    assert len(after.body) == made.after.total_bytes <= 30_000
    assert after.revision == made.revision == made.checkpoint.revision


def test_blockers_name_a_summary(run: Run) -> None:
    covered = run.compact().checkpoint
    assert covered is not None
    run.limits = msgspec.structs.replace(TIGHT, soft_bytes=1_024, target_bytes=1_024)
    found = {blocker.item_index: blocker.reason for blocker in run.fit().blockers}
    assert list(found.values()).count("SUMMARY") == 1
    assert set(found.values()) <= {"SUMMARY", "PROTECTED_TAIL"}


def test_compact_keeps_the_tail_and_every_word_of_a_person(run: Run) -> None:
    body = json.loads(run.compact(include_body=True).body)
    raw = json.loads(run.history.body())
    assert history_of(body)[-4:] == history_of(raw)[-4:]
    assert "please go through the files" in json.dumps(body)


def test_compact_under_the_limit_is_no_pressure_and_needs_to_be_asked_for(run: Run) -> None:
    wide = LimitsGiven(soft_bytes=500_000, target_bytes=400_000)
    kept = run.compact(limits=wide)
    assert (kept.outcome, kept.kept_reason) == (CompactOutcome.KEPT, KeptReason.NO_PRESSURE)
    assert kept.before is not None and kept.after is not None
    assert kept.before.total_bytes == kept.after.total_bytes == len(run.history.body())
    assert kept.attempt is None
    made = run.compact("r2", limits=wide, ignore_pressure=True, force_mid_stage=True)
    assert made.outcome is CompactOutcome.COMMITTED


def test_compact_where_a_fit_not_yet_made_is_enough_says_fit_first(world: Plant) -> None:
    run = Run(world, "anthropic-messages")
    run.fit(read_back=ReadBack.CALLER, dry_run=True)
    world.engine.fit(
        FitInput(run.key, run.history.copy().body(), limits=LimitsGiven(soft_bytes=1 << 30), read_back=ReadBack.CALLER)
    )
    kept = run.compact(limits=LimitsGiven(soft_bytes=50_000, target_bytes=40_000, min_saving_bytes=1))
    assert kept.kept_reason is KeptReason.FIT_FIRST
    assert world.engine.checkpoints(run.key) == []


def test_compact_without_a_boundary_is_mid_stage(run: Run) -> None:
    kept = run.compact(boundary="")
    assert kept.kept_reason is KeptReason.MID_STAGE
    assert run.compact(boundary="", force_mid_stage=True).outcome is CompactOutcome.COMMITTED


def test_compact_of_pinned_and_unsettled_work_finds_no_candidate(world: Plant) -> None:
    run = Run(world, "openai-chat")
    run.fit(pins=(PinGiven(tool_name="read_file"),))
    kept = run.compact()
    assert (kept.kept_reason, kept.attempt) == (KeptReason.NO_CANDIDATE, None)


def test_compact_of_a_receipt_that_waits_leaves_that_unit(run: Run) -> None:
    waits = ReceiptGiven(CallRef(item_index=3, call_index=0), EffectState.WAITING)
    made = run.compact(receipts=(waits,), include_body=True)
    assert made.checkpoint is not None
    covered = {at for start, end in made.checkpoint.items for at in range(start, end)}
    assert 3 not in covered
    assert 1 in covered


def test_compact_whose_newest_unit_alone_is_over_says_so_with_sizes_and_no_attempt(world: Plant) -> None:
    run = Run(world, "anthropic-messages", steps=4, size_bytes=300)
    run.history.step(words(300_000))
    kept = run.compact()
    assert (kept.outcome, kept.kept_reason, kept.attempt) == (CompactOutcome.KEPT, KeptReason.DOES_NOT_FIT, None)
    assert "TAIL_EXCEEDS_LIMIT" in {note.reason for note in kept.notes}
    assert kept.before is not None and kept.after is not None
    assert kept.before.total_bytes > 300_000
    again = run.compact()
    assert again.kept_reason is KeptReason.DOES_NOT_FIT


def test_compact_whose_fixed_parts_alone_are_over_says_so(world: Plant) -> None:
    run = Run(world, "openai-chat", steps=6, size_bytes=300)
    run.history.rest["tools"] = [{"type": "function", "function": {"name": "t", "description": "x" * 60_000}}]
    kept = run.compact()
    assert (kept.kept_reason, kept.attempt) == (KeptReason.DOES_NOT_FIT, None)
    assert "FIXED_PARTS_EXCEED_LIMIT" in {note.reason for note in kept.notes}


def test_compact_that_saves_less_than_asked_is_low_benefit_with_both_figures(world: Plant) -> None:
    run = Run(world, "openai-chat", steps=8, size_bytes=900)
    kept = run.compact(limits=LimitsGiven(soft_bytes=9_000, target_bytes=8_000, compact_min_saving_bytes=9_000))
    assert kept.kept_reason is KeptReason.LOW_BENEFIT
    assert kept.before is not None and kept.after is not None
    assert 0 < kept.before.total_bytes - kept.after.total_bytes < 9_000
    rescued = run.compact("r2", limits=LimitsGiven(hard_bytes=9_000))
    assert rescued.outcome is CompactOutcome.COMMITTED


def test_compact_turned_off_is_disabled_and_what_is_committed_goes_on(world: Plant) -> None:
    run = Run(world, "anthropic-messages")
    run.compact()
    fitted = run.fit().body
    off = Engine(world.store, world.clock, EngineConfig(compaction=False))
    run.history.steps(1, 500, "more")
    kept = off.compact(CompactInput(run.key, "r2", body=run.history.body(), boundary="b", ignore_pressure=True))
    assert kept.kept_reason is KeptReason.DISABLED
    world.engine.sessions.forget(run.key)
    off.sessions.forget(run.key)
    later = off.fit(FitInput(run.key, run.history.body()))
    assert b"[trimtab checkpoint c1" in fitted
    assert later.body.count(b"[trimtab checkpoint c1") == 1
    assert len(later.body) < 30_000 < len(run.history.body())
    world.engine.sessions.forget(run.key)


def test_compact_dry_run_writes_and_remembers_nothing(run: Run) -> None:
    before = run.revision()
    rule = AnchorsGiven(constraints=(ConstraintGiven("c", "never touch billing"),))
    kept = run.compact(dry_run=True, anchors=rule, limits=LimitsGiven(summary_bytes=3_000))
    assert (kept.kept_reason, kept.attempt) == (KeptReason.DRY_RUN, None)
    assert kept.before is not None and kept.after is not None
    assert kept.after.total_bytes < kept.before.total_bytes
    assert run.revision() == before
    image = run.world.store.load(run.key)
    assert image is not None
    assert (image.attempts, image.checkpoints, image.anchors.constraints) == ([], [], ())
    assert image.head.limits.summary_bytes is None
    assert run.compact().outcome is CompactOutcome.COMMITTED  # under the same id: it was not remembered


def test_compact_kept_keeps_what_the_call_brought(run: Run) -> None:
    rule = AnchorsGiven(constraints=(ConstraintGiven("c", "never touch billing"),))
    kept = run.compact(boundary="", anchors=rule)
    assert kept.kept_reason is KeptReason.MID_STAGE
    image = run.world.store.load(run.key)
    assert image is not None
    assert [rule.text for rule in image.anchors.constraints] == ["never touch billing"]
    assert image.attempts == []


def test_compact_at_another_revision_is_a_conflict(run: Run) -> None:
    with pytest.raises(RevisionConflictError) as caught:
        run.compact(expected_revision=77)
    assert caught.value.details["revision"] == run.revision()


def test_compact_without_a_body_takes_the_history_as_last_told_also_after_a_restart(world: Plant) -> None:
    run = Run(world, "openai-chat")
    world.engine.settle()
    world.engine.sessions.forget(run.key)
    made = run.compact(body=b"")
    assert made.outcome is CompactOutcome.COMMITTED
    assert made.item_count == len(run.history.items)


def test_compact_of_a_session_that_only_recorded_has_no_body(world: Plant) -> None:
    key = SessionKey("", "recorded-only")
    world.engine.record(RecordInput(key, "q", Format.OPENAI_CHAT, b'[{"role":"user","content":"hi"}]'))
    with pytest.raises(NoBodyError):
        world.engine.compact(CompactInput(key, "r", boundary="b"))
    with pytest.raises(SessionNotFoundError):
        world.engine.compact(CompactInput(SessionKey("", "nobody"), "r", boundary="b"))


def test_compact_one_user_turn_and_hundreds_of_calls(world: Plant) -> None:
    for form in FORMATS:
        run = Run(world, form, steps=300, size_bytes=200)
        made = run.compact(include_body=True)
        assert made.outcome is CompactOutcome.COMMITTED
        assert len(made.body) < 30_000


# Repeats --------------------------------------------------------------------------------------------------------------


def test_compact_repeated_gives_the_same_checkpoint_also_after_a_restart(run: Run) -> None:
    first = run.compact()
    again = run.compact()
    run.world.engine.settle()
    run.world.engine.sessions.forget(run.key)
    after = run.compact()
    assert first.checkpoint is not None
    assert first.checkpoint == again.checkpoint == after.checkpoint
    assert len(run.world.engine.checkpoints(run.key)) == 1


def test_compact_same_id_with_other_content_is_refused_across_calls(run: Run) -> None:
    run.compact()
    with pytest.raises(RequestIdReusedError):
        run.compact(boundary="another stage")
    with pytest.raises(RequestIdReusedError):
        run.world.engine.rollback(RollbackInput(run.key, "r1", "c1"))
    with pytest.raises(RequestIdReusedError):
        run.world.engine.record(RecordInput(run.key, "r1", items=b"[]"))
    run.world.engine.rollback(RollbackInput(run.key, "back", "c1"))
    with pytest.raises(RequestIdReusedError):
        run.compact("back")


def test_compact_planned_gives_the_same_request_until_it_ends(run: Run) -> None:
    planned = run.compact(summarizer=Summarizer.CALLER, focus="the database")
    assert planned.outcome is CompactOutcome.PLANNED
    request = json.loads(planned.summary_request)
    assert "the database" in json.dumps(request)
    run.world.engine.settle()
    run.world.engine.sessions.forget(run.key)
    assert run.compact(summarizer=Summarizer.CALLER, focus="the database").summary_request == planned.summary_request
    made = run.world.engine.finish_compact(FinishInput(run.key, "r1", text=NOTES))
    assert made.outcome is CompactOutcome.COMMITTED
    assert made.checkpoint is not None and b"read files" in made.checkpoint.summary
    ended = run.compact(summarizer=Summarizer.CALLER, focus="the database")
    assert (ended.outcome, ended.checkpoint, ended.summary_request) == (CompactOutcome.COMMITTED, made.checkpoint, b"")


@pytest.mark.parametrize(
    "text",
    ["", "   ", "just some words", NOTES * 40, NOTES.replace("## Next steps", "")],
    ids=["empty", "blank", "no sections", "too long", "a section missing"],
)
def test_finish_with_a_text_that_will_not_do_keeps_the_history(run: Run, text: str) -> None:
    run.compact(summarizer=Summarizer.CALLER)
    before = run.fit()
    kept = run.world.engine.finish_compact(FinishInput(run.key, "r1", text=text))
    assert (kept.outcome, kept.kept_reason) == (CompactOutcome.KEPT, KeptReason.SUMMARY_REJECTED)
    assert run.fit().body == before.body
    again = run.world.engine.finish_compact(FinishInput(run.key, "r1", text=NOTES))
    assert again.kept_reason is KeptReason.SUMMARY_REJECTED  # the first end stands


def test_finish_failed_and_unknown_spend_the_attempts_of_a_range_and_the_ledger_goes_on(run: Run) -> None:
    engine = run.world.engine
    run.compact("a1", summarizer=Summarizer.CALLER)
    failed = engine.finish_compact(FinishInput(run.key, "a1", failed="gateway said 503"))
    assert (failed.outcome, failed.kept_reason) == (CompactOutcome.KEPT, KeptReason.SUMMARIZER_FAILED)
    run.compact("a2", summarizer=Summarizer.CALLER)
    assert engine.finish_compact(FinishInput(run.key, "a2", unknown="lost")).outcome is CompactOutcome.UNKNOWN
    assert run.compact("a3", summarizer=Summarizer.CALLER).kept_reason is KeptReason.ATTEMPTS_SPENT
    assert run.compact("a4").outcome is CompactOutcome.COMMITTED


def test_finish_after_new_items_and_anchors_renders_the_anchors_of_the_commit(run: Run) -> None:
    run.compact(summarizer=Summarizer.CALLER)
    run.history.steps(2, 100, "later").user("and now the rest")
    run.fit(anchors=AnchorsGiven(constraints=(ConstraintGiven("freeze", "no change before Friday"),)))
    made = run.world.engine.finish_compact(FinishInput(run.key, "r1", text=NOTES))
    assert made.checkpoint is not None
    assert b"no change before Friday" in made.checkpoint.summary
    assert b"and now the rest" in made.checkpoint.summary


def test_finish_of_a_range_that_a_receipt_unsettled_or_another_covered_is_kept(run: Run) -> None:
    run.compact(summarizer=Summarizer.CALLER)
    run.fit(receipts=(ReceiptGiven(CallRef(item_index=1, call_index=0), EffectState.WAITING),))
    kept = run.world.engine.finish_compact(FinishInput(run.key, "r1", text=NOTES))
    assert (kept.outcome, kept.kept_reason) == (CompactOutcome.KEPT, KeptReason.NO_CANDIDATE)
    run.compact("r2", summarizer=Summarizer.CALLER)
    assert run.compact("r3").outcome is CompactOutcome.COMMITTED
    late = run.world.engine.finish_compact(FinishInput(run.key, "r2", text=NOTES))
    assert (late.outcome, late.kept_reason) == (CompactOutcome.KEPT, KeptReason.NO_CANDIDATE)


def test_compact_that_would_touch_what_is_kept_for_finishing_dispatches_nothing(run: Run) -> None:
    budget = BudgetGiven(requests_left=3, requests_reserved=3)
    kept = run.compact(summarizer=Summarizer.CALLER, budget=budget)
    assert (kept.kept_reason, kept.attempt) == (KeptReason.RESERVE_PROTECTED, None)
    tokens = BudgetGiven(tokens_left=10_000, tokens_reserved=9_999)
    assert run.compact(summarizer=Summarizer.CALLER, budget=tokens).kept_reason is KeptReason.RESERVE_PROTECTED
    assert run.compact(budget=budget).outcome is CompactOutcome.COMMITTED  # records alone dispatch nothing


def test_rollback_takes_back_later_ones_too_and_the_range_needs_force_then(run: Run) -> None:
    raw = run.fit()
    run.compact()
    compacted = run.fit().body
    run.history.steps(30, 2_000, "second")
    assert run.compact("r2", body=run.history.body()).outcome is CompactOutcome.COMMITTED
    back = run.world.engine.rollback(RollbackInput(run.key, "b1", "c1"))
    assert back.checkpoint_ids == ("c1", "c2")
    assert run.world.engine.rollback(RollbackInput(run.key, "b1", "c1")) == back
    assert all(not each.live for each in run.world.engine.checkpoints(run.key))
    assert run.fit().body == b""
    kept = run.compact("r3", body=run.history.body())
    assert kept.kept_reason is KeptReason.ROLLED_BACK
    forced = run.compact("r4", body=run.history.body(), force_mid_stage=True)
    assert forced.outcome is CompactOutcome.COMMITTED
    assert raw.body == b"" and compacted


def test_rederive_supersedes_and_its_rollback_makes_the_older_ones_live_again(run: Run) -> None:
    run.compact()
    run.history.steps(20, 2_000, "second")
    run.fit()
    made = run.compact("r2", body=run.history.body(), mode=CompactMode.REDERIVE)
    assert made.checkpoint is not None
    assert made.checkpoint.superseded_checkpoint_ids == ("c1",)
    live = {each.checkpoint_id for each in run.world.engine.checkpoints(run.key) if each.live}
    assert live == {"c2"}
    assert run.world.engine.rollback(RollbackInput(run.key, "b", "c2")).checkpoint_ids == ("c2",)
    live = {each.checkpoint_id for each in run.world.engine.checkpoints(run.key) if each.live}
    assert live == {"c1"}
    assert msgspec.structs.asdict(run.world.engine.checkpoints(run.key)[0])["live"]
