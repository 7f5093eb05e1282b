"""The `openai-responses` dialect: bodies of OpenAI's Responses API and of servers that speak it.

Reasoning items are bound to the items behind them, and encrypted content must come back as it was, so neither is ever touched;
they leave with their whole turn. What a provider's own tool left is one item of the turn, and stays as it is. The grammar is in
`openai_responses_grammar.py`, the rules are in `openai_responses_rules.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from fastpath import Edit, Item, Role, Scan, locate
from sidecar.core.errors import MalformedBodyError
from sidecar.core.readback import READ_BACK_TOOL_DESCRIPTION, READ_BACK_TOOL_NAME, READ_BACK_TOOL_SCHEMA
from sidecar.core.replies import ModelReply, Stop
from sidecar.core.types import Format, ReductionKind, UsageFigures
from sidecar.formats.base import Adapter, ContentSpan, Judged, MediaPayload, ReadBackCall, Rows, Style
from sidecar.formats.blocks import arguments_object, block_with_marker, data_url
from sidecar.formats.joining import content_span, text_item
from sidecar.formats.openai_responses_grammar import CALLS, GRAMMAR
from sidecar.formats.openai_responses_rules import LOCAL_RULES, WHOLE_RULES
from sidecar.formats.replies import is_told, no_reply, response_object, usage_of
from sidecar.formats.requests import own_limit, plain_text, request, taken_over
from sidecar.formats.rules import History, judge
from sidecar.formats.spelling import PLAIN, spell
from sidecar.formats.tools import already_there, append_tool, element_names, last_member
from sidecar.formats.usage import Figures
from sidecar.formats.values import check_object, elements, string_at, value_at, value_text

__all__ = ["OpenAIResponses"]

_READ_BACK_TOOL: dict[str, object] = {
    "type": "function",
    "name": READ_BACK_TOOL_NAME,
    "description": READ_BACK_TOOL_DESCRIPTION,
    "parameters": READ_BACK_TOOL_SCHEMA,
    # Left out, it would be strict, and the schema refused: it has members that need not be there.
    "strict": False,
}

# What a summary request takes over: where it goes, who asks, and whether the provider keeps it.
_TAKEN_OVER = (b"model", b"models", b"provider", b"user", b"safety_identifier", b"store", b"metadata", b"service_tier")
_LEAST_TOKENS = 16  # Source: openai-openapi, CreateResponse (max_output_tokens, minimum)

_MEDIA = ((b"image_url",), (b"file_data",), (b"input_audio", b"data"))
_MEDIA_TYPES = {b"file_data": "application/octet-stream", b"input_audio": "audio/wav"}


class OpenAIResponses(Adapter):
    """Responses."""

    format = Format.OPENAI_RESPONSES
    name = "openai-responses"
    grammar = GRAMMAR
    # Source: platform.openai.com, "Reasoning models" (items since the last user message must come back with what follows them);
    # https://github.com/continuedev/continue/issues/11994 ("provided without its required 'reasoning' item").
    reasoning = "never"
    empty_body = b'{"input":[]}'
    merges_users = False
    joins_results = False

    def judge(self, scan: Scan, rows: Rows | None = None, earlier: Judged | None = None, since: int = 0) -> Judged:
        """See Adapter."""
        return judge(History(scan, rows, earlier, since), LOCAL_RULES, WHOLE_RULES, earlier)

    def sees_all(self, scan: Scan) -> bool:
        """False for a body that goes on from a response or a conversation that the server keeps, or from a prompt of its own.

        Source: openai-python, types/responses/response_create_params.py.
        """
        return all(last_member(scan, key) in (b"", b"null") for key in (b"previous_response_id", b"conversation", b"prompt"))

    def stub(self, kind: ReductionKind, original: bytes, text: str, style: Style) -> bytes | None:
        """See Adapter. A screenshot has no text in its place; neither has a list whose elements are not parts."""
        if kind is ReductionKind.REASONING:
            return None
        if original[:1] == b'"':
            if kind is ReductionKind.ARGUMENTS:
                text = json.dumps(arguments_object(text), ensure_ascii=False, separators=(",", ":"))
            return spell(text, style)
        if kind is ReductionKind.ARGUMENTS:
            return spell(arguments_object(text), style) if original[:1] == b"{" else None
        part = {"type": "input_text", "text": text}
        if kind is ReductionKind.MEDIA:
            return spell(part, style) if (string_at(original, b"type") or b"").startswith(b"input_") else None
        if original[:1] != b"[":
            return None
        are_parts = all((string_at(element, b"type") or b"").startswith(b"input_") for element in elements(original))
        return spell([part], style) if are_parts else None

    def with_marker(self, stub: bytes, original: bytes, style: Style) -> bytes:
        """See Adapter."""
        return block_with_marker(stub, original, (b"prompt_cache_breakpoint",), style)

    def media(self, body: bytes, part_span: tuple[int, int]) -> MediaPayload | None:
        """See Adapter."""
        for path in _MEDIA:
            found = data_url(body, locate(body, part_span[0], path), _MEDIA_TYPES.get(path[0], ""))
            if found is not None:
                return found
        return None

    def tool_names(self, scan: Scan) -> list[bytes]:
        """See Adapter."""
        return [name for span in scan.tools for name in element_names(scan.body, span, ((b"name",),))]

    def read_back_tool(self) -> bytes:
        """See Adapter."""
        return spell(_READ_BACK_TOOL, PLAIN)

    def inject_tool(self, scan: Scan) -> Edit | None:
        """See Adapter. Refused where the model could not call it.

        Source: openai-python, types/responses/tool_choice_allowed_param.py: only the listed tools may be called.
        """
        choice = last_member(scan, b"tool_choice")
        if choice == b'"none"' or string_at(choice or b"{}", b"type") == b"allowed_tools":
            return None
        present = already_there(scan, self.tool_names(scan), (b"parameters",))
        return present.edit if present.found else append_tool(scan, b"tools", _READ_BACK_TOOL)

    def parse_call(self, call: bytes) -> ReadBackCall:
        """See Adapter. Takes an item of any type that the agent answers; those without a name go by their type."""
        value = check_object(call, "call")
        kind = string_at(value, b"type") or b"function_call"
        name = string_at(value, b"name")
        if name is None and kind in (b"function_call", b"custom_tool_call"):
            raise MalformedBodyError("call has no name", offset_bytes=0, bound="")
        raw_id = value_at(value, b"call_id") or value_at(value, b"id") or b'""'
        return ReadBackCall(
            call_id=value_text(raw_id).decode("utf-8", "replace"),
            name=(kind if name is None else name).decode("utf-8", "replace"),
            arguments=_arguments(value_at(value, b"input" if kind == b"custom_tool_call" else b"arguments")),
            raw_id=raw_id,
            kind=kind.decode("utf-8", "replace"),
        )

    def result(self, call: ReadBackCall, text: str, *, is_error: bool) -> bytes:
        """See Adapter. Only patches and shells have a place for is_error; elsewhere the text says it."""
        kind = call.kind.encode()
        answer = CALLS.get(kind, b"function_call_output")
        head = b'{"type":"' + answer + b'","call_id":' + (call.raw_id or spell(call.call_id, PLAIN))
        output = spell(text, PLAIN)
        if kind == b"shell_call":
            end = b'{"type":"exit","exit_code":' + (b"1" if is_error else b"0") + b"}"
            output = b'[{"stdout":"","stderr":' + output + b',"outcome":' + end + b"}]"
        elif kind == b"apply_patch_call":
            head += b',"status":' + (b'"failed"' if is_error else b'"completed"')
        elif kind == b"local_shell_call":
            head = b'{"type":"local_shell_call_output","id":' + (call.raw_id or spell(call.call_id, PLAIN))
            head += b',"call_id":' + (call.raw_id or spell(call.call_id, PLAIN))
        return head + b',"output":' + output + b"}"

    def takes_text(self, call: bytes) -> bool:
        """See Adapter. What answers a computer call is a picture."""
        return string_at(call, b"type") != b"computer_call"

    def result_items(self, results: Sequence[bytes]) -> list[bytes]:
        """See Adapter. Each result is an item."""
        return list(results)

    def listed(self, item: bytes) -> bytes:
        """See Adapter."""
        return text_item(item, Role.USER, PLAIN) if item[:1] == b'"' else item

    def usage(self, usage: bytes) -> UsageFigures:
        """See Adapter. Source: openai-python, types/responses/response_usage.py."""
        figures = Figures(usage)
        cached = figures.first(("input_tokens_details", "cached_tokens"))
        return figures.told(figures.first(("input_tokens",)), cached, figures.first(("output_tokens",)))

    def text_item(self, text: str, role: int, marker: bytes, style: Style) -> bytes:
        """See Adapter."""
        return text_item(spell(text, style), role, style)

    def text_part(self, text: str, marker: bytes, style: Style) -> bytes:
        """See Adapter."""
        return spell({"type": "input_text", "text": text}, style)

    def wrap_string(self, value: bytes) -> bytes:
        """See Adapter."""
        return b'{"type":"input_text","text":' + value + b"}"

    def content_span(self, body: bytes, item: Item) -> ContentSpan | None:
        """See Adapter."""
        return content_span(body, item) if body[item.start : item.start + 1] == b"{" else None

    def summary_request(self, envelope: bytes, system: str, user: str, max_output_tokens: int) -> bytes:
        """See Adapter."""
        limit = max(own_limit(envelope, b"max_output_tokens", max_output_tokens), _LEAST_TOKENS)
        return request(
            [
                *taken_over(envelope, _TAKEN_OVER),
                (b"max_output_tokens", str(limit).encode()),
                (b"instructions", plain_text(system)),
                (b"input", b"[" + text_item(plain_text(user), Role.USER, PLAIN) + b"]"),
            ]
        )

    def read_reply(self, response: bytes) -> ModelReply:
        """See Adapter. Source: openai-python, types/responses/response.py (status, incomplete_details)."""
        value = response_object(response)
        output = value_at(value, b"output")
        if output[:1] != b"[":
            no_reply("it has no output")
        if string_at(value, b"status") in (b"failed", b"cancelled"):
            no_reply("the response failed or was cancelled")
        texts: list[bytes] = []
        refused = has_calls = False
        for item in elements(output):
            kind = string_at(item, b"type") or b""
            has_calls = has_calls or kind in CALLS or kind == b"mcp_approval_request"
            for part in elements(value_at(item, b"content")) if kind == b"message" else ():
                refused = refused or string_at(part, b"type") == b"refusal"
                text = string_at(part, b"text") if string_at(part, b"type") == b"output_text" else None
                texts += [] if text is None else [text]
        return ModelReply(
            text=b"".join(texts).decode("utf-8", "replace"),
            stop=Stop.REFUSED if refused else _stop(value, has_calls=has_calls),
            has_calls=has_calls,
            usage=usage_of(self, value_at(value, b"usage")),
        )


def _stop(response: bytes, *, has_calls: bool) -> Stop:
    """Why the model stopped: told by status and, where that is "incomplete", by the reason."""
    status = string_at(response, b"status")
    if status == b"completed":
        return Stop.CALL if has_calls else Stop.END
    reason = string_at(response, b"incomplete_details", b"reason")
    if reason == b"content_filter":
        return Stop.REFUSED
    return Stop.LENGTH if status == b"incomplete" or is_told(reason or b"") else Stop.UNKNOWN


def _arguments(given: bytes) -> bytes | None:
    """Arguments as JSON object text, decoded from a string."""
    text = value_text(given) if given[:1] == b'"' else given
    try:
        return check_object(text, "arguments")
    except MalformedBodyError:
        return None
