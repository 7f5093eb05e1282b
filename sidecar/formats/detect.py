"""Telling a body's dialect from the body alone, where something decides: a wrong guess would cut by the wrong rules.

Each dialect's own keys and block types are evidence for it; a body with evidence for exactly one dialect is of that dialect.
Evidence is what no other dialect's clients write, not what is merely usual: `max_tokens` and `temperature` say nothing.
"""

from __future__ import annotations

from fastpath import Field, Grammar, GrammarSpec, Kind, MalformedError, Role, Scan, Shape, scan
from sidecar.core.errors import FormatAmbiguousError, MalformedBodyError
from sidecar.core.types import Format
from sidecar.formats.adapters import NAMES
from sidecar.formats.tools import last_member
from sidecar.formats.values import elements, string_at, value_at

__all__ = ["detect"]

_CHAT_ROOT = frozenset(
    (
        b"audio",
        b"frequency_penalty",
        b"function_call",
        b"functions",
        b"logit_bias",
        b"logprobs",
        b"max_completion_tokens",
        b"modalities",
        b"n",
        b"parallel_tool_calls",
        b"prediction",
        b"presence_penalty",
        b"reasoning_effort",
        b"response_format",
        b"seed",
        b"stop",
        b"stream_options",
        b"top_logprobs",
    )
)
_MESSAGES_ROOT = frozenset(
    (
        b"anthropic_beta",
        b"anthropic_version",
        b"container",
        b"context_management",
        b"mcp_servers",
        b"output_config",
        b"stop_sequences",
        b"thread",
    )
)
_CONVERSE_ROOT = frozenset((b"additionalModelRequestFields", b"guardrailConfig", b"inferenceConfig", b"modelId", b"toolConfig"))

# What an item is evidence for is told by the kind of its parts, so the kinds are only labels here.
_CHAT = Kind.CALL
_MESSAGES = Kind.RESULT
_CONVERSE = Kind.MEDIA
_TYPED = Kind.REASONING  # the largest: a block with a type is not Converse's, whatever else it has

_ITEM_GRAMMAR = Grammar(
    GrammarSpec(
        history=(b"messages", b"contents", b"input"),
        history_text=True,
        system=(),
        tools=(b"tools",),
        item="item",
        shapes={
            "item": Shape(
                by=b"role",
                cases={b"developer": "chat_item", b"tool": "chat_item", b"function": "chat_item", b"system": "system_item"},
                default="plain_item",
            ),
            "chat_item": Shape(kind=_CHAT),
            "system_item": Shape(role=Role.SYSTEM),
            "plain_item": Shape(
                kind=Kind.OTHER,
                fields={
                    b"tool_calls": Field(kind=_CHAT),
                    b"function_call": Field(kind=_CHAT),
                    b"tool_call_id": Field(kind=_CHAT),
                    b"reasoning_content": Field(kind=_CHAT),
                    b"reasoning_details": Field(kind=_CHAT),
                    b"content": Field(shape="blocks"),
                },
            ),
            "blocks": Shape(each="block"),
            "block": Shape(
                by=b"type",
                cases=dict.fromkeys((b"image_url", b"input_audio", b"refusal", b"file", b"video_url"), "chat_block")
                | dict.fromkeys(
                    (
                        b"compaction",
                        b"container_upload",
                        b"document",
                        b"image",
                        b"mcp_tool_result",
                        b"mcp_tool_use",
                        b"redacted_thinking",
                        b"search_result",
                        b"server_tool_use",
                        b"thinking",
                        b"tool_result",
                        b"tool_use",
                        b"web_fetch_tool_result",
                        b"web_search_tool_result",
                    ),
                    "messages_block",
                ),
                default="other_block",
            ),
            "chat_block": Shape(kind=_CHAT),
            "messages_block": Shape(kind=_MESSAGES),
            "other_block": Shape(
                kind=Kind.OTHER,
                fields={
                    b"type": Field(kind=_TYPED),
                    b"text": Field(kind=_CONVERSE),
                    b"toolUse": Field(kind=_CONVERSE),
                    b"toolResult": Field(kind=_CONVERSE),
                    b"cachePoint": Field(kind=_CONVERSE),
                    b"reasoningContent": Field(kind=_CONVERSE),
                },
            ),
        },
    )
)
_BRACKET = ord("[")
_FORMAT_OF = {_CHAT: Format.OPENAI_CHAT, _MESSAGES: Format.ANTHROPIC_MESSAGES, _CONVERSE: Format.BEDROCK_CONVERSE}


