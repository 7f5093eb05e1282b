"""Where an `openai-responses` body has its items and parts.

An answer of the model is several items: reasoning, messages, calls. What stands between two items of others is one turn. Tools
that the provider ran leave one item each, which holds call and output; it is of the turn and never touched. Source:
openai-python, types/responses/response_input_item_param.py.
"""

from __future__ import annotations

from fastpath import Code, Field, Grammar, GrammarSpec, Kind, Role, Shape

__all__ = ["CALLS", "GRAMMAR", "OUTPUTS"]

# Source: openai-python, types/responses/response_input_text_param.py.
_MARKER = {b"prompt_cache_breakpoint": Field(Code.MARKER)}
_CONTENT = {b"content": Field(shape="parts")}

CALLS = {
    b"function_call": b"function_call_output",
    b"custom_tool_call": b"custom_tool_call_output",
    b"local_shell_call": b"local_shell_call_output",
    b"shell_call": b"shell_call_output",
    b"apply_patch_call": b"apply_patch_call_output",
    b"computer_call": b"computer_call_output",
}
"""Calls that the agent runs, each with the type of what answers it."""

OUTPUTS = frozenset(CALLS.values())

_ROLES = {b"user": "user", b"assistant": "assistant", b"system": "system", b"developer": "system"}

GRAMMAR = Grammar(
    GrammarSpec(
        history=(b"input",),
        history_text=True,
        system=(b"instructions",),
        tools=(b"tools",),
        item="item",
        shapes={
            # A string in the place of the list is the user's text, and the only item.
            "item": Shape(
                role=Role.USER,
                kind=Kind.TEXT,
                by=b"type",
                cases={
                    b"message": "message",
                    b"function_call": "function_call",
                    b"custom_tool_call": "custom_call",
                    **dict.fromkeys((b"local_shell_call", b"shell_call", b"apply_patch_call", b"computer_call"), "bare_call"),
                    **dict.fromkeys(OUTPUTS, "result"),
                    b"reasoning": "reasoning",
                    # Nobody closes these but who asked: a person approves, the provider or the client finds tools.
                    b"mcp_approval_request": "approval_request",
                    b"mcp_approval_response": "approval_response",
                    b"tool_search_call": "search_call",
                    b"tool_search_output": "search_output",
                    b"item_reference": "opaque",
                    b"compaction": "opaque",
                    b"compaction_summary": "opaque",
                    b"context_compaction": "opaque",
                },
                default="message_or_other",
            ),
            "message": Shape(by=b"role", cases=_ROLES, default="odd"),
            "message_or_other": Shape(by=b"role", cases=_ROLES, default="server_item"),
            "user": Shape(role=Role.USER, fields=_CONTENT),
            "assistant": Shape(role=Role.ASSISTANT, fields=_CONTENT),
            "system": Shape(role=Role.SYSTEM, fields=_CONTENT),
            "odd": Shape(role=Role.OTHER, fields=_CONTENT),
            "server_item": Shape(role=Role.ASSISTANT, kind=Kind.OTHER),
            "function_call": Shape(
                role=Role.ASSISTANT,
                kind=Kind.CALL,
                fields={b"call_id": Field(Code.ID), b"name": Field(Code.NAME), b"arguments": Field(Code.PAYLOAD)},
            ),
            "custom_call": Shape(
                role=Role.ASSISTANT,
                kind=Kind.CALL,
                fields={b"call_id": Field(Code.ID), b"name": Field(Code.NAME), b"input": Field(Code.PAYLOAD)},
            ),
            # What these ask for is an object with a meaning of its own, and small: it stays.
            "bare_call": Shape(
                role=Role.ASSISTANT, kind=Kind.CALL, fields={b"call_id": Field(Code.ID), b"type": Field(Code.NAME)}
            ),
            "result": Shape(
                role=Role.RESULT,
                kind=Kind.RESULT,
                fields={b"call_id": Field(Code.ID), b"output": Field(Code.PAYLOAD, shape="output")},
            ),
            "output": Shape(by=b"type", cases={b"computer_screenshot": "media"}, each="part"),
            "reasoning": Shape(role=Role.ASSISTANT, kind=Kind.REASONING, fields={b"encrypted_content": Field(Code.SIGNATURE)}),
            "approval_request": Shape(
                role=Role.ASSISTANT, kind=Kind.SERVER_CALL, fields={b"id": Field(Code.ID), b"name": Field(Code.NAME)}
            ),
            "approval_response": Shape(
                role=Role.RESULT, kind=Kind.SERVER_RESULT, fields={b"approval_request_id": Field(Code.ID)}
            ),
            "search_call": Shape(role=Role.ASSISTANT, kind=Kind.SERVER_CALL, fields={b"call_id": Field(Code.ID)}),
            "search_output": Shape(role=Role.ASSISTANT, kind=Kind.SERVER_RESULT, fields={b"call_id": Field(Code.ID)}),
            "opaque": Shape(role=Role.ASSISTANT, kind=Kind.OPAQUE, fields={b"encrypted_content": Field(Code.SIGNATURE)}),
            "parts": Shape(each="part"),
            "part": Shape(
                by=b"type",
                cases={
                    **dict.fromkeys((b"input_text", b"output_text", b"text"), "text"),
                    b"refusal": "refusal",
                    **dict.fromkeys((b"input_image", b"input_file", b"input_audio", b"computer_screenshot"), "media"),
                },
                default="other_part",
            ),
            "text": Shape(kind=Kind.TEXT, fields={b"text": Field(Code.PAYLOAD)} | _MARKER),
            "refusal": Shape(kind=Kind.TEXT, fields={b"refusal": Field(Code.PAYLOAD)}),
            "media": Shape(kind=Kind.MEDIA, fields=_MARKER),
            "other_part": Shape(kind=Kind.OTHER, fields=_MARKER),
        },
    )
)
