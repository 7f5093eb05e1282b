"""What a body says, dialect by dialect, read without any of the product's code: calls, results, texts, reasoning, media."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.helpers.cst import Node, parse

__all__ = ["SHAPES", "Call", "Media", "Result", "Shape", "View", "read_view"]

REASONING_BLOCKS = {b"thinking", b"redacted_thinking"}
MEDIA_BLOCKS = {b"image", b"document", b"image_url", b"input_audio", b"file", b"video", b"video_url", b"audio_url"}
MEDIA_BLOCKS |= {b"input_image", b"input_file"}
CHAT_REASONING = (b"reasoning_content", b"reasoning")


@dataclass(frozen=True, slots=True)
class Shape:
    """Names of members in a dialect."""

    history: str = "messages"
    content: str = "content"
    system: tuple[str, ...] = ("system",)
    tools: tuple[str, ...] = ("tools", "functions")


SHAPES = {
    "openai-chat": Shape(system=()),
    "anthropic-messages": Shape(tools=("tools",)),
    "bedrock-converse": Shape(tools=("toolConfig",)),
    "gemini": Shape("contents", "parts", ("systemInstruction", "system_instruction"), ("tools",)),
    "openai-responses": Shape("input", system=("instructions",), tools=("tools",)),
}


@dataclass(slots=True)
class Call:
    """A call of a client-side tool."""

    item: int
    index: int
    call_id: bytes
    name: bytes
    node: Node
    arguments: Node | None
    answered: bool = False


@dataclass(slots=True)
class Result:
    """What came back for a call; `call` is None for an orphan."""

    item: int
    call_id: bytes
    node: Node
    content: Node | None
    call: Call | None


@dataclass(slots=True)
class Media:
    """An image, a document or the like."""

    item: int
    node: Node
    in_result: bool
    role: str
    call: Call | None = None


@dataclass(slots=True)
class View:
    """A body, read."""

    text: bytes
    root: Node
    items: list[Node]
    roles: list[str]  # user, assistant, system, developer, tool, function; "" for what is none of them
    shape: Shape = field(default_factory=Shape)
    calls: list[Call] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    texts: list[tuple[int, str, Node]] = field(default_factory=list)  # user, system and developer text; item -1 is the envelope
    reasoning: list[tuple[int, Node]] = field(default_factory=list)
    server_results: list[tuple[int, Node]] = field(default_factory=list)
    server_calls: list[tuple[int, Node]] = field(default_factory=list)
    media: list[Media] = field(default_factory=list)
    markers: list[tuple[str, Node]] = field(default_factory=list)  # (place, marker)

    def dangling(self) -> list[Call]:
        """Calls without a result."""
        return [call for call in self.calls if not call.answered]

    def plain_user_items(self) -> list[int]:
        """Indices of user items that hold no result."""
        with_results = {result.item for result in self.results}
        return [index for index, role in enumerate(self.roles) if role == "user" and index not in with_results]


def _string(node: Node | None, text: bytes) -> bytes:
    return (node.string(text) or b"") if node is not None else b""


class _Reader:
    def __init__(self, text: bytes, root: Node) -> None:
        history = root.get("messages")
        items = history.elements if history is not None else []
        self.text = text
        self.view = View(text, root, items, [_string(item.get("role"), text).decode("utf-8", "replace") for item in items])
        self.open: list[Call] = []

    def marker(self, place: str, node: Node) -> None:
        self.view.markers.extend((place, value) for name, value in node.members if name == b"cache_control")

    def envelope(self) -> None:
        root = self.view.root
        self.marker("root", root)
        system = root.get("system")
        for tool in (root.get("tools") or root).elements:
            self.marker("tools", tool)
        if system is None:
            return
        if system.kind == "string":
            self.view.texts.append((-1, "system", system))
        for block in system.elements:
            self.marker("system", block)
            found = block.get("text")
            if found is not None:
                self.view.texts.append((-1, "system", found))

    def answer(self, call_id: bytes) -> Call | None:
        for call in self.open:
            if call.call_id == call_id and not call.answered:
                call.answered = True
                return call
        return None

    def media_in(self, item: int, node: Node, role: str, call: Call | None) -> None:
        for inner in node.walk():
            if _string(inner.get("type"), self.text) in MEDIA_BLOCKS:
                self.view.media.append(Media(item, inner, True, role, call))

    def markers_in(self, item: int, content: Node | None) -> None:
        for block in content.elements if content is not None else []:
            self.marker(f"item {item}", block)
            self.markers_in(item, block.get("content"))

    def blocks(self, item: int, role: str, content: Node | None) -> None:
        view = self.view
        if content is None:
            return
        if content.kind == "string" and role in {"user", "system", "developer"}:
            view.texts.append((item, role, content))
        for block in content.elements:
            kind = _string(block.get("type"), self.text)
            found = block.get("text")
            if kind == b"text" and found is not None and role in {"user", "system", "developer"}:
                view.texts.append((item, role, found))
            elif kind in MEDIA_BLOCKS:
                view.media.append(Media(item, block, False, role))

    def chat_item(self, item: int, role: str, node: Node) -> None:
        view, text = self.view, self.text
        self.marker(f"item {item}", node)
        self.markers_in(item, node.get("content"))
        if role in {"tool", "function"}:
            call_id = _string(node.get("tool_call_id"), text) if role == "tool" else b""
            view.results.append(Result(item, call_id, node, node.get("content"), self.answer(call_id)))
            if node.get("content") is not None:
                self.media_in(item, node, role, view.results[-1].call)
            return
        self.open = []
        if role == "assistant":
            self.chat_calls(item, node)
            for key, value in node.members:
                if key in CHAT_REASONING and value.kind == "string":
                    view.reasoning.append((item, value))
        self.blocks(item, role, node.get("content"))

    def chat_calls(self, item: int, node: Node) -> None:
        text = self.text
        calls = node.get("tool_calls")
        for index, entry in enumerate(calls.elements if calls is not None else []):
            function = entry.get("function") or entry.get("custom") or entry
            arguments = function.get("arguments") or function.get("input")
            name = _string(function.get("name"), text)
            self.open.append(Call(item, index, _string(entry.get("id"), text), name, entry, arguments))
        legacy = node.get("function_call")
        if legacy is not None and legacy.kind == "object":
            name = _string(legacy.get("name"), text)
            self.open.append(Call(item, len(self.open), b"", name, legacy, legacy.get("arguments")))
        self.view.calls.extend(self.open)

    def messages_item(self, item: int, role: str, node: Node) -> None:
        view, text = self.view, self.text
        content = node.get("content")
        self.markers_in(item, content)
        if role == "assistant":
            if item == 0 or view.roles[item - 1] != "assistant":
                self.open = []
            for block in content.elements if content is not None else []:
                self.messages_block(item, block)
        for block in content.elements if content is not None else []:
            if _string(block.get("type"), text) == b"tool_result":
                call_id = _string(block.get("tool_use_id"), text)
                found = self.answer(call_id) if role == "user" else None
                view.results.append(Result(item, call_id, block, block.get("content"), found))
                self.media_in(item, block, role, found)
        self.blocks(item, role, content)
        if role != "assistant":
            self.open = []

    def messages_block(self, item: int, block: Node) -> None:
        view, text = self.view, self.text
        kind = _string(block.get("type"), text)
        if kind == b"tool_use":
            index = sum(1 for call in view.calls if call.item == item)
            call = Call(item, index, _string(block.get("id"), text), _string(block.get("name"), text), block, block.get("input"))
            view.calls.append(call)
            self.open.append(call)
        elif kind in REASONING_BLOCKS:
            view.reasoning.append((item, block))
        elif kind.endswith(b"_tool_result"):
            view.server_results.append((item, block))


def _role(format_name: str, item: Node, text: bytes) -> str:
    if item.kind not in ("object", "string"):
        return ""
    role = _string(item.get("role"), text).decode("utf-8", "replace")
    if format_name == "gemini":
        return "assistant" if role == "model" else "user"
    if format_name != "openai-responses" or role:
        return role
    kind = _string(item.get("type"), text)
    if item.kind == "string":
        return "user"
    return "tool" if kind.endswith(b"_call_output") or kind == b"mcp_approval_response" else "assistant"


def read_view(format_name: str, text: bytes) -> View:
    """Read a body of that dialect. Raises ValueError when it is not JSON."""
    if format_name not in ("openai-chat", "anthropic-messages"):
        return _read_more(format_name, text)
    reader = _Reader(text, parse(text))
    reader.view.shape = SHAPES[format_name]
    reader.envelope()
    for item, (role, node) in enumerate(zip(reader.view.roles, reader.view.items, strict=True)):
        if format_name == "openai-chat":
            reader.chat_item(item, role, node)
        else:
            reader.messages_item(item, role, node)
    return reader.view


def _read_more(format_name: str, text: bytes) -> View:
    from tests.helpers.view_more import READERS

    root, shape = parse(text), SHAPES[format_name]
    history = root.get(shape.history)
    items = [] if history is None else [history] if history.kind == "string" else history.elements
    view = View(text, root, items, [_role(format_name, item, text) for item in items], shape)
    reader = READERS[format_name](view)
    reader.envelope()
    for at, (role, node) in enumerate(zip(view.roles, items, strict=True)):
        reader.item(at, role, node)
    return view
