"""Small grammars of two dialects' shape, for tests of the scan. The real ones are the adapters'."""

from __future__ import annotations

from fastpath import Code, Field, GrammarSpec, Kind, Role, Shape

__all__ = ["CHAT", "MESSAGES", "TORTURE"]

_MARKED = {b"cache_control": Field(Code.MARKER)}

MESSAGES = GrammarSpec(
    history=(b"messages",),
    system=(b"system",),
    tools=(b"tools",),
    item="item",
    system_shape="blocks",
    tools_shape="tools",
    shapes={
        "item": Shape(by=b"role", cases={b"user": "user", b"assistant": "assistant"}, default="stranger"),
        "user": Shape(role=Role.USER, fields={b"content": Field(text_block=True, shape="content")}),
        "assistant": Shape(role=Role.ASSISTANT, fields={b"content": Field(text_block=True, shape="content")}),
        "stranger": Shape(fields={b"content": Field(text_block=True, shape="content")}),
        "content": Shape(kind=Kind.NONE, each="block"),
        "blocks": Shape(each="block"),
        "tools": Shape(each="tool"),
        "tool": Shape(fields=_MARKED),
        "block": Shape(
            by=b"type",
            cases={
                b"text": "text",
                b"tool_use": "call",
                b"tool_result": "result",
                b"thinking": "thinking",
                b"redacted_thinking": "thinking",
                b"image": "media",
                b"document": "media",
                b"server_tool_use": "server_call",
                b"web_search_tool_result": "server_result",
                b"compaction": "opaque",
            },
            default="other",
        ),
        "text": Shape(kind=Kind.TEXT, fields={b"text": Field(Code.PAYLOAD), **_MARKED}),
        "call": Shape(
            kind=Kind.CALL,
            fields={b"id": Field(Code.ID), b"name": Field(Code.NAME), b"input": Field(Code.PAYLOAD), **_MARKED},
        ),
        "server_call": Shape(kind=Kind.SERVER_CALL, fields={b"id": Field(Code.ID), b"input": Field(Code.PAYLOAD), **_MARKED}),
        "server_result": Shape(
            kind=Kind.SERVER_RESULT, fields={b"tool_use_id": Field(Code.ID), b"content": Field(Code.PAYLOAD), **_MARKED}
        ),
        "result": Shape(
            kind=Kind.RESULT,
            fields={
                b"tool_use_id": Field(Code.ID),
                b"content": Field(Code.PAYLOAD, shape="content", text_block=True),
                b"is_error": Field(Code.ERROR),
                **_MARKED,
            },
        ),
        "thinking": Shape(
            kind=Kind.REASONING, fields={b"thinking": Field(Code.PAYLOAD), b"signature": Field(Code.SIGNATURE), **_MARKED}
        ),
        "media": Shape(kind=Kind.MEDIA, fields={b"source": Field(Code.PAYLOAD), **_MARKED}),
        "opaque": Shape(kind=Kind.OPAQUE),
        "other": Shape(kind=Kind.OTHER, fields=_MARKED),
    },
)

CHAT = GrammarSpec(
    history=(b"messages",),
    system=(),
    tools=(b"tools",),
    item="item",
    shapes={
        "item": Shape(
            by=b"role",
            cases={b"system": "system", b"developer": "system", b"user": "user", b"assistant": "assistant", b"tool": "tool"},
            default="",
        ),
        "system": Shape(role=Role.SYSTEM, fields={b"content": Field(text_block=True, shape="content")}),
        "user": Shape(role=Role.USER, fields={b"content": Field(text_block=True, shape="content")}),
        "assistant": Shape(
            role=Role.ASSISTANT,
            fields={
                b"content": Field(text_block=True, shape="content"),
                b"tool_calls": Field(shape="calls"),
                b"reasoning_content": Field(shape="reasoning"),
            },
        ),
        "tool": Shape(
            role=Role.RESULT,
            kind=Kind.RESULT,
            fields={b"tool_call_id": Field(Code.ID), b"content": Field(Code.PAYLOAD, text_block=True)},
        ),
        "content": Shape(kind=Kind.TEXT, each="block"),
        "block": Shape(by=b"type", cases={b"text": "text", b"image_url": "media"}, default="other"),
        "text": Shape(kind=Kind.TEXT, fields={b"text": Field(Code.PAYLOAD), **_MARKED}),
        "media": Shape(kind=Kind.MEDIA, fields={b"image_url": Field(Code.PAYLOAD), **_MARKED}),
        "other": Shape(kind=Kind.OTHER, fields=_MARKED),
        "calls": Shape(each="call"),
        "call": Shape(kind=Kind.CALL, fields={b"id": Field(Code.ID), b"function": Field(shape="function")}),
        "function": Shape(fields={b"name": Field(Code.NAME), b"arguments": Field(Code.PAYLOAD)}),
        "reasoning": Shape(kind=Kind.REASONING),
    },
)

# Everything a grammar can say at once: shapes that nest in themselves, kinds that members raise, two history keys,
# `by` behind `by`, a case that is not ASCII, and the empty key.
TORTURE = GrammarSpec(
    history=(b"input", b"messages"),
    history_text=True,
    system=(b"system", b"instructions"),
    tools=(b"tools",),
    item="item",
    system_shape="any",
    tools_shape="any",
    shapes={
        "item": Shape(by=b"role", cases={b"a": "by_type", b"\xc3\xa9": "any"}, default="any", kind=Kind.OTHER),
        "by_type": Shape(
            by=b"type",
            cases={b"x": "x", b"": "any"},
            role=Role.ASSISTANT,
            kind=Kind.REASONING,
            fields={b"content": Field(shape="any")},
        ),
        "x": Shape(role=Role.RESULT, kind=Kind.RESULT, fields={b"content": Field(Code.PAYLOAD, shape="any")}),
        "any": Shape(
            kind=Kind.OTHER,
            role=Role.USER,
            each="any",
            fields={
                b"": Field(Code.NAME),
                b"id": Field(Code.ID),
                b"content": Field(text_block=True, shape="any"),
                b"text": Field(Code.PAYLOAD, kind=Kind.TEXT),
                b"thought": Field(Code.NONE, kind=Kind.REASONING),
                b"cachePoint": Field(Code.MARKER, kind=Kind.MARKER),
                b"mark": Field(Code.MARKER),
                b"call": Field(Code.PAYLOAD, kind=Kind.CALL, shape="inside"),
                b"media": Field(Code.NONE, kind=Kind.MEDIA, shape="quiet"),
                b"error": Field(Code.ERROR),
                b"failed": Field(Code.FAILURE),
                b"sig": Field(Code.SIGNATURE),
            },
        ),
        "inside": Shape(
            each="inside",
            fields={
                b"name": Field(Code.NAME),
                b"args": Field(Code.PAYLOAD),
                b"any": Field(shape="any"),
                b"mark": Field(Code.MARKER),
            },
        ),
        "quiet": Shape(fields={b"mark": Field(Code.MARKER), b"each": Field(shape="quiet")}),
    },
)
