"""The gRPC server: listeners, limits, health, reflection, and how it ends.

Synchronous, with a thread pool: with one caller no slower than an event loop, and a long scan cannot stall other callers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent import futures
from typing import Any

import grpc
import msgspec
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from sidecar.rpc.interceptor import EdgeInterceptor
from sidecar.rpc.listen import Address, AddressError, ListenError, bind, parse_address
from trimtab.v1 import artifact_pb2, context_pb2, session_pb2

__all__ = ["HEALTH_SERVICES", "MESSAGE_SLACK_BYTES", "READINESS", "Server", "ServerOptions"]

READINESS = "readiness"
# "" and liveness say that the process answers; only readiness changes when it drains, so that nobody kills it for draining.
HEALTH_SERVICES = ("", "liveness", READINESS)

MESSAGE_SLACK_BYTES = 1 << 20  # beside the body a request carries anchors and receipts, an answer its reductions

_SERVICES = (
    context_pb2.DESCRIPTOR.services_by_name["ContextService"].full_name,
    artifact_pb2.DESCRIPTOR.services_by_name["ArtifactService"].full_name,
    session_pb2.DESCRIPTOR.services_by_name["SessionService"].full_name,
    health.SERVICE_NAME,
    reflection.SERVICE_NAME,
)


class ServerOptions(msgspec.Struct, frozen=True):
    """What the edge lets be chosen."""

    listen: tuple[str, ...]
    threads: int = 8  # each wait for a flush holds one
    max_message_bytes: int = 64 << 20
    socket_mode: int = 0o660
    insecure_tcp: bool = False


def channel_options(max_message_bytes: int) -> list[tuple[str, int]]:
    """Options of the server's side."""
    limit = max_message_bytes + MESSAGE_SLACK_BYTES
    return [
        ("grpc.max_receive_message_length", limit),
        ("grpc.max_send_message_length", limit),
        # Large messages over a local link: 11 to 28 % less time.
        ("grpc.http2.lookahead_bytes", 8 << 20),
        ("grpc.http2.bdp_probe", 0),
        # Two servers must not share a port unawares.
        ("grpc.so_reuseport", 0),
        # Clients may ping each second, with or without calls (common settings are 10 s and more; the default allows one in 5
        # minutes and then closes the connection).
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ]


class Server:
    """A server that has its listeners but does not answer until `start`."""

    def __init__(self, options: ServerOptions, services: Iterable[tuple[Callable[[Any, grpc.Server], None], object]]) -> None:
        """Bind all listeners.

        Args:
            options: where and how.
            services: pairs of a generated add_..._to_server and the servicer for it.

        Raises:
            AddressError: no address, none that there can be, or TCP beyond this machine without `insecure_tcp`.
            ListenError: one that cannot be had.
        """
        addresses = [parse_address(text) for text in options.listen]
        if not addresses:
            raise AddressError("no address to listen on; give unix:PATH or HOST:PORT")
        for address in addresses:
            if not address.local and not options.insecure_tcp:
                raise AddressError(
                    f"{address} can be reached from other machines, and there is neither TLS nor authentication here; listen on "
                    "a Unix socket or 127.0.0.1, or set insecure_tcp if the network itself is trusted"
                )
        self._interceptor = EdgeInterceptor()
        self._pool = futures.ThreadPoolExecutor(options.threads, thread_name_prefix="rpc")
        self._server = grpc.server(
            self._pool,
            interceptors=[self._interceptor],
            options=channel_options(options.max_message_bytes),
            compression=grpc.Compression.NoCompression,
        )
        self._health = health.HealthServicer(experimental_non_blocking=True)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        for add, servicer in services:
            add(servicer, self._server)
        reflection.enable_server_reflection(_SERVICES, self._server)
        self._addresses: list[Address] = []
        try:
            for address in addresses:
                self._addresses.append(bind(self._server, address, options.socket_mode))
        except ListenError:
            self.stop(0)
            raise

    @property
    def addresses(self) -> Sequence[str]:
        """Where it listens, as targets for clients."""
        return [str(address) for address in self._addresses]

    def start(self) -> None:
        """Answer from now on."""
        self._server.start()
        for service in HEALTH_SERVICES:
            self._health.set(service, health_pb2.HealthCheckResponse.SERVING)

    def not_ready(self) -> None:
        """Say that no more work is wanted. Calls are still answered."""
        self._health.set(READINESS, health_pb2.HealthCheckResponse.NOT_SERVING)

    def stop(self, timeout_s: float) -> None:
        """Refuse new calls, let running ones end within `timeout_s`, cut off the rest. Returns when all is over."""
        self._server.stop(timeout_s).wait()
        self._interceptor.close()
        self._pool.shutdown(wait=True)
