"""A client and its sidecar in one process: histories made step by step, sent raw or adopted, and what must hold of each answer.

The engine and the store are the real ones; nothing of the product is trusted to say what a body holds: words, calls and results
are read from the JSON.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

from fastpath import scan
from sidecar.core.compaction import CompactMode
from sidecar.core.types import Format, LimitsGiven, ReadBack, SessionKey
from sidecar.engine.compact_messages import CompactInput, CompactResult, RollbackInput, RollbackResult
from sidecar.engine.config import EngineConfig
from sidecar.engine.engine import Engine
from sidecar.engine.messages import FitInput, FitResult, PinGiven, ReceiptGiven
from sidecar.formats import ADAPTERS
from sidecar.formats.adapters import NAMES
from store.store import LmdbStore
from tests.helpers.bodies import TYPED
from tests.helpers.translate import ENVELOPES, HISTORY
from tests.helpers.view import View, read_view

__all__ = ["Client", "Json", "Plant", "STYLES", "Spelled", "adopt", "plant", "violations", "words", "wrong"]

Json = dict[str, Any]

FORMATS = {name: format for format, name in NAMES.items()}
LOOSE = LimitsGiven(
    soft_bytes=1 << 30,
    target_bytes=1 << 29,
    min_saving_bytes=1,
    externalize_bytes=0,
    compact_target_bytes=1,
    compact_min_saving_bytes=1,
    keep_unit_count=1,
)
"""Nothing is cut, and a compaction covers all settled work before the newest unit."""


@dataclass(frozen=True)
class Spelled:
    """One way to write JSON."""

    ascii: bool = False
    spaced: bool = False
    content_first: bool = False

    def item(self, value: Json) -> bytes:
        """An item as this client writes it."""
        if self.content_first and "content" in value:
            value = {"content": value["content"], **value}
        separators = (", ", ": ") if self.spaced else (",", ":")
        return json.dumps(value, ensure_ascii=self.ascii, separators=separators).encode("utf-8", "surrogatepass")


STYLES = [Spelled(a, b, c) for a in (False, True) for b in (False, True) for c in (False, True)]


class _Clock:
    """Each look is a second later."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        self.ms += 1000
        return self.ms


