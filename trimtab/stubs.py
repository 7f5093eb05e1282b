"""Channels to a sidecar, and the generated stubs on them, made together once: making stubs costs more than a small call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import grpc

from trimtab.v1 import artifact_pb2_grpc, context_pb2_grpc, session_pb2_grpc

__all__ = ["DEFAULT_MAX_MESSAGE_BYTES", "Stubs", "channel_options", "open_stubs"]

# Requests and answers of up to this size pass; the server's own limit is max_message_bytes.
DEFAULT_MAX_MESSAGE_BYTES = 64 << 20
_SLACK_BYTES = 1 << 20

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


def channel_options(max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES) -> list[tuple[str, int]]:
    """Options of a gRPC channel for a server on the same machine."""
    limit = max_message_bytes + _SLACK_BYTES
    return [
        # Both default to 4 MiB on the receiving side.
        ("grpc.max_receive_message_length", limit),
        ("grpc.max_send_message_length", limit),
        ("grpc.http2.lookahead_bytes", 8 << 20),
        ("grpc.http2.bdp_probe", 0),
        # A restarted sidecar must be found at once, not after a back-off of up to two minutes.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1000),
        # In spite of its name this bounds the connecting itself: a busy machine may take a while for the first handshake.
        ("grpc.min_reconnect_backoff_ms", 10_000),
        # A sidecar is never behind the proxy that http_proxy names.
        ("grpc.enable_http_proxy", 0),
        # Channels to one target would else share a connection, which must not outlive a fork or a close.
        ("grpc.use_local_subchannel_pool", 1),
    ]


@contextmanager
def open_stubs(target: str, max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES) -> Iterator[Stubs[grpc.Channel]]:
    """A channel of one's own with all stubs, closed at the end. For tools; agents have `connect`."""
    channel = grpc.insecure_channel(target, options=channel_options(max_message_bytes))
    with channel:
        yield Stubs.of(channel)
