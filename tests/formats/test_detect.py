from __future__ import annotations

from typing import Any

import pytest

from sidecar.core.errors import FormatAmbiguousError, InvalidFieldError, MalformedBodyError
from sidecar.core.types import Format
from sidecar.formats import ADAPTERS, adapter, detect
from sidecar.formats.adapters import NAMES
from tests.formats.build import asked, call, called, dump, result, text, tool, used
from tests.helpers.corpus import bodies

CHAT, MESSAGES, CONVERSE = Format.OPENAI_CHAT, Format.ANTHROPIC_MESSAGES, Format.BEDROCK_CONVERSE
PLAIN = [asked("hi"), {"role": "assistant", "content": "hello"}, asked([text()])]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"messages": [asked(), called("a"), tool("a")]}, CHAT),
        ({"messages": [{"role": "system", "content": "x"}, asked()]}, CHAT),
        ({"messages": [{"role": "developer", "content": "x"}, asked()]}, CHAT),
        ({"messages": [asked(), {"role": "assistant", "content": "x", "reasoning_content": "y"}]}, CHAT),
        ({"messages": [asked([{"type": "image_url", "image_url": {"url": "u"}}])]}, CHAT),
        ({"messages": PLAIN, "tools": [{"type": "function", "function": {"name": "ls"}}]}, CHAT),
        ({"messages": PLAIN, "max_completion_tokens": 5}, CHAT),
        ({"messages": PLAIN, "tool_choice": "auto"}, CHAT),
        ({"messages": [asked(), used(call("a")), asked([result("a")])]}, MESSAGES),
        ({"messages": [asked(), used({"type": "thinking", "thinking": "x", "signature": "s"})]}, MESSAGES),
        ({"messages": PLAIN, "system": "rules"}, MESSAGES),
        ({"messages": [*PLAIN, {"role": "system", "content": "late"}], "system": "rules"}, MESSAGES),
        ({"messages": PLAIN, "tools": [{"name": "ls", "input_schema": {}}]}, MESSAGES),
        ({"messages": PLAIN, "tools": [{"type": "web_search_20250305", "name": "web_search"}]}, MESSAGES),
        ({"messages": PLAIN, "tool_choice": {"type": "auto"}}, MESSAGES),
        ({"messages": PLAIN, "anthropic_version": "bedrock-2023-05-31"}, MESSAGES),
        ({"messages": PLAIN, "modelId": "m"}, CONVERSE),
        (
            {
                "messages": [asked([{"text": "x"}]), {"role": "assistant", "content": [{"toolUse": {}}]}],
                "system": [],
                "toolConfig": {},
            },
            CONVERSE,
        ),
        ({"messages": [asked([{"text": "x"}])]}, CONVERSE),
        ({"messages": [asked("x")], "system": [{"text": "rules"}]}, CONVERSE),
        ({"messages": [asked([{"type": "new_block", "text": "x"}])], "system": [text("rules")]}, MESSAGES),
        ({"contents": []}, Format.GEMINI),
        ({"input": [], "model": "m"}, Format.OPENAI_RESPONSES),
        ({"input": "hello", "model": "m"}, Format.OPENAI_RESPONSES),
    ],
)
def test_detect_evidence_for_one_format_decides(body: dict[str, Any], expected: Format) -> None:
    assert detect(dump(body)) is expected


@pytest.mark.parametrize(
    ("body", "candidates"),
    [
        ({"messages": PLAIN, "model": "m", "max_tokens": 9, "temperature": 1}, "openai-chat, anthropic-messages"),
        ({"messages": []}, "openai-chat, anthropic-messages, bedrock-converse"),
        ({"messages": [asked(), called("a"), tool("a"), used(call("b"))]}, "openai-chat, anthropic-messages"),
        ({"messages": PLAIN, "system": "x", "n": 1}, "openai-chat, anthropic-messages"),
        ({"contents": [], "input": []}, "openai-responses, gemini"),
    ],
)
def test_detect_nothing_or_too_much_evidence_is_refused(body: dict[str, Any], candidates: str) -> None:
    with pytest.raises(FormatAmbiguousError) as caught:
        detect(dump(body))
    assert caught.value.details == {"candidates": candidates}
    assert caught.value.hint


@pytest.mark.parametrize(
    ("body", "offset"),
    [(b"", 0), (b"[]", 0), (b'{"messages":[}', 13), (b'{"model":"m"}', 12), (b'{"messages":5}', 12), (b'{"contents":"x"}', 12)],
)
def test_detect_unreadable_body_is_malformed_with_an_offset(body: bytes, offset: int) -> None:
    with pytest.raises(MalformedBodyError) as caught:
        detect(body)
    assert caught.value.details["offset_bytes"] == offset


@pytest.mark.parametrize("format", list(ADAPTERS))
def test_detect_recorded_bodies_are_told(format: Format) -> None:
    paths = bodies(ADAPTERS[format].name)
    told = {path.name: detect(path.read_bytes()) for path in paths if path.stat().st_size < 150_000}
    assert told == dict.fromkeys(told, format)


def test_adapter_of_no_format_is_an_error_with_all_names() -> None:
    with pytest.raises(InvalidFieldError) as caught:
        adapter(Format.UNSPECIFIED)
    assert caught.value.details == {"field": "format"}
    assert caught.value.hint == "formats: openai-chat, openai-responses, anthropic-messages, gemini, bedrock-converse"


def test_adapter_of_each_format_says_its_name() -> None:
    assert sorted(ADAPTERS) == [format for format in Format if format is not Format.UNSPECIFIED]
    assert [adapter(format).format for format in ADAPTERS] == list(ADAPTERS)
    assert [adapter(format).name for format in ADAPTERS] == [NAMES[format] for format in ADAPTERS]
