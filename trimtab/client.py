"""The synchronous client."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self, Unpack, overload

import grpc

from trimtab.compaction import CompactOptions, checkpoints_request, compact_request, finish_request, rollback_request
from trimtab.errors import TrimtabError, error_from_rpc
from trimtab.fail_open import FailOpen
from trimtab.payload import fitted_body, resolved_result, to_bytes, to_dict
from trimtab.prepare import Call, PrepareOptions, Step, drive, prepare_steps
from trimtab.recording import RecordOptions, record_request, recover_request
from trimtab.settings import CallOptions, Limits, Settings, make_settings
from trimtab.stubs import DEFAULT_MAX_MESSAGE_BYTES, Stubs, channel_options
from trimtab.v1 import common_pb2, context_pb2, session_pb2

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
        self.last_compact: context_pb2.CompactResponse | None = None
        """What the last `prepare` came to where it compacted; None where it did not, or could not."""
        self.last_by_model: context_pb2.CompactResponse | None = None
        """Where a model gave no usable summary and the last `prepare` made one from records: why (`kept_reason`, `detail`)."""
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
    def prepare(
        self,
        session_id: str,
        body: bytes,
        *,
        boundary: str = "",
        summarize: Callable[[bytes], Any] | None = None,
        **options: Unpack[PrepareOptions],
    ) -> bytes: ...
    @overload
    def prepare(
        self,
        session_id: str,
        body: dict[str, Any],
        *,
        boundary: str = "",
        summarize: Callable[[dict[str, Any]], Any] | None = None,
        **options: Unpack[PrepareOptions],
    ) -> dict[str, Any]: ...
    def prepare(
        self,
        session_id: str,
        body: bytes | dict[str, Any],
        *,
        boundary: str = "",
        summarize: Callable[[Any], Any] | None = None,
        **options: Unpack[PrepareOptions],
    ) -> bytes | dict[str, Any]:
        """Give the body to send, as `fit` does, and compact where fitting is not enough.

        Where Fit answers OVER at a boundary, or CANNOT_FIT and some range may retire, older settled work is replaced by a
        summary, and the body is fitted again. Keep your own history and send it each time: the next call applies the same
        checkpoint. Repeating a call is safe: the same history at the same boundary asks for the same compaction.

        Args:
            session_id: names the agent's run.
            body: as for `fit`. Not mutated.
            boundary: name of the stage that just ended, such as "step-12" or the user's turn; empty is mid-stage.
            summarize: asks your own model: takes the request to send (a dict for a dict body, else bytes; model and parameters
                may be changed, messages not), gives the provider's whole response (bytes, dict, SDK object) or only its text.
                It raises SummaryNotMade when the request was not made. Without it, or when it gives no usable summary, the
                summary is made from records, by no model.
            **options: see PrepareOptions.

        Returns:
            As `fit`. When nothing could be compacted, what Fit gave.

        Raises:
            CannotFitError: the body is over a hard limit, compacted or not; do not send it.
            TrimtabError: as for `fit`.
        """
        self.last = self.last_compact = self.last_by_model = None

        def take(step: Step) -> Any:
            if isinstance(step, Call):
                return _answer(getattr(self.context, step.method), step.request, self._settings.call_timeout(options))
            assert summarize is not None
            return summarize(to_dict(step.request) if as_dict else step.request)

        as_dict = not isinstance(body, bytes | bytearray | memoryview)
        raw = to_bytes(body, "body")
        steps = prepare_steps(
            self._settings, self._fail_open, session_id, raw, options, boundary=boundary, has_model=summarize is not None
        )
        prepared = drive(steps, take)
        self.last, self.last_compact, self.last_by_model = prepared.fit, prepared.compact, prepared.by_model
        return body if prepared.fit is None else fitted_body(body, prepared.fit)

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

    def compact(
        self, session_id: str, request_id: str, body: bytes | dict[str, Any] = b"", **options: Unpack[CompactOptions]
    ) -> context_pb2.CompactResponse:
        """Replace settled older work by a summary; `prepare` does it where it is needed. Never fails open.

        Args:
            session_id: names the agent's run.
            request_id: what makes a repeat answer as the first call did; best made from the stage's name.
            body: as for `fit`; empty: the history as the session knows it.
            **options: see CompactOptions.

        Returns:
            The whole answer: COMMITTED, PLANNED (send `summary_request` to a model, then `finish_compact`), KEPT with its
            reason, or UNKNOWN. The next `fit` applies a checkpoint; there is no need to adopt a body.
        """
        request = compact_request(self._settings, session_id, request_id, body, options)
        answer: context_pb2.CompactResponse = _answer(self.context.Compact, request, self._settings.call_timeout(options))
        return answer

    def finish_compact(
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
        """Tell how the model request of a PLANNED answer went; give exactly one of the four ends.

        Args:
            session_id: as in `compact`.
            attempt_id: `attempt.attempt_id` of the PLANNED answer.
            response: the provider's whole response: bytes, dict or SDK object.
            text: only the model's text, where the response is not at hand.
            failed: why it was not made, or had no effect.
            unknown: why nobody can say.
            include_body: give the body as it would be sent now.
        """
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
        answer: context_pb2.CompactResponse = _answer(self.context.FinishCompact, request, self._settings.timeout).compact
        return answer

    def checkpoints(self, session_id: str) -> list[common_pb2.Checkpoint]:
        """All checkpoints of a session, oldest first; `live` are those that are neither taken back nor superseded."""
        request = checkpoints_request(self._settings, session_id)
        found: list[common_pb2.Checkpoint] = []
        while True:
            page = _answer(self.sessions.ListCheckpoints, request, self._settings.timeout)
            found += page.checkpoints
            request.page_token = page.next_page_token
            if not request.page_token:
                return found

    def rollback(
        self, session_id: str, request_id: str, checkpoint_id: str, *, expected_revision: int | None = None
    ) -> session_pb2.RollbackResponse:
        """Take a checkpoint and all later ones back; the raw items stand in their place again, from the next `fit` on."""
        request = rollback_request(self._settings, session_id, request_id, checkpoint_id, expected_revision)
        answer: session_pb2.RollbackResponse = _answer(self.sessions.Rollback, request, self._settings.timeout)
        return answer

    def record(
        self,
        session_id: str,
        request_id: str,
        items: bytes | Iterable[object] = (),
        **options: Unpack[RecordOptions],
    ) -> context_pb2.RecordResponse:
        """Keep what happens between two model calls: durable when it returns. Never fails open.

        Record the model's calls as pending before they run, and their results after: what a crash leaves can then be told
        apart. The next `fit` sends the same items again, and they are not stored twice.

        Args:
            session_id: names the agent's run; made when there is none.
            request_id: what makes a repeat answer as the first call did; best made from call ids.
            items: new items as they will stand in the next body: a list, or the bytes of a JSON array.
            **options: see RecordOptions; `trimtab.receipt` makes a receipt.
        """
        request = record_request(self._settings, session_id, request_id, items, options)
        answer: context_pb2.RecordResponse = _answer(self.context.Record, request, self._settings.call_timeout(options))
        return answer

    def recover(
        self,
        session_id: str,
        *,
        include_body: bool = False,
        close_interrupted: bool = False,
        request_id: str = "",
        expected_revision: int | None = None,
    ) -> context_pb2.RecoverResponse:
        """Tell what is durably known of a session: open calls with their receipts, anchors, checkpoints, the body to send.

        Args:
            session_id: names the agent's run.
            include_body: give the body as it would be sent now, bytes.
            close_interrupted: give calls that died with the process an honest result, so that the history is valid again. What
                waits for a person or a long job stays open.
            request_id: with close_interrupted: what makes a repeat answer as the first call did.
            expected_revision: with close_interrupted: refuse when another process is at work on the session.

        Raises:
            SessionNotFoundError: there is no such session.
            NoBodyError: `include_body`, and no `fit` ever told one.
        """
        request = recover_request(
            self._settings,
            session_id,
            close_interrupted=close_interrupted,
            request_id=request_id,
            include_body=include_body,
            expected_revision=expected_revision,
        )
        answer: context_pb2.RecoverResponse = _answer(self.context.Recover, request, self._settings.timeout)
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
