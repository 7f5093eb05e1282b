"""Converse, Gemini and Responses: replies, usage, requests for a summary, stubs, tools, rules."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fastpath import scan, splice
from sidecar.core.errors import MalformedBodyError
from sidecar.core.replies import Stop
from sidecar.core.types import Format, ReductionKind, UsageFigures
from sidecar.formats import ADAPTERS
from sidecar.formats.base import Adapter
from sidecar.formats.spelling import PLAIN
from tests.helpers.bodies import history
from tests.helpers.sdk_types import sdk_violations

CONVERSE, GEMINI, RESPONSES = (ADAPTERS[format] for format in (Format.BEDROCK_CONVERSE, Format.GEMINI, Format.OPENAI_RESPONSES))
NEW = pytest.mark.parametrize("adapter", [CONVERSE, GEMINI, RESPONSES], ids=lambda adapter: adapter.name)


def dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def rules(adapter: Adapter, body: Any) -> list[str]:
    return [found.rule for found in adapter.check(scan(dump(body), adapter.grammar))]


# Requests for a summary


@NEW
@pytest.mark.parametrize("user", ["u", 'quote " \\ \n', "\ud800 lone", "漢字 🙂"])
def test_summary_request_is_valid_and_holds_nothing_of_the_history(adapter: Adapter, user: str) -> None:
    body = history(adapter.name).user("secret words").step("secret result").body()
    request = adapter.summary_request(body, "be brief", user, 700)
    value = json.loads(request)
    assert sdk_violations(adapter.name, value) == set()
    assert adapter.check(scan(request, adapter.grammar)) == []
    assert b"secret" not in request and b"read_file" not in request
    assert value.get("model", value.get("modelId")) in ("claude", "gemini", "gpt-5")
    assert request.count(b"700") == 1


def test_summary_request_takes_the_sessions_own_larger_limit_over() -> None:
    given = {
        "modelId": "m",
        "inferenceConfig": {"maxTokens": 4_000},
        "guardrailConfig": {"guardrailIdentifier": "g"},
        "messages": [],
    }
    value = json.loads(CONVERSE.summary_request(dump(given), "s", "u", 700))
    assert value["inferenceConfig"] == {"maxTokens": 4_000}
    assert value["guardrailConfig"] == {"guardrailIdentifier": "g"}
    given = {"generationConfig": {"max_output_tokens": 3_000}, "safety_settings": [], "contents": []}
    value = json.loads(GEMINI.summary_request(dump(given), "s", "u", 700))
    assert value["generationConfig"] == {"maxOutputTokens": 3_000}
    value = json.loads(RESPONSES.summary_request(b'{"input":"x","store":false,"max_output_tokens":3}', "s", "u", 4))
    assert (value["max_output_tokens"], value["store"]) == (16, False)


# Replies and usage

REPLIES: list[tuple[Adapter, Any, str, Stop, bool]] = [
    (
        CONVERSE,
        {"output": {"message": {"content": [{"text": "a"}, {"text": "b"}]}}, "stopReason": "end_turn"},
        "ab",
        Stop.END,
        False,
    ),
    (CONVERSE, {"output": {"message": {"content": [{"toolUse": {}}]}}, "stopReason": "tool_use"}, "", Stop.CALL, True),
    (CONVERSE, {"output": {"message": {"content": []}}, "stopReason": "guardrail_intervened"}, "", Stop.REFUSED, False),
    (CONVERSE, {"output": {"message": {"content": [{"text": "a"}]}}, "stopReason": "max_tokens"}, "a", Stop.LENGTH, False),
    (
        CONVERSE,
        {"output": {"message": {"content": [{"reasoningContent": {"text": "x"}}, {"text": "a"}]}}},
        "a",
        Stop.UNKNOWN,
        False,
    ),
    (
        GEMINI,
        {"candidates": [{"content": {"parts": [{"text": "a"}, {"text": "b"}]}, "finishReason": "STOP"}]},
        "ab",
        Stop.END,
        False,
    ),
    (
        GEMINI,
        {"candidates": [{"content": {"parts": [{"text": "hm", "thought": True}, {"text": "a"}]}, "finish_reason": "MAX_TOKENS"}]},
        "a",
        Stop.LENGTH,
        False,
    ),
    (
        GEMINI,
        {"candidates": [{"content": {"parts": [{"functionCall": {"name": "x"}}]}, "finishReason": "STOP"}]},
        "",
        Stop.END,
        True,
    ),
    (GEMINI, {"candidates": [{"finishReason": "SAFETY"}]}, "", Stop.REFUSED, False),
    (GEMINI, {"promptFeedback": {"blockReason": "OTHER"}}, "", Stop.REFUSED, False),
    (
        RESPONSES,
        {
            "status": "completed",
            "output": [{"type": "reasoning"}, {"type": "message", "content": [{"type": "output_text", "text": "a"}]}],
        },
        "a",
        Stop.END,
        False,
    ),
    (RESPONSES, {"status": "completed", "output": [{"type": "function_call"}]}, "", Stop.CALL, True),
    (
        RESPONSES,
        {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": []},
        "",
        Stop.LENGTH,
        False,
    ),
    (
        RESPONSES,
        {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}, "output": []},
        "",
        Stop.REFUSED,
        False,
    ),
    (
        RESPONSES,
        {"status": "completed", "output": [{"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}]},
        "",
        Stop.REFUSED,
        False,
    ),
]


@pytest.mark.parametrize(("adapter", "reply", "text", "stop", "has_calls"), REPLIES)
def test_read_reply(adapter: Adapter, reply: Any, text: str, stop: Stop, has_calls: bool) -> None:
    found = adapter.read_reply(dump(reply))
    assert (found.text, found.stop, found.has_calls) == (text, stop, has_calls)


@NEW
@pytest.mark.parametrize(
    "reply", [{}, [], "x", {"error": {"message": "no"}}, {"output": 5}, {"candidates": {}}, {"status": "failed", "output": []}]
)
def test_read_reply_of_what_is_no_reply_is_an_error(adapter: Adapter, reply: Any) -> None:
    with pytest.raises(MalformedBodyError):
        adapter.read_reply(dump(reply))


@pytest.mark.parametrize(
    ("adapter", "usage", "expected"),
    [
        (CONVERSE, {"inputTokens": 5, "cacheReadInputTokens": 70, "cacheWriteInputTokens": 20, "outputTokens": 3}, (95, 70, 3)),
        (CONVERSE, {"inputTokens": 5, "outputTokens": 3, "totalTokens": 8}, (5, None, 3)),
        (
            GEMINI,
            {"promptTokenCount": 90, "cachedContentTokenCount": 70, "candidatesTokenCount": 3, "thoughtsTokenCount": 4},
            (90, 70, 7),
        ),
        (GEMINI, {"prompt_token_count": 90, "tool_use_prompt_token_count": 10, "candidates_token_count": 3}, (100, None, 3)),
        (RESPONSES, {"input_tokens": 90, "input_tokens_details": {"cached_tokens": 70}, "output_tokens": 3}, (90, 70, 3)),
    ],
)
def test_usage_is_read_by_the_providers_rules(adapter: Adapter, usage: Any, expected: tuple[int, int | None, int]) -> None:
    assert adapter.usage(dump(usage)) == UsageFigures(*expected)


# Stubs and tools


def test_stub_keeps_the_kind_of_what_it_replaces() -> None:
    def stub(adapter: Adapter, kind: ReductionKind, value: Any) -> Any:
        made = adapter.stub(kind, dump(value), "gone", PLAIN)
        return None if made is None else json.loads(made)

    result, media = ReductionKind.RESULT, ReductionKind.MEDIA
    assert stub(GEMINI, result, {"error": "long", "code": 7}) == {"error": "gone"}
    assert stub(GEMINI, result, {"rows": [1]}) == {"output": "gone"}
    assert stub(GEMINI, media, {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}) == {"text": "gone"}
    assert stub(GEMINI, media, {"mime_type": "image/png", "data": "QUJD"}) == {"mime_type": "text/plain", "data": "Z29uZQ=="}
    assert stub(CONVERSE, result, [{"json": {"a": 1}}]) == [{"text": "gone"}]
    assert stub(CONVERSE, media, {"image": {"format": "png"}}) == {"text": "gone"}
    assert stub(RESPONSES, result, [{"type": "input_text", "text": "x"}]) == [{"type": "input_text", "text": "gone"}]
    assert stub(RESPONSES, result, [{"stdout": "x", "outcome": {}}]) is None  # what a shell printed is no list of parts
    assert stub(RESPONSES, media, {"type": "computer_screenshot", "image_url": "data:"}) is None
    assert stub(RESPONSES, ReductionKind.ARGUMENTS, '{"a":1}') == '{"_moved_out":"gone"}'
    assert stub(CONVERSE, ReductionKind.ARGUMENTS, {"a": 1}) == {"_moved_out": "gone"}


@pytest.mark.parametrize(
    ("adapter", "body", "expected"),
    [
        (CONVERSE, {"messages": []}, ["trimtab_read"]),
        (CONVERSE, {"messages": [], "toolConfig": None}, ["trimtab_read"]),
        (CONVERSE, {"messages": [], "toolConfig": {"toolChoice": {"auto": {}}}}, ["trimtab_read"]),
        (
            CONVERSE,
            {"messages": [], "toolConfig": {"tools": [{"toolSpec": {"name": "a"}}, {"cachePoint": {}}]}},
            ["a", "trimtab_read"],
        ),
        (CONVERSE, {"messages": [], "toolConfig": "x"}, None),
        (GEMINI, {"contents": []}, ["trimtab_read"]),
        (GEMINI, {"contents": [], "tools": [{"googleSearch": {}}]}, None),
        (
            GEMINI,
            {"contents": [], "tools": [{"function_declarations": [{"name": "a"}]}, {"googleSearch": {}}]},
            ["a", "trimtab_read"],
        ),
        (GEMINI, {"contents": [], "cachedContent": "c"}, None),
        (GEMINI, {"contents": [], "toolConfig": {"functionCallingConfig": {"mode": "NONE"}}}, None),
        (GEMINI, {"contents": [], "tool_config": {"function_calling_config": {"allowed_function_names": ["a"]}}}, None),
        (RESPONSES, {"input": "x"}, ["trimtab_read"]),
        (RESPONSES, {"input": [], "tools": [{"type": "function", "name": "a"}, {"type": "web_search"}]}, ["a", "trimtab_read"]),
        (RESPONSES, {"input": [], "tool_choice": "none"}, None),
        (RESPONSES, {"input": [], "tool_choice": {"type": "allowed_tools", "tools": []}}, None),
    ],
)
def test_inject_tool(adapter: Adapter, body: Any, expected: list[str] | None) -> None:
    raw = dump(body)
    edit = adapter.inject_tool(scan(raw, adapter.grammar))
    if expected is None:
        assert edit is None
        return
    assert edit is not None
    made = splice(raw, [edit])
    assert [name.decode() for name in adapter.tool_names(scan(made, adapter.grammar))] == expected
    again = adapter.inject_tool(scan(made, adapter.grammar))
    assert again is not None and again.data == b""


# Rules


def turn(*blocks: Any, role: str = "user") -> Any:
    return {"role": role, "content": list(blocks)}


USE = {"toolUse": {"toolUseId": "a", "name": "x", "input": {}}}
RESULT = {"toolResult": {"toolUseId": "a", "content": [{"text": "ok"}]}}
TOOLS = {"tools": [{"toolSpec": {"name": "x", "inputSchema": {"json": {}}}}]}
POINT = {"cachePoint": {"type": "default"}}


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([turn({"text": "a"}), turn(USE, role="assistant"), turn(RESULT, {"text": "b"})], []),
        ([turn({"text": "a"}), turn({"text": "b"})], ["ROLES_NOT_ALTERNATING"]),
        ([turn({"text": "a"}, role="assistant")], ["FIRST_ITEM_NOT_USER"]),
        ([turn({"text": " "})], ["TEXT_EMPTY"]),
        ([turn()], ["CONTENT_EMPTY"]),
        ([{"role": "user", "content": "a"}], ["CONTENT_TYPE"]),
        ([turn(POINT, {"text": "a"})], ["MARKER_FIRST"]),
        (
            [turn({"text": "a"}), turn({"reasoningContent": {}}, POINT, {"text": "b"}, role="assistant")],
            ["MARKER_AFTER_REASONING"],
        ),
        ([turn({"text": "a"}), turn(USE, role="assistant"), turn({"text": "b"}, RESULT)], ["RESULT_AFTER_TEXT"]),
        ([turn({"text": "a"}), turn(USE, role="assistant"), turn({"text": "b"})], ["CALL_WITHOUT_RESULT"]),
        ([turn({"text": "a"}), turn(USE, role="assistant")], ["CALL_OPEN"]),
        ([turn(RESULT)], ["RESULT_WITHOUT_CALL"]),
        ([turn(*[block for n in range(5) for block in ({"text": str(n)}, POINT)])], ["MARKERS_TOO_MANY"]),
    ],
)
def test_converse_rules(messages: Any, expected: list[str]) -> None:
    assert rules(CONVERSE, {"messages": messages, "toolConfig": TOOLS}) == expected


def test_converse_calls_without_a_tool_configuration_are_a_fault() -> None:
    messages = [turn({"text": "a"}), turn(USE, role="assistant"), turn(RESULT)]
    assert rules(CONVERSE, {"messages": messages}) == ["TOOLS_MISSING"]
    assert rules(CONVERSE, {"messages": messages[:1]}) == []


def test_converse_thinking_of_an_open_loop_stands_first() -> None:
    messages = [turn({"text": "a"}), turn(USE, role="assistant"), turn(RESULT)]
    for key in ("thinking", "reasoning_config"):
        fields = {key: {"type": "enabled", "budget_tokens": 1024}}
        body = {"messages": messages, "toolConfig": TOOLS, "additionalModelRequestFields": fields}
        assert rules(CONVERSE, body) == ["THINKING_NOT_FIRST"]


def part(role: str, *parts: Any) -> Any:
    return {"role": role, "parts": list(parts)}


CALL = {"functionCall": {"name": "x", "args": {}}}
ANSWER = {"functionResponse": {"id": "made-up", "name": "x", "response": {"output": "ok"}}}


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        ([part("user", {"text": "a"}), part("model", CALL, CALL), part("user", ANSWER, ANSWER)], []),
        ([part("user", {"text": "a"}), part("model", CALL, CALL), part("user", ANSWER)], ["CALL_OPEN"]),
        ([part("user", {"text": "a"}), part("model", CALL), part("function", ANSWER)], []),
        ([part("model", CALL), part("user", ANSWER)], ["CALL_NOT_AFTER_USER"]),
        ([part("user", {"text": "a"}), part("model", {"text": "b"}), part("model", CALL)], ["CALL_NOT_AFTER_USER", "CALL_OPEN"]),
        ([part("user")], ["CONTENT_EMPTY"]),
        ([{"role": "user"}], ["CONTENT_TYPE"]),
        ([part("robot", {"text": "a"})], ["ROLE_UNKNOWN"]),
        ([{"parts": [{"text": "a"}]}], []),
        (
            [part("user", {"text": "a"}), part("model", {"functionCall": {"name": "x", "args": []}})],
            ["ARGUMENTS_TYPE", "CALL_OPEN"],
        ),
        ([part("user", {"text": "a"}), part("model", {"functionCall": {"name": "x"}})], ["CALL_OPEN"]),
    ],
)
def test_gemini_rules(contents: Any, expected: list[str]) -> None:
    assert sorted(rules(GEMINI, {"contents": contents})) == sorted(expected)


CALLED = {"type": "function_call", "call_id": "a", "name": "x", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "a", "output": "ok"}
THOUGHT = {"type": "reasoning", "id": "r", "summary": []}
ASKED = {"role": "user", "content": "a"}


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([ASKED, THOUGHT, CALLED, OUTPUT], []),
        ([ASKED, CALLED, ASKED, OUTPUT], []),  # words may stand between
        ([ASKED, CALLED, OUTPUT, CALLED, OUTPUT], []),
        ([ASKED, CALLED, ASKED], ["CALL_WITHOUT_RESULT"]),
        ([ASKED, CALLED], ["CALL_OPEN"]),
        ([OUTPUT], ["RESULT_WITHOUT_CALL"]),
        ([CALLED, OUTPUT, OUTPUT], ["RESULT_REPEATED"]),
        ([ASKED, THOUGHT, ASKED], ["REASONING_ALONE"]),
        ([ASKED, THOUGHT], []),
        ([CALLED | {"arguments": {}}, OUTPUT], ["ARGUMENTS_TYPE"]),
        ([CALLED, OUTPUT | {"output": None}], ["RESULT_TYPE"]),
        ([{"type": "message", "role": "robot", "content": "x"}], ["ROLE_UNKNOWN"]),
        ([{"id": "x"}], ["ROLE_UNKNOWN"]),
        ([{"type": "web_search_call", "id": "x"}, {"type": "something_new"}], []),
        ("hello", []),
    ],
)
def test_responses_rules(items: Any, expected: list[str]) -> None:
    assert rules(RESPONSES, {"input": items}) == expected
