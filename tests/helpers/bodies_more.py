"""Builders of agent histories in the dialects that are not in `bodies.py`."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.helpers.bodies import History

__all__ = ["ConverseHistory", "GeminiHistory", "ResponsesHistory"]

_SCHEMA = {"type": "object", "properties": {}}


class ConverseHistory(History):
    """Bedrock Converse."""

    def __post_init__(self) -> None:
        """Name the dialect."""
        self.format_name, self.format = "bedrock-converse", 5

    def value(self, **members: Any) -> dict[str, Any]:
        """The body as a value."""
        tools = {"tools": [{"toolSpec": {"name": "read_file", "inputSchema": {"json": _SCHEMA}}}]}
        return {"modelId": "claude", "messages": self.items, "toolConfig": tools, **self.rest, **members}

    def _user(self, blocks: list[dict[str, Any]]) -> ConverseHistory:
        if self.items and self.items[-1]["role"] == "user":
            self.items[-1]["content"].extend(blocks)
        else:
            self.items.append({"role": "user", "content": blocks})
        return self

    def user(self, text: str) -> ConverseHistory:
        """A user item with plain text."""
        return self._user([{"text": text}])

    def user_image(self, text: str, data: bytes) -> ConverseHistory:
        """A user item with text and a PNG."""
        image = {"format": "png", "source": {"bytes": base64.b64encode(data).decode()}}
        return self._user([{"text": text}, {"image": image}])

    def call(self, *calls: tuple[str, Any], text: str = "", thinking: str = "", ids: list[str] | None = None) -> ConverseHistory:
        """One model turn with these calls."""
        self.open_ids = list(ids) if ids is not None else [self.next_id() for _ in calls]
        blocks: list[dict[str, Any]] = []
        if thinking:
            signature = base64.b64encode(thinking[:90].encode()).decode()
            blocks.append({"reasoningContent": {"reasoningText": {"text": thinking, "signature": signature}}})
        if text:
            blocks.append({"text": text})
        for call_id, (name, arguments) in zip(self.open_ids, calls, strict=True):
            blocks.append({"toolUse": {"toolUseId": call_id, "name": name, "input": arguments}})
        self.items.append({"role": "assistant", "content": blocks})
        return self

    def results(self, *texts: Any, error: bool = False) -> ConverseHistory:
        """Results of the open calls."""
        for text in texts:
            content = text if isinstance(text, list) else [{"text": text}]
            result = {"toolUseId": self.open_ids.pop(0), "content": content, "status": "error" if error else "success"}
            self._user([{"toolResult": result}])
        return self

    def answer(self, text: str) -> ConverseHistory:
        """A model turn without calls."""
        self.items.append({"role": "assistant", "content": [{"text": text}]})
        return self


class GeminiHistory(History):
    """Gemini. Calls have ids, as newer models give them."""

    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Name the dialect."""
        self.format_name, self.format = "gemini", 4

    def value(self, **members: Any) -> dict[str, Any]:
        """The body as a value."""
        tools = [{"functionDeclarations": [{"name": "read_file", "parameters": _SCHEMA}]}]
        return {"model": "gemini", "contents": self.items, "tools": tools, **self.rest, **members}

    def user(self, text: str) -> GeminiHistory:
        """A user item with plain text."""
        self.items.append({"role": "user", "parts": [{"text": text}]})
        return self

    def user_image(self, text: str, data: bytes) -> GeminiHistory:
        """A user item with text and a PNG."""
        blob = {"mimeType": "image/png", "data": base64.b64encode(data).decode()}
        self.items.append({"role": "user", "parts": [{"text": text}, {"inlineData": blob}]})
        return self

    def call(self, *calls: tuple[str, Any], text: str = "", thinking: str = "", ids: list[str] | None = None) -> GeminiHistory:
        """One model turn with these calls."""
        self.open_ids = list(ids) if ids is not None else [self.next_id() for _ in calls]
        self.names = tuple(name for name, _ in calls)
        parts: list[dict[str, Any]] = []
        if thinking:
            parts.append({"text": thinking, "thought": True})
        if text:
            parts.append({"text": text})
        for call_id, (name, arguments) in zip(self.open_ids, calls, strict=True):
            parts.append({"functionCall": {"id": call_id, "name": name, "args": arguments}})
        self.items.append({"role": "model", "parts": parts})
        return self

    def results(self, *texts: Any, error: bool = False) -> GeminiHistory:
        """Results of the open calls."""
        parts = []
        for text in texts:
            name, self.names = self.names[0], self.names[1:]
            response = text if isinstance(text, dict) else {"error" if error else "output": text}
            parts.append({"functionResponse": {"id": self.open_ids.pop(0), "name": name, "response": response}})
        last = self.items[-1]
        if last["role"] == "user" and "functionResponse" in last["parts"][0]:
            last["parts"].extend(parts)
        else:
            self.items.append({"role": "user", "parts": parts})
        return self

    def answer(self, text: str) -> GeminiHistory:
        """A model turn without calls."""
        self.items.append({"role": "model", "parts": [{"text": text}]})
        return self


class ResponsesHistory(History):
    """OpenAI Responses."""

    def __post_init__(self) -> None:
        """Name the dialect."""
        self.format_name, self.format = "openai-responses", 2

    def value(self, **members: Any) -> dict[str, Any]:
        """The body as a value."""
        tool = {"type": "function", "name": "read_file", "parameters": _SCHEMA}
        return {"model": "gpt-5", "input": self.items, "tools": [tool], **self.rest, **members}

    def user(self, text: str) -> ResponsesHistory:
        """A user item with plain text."""
        self.items.append({"role": "user", "content": text})
        return self

    def user_image(self, text: str, data: bytes) -> ResponsesHistory:
        """A user item with text and a PNG."""
        url = "data:image/png;base64," + base64.b64encode(data).decode()
        parts = [{"type": "input_text", "text": text}, {"type": "input_image", "image_url": url, "detail": "auto"}]
        self.items.append({"role": "user", "content": parts})
        return self

    def call(self, *calls: tuple[str, Any], text: str = "", thinking: str = "", ids: list[str] | None = None) -> ResponsesHistory:
        """One model turn with these calls."""
        self.open_ids = list(ids) if ids is not None else [self.next_id() for _ in calls]
        if thinking:
            sealed = base64.b64encode(thinking.encode()).decode()
            self.items.append({"type": "reasoning", "id": f"rs_{self.serial}", "summary": [], "encrypted_content": sealed})
        if text:
            self.answer(text)
        for call_id, (name, arguments) in zip(self.open_ids, calls, strict=True):
            given = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            self.items.append({"type": "function_call", "call_id": call_id, "name": name, "arguments": given})
        return self

    def results(self, *texts: Any, error: bool = False) -> ResponsesHistory:
        """Results of the open calls."""
        for text in texts:
            self.items.append({"type": "function_call_output", "call_id": self.open_ids.pop(0), "output": text})
        return self

    def answer(self, text: str) -> ResponsesHistory:
        """A model turn without calls."""
        self.items.append({"role": "assistant", "content": text})
        return self
