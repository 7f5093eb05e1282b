"""What must hold of every answer of Fit: reads the original, the answer and the artifacts; knows nothing of how they were made.

The checks, in the words of DESIGN.md: text of people and of the system is untouched; calls and results stay, paired, with their
ids and names; whatever was replaced is named in a reduction and can be read back, equal to the last byte; everything else is the
same bytes; the figures are exact; signed blocks stand where they stood, or a whole turn's reasoning is gone; no cache marker was
made; no structural fault was added.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from tests.helpers.cst import Node
from tests.helpers.diff import Difference, Slot, differences, is_media
from tests.helpers.rules import faults
from tests.helpers.sizes import components
from tests.helpers.view import Call, Media, Result, View, read_view
from trimtab.v1 import common_pb2, context_pb2

__all__ = ["Oracle", "Reader", "problems"]

Reader = Callable[[str], bytes]
"""Reads an artifact's whole content by its id."""

KINDS = {
    "result": {
        context_pb2.REDUCTION_KIND_EXTERNALIZE,
        context_pb2.REDUCTION_KIND_RESULT,
        context_pb2.REDUCTION_KIND_RECENT_RESULT,
        context_pb2.REDUCTION_KIND_MEDIA,
    },
    "arguments": {context_pb2.REDUCTION_KIND_ARGUMENTS},
    "media": {
        context_pb2.REDUCTION_KIND_MEDIA,
        context_pb2.REDUCTION_KIND_EXTERNALIZE,
        context_pb2.REDUCTION_KIND_RESULT,
        context_pb2.REDUCTION_KIND_RECENT_RESULT,
    },
    "reasoning": {context_pb2.REDUCTION_KIND_REASONING},
}


def _without_markers(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_markers(inner) for key, inner in value.items() if key != "cache_control"}
    return [_without_markers(inner) for inner in value] if isinstance(value, list) else value


def _base64_of(node: Node, text: bytes) -> set[bytes]:
    """What the base64 strings inside a value decode to, with or without a data URL around them."""
    found = set()
    for inner in node.walk():
        content = inner.string(text)
        if not content:
            continue
        if content.startswith(b"data:"):
            content = content.partition(b",")[2]
        try:
            found.add(base64.b64decode(content, validate=True))
        except (binascii.Error, ValueError):
            continue
    return found


def _is_content_of(content: bytes, node: Node, text: bytes) -> bool:
    """The artifact is all of the value: the decoded string, the JSON (markers apart), or the media's own bytes."""
    raw = node.raw(text)
    if node.kind == "string" and content == node.string(text):
        return True
    if content == raw:
        return True
    if (is_media(node, text) or node.kind == "string") and content in _base64_of(node, text):
        return True
    if b'"cache_control"' in raw and node.kind in {"object", "array"}:
        try:
            return bool(json.loads(content) == _without_markers(json.loads(raw)))
        except ValueError:
            return False
    return False


def _innermost_tools(tools: Node | None) -> Node | None:
    """The array whose last element may be an injected tool: the tools, those of a configuration, the last functions declared."""
    if tools is None or tools.kind == "object":
        return None if tools is None else tools.get("tools")
    keys = ("functionDeclarations", "function_declarations")
    declared = [found for tool in tools.elements for key in keys if (found := tool.get(key)) is not None]
    return declared[-1] if declared else tools


def _call_of(slot: Slot | None) -> Call | None:
    owner = slot.owner if slot is not None else None
    if isinstance(owner, Call):
        return owner
    return owner.call if isinstance(owner, Result | Media) else None


