"""Replies to summary requests, as providers and gateways really spell them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.types import Message
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion

from sidecar.core.errors import MalformedBodyError
from sidecar.core.replies import ModelReply, Stop
from sidecar.core.types import UsageFigures
from sidecar.formats.base import Adapter
from tests.formats.build import CHAT, MESSAGES, call, dump, text

BOTH = pytest.mark.parametrize("adapter", [CHAT, MESSAGES], ids=lambda adapter: adapter.name)
SECRET = "canary-7f3a"


def completion(message: Any = None, finish: Any = "stop", **more: Any) -> dict[str, Any]:
    told = {"role": "assistant", "content": "the summary"} if message is None else message
    return {"id": "c", "object": "chat.completion", "choices": [{"index": 0, "message": told, "finish_reason": finish}], **more}


def answer(content: Any = None, stop: Any = "end_turn", **more: Any) -> dict[str, Any]:
    told = [text("the summary")] if content is None else content
    return {"id": "m", "type": "message", "role": "assistant", "content": told, "stop_reason": stop, **more}


def chat(message: Any = None, finish: Any = "stop", **more: Any) -> ModelReply:
    return CHAT.read_reply(dump(completion(message, finish, **more)))


def messages(content: Any = None, stop: Any = "end_turn", **more: Any) -> ModelReply:
    return MESSAGES.read_reply(dump(answer(content, stop, **more)))


# openai-chat


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a", "a"),
        ("", ""),
        (None, ""),
        ([], ""),
        ([text("a"), text("b")], "ab"),
        ([{"type": "thinking", "thinking": [text("no")]}, text("a")], "a"),
        ([{"type": "text"}, {"type": "text", "text": 5}, "x", None, text("a")], "a"),
        ('é \U0001f600 \\ " \n', 'é \U0001f600 \\ " \n'),
    ],
)
def test_read_reply_chat_content_is_its_text(content: Any, expected: str) -> None:
    assert chat({"role": "assistant", "content": content}).text == expected


def test_read_reply_chat_message_without_content_is_empty() -> None:
    assert chat({"role": "assistant"}) == ModelReply(text="", stop=Stop.END)


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        ("stop", Stop.END),
        ("length", Stop.LENGTH),
        ("tool_calls", Stop.CALL),
        ("function_call", Stop.CALL),
        ("content_filter", Stop.REFUSED),
        ("insufficient_system_resource", Stop.LENGTH),
        ("model_length", Stop.LENGTH),
        ("eos", Stop.END),
        ("something new", Stop.UNKNOWN),
        (None, Stop.UNKNOWN),
        (7, Stop.UNKNOWN),
        ([], Stop.UNKNOWN),
    ],
)
def test_read_reply_chat_finish_reason_is_told(finish: Any, expected: Stop) -> None:
    assert chat(finish=finish).stop is expected


def test_read_reply_chat_null_content_cut_off_is_empty_and_cut_off() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 4, "completion_tokens_details": {"reasoning_tokens": 4}}
    reply = chat({"role": "assistant", "content": None}, "length", usage=usage)
    figures = UsageFigures(input_tokens=9, cached_input_tokens=None, output_tokens=4)
    assert reply == ModelReply(text="", stop=Stop.LENGTH, has_calls=False, usage=figures)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, False),
        ({"tool_calls": None, "function_call": None}, False),
        ({"tool_calls": []}, False),
        ({"tool_calls": [ ]}, False),
        ({"tool_calls": [{"id": "a", "type": "function", "function": {"name": "x", "arguments": "{}"}}]}, True),
        ({"function_call": {"name": "x", "arguments": "{}"}}, True),
    ],
)  # fmt: skip
def test_read_reply_chat_calls_are_seen_whatever_the_finish_reason(more: dict[str, Any], expected: bool) -> None:
    assert chat({"role": "assistant", "content": "a", **more}).has_calls is expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"content": None, "refusal": "I cannot"}, Stop.REFUSED),
        ({"content": [{"type": "refusal", "refusal": "no"}]}, Stop.REFUSED),
        ({"content": "a", "refusal": None}, Stop.END),
        ({"content": "a", "refusal": ""}, Stop.END),
    ],
)
def test_read_reply_chat_refusal_is_told(message: dict[str, Any], expected: Stop) -> None:
    assert chat(message).stop is expected


def test_read_reply_chat_reasoning_is_left_out() -> None:
    assert chat({"content": "a", "reasoning_content": "no", "reasoning": "no", "reasoning_details": [text("no")]}).text == "a"


def test_read_reply_chat_first_choice_counts() -> None:
    both = [{"message": {"content": told}, "finish_reason": "stop"} for told in ("a", "b")]
    assert CHAT.read_reply(dump({"choices": both})).text == "a"


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}},
            UsageFigures(input_tokens=10, cached_input_tokens=4, output_tokens=3),
        ),
        (None, None),
        ([], None),
        ({"prompt_tokens": -1}, None),
        ({"prompt_tokens": "ten"}, None),
        ({}, UsageFigures(input_tokens=None, cached_input_tokens=None, output_tokens=None)),
    ],
)
def test_read_reply_chat_usage_is_read_or_not_told(usage: Any, expected: UsageFigures | None) -> None:
    assert chat(usage=usage) == ModelReply(text="the summary", stop=Stop.END, usage=expected)


# anthropic-messages


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([text("a")], "a"),
        ([text("a"), text("b")], "ab"),
        ([{"type": "thinking", "thinking": "no", "signature": "s"}, {"type": "redacted_thinking", "data": "d"}, text("a")], "a"),
        ([], ""),
        ("a", "a"),
        ([text("a") | {"citations": None}], "a"),
        ([{"type": "hologram", "text": "no"}, text("a")], "a"),
    ],
)
def test_read_reply_messages_content_is_its_text(content: Any, expected: str) -> None:
    assert messages(content).text == expected


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("end_turn", Stop.END),
        ("stop_sequence", Stop.END),
        ("max_tokens", Stop.LENGTH),
        ("model_context_window_exceeded", Stop.LENGTH),
        ("pause_turn", Stop.LENGTH),
        ("tool_use", Stop.CALL),
        ("refusal", Stop.REFUSED),
        ("compaction", Stop.UNKNOWN),
        (None, Stop.UNKNOWN),
        (1, Stop.UNKNOWN),
    ],
)
def test_read_reply_messages_stop_reason_is_told(stop: Any, expected: Stop) -> None:
    assert messages(stop=stop).stop is expected


@pytest.mark.parametrize("kind", ["tool_use", "server_tool_use", "mcp_tool_use"])
def test_read_reply_messages_calls_are_seen_whatever_the_stop_reason(kind: str) -> None:
    assert messages([text("a"), call("x") | {"type": kind}]) == ModelReply(text="a", stop=Stop.END, has_calls=True)


def test_read_reply_messages_usage_is_the_sum() -> None:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": None, "output_tokens": 3}
    assert messages(usage=usage).usage == UsageFigures(input_tokens=12, cached_input_tokens=7, output_tokens=3)
    assert messages(usage={"input_tokens": 0.5}).usage is None


# both


def test_read_reply_what_the_sdks_write_is_read() -> None:
    chat_reply = ChatCompletion.model_validate(completion(created=1, model="m"))
    assert CHAT.read_reply(chat_reply.model_dump_json().encode()) == ModelReply(text="the summary", stop=Stop.END)
    usage = {"input_tokens": 2, "output_tokens": 1}
    message = Message.model_validate(answer(model="m", stop_sequence=None, usage=usage))
    figures = UsageFigures(input_tokens=2, cached_input_tokens=None, output_tokens=1)
    assert MESSAGES.read_reply(message.model_dump_json().encode()) == ModelReply("the summary", Stop.END, usage=figures)


@pytest.mark.parametrize(
    ("adapter", "response"),
    [
        (CHAT, {"error": {"message": SECRET, "type": "server_error"}}),
        (CHAT, {"error": SECRET}),
        (CHAT, completion() | {"error": {"message": SECRET}}),
        (CHAT, {"choices": [], "note": SECRET}),
        (CHAT, {"choices": None, "note": SECRET}),
        (CHAT, {"note": SECRET}),
        (CHAT, {"choices": {"0": SECRET}}),
        (CHAT, {"choices": [SECRET]}),
        (CHAT, {"choices": [{"delta": {"content": SECRET}}]}),
        (CHAT, {"choices": [{"message": SECRET}]}),
        (CHAT, {"choices": [{"message": {"content": {"a": SECRET}}}]}),
        (CHAT, {"choices": [{"message": {"content": SECRET}, "finish_reason": "error"}]}),
        (CHAT, {"choices": [{"message": {"content": SECRET}, "error": {"code": 502}}]}),
        (CHAT, [completion()]),
        (CHAT, SECRET),
        (CHAT, answer([text(SECRET)])),
        (MESSAGES, {"type": "error", "error": {"type": "overloaded_error", "message": SECRET}}),
        (MESSAGES, {"type": "error"}),
        (MESSAGES, answer([text(SECRET)]) | {"type": "error"}),
        (MESSAGES, {"error": {"message": SECRET}}),
        (MESSAGES, {"message": SECRET}),
        (MESSAGES, answer({"a": SECRET})),
        (MESSAGES, answer(5)),
        (MESSAGES, completion({"content": SECRET})),
        (MESSAGES, [answer()]),
    ],
)
def test_read_reply_what_is_no_reply_is_an_error_without_content(adapter: Adapter, response: Any) -> None:
    with pytest.raises(MalformedBodyError) as error:
        adapter.read_reply(dump(response))
    assert SECRET not in str(error.value)
    assert SECRET not in repr(error.value.details)


@pytest.mark.parametrize("response", [b"", b" ", b"null", b"data: {}\n\n", b"\xef\xbb\xbf{}", b"{} {}", b"{}]", b"<html>"])
@BOTH
def test_read_reply_no_json_is_an_error(adapter: Adapter, response: bytes) -> None:
    with pytest.raises(MalformedBodyError):
        adapter.read_reply(response)


@pytest.mark.parametrize(("adapter", "response"), [(CHAT, completion()), (MESSAGES, answer())])
def test_read_reply_cut_anywhere_is_an_error(adapter: Adapter, response: Any) -> None:
    whole = dump(response)
    for end in range(len(whole)):
        with pytest.raises(MalformedBodyError):
            adapter.read_reply(whole[:end])
    assert adapter.read_reply(b"\n " + whole + b"\r\n").text == "the summary"


@pytest.mark.parametrize(
    ("adapter", "response"),
    [
        (CHAT, b'{"choices":[{"message":{"content":"a\\ud800b\xff"},"finish_reason":"stop"}]}'),
        (MESSAGES, b'{"content":[{"type":"text","text":"a\\ud800b\xff"}],"stop_reason":"end_turn"}'),
    ],
)
def test_read_reply_what_is_no_unicode_is_replaced(adapter: Adapter, response: bytes) -> None:
    told = adapter.read_reply(response).text
    assert told.encode("utf-8").decode() == told
    assert (told[0], told.strip("\ufffd")[-1], "\ufffd" in told) == ("a", "b", True)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.text(), st.booleans(), json_values)
def test_read_reply_any_text_comes_back(told: str, ascii: bool, other: Any) -> None:
    for adapter, response in ((CHAT, completion({"content": told}, x=other)), (MESSAGES, answer([text(told)], x=other))):
        body = json.dumps(response, ensure_ascii=ascii).encode()
        assert adapter.read_reply(body) == ModelReply(text=told, stop=Stop.END)


@given(json_values, json_values, json_values)
def test_read_reply_any_shape_is_a_reply_or_malformed(one: Any, two: Any, three: Any) -> None:
    shapes = [
        (CHAT, completion({"content": one, "tool_calls": two, "refusal": three}, one, usage=two)),
        (CHAT, {"choices": one, "usage": two, "error": three}),
        (CHAT, {"choices": [{"message": one, "finish_reason": two, "error": three}]}),
        (MESSAGES, answer(one, two, usage=three)),
        (MESSAGES, answer([{"type": one, "text": two}, three])),
    ]
    for adapter, response in shapes:
        try:
            reply = adapter.read_reply(dump(response))
        except MalformedBodyError as error:
            assert "response" in str(error)
        else:
            assert isinstance(reply.text, str)
            assert reply.stop in Stop
