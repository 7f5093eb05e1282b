"""What Converse, Gemini and Responses bodies say, read from the JSON alone. Beside `view.py`, which has the other two."""

from __future__ import annotations

from collections.abc import Iterator

from tests.helpers.cst import Node
from tests.helpers.view import Call, Media, Result, View

__all__ = ["READERS"]

_PEOPLE = {"user", "system", "developer"}
_RESPONSES_CALLS = {
    b"function_call",
    b"custom_tool_call",
    b"local_shell_call",
    b"shell_call",
    b"apply_patch_call",
    b"computer_call",
}
_RESPONSES_MEDIA = {b"input_image", b"input_file", b"input_audio", b"computer_screenshot"}


def _string(node: Node | None, text: bytes) -> bytes:
    return (node.string(text) or b"") if node is not None else b""


def _either(node: Node, camel: str) -> Node | None:
    """A member by its camelCase or its snake_case name."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in camel)
    return node.get(camel) or node.get(snake)


def _elements(node: Node | None) -> list[Node]:
    return node.elements if node is not None else []


class _Reader:
    """Calls that wait, and what all three do with them."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.text = view.text
        self.open: list[Call] = []

    def call(self, item: int, call_id: bytes, name: bytes, node: Node, arguments: Node | None) -> None:
        index = sum(1 for call in self.view.calls if call.item == item)
        found = Call(item, index, call_id, name, node, arguments)
        self.view.calls.append(found)
        self.open.append(found)

    def answer(self, call_id: bytes, name: bytes = b"") -> Call | None:
        by_id = (call for call in self.open if call.call_id == call_id != b"" and not call.answered)
        by_name = (call for call in self.open if (not call.call_id or not call_id) and call.name == name and not call.answered)
        found = next(by_id, None) or next(by_name, None)
        if found is not None:
            found.answered = True
        return found

    def media(self, item: int, nodes: Iterator[Node], role: str, call: Call | None, *, in_result: bool) -> None:
        self.view.media += [Media(item, node, in_result, role, call) for node in nodes]


class _Converse(_Reader):
    def envelope(self) -> None:
        root = self.view.root
        for block in _elements(root.get("system")):
            self.marker("system", block)
            if (found := block.get("text")) is not None:
                self.view.texts.append((-1, "system", found))
        tools = root.get("toolConfig")
        for tool in _elements(tools.get("tools") if tools is not None else None):
            self.marker("tools", tool)

    def marker(self, place: str, block: Node) -> None:
        found = block.get("cachePoint")
        if found is not None:
            self.view.markers.append((place, found))

    @staticmethod
    def is_media(block: Node) -> bool:
        document = block.get("document")
        source = document.get("source") if document is not None else None
        return any(block.get(key) is not None for key in ("image", "video", "audio")) or (
            source is not None and source.get("bytes") is not None
        )

    def item(self, item: int, role: str, node: Node) -> None:
        view, text = self.view, self.text
        if role == "assistant":
            self.open = []
        for block in _elements(node.get("content")):
            self.marker(f"item {item}", block)
            use, result = block.get("toolUse"), block.get("toolResult")
            if use is not None and use.get("type") is None:
                self.call(item, _string(use.get("toolUseId"), text), _string(use.get("name"), text), block, use.get("input"))
            elif result is not None:
                call_id = _string(result.get("toolUseId"), text)
                call = self.answer(call_id) if role == "user" else None
                view.results.append(Result(item, call_id, block, result.get("content"), call))
                inner = (each for each in _elements(result.get("content")) if self.is_media(each))
                self.media(item, inner, role, call, in_result=True)
            elif block.get("reasoningContent") is not None:
                view.reasoning.append((item, block))
            elif self.is_media(block):
                self.media(item, iter([block]), role, None, in_result=False)
            elif role in _PEOPLE and (found := block.get("text")) is not None:
                view.texts.append((item, role, found))
        if role != "assistant":
            self.open = []


class _Gemini(_Reader):
    def envelope(self) -> None:
        system = _either(self.view.root, "systemInstruction")
        for part in _elements(system.get("parts") if system is not None else None):
            if (found := part.get("text")) is not None:
                self.view.texts.append((-1, "system", found))

    def item(self, item: int, role: str, node: Node) -> None:
        view, text = self.view, self.text
        if role == "assistant" and (item == 0 or view.roles[item - 1] != "assistant"):
            self.open = []
        for part in _elements(node.get("parts")):
            call, result = _either(part, "functionCall"), _either(part, "functionResponse")
            thought = part.get("thought")
            if call is not None:
                self.call(item, _string(call.get("id"), text), _string(call.get("name"), text), part, call.get("args"))
            elif result is not None:
                call_id, name = _string(result.get("id"), text), _string(result.get("name"), text)
                owner = self.answer(call_id, name) if role == "user" else None
                view.results.append(Result(item, call_id, part, result.get("response"), owner))
                blobs = (blob for each in _elements(result.get("parts")) if (blob := _either(each, "inlineData")) is not None)
                self.media(item, blobs, role, owner, in_result=True)
            elif thought is not None and thought.raw(text) == b"true":
                view.reasoning.append((item, part))
            elif _either(part, "inlineData") is not None or _either(part, "fileData") is not None:
                self.media(item, iter([part]), role, None, in_result=False)
            elif _either(part, "codeExecutionResult") is not None or _either(part, "toolResponse") is not None:
                view.server_results.append((item, part))
            elif _either(part, "executableCode") is not None or _either(part, "toolCall") is not None:
                view.server_calls.append((item, part))
            elif role in _PEOPLE and (found := part.get("text")) is not None:
                view.texts.append((item, role, found))
        if role != "assistant":
            self.open = []


class _Responses(_Reader):
    def envelope(self) -> None:
        system = self.view.root.get("instructions")
        if system is not None and system.kind == "string":
            self.view.texts.append((-1, "system", system))

    def item(self, item: int, role: str, node: Node) -> None:
        view, text = self.view, self.text
        kind = _string(node.get("type"), text)
        if node.kind == "string":
            view.texts.append((item, "user", node))
        elif kind in _RESPONSES_CALLS:
            named = node.get("name") or node.get("type")
            asked = node.get("arguments") or node.get("input")
            self.call(item, _string(node.get("call_id"), text), _string(named, text), node, asked)
        elif kind.endswith(b"_call_output"):
            call_id = _string(node.get("call_id"), text)
            output = node.get("output")
            call = self.answer(call_id)
            view.results.append(Result(item, call_id, node, output, call))
            inner = [output] if output is not None and output.kind == "object" else _elements(output)
            pictures = (each for each in inner if _string(each.get("type"), text) in _RESPONSES_MEDIA)
            self.media(item, pictures, role, call, in_result=True)
        elif kind == b"reasoning":
            view.reasoning.append((item, node))
        elif kind in (b"mcp_approval_response", b"tool_search_output"):
            view.server_results.append((item, node))
        elif kind in (b"mcp_approval_request", b"tool_search_call"):
            view.server_calls.append((item, node))
        else:
            self.message(item, role, node.get("content"))

    def message(self, item: int, role: str, content: Node | None) -> None:
        if content is not None and content.kind == "string" and role in _PEOPLE:
            self.view.texts.append((item, role, content))
        for part in _elements(content):
            found = part.get("text")
            if _string(part.get("type"), self.text) in _RESPONSES_MEDIA:
                self.media(item, iter([part]), role, None, in_result=False)
            elif found is not None and role in _PEOPLE:
                self.view.texts.append((item, role, found))


READERS = {"bedrock-converse": _Converse, "gemini": _Gemini, "openai-responses": _Responses}
