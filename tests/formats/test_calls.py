"""A model's call read, and its result written: together they are a pair that no rule objects to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fastpath import scan
from sidecar.core.errors import MalformedBodyError
from sidecar.core.types import UsageFigures
from sidecar.formats.base import Adapter
from tests.formats.build import CHAT, MESSAGES, asked, dump
from tests.helpers.sdk_types import sdk_violations

BOTH = [CHAT, MESSAGES]


def chat_call(id: Any = "call_1", arguments: Any = '{"artifact_id":"x"}') -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "trimtab_read", "arguments": arguments}}


def messages_call(id: Any = "toolu_1", input: Any = None) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "trimtab_read", "input": {"artifact_id": "x"} if input is None else input}


def test_parse_call_chat_arguments_are_decoded_from_their_string() -> None:
    found = CHAT.parse_call(b" " + dump(chat_call(arguments='{"artifact_id": "\\u00e9", "start": 2512292042121000001}')) + b"\n")
    assert (found.call_id, found.name, found.raw_id) == ("call_1", "trimtab_read", b'"call_1"')
    assert found.arguments == b'{"artifact_id": "\\u00e9", "start": 2512292042121000001}'


def test_parse_call_messages_input_is_taken_byte_for_byte() -> None:
    found = MESSAGES.parse_call(
        b'{"type":"tool_use","id":"t","name":"n","input":{ "z":1.0,"a":"\\ud800" },"caller":{"type":"direct"}}'
    )
    assert found.arguments == b'{ "z":1.0,"a":"\\ud800" }'
    assert (found.call_id, found.name) == ("t", "n")


def test_parse_call_chat_legacy_call_has_no_id() -> None:
    found = CHAT.parse_call(dump({"name": "trimtab_read", "arguments": "{}"}))
    assert (found.call_id, found.raw_id, found.arguments) == ("", b"", b"{}")


def test_parse_call_chat_custom_tool_with_free_text_has_no_arguments() -> None:
    found = CHAT.parse_call(dump({"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls -l"}}))
    assert (found.name, found.arguments) == ("sh", None)


@pytest.mark.parametrize("arguments", ["", "[]", '"x"', "{", '{"a":NaN}', "{}{}", '{"a":1],"v":[2', "null"])
def test_parse_call_chat_arguments_that_are_no_object_are_none(arguments: str) -> None:
    assert CHAT.parse_call(dump(chat_call(arguments=arguments))).arguments is None


def test_parse_call_chat_arguments_given_as_an_object_are_taken() -> None:
    assert CHAT.parse_call(dump(chat_call(arguments={"a": 1}))).arguments == b'{"a": 1}'


@pytest.mark.parametrize("input", [[], "x", 1])
def test_parse_call_messages_input_that_is_no_object_is_none(input: Any) -> None:
    assert MESSAGES.parse_call(dump(messages_call(input=input))).arguments is None


@pytest.mark.parametrize("adapter", BOTH)
@pytest.mark.parametrize(
    ("call", "offset"),
    [
        (b"", 0),
        (b"[]", 0),
        (b'{"name":"x"', 11),
        (b'{"name":nul}', 11),
        (b'{"name":"x"}],"v":[{}', 12),  # closes the brackets that the value is checked in
        (b"{},{}", 2),
        (b"{}", 0),
        (b'{"name":1}', 0),
    ],
)
def test_parse_call_that_is_none_is_an_error_with_an_offset(adapter: Adapter, call: bytes, offset: int) -> None:
    with pytest.raises(MalformedBodyError) as caught:
        adapter.parse_call(call)
    assert caught.value.details["offset_bytes"] == offset


def test_parse_call_error_holds_no_content() -> None:
    with pytest.raises(MalformedBodyError) as caught:
        CHAT.parse_call(b'{"secret":"hunter2"')
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("id", ["call_1", "", "x" * 1400, "../../etc/passwd", "a\n\u00e9\u0000"])
@pytest.mark.parametrize("is_error", [False, True])
def test_result_pairs_with_its_call_in_chat(id: str, is_error: bool) -> None:
    call = dump(chat_call(id))
    made = json.loads(CHAT.result(CHAT.parse_call(call), 'line "1"\n→', is_error=is_error))
    assert made == {"role": "tool", "tool_call_id": id, "content": 'line "1"\n→'}
    body = {"model": "m", "messages": [asked(), {"role": "assistant", "content": None, "tool_calls": [json.loads(call)]}, made]}
    assert CHAT.check(scan(dump(body), CHAT.grammar)) == []
    assert sdk_violations("openai-chat", body) == set()


@pytest.mark.parametrize("id", ["toolu_1", "", "x" * 1400, "../../etc/passwd", "a\n\u00e9\u0000"])
@pytest.mark.parametrize("is_error", [False, True])
def test_result_pairs_with_its_call_in_messages(id: str, is_error: bool) -> None:
    call = dump(messages_call(id))
    made = json.loads(MESSAGES.result(MESSAGES.parse_call(call), "out", is_error=is_error))
    assert made == {"type": "tool_result", "tool_use_id": id, "content": "out"} | ({"is_error": True} if is_error else {})
    messages = [asked(), {"role": "assistant", "content": [json.loads(call)]}, asked([made])]
    body = {"model": "m", "max_tokens": 1, "messages": messages}
    assert MESSAGES.check(scan(dump(body), MESSAGES.grammar)) == []
    assert sdk_violations("anthropic-messages", body) == set()


def test_result_of_a_legacy_call_is_a_function_item() -> None:
    call = {"name": "trimtab_read", "arguments": "{}"}
    made = json.loads(CHAT.result(CHAT.parse_call(dump(call)), "out", is_error=False))
    assert made == {"role": "function", "name": "trimtab_read", "content": "out"}
    body = {"messages": [asked(), {"role": "assistant", "content": None, "function_call": call}, made]}
    assert CHAT.check(scan(dump(body), CHAT.grammar)) == []


def test_result_of_a_call_whose_id_is_missing_pairs_by_order() -> None:
    call = chat_call()
    del call["id"]
    made = json.loads(CHAT.result(CHAT.parse_call(dump(call)), "out", is_error=False))
    body = {"messages": [asked(), {"role": "assistant", "content": None, "tool_calls": [call]}, made]}
    assert made["role"] == "tool"
    assert CHAT.check(scan(dump(body), CHAT.grammar)) == []


def test_result_id_keeps_the_spelling_of_the_call() -> None:
    found = CHAT.parse_call(b'{"id":"\\u0061\\/","type":"function","function":{"name":"n","arguments":"{}"}}')
    assert b'"tool_call_id":"\\u0061\\/"' in CHAT.result(found, "x", is_error=False)
    assert found.call_id == "a/"


@pytest.mark.parametrize("adapter", BOTH)
def test_result_text_with_a_lone_surrogate_is_still_json_in_utf8(adapter: Adapter) -> None:
    call = dump(chat_call()) if adapter is CHAT else dump(messages_call())
    made = adapter.result(adapter.parse_call(call), "a\ud800b\x00", is_error=False)
    assert json.loads(made.decode("utf-8"))["content"] == "a\ud800b\x00"


@pytest.mark.parametrize(
    ("adapter", "usage", "expected"),
    [
        (CHAT, {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}, (9, None, 4)),
        (CHAT, {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0}}, (9, 0, None)),
        (CHAT, {"prompt_tokens": 9, "prompt_tokens_details": None, "completion_tokens": None}, (9, None, None)),
        (CHAT, {"prompt_tokens": 9, "prompt_cache_hit_tokens": 6, "prompt_cache_miss_tokens": 3}, (9, 6, None)),
        (CHAT, {"prompt_cache_hit_tokens": 6, "prompt_cache_miss_tokens": 3}, (9, 6, None)),
        (CHAT, {"prompt_tokens": 9, "cached_tokens": 2}, (9, 2, None)),
        (CHAT, {}, (None, None, None)),
        (MESSAGES, {"input_tokens": 3, "output_tokens": 4}, (3, None, 4)),
        (
            MESSAGES,
            {"input_tokens": 3, "cache_read_input_tokens": 50, "cache_creation_input_tokens": 7, "output_tokens": 4},
            (60, 50, 4),
        ),
        (MESSAGES, {"input_tokens": 3, "cache_read_input_tokens": 0, "cache_creation_input_tokens": None}, (3, 0, None)),
        (MESSAGES, {"cache_read_input_tokens": 50, "output_tokens": 4.0, "service_tier": "standard"}, (None, 50, 4)),
    ],
)
def test_usage_unknown_stays_unknown(adapter: Adapter, usage: dict[str, Any], expected: tuple[Any, Any, Any]) -> None:
    assert adapter.usage(dump(usage)) == UsageFigures(*expected)


@pytest.mark.parametrize("adapter", BOTH)
@pytest.mark.parametrize("usage", [b"", b"[]", b"null", b'{"a":NaN}', b"{"])
def test_usage_that_is_no_object_is_an_error(adapter: Adapter, usage: bytes) -> None:
    with pytest.raises(MalformedBodyError):
        adapter.usage(usage)


@pytest.mark.parametrize("value", ["9", -1, 1.5, True, [], 1e400, 2**62 + 1, 1e300, -(2**70)])
def test_usage_figure_that_is_no_count_is_an_error(value: Any) -> None:
    body = dump({"prompt_tokens": value}).replace(b"Infinity", b"1e400")
    with pytest.raises(MalformedBodyError):
        CHAT.usage(body)


def test_usage_figure_of_thousands_of_digits_is_an_error_only_where_it_is_a_figure() -> None:
    digits = b"9" * 5000
    with pytest.raises(MalformedBodyError):
        CHAT.usage(b'{"prompt_tokens":' + digits + b"}")
    assert CHAT.usage(b'{"prompt_tokens":5,"other":' + digits + b"}") == UsageFigures(5, None, None)


def test_usage_largest_figure_is_read_and_a_sum_over_it_is_an_error() -> None:
    assert CHAT.usage(dump({"prompt_tokens": 2**62})) == UsageFigures(2**62, None, None)
    with pytest.raises(MalformedBodyError, match="sum"):
        MESSAGES.usage(dump({"input_tokens": 2**62, "cache_read_input_tokens": 1}))
    with pytest.raises(MalformedBodyError, match="sum"):
        CHAT.usage(dump({"prompt_cache_hit_tokens": 2**62, "prompt_cache_miss_tokens": 1}))
