"""The `anthropic-messages` dialect: Messages bodies of Anthropic and of servers that speak it.

Which server results may be cut. A block whose content is encrypted (`encrypted_content`, `encrypted_stdout`) must come back as
it was, so it counts as signed and is never touched; so do thinking, redacted thinking and compaction blocks. Of the rest, a
SERVER_RESULT part may be shortened exactly where it has a payload: what an MCP server returned, the output of code, a file's
text. Fetched pages and search results have none: citations in the text of the same turn point into them, and tool search
results load the tools that later turns call. Source: anthropic-sdk-python, types/*_tool_result_block_param.py (which fields a
client may fill); the docs of the web search tool for encrypted_content. The rules are in `anthropic_messages_rules.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from fastpath import Code, Edit, Field, Grammar, GrammarSpec, Item, Kind, PartFlag, Role, Scan, Shape
from sidecar.core.errors import MalformedBodyError
from sidecar.core.readback import READ_BACK_TOOL_DESCRIPTION, READ_BACK_TOOL_NAME, READ_BACK_TOOL_SCHEMA
from sidecar.core.replies import ModelReply, Stop
from sidecar.core.types import Format, ReductionKind, UsageFigures
from sidecar.formats.anthropic_messages_rules import LOCAL_RULES, WHOLE_RULES
from sidecar.formats.base import Adapter, ContentSpan, Judged, MediaPayload, ReadBackCall, Rows, Style
from sidecar.formats.blocks import arguments_object, base64_source, block_with_marker, result_value, text_block
from sidecar.formats.joining import (
    begins_loop_soundly,
    block_marker,
    content_span,
    last_marker,
    marked_block,
    text_item,
    wrap_string,
)
from sidecar.formats.replies import block_kinds, content_text, no_reply, response_object, stop_of, usage_of
from sidecar.formats.requests import own_limit, plain_text, request, taken_over
from sidecar.formats.rules import History, judge
from sidecar.formats.spelling import PLAIN, spell
from sidecar.formats.tools import already_there, append_tool, element_names, last_member
from sidecar.formats.turn_rules import is_usual
from sidecar.formats.usage import Figures
from sidecar.formats.values import check_object, string_at, value_at, value_text

__all__ = ["GRAMMAR", "AnthropicMessages"]

_MARKER = {b"cache_control": Field(Code.MARKER)}
_CONTENT = {b"content": Field(shape="blocks", text_block=True)}
_SERVER_RESULT = {b"tool_use_id": Field(Code.ID), b"is_error": Field(Code.ERROR)} | _MARKER
_CALL = {b"id": Field(Code.ID), b"name": Field(Code.NAME), b"input": Field(Code.PAYLOAD)} | _MARKER

GRAMMAR = Grammar(
    GrammarSpec(
        history=(b"messages",),
        system=(b"system",),
        tools=(b"tools",),
        system_shape="blocks",
        tools_shape="tools",
        item="item",
        shapes={
            "item": Shape(by=b"role", cases={b"user": "user", b"assistant": "assistant", b"system": "system"}, default="other"),
            "user": Shape(role=Role.USER, fields=_CONTENT),
            "assistant": Shape(role=Role.ASSISTANT, fields=_CONTENT),
            # Source: platform.claude.com, "Mid-conversation system messages".
            "system": Shape(role=Role.SYSTEM, fields=_CONTENT),
            "other": Shape(role=Role.OTHER, fields=_CONTENT),
            "blocks": Shape(each="block"),
            "block": Shape(
                by=b"type",
                cases={
                    b"text": "text",
                    b"image": "media",
                    b"document": "document",
                    b"search_result": "search_result",
                    b"thinking": "thinking",
                    b"redacted_thinking": "redacted_thinking",
                    b"tool_use": "call",
                    b"tool_result": "result",
                    b"server_tool_use": "server_call",
                    b"mcp_tool_use": "server_call",
                    b"mcp_tool_result": "mcp_result",
                    b"code_execution_tool_result": "code_result",
                    b"bash_code_execution_tool_result": "code_result",
                    b"text_editor_code_execution_tool_result": "editor_result",
                    b"web_search_tool_result": "kept_result",
                    b"web_fetch_tool_result": "kept_result",
                    b"tool_search_tool_result": "kept_result",
                    b"advisor_tool_result": "kept_result",
                    b"compaction": "opaque",
                },
                default="other_block",
            ),
            "text": Shape(kind=Kind.TEXT, fields={b"text": Field(Code.PAYLOAD)} | _MARKER),
            "media": Shape(kind=Kind.MEDIA, fields=_MARKER),
            # Media is what holds base64. A document of plain text or of blocks is text: cut as such in a result, else left alone.
            "document": Shape(kind=Kind.OTHER, fields=_MARKER | {b"source": Field(shape="source")}),
            "source": Shape(by=b"type", cases={b"base64": "base64_source"}, default="block_source"),
            "base64_source": Shape(fields={b"data": Field(kind=Kind.MEDIA)}),
            "block_source": Shape(fields={b"content": Field(shape="nested_blocks")}),
            # A block that is not known may hold base64 too; then it is cut whole or not at all.
            "other_block": Shape(kind=Kind.OTHER, fields=_MARKER | {b"source": Field(shape="source")}),
            "search_result": Shape(kind=Kind.OTHER, fields=_MARKER | {b"content": Field(shape="nested_blocks")}),
            "thinking": Shape(
                kind=Kind.REASONING, fields={b"thinking": Field(Code.PAYLOAD), b"signature": Field(Code.SIGNATURE)}
            ),
            "redacted_thinking": Shape(kind=Kind.REASONING, fields={b"data": Field(Code.SIGNATURE)}),
            "call": Shape(kind=Kind.CALL, fields=_CALL),
            "result": Shape(
                kind=Kind.RESULT,
                fields={
                    b"tool_use_id": Field(Code.ID),
                    b"content": Field(Code.PAYLOAD, shape="nested_blocks", text_block=True),
                    b"is_error": Field(Code.ERROR),
                }
                | _MARKER,
            ),
            "nested_blocks": Shape(each="nested_block"),
            "nested_block": Shape(
                by=b"type",
                cases={b"text": "text", b"image": "media", b"document": "document", b"search_result": "search_result"},
                default="other_block",
            ),
            "server_call": Shape(kind=Kind.SERVER_CALL, fields=_CALL),
            "mcp_result": Shape(
                kind=Kind.SERVER_RESULT,
                fields=_SERVER_RESULT | {b"content": Field(Code.PAYLOAD, shape="nested_blocks", text_block=True)},
            ),
            "code_result": Shape(kind=Kind.SERVER_RESULT, fields=_SERVER_RESULT | {b"content": Field(shape="code_output")}),
            "code_output": Shape(fields={b"stdout": Field(Code.PAYLOAD), b"encrypted_stdout": Field(Code.SIGNATURE)}),
            "editor_result": Shape(kind=Kind.SERVER_RESULT, fields=_SERVER_RESULT | {b"content": Field(shape="editor_output")}),
            "editor_output": Shape(
                by=b"type", cases={b"text_editor_code_execution_view_result": "editor_view"}, default="nothing"
            ),
            "editor_view": Shape(fields={b"content": Field(Code.PAYLOAD)}),
            "kept_result": Shape(kind=Kind.SERVER_RESULT, fields=_SERVER_RESULT | {b"content": Field(shape="kept_output")}),
            # One object, or a list of them.
            "kept_output": Shape(fields={b"encrypted_content": Field(Code.SIGNATURE)}, each="kept_output"),
            "opaque": Shape(
                kind=Kind.OPAQUE,
                fields={b"encrypted_content": Field(Code.SIGNATURE), b"signature": Field(Code.SIGNATURE)} | _MARKER,
            ),
            "nothing": Shape(),
            "tools": Shape(each="tool"),
            "tool": Shape(fields=_MARKER),
        },
    )
)

_READ_BACK_TOOL: dict[str, object] = {
    "name": READ_BACK_TOOL_NAME,
    "description": READ_BACK_TOOL_DESCRIPTION,
    "input_schema": READ_BACK_TOOL_SCHEMA,
}

# What a summary request takes over. Without them it would go elsewhere, or be refused: the version stands in the body on Bedrock
# and Vertex; gateways ask for a user in `metadata`, route by `provider` and `models`; `inference_geo` binds where data may go.
_TAKEN_OVER = (b"model", b"models", b"provider", b"metadata", b"anthropic_version", b"inference_geo")

# Source: anthropic-sdk-python, types/beta/beta_stop_reason.py. A paused turn is not at its end.
_STOPS = {
    b"end_turn": Stop.END,
    b"stop_sequence": Stop.END,
    b"max_tokens": Stop.LENGTH,
    b"model_context_window_exceeded": Stop.LENGTH,
    b"pause_turn": Stop.LENGTH,
    b"tool_use": Stop.CALL,
    b"refusal": Stop.REFUSED,
}
_CALLS = (b"tool_use", b"server_tool_use", b"mcp_tool_use")


class AnthropicMessages(Adapter):
    """Messages."""

    format = Format.ANTHROPIC_MESSAGES
    name = "anthropic-messages"
    grammar = GRAMMAR
    # Source: platform.claude.com, "Thinking": blocks of earlier turns may be left out, those of the current loop must come back.
    reasoning = "remove_before_last_user"
    empty_body = b'{"messages":[]}'
    merges_users = True
    joins_results = True

    def judge(self, scan: Scan, rows: Rows | None = None, earlier: Judged | None = None, since: int = 0) -> Judged:
        """See Adapter."""
        return judge(History(scan, rows, earlier, since), LOCAL_RULES, WHOLE_RULES, earlier, is_usual)

    def sees_all(self, scan: Scan) -> bool:
        """False for a body that continues a conversation held by the server.

        Source: anthropic-sdk-python, types/beta/beta_message_thread_param.py: `{"type": "continue", "previous_message_id":
        ...}`.
        """
        thread = last_member(scan, b"thread")
        return thread[:1] != b"{" or string_at(thread, b"type") == b"create"

    def binds_reasoning(self, scan: Scan, edited_from: int) -> bool:
        """Whether a signed block stands behind the change, and the body does not ask the provider to drop what no longer fits.

        Source: platform.claude.com, "Prefix checks on thinking blocks": models with preserved thinking answer 400, or drop the
        block, when system, tools or an earlier message changed; `thinking.block_binding.prefix_mismatch_behavior: "drop_block"`
        chooses the latter. Models before them take the block.
        """
        thinking = last_member(scan, b"thinking")
        if thinking and string_at(thinking, b"block_binding", b"prefix_mismatch_behavior") == b"drop_block":
            return False
        return any(
            part.kind == Kind.REASONING and part.flags & PartFlag.SIGNED and part.start >= edited_from for part in scan.parts()
        )

    def stub(self, kind: ReductionKind, original: bytes, text: str, style: Style) -> bytes | None:
        """See Adapter."""
        if kind is ReductionKind.REASONING:
            return None
        if kind is ReductionKind.ARGUMENTS:
            return spell(arguments_object(text), style) if original[:1] == b"{" else None
        if kind is ReductionKind.MEDIA:
            return text_block(original, text, style)
        return result_value(original, text, style)

    def with_marker(self, stub: bytes, original: bytes, style: Style) -> bytes:
        """See Adapter."""
        return block_with_marker(stub, original, (b"cache_control",), style)

    def media(self, body: bytes, part_span: tuple[int, int]) -> MediaPayload | None:
        """See Adapter."""
        return base64_source(body, part_span[0])

    def tool_names(self, scan: Scan) -> list[bytes]:
        """See Adapter."""
        return [name for span in scan.tools for name in element_names(scan.body, span, ((b"name",),))]

    def read_back_tool(self) -> bytes:
        """See Adapter."""
        return spell(_READ_BACK_TOOL, PLAIN)

    def inject_tool(self, scan: Scan) -> Edit | None:
        """See Adapter. Refused with `tool_choice` none: the model could not call it."""
        if string_at(last_member(scan, b"tool_choice") or b"{}", b"type") == b"none":
            return None
        present = already_there(scan, self.tool_names(scan), (b"input_schema",))
        return present.edit if present.found else append_tool(scan, b"tools", _READ_BACK_TOOL)

    def parse_call(self, call: bytes) -> ReadBackCall:
        """See Adapter. Takes a `tool_use` block."""
        value = check_object(call, "call")
        name = string_at(value, b"name")
        if name is None:
            raise MalformedBodyError("call has no name", offset_bytes=0, bound="")
        raw_id = value_at(value, b"id") or b'""'
        given = value_at(value, b"input")
        return ReadBackCall(
            call_id=value_text(raw_id).decode("utf-8", "replace"),
            name=name.decode("utf-8", "replace"),
            arguments=given if given[:1] == b"{" else None,
            raw_id=raw_id,
        )

    def result(self, call: ReadBackCall, text: str, *, is_error: bool) -> bytes:
        """See Adapter."""
        error = b',"is_error":true' if is_error else b""
        id = call.raw_id or spell(call.call_id, PLAIN)
        return b'{"type":"tool_result","tool_use_id":' + id + b',"content":' + spell(text, PLAIN) + error + b"}"

    def result_items(self, results: Sequence[bytes]) -> list[bytes]:
        """See Adapter. All results of a turn are one user item."""
        return [b'{"role":"user","content":[' + b",".join(results) + b"]}"] if results else []

    def usage(self, usage: bytes) -> UsageFigures:
        """See Adapter. `input_tokens` leaves out what was read from or written to the cache.

        Source: anthropic-sdk-python, types/usage.py: "Total input tokens in a request is the summation of `input_tokens`,
        `cache_creation_input_tokens`, and `cache_read_input_tokens`."
        """
        figures = Figures(usage)
        fresh = figures.first(("input_tokens",))
        read = figures.first(("cache_read_input_tokens",))
        written = figures.first(("cache_creation_input_tokens",))
        total = None if fresh is None else fresh + (read or 0) + (written or 0)
        return figures.told(total, read, figures.first(("output_tokens",)))

    def text_item(self, text: str, role: int, marker: bytes, style: Style) -> bytes:
        """See Adapter."""
        return text_item(b"[" + marked_block(text, marker, style) + b"]", role, style)

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
        """See Adapter."""
        return last_marker(body[start:end], GRAMMAR, on_item=False)

    def element_marker(self, body: bytes, start: int, end: int) -> bytes:
        """See Adapter."""
        return block_marker(body[start:end])

    def may_follow_summary(self, scan: Scan, rows: Rows, index: int) -> bool:
        """See Adapter. `adaptive` thinking does not ask for a thinking block in front; a type that is not known may.

        Source: as for the rule THINKING_NOT_FIRST.
        """
        thinking = last_member(scan, b"thinking")
        if thinking[:1] != b"{" or string_at(thinking, b"type") in (b"disabled", b"adaptive"):
            return True
        return begins_loop_soundly(rows, index)

    def summary_request(self, envelope: bytes, system: str, user: str, max_output_tokens: int) -> bytes:
        """See Adapter."""
        limit = own_limit(envelope, b"max_tokens", max_output_tokens)
        return request(
            [
                *taken_over(envelope, _TAKEN_OVER),
                (b"max_tokens", str(limit).encode()),
                (b"system", plain_text(system)),
                (b"messages", b"[" + text_item(plain_text(user), Role.USER, PLAIN) + b"]"),
            ]
        )

    def read_reply(self, response: bytes) -> ModelReply:
        """See Adapter."""
        value = response_object(response)
        content = value_at(value, b"content")
        if not content:
            no_reply("it has no content")
        return ModelReply(
            text=content_text(content),
            stop=stop_of(value_at(value, b"stop_reason"), _STOPS),
            has_calls=any(kind in _CALLS for kind in block_kinds(content)),
            usage=usage_of(self, value_at(value, b"usage")),
        )
