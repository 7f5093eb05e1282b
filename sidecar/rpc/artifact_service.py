"""ArtifactService: externalized content read back, exactly."""

from __future__ import annotations

import grpc

from sidecar.core.branch import BranchIndex
from sidecar.core.errors import SessionNotFoundError
from sidecar.core.types import SessionKey
from sidecar.engine.artifacts import ArtifactReader
from sidecar.engine.searcher import MAX_CONTEXT_LINE_COUNT
from sidecar.ports import SessionSummary, Store
from sidecar.rpc.mapping import decode_session, encode_artifact, not_negative, require
from trimtab.v1 import artifact_pb2, artifact_pb2_grpc

__all__ = ["ArtifactServicer", "read_summary"]


class ArtifactServicer(artifact_pb2_grpc.ArtifactServiceServicer):
    """Reads requests, asks the reader, writes answers."""

    def __init__(self, reader: ArtifactReader, store: Store) -> None:
        """Keep the parts.

        Args:
            reader: reads artifacts.
            store: tells where a session's branch is.
        """
        self._reader = reader
        self._store = store

    def ReadArtifact(  # noqa: N802
        self, request: artifact_pb2.ReadArtifactRequest, context: grpc.ServicerContext
    ) -> artifact_pb2.ReadArtifactResponse:
        """Read an artifact or a range of it."""
        key = decode_session(request)
        require(bool(request.artifact_id), "artifact_id", "is required")
        which = request.WhichOneof("range")
        got = self._reader.read(
            key,
            request.artifact_id,
            byte_range=_range(request.bytes) if which == "bytes" else None,
            line_range=_range(request.lines) if which == "lines" else None,
            max_bytes=not_negative(request.max_bytes, "max_bytes"),
        )
        branch = BranchIndex(read_summary(self._store, key).head.branch)
        view = self._reader.describe(key, got.record, branch.index_of)
        return artifact_pb2.ReadArtifactResponse(
            artifact=encode_artifact(view), content=got.content, start=got.start, next_start=got.next_start
        )

    def SearchArtifacts(  # noqa: N802
        self, request: artifact_pb2.SearchArtifactsRequest, context: grpc.ServicerContext
    ) -> artifact_pb2.SearchArtifactsResponse:
        """Search the artifacts of a session."""
        key = decode_session(request)
        which = request.WhichOneof("pattern")
        require(which is not None, "pattern", "is required")
        count = not_negative(request.context_line_count, "context_line_count")
        require(count <= MAX_CONTEXT_LINE_COUNT, "context_line_count", f"must be at most {MAX_CONTEXT_LINE_COUNT}")
        hits, token = self._reader.search(
            key,
            artifact_id=request.artifact_id,
            literal=request.literal if which == "literal" else None,
            regex=request.regex if which == "regex" else None,
            context_line_count=count,
            page_size=not_negative(request.page_size, "page_size"),
            page_token=request.page_token,
        )
        return artifact_pb2.SearchArtifactsResponse(
            hits=[artifact_pb2.SearchHit(**hit._asdict()) for hit in hits], next_page_token=token
        )

    def ListArtifacts(  # noqa: N802
        self, request: artifact_pb2.ListArtifactsRequest, context: grpc.ServicerContext
    ) -> artifact_pb2.ListArtifactsResponse:
        """List the artifacts of a session, one entry for each place that content stood in, oldest first."""
        key = decode_session(request)
        page_size = not_negative(request.page_size, "page_size")
        branch = BranchIndex(read_summary(self._store, key).head.branch)
        views, token = self._reader.list(key, page_size, request.page_token, branch.index_of)
        return artifact_pb2.ListArtifactsResponse(artifacts=map(encode_artifact, views), next_page_token=token)


def read_summary(store: Store, key: SessionKey) -> SessionSummary:
    """What the store tells of a session.

    Raises:
        SessionNotFoundError: no such session.
    """
    summary = store.summary(key)
    if summary is None:
        raise SessionNotFoundError("no such session", hint="check scope and session_id; a deleted session is gone for good")
    return summary


def _range(given: artifact_pb2.ByteRange | artifact_pb2.LineRange) -> tuple[int, int | None]:
    """A half-open range. Whether it is one, and within the content, is for the reader to judge: RANGE_INVALID both."""
    return given.start, given.end if given.HasField("end") else None
