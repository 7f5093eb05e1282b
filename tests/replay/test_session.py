"""The generated session: same bytes from the same seed, large enough, and what a provider would take."""

from __future__ import annotations

import ast
import hashlib
import json
from random import Random
from typing import Any

import pytest

from sidecar.demo.dialects import Answer, Results, Says
from sidecar.demo.project import build_project
from sidecar.demo.script import play
from sidecar.demo.session import MIN_BYTES, MIN_CALLS, DemoSession, build_session, main

FORMATS = ("anthropic-messages", "openai-chat")


@pytest.fixture(scope="module", params=FORMATS)
def session(request: pytest.FixtureRequest) -> DemoSession:
    """The default session in each dialect."""
    return build_session(format=request.param)


def test_build_project_from_a_seed_parses_and_repeats() -> None:
    files = build_project(Random(3))
    sources = [text for path, text in files.items() if path.endswith(".py")]
    assert len(sources) > 30
    for text in sources:
        ast.parse(text)
    assert files == build_project(Random(3))
    assert files != build_project(Random(4))
    json.loads(files["data/ports.json"])


def test_build_session_by_default_is_long_and_large(session: DemoSession) -> None:
    assert session.call_count >= MIN_CALLS == 150
    assert len(session.body()) > MIN_BYTES == 2 * 1024 * 1024
    assert session.head + b",".join(session.items) + session.tail == session.body()


def test_build_session_from_the_same_seed_gives_the_same_bytes(session: DemoSession) -> None:
    assert build_session(format=session.format) == session
    assert build_session(8, format=session.format) != session


def test_build_session_on_any_machine_gives_these_bytes() -> None:
    small = build_session(1, min_calls=12, min_bytes=100_000)
    assert hashlib.sha256(small.body()).hexdigest() == "c93c063d03b134c720a00c04899db0ff20988de758597580c7af79c1c6313c77"


def test_build_session_in_an_unknown_dialect_is_refused() -> None:
    with pytest.raises(ValueError, match="openai-chat"):
        build_session(format="gemini")


def test_play_holds_every_kind_of_event() -> None:
    events = []
    pictures = 0
    for event in play(7):
        events.append(event)
        pictures += isinstance(event, Results) and any(outcome.png for _, outcome in event.outcomes)
        if pictures:
            break
    answers = [event for event in events if isinstance(event, Answer)]
    outcomes = [outcome for event in events if isinstance(event, Results) for _, outcome in event.outcomes]
    assert sum(isinstance(event, Says) for event in events) > 2
    assert any(len(answer.calls) > 1 for answer in answers)
    assert any(answer.thinking and answer.signature for answer in answers)
    assert any(not answer.calls for answer in answers)
    assert any(outcome.is_error for outcome in outcomes)
    assert any("\x1b[" in outcome.text and "⚓" in outcome.text and "\\" in outcome.text for outcome in outcomes)
    assert max(len(outcome.text) for outcome in outcomes) > 64 * 1024


def test_messages_session_answers_every_call_in_the_next_item() -> None:
    messages = json.loads(build_session().body())["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * (len(messages) // 2) + ["user"] * (
        len(messages) % 2
    )
    images = 0
    for message, following in zip(messages[1::2], messages[2::2], strict=True):
        calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        results = [block["tool_use_id"] for block in following["content"] if block["type"] == "tool_result"]
        assert calls == results
        images += json.dumps(following).count('"type": "image"')
    assert images == 1
    assert "tool_result" in json.dumps(messages[-1])


def test_chat_session_answers_every_call_directly() -> None:
    messages: list[dict[str, Any]] = json.loads(build_session(format="openai-chat").body())["messages"]
    open_ids: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == open_ids.pop(0)
            continue
        assert open_ids == []
        open_ids = [call["id"] for call in message.get("tool_calls", [])]
    assert open_ids == []
    assert [message["role"] for message in messages[:2]] == ["system", "user"]


def test_main_writes_the_body(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["--seed", "5", "--min-calls", "4", "--min-bytes", "1000"]) == 0
    assert capfdbinary.readouterr().out == build_session(5, min_calls=4, min_bytes=1000).body()
