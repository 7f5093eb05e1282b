"""SessionService: looks after sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import grpc
import msgspec

from sidecar.core.branch import BranchIndex
from sidecar.core.errors import CorruptedError, InvalidFieldError, RangeInvalidError
from sidecar.core.limits import resolve
from sidecar.core.paging import Question, decode_page_token, encode_page_token
from sidecar.core.types import LimitsGiven, Preset, SessionKey
from sidecar.engine.artifacts import page_limit
from sidecar.engine.compact_messages import CheckpointView, RollbackInput, RollbackResult
from sidecar.engine.config import EngineConfig
from sidecar.engine.events import Events, Seen
from sidecar.engine.messages import Pressure
from sidecar.formats import ADAPTERS
from sidecar.ports import SessionSummary, Store, SummaryModel
from sidecar.rpc.artifact_service import read_summary
from sidecar.rpc.compact_mapping import decode_rollback, encode_checkpoint
from sidecar.rpc.mapping import (
    SESSION_ID_BYTES,
    decode_scope,
    decode_session,
    encode_limits,
    encode_pressure,
    encode_session,
    encode_time,
    not_negative,
    short,
)
from sidecar.version import VERSION
from trimtab.v1 import session_pb2, session_pb2_grpc

__all__ = ["SessionEngine", "SessionServicer"]

ITEMS_BYTES = 1 << 20
"""How much of items one message of ReadItems holds, unless a single item is larger; likewise of checkpoints on a page."""

_BYTES_PER_TOKEN = 2.0  # for the limits of a session of which nothing is known: errs low, as Fit does


class SessionEngine(Protocol):
    """The part of the engine that this service asks."""

    config: EngineConfig
    events: Events
    model: SummaryModel | None

    def settle(self, key: SessionKey | None = None, /) -> None:
        """Wait for writes that replies did not wait for."""

    def last_pressure(self, key: SessionKey, /) -> Pressure | None:
        """Size of the body answered last."""

    def checkpoints(self, key: SessionKey, /) -> list[CheckpointView]:
        """All checkpoints of a session, oldest first."""

    def rollback(self, given: RollbackInput, /) -> RollbackResult:
        """Take a checkpoint and all later ones back."""

    def delete(self, key: SessionKey, /) -> bool:
        """Remove a session."""


class _ListPosition(msgspec.Struct, frozen=True, array_like=True):
    """The last session given out."""

    update_ms: int
    session_id: str


class _CheckpointPosition(msgspec.Struct, frozen=True, array_like=True):
    """How many were given out. Checkpoints are only ever added, so it stays right."""

    count: int


class SessionServicer(session_pb2_grpc.SessionServiceServicer):
    """Reads requests, asks engine and store, writes answers."""

    def __init__(self, engine: SessionEngine, store: Store, *, version: str = VERSION) -> None:
        """Keep the parts.

        Args:
            engine: holds sessions in memory.
            store: holds them for good.
            version: what GetServerInfo tells.
        """
        self._engine = engine
        self._store = store
        self._version = version

    def GetSession(  # noqa: N802
        self, request: session_pb2.GetSessionRequest, context: grpc.ServicerContext
    ) -> session_pb2.GetSessionResponse:
        """Describe a session."""
        key = decode_session(request)
        self._engine.settle(key)
        return session_pb2.GetSessionResponse(session=self._encode(read_summary(self._store, key)))

    def ListSessions(  # noqa: N802
        self, request: session_pb2.ListSessionsRequest, context: grpc.ServicerContext
    ) -> session_pb2.ListSessionsResponse:
        """List the sessions of a scope, most recently used first. One that is used while they are listed may be missed."""
        scope = decode_scope(request.scope)
        prefix = short(request.session_id_prefix, "session_id_prefix", SESSION_ID_BYTES)
        want = page_limit(not_negative(request.page_size, "page_size"))
        question: Question = ("sessions/1", scope, prefix)
        position = decode_page_token(question, request.page_token, _ListPosition)
        self._engine.settle()
        # By id where the times are equal, so that the order is total.
        summaries = sorted(self._store.list_sessions(scope, prefix), key=_order)
        if position is not None:
            last = (-position.update_ms, position.session_id)
            summaries = [summary for summary in summaries if _order(summary) > last]
        token = ""
        if len(summaries) > want:
            end = summaries[want - 1]
            token = encode_page_token(question, _ListPosition(end.head.update_ms, end.key.session_id))
        return session_pb2.ListSessionsResponse(sessions=map(self._encode, summaries[:want]), next_page_token=token)

    def ReadItems(  # noqa: N802
        self, request: session_pb2.ReadItemsRequest, context: grpc.ServicerContext
    ) -> Iterator[session_pb2.ReadItemsResponse]:
        """Stream raw items of the current branch, as it is when the call begins."""
        key = decode_session(request)
        start = not_negative(request.start, "start")
        end = not_negative(request.end, "end") if request.HasField("end") else None
        if end is not None and end < start:
            raise InvalidFieldError("end must not be below start", field="end")
        self._engine.settle(key)
        branch = BranchIndex(read_summary(self._store, key).head.branch)
        if start > branch.count:
            raise RangeInvalidError(f"item {start} is outside of a history of {branch.count} items", item_count=branch.count)
        first, items, size = start, list[bytes](), 0
        for number in branch.numbers(start, end):
            item = self._read_item(key, number)
            if items and size + len(item) > ITEMS_BYTES:
                yield session_pb2.ReadItemsResponse(item_index=first, items=items)
                first, items, size = first + len(items), [], 0
            items.append(item)
            size += len(item)
        if items:
            yield session_pb2.ReadItemsResponse(item_index=first, items=items)

    def ListCheckpoints(  # noqa: N802
        self, request: session_pb2.ListCheckpointsRequest, context: grpc.ServicerContext
    ) -> session_pb2.ListCheckpointsResponse:
        """List all checkpoints of a session, oldest first. A page also ends where its summaries would make it large."""
        key = decode_session(request)
        want = page_limit(not_negative(request.page_size, "page_size"))
        question: Question = ("checkpoints/1", key.scope, key.session_id)
        position = decode_page_token(question, request.page_token, _CheckpointPosition)
        views = self._engine.checkpoints(key)
        start = end = 0 if position is None else min(position.count, len(views))
        size = 0
        while end < min(start + want, len(views)):
            size += len(views[end].summary)
            if end > start and size > ITEMS_BYTES:
                break
            end += 1
        token = encode_page_token(question, _CheckpointPosition(end)) if end < len(views) else ""
        return session_pb2.ListCheckpointsResponse(checkpoints=map(encode_checkpoint, views[start:end]), next_page_token=token)

    def Rollback(  # noqa: N802
        self, request: session_pb2.RollbackRequest, context: grpc.ServicerContext
    ) -> session_pb2.RollbackResponse:
        """Take a checkpoint and all later ones back."""
        result = self._engine.rollback(decode_rollback(request))
        return session_pb2.RollbackResponse(checkpoint_ids=result.checkpoint_ids, revision=result.revision)

    def DeleteSession(  # noqa: N802
        self, request: session_pb2.DeleteSessionRequest, context: grpc.ServicerContext
    ) -> session_pb2.DeleteSessionResponse:
        """Remove a session and all that it holds."""
        return session_pb2.DeleteSessionResponse(existed=self._engine.delete(decode_session(request)))

    def GetServerInfo(  # noqa: N802
        self, request: session_pb2.GetServerInfoRequest, context: grpc.ServicerContext
    ) -> session_pb2.GetServerInfoResponse:
        """Tell what this server is."""
        config = self._engine.config
        features = {"compaction": config.compaction, "summarizer.model": self._engine.model is not None}
        return session_pb2.GetServerInfoResponse(
            version=self._version,
            formats=sorted(map(int, ADAPTERS)),  # type: ignore[arg-type]  # numbers are the proto's
            default_limits=encode_limits(_defaults(config.limits)),
            max_message_bytes=config.max_body_bytes,
            features=[name for name, is_on in features.items() if is_on],
        )

    def WatchSessions(  # noqa: N802
        self, request: session_pb2.WatchSessionsRequest, context: grpc.ServicerContext
    ) -> Iterator[session_pb2.WatchSessionsResponse]:
        """Stream what happens in a scope, from now on. Headers go out at once, so that a caller knows that it watches."""
        scope = decode_scope(request.scope)
        session_id = short(request.session_id, "session_id", SESSION_ID_BYTES)
        subscription = self._engine.events.subscribe(scope, session_id)
        try:
            # False: the call is over already, and nobody would end the wait.
            if context.add_callback(subscription.close):
                context.send_initial_metadata(())
                for seen in subscription:
                    yield _encode_event(seen)
        finally:
            subscription.close()

    def _read_item(self, key: SessionKey, number: int) -> bytes:
        try:
            return self._store.read_item(key, number)
        except CorruptedError:
            read_summary(self._store, key)  # a session that was deleted meanwhile is not damaged
            raise

    def _encode(self, summary: SessionSummary) -> session_pb2.Session:
        head = summary.head
        last = self._engine.last_pressure(summary.key)
        return session_pb2.Session(
            ref=encode_session(summary.key),
            format=int(head.format),  # type: ignore[arg-type]
            revision=head.revision,
            item_count=summary.item_count,
            raw_bytes=head.raw_bytes,
            stored_bytes=summary.stored_bytes,
            artifact_count=summary.artifact_count,
            checkpoint_count=summary.checkpoint_count,
            last_pressure=None if last is None else encode_pressure(last),
            create_time=encode_time(head.create_ms),
            update_time=encode_time(head.update_ms),
        )


def _order(summary: SessionSummary) -> tuple[int, str]:
    return -summary.head.update_ms, summary.key.session_id


def _defaults(configured: LimitsGiven) -> LimitsGiven:
    """What a new session gets. In WINDOW most of it hangs on the window; where that is not configured, only what was is shown."""
    if configured.preset is Preset.WINDOW and configured.window_tokens is None:
        return configured
    return resolve(configured, _BYTES_PER_TOKEN).shown()


def _encode_event(seen: Seen) -> session_pb2.WatchSessionsResponse:
    event = seen.event
    return session_pb2.WatchSessionsResponse(
        kind=int(event.kind),  # type: ignore[arg-type]
        session=encode_session(event.key),
        revision=event.revision,
        time=encode_time(event.time_ms),
        detail=event.detail,
        before_bytes=event.before_bytes,
        after_bytes=event.after_bytes,
        lost_count=seen.lost_count,
    )
