"""A sidecar in this process over a real socket and store, with all its stubs: what tests of the services start from."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from sidecar.app import App
from sidecar.config import Config
from trimtab.v1 import (
    artifact_pb2_grpc,
    common_pb2,
    context_pb2,
    context_pb2_grpc,
    session_pb2_grpc,
)

__all__ = ["Running", "reason_of", "ref"]

_MESSAGE_BYTES = 64 << 20


def ref(session_id: str, scope: str = "") -> common_pb2.SessionRef:
    """A session's name."""
    return common_pb2.SessionRef(scope=scope, session_id=session_id)


def reason_of(error: grpc.RpcError) -> tuple[str, dict[str, str]]:
    """The reason of a refusal, which the status and the trailer must agree on, and its details."""
    status = rpc_status.from_call(error)
    assert status is not None
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    trailers = dict(error.trailing_metadata())  # type: ignore[attr-defined]
    assert trailers["trimtab-reason"] == info.reason
    return info.reason, dict(info.metadata)


class Running:
    """Use as a context. `start` again after `stop` serves the same folder."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tt"))
        self.app: App

    def start(self) -> None:
        self.app = App(Config(listen=(f"unix:{self.folder / 's'}",), data_dir=str(self.folder / "data"), drain_delay_s=0.0))
        options = [("grpc.max_receive_message_length", _MESSAGE_BYTES), ("grpc.use_local_subchannel_pool", 1)]
        self.channel = grpc.insecure_channel(self.app.address, options=options)
        self.context: Any = context_pb2_grpc.ContextServiceStub(self.channel)
        self.artifacts: Any = artifact_pb2_grpc.ArtifactServiceStub(self.channel)
        self.sessions: Any = session_pb2_grpc.SessionServiceStub(self.channel)

    def stop(self) -> None:
        self.channel.close()
        self.app.close()

    def fit(self, session_id: str, body: bytes, *, scope: str = "", format: int = 3, **more: Any) -> context_pb2.FitResponse:
        """Fit a body; the agent reads artifacts its own way."""
        more = {"read_back": context_pb2.READ_BACK_CALLER} | more
        request = context_pb2.FitRequest(session=ref(session_id, scope), body=body, format=format, **more)  # type: ignore[arg-type]
        answer: context_pb2.FitResponse = self.context.Fit(request)
        return answer

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
        shutil.rmtree(self.folder)
