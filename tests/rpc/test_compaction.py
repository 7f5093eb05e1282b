"""Compaction over the wire with the real engine and store: what is listed, watched, and there after a restart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import grpc
import pytest

from tests.rpc.build import messages_body, to_json
from tests.rpc.running import Running, reason_of, ref
from trimtab.v1 import common_pb2, context_pb2, session_pb2

_NUMBERS = count()
LIMITS = common_pb2.Limits(soft_bytes=20_000, target_bytes=16_000, min_saving_bytes=1, summary_bytes=3_000)
COMMITTED = context_pb2.COMPACT_OUTCOME_COMMITTED


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with Running() as started:
        yield started


@pytest.fixture
def name(running: Running) -> str:
    """A session of the test's own, over its limit."""
    name = f"run-{next(_NUMBERS)}"
    answer = running.fit(name, to_json(messages_body(60, 1000)), limits=LIMITS)
    assert answer.outcome == context_pb2.FIT_OUTCOME_OVER
    return name


def _compact(running: Running, name: str, **fields: Any) -> context_pb2.CompactResponse:
    given = {"request_id": "one", "boundary": "b", **fields}
    answer: context_pb2.CompactResponse = running.context.Compact(context_pb2.CompactRequest(session=ref(name), **given))
    return answer


def _checkpoints(running: Running, name: str) -> list[common_pb2.Checkpoint]:
    return list(running.sessions.ListCheckpoints(session_pb2.ListCheckpointsRequest(session=ref(name))).checkpoints)


def _live_counts(running: Running, name: str) -> tuple[int, int]:
    """As GetSession and as ListSessions tell."""
    one = running.sessions.GetSession(session_pb2.GetSessionRequest(session=ref(name))).session
    (listed,) = running.sessions.ListSessions(session_pb2.ListSessionsRequest(session_id_prefix=name)).sessions
    return one.checkpoint_count, listed.checkpoint_count


def test_compact_answer_is_consistent_with_what_is_listed_and_sent(running: Running, name: str) -> None:
    body = to_json(messages_body(60, 1000))
    answer = _compact(running, name, body=body, include_body=True)
    assert answer.outcome == COMMITTED
    made = answer.checkpoint
    assert _checkpoints(running, name) == [made]
    assert _live_counts(running, name) == (1, 1)
    assert (made.before_bytes, made.after_bytes) == (answer.before.total_bytes, answer.after.total_bytes)
    assert (made.revision, made.base_revision < made.revision) == (answer.revision, True)
    assert answer.attempt.state == context_pb2.ATTEMPT_STATE_COMMITTED
    assert made.summary.decode() in json.loads(answer.body)["messages"][0]["content"][1]["text"]
    parts = ("system", "tools", "user", "assistant", "reasoning", "call", "result", "media", "other")
    assert sum(getattr(answer.after, f"{part}_bytes") for part in parts) == answer.after.total_bytes == len(answer.body)
    fitted = running.fit(name, body, list_applied=True)
    assert fitted.body == answer.body
    (reduction,) = [each for each in fitted.reductions if each.kind == context_pb2.REDUCTION_KIND_CHECKPOINT]
    assert reduction.checkpoint_id == made.checkpoint_id


def test_compaction_and_rollback_are_there_after_a_restart(running: Running, name: str) -> None:
    first = _compact(running, name)
    running.stop()
    running.start()
    again = _compact(running, name)
    assert (again.outcome, again.checkpoint) == (COMMITTED, first.checkpoint)
    assert _live_counts(running, name) == (1, 1)
    request = session_pb2.RollbackRequest(session=ref(name), request_id="back", checkpoint_id=first.checkpoint.checkpoint_id)
    back = running.sessions.Rollback(request)
    running.stop()
    running.start()
    assert running.sessions.Rollback(request) == back
    assert [made.live for made in _checkpoints(running, name)] == [False]
    assert _live_counts(running, name) == (0, 0)
    assert _compact(running, name).checkpoint.live is False


