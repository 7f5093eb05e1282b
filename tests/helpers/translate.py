"""One run in any dialect: items in the shape of Messages, with blocks that have a `type`, written as another dialect has them.

Markers (`cache_control`) become cache points where there are such, and are left out elsewhere. An item becomes several where a
dialect has one for each call or result.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

__all__ = ["ENVELOPES", "HISTORY", "history_of", "result_text", "tool_call", "tools_of", "translate", "with_tools"]

Json = dict[str, Any]

HISTORY = {
    "openai-chat": "messages",
    "anthropic-messages": "messages",
    "bedrock-converse": "messages",
    "gemini": "contents",
    "openai-responses": "input",
}
_SCHEMA: Json = {"type": "object", "properties": {}}
ENVELOPES: dict[str, Json] = {
    "openai-chat": {"model": "m", "max_tokens": 9},
    "anthropic-messages": {"model": "m", "max_tokens": 9},
    "bedrock-converse": {
        "modelId": "m",
        "inferenceConfig": {"maxTokens": 9},
        "toolConfig": {"tools": [{"toolSpec": {"name": "read", "inputSchema": {"json": _SCHEMA}}}]},
    },
    "gemini": {"model": "m", "generationConfig": {"maxOutputTokens": 9}},
    "openai-responses": {"model": "m", "max_output_tokens": 16, "store": False},
}
"""What stands around a history, without it."""


def translate(format_name: str, items: Iterable[Json], names: dict[str, str] | None = None) -> list[Json]:
    """Items of a dialect.

    Args:
        format_name: to write.
        items: in the shape of Messages, user and assistant.
        names: of tools by call id, where calls stand in items that are not given; filled.
    """
    known = {} if names is None else names
    write = {"openai-chat": _chat, "bedrock-converse": _converse, "gemini": _gemini, "openai-responses": _responses}
    if format_name == "anthropic-messages":
        return list(items)
    found: list[Json] = []
    for item in items:
        blocks = _blocks(item)
        known.update({block["id"]: block["name"] for block in blocks if block["type"] == "tool_use"})
        found += write[format_name](item["role"], blocks, known)
    return found


def _blocks(item: Json) -> list[Json]:
    content = item["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _said(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def _chat(role: str, blocks: list[Json], names: dict[str, str]) -> list[Json]:
    if role == "assistant":
        item: Json = {"role": role, "content": "".join(b["text"] for b in blocks if b["type"] == "text") or None}
        thoughts = [block["thinking"] for block in blocks if block["type"] == "thinking"]
        calls = [
            {"id": b["id"], "type": "function", "function": {"name": b["name"], "arguments": json.dumps(b["input"])}}
            for b in blocks
            if b["type"] == "tool_use"
        ]
        return [item | ({"reasoning_content": thoughts[0]} if thoughts else {}) | ({"tool_calls": calls} if calls else {})]
    results = [
        {"role": "tool", "tool_call_id": block["tool_use_id"], "content": _said(block["content"])}
        for block in blocks
        if block["type"] == "tool_result"
    ]
    said: list[Json] = []
    for block in blocks:
        if block["type"] == "text":
            said.append({"type": "text", "text": block["text"]})
        elif block["type"] == "image":
            said.append({"type": "image_url", "image_url": {"url": _url(block)}})
    return [*results, *([{"role": "user", "content": said}] if said else [])]


def _url(block: Json) -> str:
    return f"data:{block['source']['media_type']};base64,{block['source']['data']}"


def _converse(role: str, blocks: list[Json], names: dict[str, str]) -> list[Json]:
    found: list[Json] = []
    for block in blocks:
        kind = block["type"]
        if kind == "text":
            found.append({"text": block["text"]})
        elif kind == "image":
            found.append({"image": {"format": "png", "source": {"bytes": block["source"]["data"]}}})
        elif kind == "thinking":
            said = {"text": block["thinking"], "signature": block["signature"]}
            found.append({"reasoningContent": {"reasoningText": said}})
        elif kind == "tool_use":
            found.append({"toolUse": {"toolUseId": block["id"], "name": block["name"], "input": block["input"]}})
        elif kind == "tool_result":
            content = block["content"]
            inner = [{"text": content}] if isinstance(content, str) else _converse(role, content, names)[0]["content"]
            status = "error" if block.get("is_error") else "success"
            found.append({"toolResult": {"toolUseId": block["tool_use_id"], "content": inner, "status": status}})
        if "cache_control" in block:
            found.append({"cachePoint": {"type": "default"}})
    return [{"role": role, "content": found}]


def _gemini(role: str, blocks: list[Json], names: dict[str, str]) -> list[Json]:
    found: list[Json] = []
    for block in blocks:
        kind = block["type"]
        if kind == "text":
            found.append({"text": block["text"]})
        elif kind == "image":
            found.append({"inlineData": {"mimeType": block["source"]["media_type"], "data": block["source"]["data"]}})
        elif kind == "thinking":
            found.append({"text": block["thinking"], "thought": True})
        elif kind == "tool_use":
            id = {"id": block["id"]} if block["id"] else {}
            found.append({"functionCall": id | {"name": block["name"], "args": block["input"]}})
        elif kind == "tool_result":
            id = {"id": block["tool_use_id"]} if block["tool_use_id"] else {}
            response = {"error" if block.get("is_error") else "output": _said(block["content"])}
            named = {"name": names.get(block["tool_use_id"], "read"), "response": response}
            found.append({"functionResponse": id | named})
    if role == "assistant":
        return [{"role": "model", "parts": found}]
    # The API takes a response and words in one item, but SDKs write them apart.
    results = [part for part in found if "functionResponse" in part]
    said = [part for part in found if "functionResponse" not in part]
    return [{"role": "user", "parts": parts} for parts in (results, said) if parts]


def _responses(role: str, blocks: list[Json], names: dict[str, str]) -> list[Json]:
    found: list[Json] = []
    said: list[Json] = []
    for block in blocks:
        kind = block["type"]
        if kind == "thinking":
            found.append({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": block["thinking"] + "="})
        elif kind == "tool_use":
            arguments = json.dumps(block["input"])
            found.append({"type": "function_call", "call_id": block["id"], "name": block["name"], "arguments": arguments})
        elif kind == "tool_result":
            output = _said(block["content"])
            found.append({"type": "function_call_output", "call_id": block["tool_use_id"], "output": output})
        elif kind == "image":
            said.append({"type": "input_image", "image_url": _url(block), "detail": "auto"})
        elif role == "assistant":
            found.append({"role": role, "content": block["text"]})
        else:
            said.append({"type": "input_text", "text": block["text"]})
    return [*found, *([{"type": "message", "role": role, "content": said}] if said else [])]


def history_of(value: Json) -> list[Any]:
    """The items of a body, to be changed in place."""
    return next(list_ for key in ("messages", "contents", "input") if isinstance(list_ := value.get(key), list))


def tools_of(value: Json) -> list[Any]:
    """The tools that a body declares, one element for each that a model may call."""
    if "toolConfig" in value:
        return list(value["toolConfig"]["tools"])
    tools = value.get("tools", [])
    return [each for tool in tools for each in tool.get("functionDeclarations", [tool])]


def with_tools(value: Json, tools: list[Any]) -> Json:
    """Members of a body that declare these instead."""
    if "toolConfig" in value:
        return {"toolConfig": {"tools": tools}}
    return {"tools": [{"functionDeclarations": tools}] if "contents" in value else tools}


def tool_call(format_name: str, name: str, arguments: Json, call_id: str) -> Json:
    """A call as a model makes it."""
    given = json.dumps(arguments)
    calls: dict[str, Json] = {
        "openai-chat": {"id": call_id, "type": "function", "function": {"name": name, "arguments": given}},
        "openai-responses": {"type": "function_call", "call_id": call_id, "name": name, "arguments": given},
        "anthropic-messages": {"type": "tool_use", "id": call_id, "name": name, "input": arguments},
        "gemini": {"functionCall": {"id": call_id, "name": name, "args": arguments}},
        "bedrock-converse": {"toolUse": {"toolUseId": call_id, "name": name, "input": arguments}},
    }
    return calls[format_name]


def result_text(result: bytes) -> str:
    """Text of a result, as a dialect writes it."""
    value = json.loads(result)
    if "functionResponse" in value:
        response = value["functionResponse"]["response"]
        return str(response.get("output", response.get("error")))
    inner = value.get("toolResult", value)
    content = inner.get("content", inner.get("output"))
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)
