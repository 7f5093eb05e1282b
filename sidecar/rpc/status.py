"""The only table from error reasons to gRPC status codes, and how an error travels.

An error goes out in three forms, so that every client can match on its reason: the status code and message, a
google.rpc.ErrorInfo (domain "trimtab") in the status details, and the trailer "trimtab-reason". What an error's details and hint
are, its author has promised to be free of content; anything else that is raised goes out as INTERNAL with an incident number and
nothing more.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping
from typing import NoReturn
from uuid import uuid4

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from sidecar.core.errors import InternalError, TrimtabError

__all__ = ["CODES", "DOMAIN", "REASON_TRAILER", "abort", "abort_unknown", "to_status"]

DOMAIN = "trimtab"
REASON_TRAILER = "trimtab-reason"

# Headers of 8 KiB are what gRPC peers accept by default, and the details stand in them twice (base64, message).
_MESSAGE_LIMIT = 1024
_DETAIL_LIMIT = 256

CODES: Mapping[str, grpc.StatusCode] = {
    "MALFORMED_BODY": grpc.StatusCode.INVALID_ARGUMENT,
    "FORMAT_AMBIGUOUS": grpc.StatusCode.INVALID_ARGUMENT,
    "READ_BACK_REQUIRED": grpc.StatusCode.INVALID_ARGUMENT,
    "INVALID_FIELD": grpc.StatusCode.INVALID_ARGUMENT,
    "SESSION_NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "ARTIFACT_NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "CHECKPOINT_NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "ATTEMPT_NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "CALL_NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "RANGE_INVALID": grpc.StatusCode.OUT_OF_RANGE,
    "PATTERN_INVALID": grpc.StatusCode.INVALID_ARGUMENT,
    "PAGE_TOKEN_INVALID": grpc.StatusCode.INVALID_ARGUMENT,
    "REVISION_CONFLICT": grpc.StatusCode.ABORTED,
    "REQUEST_ID_REUSED": grpc.StatusCode.FAILED_PRECONDITION,
    "NO_BODY": grpc.StatusCode.FAILED_PRECONDITION,
    "SUMMARIZER_NOT_CONFIGURED": grpc.StatusCode.FAILED_PRECONDITION,
    "STORE_FULL": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "STORE_FAILED": grpc.StatusCode.UNAVAILABLE,
    "CORRUPTED": grpc.StatusCode.DATA_LOSS,
    "TOO_MANY": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "NOT_SERVING": grpc.StatusCode.UNAVAILABLE,
    "UNAUTHENTICATED": grpc.StatusCode.UNAUTHENTICATED,
    "INTERNAL": grpc.StatusCode.INTERNAL,
}

_log = logging.getLogger(__name__)


class _Status(grpc.Status):
    """What context.abort_with_status wants."""

    def __init__(self, code: grpc.StatusCode, details: str, trailing_metadata: tuple[tuple[str, str | bytes], ...]) -> None:
        self.code = code
        self.details = details
        self.trailing_metadata = trailing_metadata


def to_status(error: TrimtabError) -> _Status:
    """The status, details and trailers that say `error`.

    Args:
        error: any but InternalError goes out with its message, hint and details, each cut to a bound.

    Returns:
        A grpc.Status for ServicerContext.abort_with_status.
    """
    message = _cut(str(error), _MESSAGE_LIMIT)
    metadata = {name: _cut(str(value), _DETAIL_LIMIT) for name, value in error.details.items()}
    if error.hint:
        metadata["hint"] = _cut(error.hint, _DETAIL_LIMIT)
    info = error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=metadata)
    packed = any_pb2.Any()
    packed.Pack(info)
    code = CODES[error.reason]
    proto = status_pb2.Status(code=code.value[0], message=message, details=[packed])
    trailers = (*rpc_status.to_status(proto).trailing_metadata, (REASON_TRAILER, error.reason))
    return _Status(code, message, trailers)


def abort(context: grpc.ServicerContext, error: TrimtabError) -> NoReturn:
    """End the call with `error`. A broken invariant, or an error that should not have come here, is logged and goes out bare."""
    if error.reason == InternalError.reason:
        abort_unknown(context, error)
    context.abort_with_status(to_status(error))
    raise AssertionError("abort_with_status returned")


def abort_unknown(context: grpc.ServicerContext, error: BaseException) -> NoReturn:
    """End the call with INTERNAL.

    The log gets the kind of the exception and where it rose, never its text: that may hold content.
    """
    incident = uuid4().hex[:12]
    trace = traceback.extract_tb(error.__traceback__)
    frames = [f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}" for frame in trace]
    fields: dict[str, object] = {"incident": incident, "exception": type(error).__name__, "frames": frames}
    if isinstance(error, TrimtabError):
        fields["text"] = error.message
    _log.error("internal error", extra=fields)
    public = InternalError("internal error", hint=f"the server's log has it as incident {incident}", incident=incident)
    context.abort_with_status(to_status(public))
    raise AssertionError("abort_with_status returned")


def _cut(text: str, limit_bytes: int) -> str:
    """`text` as it may stand in a proto string, at most `limit_bytes` of UTF-8."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit_bytes:
        return raw.decode()
    return raw[: limit_bytes - 3].decode("utf-8", "ignore") + "\u2026"
