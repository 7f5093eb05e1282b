"""The strict reading of the SDKs' types finds what is broken; what they allow passes."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.core.types import Format
from tests.formats.build import asked, call, called, result, text, tool, used
from tests.helpers.sdk_types import sdk_violations


def chat(*items: Any, **envelope: Any) -> set[str]:
    return sdk_violations(Format.OPENAI_CHAT, {"model": "m", "messages": list(items), **envelope})


def messages(*items: Any, **envelope: Any) -> set[str]:
    return sdk_violations("anthropic-messages", {"model": "m", "max_tokens": 9, "messages": list(items), **envelope})


def test_sdk_violations_sound_bodies_have_none() -> None:
    assert chat(asked(), called("a"), tool("a", [text()]), {"role": "developer", "content": "x"}, temperature=1) == set()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
    blocks = [result("a", [text() | {"cache_control": {"type": "ephemeral"}}, image], is_error=True)]
    thinking = {"type": "thinking", "thinking": "t", "signature": "s"}
    system = [text()]
    assert messages(asked(), used(thinking, call("a", input={"any": [1]})), asked(blocks), system=system) == set()


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({"role": "robot", "content": "x"}, "no object with {'role': 'robot'} is known"),
        ({"content": "x"}, "no object with {'role': None} is known"),
        ({"role": "tool", "content": "x"}, "tool_call_id is missing"),
        ({"role": "tool", "tool_call_id": "a"}, "content is missing"),
        (asked(5), "content: int is not allowed"),
        (asked(None), "content: null is not allowed"),
        (asked({}), "content: object is not allowed"),
        (asked([{"type": "video", "url": "x"}]), "no object with {'type': 'video'} is known"),
        (asked([{"type": "text"}]), "text is missing"),
        (asked([{"type": "text", "text": 1}]), "text: int is not allowed"),
        (asked(["x"]), "content[]: str is not allowed"),
        (asked("x") | {"extra": 1}, "extra is not known"),
        (tool("a", [{"type": "image_url", "image_url": {"url": "u"}}]), "no object with {'type': 'image_url'} is known"),
        (
            {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "x"}}]},
            "arguments is missing",
        ),
        (
            {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "x", "arguments": {}}}]},
            "arguments: object is not allowed",
        ),
        ("x", "messages[0]: str is not allowed"),
    ],
)
def test_sdk_violations_broken_chat_item_is_found(item: Any, said: str) -> None:
    (found,) = chat(item)
    assert "body.messages[0]" in found
    assert said in found


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({"role": "tool", "content": "x"}, "no object with {'role': 'tool'} is known"),
        ({"role": "user"}, "content is missing"),
        (asked(5), "content: int is not allowed"),
        (asked([{"type": "hologram"}]), "is known"),
        (asked([{"text": "x"}]), "is known"),
        (asked([text() | {"extra": 1}]), "extra is not known"),
        (asked([{"type": "text", "text": None}]), "text: null is not allowed"),
        (used({"type": "tool_use", "id": "a", "name": "x"}), "input is missing"),
        (used({"type": "tool_use", "id": "a", "name": "x", "input": "{}"}), "input: str is not allowed"),
        (asked([{"type": "tool_result", "content": "x"}]), "tool_use_id is missing"),
        (asked([result("a", 5)]), "content: int is not allowed"),
        (asked([result("a", [call("b")])]), "no object with {'type': 'tool_use'} is known"),
        (asked([result("a", is_error="yes")]), "is_error: str is not allowed"),
        (used({"type": "thinking", "thinking": "t"}), "signature is missing"),
        (asked([text() | {"cache_control": {"type": "forever"}}]), "is known"),
    ],
)
def test_sdk_violations_broken_messages_item_is_found(item: Any, said: str) -> None:
    (found,) = messages(item)
    assert "body.messages[0]" in found
    assert said in found


def test_sdk_violations_envelope_is_read_too() -> None:
    assert messages(asked(), max_tokens="9") == {"body.max_tokens: str is not allowed"}
    assert messages(asked(), max_tokens=True) == {"body.max_tokens: bool is not allowed"}
    assert messages(asked(), tools=[{"name": "x"}]) != set()
    assert chat(asked(), tools=[{"type": "function"}]) == {"body.tools[]<function>: function is missing"}
    assert chat(asked(), temperature="hot") == {"body.temperature: str is not allowed"}
    assert sdk_violations("openai-chat", {"messages": []}) == {"body: model is missing"}


def test_sdk_violations_do_not_depend_on_the_place_of_a_block() -> None:
    odd = text() | {"extra": 1}
    assert messages(asked([text(), odd])) == messages(asked([odd]))
    assert messages(asked([odd])) != messages(asked(), asked([odd]))


def test_sdk_violations_of_the_dialects_without_typed_dicts_are_found() -> None:
    assert sdk_violations("gemini", {"contents": [{"role": "user", "parts": [{"text": "a"}]}]}) == set()
    (found,) = sdk_violations("gemini", {"contents": [{"role": "user", "parts": [{"text": 5}]}]})
    assert found.startswith("contents[0].parts")
    (found,) = sdk_violations("gemini", {"contents": [{"role": "user", "parts": [{"text": "a", "fileData": {}}]}]})
    assert "not exactly one thing" in found
    assert sdk_violations("bedrock-converse", {"messages": [{"role": "user", "content": [{"text": "a"}]}]}) == set()
    assert sdk_violations("bedrock-converse", {"messages": [{"role": "user", "content": [{"text": 5}]}]}) != set()
    assert sdk_violations("bedrock-converse", {"messages": [{"role": "user", "content": [{}]}]}) != set()
    with pytest.raises(KeyError):
        sdk_violations("telepathy", {})
