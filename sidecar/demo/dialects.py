"""The demo's session in a dialect's spelling: events in, items out.

One JSON writer with fixed settings, so that bytes are the same each time.
"""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from sidecar.demo.workspace import Outcome

__all__ = ["Answer", "Call", "Dialect", "Event", "Results", "Says", "dialect", "to_json"]


class Call(NamedTuple):
    """A tool call."""

    call_id: str
    name: str
    arguments: dict[str, Any]


class Says(NamedTuple):
    """The user writes."""

    text: str


class Answer(NamedTuple):
    """The model answers."""

    thinking: str
    signature: str
    text: str
    calls: tuple[Call, ...]


class Results(NamedTuple):
    """What the calls of the answer before came to, in their order."""

    outcomes: tuple[tuple[str, Outcome], ...]


Event = Says | Answer | Results

TOOLS: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("list_files", "List paths with their sizes.", {"under": "string"}),
    ("read_file", "Read numbered lines of a file.", {"path": "string", "start_line": "integer", "line_count": "integer"}),
    ("search", "Find lines by regular expression.", {"pattern": "string", "under": "string", "context_lines": "integer"}),
    ("write_file", "Write a whole file.", {"path": "string", "content": "string"}),
    ("edit_file", "Replace the one place where a text stands in a file.", {"path": "string", "old": "string", "new": "string"}),
    ("diff", "Show what changed since the start.", {"under": "string"}),
    ("run_tests", "Run tests and show the whole log.", {"under": "string", "verbose": "boolean"}),
    ("picture", "Take a screenshot of the plan board.", {}),
)


def to_json(value: object) -> bytes:
    """Compact JSON, UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _schema(parameters: dict[str, str]) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": kind} for name, kind in parameters.items()}}


class Dialect(ABC):
    """How a session is spelled."""

    name: str

    @abstractmethod
    def envelope(self, system: str) -> tuple[bytes, bytes]:
        """The body before its first item and after its last."""

    @abstractmethod
    def first_items(self, system: str) -> list[bytes]:
        """Items for the system text, where the dialect has it in the history."""

    @abstractmethod
    def items(self, event: Event) -> list[bytes]:
        """An event as items of the history, JSON."""

    @abstractmethod
    def call(self, call: Call) -> bytes:
        """One call as a model writes it, JSON."""

    @abstractmethod
    def exchange(self, call: bytes, result: bytes) -> list[bytes]:
        """A call and its result, both in this dialect's JSON, as items of the history."""

    @abstractmethod
    def result_text(self, result: bytes) -> str:
        """The text that the model sees of a result."""


class _Messages(Dialect):
    name = "anthropic-messages"

    def envelope(self, system: str) -> tuple[bytes, bytes]:
        tools = [{"name": name, "description": text, "input_schema": _schema(parameters)} for name, text, parameters in TOOLS]
        head = {
            "model": "demo-model",
            "max_tokens": 16000,
            "thinking": {"type": "enabled", "budget_tokens": 8000},
            "system": [{"type": "text", "text": system}],
            "tools": tools,
        }
        return to_json(head)[:-1] + b',"messages":[', b"]}"

    def first_items(self, system: str) -> list[bytes]:
        return []

    def items(self, event: Event) -> list[bytes]:
        match event:
            case Says(text):
                return [to_json({"role": "user", "content": [{"type": "text", "text": text}]})]
            case Answer(thinking, signature, text, calls):
                blocks: list[dict[str, Any]] = []
                if thinking:
                    blocks.append({"type": "thinking", "thinking": thinking, "signature": signature})
                if text:
                    blocks.append({"type": "text", "text": text})
                blocks += [self._use(call) for call in calls]
                return [to_json({"role": "assistant", "content": blocks})]
            case Results(outcomes):
                return [to_json({"role": "user", "content": [self._result(call_id, outcome) for call_id, outcome in outcomes]})]

    def call(self, call: Call) -> bytes:
        return to_json(self._use(call))

    def exchange(self, call: bytes, result: bytes) -> list[bytes]:
        thinking = {"type": "thinking", "thinking": "I need the original of that.", "signature": "c2lnbmVkIGJ5IG5vYm9keQ=="}
        answer = b'{"role":"assistant","content":[' + to_json(thinking) + b"," + call + b"]}"
        return [answer, b'{"role":"user","content":[' + result + b"]}"]

    def result_text(self, result: bytes) -> str:
        content = json.loads(result)["content"]
        return content if isinstance(content, str) else "".join(block["text"] for block in content)

    @staticmethod
    def _use(call: Call) -> dict[str, Any]:
        return {"type": "tool_use", "id": call.call_id, "name": call.name, "input": call.arguments}

    @staticmethod
    def _result(call_id: str, outcome: Outcome) -> dict[str, Any]:
        content: str | list[dict[str, Any]] = outcome.text
        if outcome.png:
            source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(outcome.png).decode()}
            content = [{"type": "text", "text": outcome.text}, {"type": "image", "source": source}]
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id, "content": content}
        return result | {"is_error": True} if outcome.is_error else result


class _Chat(Dialect):
    name = "openai-chat"

    def envelope(self, system: str) -> tuple[bytes, bytes]:
        tools = [
            {"type": "function", "function": {"name": name, "description": text, "parameters": _schema(parameters)}}
            for name, text, parameters in TOOLS
        ]
        head = {"model": "demo-model", "parallel_tool_calls": True, "tools": tools}
        return to_json(head)[:-1] + b',"messages":[', b"]}"

    def first_items(self, system: str) -> list[bytes]:
        return [to_json({"role": "system", "content": system})]

    def items(self, event: Event) -> list[bytes]:
        match event:
            case Says(text):
                return [to_json({"role": "user", "content": text})]
            case Answer(thinking, _, text, calls):
                item: dict[str, Any] = {"role": "assistant", "content": text or None}
                if thinking:
                    item["reasoning_content"] = thinking
                if calls:
                    item["tool_calls"] = [self._entry(call) for call in calls]
                return [to_json(item)]
            case Results(outcomes):
                items = [
                    to_json({"role": "tool", "tool_call_id": call_id, "content": outcome.text}) for call_id, outcome in outcomes
                ]
                # Tool messages hold text only; an agent shows a picture in a user message of its own.
                pictures = [outcome for _, outcome in outcomes if outcome.png]
                return items + [to_json({"role": "user", "content": self._picture(outcome)}) for outcome in pictures]

    def call(self, call: Call) -> bytes:
        return to_json(self._entry(call))

    def exchange(self, call: bytes, result: bytes) -> list[bytes]:
        return [b'{"role":"assistant","content":null,"tool_calls":[' + call + b"]}", result]

    def result_text(self, result: bytes) -> str:
        content = json.loads(result)["content"]
        return content if isinstance(content, str) else "".join(block["text"] for block in content)

    @staticmethod
    def _entry(call: Call) -> dict[str, Any]:
        return {
            "id": call.call_id,
            "type": "function",
            "function": {"name": call.name, "arguments": to_json(call.arguments).decode()},
        }

    @staticmethod
    def _picture(outcome: Outcome) -> list[dict[str, Any]]:
        url = "data:image/png;base64," + base64.b64encode(outcome.png).decode()
        return [{"type": "text", "text": "The screenshot:"}, {"type": "image_url", "image_url": {"url": url}}]


def dialect(name: str) -> Dialect:
    """Pick a spelling by its format's name."""
    spellings: dict[str, type[Dialect]] = {each.name: each for each in (_Messages, _Chat)}
    if name not in spellings:
        raise ValueError(f"the demo speaks {', '.join(spellings)}, not {name!r}")
    return spellings[name]()