def detect(body: bytes) -> Format:
    """Tell a body's dialect. O(bytes).

    Raises: MalformedBodyError: not JSON, or no history that any dialect knows. FormatAmbiguousError: more than one dialect
        fits, or what speaks for one speaks against another. Details: candidates.
    """
    try:
        found = scan(body, _ITEM_GRAMMAR)
    except MalformedError as error:
        hint = "a body holds its history in messages, input or contents" if "no history" in str(error) else ""
        raise MalformedBodyError(str(error), hint=hint, offset_bytes=error.offset_bytes, bound=error.bound) from error
    keys = {member.key for member in found.members}
    if b"messages" not in keys and b"contents" not in keys:
        return Format.OPENAI_RESPONSES
    if body[found.history[0]] != _BRACKET:  # only `input` may be a text
        raise MalformedBodyError("the history is not an array", offset_bytes=found.history[0], bound="")
    if b"messages" not in keys:
        if b"input" in keys:
            raise _ambiguous({Format.GEMINI, Format.OPENAI_RESPONSES})
        return Format.GEMINI
    evidence = _root_evidence(found, keys) | _tool_evidence(found) | _item_evidence(found)
    if len(evidence) == 1:
        return evidence.pop()
    # Without evidence it may be of any that keeps its history in messages; where a content is a string, it is not Converse's.
    plain = any(string_at(body[item[0] : item[1]], b"content") is not None for item in found.items())
    candidates = evidence or {Format.OPENAI_CHAT, Format.ANTHROPIC_MESSAGES} | (set() if plain else {Format.BEDROCK_CONVERSE})
    raise _ambiguous(candidates)


def _ambiguous(candidates: set[Format]) -> FormatAmbiguousError:
    names = ", ".join(NAMES[format] for format in sorted(candidates))
    return FormatAmbiguousError(
        f"the body may be of more than one format: {names}", hint="name the format in the request", candidates=names
    )


def _root_evidence(found: Scan, keys: set[bytes]) -> set[Format]:
    evidence: set[Format] = set()
    system = last_member(found, b"system")
    if keys & _CONVERSE_ROOT or any(not value_at(block, b"type") for block in elements(system)):
        evidence.add(Format.BEDROCK_CONVERSE)
    elif b"system" in keys or keys & _MESSAGES_ROOT:
        evidence.add(Format.ANTHROPIC_MESSAGES)
    if keys & _CHAT_ROOT:
        evidence.add(Format.OPENAI_CHAT)
    choice = last_member(found, b"tool_choice")
    if choice[:1] == b'"' or value_at(choice or b"{}", b"function"):
        evidence.add(Format.OPENAI_CHAT)
    elif string_at(choice or b"{}", b"type") in (b"auto", b"any", b"none", b"tool"):
        evidence.add(Format.ANTHROPIC_MESSAGES)
    return evidence


def _tool_evidence(found: Scan) -> set[Format]:
    evidence: set[Format] = set()
    for start, end in found.tools:
        for tool in elements(found.body[start:end]):
            if value_at(tool, b"function") or value_at(tool, b"custom"):
                evidence.add(Format.OPENAI_CHAT)
            elif value_at(tool, b"input_schema") or (string_at(tool, b"type") or b"")[-9:-8] == b"_":
                # Server tools have a dated type, such as web_search_20250305.
                evidence.add(Format.ANTHROPIC_MESSAGES)
    return evidence


def _item_evidence(found: Scan) -> set[Format]:
    evidence = {_FORMAT_OF[Kind(part.kind)] for part in found.parts() if part.kind in _FORMAT_OF}
    # A system item in the middle is in newer Messages bodies too; as the first item it is not.
    if found.item_count and found.item(0).role == Role.SYSTEM:
        evidence.add(Format.OPENAI_CHAT)
    return evidence
