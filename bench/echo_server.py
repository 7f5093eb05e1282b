"""The floor to measure Fit against: a bare handler in the same gRPC stack, with the sidecar's own server options.

It takes a request's bytes and answers bytes, unread: `Sink` a few, `Back` as many as `SetBack` asked for last. It is a process
of its own, as the sidecar is.
"""

from __future__ import annotations

import sys
from concurrent import futures
from typing import Any

import grpc

from sidecar.malloc import raise_malloc_thresholds
from sidecar.rpc.server import ServerOptions, channel_options

__all__ = ["BACK", "SET_BACK", "SINK", "serve"]

SINK, BACK, SET_BACK = "/bench.Echo/Sink", "/bench.Echo/Back", "/bench.Echo/SetBack"
_SINK_BYTES = b"\0" * 64  # about what an answer without a body takes


class _Echo:
    def __init__(self) -> None:
        self._back = b""

    def sink(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        return _SINK_BYTES

    def back(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        return self._back

    def set_back(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self._back = request
        return b""

    def handler(self) -> grpc.GenericRpcHandler[Any, Any]:
        """All three, without serializers."""
        methods = {SINK: self.sink, BACK: self.back, SET_BACK: self.set_back}
        handlers = {name.rpartition("/")[2]: grpc.unary_unary_rpc_method_handler(call) for name, call in methods.items()}
        return grpc.method_handlers_generic_handler("bench.Echo", handlers)


def serve(address: str) -> None:
    """Answer until the process ends."""
    raise_malloc_thresholds()
    options = ServerOptions(listen=(address,))
    server = grpc.server(
        futures.ThreadPoolExecutor(options.threads),
        handlers=[_Echo().handler()],
        options=channel_options(options.max_message_bytes),
        compression=grpc.Compression.NoCompression,
    )
    server.add_insecure_port(address)
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    serve(sys.argv[1])
