"""Bodies for the edge's tests: small histories whose old results are large enough to leave."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["messages_body", "to_json"]

TOOLS = [{"name": "bash", "description": "Run a command.", "input_schema": {"type": "object"}}]


def messages_body(turn_count: int, result_bytes: int = 2000) -> dict[str, Any]:
    """An anthropic-messages body: a question, then turns of one call each with its result, then an answer."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Look at every file."}]
    for turn in range(turn_count):
        call_id = f"toolu_{turn:04}"
        call = {"type": "tool_use", "id": call_id, "name": "bash", "input": {"command": f"cat file-{turn}"}}
        text = f"file {turn}\n" * (result_bytes // len(f"file {turn}\n"))
        messages.append({"role": "assistant", "content": [call]})
        messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": text}]})
    return {"model": "claude-x", "max_tokens": 1024, "tools": TOOLS, "messages": messages}


def to_json(body: object) -> bytes:
    """As a client writes it."""
    return json.dumps(body, ensure_ascii=False).encode()
