"""An agent's loop with trimtab in front of the model.

The model is a fake that needs no key: it asks for a file 60 times, wants an early one again, then answers. Run it with a sidecar:

    trimtab serve --listen unix:trimtab.sock --data-dir trimtab-data &
    python examples/quickstart.py unix:trimtab.sock
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from typing import Any

import trimtab


def fake_model(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Answer like the Messages API, with a list of content blocks."""
    turn = sum(message["role"] == "assistant" for message in body["messages"])
    stub = re.search(r"\b[0-9a-f]{32}\b", json.dumps(body["messages"]))
    if turn < 60:
        return [{"type": "tool_use", "id": f"toolu_{turn}", "name": "read_file", "input": {"path": f"src/{turn}.py"}}]
    if turn == 60 and stub:  # something early has left the body: read it back
        return [{"type": "tool_use", "id": "toolu_60", "name": "trimtab_read", "input": {"artifact_id": stub.group()}}]
    return [{"type": "text", "text": "All files are read."}]


def run_tool(call: dict[str, Any]) -> dict[str, Any]:
    """Do what the model asks."""
    text = f"# {call['input']['path']}\n" + "".join(f"line_{number} = {number}\n" for number in range(600))
    return {"type": "tool_result", "tool_use_id": call["id"], "content": text}


def run_agent(target: str) -> list[int]:
    """Run to the model's last word; give the size of each body that went to the model."""
    session_id = f"quickstart-{uuid.uuid4()}"
    tools = [{"name": "read_file", "description": "Read a file.", "input_schema": {"type": "object"}}]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Read all files, then tell me that you did."}]
    sizes = []
    with trimtab.connect(target, format="anthropic-messages", read_back="inject") as t:
        while True:
            body = {"model": "fake-1", "max_tokens": 1024, "tools": tools, "messages": messages}
            body = t.fit(session_id, body)  # the body to send: this one, or a smaller one
            sizes.append(len(json.dumps(body)))
            content = fake_model(body)
            messages.append({"role": "assistant", "content": content})
            calls = [block for block in content if block["type"] == "tool_use"]
            if not calls:
                return sizes
            # Calls of the read-back tool are answered by trimtab, all others by the agent.
            results = [t.resolve(session_id, call) or run_tool(call) for call in calls]
            messages.append({"role": "user", "content": results})


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("usage: quickstart.py unix:SOCKET|HOST:PORT", file=sys.stderr)
        sys.exit(2)
    sent = run_agent(sys.argv[1])
    print(f"{len(sent)} model calls; the largest body was {max(sent):,} bytes, the last {sent[-1]:,}")
