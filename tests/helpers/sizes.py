"""Sizes of a body by component, counted from spans: what the answer's Pressure must say, to the byte."""

from __future__ import annotations

from tests.helpers.cst import Node
from tests.helpers.view import View

__all__ = ["components"]

ROLES = {"system": "system_bytes", "developer": "system_bytes", "user": "user_bytes", "assistant": "assistant_bytes"}


def _type(node: Node, text: bytes) -> bytes:
    found = node.get("type")
    return (found.string(text) or b"") if found is not None else b""


def _owners(view: View) -> list[tuple[int, int, str]]:
    """Spans that belong to a component. A byte belongs to the innermost one that holds it."""
    owners = [(node.start, node.end, ROLES[role]) for role, node in zip(view.roles, view.items, strict=True) if role in ROLES]
    members = dict.fromkeys(view.shape.system, "system_bytes") | dict.fromkeys(view.shape.tools, "tools_bytes")
    last = {key.decode(): value for key, value in view.root.members if key.decode("utf-8", "replace") in members}
    owners += [(node.start, node.end, members[key]) for key, node in last.items()]
    owners += [(media.node.start, media.node.end, "media_bytes") for media in view.media]
    owners += [(node.start, node.end, "reasoning_bytes") for _, node in view.reasoning]
    owners += [(node.start, node.end, "result_bytes") for node in [result.node for result in view.results]]
    owners += [(node.start, node.end, "result_bytes") for _, node in view.server_results]
    calls = {(call.node.start, call.node.end) for call in view.calls}
    calls |= {(node.start, node.end) for _, node in view.server_calls}
    for item in view.items:
        content = item.get("content")
        for block in content.elements if content is not None else []:
            if _type(block, view.text).endswith(b"tool_use"):
                calls.add((block.start, block.end))
    return owners + [(start, end, "call_bytes") for start, end in calls]


def components(view: View) -> dict[str, int]:
    """Bytes of each component; they add up to total_bytes.

    The rules, from DESIGN.md and the proto: media count as media wherever they stand; results, calls and reasoning leave the item
    that holds them; what is left of an item is its role's; what is left of the body is other.
    """
    names = ["system", "tools", "user", "assistant", "reasoning", "call", "result", "media", "other"]
    sizes = {f"{name}_bytes": 0 for name in names}
    open_spans: list[tuple[int, str]] = [(len(view.text), "other_bytes")]
    at = 0
    for start, end, name in sorted(_owners(view), key=lambda span: (span[0], -span[1])):
        while open_spans[-1][0] <= start:
            until, owner = open_spans.pop()
            sizes[owner] += until - at
            at = until
        sizes[open_spans[-1][1]] += start - at
        at = start
        open_spans.append((end, name))
    while open_spans:
        until, owner = open_spans.pop()
        sizes[owner] += until - at
        at = until
    return {"total_bytes": len(view.text), **sizes}