@dataclass
class Oracle:
    """One answer under examination.

    Attributes:
        format_name: dialect.
        original: the raw body, before anything was taken out.
        answer: the body that may be sent.
        response: the FitResponse, asked for with list_applied.
        read: reads an artifact.
        asked: the body as the request brought it, when that was not the raw one.
        injected: the read-back tool stands in the answer's tools and not in the original's.
        kept: calls whose result and arguments must stand as they were, such as pinned ones; by (item, index).
        respelled: the request spelled what stood for something in its own way, so savings are those of another spelling.
        read_back_items: items that hold read-back results, with the artifact of each: what stands for them names that one.
    """

    format_name: str
    original: bytes
    answer: bytes
    response: context_pb2.FitResponse
    read: Reader
    asked: bytes | None = None
    injected: bool = False
    kept: Collection[tuple[int, int]] = ()
    respelled: bool = False
    read_back_items: Mapping[int, str] = field(default_factory=dict)

    def problems(self) -> list[str]:
        """Everything that is wrong, in words; empty when nothing is."""
        self._found: list[str] = []
        try:
            json.loads(self.answer.decode("utf-8", "surrogateescape"))
        except ValueError as error:
            return [f"the answer is not JSON: {error}"]
        self.old = read_view(self.format_name, self.original)
        self.new = read_view(self.format_name, self._without_injected())
        self.diffs = differences(self.old, self.new)
        self._texts()
        self._calls()
        self._edits()
        self._reasoning()
        self._untouchable()
        self._markers()
        self._figures()
        self._structure()
        return self._found

    def _say(self, good: bool, message: str) -> None:
        if not good:
            self._found.append(message)

    def _without_injected(self) -> bytes:
        """The answer with the injected tool cut out, so that all the rest can be compared byte by byte."""
        if not self.injected:
            return self.answer
        view = read_view(self.format_name, self.answer)
        key = view.shape.tools[0]
        tools = view.root.get(key)
        array = _innermost_tools(tools)
        last = array.elements[-1] if array is not None and array.elements else None
        if tools is None or array is None or last is None:
            self._say(False, "no tool was injected")
            return self.answer
        if len(array.elements) > 1:
            return self.answer[: array.elements[-2].end] + self.answer[last.end :]
        if read_view(self.format_name, self.original).root.get(key) is not None:
            return self.answer[: last.start] + self.answer[last.end :]
        before = self.answer.rfind(b'"' + key.encode() + b'"', 0, tools.start)
        comma = self.answer.rfind(b",", 0, before)
        return self.answer[:comma] + self.answer[tools.end :]

    def _texts(self) -> None:
        old = [(role, node.raw(self.original)) for _, role, node in self.old.texts]
        new = [(role, node.raw(self.new.text)) for _, role, node in self.new.texts]
        rest = iter(new)
        missing = [role for role, raw in old if not any(pair == (role, raw) for pair in rest)]
        self._say(not missing, f"text of {missing} is not verbatim and in order")

    def _calls(self) -> None:
        def shape(view: View) -> list[tuple[int, int, bytes, bytes]]:
            return [(call.item, call.index, call.call_id, call.name) for call in view.calls]

        def answers(view: View) -> list[tuple[int, bytes, tuple[int, int] | None]]:
            return [(r.item, r.call_id, (r.call.item, r.call.index) if r.call else None) for r in view.results]

        self._say(shape(self.old) == shape(self.new), "calls are missing, moved or renamed")
        self._say(answers(self.old) == answers(self.new), "results are missing, moved or paired otherwise")

    def _match(self, diff: Difference, reduction: context_pb2.Reduction, content: bytes) -> tuple[Node, Node | None] | None:
        """The value, from the difference up to its slot, whose original the artifact is."""
        if diff.slot is None:
            return None
        for old, new in reversed(diff.chain):
            if not _is_content_of(content, old, self.original):
                continue
            name = self.read_back_items.get(diff.item, reduction.artifact_id)
            if diff.slot.kind == "reasoning" or (new is not None and self._names(new, name.encode())):
                return old, new
        return None

    def _names(self, node: Node, name: bytes) -> bool:
        """It stands in the value; where only data may stand, in what the data says."""
        told = node.raw(self.new.text)
        return name in told or any(name in data for data in (_base64_of(node, self.new.text) if b"text/plain" in told else ()))

    def _edits(self) -> None:
        by_item: dict[int, list[Difference]] = {}
        for diff in self.diffs:
            by_item.setdefault(diff.item, []).append(diff)
            self._say(diff.slot is not None, f"item {diff.item} {diff.path}: changed where nothing may change")
        order = [reduction.item_index for reduction in self.response.reductions]
        self._say(order == sorted(order), "reductions are not in order of position")
        for reduction in self.response.reductions:
            label = f"reduction {context_pb2.ReductionKind.Name(reduction.kind)} of item {reduction.item_index}"
            content = self.read(reduction.artifact_id)
            for diff in by_item.get(reduction.item_index, []):
                found = None if diff.covered else self._match(diff, reduction, content)
                if found is not None and diff.slot is not None:
                    self._cover(found, reduction, diff.slot, by_item[reduction.item_index], label)
                    break
            else:
                self._found.append(
                    f"{label}: no edit of that item holds its artifact {reduction.artifact_id} ({len(content)} bytes)"
                )
        for diff in self.diffs:
            self._say(diff.covered or diff.slot is None, f"item {diff.item} {diff.path}: replaced, and no reduction names it")

    def _cover(
        self, found: tuple[Node, Node | None], reduction: context_pb2.Reduction, slot: Slot, diffs: list[Difference], label: str
    ) -> None:
        old, new = found
        for diff in diffs:
            diff.covered = diff.covered or (old.start <= diff.old.start and diff.old.end <= old.end)
        self._say(reduction.kind in KINDS[slot.kind], f"{label}: the value is {slot.kind}")
        saved = (old.end - old.start) - ((new.end - new.start) if new is not None else 0)
        spare = len(self.original) if new is None else 0  # a removed block takes a comma and white space along
        self._say(reduction.saved_bytes > 0, f"{label}: saves nothing")
        exact = self.respelled or saved <= reduction.saved_bytes <= saved + min(spare, 8)
        self._say(exact, f"{label}: saves {saved}, said {reduction.saved_bytes}")
        call = _call_of(slot)
        if call is not None:
            self._call_named(reduction, call, label)
        if reduction.kind == context_pb2.REDUCTION_KIND_ARGUMENTS and new is not None:
            self._say(old.kind == new.kind, f"{label}: arguments changed their type")

    def _call_named(self, reduction: context_pb2.Reduction, call: Call, label: str) -> None:
        ref = reduction.call
        if len(call.call_id) <= 200 and call.call_id.isascii():
            self._say(ref.call_id.encode() == call.call_id, f"{label}: names call {ref.call_id!r}")
        if ref.HasField("item_index"):
            self._say(ref.item_index == call.item, f"{label}: call said in item {ref.item_index}, is in {call.item}")
        if ref.HasField("call_index"):
            self._say(ref.call_index == call.index, f"{label}: said call {ref.call_index}, is {call.index}")
        self._say(bool(call.call_id) or ref.HasField("item_index"), f"{label}: no position for a call without id")

    def _reasoning(self) -> None:
        gone = Counter(diff.item for diff in self.diffs if diff.slot is not None and diff.slot.kind == "reasoning")
        had = Counter(item for item, _ in self.old.reasoning)
        plain = self.old.plain_user_items()
        for item, count in gone.items():
            self._say(count == had[item], f"item {item}: {count} of {had[item]} reasoning parts are gone")
            if self.format_name != "openai-chat":
                self._say(bool(plain) and item < plain[-1], f"item {item}: reasoning of the current turn is gone")
        if self.format_name == "openai-chat":
            kept = [
                diff.new is not None and diff.new.raw(self.new.text) == b'""' for diff in self.diffs if self._is_reasoning(diff)
            ]
            self._say(all(kept), "chat reasoning lost its key")

    @staticmethod
    def _is_reasoning(diff: Difference) -> bool:
        return diff.slot is not None and diff.slot.kind == "reasoning"

    def _untouchable(self) -> None:
        calls: set[tuple[int, int]] = set()
        items: set[int] = set()
        user_media: set[int] = set()
        for diff in self.diffs:
            call = _call_of(diff.slot)
            if call is not None:
                calls.add((call.item, call.index))
                items.add(call.item)
            if self._is_reasoning(diff):
                items.add(diff.item)
            owner = diff.slot.owner if diff.slot is not None else None
            if isinstance(owner, Result) and owner.call is None:
                self._found.append(f"item {diff.item}: the result of no call was replaced")
            if isinstance(owner, Media) and not owner.in_result and owner.role == "user":
                user_media.add(diff.item)
        open_items = {call.item for call in self.old.dangling()}
        if self.format_name == "openai-responses":  # the items of an answer are one turn
            open_items = {at for at in items if any(self._one_turn(at, other) for other in open_items)}
        bad = sorted(items & open_items)
        self._say(not bad, f"items {bad}: unsettled units were touched")
        pinned = sorted(set(self.kept) & calls)
        self._say(not pinned, f"calls {pinned}: pinned, and touched")
        with_media = [media.item for media in self.old.media if not media.in_result and media.role == "user"]
        self._say(not with_media or with_media[-1] not in user_media, "the newest user media was replaced")

    def _one_turn(self, at: int, other: int) -> bool:
        return all(self.old.roles[between] == "assistant" for between in range(min(at, other), max(at, other) + 1))

    def _markers(self) -> None:
        old = Counter((place, node.raw(self.original)) for place, node in self.old.markers)
        new = Counter((place, node.raw(self.new.text)) for place, node in self.new.markers)
        self._say(not new - old, f"cache markers were multiplied: {list((new - old).keys())}")
        removed = Counter(
            (f"item {diff.item}", node.raw(self.original))
            for diff in self.diffs
            if diff.new is None
            for key, node in diff.old.members
            if key == b"cache_control"
        )
        self._say(not (old - new) - removed, f"cache markers are gone: {list(((old - new) - removed).keys())}")

    def _figures(self) -> None:
        response = self.response
        asked = self.asked if self.asked is not None else self.original
        same = self.answer == asked
        self._say(bool(response.body) != same, "body must be empty exactly when it equals the request's")
        answer_view = self.new if not self.injected else read_view(self.format_name, self.answer)
        asked_view = self.old if self.asked is None else read_view(self.format_name, asked)
        self._pressure("before", response.before, components(asked_view))
        self._pressure("after", response.after, components(answer_view))
        kinds: dict[int, list[int]] = {}
        for reduction in response.reductions:
            kinds.setdefault(reduction.kind, []).append(reduction.saved_bytes)
        said = {total.kind: (total.count, total.saved_bytes) for total in response.totals if total.count}
        counted = {kind: (len(values), sum(values)) for kind, values in kinds.items()}
        self._say(said == counted, f"totals say {said}, reductions make {counted}")
        saved = sum(reduction.saved_bytes for reduction in response.reductions)
        real = len(self.original) - len(self.new.text)
        self._say(saved == real or self.respelled, f"reductions save {saved}, the body became {real} smaller")
        self._say(response.item_count == len(self.old.items), f"item_count {response.item_count}, items {len(self.old.items)}")
        if response.outcome == context_pb2.FIT_OUTCOME_UNCHANGED:
            self._say(same, "UNCHANGED with another body")

    def _pressure(self, label: str, pressure: common_pb2.Pressure, counted: dict[str, int]) -> None:
        for name, value in counted.items():
            said = getattr(pressure, name)
            self._say(said == value, f"{label}.{name}: said {said}, is {value}")

    def _structure(self) -> None:
        added = faults(self.format_name, self.new) - faults(self.format_name, self.old)
        self._say(not added, f"structural faults added: {sorted(added)}")
        old_kinds = [len((item.get(self.old.shape.content) or item).elements) for item in self.old.items]
        self._say(len(old_kinds) == len(self.new.items), "items were added or removed")


def problems(
    format_name: str, original: bytes, answer: bytes, response: context_pb2.FitResponse, read: Reader, *, injected: bool = False
) -> list[str]:
    """All that is wrong with an answer to the raw body itself; empty when nothing is."""
    return Oracle(format_name, original, answer, response, read, injected=injected).problems()