class Plant:
    """An engine over a folder; may be opened again."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.clock = _Clock()
        self.serial = 0
        self.store = LmdbStore(folder, quota_bytes=1 << 30, map_bytes=1 << 31)
        self.engine = Engine(self.store, self.clock, EngineConfig())

    def reopen(self) -> None:
        """As after a restart."""
        self.engine.close()
        self.store = LmdbStore(self.folder, quota_bytes=1 << 30, map_bytes=1 << 31)
        self.engine = Engine(self.store, self.clock, EngineConfig())


@contextmanager
def plant() -> Iterator[Plant]:
    """In a scratch folder."""
    with TemporaryDirectory() as folder:
        made = Plant(folder)
        try:
            yield made
        finally:
            made.engine.close()


class Client:
    """One session. Its raw history is a list of items as bytes, so that nothing is spelled anew by accident."""

    def __init__(self, plant: Plant, format_name: str, limits: LimitsGiven = LOOSE, thinking: Json | None = None) -> None:
        plant.serial += 1
        self.plant = plant
        self.format_name = format_name
        self.format = FORMATS[format_name]
        self.key = SessionKey("", f"run-{plant.serial}")
        self.limits: LimitsGiven | None = limits
        self.items: list[bytes] = []
        envelope: Json = dict(ENVELOPES[format_name])
        if thinking and format_name == "bedrock-converse":
            envelope["additionalModelRequestFields"] = {"thinking": thinking}
        elif thinking:
            envelope["thinking"] = thinking
        key = HISTORY[format_name].encode()
        self.front = json.dumps(envelope, separators=(",", ":")).encode()[:-1] + b',"' + key + b'":['
        self.back = b'],"stream":true}'
        self.sent = b""
        self.told = 0  # raw items in the body sent last
        self.requests = 0
        self.result: FitResult | None = None

    @property
    def engine(self) -> Engine:
        return self.plant.engine

    def body(self, items: Sequence[bytes] | None = None) -> bytes:
        """The raw history."""
        return self.front + b",".join(self.items if items is None else items) + self.back

    def adopted(self) -> bytes:
        """The body answered last, with what came since."""
        return adopt(self.sent, self.items[self.told :], self.back)

    def fit(
        self,
        body: bytes | None = None,
        *,
        limits: LimitsGiven | None = None,
        receipts: Iterable[ReceiptGiven] = (),
        pins: Iterable[PinGiven] = (),
    ) -> bytes:
        """Send a body, keep what comes back, and hold it against what must be."""
        body = self.body() if body is None else body
        given = FitInput(
            self.key,
            body,
            format=self.format,
            limits=limits or self.limits,
            receipts=tuple(receipts),
            pins=tuple(pins),
            read_back=ReadBack.CALLER,
            list_applied=True,
        )
        self.limits = None
        self.result = self.engine.fit(given)
        self.sent = self.result.body or body
        self.told = len(self.items)
        return self.sent

    @property
    def notes(self) -> list[str]:
        assert self.result is not None
        return [note.reason for note in self.result.notes]

    def compact(self, *, mode: CompactMode = CompactMode.EXTEND, body: bytes = b"", **more: Any) -> CompactResult:
        """By ledger, whatever the pressure."""
        self.requests += 1
        given = CompactInput(
            self.key, f"r{self.requests}", body=body, ignore_pressure=True, force_mid_stage=True, mode=mode, **more
        )
        return self.engine.compact(given)

    def roll_back(self, checkpoint_id: str) -> RollbackResult:
        self.requests += 1
        return self.engine.rollback(RollbackInput(self.key, f"r{self.requests}", checkpoint_id))

    def live(self) -> list[tuple[str, str, set[int]]]:
        """Id, summary and covered items of each live checkpoint."""
        views = [view for view in self.engine.checkpoints(self.key) if view.live]
        return [
            (view.checkpoint_id, view.summary.decode(), {at for start, end in view.items for at in range(start, end)})
            for view in views
        ]

    def committed(self) -> int:
        return len(self.engine.checkpoints(self.key))


def adopt(sent: bytes, fresh: Sequence[bytes], back: bytes) -> bytes:
    """A body with items behind its history, every byte else as it was."""
    assert sent.endswith(back)
    return b",".join([sent[: len(sent) - len(back)], *fresh]) + back


def violations(format: Format, body: bytes) -> Counter[str]:
    """Structural rules that a body breaks, by how often."""
    adapter = ADAPTERS[format]
    return Counter(found.rule for found in adapter.check(scan(body, adapter.grammar)))


def _history(body: bytes) -> list[Json]:
    return list(json.loads(body.decode("utf-8", "surrogatepass"))["messages"])


def _blocks(item: Json) -> list[Json]:
    content = item.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [dict(block) for block in content] if isinstance(content, list) else []


def words(body: bytes) -> list[str]:
    """What people and the system say, in order; media that were replaced by a stub count as media."""
    said: list[str] = []
    for item in _history(body):
        if item["role"] not in ("user", "system", "developer"):
            continue
        for block in _blocks(item):
            block = {key: value for key, value in block.items() if value is not None and key != "cache_control"}
            if block["type"] == "tool_result":
                continue
            text = block.get("text", "")
            media = block["type"] in ("image", "image_url") or text.startswith("[trimtab: ")
            said.append("media" if media else json.dumps(block, sort_keys=True))
    return said


def _joints(items: Iterable[Json]) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    for item in items:
        for call in item.get("tool_calls") or []:
            found.append(("call", call["id"], call["function"]["name"]))
        if item["role"] == "tool":
            found.append(("result", item["tool_call_id"], ""))
        for block in _blocks(item) if item["role"] != "tool" else []:
            if block["type"] == "tool_use":
                found.append(("call", block["id"], block["name"]))
            elif block["type"] == "tool_result":
                found.append(("result", block["tool_use_id"], ""))
    return found


def markers(body: bytes) -> int:
    """Cache markers in the history."""
    return sum("cache_control" in block for item in _history(body) for block in _blocks(item))


def _rules_broken(client: Client, raw: bytes, sent: bytes) -> list[str]:
    had, has = violations(client.format, raw), violations(client.format, sent)
    worse = has - had
    worse["CALL_OPEN"] -= (had - has)["CALL_WITHOUT_RESULT"]  # what came after it is covered: it stands at the end now
    worse = +worse
    return [f"rules broken: {worse}"] if worse else []


def _wrong_by_view(client: Client, arrived: bytes) -> list[str]:
    """The same for a dialect that is read by `view.py`."""
    raw, sent = (read_view(client.format_name, body) for body in (client.body(), client.sent))
    found = _rules_broken(client, raw.text, sent.text)
    assert client.result is not None
    applied = {each.checkpoint_id for each in client.result.reductions if each.checkpoint_id}
    live = [each for each in client.live() if each[0] in applied]
    said = _said(sent)
    for checkpoint_id, summary, _ in live:
        times = sum(node.string(sent.text) == summary.encode() for node in sent.root.walk())
        if times != 1:
            found.append(f"{checkpoint_id} stands {times} times")
        if summary in said:
            said.remove(summary)
    if said != _said(raw):
        found.append("words changed")
    covered = {at for _, _, items in live for at in items}
    if _halves(sent, set()) != _halves(raw, covered):
        found.append("calls or results changed")
    before = len(read_view(client.format_name, arrived).markers)
    if len(sent.markers) > before:
        found.append(f"{len(sent.markers)} markers of {before}")
    return found


def _said(view: View) -> list[str]:
    """What people and the system say, in order; media that were replaced by a stub count as media."""
    said = [(node.start, (node.string(view.text) or b"").decode("utf-8", "replace")) for _, _, node in view.texts]
    said = [(start, "media" if text.startswith("[trimtab: ") else text) for start, text in said]
    said += [(media.node.start, "media") for media in view.media if not media.in_result and media.role == "user"]
    return [text for _, text in sorted(said)]


def _halves(view: View, without: set[int]) -> list[tuple[str, bytes, bytes]]:
    """Calls and results of the items that are not left out, in order."""
    found = [(call.node.start, "call", call.call_id, call.name) for call in view.calls if call.item not in without]
    found += [(each.node.start, "result", each.call_id, b"") for each in view.results if each.item not in without]
    return [(kind, id, name) for _, kind, id, name in sorted(found)]


def wrong(client: Client, arrived: bytes) -> list[str]:
    """What is wrong with the body answered last; `arrived` is the one that it answered."""
    raw, sent = client.body(), client.sent
    if client.format_name not in TYPED:
        return _wrong_by_view(client, arrived)
    found: list[str] = []
    found += _rules_broken(client, raw, sent)
    assert client.result is not None
    applied = {each.checkpoint_id for each in client.result.reductions if each.checkpoint_id}
    live = [each for each in client.live() if each[0] in applied]
    said = words(sent)
    for checkpoint_id, summary, _ in live:
        own = json.dumps({"text": summary, "type": "text"}, sort_keys=True)
        everywhere = [block.get("text") for item in _history(sent) for block in _blocks(item)]
        if everywhere.count(summary) != 1:
            found.append(f"{checkpoint_id} stands {everywhere.count(summary)} times")
        if own in said:
            said.remove(own)
    if said != words(raw):
        found.append("words changed")
    covered = {at for _, _, items in live for at in items}
    stays = _joints(item for at, item in enumerate(_history(raw)) if at not in covered)
    if _joints(_history(sent)) != stays:
        found.append("calls or results changed")
    if markers(sent) > markers(arrived):
        found.append(f"{markers(sent)} markers of {markers(arrived)}")
    return found
