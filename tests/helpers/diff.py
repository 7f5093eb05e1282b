"""Where two bodies differ: walks both JSON texts side by side and names the smallest values that were replaced or left out."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.helpers.cst import Node
from tests.helpers.view import MEDIA_BLOCKS, View

__all__ = ["Difference", "Slot", "differences", "slots"]


@dataclass(slots=True)
class Slot:
    """A place where a body may be edited: result, arguments, media or reasoning."""

    kind: str
    item: int
    node: Node
    owner: object = None  # the Call or Result or Media of the view


@dataclass(slots=True)
class Difference:
    """A value that stands otherwise in the second text.

    Attributes:
        chain: pairs of values from the slot down to the value itself; the second is None when the value was left out.
        slot: the place that allows it; None when nothing does.
    """

    item: int
    chain: list[tuple[Node, Node | None]]
    slot: Slot | None
    covered: bool = False
    path: str = field(default="")

    @property
    def old(self) -> Node:
        """The value in the first text."""
        return self.chain[-1][0]

    @property
    def new(self) -> Node | None:
        """The value in the second text."""
        return self.chain[-1][1]


def slots(view: View) -> dict[tuple[int, int], Slot]:
    """Every place of the body that Fit may touch, by span."""
    found: dict[tuple[int, int], Slot] = {}
    for item, node in view.server_results:
        found[node.start, node.end] = Slot("result", item, node)
    for result in view.results:
        found[result.node.start, result.node.end] = Slot("result", result.item, result.node, result)
    for call in view.calls:
        if call.arguments is not None:
            found[call.arguments.start, call.arguments.end] = Slot("arguments", call.item, call.arguments, call)
    for media in view.media:
        found[media.node.start, media.node.end] = Slot("media", media.item, media.node, media)
    for item, node in view.reasoning:
        found[node.start, node.end] = Slot("reasoning", item, node)
    return found


def _skeleton(node: Node, text: bytes) -> bytes:
    """The node's bytes without its values: brackets, keys, commas, white space."""
    pieces, at = [], node.start
    for child in node.children():
        pieces.append(text[at : child.start])
        at = child.end
    return b"\x00".join([*pieces, text[at : node.end]])


def _type(node: Node, text: bytes) -> bytes:
    found = node.get("type")
    return (found.string(text) or b"") if found is not None else b""


class _Walk:
    def __init__(self, old: View, new: View) -> None:
        self.old, self.new = old, new
        self.slots = slots(old)
        self.found: list[Difference] = []
        self.contents = {id(item.get(old.shape.content)): index for index, item in enumerate(old.items)}

    def add(self, item: int, chain: list[tuple[Node, Node | None]], slot: Slot | None, path: str) -> None:
        self.found.append(Difference(item, chain, slot, path=path))

    def pair(self, old: Node, new: Node, item: int, chain: list[tuple[Node, Node | None]], slot: Slot | None, path: str) -> None:
        if old.raw(self.old.text) == new.raw(self.new.text):
            return
        inner = self.slots.get((old.start, old.end))
        if inner is not None:
            chain, slot = ([] if slot is None else chain), inner
        chain = [*chain, (old, new)] if slot is not None else [(old, new)]
        whole = slot is not None and slot.kind in {"arguments", "reasoning"}
        if whole or old.kind != new.kind or _type(old, self.old.text) != _type(new, self.new.text):
            self.add(item, chain, slot, path)
        elif old.kind == "object":
            self.objects(old, new, item, chain, slot, path)
        elif old.kind == "array":
            self.arrays(old, new, item, chain, slot, path)
        else:
            self.add(item, chain, slot, path)

    def objects(
        self, old: Node, new: Node, item: int, chain: list[tuple[Node, Node | None]], slot: Slot | None, path: str
    ) -> None:
        if _skeleton(old, self.old.text) != _skeleton(new, self.new.text):
            self.add(item, chain, slot, path)
            return
        for (key, mine), (_, theirs) in zip(old.members, new.members, strict=True):
            self.pair(mine, theirs, item, chain, slot, f"{path}.{key.decode('utf-8', 'replace')}")

    def arrays(
        self, old: Node, new: Node, item: int, chain: list[tuple[Node, Node | None]], slot: Slot | None, path: str
    ) -> None:
        is_history = old is self.old.root.get(self.old.shape.history)
        if len(old.elements) == len(new.elements) and _skeleton(old, self.old.text) == _skeleton(new, self.new.text):
            for index, (mine, theirs) in enumerate(zip(old.elements, new.elements, strict=True)):
                self.pair(mine, theirs, index if is_history else item, chain, slot, f"{path}[{index}]")
        elif id(old) in self.contents and len(new.elements) < len(old.elements) and self.old.roles[item] == "assistant":
            self.left_out(old, new, item, path)
        else:
            self.add(item, chain, slot, path)

    def left_out(self, old: Node, new: Node, item: int, path: str) -> None:
        """An assistant's content whose reasoning blocks are gone."""
        at = 0
        for index, mine in enumerate(old.elements):
            theirs = new.elements[at] if at < len(new.elements) else None
            same = theirs is not None and mine.raw(self.old.text) == theirs.raw(self.new.text)
            slot = self.slots.get((mine.start, mine.end))
            gone = not same and slot is not None and slot.kind == "reasoning"
            if gone:
                self.add(item, [(mine, None)], slot, f"{path}[{index}]")
            elif theirs is None:
                self.add(item, [(mine, None)], None, f"{path}[{index}]")
            else:
                self.pair(mine, theirs, item, [], None, f"{path}[{index}]")
                at += 1
        if at != len(new.elements):
            self.add(item, [(old, new)], None, f"{path}: blocks were added")
        spare = _skeleton(new, self.new.text).split(b"\x00")
        known = _skeleton(old, self.old.text).split(b"\x00")
        if new.elements and (spare[0] != known[0] or spare[-1] != known[-1] or not set(spare[1:-1]) <= set(known[1:-1])):
            self.add(item, [(old, new)], None, f"{path}: punctuation changed")


def differences(old: View, new: View) -> list[Difference]:
    """All differences, in order of position. Roots must be objects; what was added to the tools is not looked at here."""
    walk = _Walk(old, new)
    walk.pair(old.root, new.root, -1, [], None, "")
    return walk.found


def is_media(node: Node, text: bytes) -> bool:
    """The value is a media block."""
    named = ("image", "video", "audio", "document", "inlineData", "inline_data", "data")
    return _type(node, text) in MEDIA_BLOCKS or any(node.get(key) is not None for key in named)
