"""Builders of agent histories in all dialects, with one vocabulary: a test says what happened, not how it is spelled."""

from __future__ import annotations

import base64
import json
import random
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

__all__ = ["FORMATS", "TYPED", "ChatHistory", "History", "MessagesHistory", "history", "words"]

FORMATS = ("openai-chat", "anthropic-messages", "bedrock-converse", "gemini", "openai-responses")
TYPED = ("openai-chat", "anthropic-messages")
"""Those whose blocks have a `type` and whose content may be a string: for tests that say how things are spelled."""

_WORDS = (
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "zeta",
    "eta",
    "theta",
    "iota",
    "kappa",
    "lambda",
    "omicron",
    "sigma",
    "tau",
)


def words(size_bytes: int, seed: object = 0) -> str:
    """Plain text of exactly that many bytes, in lines, the same for the same seed."""
    rand = random.Random(f"{seed}")
    lines: list[str] = []
    total = 0
    while total < size_bytes:
        line = " ".join(rand.choice(_WORDS) for _ in range(9)) + f" {rand.randrange(10**6)}"
        lines.append(line)
        total += len(line) + 1
    return "\n".join(lines)[:size_bytes].ljust(size_bytes, ".")


@dataclass
class History(ABC):
    """A run so far. Methods add to it and return it, so that calls can be chained.

    Attributes:
        items: the history array.
        rest: the envelope's members.
    """

    items: list[dict[str, Any]] = field(default_factory=list)
    rest: dict[str, Any] = field(default_factory=dict)
    serial: int = 0
    open_ids: list[str] = field(default_factory=list)

    format_name: str = ""
    format: int = 0

    @abstractmethod
    def __post_init__(self) -> None:
        """Name the dialect."""

    def next_id(self) -> str:
        """A call id that was not used before."""
        self.serial += 1
        return f"call_{self.serial:06d}"

    def step(self, result: str, name: str = "read_file", arguments: dict[str, Any] | None = None, **options: Any) -> History:
        """One call and its result."""
        return self.call(
            (name, arguments if arguments is not None else {"path": f"src/file_{self.serial}.py"}), **options
        ).results(result)

    def steps(self, count: int, size_bytes: int, seed: object = "s", **options: Any) -> History:
        """That many calls, each with a result of that size."""
        for index in range(count):
            self.step(words(size_bytes, f"{seed}{self.serial}.{index}"), **options)
        return self

    def body(self, **members: Any) -> bytes:
        """The request body as an SDK writes it: no white space, UTF-8."""
        return json.dumps(self.value(**members), separators=(",", ":"), ensure_ascii=False).encode()

    def copy(self) -> History:
        """A history of its own with the same content."""
        return type(self)(
            json.loads(json.dumps(self.items)),
            json.loads(json.dumps(self.rest)),
            self.serial,
            list(self.open_ids),
            self.format_name,
            self.format,
        )

    @abstractmethod
    def value(self, **members: Any) -> dict[str, Any]:
        """The body as a value."""

    @abstractmethod
    def user(self, text: str) -> History:
        """A user item with plain text."""

    @abstractmethod
    def user_image(self, text: str, data: bytes) -> History:
        """A user item with text and a PNG."""

    @abstractmethod
    def call(self, *calls: tuple[str, Any], text: str = "", thinking: str = "", ids: list[str] | None = None) -> History:
        """One model turn with these calls (name, arguments)."""

    @abstractmethod
    def results(self, *texts: Any, error: bool = False) -> History:
        """Results of the open calls, in order; as many as given."""

    @abstractmethod
    def answer(self, text: str) -> History:
        """A model turn without calls."""


