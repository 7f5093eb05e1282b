"""Requests for a summary: valid by themselves, and nothing of the session in them but where they go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath import scan
from sidecar.formats import detect
from sidecar.formats.base import Adapter
from sidecar.formats.requests import MOST_OWN_TOKENS
from tests.formats.build import CHAT, MESSAGES, asked, dump, text
from tests.helpers.corpus import bodies
from tests.helpers.sdk_types import sdk_violations

BOTH = pytest.mark.parametrize("adapter", [CHAT, MESSAGES], ids=lambda adapter: adapter.name)


def requested(adapter: Adapter, envelope: dict[str, Any] | bytes, limit: int = 2000) -> dict[str, Any]:
    body = envelope if isinstance(envelope, bytes) else dump(envelope)
    found: dict[str, Any] = json.loads(adapter.summary_request(body, "how", "what", limit))
    return found


CHAT_MESSAGES = [{"role": "system", "content": "how"}, {"role": "user", "content": "what"}]


def test_summary_request_chat_holds_model_and_texts_only() -> None:
    envelope = {
        "model": "gpt",
        "messages": [asked("secret")],
        "tools": [{"type": "function", "function": {"name": "x"}}],
        "tool_choice": "required",
        "temperature": 1.5,
        "stream": True,
        "stream_options": {"include_usage": True},
        "response_format": {"type": "json_object"},
        "reasoning_effort": "high",
        "thinking": {"type": "enabled"},
        "stop": ["\n"],
        "n": 3,
        "logprobs": True,
    }
    assert requested(CHAT, envelope) == {"model": "gpt", "messages": CHAT_MESSAGES}


def test_summary_request_messages_holds_model_limit_and_texts_only() -> None:
    envelope = {
        "model": "claude",
        "max_tokens": 1000,
        "system": [text("secret")],
        "messages": [asked("secret")],
        "tools": [{"name": "x", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "any"},
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "stop_sequences": ["\n"],
        "stream": True,
        "temperature": 1,
        "mcp_servers": [],
        "context_management": {"edits": []},
        "container": "c",
        "cache_control": {"type": "ephemeral"},
    }
    assert requested(MESSAGES, envelope) == {
        "model": "claude",
        "max_tokens": 2000,
        "system": "how",
        "messages": [{"role": "user", "content": "what"}],
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        ({"max_tokens": 100}, {"max_tokens": 2000}),
        ({"max_completion_tokens": 100}, {"max_completion_tokens": 2000}),
        ({"max_tokens": 100, "max_completion_tokens": None}, {"max_tokens": 2000}),
        ({"max_tokens": None}, {}),
        ({"max_tokens": 5, "max_completion_tokens": 5}, {"max_completion_tokens": 2000}),
        ({"max_completion_tokens": 4000}, {"max_completion_tokens": 4000}),
        ({"max_completion_tokens": 64_000}, {"max_completion_tokens": MOST_OWN_TOKENS}),
        ({"max_completion_tokens": "9000"}, {"max_completion_tokens": 2000}),
        ({"max_completion_tokens": -1}, {"max_completion_tokens": 2000}),
        ({"max_completion_tokens": 1.5}, {"max_completion_tokens": 2000}),
        ({"max_completion_tokens": 10**400}, {"max_completion_tokens": 2000}),
    ],
)
def test_summary_request_chat_limit_goes_by_the_name_that_the_session_uses(given: Any, expected: Any) -> None:
    assert requested(CHAT, {"model": "m", "messages": [], **given}) == {"model": "m", "messages": CHAT_MESSAGES, **expected}


@pytest.mark.parametrize(("own", "expected"), [(None, 2000), (1, 2000), (3000, 3000), (100_000, MOST_OWN_TOKENS)])
def test_summary_request_messages_always_has_a_limit(own: int | None, expected: int) -> None:
    assert requested(MESSAGES, {"model": "m", "messages": [], "max_tokens": own})["max_tokens"] == expected


@BOTH
def test_summary_request_limit_over_the_cap_is_kept(adapter: Adapter) -> None:
    assert requested(adapter, {"model": "m", "messages": [], "max_tokens": 9}, 20_000)["max_tokens"] == 20_000


@BOTH
def test_summary_request_body_without_model_leaves_it_out(adapter: Adapter) -> None:
    assert "model" not in requested(adapter, {"messages": [asked()]})
    assert "model" not in requested(adapter, {"model": None, "messages": [asked()]})


@pytest.mark.parametrize(
    ("adapter", "members"),
    [
        (CHAT, {"provider": {"data_collection": "deny"}, "models": ["a", "b"], "user": "u", "safety_identifier": "s"}),
        (CHAT, {"store": True, "metadata": {"team": "t"}}),
        (MESSAGES, {"metadata": {"user_id": "u"}, "anthropic_version": "bedrock-2023-05-31"}),
        (MESSAGES, {"inference_geo": "eu", "provider": {"zdr": True}, "models": ["a"]}),
    ],
)
def test_summary_request_takes_over_what_says_where_it_goes(adapter: Adapter, members: dict[str, Any]) -> None:
    found = requested(adapter, {"messages": [], **members})
    assert {key: found.get(key) for key in members} == members
    assert "user" in members or "user" not in found


@BOTH
def test_summary_request_members_are_copied_byte_for_byte_the_last_counts(adapter: Adapter) -> None:
    envelope = b'{"model":"old","messages":[{"model":"inner"}],"metadata":{ "n" : 1.0 },"model":"\\u006eew"}'
    found = adapter.summary_request(envelope, "how", "what", 100)
    assert b'"model":"\\u006eew"' in found
    assert b'"metadata":{ "n" : 1.0 }' in found
    assert found.count(b'"model"') == 1


texts = st.text(st.characters(exclude_categories=[])).filter(lambda told: told.strip() != "")


@BOTH
@given(texts, texts, st.integers(1, 10**6))
def test_summary_request_any_text_is_a_valid_request(adapter: Adapter, system: str, user: str, limit: int) -> None:
    body = adapter.summary_request(dump({"model": "m", "messages": [asked()], "max_tokens": 5}), system, user, limit)
    found = json.loads(body)
    assert adapter.check(scan(body, adapter.grammar)) == []
    assert sdk_violations(adapter.name, found) == set()
    clean_system, clean_user = (told.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for told in (system, user))
    told = found["messages"][0]["content"] if adapter is CHAT else found["system"]
    assert told == clean_system
    assert found["messages"][-1] == {"role": "user", "content": clean_user}
    assert b"\\ud" not in body.replace(b"\\\\", b"")


RECORDED = [pytest.param(adapter, path, id=path.name) for adapter in (CHAT, MESSAGES) for path in bodies(adapter.name)]


@pytest.mark.skipif(not RECORDED, reason="no recorded bodies here")
@pytest.mark.parametrize(("adapter", "path"), RECORDED)
def test_summary_request_of_a_recorded_body_is_valid_and_small(adapter: Adapter, path: Path) -> None:
    envelope = path.read_bytes()
    body = adapter.summary_request(envelope, "how", "what", 2000)
    assert adapter.check(scan(body, adapter.grammar)) == []
    assert detect(body) == adapter.format
    assert len(body) < 600
    own = json.loads(envelope)
    found = json.loads(body)
    assert found.get("model") == own.get("model")
    violations = sdk_violations(adapter.name, found)
    assert violations - sdk_violations(adapter.name, own) == set()
