"""Structural rules of the two dialects, written from the providers' documents, without the product's adapters.

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


def faults(format_name: str, view: View) -> set[Fault]:
    """All faults of a body."""
    return set(_pairing(view) + (_chat(view) if format_name == "openai-chat" else _messages(view)))
