"""A model that writes notes: asked once, outside of the session's lock, under a durable attempt; and what summaries keep."""

from __future__ import annotations

import json
import random
import string
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.core.compaction import AttemptState, CompactMode, KeptReason, Summarizer
from sidecar.core.errors import TrimtabError
from sidecar.core.types import EffectState, Format, LimitsGiven, ReadBack, SessionKey
from sidecar.engine.compact_messages import CompactInput, CompactOutcome, CompactResult, FinishInput
from sidecar.engine.config import EngineConfig
from sidecar.engine.engine import Engine
from sidecar.engine.events import EventKind
from sidecar.engine.messages import AnchorsGiven, CallRef, ConstraintGiven, FitInput, FitOutcome, ReceiptGiven
from sidecar.formats import adapter
from sidecar.summarize.key import KeySource
from sidecar.summarize.openai_client import OpenAIModel
from store.store import LmdbStore
from tests.helpers.bodies import FORMATS, History, history, words
from tests.helpers.model_server import Behavior, ModelServer

NOTES = "## Accomplished\n- {}\n## In progress\n- none\n## Next steps\n- go on\n## Facts to keep\n- none\n"
LIMITS = LimitsGiven(soft_bytes=30_000, target_bytes=20_000, externalize_bytes=0, keep_unit_count=2)


class Clock:
    """Real enough."""

    ms = 1_000_000

    def now_ms(self) -> int:
        self.ms += 1
        return self.ms


class World:
    """An engine with a model endpoint, over a folder."""

    def __init__(self, folder: Path, server: ModelServer, cache_bytes: int = 64 << 20) -> None:
        self.folder, self.server, self.cache_bytes = folder, server, cache_bytes
        self.open()

    def open(self) -> None:
        self.store = LmdbStore(self.folder, quota_bytes=1 << 30, map_bytes=1 << 30)
        key = KeySource(file="", variable="NO_SUCH_KEY", optional=True, environ={})
        read = adapter(Format.OPENAI_CHAT).read_reply
        model = OpenAIModel(model="m", key=key, read_reply=read, base_url=self.server.base_url("openai"))
        self.engine = Engine(self.store, Clock(), EngineConfig(cache_bytes=self.cache_bytes), model)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(text=NOTES.format("read files")) as made:
        yield made


@pytest.fixture
def world(tmp_path: Path, server: ModelServer) -> Iterator[World]:
    made = World(tmp_path / "store", server)
    yield made
    made.engine.close()


class Run:
    """A session over its limit."""

    def __init__(self, world: World, form: str, name: str = "s", steps: int = 30) -> None:
        self.world, self.key = world, SessionKey("", name)
        self.history: History = history(form).user("please go through the files").steps(steps, 2_000)
        self.fit()

    def fit(self, **fields: object) -> bytes:
        body = self.history.body()
        given = FitInput(
            self.key,
            body,
            format=Format(self.history.format),
            limits=LIMITS,
            read_back=ReadBack.NONE,
            **fields,  # type: ignore[arg-type]
        )
        return self.world.engine.fit(given).body or body

    def compact(self, request_id: str, **fields: object) -> CompactResult:
        fields.setdefault("summarizer", Summarizer.MODEL)
        fields.setdefault("body", self.history.body())
        return self.world.engine.compact(CompactInput(self.key, request_id, boundary="b", **fields))  # type: ignore[arg-type]


@pytest.mark.parametrize("form", FORMATS)
def test_model_notes_are_in_the_summary_and_usage_is_kept(world: World, form: str) -> None:
    run = Run(world, form)
    made = run.compact("r")
    assert made.outcome is CompactOutcome.COMMITTED
    assert made.checkpoint is not None and made.attempt is not None
    assert b"- read files" in made.checkpoint.summary
    assert (made.checkpoint.summarizer, made.checkpoint.model) == ("openai/1", "m")
    assert made.attempt.usage is not None
    assert b"- read files" in run.fit().replace(b"\\n", b"\n")
    assert world.server.request_count == 1
    assert run.compact("r").checkpoint == made.checkpoint
    assert world.server.request_count == 1


@pytest.mark.parametrize(
    ("behavior", "reason"),
    [
        (Behavior.NULL_CONTENT, KeptReason.SUMMARY_REJECTED),
        (Behavior.CALLS, KeptReason.SUMMARY_REJECTED),
        (Behavior.ECHO, KeptReason.SUMMARY_REJECTED),
        (Behavior.REFUSE, KeptReason.SUMMARY_REJECTED),
        (Behavior.STATUS_429, KeptReason.SUMMARIZER_FAILED),
        (Behavior.STATUS_500, KeptReason.SUMMARIZER_FAILED),
        (Behavior.EMPTY_BODY, KeptReason.SUMMARIZER_FAILED),
    ],
)
def test_model_that_misbehaves_keeps_the_history(world: World, behavior: Behavior, reason: KeptReason) -> None:
    run = Run(world, "openai-chat")
    before = run.fit()
    world.server.behavior = behavior
    kept = run.compact("r")
    assert (kept.outcome, kept.kept_reason) == (CompactOutcome.KEPT, reason)
    assert kept.attempt is not None and kept.attempt.state is AttemptState.FAILED
    assert run.fit() == before
    world.server.behavior = Behavior.ANSWER
    assert run.compact("r").kept_reason is reason  # ended once
    assert world.server.request_count == 1


