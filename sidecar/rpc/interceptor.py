"""What stands around every call: errors become statuses, and what is long does not take the threads that short calls need.

Servicers raise TrimtabError and know nothing of status codes. A request that cannot be read is refused here: left to gRPC it ends
as INTERNAL without a reason, and with a trace in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from threading import BoundedSemaphore
from typing import Any, TypeVar

import grpc

from sidecar.core.errors import InvalidFieldError, TooManyError, TrimtabError
from sidecar.rpc.mapping import unreadable
from sidecar.rpc.status import abort, abort_unknown

__all__ = ["STREAM_COUNT", "WAITING_COUNT", "EdgeInterceptor", "may_wait", "on_wire"]

# Open streams at once (ReadItems, WatchSessions, reflection). Each holds a thread of its own: a reader that stalls must not
# stop a Fit.
STREAM_COUNT = 64

# Calls at once that may wait for something slow, such as a model (`may_wait`). They too have threads of their own.
WAITING_COUNT = 32

F = TypeVar("F", bound=Callable[..., Any])


def may_wait(behavior: F) -> F:
    """Mark a servicer's method that may wait for something slow."""
    behavior.may_wait = True  # type: ignore[attr-defined]
    return behavior


def on_wire(behavior: F) -> F:
    """Mark a servicer's method that takes and gives bytes as they are on the wire, whatever the generated stubs say."""
    behavior.on_wire = True  # type: ignore[attr-defined]
    return behavior


class EdgeInterceptor(grpc.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs only
    """Wraps the handlers of all services, health and reflection included."""

    def __init__(self) -> None:
        """Make the pool for streams; threads are started as they are needed."""
        self._slots = BoundedSemaphore(STREAM_COUNT)
        # A few more than slots, so that a call too many is told so at once and does not wait for a thread.
        self._stream_pool = ThreadPoolExecutor(STREAM_COUNT + 4, thread_name_prefix="stream")
        self._waiting_slots = BoundedSemaphore(WAITING_COUNT)
        self._waiting_pool = ThreadPoolExecutor(WAITING_COUNT + 4, thread_name_prefix="wait")
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
        wrapped: Any
        if getattr(handler.unary_unary, "on_wire", False):
            return grpc.unary_unary_rpc_method_handler(_unary(handler.unary_unary))
        read = _reading(handler.request_deserializer)
        if handler.stream_stream:  # reflection
            wrapped = self._stream(_all_readable(handler.stream_stream))
            return grpc.stream_stream_rpc_method_handler(wrapped, read, handler.response_serializer)
        if handler.unary_stream:
            wrapped = self._stream(_readable(handler.unary_stream))
            return grpc.unary_stream_rpc_method_handler(wrapped, read, handler.response_serializer)
        wrapped = _unary(_readable(handler.unary_unary))
        if getattr(handler.unary_unary, "may_wait", False):
            wrapped = self._waiting(wrapped)
        return grpc.unary_unary_rpc_method_handler(wrapped, read, handler.response_serializer)

    def close(self) -> None:
        """Let the threads go. Call after the server has stopped."""
        self._stream_pool.shutdown(wait=False, cancel_futures=True)
        self._waiting_pool.shutdown(wait=True)  # what they do ends in the store, which closes next

    def _waiting(self, behavior: Callable[[Any, grpc.ServicerContext], Any]) -> Callable[[Any, grpc.ServicerContext], Any]:
        def waited(request: Any, context: grpc.ServicerContext) -> Any:
            if not self._waiting_slots.acquire(blocking=False):
                hint = "retry later"
                abort(context, TooManyError("too many calls that may wait for a model", hint=hint, limit_count=WAITING_COUNT))
            try:
                return behavior(request, context)
            finally:
                self._waiting_slots.release()

        waited.experimental_thread_pool = self._waiting_pool  # type: ignore[attr-defined]
        return waited

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
        raise unreadable()


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
