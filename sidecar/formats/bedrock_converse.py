"""The `bedrock-converse` dialect: bodies of Amazon Bedrock's Converse and ConverseStream.

A block has no `type`: its one member names what it is. A cache marker is a block of its own, a cache point, which closes what
stands before it. What a tool of the provider left, and any signed or redacted reasoning, must come back as it was and is never
touched. Source: botocore, data/bedrock-runtime/2023-09-30/service-2.json (Message, ContentBlock, ToolConfiguration). The rules
are in `bedrock_converse_rules.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from fastpath import Code, Edit, Field, Grammar, GrammarSpec, Item, Kind, PartFlag, Role, Scan, Shape, locate, scan
from sidecar.core.errors import MalformedBodyError
from sidecar.core.readback import READ_BACK_TOOL_DESCRIPTION, READ_BACK_TOOL_NAME, READ_BACK_TOOL_SCHEMA
from sidecar.core.replies import ModelReply, Stop
from sidecar.core.types import Format, ReductionKind, UsageFigures
from sidecar.formats.base import Adapter, ContentSpan, Judged, MediaPayload, ReadBackCall, Rows, Style
from sidecar.formats.bedrock_converse_rules import LOCAL_RULES, WHOLE_RULES, is_usual, thinking_of
from sidecar.formats.blocks import arguments_object
from sidecar.formats.joining import begins_loop_soundly, content_span, text_item
from sidecar.formats.replies import no_reply, response_object, stop_of, usage_of
from sidecar.formats.requests import own_limit, plain_text, request, taken_over
from sidecar.formats.rules import History, judge
from sidecar.formats.spelling import PLAIN, spell
from sidecar.formats.tools import already_there, append_tool, element_names, last_member
from sidecar.formats.usage import Figures
from sidecar.formats.values import check_object, elements, string_at, value_at, value_text

__all__ = ["GRAMMAR", "BedrockConverse"]

_BLOCKS = {b"content": Field(shape="blocks")}
_MEDIA_TYPES = {b"image": "image/", b"video": "video/", b"audio": "audio/", b"document": "application/"}

GRAMMAR = Grammar(
    GrammarSpec(
        history=(b"messages",),
        system=(b"system",),
        tools=(b"toolConfig",),
        system_shape="envelope_blocks",
        tools_shape="tool_config",
        item="item",
        shapes={
            "item": Shape(by=b"role", cases={b"user": "user", b"assistant": "assistant", b"system": "system"}, default="other"),
            "user": Shape(role=Role.USER, fields=_BLOCKS),
            "assistant": Shape(role=Role.ASSISTANT, fields=_BLOCKS),
            "system": Shape(role=Role.SYSTEM, fields=_BLOCKS),
            "other": Shape(role=Role.OTHER, fields=_BLOCKS),
            "blocks": Shape(each="block"),
            "block": Shape(
                kind=Kind.OTHER,
                fields={
                    b"text": Field(Code.PAYLOAD, kind=Kind.TEXT),
                    b"image": Field(kind=Kind.MEDIA),
                    b"video": Field(kind=Kind.MEDIA),
                    b"audio": Field(kind=Kind.MEDIA),
                    b"document": Field(shape="document"),
                    b"toolUse": Field(kind=Kind.CALL, shape="call"),
                    b"toolResult": Field(kind=Kind.RESULT, shape="result"),
                    b"reasoningContent": Field(kind=Kind.REASONING, shape="reasoning"),
                    b"cachePoint": Field(kind=Kind.MARKER),
                },
            ),
            # Media is what holds base64. A document of plain text or of blocks is text, cut as such in a result.
            "document": Shape(fields={b"source": Field(shape="source")}),
            "source": Shape(fields={b"bytes": Field(kind=Kind.MEDIA)}),
            "call": Shape(
                fields={
                    b"toolUseId": Field(Code.ID),
                    b"name": Field(Code.NAME),
                    b"input": Field(Code.PAYLOAD),
                    b"type": Field(kind=Kind.SERVER_CALL),
                },
            ),
            "result": Shape(
                fields={
                    b"toolUseId": Field(Code.ID),
                    b"content": Field(Code.PAYLOAD, shape="nested_blocks"),
                    b"status": Field(Code.ERROR),
                    # Only results of the provider's own tools have a type. What may be cut of them is not documented: nothing.
                    b"type": Field(Code.SIGNATURE, kind=Kind.SERVER_RESULT),
                },
            ),
            "nested_blocks": Shape(each="nested_block"),
            "nested_block": Shape(
                kind=Kind.OTHER,
                fields={
                    b"text": Field(Code.PAYLOAD, kind=Kind.TEXT),
                    b"image": Field(kind=Kind.MEDIA),
                    b"video": Field(kind=Kind.MEDIA),
                    b"document": Field(shape="document"),
                },
            ),
            "reasoning": Shape(
                fields={b"reasoningText": Field(shape="reasoning_text"), b"redactedContent": Field(Code.SIGNATURE)},
            ),
            "reasoning_text": Shape(fields={b"text": Field(Code.PAYLOAD), b"signature": Field(Code.SIGNATURE)}),
            "envelope_blocks": Shape(each="envelope_block"),
            "envelope_block": Shape(fields={b"cachePoint": Field(Code.MARKER)}),
            "tool_config": Shape(fields={b"tools": Field(shape="envelope_blocks")}),
        },
    )
)

_READ_BACK_TOOL: dict[str, object] = {
    "toolSpec": {
        "name": READ_BACK_TOOL_NAME,
        "description": READ_BACK_TOOL_DESCRIPTION,
        "inputSchema": {"json": READ_BACK_TOOL_SCHEMA},
    }
}
_SCHEMA = (b"toolSpec", b"inputSchema", b"json")

# What a summary request takes over: where it goes, under which guardrail, and how it is accounted for.
_TAKEN_OVER = (b"modelId", b"guardrailConfig", b"requestMetadata", b"performanceConfig", b"serviceTier", b"projectIdentifier")

# Source: botocore, service-2.json (StopReason).
_STOPS = {
    b"end_turn": Stop.END,
    b"stop_sequence": Stop.END,
    b"max_tokens": Stop.LENGTH,
    b"model_context_window_exceeded": Stop.LENGTH,
    b"tool_use": Stop.CALL,
    b"guardrail_intervened": Stop.REFUSED,
    b"content_filtered": Stop.REFUSED,
}


class BedrockConverse(Adapter):
    """Converse."""

    format = Format.BEDROCK_CONVERSE
    name = "bedrock-converse"
    grammar = GRAMMAR
    # As in Messages: what the models behind it ask of thinking is the same. Source: docs.aws.amazon.com/bedrock, "Extended
    # thinking" (blocks of earlier turns may be left out, those of the current tool loop must come back).
    reasoning = "remove_before_last_user"
    empty_body = b'{"messages":[]}'
    merges_users = True
    joins_results = True
    one_item = "users"

    def judge(self, scan: Scan, rows: Rows | None = None, earlier: Judged | None = None, since: int = 0) -> Judged:
        """See Adapter."""
        return judge(History(scan, rows, earlier, since), LOCAL_RULES, WHOLE_RULES, earlier, is_usual)

    def binds_reasoning(self, scan: Scan, edited_from: int) -> bool:
        """Whether a signed block stands behind the change. Source: as for `anthropic-messages`, whose models are served here."""
        return any(
            part.kind == Kind.REASONING and part.flags & PartFlag.SIGNED and part.start >= edited_from for part in scan.parts()
        )

    def sees_all(self, scan: Scan) -> bool:
        """Converse keeps no state between requests; a prompt from Prompt management holds messages of its own.

        Source: docs.aws.amazon.com/bedrock, API reference of Converse ("modelId": the ARN of a prompt; "promptVariables").
        """
        model = last_member(scan, b"modelId")
        return b":prompt/" not in model and last_member(scan, b"promptVariables") in (b"", b"null")

    def stub(self, kind: ReductionKind, original: bytes, text: str, style: Style) -> bytes | None:
        """See Adapter."""
        if kind is ReductionKind.REASONING:
            return None
        if kind is ReductionKind.ARGUMENTS:
            return spell(arguments_object(text), style) if original[:1] == b"{" else None
        if kind is ReductionKind.MEDIA:
            return spell({"text": text}, style) if original[:1] == b"{" else None
        if original[:1] == b'"':
            return spell(text, style)
        return spell([{"text": text}], style) if original[:1] == b"[" else None

    def media(self, body: bytes, part_span: tuple[int, int]) -> MediaPayload | None:
        """See Adapter. The format is a word; with the kind of block it makes a media type."""
        start = part_span[0]
        for kind, prefix in _MEDIA_TYPES.items():
            data = locate(body, start, (kind, b"source", b"bytes"))
            if data is not None and body[data[0] : data[0] + 1] == b'"':
                word = string_at(body[start : part_span[1]], kind, b"format") or b"octet-stream"
                return MediaPayload(data[0] + 1, data[1] - 1, prefix + word.decode("utf-8", "replace"))
        return None

    def tool_names(self, scan: Scan) -> list[bytes]:
        """See Adapter."""
        tools = value_at(last_member(scan, b"toolConfig") or b"{}", b"tools")
        return element_names(tools, (0, len(tools)), ((b"toolSpec", b"name"), (b"systemTool", b"name")))

    def read_back_tool(self) -> bytes:
        """See Adapter."""
        return spell(_READ_BACK_TOOL, PLAIN)

    def inject_tool(self, scan: Scan) -> Edit | None:
        """See Adapter. It stands last, behind a cache point too: what that point closes stays as it was."""
        present = already_there(scan, self.tool_names(scan), _SCHEMA, elements_at=(b"tools",))
        return present.edit if present.found else append_tool(scan, b"toolConfig", _READ_BACK_TOOL, inner=b"tools")

    def parse_call(self, call: bytes) -> ReadBackCall:
        """See Adapter. Takes a block, or the `toolUse` in it."""
        value = check_object(call, "call")
        value = value_at(value, b"toolUse") or value
        name = string_at(value, b"name")
        if name is None:
            raise MalformedBodyError("call has no name", offset_bytes=0, bound="")
        raw_id = value_at(value, b"toolUseId") or b'""'
        given = value_at(value, b"input")
        return ReadBackCall(
            call_id=value_text(raw_id).decode("utf-8", "replace"),
            name=name.decode("utf-8", "replace"),
            arguments=given if given[:1] == b"{" else None,
            raw_id=raw_id,
        )

    def result(self, call: ReadBackCall, text: str, *, is_error: bool) -> bytes:
        """See Adapter."""
        id = call.raw_id or spell(call.call_id, PLAIN)
        status = b'"error"' if is_error else b'"success"'
        content = b'[{"text":' + spell(text, PLAIN) + b"}]"
        return b'{"toolResult":{"toolUseId":' + id + b',"content":' + content + b',"status":' + status + b"}}"

    def result_items(self, results: Sequence[bytes]) -> list[bytes]:
        """See Adapter. All results of a turn are one user item."""
        return [b'{"role":"user","content":[' + b",".join(results) + b"]}"] if results else []

    def usage(self, usage: bytes) -> UsageFigures:
        """See Adapter. `inputTokens` leaves out what was read from or written to the cache.

        Source: docs.aws.amazon.com/bedrock, "Prompt caching for faster model inference", on TokenUsage.
        """
        figures = Figures(usage)
        fresh = figures.first(("inputTokens",))
        read = figures.first(("cacheReadInputTokens",), ("cacheReadInputTokenCount",))
        written = figures.first(("cacheWriteInputTokens",), ("cacheWriteInputTokenCount",))
        total = None if fresh is None else fresh + (read or 0) + (written or 0)
        return figures.told(total, read, figures.first(("outputTokens",)))

    def text_item(self, text: str, role: int, marker: bytes, style: Style) -> bytes:
        """See Adapter."""
        return text_item(b"[" + self.text_part(text, marker, style) + b"]", role, style)

    def text_part(self, text: str, marker: bytes, style: Style) -> bytes:
        """See Adapter. With a marker: the text and a cache point behind it."""
        block = spell({"text": text}, style)
        if not marker:
            return block
        comma, colon = (b", ", b": ") if style.spaced else (b",", b":")
        return block + comma + b'{"cachePoint"' + colon + marker + b"}"

    def wrap_string(self, value: bytes) -> bytes:
        """See Adapter."""
        return b'{"text":' + value + b"}"

    def content_span(self, body: bytes, item: Item) -> ContentSpan | None:
        """See Adapter. A cache point belongs to the block that it stands behind."""
        found = content_span(body, item)
        if found is None or found.is_string:
            return None
        spans: list[tuple[int, int]] = []
        for start, end in found.elements:
            if spans and _cache_point(body[start:end]):
                spans[-1] = (spans[-1][0], end)
            else:
                spans.append((start, end))
        return found._replace(elements=tuple(spans))

    def last_marker(self, body: bytes, start: int, end: int) -> bytes:
        """See Adapter."""
        if b"cachePoint" not in body[start:end] and b"\\" not in body[start:end]:
            return b""
        held = b'{"messages":[' + body[start:end] + b"]}"
        found = [part for part in scan(held, GRAMMAR).parts() if part.kind == Kind.MARKER and part.parent < 0]
        return _cache_point(held[found[-1].start : found[-1].end]) if found else b""

    def element_marker(self, body: bytes, start: int, end: int) -> bytes:
        """See Adapter."""
        found = [_cache_point(block) for block in elements(b"[" + body[start:end] + b"]")]
        return next((marker for marker in reversed(found) if marker), b"")

    def may_follow_summary(self, scan: Scan, rows: Rows, index: int) -> bool:
        """See Adapter. Source: as for the rule THINKING_NOT_FIRST."""
        thinking = thinking_of(last_member(scan, b"additionalModelRequestFields"))
        if not thinking or string_at(thinking, b"type") in (b"disabled", b"adaptive"):
            return True
        return begins_loop_soundly(rows, index)

    def summary_request(self, envelope: bytes, system: str, user: str, max_output_tokens: int) -> bytes:
        """See Adapter."""
        own = value_at(envelope, b"inferenceConfig")
        limit = own_limit(own if own[:1] == b"{" else b"{}", b"maxTokens", max_output_tokens)
        asked = b'[{"role":"user","content":[{"text":' + plain_text(user) + b"}]}]"
        return request(
            [
                *taken_over(envelope, _TAKEN_OVER),
                (b"inferenceConfig", b'{"maxTokens":' + str(limit).encode() + b"}"),
                (b"system", b'[{"text":' + plain_text(system) + b"}]"),
                (b"messages", asked),
            ]
        )

    def read_reply(self, response: bytes) -> ModelReply:
        """See Adapter."""
        value = response_object(response)
        content = value_at(value, b"output", b"message", b"content")
        if content[:1] != b"[":
            no_reply("it has no message")
        blocks = elements(content)
        texts = [text for block in blocks if (text := string_at(block, b"text")) is not None]
        return ModelReply(
            text=b"".join(texts).decode("utf-8", "replace"),
            stop=stop_of(value_at(value, b"stopReason"), _STOPS),
            has_calls=any(value_at(block, b"toolUse") for block in blocks),
            usage=usage_of(self, value_at(value, b"usage")),
        )


def _cache_point(block: bytes) -> bytes:
    """Value of a block that is a cache point; empty for any other block."""
    found = value_at(block, b"cachePoint")
    return b"" if found in (b"null", b"false") else found
