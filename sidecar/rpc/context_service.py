"""ContextService: all that an agent's loop needs. Calls that are not here answer UNIMPLEMENTED."""

from __future__ import annotations

from typing import Protocol

import grpc

from sidecar.core.errors import SessionNotFoundError
from sidecar.core.readback import READ_BACK_TOOL_NAME
from sidecar.core.types import Format, SessionKey
from sidecar.engine.artifacts import ArtifactReader
from sidecar.engine.messages import FitInput, FitResult
from sidecar.engine.readback import resolve_call
from sidecar.formats import adapter
from sidecar.ports import Store
from sidecar.rpc.fit_mapping import decode_fit, encode_fit
from sidecar.rpc.mapping import decode_format, decode_session, require
from trimtab.v1 import context_pb2, context_pb2_grpc

__all__ = ["ContextServicer", "Fitter"]


class Fitter(Protocol):
    """The part of the engine that this service asks."""

    def fit(self, given: FitInput, /) -> FitResult:
        """Measure a body and, under pressure, shrink it."""


class ContextServicer(context_pb2_grpc.ContextServiceServicer):
    """Reads requests, asks the engine, writes answers."""

    def __init__(self, engine: Fitter, reader: ArtifactReader, store: Store) -> None:
        """Keep the parts.

        Args:
            engine: fits bodies.
            reader: reads artifacts back.
            store: tells a session's dialect when a call does not.
        """
        self._engine = engine
        self._reader = reader
        self._store = store

    def Fit(self, request: context_pb2.FitRequest, context: grpc.ServicerContext) -> context_pb2.FitResponse:
        """Measure a request and, under pressure, shrink it reversibly."""
        return encode_fit(self._engine.fit(decode_fit(request)))

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
