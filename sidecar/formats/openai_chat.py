"""The `openai-chat` dialect: Chat Completions bodies of OpenAI and of the many servers and gateways that speak it.

What vendors add is passed through; of it only what matters for reductions is known here: reasoning fields, signatures, cache
markers. The rules are in `openai_chat_rules.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from fastpath import Code, Edit, Field, Grammar, GrammarSpec, Item, Kind, Role, Scan, Shape, locate
from sidecar.core.errors import MalformedBodyError
from sidecar.core.readback import READ_BACK_TOOL_DESCRIPTION, READ_BACK_TOOL_NAME, READ_BACK_TOOL_SCHEMA
from sidecar.core.replies import ModelReply, Stop
from sidecar.core.types import Format, ReductionKind, UsageFigures
from sidecar.formats.base import Adapter, ContentSpan, Judged, MediaPayload, ReadBackCall, Rows, Style
from sidecar.formats.blocks import arguments_object, base64_source, block_with_marker, data_url, result_value, text_block
from sidecar.formats.joining import block_marker, content_span, last_marker, marked_block, text_item, wrap_string
from sidecar.formats.openai_chat_rules import LOCAL_RULES, WHOLE_RULES
from sidecar.formats.replies import block_kinds, content_text, is_told, no_reply, response_object, stop_of, usage_of
from sidecar.formats.requests import own_limit, plain_text, request, taken_over
from sidecar.formats.rules import History, judge
from sidecar.formats.spelling import PLAIN, spell
from sidecar.formats.tools import already_there, append_tool, element_names, last_member
from sidecar.formats.usage import Figures
from sidecar.formats.values import check_object, string_at, value_at, value_text

__all__ = ["GRAMMAR", "OpenAIChat"]

# Source: LiteLLM and OpenRouter accept Anthropic's `cache_control` on messages and content parts; OpenAI's own marker is
# `prompt_cache_breakpoint` (openai-python, types/chat/chat_completion_content_part_text_param.py).
_MARKERS = {b"cache_control": Field(Code.MARKER), b"prompt_cache_breakpoint": Field(Code.MARKER)}

# A thought signature on a call, where gateways to Gemini put it.
# Source: ai.google.dev, "OpenAI compatibility" (extra_content.google.thought_signature); LiteLLM (provider_specific_fields).
_SIGNATURES = {
    b"thought_signature": Field(Code.SIGNATURE),
    b"extra_content": Field(shape="extra"),
    b"provider_specific_fields": Field(shape="signed_fields"),
}

_CONTENT = {b"content": Field(shape="parts", text_block=True)}

GRAMMAR = Grammar(
    GrammarSpec(
        history=(b"messages",),
        system=(),
        tools=(b"tools", b"functions"),
        tools_shape="tools",
        item="item",
        shapes={
            "item": Shape(
                by=b"role",
                cases={
                    b"system": "system",
                    b"developer": "system",
                    b"user": "user",
                    b"assistant": "assistant",
                    b"tool": "result",
                    b"function": "result",
                },
                default="other",
            ),
            "system": Shape(role=Role.SYSTEM, fields=_CONTENT | _MARKERS),
            "user": Shape(role=Role.USER, fields=_CONTENT | _MARKERS),
            "other": Shape(role=Role.OTHER, fields=_CONTENT | _MARKERS),
            "assistant": Shape(
                role=Role.ASSISTANT,
                fields=_CONTENT
                | _MARKERS
                | {
                    b"tool_calls": Field(shape="calls"),
                    b"function_call": Field(shape="legacy_call"),
                    # Source: DeepSeek (reasoning_content), OpenRouter, vLLM (reasoning, reasoning_details), LiteLLM.
                    b"reasoning_content": Field(shape="reasoning_text"),
                    b"reasoning": Field(shape="reasoning_text"),
                    b"reasoning_details": Field(shape="reasoning_list"),
                    b"thinking_blocks": Field(shape="reasoning_list"),
                },
            ),
            "result": Shape(
                kind=Kind.RESULT,
                role=Role.RESULT,
                fields={
                    b"tool_call_id": Field(Code.ID),
                    b"name": Field(Code.NAME),
                    b"content": Field(Code.PAYLOAD, shape="parts", text_block=True),
                    b"is_error": Field(Code.ERROR),
                }
                | _MARKERS,
            ),
            "tools": Shape(each="tool"),
            "tool": Shape(fields=_MARKERS | {b"function": Field(shape="tool_function")}),
            "tool_function": Shape(fields=_MARKERS),
            "parts": Shape(each="part"),
            "part": Shape(
                by=b"type",
                cases={
                    b"text": "text",
                    b"refusal": "refusal",
                    b"image_url": "media",
                    b"input_audio": "media",
                    b"file": "media",
                    b"video_url": "media",
                    b"audio_url": "media",
                    b"input_image": "media",
                    b"input_file": "media",
                    b"thinking": "reasoning_detail",
                    b"redacted_thinking": "reasoning_detail",
                },
                default="other_part",
            ),
            "text": Shape(kind=Kind.TEXT, fields={b"text": Field(Code.PAYLOAD)} | _MARKERS),
            "refusal": Shape(kind=Kind.TEXT, fields={b"refusal": Field(Code.PAYLOAD)} | _MARKERS),
            "media": Shape(kind=Kind.MEDIA, fields=_MARKERS),
            # Parts of other dialects, which gateways take: those with base64 in a `source` are media.
            "other_part": Shape(kind=Kind.OTHER, fields=_MARKERS | {b"source": Field(shape="source")}),
            "source": Shape(by=b"type", cases={b"base64": "base64_source"}, default="nothing"),
            "base64_source": Shape(fields={b"data": Field(kind=Kind.MEDIA)}),
            "nothing": Shape(),
            "calls": Shape(each="call"),
            "call": Shape(by=b"type", default="call_object"),
            "call_object": Shape(
                kind=Kind.CALL,
                fields={b"id": Field(Code.ID), b"function": Field(shape="function"), b"custom": Field(shape="custom")}
                | _SIGNATURES,
            ),
            "function": Shape(
                fields={b"name": Field(Code.NAME), b"arguments": Field(Code.PAYLOAD)} | _SIGNATURES,
            ),
            "custom": Shape(fields={b"name": Field(Code.NAME), b"input": Field(Code.PAYLOAD)}),
            # `by` so that a null, which SDKs write for what is absent, opens no call.
            "legacy_call": Shape(by=b"name", default="legacy_call_object"),
            "legacy_call_object": Shape(kind=Kind.CALL, fields={b"name": Field(Code.NAME), b"arguments": Field(Code.PAYLOAD)}),
            "extra": Shape(fields={b"google": Field(shape="signed_fields")}),
            "signed_fields": Shape(fields={b"thought_signature": Field(Code.SIGNATURE)}),
            "reasoning_text": Shape(kind=Kind.REASONING),
            "reasoning_list": Shape(each="reasoning_detail"),
            # Without payload: entries of these lists are never blanked, signed or not. `data` is encrypted reasoning.
            "reasoning_detail": Shape(
                kind=Kind.REASONING,
                fields={b"signature": Field(Code.SIGNATURE), b"data": Field(Code.SIGNATURE)},
            ),
        },
    )
)

_READ_BACK_TOOL: dict[str, object] = {
    "type": "function",
    "function": {
        "name": READ_BACK_TOOL_NAME,
        "description": READ_BACK_TOOL_DESCRIPTION,
        "parameters": READ_BACK_TOOL_SCHEMA,
    },
}
_TOOL_NAME_PATHS: tuple[tuple[bytes, ...], ...] = ((b"function", b"name"), (b"custom", b"name"), (b"name",))

# What a summary request takes over. Without them it would go elsewhere, or be refused: gateways route by `provider` (who may see
# the data) and `models`, and may ask for a `user`; `store` says whether the provider keeps it, and `metadata` goes with it.
_TAKEN_OVER = (b"model", b"models", b"provider", b"user", b"safety_identifier", b"store", b"metadata")
_LIMITS = (b"max_completion_tokens", b"max_tokens")

# Source: openai-python, types/chat/chat_completion.py; then what Mistral, DeepSeek and Together say for a cut and an end.
_STOPS = {
    b"stop": Stop.END,
    b"length": Stop.LENGTH,
    b"tool_calls": Stop.CALL,
    b"function_call": Stop.CALL,
    b"content_filter": Stop.REFUSED,
    b"model_length": Stop.LENGTH,
    b"insufficient_system_resource": Stop.LENGTH,
    b"eos": Stop.END,
}


class OpenAIChat(Adapter):
    """Chat Completions."""

    format = Format.OPENAI_CHAT
    name = "openai-chat"
    grammar = GRAMMAR
    # DeepSeek and its kin refuse an assistant item with calls whose reasoning key is gone; the empty string passes.
    # Source: https://api-docs.deepseek.com/guides/thinking_mode ("tool calls"); esengine/DeepSeek-Reasonix pull 6217.
    reasoning = "blank"
    empty_body = b'{"messages":[]}'
    merges_users = False
    joins_results = False
    behind_turn = False

    def judge(self, scan: Scan, rows: Rows | None = None, earlier: Judged | None = None, since: int = 0) -> Judged:
        """See Adapter."""
        return judge(History(scan, rows, earlier, since), LOCAL_RULES, WHOLE_RULES, earlier)

    def sees_all(self, scan: Scan) -> bool:
        """Chat Completions keeps no state between requests."""
        return True

    def stub(self, kind: ReductionKind, original: bytes, text: str, style: Style) -> bytes | None:
        """See Adapter."""
        if kind is ReductionKind.REASONING:
            return b'""' if original[:1] == b'"' else None
        if kind is ReductionKind.ARGUMENTS:
            if original[:1] == b'"':
                # A string that holds an object, for custom tools too: their input is free text.
                return spell(json.dumps(arguments_object(text), ensure_ascii=False, separators=(",", ":")), style)
            # Some servers write arguments as an object; it stays one.
            return spell(arguments_object(text), style) if original[:1] == b"{" else None
        if kind is ReductionKind.MEDIA:
            return text_block(original, text, style)
        return result_value(original, text, style)

    def with_marker(self, stub: bytes, original: bytes, style: Style) -> bytes:
        """See Adapter."""
        return block_with_marker(stub, original, (b"cache_control", b"prompt_cache_breakpoint"), style)

    def media(self, body: bytes, part_span: tuple[int, int]) -> MediaPayload | None:
        """See Adapter."""
        start = part_span[0]
        part = body[start : part_span[1]]
        kind = string_at(part, b"type") or b""
        if kind == b"input_audio":
            sound = string_at(part, b"input_audio", b"format") or b"wav"
            return data_url(body, locate(body, start, (b"input_audio", b"data")), "audio/" + sound.decode("utf-8", "replace"))
        for path in ((b"file", b"file_data"), (b"file_data",)):
            if found := data_url(body, locate(body, start, path), "application/octet-stream"):
                return found
        # A URL stands in an object, or, with some gateways, alone.
        for path in ((kind, b"url"), (kind,), (b"image_url",)):
            if found := data_url(body, locate(body, start, path), ""):
                return found
        return base64_source(body, start)

    def tool_names(self, scan: Scan) -> list[bytes]:
        """See Adapter."""
        return [name for span in scan.tools for name in element_names(scan.body, span, _TOOL_NAME_PATHS)]

    def read_back_tool(self) -> bytes:
        """See Adapter."""
        return spell(_READ_BACK_TOOL, PLAIN)

    def inject_tool(self, scan: Scan) -> Edit | None:
        """See Adapter. Refused where the model could not call it, and beside the legacy `functions`, which exclude `tools`."""
        choice = last_member(scan, b"tool_choice")
        # Source: openai-python, types/chat/chat_completion_allowed_tool_choice_param.py: only the listed tools may be called.
        if choice == b'"none"' or string_at(choice or b"{}", b"type") == b"allowed_tools":
            return None
        if last_member(scan, b"functions") not in (b"", b"null"):
            return None
        present = already_there(scan, self.tool_names(scan), (b"function", b"parameters"))
        return present.edit if present.found else append_tool(scan, b"tools", _READ_BACK_TOOL)

    def parse_call(self, call: bytes) -> ReadBackCall:
        """See Adapter. Takes a `tool_calls` entry, or a legacy `function_call`."""
        value = check_object(call, "call")
        holder: tuple[bytes, ...] = next((key for key in ((b"function",), (b"custom",)) if value_at(value, *key)[:1] == b"{"), ())
        name = string_at(value, *holder, b"name")
        if name is None:
            raise MalformedBodyError("call has no name", offset_bytes=0, bound="")
        raw_id = value_at(value, b"id")
        if holder and not raw_id:
            raw_id = b'""'
        given = value_at(value, *holder, b"input" if holder == (b"custom",) else b"arguments")
        return ReadBackCall(
            call_id=value_text(raw_id).decode("utf-8", "replace"),
            name=name.decode("utf-8", "replace"),
            arguments=_arguments(given),
            raw_id=raw_id,
        )

    def result(self, call: ReadBackCall, text: str, *, is_error: bool) -> bytes:
        """See Adapter. The dialect has no place for is_error: the text says it."""
        content = spell(text, PLAIN)
        if not call.raw_id:
            return b'{"role":"function","name":' + spell(call.name, PLAIN) + b',"content":' + content + b"}"
        return b'{"role":"tool","tool_call_id":' + call.raw_id + b',"content":' + content + b"}"

    def result_items(self, results: Sequence[bytes]) -> list[bytes]:
        """See Adapter. Each result is an item."""
        return list(results)

    def usage(self, usage: bytes) -> UsageFigures:
        """See Adapter. Source: openai-python, types/completion_usage.py; DeepSeek and Moonshot for their own cache fields."""
        figures = Figures(usage)
        cached = figures.first(("prompt_tokens_details", "cached_tokens"), ("prompt_cache_hit_tokens",), ("cached_tokens",))
        total = figures.first(("prompt_tokens",))
        missed = figures.first(("prompt_cache_miss_tokens",))
        if total is None and missed is not None and cached is not None:
            total = missed + cached
        return figures.told(total, cached, figures.first(("completion_tokens",)))

    def text_item(self, text: str, role: int, marker: bytes, style: Style) -> bytes:
        """See Adapter. Gateways take a `cache_control` on a content part, so with one the content is a list."""
        content = b"[" + marked_block(text, marker, style) + b"]" if marker else spell(text, style)
        return text_item(content, role, style)

    def text_part(self, text: str, marker: bytes, style: Style) -> bytes:
        """See Adapter."""
        return marked_block(text, marker, style)

    def wrap_string(self, value: bytes) -> bytes:
        """See Adapter."""
        return wrap_string(value)

    def content_span(self, body: bytes, item: Item) -> ContentSpan | None:
        """See Adapter."""
        return content_span(body, item)

    def last_marker(self, body: bytes, start: int, end: int) -> bytes:
        """See Adapter. Only `cache_control`: OpenAI's own breakpoint is another thing, and its value means nothing there."""
        return last_marker(body[start:end], GRAMMAR, on_item=True)

    def element_marker(self, body: bytes, start: int, end: int) -> bytes:
        """See Adapter."""
        return block_marker(body[start:end])

    def summary_request(self, envelope: bytes, system: str, user: str, max_output_tokens: int) -> bytes:
        """See Adapter. The limit of output goes by the name that the envelope uses: each is refused somewhere; without, none."""
        named = taken_over(envelope, _LIMITS)[:1]
        limits = [(key, str(own_limit(envelope, key, max_output_tokens)).encode()) for key, _ in named]
        told = b'{"role":"system","content":' + plain_text(system) + b"}"
        messages = b"[" + told + b"," + text_item(plain_text(user), Role.USER, PLAIN) + b"]"
        return request([*taken_over(envelope, _TAKEN_OVER), *limits, (b"messages", messages)])

    def read_reply(self, response: bytes) -> ModelReply:
        """See Adapter. The first choice counts."""
        value = response_object(response)
        choice = value_at(value, b"choices", 0)
        message = value_at(choice, b"message") if choice else b""
        if message[:1] != b"{":
            no_reply("it has no message")
        # OpenRouter says so of a provider that failed midway.
        if is_told(value_at(choice, b"error")) or string_at(choice, b"finish_reason") == b"error":
            no_reply("the provider failed midway")
        content = value_at(message, b"content") or b"null"
        refused = is_told(value_at(message, b"refusal")) or b"refusal" in block_kinds(content)
        return ModelReply(
            text=content_text(content),
            stop=Stop.REFUSED if refused else stop_of(value_at(choice, b"finish_reason"), _STOPS),
            has_calls=is_told(value_at(message, b"tool_calls")) or is_told(value_at(message, b"function_call")),
            usage=usage_of(self, value_at(value, b"usage")),
        )


def _arguments(given: bytes) -> bytes | None:
    """Arguments as JSON object text: decoded from a string, or as they are where a server gives an object."""
    text = value_text(given) if given[:1] == b'"' else given
    try:
        return check_object(text, "arguments")
    except MalformedBodyError:
        return None