@pytest.mark.parametrize("behavior", [Behavior.LOST, Behavior.RESET, Behavior.CUT_OFF])
def test_model_whose_answer_is_lost_is_unknown_and_never_asked_again(world: World, behavior: Behavior) -> None:
    run = Run(world, "anthropic-messages")
    world.server.behavior = behavior
    assert run.compact("r").outcome is CompactOutcome.UNKNOWN
    world.server.behavior = Behavior.ANSWER
    assert run.compact("r").outcome is CompactOutcome.UNKNOWN
    assert world.server.request_count == 1
    world.server.behavior = behavior
    assert run.compact("r2").outcome is CompactOutcome.UNKNOWN
    assert run.compact("r3").kept_reason is KeptReason.ATTEMPTS_SPENT
    assert world.server.request_count == 2


def test_slow_model_blocks_no_fit_and_a_repeat_waits_for_the_same_answer(world: World) -> None:
    run = Run(world, "openai-chat")
    world.server.hold()
    answers: list[CompactResult] = []
    first = threading.Thread(target=lambda: answers.append(run.compact("r")))
    first.start()
    world.server.wait_for_requests(1)
    run.history.steps(1, 100, "meanwhile")
    assert b"meanwhile" not in run.fit()[:10]  # answered while the model is being asked
    body = CompactInput(run.key, "r", boundary="b", summarizer=Summarizer.MODEL, body=world_body(run))
    repeat = threading.Thread(target=lambda: answers.append(world.engine.compact(body)))
    repeat.start()
    other = run.compact("other", summarizer=Summarizer.LEDGER)
    assert other.outcome is CompactOutcome.KEPT
    assert other.kept_reason in (KeptReason.NO_CANDIDATE, KeptReason.LOW_BENEFIT)
    world.server.release()
    first.join(20)
    repeat.join(20)
    assert [each.outcome for each in answers] == [CompactOutcome.COMMITTED] * 2
    assert answers[0].checkpoint == answers[1].checkpoint
    assert world.server.request_count == 1


def world_body(run: Run) -> bytes:
    """The body that the first request of that run had: the history less the step that came meanwhile."""
    items = run.history.items[:-2]
    return run.history.body(messages=items)


def test_model_asked_while_the_session_is_evicted_or_deleted_ends_cleanly(tmp_path: Path, server: ModelServer) -> None:
    world = World(tmp_path / "store", server, cache_bytes=1)
    run = Run(world, "openai-chat")
    for name, delete in (("evicted", False), ("deleted", True)):
        run = Run(world, "openai-chat", name)
        server.hold()
        answers: list[object] = []

        def ask(run: Run = run, answers: list[object] = answers) -> None:
            try:
                answers.append(run.compact("r").outcome)
            except TrimtabError as error:
                answers.append(error.reason)

        count = server.request_count
        thread = threading.Thread(target=ask)
        thread.start()
        server.wait_for_requests(count + 1)
        Run(world, "openai-chat", f"{name}-other")
        if delete:
            world.engine.delete(run.key)
        server.release()
        thread.join(20)
        assert answers == (["SESSION_NOT_FOUND"] if delete else [CompactOutcome.COMMITTED])
    world.engine.close()


def test_model_attempt_of_a_process_that_died_is_unknown_for_good(world: World) -> None:
    run = Run(world, "openai-chat")
    world.server.hold()
    thread = threading.Thread(target=lambda: run.compact("r"), daemon=True)
    thread.start()
    world.server.wait_for_requests(1)
    image = world.store.load(run.key)  # as a new process finds it
    assert image is not None
    assert [each.state for each in image.attempts] == [AttemptState.DISPATCHED]
    late = Engine(world.store, Clock(), EngineConfig(), world.engine.model)
    given = CompactInput(run.key, "r", boundary="b", summarizer=Summarizer.MODEL, body=run.history.body())
    assert late.compact(given).outcome is CompactOutcome.UNKNOWN
    assert world.server.request_count == 1
    world.server.release()
    thread.join(20)


def test_events_before_and_after_and_none_for_dry_runs_and_repeats(world: World) -> None:
    run = Run(world, "openai-chat")
    seen = world.engine.events.subscribe("", "s")
    run.compact("r", dry_run=True, summarizer=Summarizer.LEDGER)
    run.compact("r", summarizer=Summarizer.LEDGER)
    run.compact("r", summarizer=Summarizer.LEDGER)
    before, after = (next(seen).event for _ in range(2))
    assert (before.kind, after.kind) == (EventKind.PRE_COMPACT, EventKind.POST_COMPACT)
    assert 0 < after.after_bytes < after.before_bytes
    run.fit()
    assert next(seen).event.kind is EventKind.FITTED
    seen.close()


