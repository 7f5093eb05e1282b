"""An engine by hand: it keeps what it was asked and answers what it was told to, so that a test sees the edge alone."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

from sidecar.core.compaction import AttemptState, CompactMode, KeptReason
from sidecar.core.errors import SessionNotFoundError
from sidecar.core.types import Format, SessionKey, UsageFigures
from sidecar.engine.compact_messages import (
    AttemptView,
    CheckpointView,
    CompactInput,
    CompactOutcome,
    CompactResult,
    FinishInput,
    RollbackInput,
    RollbackResult,
)
from sidecar.engine.config import EngineConfig
from sidecar.engine.events import Events
from sidecar.engine.messages import AnchorsGiven, FitInput, FitResult, Note, Pressure
from sidecar.engine.record_messages import RecordInput, RecordResult, RecoverInput, RecoverResult
from sidecar.rpc.context_service import ContextServicer
from sidecar.rpc.server import Server, ServerOptions
from sidecar.rpc.session_service import SessionServicer
from trimtab.stubs import Stubs, open_stubs
from trimtab.v1 import context_pb2_grpc, session_pb2_grpc

__all__ = ["FakeEngine", "checkpoint", "full_result", "serving"]


def checkpoint(name: str = "c1", summary: bytes = b"what was done", **fields: Any) -> CheckpointView:
    """A checkpoint with a value of its own in each field."""
    given: dict[str, Any] = {
        "checkpoint_id": name,
        "base_revision": 4,
        "revision": 5,
        "items": ((1, 9), (11, 13)),
        "items_sha256": b"\x01" * 32,
        "attempt_id": "stage-1",
        "summarizer": "ledger/1",
        "model": "route",
        "format": Format.ANTHROPIC_MESSAGES,
        "boundary": "stage 1",
        "mode": CompactMode.REDERIVE,
        "superseded_checkpoint_ids": ("c0",),
        "summary": summary,
        "anchors_revision": 3,
        "before_bytes": 9_000,
        "after_bytes": 2_000,
        "create_ms": 1_700_000_000_123,
        "live": True,
    }
    return CheckpointView(**given | fields)


def full_result() -> CompactResult:
    """An answer with every field set."""
    attempt = AttemptView(
        "stage-1", AttemptState.COMMITTED, ((1, 9),), "caller/1", "it \ud800 ended", UsageFigures(7, None, 3), 1_700_000_000_000
    )
    return CompactResult(
        outcome=CompactOutcome.COMMITTED,
        kept_reason=KeptReason.LOW_BENEFIT,
        detail="why",
        summary_request=b'{"r":1}',
        checkpoint=checkpoint(),
        attempt=attempt,
        before=Pressure(total_bytes=9_000, tokens=0),
        after=Pressure(total_bytes=2_000),
        body=b'{"b":"\xff"}',
        revision=6,
        item_count=21,
        notes=(Note("SOME_NOTE", "text"),),
    )


class FakeEngine:
    """Has what the servicers ask of an engine."""

    def __init__(self) -> None:
        self.config = EngineConfig()
        self.events = Events()
        self.model = None
        self.asked: list[CompactInput | FinishInput | RollbackInput | RecordInput | RecoverInput] = []
        self.known = RecoverResult(Format.OPENAI_CHAT, 0, 0, b"", AnchorsGiven())
        self.result = full_result()
        self.views: list[CheckpointView] = []
        self.error: Exception | None = None
        self.waits = False  # compact waits until it is cancelled
        self.entered = Event()
        self.cancelled = Event()

    def fit(self, given: FitInput, /) -> FitResult:
        raise SessionNotFoundError("no such session")

    def compact(self, given: CompactInput, cancel: Event | None = None, /) -> CompactResult:
        assert cancel is not None
        self.entered.set()
        if self.waits and cancel.wait(20):
            self.cancelled.set()
        return self._answer(given)

    def finish_compact(self, given: FinishInput, /) -> CompactResult:
        return self._answer(given)

    def rollback(self, given: RollbackInput, /) -> RollbackResult:
        self._answer(given)
        return RollbackResult(("c1", "c2"), 9)

    def checkpoints(self, key: SessionKey, /) -> list[CheckpointView]:
        return self.views

    def record(self, given: RecordInput, /) -> RecordResult:
        self._answer(given)
        return RecordResult(7, 3, b"\xff")

    def recover(self, given: RecoverInput, /) -> RecoverResult:
        self._answer(given)
        return self.known

    def settle(self, key: SessionKey | None = None, /) -> None:
        return

    def last_pressure(self, key: SessionKey, /) -> Pressure | None:
        return None

    def delete(self, key: SessionKey, /) -> bool:
        return False

    def _answer(self, given: CompactInput | FinishInput | RollbackInput | RecordInput | RecoverInput) -> CompactResult:
        self.asked.append(given)
        if self.error is not None:
            raise self.error
        return self.result


@contextmanager
def serving(engine: FakeEngine, threads: int = 2) -> Iterator[Stubs[Any]]:
    """Its services over a real socket."""
    nothing: Any = None  # no call that these tests make reads artifacts or the store
    services = (
        (context_pb2_grpc.add_ContextServiceServicer_to_server, ContextServicer(engine, nothing, nothing)),
        (session_pb2_grpc.add_SessionServiceServicer_to_server, SessionServicer(engine, nothing)),
    )
    with tempfile.TemporaryDirectory(prefix="tt") as folder:
        server = Server(ServerOptions(listen=(f"unix:{Path(folder, 's')}",), threads=threads), services)
        server.start()
        try:
            with open_stubs(server.addresses[0]) as stubs:
                yield stubs
        finally:
            server.stop(1)
