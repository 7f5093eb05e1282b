"""The asynchronous client: the same as the synchronous one, in coroutines."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self, Unpack, overload

import grpc
import grpc.aio

from trimtab.compaction import CompactOptions, checkpoints_request, compact_request, finish_request, rollback_request
from trimtab.errors import TrimtabError, error_from_rpc
from trimtab.fail_open import FailOpen
from trimtab.payload import fitted_body, resolved_result, to_bytes, to_dict
from trimtab.prepare import Call, PrepareOptions, Step, awaited, drive_async, prepare_steps
from trimtab.recording import RecordOptions, record_request, recover_request
from trimtab.settings import CallOptions, Limits, Settings, make_settings
from trimtab.stubs import DEFAULT_MAX_MESSAGE_BYTES, Stubs, channel_options
from trimtab.v1 import common_pb2, context_pb2, session_pb2

__all__ = ["AsyncTrimtab", "connect_async"]


def connect_async(
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
) -> AsyncTrimtab:
    """Make an asynchronous client. Not a coroutine: nothing is sent yet. Arguments as for `connect`."""
    return AsyncTrimtab(
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


class AsyncTrimtab:
    """A client for one event loop at a time; in another loop or a forked process it opens a channel of its own."""

    def __init__(self, settings: Settings) -> None:
        """Use `connect_async`."""
        self._settings = settings
        self._fail_open = FailOpen(settings.fail_open)
        self._stubs: Stubs[grpc.aio.Channel] | None = None
        self._owner: tuple[int, asyncio.AbstractEventLoop] | None = None
        self._left_behind: list[Stubs[grpc.aio.Channel]] = []
        self.last: context_pb2.FitResponse | None = None
        """The whole answer to the last `fit`, None after failing open. With many tasks, use `fit_response`."""
        self.last_compact: context_pb2.CompactResponse | None = None
        """As `Trimtab.last_compact`."""
        self.last_by_model: context_pb2.CompactResponse | None = None
        """As `Trimtab.last_by_model`."""

    @property
    def fail_open_count(self) -> int:
        """How often `fit` gave back a body that the sidecar had not seen to."""
        return self._fail_open.count

    @overload
    async def fit(self, session_id: str, body: bytes, **options: Unpack[CallOptions]) -> bytes: ...
    @overload
    async def fit(self, session_id: str, body: dict[str, Any], **options: Unpack[CallOptions]) -> dict[str, Any]: ...
    async def fit(self, session_id: str, body: bytes | dict[str, Any], **options: Unpack[CallOptions]) -> bytes | dict[str, Any]:
        """As `Trimtab.fit`."""
        try:
            response = await self.fit_response(session_id, body, **options)
        except TrimtabError as error:
            self.last = None
            if self._fail_open.allow(error, session_id):
                return body
            raise
        self.last = response
        return fitted_body(body, response)

    async def fit_response(
        self, session_id: str, body: bytes | dict[str, Any], **options: Unpack[CallOptions]
    ) -> context_pb2.FitResponse:
        """As `Trimtab.fit_response`."""
        request = self._settings.fit_request(session_id, to_bytes(body, "body"), options)
        response: context_pb2.FitResponse = await _answer(self.context.Fit, request, self._settings.call_timeout(options))
        return response

    @overload
    async def prepare(
        self,
        session_id: str,
        body: bytes,
        *,
        boundary: str = "",
        summarize: Callable[[bytes], Any] | None = None,
        **options: Unpack[PrepareOptions],
    ) -> bytes: ...
    @overload
    async def prepare(
        self,
        session_id: str,
        body: dict[str, Any],
        *,
        boundary: str = "",
        summarize: Callable[[dict[str, Any]], Any] | None = None,
        **options: Unpack[PrepareOptions],
    ) -> dict[str, Any]: ...
    async def prepare(
        self,
        session_id: str,
        body: bytes | dict[str, Any],
        *,
        boundary: str = "",
        summarize: Callable[[Any], Any] | None = None,
        **options: Unpack[PrepareOptions],
    ) -> bytes | dict[str, Any]:
        """As `Trimtab.prepare`; `summarize` may be a coroutine function. After a cancellation the same call goes on with it."""
        self.last = self.last_compact = self.last_by_model = None

        async def take(step: Step) -> Any:
            if isinstance(step, Call):
                return await _answer(getattr(self.context, step.method), step.request, self._settings.call_timeout(options))
            assert summarize is not None
            return await awaited(summarize(to_dict(step.request) if as_dict else step.request))

        as_dict = not isinstance(body, bytes | bytearray | memoryview)
        raw = to_bytes(body, "body")
        steps = prepare_steps(
            self._settings, self._fail_open, session_id, raw, options, boundary=boundary, has_model=summarize is not None
        )
        prepared = await drive_async(steps, take)
        self.last, self.last_compact, self.last_by_model = prepared.fit, prepared.compact, prepared.by_model
        return body if prepared.fit is None else fitted_body(body, prepared.fit)

    @overload
    async def resolve(self, session_id: str, call: bytes) -> bytes | None: ...
    @overload
    async def resolve(self, session_id: str, call: dict[str, Any]) -> dict[str, Any] | None: ...
    async def resolve(self, session_id: str, call: bytes | dict[str, Any]) -> bytes | dict[str, Any] | None:
        """As `Trimtab.resolve`."""
        request = self._settings.resolve_request(session_id, call)
        response = await _answer(self.context.ResolveCall, request, self._settings.timeout)
        return resolved_result(call, response)

    async def read_back_tool(self) -> dict[str, Any]:
        """As `Trimtab.read_back_tool`."""
        request = context_pb2.GetReadBackToolRequest(format=self._settings.format)
        response = await _answer(self.context.GetReadBackTool, request, self._settings.timeout)
        return to_dict(response.tool)

    async def compact(
        self, session_id: str, request_id: str, body: bytes | dict[str, Any] = b"", **options: Unpack[CompactOptions]
    ) -> context_pb2.CompactResponse:
        """As `Trimtab.compact`."""
        request = compact_request(self._settings, session_id, request_id, body, options)
        answer: context_pb2.CompactResponse = await _answer(self.context.Compact, request, self._settings.call_timeout(options))
        return answer

    async def finish_compact(
        self,
        session_id: str,
        attempt_id: str,
        *,
        response: object = None,
        text: str | bytes | None = None,
        failed: str | None = None,
        unknown: str | None = None,
        include_body: bool = False,
    ) -> context_pb2.CompactResponse:
        """As `Trimtab.finish_compact`."""
        request = finish_request(
            self._settings,
            session_id,
            attempt_id,
            response=response,
            text=text,
            failed=failed,
            unknown=unknown,
            include_body=include_body,
        )
        answer = await _answer(self.context.FinishCompact, request, self._settings.timeout)
        compact: context_pb2.CompactResponse = answer.compact
        return compact

    async def checkpoints(self, session_id: str) -> list[common_pb2.Checkpoint]:
        """As `Trimtab.checkpoints`."""
        request = checkpoints_request(self._settings, session_id)
        found: list[common_pb2.Checkpoint] = []
        while True:
            page = await _answer(self.sessions.ListCheckpoints, request, self._settings.timeout)
            found += page.checkpoints
            request.page_token = page.next_page_token
            if not request.page_token:
                return found

    async def rollback(
        self, session_id: str, request_id: str, checkpoint_id: str, *, expected_revision: int | None = None
    ) -> session_pb2.RollbackResponse:
        """As `Trimtab.rollback`."""
        request = rollback_request(self._settings, session_id, request_id, checkpoint_id, expected_revision)
        answer: session_pb2.RollbackResponse = await _answer(self.sessions.Rollback, request, self._settings.timeout)
        return answer

    async def record(
        self,
        session_id: str,
        request_id: str,
        items: bytes | Iterable[object] = (),
        **options: Unpack[RecordOptions],
    ) -> context_pb2.RecordResponse:
        """As `Trimtab.record`."""
        request = record_request(self._settings, session_id, request_id, items, options)
        answer: context_pb2.RecordResponse = await _answer(self.context.Record, request, self._settings.call_timeout(options))
        return answer

    async def recover(
        self,
        session_id: str,
        *,
        include_body: bool = False,
        close_interrupted: bool = False,
        request_id: str = "",
        expected_revision: int | None = None,
    ) -> context_pb2.RecoverResponse:
        """As `Trimtab.recover`."""
        request = recover_request(
            self._settings,
            session_id,
            close_interrupted=close_interrupted,
            request_id=request_id,
            include_body=include_body,
            expected_revision=expected_revision,
        )
        answer: context_pb2.RecoverResponse = await _answer(self.context.Recover, request, self._settings.timeout)
        return answer

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

    async def close(self) -> None:
        """Close the channel. A later call opens a new one."""
        stubs, owner = self._stubs, self._owner
        self._stubs = self._owner = None
        if stubs is not None and owner == (os.getpid(), asyncio.get_running_loop()):
            await stubs.channel.close(None)

    async def __aenter__(self) -> Self:
        """Use the client and close it at the end."""
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close the channel."""
        await self.close()

    def _open(self) -> Stubs[grpc.aio.Channel]:
        owner = (os.getpid(), asyncio.get_running_loop())
        if self._stubs is None or self._owner != owner:
            if self._stubs is not None:  # of a loop that is gone, or of the parent: it cannot be closed from here
                self._left_behind.append(self._stubs)
            channel = grpc.aio.insecure_channel(self._settings.target, options=channel_options(self._settings.max_message_bytes))
            self._stubs = Stubs.of(channel)
            self._owner = owner
        return self._stubs


async def _answer(method: Any, request: Any, timeout: float | None) -> Any:
    try:
        return await method(request, timeout=timeout)
    except grpc.RpcError as error:
        raise error_from_rpc(error) from error
