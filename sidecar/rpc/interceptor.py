"""What stands around every call: errors become statuses, and long streams do not take the threads that short calls need.

Servicers raise TrimtabError and know nothing of status codes. A request that cannot be read is refused here: left to gRPC it ends
as INTERNAL without a reason, and with a trace in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from threading import BoundedSemaphore
from typing import Any

import grpc

from sidecar.core.errors import InvalidFieldError, TooManyError, TrimtabError
from sidecar.rpc.status import abort, abort_unknown

__all__ = ["STREAM_COUNT", "EdgeInterceptor"]

# Open streams at once (ReadItems, WatchSessions, reflection). Each holds a thread of its own: a reader that stalls must not
# stop a Fit.
STREAM_COUNT = 64


class EdgeInterceptor(grpc.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs only
    """Wraps the handlers of all services, health and reflection included."""

    def __init__(self) -> None:
        """Make the pool for streams; threads are started as they are needed."""
        self._slots = BoundedSemaphore(STREAM_COUNT)
        # A few more than slots, so that a call too many is told so at once and does not wait for a thread.
        self._stream_pool = ThreadPoolExecutor(STREAM_COUNT + 4, thread_name_prefix="stream")
        self._wrapped: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler[Any, Any] | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Give the handler with its behavior wrapped; a method that nobody has stays so (UNIMPLEMENTED).

        gRPC asks for each call anew. What a method's handler is never changes once the server runs, so it is wrapped once.
        """
        wrapped = self._wrapped.get(handler_call_details.method)
        if wrapped is None:
            handler: Any = continuation(handler_call_details)
            if handler is None or handler.stream_unary:
                return handler  # type: ignore[no-any-return]
            wrapped = self._wrapped[handler_call_details.method] = self._wrap(handler)
        return wrapped

    def _wrap(self, handler: Any) -> grpc.RpcMethodHandler[Any, Any]:
        read = _reading(handler.request_deserializer)
        wrapped: Any
        if handler.stream_stream:  # reflection
            wrapped = self._stream(_all_readable(handler.stream_stream))
            return grpc.stream_stream_rpc_method_handler(wrapped, read, handler.response_serializer)
        if handler.unary_stream:
            wrapped = self._stream(_readable(handler.unary_stream))
            return grpc.unary_stream_rpc_method_handler(wrapped, read, handler.response_serializer)
        wrapped = _unary(_readable(handler.unary_unary))
        return grpc.unary_unary_rpc_method_handler(wrapped, read, handler.response_serializer)

    def close(self) -> None:
        """Let the streams' threads go. Call after the server has stopped."""
        self._stream_pool.shutdown(wait=False, cancel_futures=True)

    def _stream(self, behavior: Callable[[Any, grpc.ServicerContext], Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        if getattr(behavior, "experimental_non_blocking", False):
            return behavior  # health's Watch holds no thread

        def streamed(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
            if not self._slots.acquire(blocking=False):
                abort(context, TooManyError("too many open streams", hint="close one, or retry later", limit_count=STREAM_COUNT))
            try:
                yield from behavior(request, context)
            except Exception as error:
                _end(context, error)
            finally:
                self._slots.release()

        streamed.experimental_thread_pool = self._stream_pool  # type: ignore[attr-defined]
        return streamed


class _Unreadable:
    """Stands for a request that is no message of the call's type."""


def _reading(deserialize: Callable[[bytes], Any] | None) -> Callable[[bytes], Any]:
    def read(data: bytes) -> Any:
        try:
            return data if deserialize is None else deserialize(data)
        except Exception:  # whatever a protobuf runtime raises; its text may quote the request
            return _Unreadable()

    return read


def _check(request: Any) -> None:
    if isinstance(request, _Unreadable):
        raise InvalidFieldError(
            "the request is not a message of this call's type, or a text field of it is not UTF-8",
            hint="send what the stubs generated from proto/trimtab/v1 write; payloads go in bytes fields",
            field="request",
        )


def _readable(behavior: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse a request that could not be read."""

    @wraps(behavior)  # with the marks that say which threads it wants
    def checked(request: Any, context: grpc.ServicerContext, *more: Any) -> Any:
        try:
            _check(request)
        except InvalidFieldError as error:
            abort(context, error)
        return behavior(request, context, *more)

    return checked


def _all_readable(behavior: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse the first request of a stream that could not be read."""

    def checked(requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
        def read() -> Iterator[Any]:
            for request in requests:
                _check(request)
                yield request

        return behavior(read(), context)

    return checked


def _unary(behavior: Callable[[Any, grpc.ServicerContext], Any]) -> Callable[[Any, grpc.ServicerContext], Any]:
    def answered(request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return behavior(request, context)
        except Exception as error:
            _end(context, error)

    return answered


def _end(context: grpc.ServicerContext, error: Exception) -> None:
    """Give the call the status that `error` asks for. Always raises."""
    code = context.code()  # type: ignore[attr-defined]  # missing in the stubs, there since grpcio 1.45
    if isinstance(error, TrimtabError):
        abort(context, error)
    if isinstance(error, NotImplementedError) and code is grpc.StatusCode.UNIMPLEMENTED:
        context.abort(code, "not implemented by this version of the server")
    if code is not None:
        raise error  # the servicer ended the call itself
    abort_unknown(context, error)
