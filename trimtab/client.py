"""The synchronous client."""

from __future__ import annotations

import os
import threading
import weakref
from types import TracebackType
from typing import Any, Self, Unpack, overload

import grpc

from trimtab.errors import TrimtabError, error_from_rpc
from trimtab.fail_open import FailOpen
from trimtab.payload import fitted_body, resolved_result, to_bytes, to_dict
from trimtab.settings import CallOptions, Limits, Settings, make_settings
from trimtab.stubs import DEFAULT_MAX_MESSAGE_BYTES, Stubs, channel_options
from trimtab.v1 import context_pb2

__all__ = ["Trimtab", "connect"]


def connect(
    target: str,
    *,
    format: str,
    read_back: str,
    read_back_tool_name: str = "",
    scope: str = "",
    fail_open: bool = False,
    timeout: float | None = 10.0,
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
    **limits: Unpack[Limits],
) -> Trimtab:
    """Make a client. Nothing is sent yet; the channel opens with the first call, in each process anew.

    Args:
        target: `unix:PATH` or `HOST:PORT` of the sidecar.
        format: dialect of the bodies, such as `openai-chat` or `anthropic-messages`.
        read_back: how the model reads externalized content back: `tool`, `inject`, `caller` or `none`.
        read_back_tool_name: name of the tool that reads artifacts, where it is not trimtab's own.
        scope: tenant or application that the sessions belong to.
        fail_open: when the sidecar cannot answer, `fit` gives back the body as it came, logs a warning and counts it. Without it,
            `fit` raises.
        timeout: seconds for each call; None: no limit.
        max_message_bytes: largest body either way.
        **limits: limits for the sessions, such as `soft_bytes`; what is not given takes the server's value.

    Raises:
        ValueError: a format, read_back or preset that does not exist.
    """
    return Trimtab(
        make_settings(
            target,
            format=format,
            read_back=read_back,
            read_back_tool_name=read_back_tool_name,
            scope=scope,
            fail_open=fail_open,
            timeout=timeout,
            max_message_bytes=max_message_bytes,
            limits=limits,
        )
    )


class Trimtab:
    """A client. May be used by many threads, and in processes forked after it was made: a child gets a channel of its own."""

    def __init__(self, settings: Settings) -> None:
        """Use `connect`."""
        self._settings = settings
        self._fail_open = FailOpen(settings.fail_open)
        self._lock = threading.Lock()
        self._stubs: Stubs[grpc.Channel] | None = None
        self.last: context_pb2.FitResponse | None = None
        """The whole answer to the last `fit`, None after failing open. With many threads, use `fit_response`."""
        _clients.add(self)

    @property
    def fail_open_count(self) -> int:
        """How often `fit` gave back a body that the sidecar had not seen to."""
        return self._fail_open.count

    @overload
    def fit(self, session_id: str, body: bytes, **options: Unpack[CallOptions]) -> bytes: ...
    @overload
    def fit(self, session_id: str, body: dict[str, Any], **options: Unpack[CallOptions]) -> dict[str, Any]: ...
    def fit(self, session_id: str, body: bytes | dict[str, Any], **options: Unpack[CallOptions]) -> bytes | dict[str, Any]:
        """Give the body to send: the one that came when nothing needs to change, else a smaller one.

        Args:
            session_id: names the agent's run.
            body: the complete request body, with the whole history, raw or as fitted before. Not mutated.
            **options: see CallOptions.

        Returns:
            What `body` was: bytes for bytes, a dict for a dict. The very object that came, when it is to be sent as it is.

        Raises:
            CannotFitError: the body is over a hard limit; do not send it.
            TrimtabError: the call was refused, or no server answered and the client does not fail open.
        """
        try:
            response = self.fit_response(session_id, body, **options)
        except TrimtabError as error:
            self.last = None
            if self._fail_open.allow(error, session_id):
                return body
            raise
        self.last = response
        return fitted_body(body, response)

    def fit_response(
        self, session_id: str, body: bytes | dict[str, Any], **options: Unpack[CallOptions]
    ) -> context_pb2.FitResponse:
        """As `fit`, but gives the whole answer, CANNOT_FIT included, and never fails open. Its `body` is empty when unchanged."""
        request = self._settings.fit_request(session_id, to_bytes(body, "body"), options)
        response: context_pb2.FitResponse = _answer(self.context.Fit, request, self._settings.call_timeout(options))
        return response

    @overload
    def resolve(self, session_id: str, call: bytes) -> bytes | None: ...
    @overload
    def resolve(self, session_id: str, call: dict[str, Any]) -> dict[str, Any] | None: ...
    def resolve(self, session_id: str, call: bytes | dict[str, Any]) -> bytes | dict[str, Any] | None:
        """Answer a call that the model made of the read-back tool.

        Args:
            session_id: names the agent's run.
            call: as the model made it: a tool_calls entry, a tool_use block.

        Returns:
            What to append as its result (a tool message, a tool_result block), bytes for bytes, a dict for anything else. None
            when the call is of another tool: run it yourself.
        """
        request = self._settings.resolve_request(session_id, call)
        response = _answer(self.context.ResolveCall, request, self._settings.timeout)
        return resolved_result(call, response)

    def read_back_tool(self) -> dict[str, Any]:
        """The read-back tool, to add to the body's tools once and for all: for read_back="tool"."""
        request = context_pb2.GetReadBackToolRequest(format=self._settings.format)
        return to_dict(_answer(self.context.GetReadBackTool, request, self._settings.timeout).tool)

    @property
    def context(self) -> Any:
        """The generated ContextServiceStub, for calls that have no method here. Raises grpc.RpcError; see `error_from_rpc`."""
        return self._open().context

    @property
    def artifacts(self) -> Any:
        """The generated ArtifactServiceStub, as `context`."""
        return self._open().artifacts

    @property
    def sessions(self) -> Any:
        """The generated SessionServiceStub, as `context`."""
        return self._open().sessions

    def close(self) -> None:
        """Close the channel. A later call opens a new one."""
        with self._lock:
            stubs, self._stubs = self._stubs, None
        if stubs is not None:
            stubs.channel.close()

    def __enter__(self) -> Self:
        """Use the client and close it at the end."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close the channel."""
        self.close()

    def _open(self) -> Stubs[grpc.Channel]:
        with self._lock:
            if self._stubs is None:
                channel = grpc.insecure_channel(self._settings.target, options=channel_options(self._settings.max_message_bytes))
                self._stubs = Stubs.of(channel)
            return self._stubs

    def _after_fork(self) -> None:
        """Let the parent's channel lie, unused and unclosed: both would hang or disturb the parent. A lock may have been held."""
        if self._stubs is not None:
            _left_behind.append(self._stubs)
        self._stubs = None
        self._lock = threading.Lock()
        self._fail_open.after_fork()


def _answer(method: Any, request: Any, timeout: float | None) -> Any:
    try:
        return method(request, timeout=timeout)
    except grpc.RpcError as error:
        raise error_from_rpc(error) from error


_clients: weakref.WeakSet[Trimtab] = weakref.WeakSet()
_left_behind: list[Stubs[grpc.Channel]] = []


def _forked() -> None:
    for client in _clients:
        client._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