def test_watch_sessions_sees_before_and_after_a_compaction_and_its_rollback(running: Running, name: str) -> None:
    watch = running.sessions.WatchSessions(session_pb2.WatchSessionsRequest(session_id=name))
    watch.initial_metadata()
    answer = _compact(running, name)
    running.sessions.Rollback(session_pb2.RollbackRequest(session=ref(name), request_id="back", checkpoint_id="c1"))
    before, after, back = (next(watch) for _ in range(3))
    watch.cancel()
    kinds = (session_pb2.EVENT_KIND_PRE_COMPACT, session_pb2.EVENT_KIND_POST_COMPACT, session_pb2.EVENT_KIND_ROLLED_BACK)
    assert (before.kind, after.kind, back.kind) == kinds
    assert before.before_bytes == after.before_bytes == answer.before.total_bytes
    assert (after.after_bytes, after.revision, back.revision) == (answer.after.total_bytes, answer.revision, answer.revision + 1)


@pytest.mark.parametrize(
    ("call", "reason", "code"),
    [
        ("finish", "ATTEMPT_NOT_FOUND", grpc.StatusCode.NOT_FOUND),
        ("rollback", "CHECKPOINT_NOT_FOUND", grpc.StatusCode.NOT_FOUND),
        ("model", "SUMMARIZER_NOT_CONFIGURED", grpc.StatusCode.FAILED_PRECONDITION),
        ("reused", "REQUEST_ID_REUSED", grpc.StatusCode.FAILED_PRECONDITION),
        ("revision", "REVISION_CONFLICT", grpc.StatusCode.ABORTED),
        ("malformed", "MALFORMED_BODY", grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
def test_compaction_that_is_refused_tells_code_and_reason(
    running: Running, name: str, call: str, reason: str, code: grpc.StatusCode
) -> None:
    rollback = session_pb2.RollbackRequest(session=ref(name), request_id="back", checkpoint_id="c9")
    finish = context_pb2.FinishCompactRequest(session=ref(name), attempt_id="nobody", failed="x")
    calls = {
        "finish": lambda: running.context.FinishCompact(finish),
        "rollback": lambda: running.sessions.Rollback(rollback),
        "model": lambda: _compact(running, name, summarizer=context_pb2.SUMMARIZER_MODEL),
        "reused": lambda: [_compact(running, name, focus=focus) for focus in ("a", "b")],
        "revision": lambda: _compact(running, name, expected_revision=99),
        "malformed": lambda: _compact(running, name, body=b"{"),
    }
    with pytest.raises(grpc.RpcError) as caught:
        calls[call]()
    assert (reason_of(caught.value)[0], caught.value.code()) == (reason, code)  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", ["Compact", "Rollback", "ListCheckpoints", "FinishCompact"])
def test_compaction_of_a_session_that_is_not_there_is_told(running: Running, method: str) -> None:
    nobody = ref("nobody")
    requests: dict[str, tuple[Any, Any]] = {
        "Compact": (running.context.Compact, context_pb2.CompactRequest(session=nobody, request_id="r", boundary="b")),
        "FinishCompact": (
            running.context.FinishCompact,
            context_pb2.FinishCompactRequest(session=nobody, attempt_id="a", failed="x"),
        ),
        "Rollback": (
            running.sessions.Rollback,
            session_pb2.RollbackRequest(session=nobody, request_id="r", checkpoint_id="c1"),
        ),
        "ListCheckpoints": (running.sessions.ListCheckpoints, session_pb2.ListCheckpointsRequest(session=nobody)),
    }
    call, request = requests[method]
    with pytest.raises(grpc.RpcError) as caught:
        call(request)
    assert reason_of(caught.value)[0] == "SESSION_NOT_FOUND"
    with pytest.raises(grpc.RpcError):
        running.sessions.GetSession(session_pb2.GetSessionRequest(session=nobody))
