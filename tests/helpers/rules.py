"""Structural rules of the dialects, written from the providers' documents, without the product's adapters.

A fault is named by rule and place, so that the faults of two bodies can be compared: a fitted body may have those that the
original had, and no other.
"""

from __future__ import annotations

import json

from tests.helpers.cst import Node
from tests.helpers.view import REASONING_BLOCKS, View

__all__ = ["MAX_MARKERS", "faults"]

MAX_MARKERS = 4  # Anthropic: at most four cache breakpoints in a request

Fault = tuple[str, int, bytes]


def _blank(node: Node | None, text: bytes) -> bool:
    return node is not None and node.kind == "string" and not (node.string(text) or b"").strip()


def _kind(block: Node, text: bytes) -> bytes:
    node = block.get("type")
    return (node.string(text) or b"") if node is not None else b""


def _pairing(view: View) -> list[Fault]:
    found: list[Fault] = [("RESULT_WITHOUT_CALL", result.item, result.call_id) for result in view.results if result.call is None]
    return found + [("CALL_WITHOUT_RESULT", call.item, call.call_id) for call in view.dangling()]


def _chat(view: View) -> list[Fault]:
    found: list[Fault] = []
    text = view.text
    for index, (role, item) in enumerate(zip(view.roles, view.items, strict=True)):
        content = item.get("content")
        if role in {"tool", "function"} and content is None:
            found.append(("RESULT_WITHOUT_CONTENT", index, b""))
        if content is not None and content.kind == "array" and not content.elements:
            found.append(("EMPTY_CONTENT", index, b""))
        for block in content.elements if content is not None else []:
            if _kind(block, text) == b"text" and _blank(block.get("text"), text):
                found.append(("EMPTY_BLOCK", index, b""))
        if role in {"tool", "function"} and _blank(content, text):
            found.append(("EMPTY_RESULT", index, b""))
    for call in view.calls:
        raw = call.arguments.string(text) if call.arguments is not None else None
        if raw is None or not _is_object(raw):
            found.append(("ARGUMENTS_NOT_OBJECT", call.item, call.call_id))
    return found


def _is_object(raw: bytes) -> bool:
    try:
        return isinstance(json.loads(raw.decode("utf-8", "surrogatepass")), dict)
    except ValueError:
        return False


def _messages(view: View) -> list[Fault]:
    found: list[Fault] = []
    text = view.text
    if view.roles and view.roles[0] != "user":
        found.append(("FIRST_ITEM_NOT_USER", 0, b""))
    for index, (role, item) in enumerate(zip(view.roles, view.items, strict=True)):
        content = item.get("content")
        blocks = content.elements if content is not None else []
        if content is None or (content.kind == "array" and not blocks) or _blank(content, text):
            found.append(("EMPTY_CONTENT", index, b""))
        kinds = [_kind(block, text) for block in blocks]
        for block, kind in zip(blocks, kinds, strict=True):
            if kind == b"text" and _blank(block.get("text"), text):
                found.append(("EMPTY_BLOCK", index, b""))
            if kind == b"tool_use" and (block.get("input") or block).kind != "object":
                found.append(("INPUT_NOT_OBJECT", index, b""))
        others = [place for place, kind in enumerate(kinds) if kind != b"tool_result"]
        results = [place for place, kind in enumerate(kinds) if kind == b"tool_result"]
        if role == "user" and results and others and min(others) < max(results):
            found.append(("TEXT_BEFORE_RESULT", index, b""))
        if role == "assistant" and kinds and kinds[-1] in REASONING_BLOCKS:
            found.append(("REASONING_LAST", index, b""))
    if len(view.markers) > MAX_MARKERS:
        found.append(("TOO_MANY_MARKERS", -1, b""))
    return found


def _converse(view: View) -> list[Fault]:
    found: list[Fault] = []
    text = view.text
    if view.roles and view.roles[0] != "user":
        found.append(("FIRST_ITEM_NOT_USER", 0, b""))
    for index, (role, item) in enumerate(zip(view.roles, view.items, strict=True)):
        if index and role == view.roles[index - 1]:
            found.append(("SAME_ROLE_TWICE", index, b""))
        content = item.get("content")
        blocks = content.elements if content is not None else []
        if not blocks or blocks[0].get("cachePoint") is not None:
            found.append(("EMPTY_CONTENT", index, b""))
        for before, block in zip([None, *blocks], blocks, strict=False):
            if _blank(block.get("text"), text):
                found.append(("EMPTY_BLOCK", index, b""))
            use = block.get("toolUse")
            if use is not None and (use.get("input") or use.get("name") or block).kind != "object":
                found.append(("INPUT_NOT_OBJECT", index, b""))
            if before is not None and before.get("reasoningContent") is not None and block.get("cachePoint") is not None:
                found.append(("POINT_BEHIND_REASONING", index, b""))
        others = [place for place, block in enumerate(blocks) if block.get("toolResult") is None]
        results = [place for place, block in enumerate(blocks) if block.get("toolResult") is not None]
        if role == "user" and results and others and min(others) < max(results):
            found.append(("TEXT_BEFORE_RESULT", index, b""))
        if role == "assistant" and blocks and blocks[-1].get("reasoningContent") is not None:
            found.append(("REASONING_LAST", index, b""))
    if (view.calls or view.results) and view.root.get("toolConfig") is None:
        found.append(("NO_TOOL_CONFIG", -1, b""))
    if len(view.markers) > MAX_MARKERS:
        found.append(("TOO_MANY_MARKERS", -1, b""))
    return found


def _gemini(view: View) -> list[Fault]:
    found: list[Fault] = []
    for index, item in enumerate(view.items):
        parts = item.get("parts")
        if parts is None or not parts.elements:
            found.append(("EMPTY_CONTENT", index, b""))
    place = {id(result.call): result.item for result in view.results}
    for call in view.calls:
        if call.arguments is not None and call.arguments.kind != "object":
            found.append(("INPUT_NOT_OBJECT", call.item, call.call_id))
        if call.item == 0 or view.roles[call.item - 1] != "user":
            found.append(("CALL_NOT_BEHIND_USER", call.item, b""))
        if place.get(id(call), call.item + 1) != call.item + 1:
            found.append(("RESULT_NOT_NEXT", call.item, call.call_id))
    for result in view.results:
        if result.content is not None and result.content.kind != "object":
            found.append(("RESPONSE_NOT_OBJECT", result.item, result.call_id))
    return found


def _responses(view: View) -> list[Fault]:
    found: list[Fault] = []
    for call in view.calls:
        if call.arguments is not None and call.arguments.kind != "string":
            found.append(("ARGUMENTS_NOT_STRING", call.item, call.call_id))
    for item, _ in view.reasoning:
        if item + 1 < len(view.roles) and view.roles[item + 1] != "assistant":
            found.append(("REASONING_ALONE", item, b""))
    return found


_OWN = {
    "openai-chat": _chat,
    "anthropic-messages": _messages,
    "bedrock-converse": _converse,
    "gemini": _gemini,
    "openai-responses": _responses,
}


def faults(format_name: str, view: View) -> set[Fault]:
    """All faults of a body."""
    return set(_pairing(view) + _OWN[format_name](view))
