"""Whatever JSON stands in a Converse, Gemini or Responses body: the adapters answer or raise their own errors."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath import Kind, MalformedError, scan, splice
from sidecar.core.errors import MalformedBodyError
from sidecar.core.types import Format, ReductionKind
from sidecar.core.units import build_units
from sidecar.formats import ADAPTERS
from sidecar.formats.base import Adapter
from sidecar.formats.spelling import PLAIN

KEYS = {
    Format.BEDROCK_CONVERSE: [
        "content",
        "text",
        "toolUse",
        "toolUseId",
        "name",
        "input",
        "toolResult",
        "status",
        "type",
        "reasoningContent",
        "reasoningText",
        "signature",
        "redactedContent",
        "cachePoint",
        "image",
        "source",
        "bytes",
        "document",
        "format",
        "video",
        "json",
        "guardContent",
    ],
    Format.GEMINI: [
        "parts",
        "text",
        "thought",
        "thoughtSignature",
        "thought_signature",
        "functionCall",
        "function_call",
        "functionResponse",
        "function_response",
        "id",
        "name",
        "args",
        "response",
        "error",
        "output",
        "inlineData",
        "inline_data",
        "data",
        "mimeType",
        "fileData",
        "executableCode",
        "codeExecutionResult",
        "toolCall",
    ],
    Format.OPENAI_RESPONSES: [
        "type",
        "content",
        "text",
        "call_id",
        "name",
        "arguments",
        "input",
        "output",
        "id",
        "status",
        "summary",
        "encrypted_content",
        "image_url",
        "file_data",
        "action",
        "operation",
        "approval_request_id",
        "role",
    ],
}
WORDS = [
    "user",
    "assistant",
    "model",
    "system",
    "developer",
    "tool",
    "function",
    "message",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "reasoning",
    "compaction",
    "item_reference",
    "input_text",
    "output_text",
    "input_image",
    "computer_screenshot",
    "computer_call",
    "shell_call_output",
    "mcp_approval_request",
    "mcp_approval_response",
    "tool_search_call",
    "default",
    "error",
    "success",
    "a",
    "b",
]
HISTORY = {Format.BEDROCK_CONVERSE: "messages", Format.GEMINI: "contents", Format.OPENAI_RESPONSES: "input"}
NEW = [ADAPTERS[format] for format in HISTORY]


def values(format: Format) -> st.SearchStrategy[Any]:
    leaves = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([*WORDS, "", " ", "\ud800", "QUJD", "{}"])
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS[format]), inner, max_size=4),
        max_leaves=14,
    )


def histories(format: Format) -> st.SearchStrategy[Any]:
    inner = values(format)
    key = "parts" if format is Format.GEMINI else "content"
    shaped = st.builds(lambda role, blocks, rest: {"role": role, key: blocks, **rest}, st.sampled_from(WORDS), inner, st.just({}))
    typed = st.builds(
        lambda type, rest: {"type": type, **rest},
        st.sampled_from(WORDS),
        st.dictionaries(st.sampled_from(KEYS[format]), inner, max_size=4),
    )
    return st.lists(shaped | typed | inner, max_size=6)


@pytest.mark.parametrize("adapter", NEW, ids=lambda adapter: adapter.name)
@settings(max_examples=250, deadline=None)
@given(data=st.data())
def test_any_history_is_judged_grouped_and_answered(adapter: Adapter, data: st.DataObject) -> None:
    items = data.draw(histories(adapter.format))
    rest = data.draw(st.dictionaries(st.sampled_from(["tools", "toolConfig", "system", "instructions"]), values(adapter.format)))
    body = json.dumps({"model": "m", HISTORY[adapter.format]: items, **rest}).encode("utf-8", "surrogatepass")
    scanned = scan(body, adapter.grammar)
    rows = (scanned.items(), scanned.parts())
    judged = adapter.judge(scanned, rows)
    assert judged.violations == adapter.check(scanned)
    assert all(-1 <= found.item_index < len(items) for found in judged.violations)
    # Judged from any assistant item on, it is judged the same.
    build_units(*rows, lambda start, end: body[start:end])
    assert len(adapter.tool_names(scanned)) <= body.count(b'"')
    edit = adapter.inject_tool(scanned)
    if edit is not None and edit.data:
        again = scan(splice(body, [edit]), adapter.grammar)
        assert b"trimtab_read" in adapter.tool_names(again)
        second = adapter.inject_tool(again)
        assert second is not None and second.data == b""
    for item in rows[0]:
        adapter.content_span(body, item)
        adapter.last_marker(body, item.start, item.end)
    for part in rows[1]:
        whole = body[part.start : part.end]
        if part.kind == Kind.MEDIA:
            media = adapter.media(body, (part.start, part.end))
            assert media is None or body[media.start - 1 : media.start] in (b'"', b",")
            made = adapter.stub(ReductionKind.MEDIA, whole, "gone", PLAIN)
            assert made is None or json.loads(made) is not None
        elif part.kind == Kind.CALL and whole[:1] == b"{":
            try:
                call = adapter.parse_call(whole)
            except MalformedBodyError:
                continue
            result = adapter.result(call, "done", is_error=True)
            found = scan(adapter.empty_body[:-2] + b",".join(adapter.result_items([result])) + b"]}", adapter.grammar)
            assert [each.kind for each in found.parts() if each.parent < 0] == [Kind.RESULT]
        if part.payload_start >= 0:
            payload = body[part.payload_start : part.payload_end]
            for kind in (ReductionKind.RESULT, ReductionKind.ARGUMENTS, ReductionKind.REASONING):
                stub = adapter.stub(kind, payload, "gone", PLAIN)
                assert stub is None or type(json.loads(stub)) is type(json.loads(payload))


@pytest.mark.parametrize("adapter", NEW, ids=lambda adapter: adapter.name)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_call_and_reply_is_read_or_refused(adapter: Adapter, data: st.DataObject) -> None:
    value = data.draw(values(adapter.format))
    raw = json.dumps(value).encode("utf-8", "surrogatepass")
    for read in (adapter.parse_call, adapter.read_reply, adapter.usage):
        with contextlib.suppress(MalformedBodyError):
            read(raw)


@pytest.mark.parametrize("adapter", NEW, ids=lambda adapter: adapter.name)
def test_no_history_is_refused_with_a_place(adapter: Adapter) -> None:
    for body in (b"{}", b'{"model":"m"}', b"[]", b'{"%s":5}' % HISTORY[adapter.format].encode()):
        with pytest.raises(MalformedError):
            scan(body, adapter.grammar)
