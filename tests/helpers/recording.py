"""An agent that records, dies and recovers, over the real engine and store in this process, which may be opened again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

from fastpath import scan
from sidecar.core.types import EffectState, Format, LimitsGiven, ReadBack, SessionKey
from sidecar.engine.config import EngineConfig
from sidecar.engine.engine import Engine
from sidecar.engine.messages import AnchorsGiven, CallRef, FitInput, FitResult, ReceiptGiven
from sidecar.engine.record_messages import OpenCallView, RecordInput, RecordResult, RecoverInput, RecoverResult
from sidecar.formats import ADAPTERS
from store.store import LmdbStore
from tests.helpers.bodies import TYPED
from tests.helpers.translate import ENVELOPES, HISTORY, translate

__all__ = ["FORMATS", "Desk", "Run", "desk", "dumped", "opened", "rules_broken"]

Json = dict[str, Any]
FORMATS = {
    "openai-chat": Format.OPENAI_CHAT,
    "anthropic-messages": Format.ANTHROPIC_MESSAGES,
    "bedrock-converse": Format.BEDROCK_CONVERSE,
    "gemini": Format.GEMINI,
}
"""Those in which a turn with several calls is one item."""
KEEP_ALL = LimitsGiven(soft_bytes=1 << 30, target_bytes=1 << 29, externalize_bytes=0)


def dumped(value: Any) -> bytes:
    """JSON as an SDK writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


class _Clock:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        self.ms += 1000
        return self.ms


class Desk:
    """An engine over a folder."""

    def __init__(self, folder: str, quota_bytes: int = 1 << 30) -> None:
        self.folder = folder
        self.quota_bytes = quota_bytes
        self.clock = _Clock()
        self.serial = 0
        self.open()

    def open(self) -> None:
        """Begin."""
        self.store = LmdbStore(self.folder, quota_bytes=self.quota_bytes, map_bytes=1 << 31)
        self.engine = Engine(self.store, self.clock, EngineConfig())

    def reopen(self) -> None:
        """As after a restart."""
        self.engine.close()
        self.open()

    def run(self, format_name: str) -> Run:
        """A session of its own."""
        self.serial += 1
        return Run(self, format_name, f"run-{self.serial}")


@contextmanager
def desk(quota_bytes: int = 1 << 30) -> Iterator[Desk]:
    """In a scratch folder."""
    with TemporaryDirectory() as folder:
        made = Desk(folder, quota_bytes)
        try:
            yield made
        finally:
            made.engine.close()


class Run:
    """One session of a dialect. Items are values; what a test says happened is spelled in the dialect."""

    def __init__(self, desk: Desk, format_name: str, session_id: str) -> None:
        self.desk = desk
        self.format_name = format_name
        self.format = FORMATS[format_name]
        self.key = SessionKey("", session_id)
        self.chat = format_name == "openai-chat"
        self.names: dict[str, str] = {}
        self.requests = 0

    @property
    def engine(self) -> Engine:
        return self.desk.engine

    # Items

    def user(self, text: str = "go on") -> Json:
        return self.spelled({"role": "user", "content": text})

    def spelled(self, item: Json) -> Json:
        """An item in the shape of Messages, as this dialect has it."""
        if self.format_name in TYPED:
            return item
        (found,) = translate(self.format_name, [item], self.names)
        return found

    def says(self, text: str = "done") -> Json:
        if self.format_name not in TYPED:
            return self.spelled({"role": "assistant", "content": text})
        return {"role": "assistant", "content": text if self.chat else [{"type": "text", "text": text}]}

    def calls(self, *ids: str, name: str = "deploy", arguments: Json | None = None) -> Json:
        """One turn with these calls."""
        given = arguments or {"to": "prod"}
        if self.chat:
            function = {"name": name, "arguments": json.dumps(given)}
            return {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": id, "type": "function", "function": function} for id in ids],
            }
        blocks = [{"type": "tool_use", "id": id, "name": name, "input": given} for id in ids]
        return self.spelled({"role": "assistant", "content": blocks})

    def result(self, id: str, text: str = "ok") -> Json:
        """As a receipt brings it: an item, or a block."""
        if self.chat:
            return {"role": "tool", "tool_call_id": id, "content": text}
        block = {"type": "tool_result", "tool_use_id": id, "content": text}
        if self.format_name in TYPED:
            return block
        item = self.spelled({"role": "user", "content": [block]})
        part: Json = (item.get("content") or item["parts"])[0]
        return part

    def results(self, *results: Json) -> list[Json]:
        """The items that hold these."""
        if self.format_name == "gemini":
            return [{"role": "user", "parts": list(results)}]
        return list(results) if self.chat else [{"role": "user", "content": list(results)}]

    def body(self, items: list[Json], **members: Any) -> bytes:
        return dumped({**ENVELOPES[self.format_name], HISTORY[self.format_name]: items, **members})

    # Calls of the engine

    def fit(self, items: list[Json] | bytes, **more: Any) -> FitResult:
        body = items if isinstance(items, bytes) else self.body(items)
        more = {"read_back": ReadBack.CALLER, "limits": KEEP_ALL, **more}
        return self.engine.fit(FitInput(self.key, body, format=self.format, **more))

    def record(
        self,
        items: list[Json] | bytes = b"",
        *,
        id: str | None = None,
        receipts: tuple[ReceiptGiven, ...] = (),
        goal: str | None = None,
        **more: Any,
    ) -> RecordResult:
        self.requests += 1
        written = items if isinstance(items, bytes) else dumped(items)
        given = RecordInput(
            self.key,
            f"q{self.requests}" if id is None else id,
            format=more.pop("format", self.format),
            items=written,
            receipts=receipts,
            anchors=None if goal is None else AnchorsGiven(goal=goal),
            **more,
        )
        return self.engine.record(given)

    def receipt(self, id: str, state: EffectState, *, result: Json | bytes | None = None, **more: Any) -> ReceiptGiven:
        raw = b"" if result is None else result if isinstance(result, bytes) else dumped(result)
        at = more.pop("at", None)
        ref = CallRef(id) if at is None else CallRef(id, *at)
        return ReceiptGiven(ref, state, result=raw, **more)

    def recover(self, *, body: bool = True) -> RecoverResult:
        return self.engine.recover(RecoverInput(self.key, include_body=body))

    def close(self, id: str | None = None, **more: Any) -> RecoverResult:
        self.requests += 1
        request_id = f"q{self.requests}" if id is None else id
        more = {"include_body": True, **more}
        return self.engine.recover(RecoverInput(self.key, close_interrupted=True, request_id=request_id, **more))

    # What is known

    def journal(self) -> list[bytes]:
        """Raw items of the branch, from the store."""
        self.engine.settle(self.key)
        image = self.desk.store.load(self.key)
        assert image is not None
        numbers = [number for start, end in image.head.branch for number in range(start, end)]
        return [self.desk.store.read_item(self.key, number) for number in numbers]

    def stored(self) -> int:
        """Items in the journal, on the branch or not."""
        self.engine.settle(self.key)
        image = self.desk.store.load(self.key)
        assert image is not None
        return image.next_number


def rules_broken(run: Run, body: bytes) -> list[str]:
    """Structural rules that a body breaks."""
    adapter = ADAPTERS[run.format]
    return [found.rule for found in adapter.check(scan(body, adapter.grammar))]


def opened(views: tuple[OpenCallView, ...]) -> list[str]:
    """Ids of open calls."""
    return [view.call.call_id for view in views]
