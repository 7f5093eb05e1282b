"""A channel and the generated stubs on it, made together once: making stubs costs more than a small call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from trimtab.v1 import artifact_pb2_grpc, context_pb2_grpc, session_pb2_grpc

__all__ = ["Stubs"]

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Stubs(Generic[C]):
    """A channel and its stubs."""

    channel: C
    context: Any  # generated stubs carry no annotations
    artifacts: Any
    sessions: Any

    @classmethod
    def of(cls, channel: C) -> Stubs[C]:
        """Make the stubs of a channel."""
        return cls(
            channel,
            context_pb2_grpc.ContextServiceStub(channel),
            artifact_pb2_grpc.ArtifactServiceStub(channel),
            session_pb2_grpc.SessionServiceStub(channel),
        )
