"""The sidecar's API as tests use it: thin calls over the generated stubs, and an agent that lets the oracle check each answer."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from sidecar.formats.adapters import NAMES
from tests.helpers.oracle import Oracle
from trimtab.v1 import artifact_pb2, artifact_pb2_grpc, common_pb2, context_pb2, context_pb2_grpc, session_pb2, session_pb2_grpc

__all__ = ["CALLER", "INJECT", "NONE", "TOOL", "Agent", "Failure", "Sidecar", "notes", "tight"]

TOOL = context_pb2.READ_BACK_TOOL
INJECT = context_pb2.READ_BACK_INJECT
CALLER = context_pb2.READ_BACK_CALLER
NONE = context_pb2.READ_BACK_NONE
FORMAT_NUMBERS: dict[object, Any] = {name: int(format) for format, name in NAMES.items()}


def tight(soft_bytes: int, target_bytes: int | None = None, **fields: Any) -> common_pb2.Limits:
    """Limits that act whenever the body is over soft_bytes, for any saving."""
    fields.setdefault("min_saving_bytes", 1)
    return common_pb2.Limits(soft_bytes=soft_bytes, target_bytes=soft_bytes if target_bytes is None else target_bytes, **fields)


def notes(response: context_pb2.FitResponse) -> set[str]:
    """Reasons of an answer's notes."""
    return {note.reason for note in response.notes}


@dataclass
class Failure:
    """An error as a client sees it: by status, by details and by the trailer."""

    code: grpc.StatusCode
    reason: str
    trailer: str
    details: dict[str, str]
    message: str

    @classmethod
    def of(cls, error: grpc.RpcError) -> Failure:
        """Take an error apart. The trailer and ErrorInfo are read independently."""
        assert isinstance(error, grpc.Call)
        trailers = dict(error.trailing_metadata() or ())
        info = error_details_pb2.ErrorInfo()
        status = rpc_status.from_call(error)
        for detail in status.details if status is not None else ():
            if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
                detail.Unpack(info)
        trailer = trailers.get("trimtab-reason", "")
        text = trailer.decode() if isinstance(trailer, bytes) else trailer
        return cls(error.code(), info.reason, text, dict(info.metadata), error.details() or "")


