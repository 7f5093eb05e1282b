"""The `gemini` dialect: generateContent bodies of the Gemini API and of Vertex AI.

A signed part (`thoughtSignature`) must come back as it was where the API asks for it, so none is ever touched. The response of a
function is an object and stays one, an error stays an error; data inside a response becomes data of type text/plain, since no
text part may stand there. The grammar is in `gemini_grammar.py`, the rules are in `gemini_rules.py`.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

from fastpath import Edit, Item, Role, Scan, locate
from sidecar.core.errors import MalformedBodyError
from sidecar.core.readback import READ_BACK_TOOL_DESCRIPTION, READ_BACK_TOOL_NAME, READ_BACK_TOOL_SCHEMA
from sidecar.core.replies import ModelReply, Stop
from sidecar.core.types import Format, ReductionKind, UsageFigures
from sidecar.formats.base import Adapter, ContentSpan, Judged, MediaPayload, ReadBackCall, Rows, Style
from sidecar.formats.blocks import arguments_object
from sidecar.formats.gemini_grammar import GRAMMAR, both
from sidecar.formats.gemini_rules import LOCAL_RULES, WHOLE_RULES
from sidecar.formats.joining import content_span
from sidecar.formats.replies import is_told, no_reply, response_object, stop_of, usage_of
from sidecar.formats.requests import own_limit, plain_text, request, taken_over
from sidecar.formats.rules import ASSISTANT, USER, History, judge
from sidecar.formats.spelling import PLAIN, spell, style_of
from sidecar.formats.tools import append_element, append_tool, last_member
from sidecar.formats.usage import Figures
from sidecar.formats.values import check_object, elements, string_at, value_at, value_text

__all__ = ["Gemini"]

_DECLARATIONS = both("functionDeclarations")

_READ_BACK_TOOL: dict[str, object] = {
    "name": READ_BACK_TOOL_NAME,
    "description": READ_BACK_TOOL_DESCRIPTION,
    "parameters": READ_BACK_TOOL_SCHEMA,
}

# What a summary request takes over: where it goes, what it may say, and how it is accounted for.
_TAKEN_OVER = (b"model", *both("safetySettings"), b"labels", *both("serviceTier"))

# Where the output of a function stands, by what SDKs call it.
_OUTPUTS = (b"error", b"output", b"result", b"content", b"return_value")

# Source: google-genai, types.FinishReason.
_STOPS = {
    b"STOP": Stop.END,
    b"MAX_TOKENS": Stop.LENGTH,
    b"MALFORMED_FUNCTION_CALL": Stop.CALL,
    b"UNEXPECTED_TOOL_CALL": Stop.CALL,
    b"TOO_MANY_TOOL_CALLS": Stop.CALL,
    b"SAFETY": Stop.REFUSED,
    b"RECITATION": Stop.REFUSED,
    b"LANGUAGE": Stop.REFUSED,
    b"BLOCKLIST": Stop.REFUSED,
    b"PROHIBITED_CONTENT": Stop.REFUSED,
    b"SPII": Stop.REFUSED,
}


class Gemini(Adapter):
    """generateContent."""

    format = Format.GEMINI
    name = "gemini"
    grammar = GRAMMAR
    # Source: ai.google.dev, "Thought signatures" (only the current turn's are validated); thought parts are summaries, which the
    # API does not ask to see again.
    reasoning = "remove_before_last_user"
    empty_body = b'{"contents":[]}'
    merges_users = False
    joins_results = True
    one_item = "results"

    def judge(self, scan: Scan, rows: Rows | None = None, earlier: Judged | None = None, since: int = 0) -> Judged:
        """See Adapter."""
        return judge(History(scan, rows, earlier, since), LOCAL_RULES, WHOLE_RULES, earlier)

    def sees_all(self, scan: Scan) -> bool:
        """False with a cached content: it holds system text and tools, and may hold the first items.

        Source: google-genai, types.CreateCachedContentConfig (contents, system_instruction, tools).
        """
        return all(last_member(scan, key) in (b"", b"null", b'""') for key in both("cachedContent"))

    def stub(self, kind: ReductionKind, original: bytes, text: str, style: Style) -> bytes | None:
        """See Adapter. Data that stands in a response by itself becomes data of type text/plain.

        Source: ai.google.dev, "Function calling", on multimodal responses (types that may stand there).
        """
        if kind is ReductionKind.REASONING:
            return None
        if original[:1] == b'"':
            return spell(text, style)
        if original[:1] != b"{":
            return None
        if kind is ReductionKind.ARGUMENTS:
            return spell(arguments_object(text), style)
        if kind is ReductionKind.MEDIA:
            if not value_at(original, b"data"):
                return spell({"text": text}, style)
            snake = value_at(original, b"mime_type") != b""
            data = base64.b64encode(text.encode("utf-8", "replace")).decode()
            return spell({"mime_type" if snake else "mimeType": "text/plain", "data": data}, style)
        key = next((key for key in _OUTPUTS if value_at(original, key)), b"output")
        return spell({key.decode(): text}, style)

    def media(self, body: bytes, part_span: tuple[int, int]) -> MediaPayload | None:
        """See Adapter."""
        start, end = part_span
        for path in (*((key,) for key in both("inlineData")), ()):  # a part, or the blob that stands in a response
            data = locate(body, start, (*path, b"data"))
            if data is not None and body[data[0] : data[0] + 1] == b'"':
                part = body[start:end]
                named = (string_at(part, *path, key) for key in both("mimeType"))
                media_type = next((name for name in named if name), b"application/octet-stream")
                return MediaPayload(data[0] + 1, data[1] - 1, media_type.decode("utf-8", "replace"))
        return None

    def tool_names(self, scan: Scan) -> list[bytes]:
        """See Adapter."""
        names = (string_at(declared, b"name") for declared in _declared(last_member(scan, b"tools")))
        return [name for name in names if name is not None]

    def read_back_tool(self) -> bytes:
        """See Adapter. An element of the tools, which holds one function."""
        return spell({"functionDeclarations": [_READ_BACK_TOOL]}, PLAIN)

    def inject_tool(self, scan: Scan) -> Edit | None:
        """See Adapter. It is declared last of the functions.

        Refused where the model could not call it; beside a cached content, whose tools are not in the body; and beside the
        provider's own tools alone, which models other than the newest do not take together with functions. Source:
        google-genai, types.FunctionCallingConfig; https://github.com/googleapis/go-genai/issues/323.
        """
        config = next((value for key in both("toolConfig") if (value := last_member(scan, key))), b"{}")
        calling = next((value for key in both("functionCallingConfig") if (value := value_at(config, key))), b"{}")
        only = any(elements(value_at(calling, key)) for key in both("allowedFunctionNames"))
        if string_at(calling, b"mode") == b"NONE" or only or not self.sees_all(scan):
            return None
        tools = last_member(scan, b"tools")
        if READ_BACK_TOOL_NAME.encode() in self.tool_names(scan):
            ours = any(
                value_at(declared, key, b"properties", b"artifact_id")
                for declared in _declared(tools)
                for key in (b"parameters", *both("parametersJsonSchema"))
            )
            return Edit(scan.tools[-1][1], scan.tools[-1][1], b"") if ours else None
        count = len(elements(tools))
        for index in reversed(range(count)):
            for key in _DECLARATIONS:
                span = locate(scan.body, scan.tools[-1][0], (index, key))
                if span is not None and scan.body[span[0]] == 0x5B:
                    return append_element(scan.body, span, _READ_BACK_TOOL, style_of(scan.body[span[0] : span[1]]))
        return append_tool(scan, b"tools", {"functionDeclarations": [_READ_BACK_TOOL]}) if not count else None

    def parse_call(self, call: bytes) -> ReadBackCall:
        """See Adapter. Takes a part, or the function call in it."""
        value = check_object(call, "call")
        value = next((inner for key in both("functionCall") if (inner := value_at(value, key))), value)
        name = string_at(value, b"name")
        if name is None:
            raise MalformedBodyError("call has no name", offset_bytes=0, bound="")
        raw_id = value_at(value, b"id")
        raw_id = b"" if raw_id == b"null" else raw_id
        given = value_at(value, b"args")
        return ReadBackCall(
            call_id=value_text(raw_id).decode("utf-8", "replace"),
            name=name.decode("utf-8", "replace"),
            arguments=b"{}" if given in (b"", b"null") else given if given[:1] == b"{" else None,
            raw_id=raw_id,
        )

    def result(self, call: ReadBackCall, text: str, *, is_error: bool) -> bytes:
        """See Adapter."""
        id = b'"id":' + call.raw_id + b"," if call.raw_id else b""
        key = b'"error"' if is_error else b'"output"'
        response = b"{" + key + b":" + spell(text, PLAIN) + b"}"
        return b'{"functionResponse":{' + id + b'"name":' + spell(call.name, PLAIN) + b',"response":' + response + b"}}"

    def result_items(self, results: Sequence[bytes]) -> list[bytes]:
        """See Adapter. All results of a turn are one user item."""
        return [b'{"role":"user","parts":[' + b",".join(results) + b"]}"] if results else []

    def usage(self, usage: bytes) -> UsageFigures:
        """See Adapter. `promptTokenCount` holds what was cached; what tools gave and thoughts are counted beside it.

        Source: google-genai, types.GenerateContentResponseUsageMetadata.
        """
        figures = Figures(usage)

        def told(name: str) -> int | None:
            return figures.first(*((key.decode(),) for key in both(name)))

        prompt, given = told("promptTokenCount"), told("toolUsePromptTokenCount")
        answer, thought = told("candidatesTokenCount"), told("thoughtsTokenCount")
        total = None if prompt is None else prompt + (given or 0)
        output = None if answer is None and thought is None else (answer or 0) + (thought or 0)
        return figures.told(total, told("cachedContentTokenCount"), output)

    def text_item(self, text: str, role: int, marker: bytes, style: Style) -> bytes:
        """See Adapter."""
        if role not in (USER, ASSISTANT):
            raise ValueError(f"no text item has role {role}")
        return spell({"role": "user" if role == Role.USER else "model", "parts": [{"text": text}]}, style)

    def text_part(self, text: str, marker: bytes, style: Style) -> bytes:
        """See Adapter."""
        return spell({"text": text}, style)

    def wrap_string(self, value: bytes) -> bytes:
        """See Adapter."""
        return b'{"text":' + value + b"}"

    def content_span(self, body: bytes, item: Item) -> ContentSpan | None:
        """See Adapter."""
        found = content_span(body, item, b"parts")
        return None if found is None or found.is_string else found

    def summary_request(self, envelope: bytes, system: str, user: str, max_output_tokens: int) -> bytes:
        """See Adapter."""
        config = next((value for key in both("generationConfig") if (value := value_at(envelope, key))), b"{}")
        config = config if config[:1] == b"{" else b"{}"
        limit = max(own_limit(config, key, max_output_tokens) for key in both("maxOutputTokens"))
        return request(
            [
                *taken_over(envelope, _TAKEN_OVER),
                (b"generationConfig", b'{"maxOutputTokens":' + str(limit).encode() + b"}"),
                (b"systemInstruction", b'{"parts":[{"text":' + plain_text(system) + b"}]}"),
                (b"contents", b'[{"role":"user","parts":[{"text":' + plain_text(user) + b"}]}]"),
            ]
        )

    def read_reply(self, response: bytes) -> ModelReply:
        """See Adapter. The first candidate counts; without one, the prompt was blocked."""
        value = response_object(response)
        usage = next((found for key in both("usageMetadata") if (found := value_at(value, key))), b"")
        candidate = value_at(value, b"candidates", 0)
        if not candidate:
            feedback = (value_at(value, outer, inner) for outer in both("promptFeedback") for inner in both("blockReason"))
            if any(map(is_told, feedback)):
                return ModelReply(text="", stop=Stop.REFUSED, has_calls=False, usage=usage_of(self, usage))
            no_reply("it has no candidate")
        parts = elements(value_at(candidate, b"content", b"parts"))
        texts = [
            text
            for part in parts
            if value_at(part, b"thought") in (b"", b"null", b"false") and (text := string_at(part, b"text")) is not None
        ]
        reason = next((found for key in both("finishReason") if (found := value_at(candidate, key))), b"")
        return ModelReply(
            text=b"".join(texts).decode("utf-8", "replace"),
            stop=stop_of(reason, _STOPS),
            has_calls=any(is_told(value_at(part, key)) for part in parts for key in both("functionCall")),
            usage=usage_of(self, usage),
        )


def _declared(tools: bytes) -> list[bytes]:
    """Functions that an array of tools declares, JSON."""
    return [declared for tool in elements(tools) for key in _DECLARATIONS for declared in elements(value_at(tool, key))]
