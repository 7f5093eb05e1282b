"""A full store: what needs no new record is answered, what needs one is refused, and room made is room had, without a restart."""

from __future__ import annotations

import time
from collections.abc import Iterator

import grpc
import pytest

from tests.helpers.bodies import FORMATS, history, words
from tests.helpers.client import NONE, Agent, Sidecar, notes, tight
from tests.helpers.server import Server

QUOTA_BYTES = 4 * 1024 * 1024
LIMITS = tight(40_000, 20_000)


@pytest.fixture
def small() -> Iterator[Server]:
    """A sidecar whose store takes 4 MiB."""
    with Server("--quota-bytes", str(QUOTA_BYTES)) as running:
        yield running


def fill(sidecar: Sidecar, format_name: str) -> list[str]:
    """Journal text that nobody needs until not even a small item finds room."""
    names: list[str] = []
    for size_bytes in (60_000, 8_000, 1_000, 100):
        for index in range(120):
            names.append(f"filler {format_name} {size_bytes} {index}")
            run = history(format_name).user(words(size_bytes, f"fill {index}"))
            answer = sidecar.fit(names[-1], run.body(), format=format_name, read_back=NONE, limits=tight(1_024))
            if "STORE_FULL" in notes(answer):
                assert not answer.journal_durable
                break
        else:
            raise AssertionError(f"120 sessions of {size_bytes} bytes went into a store of {QUOTA_BYTES}")
    return names


@pytest.mark.parametrize("format_name", FORMATS)
def test_fit_store_full_answers_refuses_and_recovers(small: Server, format_name: str) -> None:
    assert small.channel is not None
    sidecar = Sidecar(small.channel)
    agent = Agent(sidecar, format_name, LIMITS)
    run = history(format_name).user("go").steps(16, 3_000)
    sent, count = agent.fit(run.body()), agent.count
    assert count > 0
    before = sidecar.session(agent.session_id)
    fillers = fill(sidecar, format_name)

    assert agent.fit(run.body()) == sent
    grown = run.copy().steps(2, 900)
    answer = agent.fit(grown.body())
    for _ in range(3):  # a reply that waits for nothing learns of it with the next one
        time.sleep(0.2)
        answer = agent.fit(grown.body())
    assert answer.startswith(sent[: sent.rindex(b"]")][:-200])
    assert agent.count == count
    assert "STORE_FULL" in notes(agent.response)
    assert not agent.response.journal_durable

    needy = run.copy().step(words(60_000, "needs a record"))
    failure = sidecar.failure(agent.session_id, needy.body(), format=format_name)
    assert failure.code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (failure.reason, failure.trailer) == ("STORE_FULL", "STORE_FULL")
    after = sidecar.session(agent.session_id)
    assert (after.revision, after.artifact_count, after.stored_bytes) == (
        before.revision,
        before.artifact_count,
        before.stored_bytes,
    )
    for reduction in agent.response.reductions:
        assert sidecar.read(agent.session_id, reduction.artifact_id)

    for name in fillers[: len(fillers) // 2]:
        sidecar.delete(name)
    agent.fit(needy.body())
    assert agent.count == count + 1
    assert agent.response.journal_durable
    assert "STORE_FULL" not in notes(agent.response)
    assert agent.fit(needy.body()) == agent.sent


def test_fit_store_full_from_the_start_new_session_answers(small: Server) -> None:
    assert small.channel is not None
    sidecar = Sidecar(small.channel)
    fillers = fill(sidecar, "openai-chat")
    agent = Agent(sidecar, "openai-chat", LIMITS)
    body = history("openai-chat").user("go").steps(2, 900).body()
    assert agent.fit(body, read_back=NONE, limits=None) == body
    assert not agent.response.journal_durable
    for name in fillers:
        sidecar.delete(name)
    assert agent.fit(body, read_back=NONE, limits=None) == body
    assert "STORE_FULL" not in notes(agent.response)
