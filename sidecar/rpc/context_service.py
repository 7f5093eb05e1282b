"""ContextService: all that an agent's loop needs."""

from __future__ import annotations

from threading import Event
from typing import Protocol

import grpc

from sidecar.core.errors import SessionNotFoundError
from sidecar.core.readback import READ_BACK_TOOL_NAME
from sidecar.core.types import Format, SessionKey
from sidecar.engine.artifacts import ArtifactReader
from sidecar.engine.compact_messages import CompactInput, CompactResult, FinishInput
from sidecar.engine.messages import FitInput, FitResult
from sidecar.engine.readback import resolve_call
from sidecar.engine.record_messages import RecordInput, RecordResult, RecoverInput, RecoverResult
from sidecar.formats import adapter
from sidecar.ports import Store
from sidecar.rpc.compact_mapping import decode_compact, decode_finish, encode_compact
from sidecar.rpc.fit_wire import read_fit, write_fit
from sidecar.rpc.interceptor import may_wait, on_wire
from sidecar.rpc.mapping import decode_format, decode_session, require
from sidecar.rpc.record_mapping import decode_record, decode_recover, encode_record, encode_recover
from trimtab.v1 import context_pb2, context_pb2_grpc

__all__ = ["ContextEngine", "ContextServicer"]

COMPACT_TIMEOUT_S = 60.0  # for a caller without a deadline
_NO_DEADLINE_S = 366 * 86_400.0  # gRPC tells a call without a deadline by centuries that remain


class ContextEngine(Protocol):
    """The part of the engine that this service asks."""

    def fit(self, given: FitInput, /) -> FitResult:
        """Measure a body and, under pressure, shrink it."""

    def compact(self, given: CompactInput, cancel: Event | None = None, /) -> CompactResult:
        """Replace settled older work by a summary. `cancel` is set when nobody waits for the answer any more."""

    def finish_compact(self, given: FinishInput, /) -> CompactResult:
        """End an attempt that was handed to the caller."""

    def record(self, given: RecordInput, /) -> RecordResult:
        """Keep items, receipts and anchors between two model calls."""

    def recover(self, given: RecoverInput, /) -> RecoverResult:
        """Tell what is durably known of a session."""


class ContextServicer(context_pb2_grpc.ContextServiceServicer):
    """Reads requests, asks the engine, writes answers."""

    def __init__(self, engine: ContextEngine, reader: ArtifactReader, store: Store) -> None:
        """Keep the parts.

        Args:
            engine: fits bodies and compacts.
            reader: reads artifacts back.
            store: tells a session's dialect when a call does not.
        """
        self._engine = engine
        self._reader = reader
        self._store = store

    @on_wire
    def Fit(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        """Measure a request and, under pressure, shrink it reversibly."""
        return write_fit(self._engine.fit(read_fit(request)))

    @may_wait
    def Compact(self, request: context_pb2.CompactRequest, context: grpc.ServicerContext) -> context_pb2.CompactResponse:
        """Replace settled older work by a summary. May wait for a model, so not on a thread that Fit needs."""
        given = decode_compact(request, _timeout_s(context))
        cancel = Event()
        if not context.add_callback(cancel.set):
            cancel.set()  # over before it began
        return encode_compact(self._engine.compact(given, cancel))

    def FinishCompact(
        self, request: context_pb2.FinishCompactRequest, context: grpc.ServicerContext
    ) -> context_pb2.FinishCompactResponse:
        """Tell how the caller's own model request went."""
        return context_pb2.FinishCompactResponse(compact=encode_compact(self._engine.finish_compact(decode_finish(request))))

    def Record(self, request: context_pb2.RecordRequest, context: grpc.ServicerContext) -> context_pb2.RecordResponse:
        """Add items, receipts and anchors between two model calls; durable when it returns."""
        return encode_record(self._engine.record(decode_record(request)))

    def Recover(self, request: context_pb2.RecoverRequest, context: grpc.ServicerContext) -> context_pb2.RecoverResponse:
        """Tell what is durably known of a session; on request, close what died with the agent's process."""
        return encode_recover(self._engine.recover(decode_recover(request)))

    def GetReadBackTool(
        self, request: context_pb2.GetReadBackToolRequest, context: grpc.ServicerContext
    ) -> context_pb2.GetReadBackToolResponse:
        """Give the read-back tool in a dialect's spelling."""
        dialect = decode_format(request.format)
        require(dialect != Format.UNSPECIFIED, "format", "is required")
        return context_pb2.GetReadBackToolResponse(name=READ_BACK_TOOL_NAME, tool=adapter(dialect).read_back_tool())

    def ResolveCall(
        self, request: context_pb2.ResolveCallRequest, context: grpc.ServicerContext
    ) -> context_pb2.ResolveCallResponse:
        """Answer a model's call of the read-back tool."""
        key = decode_session(request)
        require(bool(request.call), "call", "is required")
        dialect = self._dialect(key, decode_format(request.format))
        result, not_ours = resolve_call(adapter(dialect), self._reader, key, request.call)
        return context_pb2.ResolveCallResponse(result=result, not_ours=not_ours)

    def _dialect(self, key: SessionKey, given: Format) -> Format:
        """The dialect of a call: as given, else the session's. The session must be there either way."""
        summary = self._store.summary(key)
        if summary is None:
            raise SessionNotFoundError("no such session", hint="Fit makes it; check scope and session_id")
        return summary.head.format if given == Format.UNSPECIFIED else given


def _timeout_s(context: grpc.ServicerContext) -> float:
    """What is left of the caller's deadline, in seconds."""
    left = context.time_remaining()
    return COMPACT_TIMEOUT_S if left is None or left > _NO_DEADLINE_S else left