class Sidecar:
    """A connection."""

    def __init__(self, channel: grpc.Channel) -> None:
        """Make the stubs."""
        self.context = context_pb2_grpc.ContextServiceStub(channel)
        self.artifacts = artifact_pb2_grpc.ArtifactServiceStub(channel)
        self.sessions = session_pb2_grpc.SessionServiceStub(channel)

    def fit(self, session_id: str, body: bytes, **fields: Any) -> context_pb2.FitResponse:
        """Fit with list_applied and read_back CALLER unless said otherwise; format by name or number."""
        fields.setdefault("list_applied", True)
        fields.setdefault("read_back", CALLER)
        fields["format"] = FORMAT_NUMBERS.get(fields.get("format", 0), fields.get("format", 0))
        scope = fields.pop("scope", "")
        request = context_pb2.FitRequest(session=common_pb2.SessionRef(scope=scope, session_id=session_id), body=body, **fields)
        answer: context_pb2.FitResponse = self.context.Fit(request, timeout=120)
        return answer

    def failure(self, session_id: str, body: bytes, **fields: Any) -> Failure:
        """The error that Fit ends with; AssertionError when it does not."""
        try:
            answer = self.fit(session_id, body, **fields)
        except grpc.RpcError as error:
            return Failure.of(error)
        raise AssertionError(f"no error, but outcome {answer.outcome} with notes {notes(answer)}")

    def read(self, session_id: str, artifact_id: str, scope: str = "") -> bytes:
        """All of an artifact; proves its digest."""
        ref = common_pb2.SessionRef(scope=scope, session_id=session_id)
        request = artifact_pb2.ReadArtifactRequest(session=ref, artifact_id=artifact_id)
        answer = self.artifacts.ReadArtifact(request, timeout=60)
        content = bytes(answer.content)
        while answer.HasField("next_start"):
            request.bytes.start = answer.next_start
            answer = self.artifacts.ReadArtifact(request, timeout=60)
            content += answer.content
        digest = hashlib.sha256(content)
        assert digest.digest() == answer.artifact.sha256 and digest.hexdigest()[:32] == artifact_id
        assert answer.artifact.size_bytes == len(content)
        return content

    def reader(self, session_id: str) -> Callable[[str], bytes]:
        """`read` of one session, each artifact read once."""
        known: dict[str, bytes] = {}

        def read(artifact_id: str) -> bytes:
            if artifact_id not in known:
                known[artifact_id] = self.read(session_id, artifact_id)
            return known[artifact_id]

        return read

    def session(self, session_id: str, scope: str = "") -> session_pb2.Session:
        """A session's description."""
        ref = common_pb2.SessionRef(scope=scope, session_id=session_id)
        answer = self.sessions.GetSession(session_pb2.GetSessionRequest(session=ref), timeout=30)
        described: session_pb2.Session = answer.session
        return described

    def exists(self, session_id: str) -> bool:
        """There is such a session."""
        try:
            self.session(session_id)
        except grpc.RpcError as error:
            assert Failure.of(error).reason == "SESSION_NOT_FOUND"
            return False
        return True

    def list_artifacts(self, session_id: str) -> Sequence[common_pb2.Artifact]:
        """All places of all artifacts."""
        request = artifact_pb2.ListArtifactsRequest(session=common_pb2.SessionRef(session_id=session_id))
        found: list[common_pb2.Artifact] = []
        while True:
            answer = self.artifacts.ListArtifacts(request, timeout=30)
            found.extend(answer.artifacts)
            if not answer.next_page_token:
                return found
            request.page_token = answer.next_page_token

    def delete(self, session_id: str) -> bool:
        """Delete a session."""
        request = session_pb2.DeleteSessionRequest(session=common_pb2.SessionRef(session_id=session_id))
        return bool(self.sessions.DeleteSession(request, timeout=30).existed)

    def items(self, session_id: str) -> list[bytes]:
        """Raw items of the current branch."""
        request = session_pb2.ReadItemsRequest(session=common_pb2.SessionRef(session_id=session_id))
        return [item for part in self.sessions.ReadItems(request, timeout=60) for item in part.items]

    def read_back_tool(self, format_name: str) -> context_pb2.GetReadBackToolResponse:
        """The read-back tool in a dialect's spelling."""
        request = context_pb2.GetReadBackToolRequest(format=FORMAT_NUMBERS[format_name])
        answer: context_pb2.GetReadBackToolResponse = self.context.GetReadBackTool(request, timeout=30)
        return answer

    def resolve(self, session_id: str, call: bytes, format_name: str = "") -> context_pb2.ResolveCallResponse:
        """Answer a read-back call."""
        request = context_pb2.ResolveCallRequest(
            session=common_pb2.SessionRef(session_id=session_id), call=call, format=FORMAT_NUMBERS.get(format_name, 0)
        )
        answer: context_pb2.ResolveCallResponse = self.context.ResolveCall(request, timeout=30)
        return answer


@dataclass
class Agent:
    """One run: sends raw bodies, and lets the oracle look at each answer.

    Attributes:
        response: the last answer.
        sent: the last body that may go to the model.
    """

    sidecar: Sidecar
    format_name: str
    limits: common_pb2.Limits | None = None
    session_id: str = field(default_factory=lambda: f"run-{uuid.uuid4().hex[:12]}")
    read_back: int = CALLER
    response: context_pb2.FitResponse = field(default_factory=context_pb2.FitResponse)
    sent: bytes = b""

    def fit(self, body: bytes, raw: bytes | None = None, kept: Collection[tuple[int, int]] = (), **fields: Any) -> bytes:
        """Fit a body; `raw` is the raw history's body where the body is not raw. Asserts that the oracle finds nothing wrong."""
        fields.setdefault("limits", self.limits)
        fields.setdefault("read_back", self.read_back)
        fields.setdefault("format", self.format_name)
        read_back_items = fields.pop("read_back_items", {})
        oracle, respelled = fields.pop("oracle", True), fields.pop("respelled", False)
        self.response = self.sidecar.fit(self.session_id, body, **fields)
        self.sent = self.response.body or body
        if oracle:
            judge = Oracle(
                self.format_name,
                body if raw is None else raw,
                self.sent,
                self.response,
                self.sidecar.reader(self.session_id),
                asked=None if raw is None else body,
                injected=fields["read_back"] == INJECT,
                kept=kept,
                respelled=respelled,
                read_back_items=read_back_items,
            )
            found = judge.problems()
            assert not found, "\n".join(found)
        return self.sent

    @property
    def count(self) -> int:
        """Reductions in the last answer."""
        return len(self.response.reductions)
