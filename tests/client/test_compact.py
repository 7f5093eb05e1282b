"""The client's compaction against a real sidecar: compact, finish, checkpoints, rollback, prepare, and the async twin."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trimtab
from sidecar.app import App, open_app
from sidecar.config import load_config
from tests.rpc.build import messages_body, to_json
from trimtab.v1 import common_pb2, context_pb2, session_pb2

LIMITS: trimtab.Limits = {"soft_bytes": 20_000, "target_bytes": 16_000, "min_saving_bytes": 1, "summary_bytes": 3_000}
COMMITTED, PLANNED = context_pb2.COMPACT_OUTCOME_COMMITTED, context_pb2.COMPACT_OUTCOME_PLANNED
KEPT, UNKNOWN = context_pb2.COMPACT_OUTCOME_KEPT, context_pb2.COMPACT_OUTCOME_UNKNOWN
OVER, FITTED = context_pb2.FIT_OUTCOME_OVER, context_pb2.FIT_OUTCOME_FITTED
NOTES = "## Accomplished\n- NOTE-1\n## In progress\n- none\n## Next steps\n- none\n## Facts to keep\n- none\n"
RESPONSE = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "text", "text": NOTES}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 900, "output_tokens": 40},
}


@pytest.fixture
def client(app: App) -> Iterator[trimtab.Trimtab]:
    with _connect(app) as made:
        yield made


def _connect(app: App, **more: Any) -> trimtab.Trimtab:
    options: dict[str, Any] = {"format": "anthropic-messages", "read_back": "caller", **LIMITS, **more}
    return trimtab.connect(app.address, **options)


def _body() -> dict[str, Any]:
    """So many small results that stubs alone do not help enough."""
    return messages_body(60, 1000)


def test_compact_commits_and_the_next_fit_of_the_raw_history_applies_it(client: trimtab.Trimtab) -> None:
    body = to_json(_body())
    over = client.fit_response("s", body)
    assert over.outcome == OVER
    answer = client.compact("s", "one", body, boundary="stage 1", summarizer="ledger", include_body=True)
    assert (answer.outcome, answer.after.total_bytes) == (COMMITTED, len(answer.body))
    assert answer.before.total_bytes == over.after.total_bytes > 20_000 >= answer.after.total_bytes
    assert client.fit("s", body) == answer.body
    assert client.last is not None
    assert client.last.outcome == FITTED
    (made,) = client.checkpoints("s")
    assert made == answer.checkpoint
    assert (made.checkpoint_id, made.live, made.boundary, made.attempt_id) == ("c1", True, "stage 1", "one")
    shown = client.sessions.GetSession(_session_request("s")).session
    assert (shown.checkpoint_count, shown.revision) == (1, answer.revision)


def test_compact_repeated_answers_as_before_and_with_other_content_is_refused(client: trimtab.Trimtab) -> None:
    body = _body()
    client.fit("s", body)
    first = client.compact("s", "one", body, boundary="b")
    again = client.compact("s", "one", body, boundary="b")
    assert (again.outcome, again.checkpoint, again.revision) == (first.outcome, first.checkpoint, first.revision)
    with pytest.raises(trimtab.RequestIdReusedError):
        client.compact("s", "one", body, boundary="c")


def test_compact_kept_is_an_answer_with_its_reason(client: trimtab.Trimtab) -> None:
    client.fit("s", _body())
    assert client.compact("s", "one").kept_reason == context_pb2.KEPT_REASON_MID_STAGE
    dry = client.compact("s", "one", boundary="b", dry_run=True)
    assert (dry.outcome, dry.kept_reason) == (KEPT, context_pb2.KEPT_REASON_DRY_RUN)
    assert client.checkpoints("s") == []
    assert client.compact("s", "one", force_mid_stage=True).outcome == COMMITTED


def test_compact_of_a_session_that_is_not_there_and_by_a_model_that_is_not_there_is_told(client: trimtab.Trimtab) -> None:
    with pytest.raises(trimtab.SessionNotFoundError):
        client.compact("s", "one", boundary="b")
    with pytest.raises(trimtab.SessionNotFoundError):
        client.checkpoints("s")
    client.fit("s", _body())
    with pytest.raises(trimtab.SummarizerNotConfiguredError):
        client.compact("s", "one", boundary="b", summarizer="model")
    with pytest.raises(trimtab.AttemptNotFoundError):
        client.finish_compact("s", "nobody", text="x")
    with pytest.raises(trimtab.CheckpointNotFoundError):
        client.rollback("s", "back", "c9")


@pytest.mark.parametrize("options", [{"mode": "again"}, {"summarizer": "nobody"}])
def test_compact_unknown_name_lists_those_that_there_are(client: trimtab.Trimtab, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be one of"):
        client.compact("s", "one", **options)


@pytest.mark.parametrize("ends", [{}, {"text": "x", "failed": "y"}, {"response": b"{}", "unknown": ""}])
def test_finish_compact_takes_exactly_one_end(client: trimtab.Trimtab, ends: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="exactly one"):
        client.finish_compact("s", "one", **ends)


@pytest.mark.parametrize(
    ("end", "outcome", "tokens"),
    [
        ({"response": RESPONSE}, COMMITTED, 900),
        ({"text": NOTES}, COMMITTED, 0),
        ({"text": "no headings"}, KEPT, 0),
        ({"failed": "refused"}, KEPT, 0),
        ({"unknown": "lost"}, UNKNOWN, 0),
    ],
    ids=["response", "text", "unusable", "failed", "unknown"],
)
def test_finish_compact_ends_a_plan_once(client: trimtab.Trimtab, end: dict[str, Any], outcome: int, tokens: int) -> None:
    body = _body()
    client.fit("s", body)
    planned = client.compact("s", "one", body, boundary="b", summarizer="caller")
    assert planned.outcome == PLANNED
    assert json.loads(planned.summary_request)["messages"]
    again = client.compact("s", "one", body, boundary="b", summarizer="caller")
    assert (again.outcome, again.summary_request, again.attempt) == (PLANNED, planned.summary_request, planned.attempt)
    answer = client.finish_compact("s", planned.attempt.attempt_id, **end)
    assert (answer.outcome, answer.attempt.usage.input_tokens) == (outcome, tokens)
    later = client.finish_compact("s", planned.attempt.attempt_id, text="another end")
    assert (later.outcome, later.checkpoint) == (answer.outcome, answer.checkpoint)


def test_rollback_puts_the_items_back_and_says_what_went(client: trimtab.Trimtab) -> None:
    body = to_json(_body())
    before = client.fit("s", body)
    client.compact("s", "one", body, boundary="b")
    assert client.fit("s", body) != before
    answer = client.rollback("s", "back", "c1")
    assert list(answer.checkpoint_ids) == ["c1"]
    assert client.rollback("s", "back", "c1") == answer
    assert client.fit("s", body) == before
    assert [made.live for made in client.checkpoints("s")] == [False]
    with pytest.raises(trimtab.RevisionConflictError):
        client.rollback("s", "other", "c1", expected_revision=answer.revision + 5)


def test_prepare_by_ledger_gives_a_compacted_body_and_later_calls_the_same(client: trimtab.Trimtab) -> None:
    body = _body()
    before = copy.deepcopy(body)
    sent = client.prepare("s", body, boundary="stage 1")
    assert body == before
    assert client.last is not None
    assert client.last.outcome == FITTED
    assert client.last_compact is not None
    assert client.last_compact.outcome == COMMITTED
    assert len(sent["messages"]) < len(body["messages"])
    assert sent["messages"][0]["content"][0]["text"] == "Look at every file."
    assert "[trimtab checkpoint c1" in json.dumps(sent)
    assert client.prepare("s", body, boundary="stage 1") == sent
    assert client.last_compact is None
    assert client.fit("s", body) == sent
    assert len(client.checkpoints("s")) == 1


def test_prepare_mid_stage_is_fit(client: trimtab.Trimtab) -> None:
    body = to_json(_body())
    assert client.prepare("s", body) == client.fit("s", body)
    assert client.checkpoints("s") == []


def test_prepare_of_a_body_that_must_not_be_sent_compacts_mid_stage(app: App) -> None:
    with _connect(app, hard_bytes=22_000) as client:
        sent = client.prepare("s", to_json(_body()))
        assert client.last is not None
        assert (client.last.outcome, len(sent) <= 22_000) == (FITTED, True)
        (made,) = client.checkpoints("s")
        assert (made.boundary, made.attempt_id.startswith("mid-stage:")) == ("", True)


def test_prepare_that_cannot_fit_and_has_nothing_to_retire_raises(app: App) -> None:
    body = messages_body(1)
    body["messages"][0]["content"] = "user text " * 3_000
    with _connect(app, hard_bytes=22_000) as client, pytest.raises(trimtab.CannotFitError):
        client.prepare("s", body, boundary="b")


@pytest.mark.parametrize("form", ["dict", "bytes"])
def test_prepare_by_the_callers_model_hands_it_the_request_in_the_form_of_the_body(client: trimtab.Trimtab, form: str) -> None:
    asked: list[Any] = []

    def ask(request: Any) -> Any:
        asked.append(request)
        return RESPONSE if form == "dict" else to_json(RESPONSE)

    body: Any = _body() if form == "dict" else to_json(_body())
    client.prepare("s", body, boundary="b", summarize=ask)
    (request,) = asked
    assert type(request) is type(body)
    assert (request if form == "dict" else json.loads(request))["messages"]
    (made,) = client.checkpoints("s")
    assert b"NOTE-1" in made.summary
    assert made.summarizer.startswith("caller")
    assert client.last_compact is not None
    assert client.last_compact.attempt.usage.output_tokens == 40


def _not_made(request: Any) -> str:
    raise trimtab.SummaryNotMade("rate limit")


def _lost(request: Any) -> str:
    raise ConnectionError("SECRET")


@pytest.mark.parametrize(
    ("ask", "state"),
    [
        (_not_made, context_pb2.KEPT_REASON_SUMMARIZER_FAILED),
        (_lost, context_pb2.KEPT_REASON_UNSPECIFIED),
        (lambda request: "no headings", context_pb2.KEPT_REASON_SUMMARY_REJECTED),
    ],
    ids=["not made", "lost", "unusable"],
)
def test_prepare_without_a_usable_summary_takes_the_ledgers(client: trimtab.Trimtab, ask: Any, state: int) -> None:
    body = _body()
    client.prepare("s", body, boundary="b", summarize=ask)
    (made,) = client.checkpoints("s")
    assert (made.summarizer, made.attempt_id[-7:]) == ("ledger/1", ":ledger")
    first = client.compact("s", made.attempt_id.removesuffix(":ledger"), body, boundary="b", summarizer="caller")
    assert first.kept_reason == state
    assert client.last_by_model is not None
    assert (client.last_by_model.kept_reason, client.last_by_model.detail) == (first.kept_reason, first.detail)
    client.prepare("s", {"messages": body["messages"][:1]})
    assert client.last_by_model is None


def test_prepare_after_a_rollback_leaves_the_items_unless_the_body_must_not_be_sent(app: App, client: trimtab.Trimtab) -> None:
    body = to_json(_body())
    client.prepare("s", body, boundary="b")
    client.rollback("s", "back", "c1")
    client.prepare("s", body, boundary="b")
    assert client.last_compact is not None
    assert client.last_compact.kept_reason == context_pb2.KEPT_REASON_ROLLED_BACK
    with _connect(app, hard_bytes=22_000) as strict:
        assert len(strict.prepare("s", body, boundary="b")) <= 22_000
    assert [made.live for made in client.checkpoints("s")] == [False, True]


def test_prepare_interrupted_while_the_model_answers_goes_on_with_the_same_attempt(short_path: Path) -> None:
    """Ensure that neither an interrupt nor a restart of the sidecar makes a second attempt of one summary."""
    flags = {"listen": (f"unix:{short_path}/s",), "data_dir": str(short_path / "data"), "drain_timeout_s": 1}
    config = load_config(flags, {}).config
    body = to_json(_body())
    asked: list[bytes] = []

    def ask(request: bytes) -> str:
        asked.append(request)
        if len(asked) == 1:
            raise KeyboardInterrupt
        return NOTES

    with open_app(config) as app, _connect(app) as client, pytest.raises(KeyboardInterrupt):
        client.prepare("s", body, boundary="b", summarize=ask)
    with open_app(config) as app, _connect(app) as client:
        client.prepare("s", body, boundary="b", summarize=ask)
        (made,) = client.checkpoints("s")
    assert asked[0] == asked[1]
    assert b"NOTE-1" in made.summary


def test_prepare_failing_open_sends_the_body_as_it_is(short_path: Path) -> None:
    target = f"unix:{short_path}/nobody"
    body = _body()
    with trimtab.connect(target, format="anthropic-messages", read_back="caller", fail_open=True, timeout=5) as client:
        assert client.prepare("s", body, boundary="b") is body
        assert (client.fail_open_count, client.last, client.last_compact) == (1, None, None)


def test_async_client_compacts_as_the_sync_one(app: App, client: trimtab.Trimtab) -> None:
    body = _body()
    sync = client.prepare("sync", body, boundary="b")

    async def ask(request: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        assert request["messages"]
        return RESPONSE

    async def run() -> None:
        options: dict[str, Any] = {"format": "anthropic-messages", "read_back": "caller", **LIMITS}
        async with trimtab.connect_async(app.address, **options) as t:
            assert await t.prepare("one", body, boundary="b") == sync
            assert t.last_compact is not None
            assert t.last_compact.outcome == COMMITTED
            await t.prepare("two", body, boundary="b", summarize=ask)
            (made,) = await t.checkpoints("two")
            assert b"NOTE-1" in made.summary
            await t.prepare("three", body, boundary="b", summarize=lambda request: NOTES)
            assert b"NOTE-1" in (await t.checkpoints("three"))[0].summary
            assert list((await t.rollback("two", "back", "c1")).checkpoint_ids) == ["c1"]
            await t.fit("four", body)
            planned = await t.compact("four", "id", body, boundary="b", summarizer="caller")
            ended = await t.finish_compact("four", planned.attempt.attempt_id, failed="no")
            assert ended.kept_reason == context_pb2.KEPT_REASON_SUMMARIZER_FAILED

    asyncio.run(run())


def _session_request(session_id: str) -> Any:
    return session_pb2.GetSessionRequest(session=common_pb2.SessionRef(session_id=session_id))