# What summaries keep --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
def test_five_compactions_in_a_row_keep_six_identifiers_exact(world: World, form: str) -> None:
    rand = random.Random(6)
    names = ["".join(rand.choices(string.ascii_letters + string.digits, k=12)) for _ in range(6)]
    run = Run(world, form)
    run.history.user(f"remember {names[0]} and {names[1]}")
    run.history.steps(1, 100)
    run.fit(
        anchors=AnchorsGiven(constraints=(ConstraintGiven("a", f"never {names[2]}"), ConstraintGiven("b", f"always {names[3]}")))
    )
    call = len(run.history.items) - 2
    receipts = tuple(
        ReceiptGiven(CallRef(item_index=at, call_index=0), EffectState.SETTLED, idempotency_key=name, detail=f"did {name}")
        for at, name in ((call, names[4]), (1, names[5]))
    )
    run.fit(receipts=receipts)
    for number in range(5):
        run.history.steps(20, 2_000, f"more{number}")
        made = run.compact(f"r{number}", summarizer=Summarizer.LEDGER, body=run.history.body())
        assert made.outcome is CompactOutcome.COMMITTED, made.detail
    again = [run.compact(f"again{number}", summarizer=Summarizer.LEDGER, ignore_pressure=True) for number in range(3)]
    assert all(each.outcome in (CompactOutcome.COMMITTED, CompactOutcome.KEPT) for each in again)
    body = run.fit().decode()
    assert all(name in body for name in names[:4])
    image = world.store.load(run.key)
    assert image is not None
    assert {each.idempotency_key for each in image.receipts} >= set(names[4:])


@pytest.mark.parametrize("form", FORMATS)
def test_thirty_compactions_stay_bounded(world: World, form: str) -> None:
    run = Run(world, form)
    sizes = []
    for number in range(30):
        run.history.steps(14, 2_000, f"n{number}")
        if number % 5 == 4:
            run.history.answer("done").user(f"now part {number}")
        made = run.compact(f"r{number}", summarizer=Summarizer.LEDGER, body=run.history.body(), ignore_pressure=True)
        assert made.outcome is CompactOutcome.COMMITTED, (number, made.detail)
        live = [each for each in world.engine.checkpoints(run.key) if each.live]
        sizes.append(sum(len(each.summary) for each in live))
        assert len(run.fit()) <= 30_000
    assert max(sizes) <= 5 * 6_000 + 5_000


@pytest.mark.parametrize("summarizer", [Summarizer.MODEL, Summarizer.CALLER])
def test_canary_of_a_models_summary_is_in_no_later_summary_and_no_later_request(world: World, summarizer: Summarizer) -> None:
    run = Run(world, "anthropic-messages")
    world.server.text = NOTES.format("CANARY-7f3a")
    for number in range(3):
        run.history.steps(20, 2_000, f"n{number}")
        made = run.compact(f"r{number}", summarizer=summarizer, body=run.history.body())
        if made.outcome is CompactOutcome.PLANNED:
            assert (b"CANARY" in made.summary_request) is False
            text = NOTES.format("CANARY-7f3a" if number == 0 else "plain")
            made = world.engine.finish_compact(FinishInput(run.key, f"r{number}", text=text))
        assert made.outcome is CompactOutcome.COMMITTED, made.detail
        world.server.text = NOTES.format("plain")
    again = run.compact("last", summarizer=Summarizer.LEDGER, mode=CompactMode.REDERIVE, ignore_pressure=True)
    assert again.checkpoint is not None
    assert b"CANARY" not in again.checkpoint.summary
    for request in world.server.requests:
        assert "CANARY" not in json.dumps(request.body)
        assert "[trimtab checkpoint" not in request.user
    first, second, third, _ = world.engine.checkpoints(run.key)
    assert b"CANARY" in first.summary
    assert b"CANARY" not in second.summary + third.summary


@pytest.mark.parametrize("form", FORMATS)
def test_summary_request_of_thousands_of_messages_is_narrow_and_has_no_thinking(world: World, form: str) -> None:
    run = Run(world, form, steps=1)
    for number in range(1_200):
        run.history.call(
            ("read_file", {"path": f"src/{number}.py"}), text="look", thinking="SECRET-THOUGHT" if form != "openai-chat" else ""
        )
        run.history.results(words(300, number))
    planned = run.compact("r", summarizer=Summarizer.CALLER, body=run.history.body())
    assert planned.outcome is CompactOutcome.PLANNED, planned.detail
    assert len(planned.summary_request) < 40_000 < len(run.history.body())
    assert b"SECRET-THOUGHT" not in planned.summary_request
    assert b"omitted" in planned.summary_request
    assert run.world.engine.fit(FitInput(run.key, run.history.body())).outcome is FitOutcome.OVER
