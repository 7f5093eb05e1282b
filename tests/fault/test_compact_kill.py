"""SIGKILL around a compaction: the same request_id gives the same answer afterwards, and nobody is asked twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import grpc
import pytest

from store.failpoints import VARIABLE
from tests.helpers.bodies import FORMATS, History, history
from tests.helpers.client import NONE, Sidecar, tight
from tests.helpers.model_server import ModelServer
from tests.helpers.server import Server
from trimtab.v1 import common_pb2, context_pb2

NOTES = "## Accomplished\n- read\n## In progress\n- none\n## Next steps\n- none\n## Facts to keep\n- none\n"
LIMITS = tight(30_000, 20_000, externalize_bytes=0, keep_unit_count=2)
COMMITTED, PLANNED = context_pb2.COMPACT_OUTCOME_COMMITTED, context_pb2.COMPACT_OUTCOME_PLANNED


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer(text=NOTES) as made:
        yield made


@pytest.fixture
def server(model: ModelServer) -> Iterator[Server]:
    options = ("--summarizer-client", "openai", "--summarizer-model", "m", "--summarizer-base-url", model.base_url("openai"))
    made = Server(*options).start()
    yield made
    made.remove()


def connect(server: Server) -> Sidecar:
    assert server.channel is not None
    return Sidecar(server.channel)


def over_limit(server: Server, form: str) -> History:
    made = history(form).user("go").steps(30, 2_000)
    connect(server).fit("s", made.body(), format=form, limits=LIMITS, read_back=NONE)
    return made


def request(made: History, summarizer: int) -> context_pb2.CompactRequest:
    session = common_pb2.SessionRef(session_id="s")
    return context_pb2.CompactRequest(
        session=session,
        request_id="r",
        body=made.body(),
        boundary="b",
        summarizer=summarizer,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("summarizer", [context_pb2.SUMMARIZER_LEDGER, context_pb2.SUMMARIZER_MODEL], ids=["ledger", "model"])
@pytest.mark.parametrize("form", FORMATS)
def test_reply_lost_after_the_commit_is_answered_from_the_store(
    server: Server, model: ModelServer, form: str, summarizer: int
) -> None:
    made = over_limit(server, form)
    by_model = summarizer == context_pb2.SUMMARIZER_MODEL
    commits = 3 if by_model else 1  # reserved, dispatched, ended
    server.stop()
    server.env[VARIABLE] = f"after_commit=kill@{commits}"
    server.start()
    with pytest.raises(grpc.RpcError):
        connect(server).context.Compact(request(made, summarizer), timeout=30)
    del server.env[VARIABLE]
    asked = model.request_count
    server.restart()
    again = connect(server).context.Compact(request(made, summarizer), timeout=30)
    assert again.outcome == COMMITTED
    assert model.request_count == asked == int(by_model)
    once_more = connect(server).context.Compact(request(made, summarizer), timeout=30)
    assert once_more.checkpoint == again.checkpoint
    sent = connect(server).fit("s", made.body()).body
    assert len(sent) == again.checkpoint.after_bytes


def killed_after_commit(server: Server, made: History, count: int) -> context_pb2.CompactRequest:
    """A Compact by the server's model whose sidecar dies right after its n-th commit, and is there again."""
    ask = request(made, context_pb2.SUMMARIZER_MODEL)
    server.stop()
    server.env[VARIABLE] = f"after_commit=kill@{count}"
    server.start()
    with pytest.raises(grpc.RpcError):
        connect(server).context.Compact(ask, timeout=30)
    del server.env[VARIABLE]
    server.restart()
    return ask


def states(server: Server, ask: context_pb2.CompactRequest) -> list[int]:
    recovered = connect(server).context.Recover(context_pb2.RecoverRequest(session=ask.session), timeout=30)
    return [each.state for each in recovered.attempts]


@pytest.mark.parametrize("form", FORMATS)
def test_killed_when_reserved_and_not_dispatched_is_run_again_under_its_id(server: Server, model: ModelServer, form: str) -> None:
    made = over_limit(server, form)
    ask = killed_after_commit(server, made, 1)
    assert model.request_count == 0
    assert states(server, ask) == [context_pb2.ATTEMPT_STATE_RESERVED]
    with pytest.raises(grpc.RpcError) as refused:
        finish = context_pb2.FinishCompactRequest(session=ask.session, attempt_id="r", text=NOTES.encode())
        connect(server).context.FinishCompact(finish, timeout=30)
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    again = connect(server).context.Compact(ask, timeout=30)
    assert again.outcome == COMMITTED
    assert again.checkpoint.summarizer == "openai/1"
    assert model.request_count == 1
    assert states(server, ask) == []
    assert connect(server).context.Compact(ask, timeout=30).checkpoint == again.checkpoint
    assert model.request_count == 1


def test_killed_when_dispatched_and_not_yet_sent_is_unknown_and_never_asked(server: Server, model: ModelServer) -> None:
    made = over_limit(server, "openai-chat")
    ask = killed_after_commit(server, made, 2)
    for _ in range(2):
        assert connect(server).context.Compact(ask, timeout=30).outcome == context_pb2.COMPACT_OUTCOME_UNKNOWN
    assert model.request_count == 0
    assert states(server, ask) == [context_pb2.ATTEMPT_STATE_UNKNOWN]


def test_killed_while_the_model_is_asked_is_unknown_and_no_new_request_is_made(server: Server, model: ModelServer) -> None:
    made = over_limit(server, "openai-chat")
    model.hold()
    ask = request(made, context_pb2.SUMMARIZER_MODEL)

    def compact() -> None:
        with pytest.raises(grpc.RpcError):
            connect(server).context.Compact(ask, timeout=30)

    thread = threading.Thread(target=compact)
    thread.start()
    model.wait_for_requests(1)
    process = server.process
    assert process is not None
    process.kill()
    thread.join(30)
    model.release()
    server.restart()
    for _ in range(3):
        assert connect(server).context.Compact(ask, timeout=30).outcome == context_pb2.COMPACT_OUTCOME_UNKNOWN
    assert model.request_count == 1
    recovered = connect(server).context.Recover(context_pb2.RecoverRequest(session=ask.session), timeout=30)
    assert [each.state for each in recovered.attempts] == [context_pb2.ATTEMPT_STATE_UNKNOWN]


@pytest.mark.parametrize("form", FORMATS)
def test_killed_while_the_caller_is_asked_stays_open_and_can_be_finished(server: Server, form: str) -> None:
    made = over_limit(server, form)
    ask = request(made, context_pb2.SUMMARIZER_CALLER)
    planned = connect(server).context.Compact(ask, timeout=30)
    assert planned.outcome == PLANNED
    server.restart()
    again = connect(server).context.Compact(ask, timeout=30)
    assert (again.outcome, again.summary_request) == (PLANNED, planned.summary_request)
    server.restart()
    finish = context_pb2.FinishCompactRequest(session=ask.session, attempt_id="r", text=NOTES.encode())
    done = connect(server).context.FinishCompact(finish, timeout=30).compact
    assert done.outcome == COMMITTED
    server.restart()
    assert connect(server).context.Compact(ask, timeout=30).checkpoint == done.checkpoint
