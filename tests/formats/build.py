"""Short ways to write bodies of both dialects for the tests of their adapters."""

from __future__ import annotations

import json
from typing import Any

from fastpath import Scan, scan
from sidecar.core.types import Format
from sidecar.formats import ADAPTERS
from sidecar.formats.base import Adapter

__all__ = ["CHAT", "MESSAGES", "asked", "broken", "call", "called", "dump", "result", "scanned", "text", "tool", "used"]

CHAT: Adapter = ADAPTERS[Format.OPENAI_CHAT]
MESSAGES: Adapter = ADAPTERS[Format.ANTHROPIC_MESSAGES]

Json = dict[str, Any]


def dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def scanned(adapter: Adapter, items: list[Any], **envelope: Any) -> Scan:
    return scan(dump({"model": "m", **envelope, "messages": items}), adapter.grammar)


def broken(adapter: Adapter, items: list[Any], **envelope: Any) -> list[tuple[str, int]]:
    """Rules that a body breaks, with the items that break them."""
    return [(found.rule, found.item_index) for found in adapter.check(scanned(adapter, items, **envelope))]


# openai-chat


def asked(content: Any = "do it") -> Json:
    return {"role": "user", "content": content}


def called(*ids: str, content: Any = None, **more: Any) -> Json:
    calls = [{"id": id, "type": "function", "function": {"name": "ls", "arguments": "{}"}} for id in ids]
    return {"role": "assistant", "content": content, "tool_calls": calls, **more}


def tool(id: str, content: Any = "ok", **more: Any) -> Json:
    return {"role": "tool", "tool_call_id": id, "content": content, **more}


# anthropic-messages


def text(content: str = "hello") -> Json:
    return {"type": "text", "text": content}


def call(id: str, **more: Any) -> Json:
    return {"type": "tool_use", "id": id, "name": "ls", "input": {}, **more}


def result(id: str, content: Any = "ok", **more: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


def used(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}
