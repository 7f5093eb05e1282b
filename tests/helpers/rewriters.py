"""Clients as they are: each parses the body it got, keeps it, and writes it again in its own way.

A rewriter takes the value of a body and returns the bytes that this client would send.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

__all__ = ["REWRITERS", "Rewriter", "node_available", "with_moved_marker", "with_time"]

Rewriter = Callable[[bytes], bytes]


def _python(**options: Any) -> Rewriter:
    return lambda body: json.dumps(json.loads(body), **options).encode("utf-8", "surrogatepass")


def _node(body: bytes) -> bytes:
    """Node's JSON: 1.0 becomes 1, 1e21 stays 1e+21, integers over 2^53 are rounded."""
    script = "let s='';process.stdin.on('data',d=>s+=d).on('end',()=>process.stdout.write(JSON.stringify(JSON.parse(s))))"
    done = subprocess.run(["node", "-e", script], input=body, stdout=subprocess.PIPE, check=True, timeout=60)
    return done.stdout


def _escaped_slashes(body: bytes) -> bytes:
    """PHP and some Java writers: every slash escaped, everything beyond ASCII as \\u."""
    return json.dumps(json.loads(body)).replace("/", "\\/").encode()


def _with_nulls(body: bytes) -> bytes:
    """An SDK whose models write each optional field: null members in items, blocks and calls, never inside arguments."""
    value = json.loads(body)
    for item in value.get("contents", value.get("input", [])):
        item.setdefault("status", None)
        for part in item.get("parts", []):
            part.setdefault("videoMetadata", None)
    for item in value.get("messages", []):
        if item["role"] == "assistant":
            item.setdefault("refusal", None)
            for call in item.get("tool_calls") or []:
                call.setdefault("index", None)
        item.setdefault("name", None)
        for block in item["content"] if isinstance(item.get("content"), list) else []:
            block.setdefault("citations", None)
            if block.get("type") == "tool_result":
                block.setdefault("is_error", None)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def node_available() -> bool:
    """Node is installed."""
    return shutil.which("node") is not None


REWRITERS: dict[str, Rewriter] = {
    "python-default": _python(),
    "python-utf8": _python(ensure_ascii=False),
    "python-sorted": _python(sort_keys=True, separators=(",", ":")),
    "python-indented": _python(indent=2, ensure_ascii=False),
    "python-tabs": _python(indent="\t", separators=(" , ", " : ")),
    "node": _node,
    "escaped-slashes": _escaped_slashes,
    "sdk-with-nulls": _with_nulls,
}


def _unmarked(value: Any) -> Any:
    """The body without markers, and lone text blocks of people as plain strings again."""
    for item in value["messages"]:
        for block in item["content"] if isinstance(item.get("content"), list) else []:
            block.pop("cache_control", None)
        content = item.get("content")
        if isinstance(content, list) and len(content) == 1 and set(content[0]) == {"type", "text"}:
            item["content"] = content[0]["text"]
    return value


def _with_moved_point(value: Any) -> bytes:
    """The same where a marker is a block of its own, behind what it marks."""
    left = 2
    for item in reversed(value["messages"]):
        item["content"] = [block for block in item["content"] if "cachePoint" not in block]
        if left and item["role"] == "user":
            item["content"].append({"cachePoint": {"type": "default"}})
            left -= 1
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def with_moved_marker(body: bytes) -> bytes:
    """Put cache markers on the last two items that can carry one, and nowhere else; a string content becomes a block for it."""
    value = json.loads(body)
    if "toolConfig" in value:
        return _with_moved_point(value)
    if "messages" not in value:
        return _python(separators=(",", ":"), ensure_ascii=False)(body)  # no markers there
    value = _unmarked(value)
    marker = {"cache_control": {"type": "ephemeral"}}
    left = 2
    for item in reversed(value["messages"]):
        if left and item["role"] in {"user", "tool"} and item.get("content"):
            if isinstance(item["content"], str):
                item["content"] = [{"type": "text", "text": item["content"]}]
            item["content"][-1] |= marker
            left -= 1
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def with_time(format_name: str, body: bytes, minute: int) -> bytes:
    """Put the time into the system text."""
    value = json.loads(body)
    text = f"You are a careful engineer. It is 2031-05-04 10:{minute:02d}."
    if format_name == "anthropic-messages":
        value["system"] = text
    elif format_name == "bedrock-converse":
        value["system"] = [{"text": text}]
    elif format_name == "gemini":
        value["systemInstruction"] = {"parts": [{"text": text}]}
    elif format_name == "openai-responses":
        value["instructions"] = text
    elif value["messages"][0]["role"] == "system":
        value["messages"][0]["content"] = text
    else:
        value["messages"].insert(0, {"role": "system", "content": text})
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