class ChatHistory(History):
    """OpenAI Chat Completions."""

    def __post_init__(self) -> None:
        """Name the dialect."""
        self.format_name, self.format = "openai-chat", 1

    def value(self, **members: Any) -> dict[str, Any]:
        """The body as a value."""
        tool = {"type": "function", "function": {"name": "read_file", "parameters": {"type": "object", "properties": {}}}}
        return {"model": "gpt-5", "messages": self.items, "tools": [tool], **self.rest, **members}

    def user(self, text: str) -> ChatHistory:
        """A user item with plain text."""
        self.items.append({"role": "user", "content": text})
        return self

    def user_image(self, text: str, data: bytes) -> ChatHistory:
        """A user item with text and a PNG."""
        url = "data:image/png;base64," + base64.b64encode(data).decode()
        self.items.append(
            {"role": "user", "content": [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}]}
        )
        return self

    def call(self, *calls: tuple[str, Any], text: str = "", thinking: str = "", ids: list[str] | None = None) -> ChatHistory:
        """One model turn with these calls."""
        self.open_ids = ids if ids is not None else [self.next_id() for _ in calls]
        item: dict[str, Any] = {"role": "assistant", "content": text or None}
        if thinking:
            item["reasoning_content"] = thinking
        item["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": self._arguments(arguments)}}
            for call_id, (name, arguments) in zip(self.open_ids, calls, strict=True)
        ]
        self.items.append(item)
        self.open_ids = list(self.open_ids)
        return self

    @staticmethod
    def _arguments(arguments: Any) -> str:
        return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)

    def results(self, *texts: Any, error: bool = False) -> ChatHistory:
        """Results of the open calls."""
        for text in texts:
            self.items.append({"role": "tool", "tool_call_id": self.open_ids.pop(0), "content": text})
        return self

    def answer(self, text: str) -> ChatHistory:
        """A model turn without calls."""
        self.items.append({"role": "assistant", "content": text})
        return self


class MessagesHistory(History):
    """Anthropic Messages."""

    def __post_init__(self) -> None:
        """Name the dialect."""
        self.format_name, self.format = "anthropic-messages", 3

    def value(self, **members: Any) -> dict[str, Any]:
        """The body as a value."""
        tool = {"name": "read_file", "input_schema": {"type": "object", "properties": {}}}
        return {"model": "claude-sonnet-4-5", "max_tokens": 1024, "messages": self.items, "tools": [tool], **self.rest, **members}

    def _user(self, blocks: list[dict[str, Any]]) -> MessagesHistory:
        """Add to a user item that is already there: roles alternate."""
        if self.items and self.items[-1]["role"] == "user":
            self.items[-1]["content"].extend(blocks)
        else:
            self.items.append({"role": "user", "content": blocks})
        return self

    def user(self, text: str) -> MessagesHistory:
        """A user item with plain text."""
        if self.items and self.items[-1]["role"] == "user":
            return self._user([{"type": "text", "text": text}])
        self.items.append({"role": "user", "content": [{"type": "text", "text": text}]})
        return self

    def user_image(self, text: str, data: bytes) -> MessagesHistory:
        """A user item with text and a PNG."""
        source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(data).decode()}
        return self._user([{"type": "text", "text": text}, {"type": "image", "source": source}])

    def call(self, *calls: tuple[str, Any], text: str = "", thinking: str = "", ids: list[str] | None = None) -> MessagesHistory:
        """One model turn with these calls."""
        self.open_ids = list(ids) if ids is not None else [self.next_id() for _ in calls]
        blocks: list[dict[str, Any]] = []
        if thinking:
            signature = base64.b64encode(thinking[:90].encode()).decode()
            blocks.append({"type": "thinking", "thinking": thinking, "signature": signature})
        if text:
            blocks.append({"type": "text", "text": text})
        for call_id, (name, arguments) in zip(self.open_ids, calls, strict=True):
            blocks.append({"type": "tool_use", "id": call_id, "name": name, "input": arguments})
        self.items.append({"role": "assistant", "content": blocks})
        return self

    def results(self, *texts: Any, error: bool = False) -> MessagesHistory:
        """Results of the open calls."""
        for text in texts:
            block: dict[str, Any] = {"type": "tool_result", "tool_use_id": self.open_ids.pop(0), "content": text}
            if error:
                block["is_error"] = True
            self._user([block])
        return self

    def answer(self, text: str) -> MessagesHistory:
        """A model turn without calls."""
        self.items.append({"role": "assistant", "content": [{"type": "text", "text": text}]})
        return self


def history(format_name: str) -> History:
    """An empty history of that dialect."""
    from tests.helpers.bodies_more import ConverseHistory, GeminiHistory, ResponsesHistory

    built: dict[str, type[History]] = {
        "openai-chat": ChatHistory,
        "anthropic-messages": MessagesHistory,
        "bedrock-converse": ConverseHistory,
        "gemini": GeminiHistory,
        "openai-responses": ResponsesHistory,
    }
    return built[format_name]()
