"""Typed errors by reason. Match on the class or on `reason`, never on the text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import grpc
from google.rpc import error_details_pb2, status_pb2

from trimtab.v1 import context_pb2

__all__ = [
    "ArtifactNotFoundError",
    "AttemptNotFoundError",
    "CallNotFoundError",
    "CannotFitError",
    "CheckpointNotFoundError",
    "CorruptedError",
    "DeadlineExceededError",
    "FormatAmbiguousError",
    "InternalError",
    "InvalidFieldError",
    "MalformedBodyError",
    "MessageTooLargeError",
    "NoBodyError",
    "NotServingError",
    "PageTokenInvalidError",
    "PatternInvalidError",
    "RangeInvalidError",
    "ReadBackRequiredError",
    "RequestIdReusedError",
    "RevisionConflictError",
    "SessionNotFoundError",
    "StoreFailedError",
    "StoreFullError",
    "SummarizerNotConfiguredError",
    "TooManyError",
    "TrimtabError",
    "UnauthenticatedError",
    "UnavailableError",
    "error_from_rpc",
]

_DOMAIN = "trimtab"
_REASON_TRAILER = "trimtab-reason"
_STATUS_TRAILER = "grpc-status-details-bin"


class TrimtabError(Exception):
    """Base of all errors of this client.

    Attributes:
        reason: UPPER_SNAKE, one cause each. Stands for the class, also where a newer server has a reason that this client lacks.
        message: for people.
        hint: what to do next; may be empty.
        details: the variables of the message, units in their names.
        code: gRPC status code; None when the error did not come over the wire.
    """

    default_reason: ClassVar[str] = "UNKNOWN"

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        hint: str = "",
        details: Mapping[str, str] | None = None,
        code: grpc.StatusCode | None = None,
    ) -> None:
        """Keep the parts apart."""
        super().__init__(message)
        self.reason = reason or self.default_reason
        self.message = message
        self.hint = hint
        self.details = dict(details or {})
        self.code = code

    def __str__(self) -> str:
        """Reason and message; a server's message ends with its hint."""
        return f"{self.reason}: {self.message}"


class MalformedBodyError(TrimtabError):
    """The body is not JSON, not of a shape that the dialect has, or over a bound. Details: offset_bytes, bound."""

    default_reason = "MALFORMED_BODY"


class FormatAmbiguousError(TrimtabError):
    """More than one dialect fits: state the format."""

    default_reason = "FORMAT_AMBIGUOUS"


class ReadBackRequiredError(TrimtabError):
    """No way to read back was told."""

    default_reason = "READ_BACK_REQUIRED"


class InvalidFieldError(TrimtabError):
    """A field has a value that it may not have. Details: field."""

    default_reason = "INVALID_FIELD"


class SessionNotFoundError(TrimtabError):
    """No such session, or not yours."""

    default_reason = "SESSION_NOT_FOUND"


class ArtifactNotFoundError(TrimtabError):
    """No such artifact in this session; final."""

    default_reason = "ARTIFACT_NOT_FOUND"


class CheckpointNotFoundError(TrimtabError):
    """No such checkpoint in this session."""

    default_reason = "CHECKPOINT_NOT_FOUND"


class AttemptNotFoundError(TrimtabError):
    """No such attempt in this session."""

    default_reason = "ATTEMPT_NOT_FOUND"


class CallNotFoundError(TrimtabError):
    """No such call in this session."""

    default_reason = "CALL_NOT_FOUND"


class RangeInvalidError(TrimtabError):
    """The range is outside the content."""

    default_reason = "RANGE_INVALID"


class PatternInvalidError(TrimtabError):
    """The pattern does not compile or is too large."""

    default_reason = "PATTERN_INVALID"


class PageTokenInvalidError(TrimtabError):
    """The page token belongs to another question."""

    default_reason = "PAGE_TOKEN_INVALID"


class RevisionConflictError(TrimtabError):
    """The session is at another revision. Details: revision."""

    default_reason = "REVISION_CONFLICT"


class RequestIdReusedError(TrimtabError):
    """The request_id was used with other content."""

    default_reason = "REQUEST_ID_REUSED"


class NoBodyError(TrimtabError):
    """No body was ever given for this session."""

    default_reason = "NO_BODY"


class SummarizerNotConfiguredError(TrimtabError):
    """No such summarizer is configured."""

    default_reason = "SUMMARIZER_NOT_CONFIGURED"


class StoreFullError(TrimtabError):
    """Disk or quota is full and a new record is needed."""

    default_reason = "STORE_FULL"


class StoreFailedError(TrimtabError):
    """The store could not write or flush."""

    default_reason = "STORE_FAILED"


class CorruptedError(TrimtabError):
    """A digest does not hold."""

    default_reason = "CORRUPTED"


class TooManyError(TrimtabError):
    """Too many calls or sessions at once."""

    default_reason = "TOO_MANY"


class NotServingError(TrimtabError):
    """The server starts or drains."""

    default_reason = "NOT_SERVING"


class UnauthenticatedError(TrimtabError):
    """No credentials, or not these."""

    default_reason = "UNAUTHENTICATED"


class InternalError(TrimtabError):
    """A broken invariant; details are in the server's log."""

    default_reason = "INTERNAL"


class UnavailableError(TrimtabError):
    """No server could be reached."""

    default_reason = "UNAVAILABLE"


class DeadlineExceededError(TrimtabError):
    """The time for the call ran out. What it did is not known; Fit may be repeated as it is."""

    default_reason = "DEADLINE_EXCEEDED"


class MessageTooLargeError(TrimtabError):
    """A message is over the limit of this client or of the server (max_message_bytes)."""

    default_reason = "MESSAGE_TOO_LARGE"


class CannotFitError(TrimtabError):
    """The body is over a hard limit that Fit cannot reach: do not send it.

    Attributes:
        response: the whole answer; its blockers say what stands in the way, its advice whether Compact would help.
    """

    default_reason = "CANNOT_FIT"

    def __init__(self, response: context_pb2.FitResponse) -> None:
        """Say how far over it is."""
        after = response.after.total_bytes
        blockers = ", ".join(
            f"{blocker.reason} {blocker.size_bytes} bytes{_place(blocker.item_index)}" for blocker in response.blockers[:3]
        )
        super().__init__(
            f"the body is over its hard limit, and {after} bytes is as small as it gets" + (f": {blockers}" if blockers else ""),
            details={"total_bytes": str(after)},
        )
        self.response = response


def _place(item_index: int) -> str:
    return f" at item {item_index}" if item_index >= 0 else ""


_BY_REASON: Mapping[str, type[TrimtabError]] = {
    kind.default_reason: kind for kind in TrimtabError.__subclasses__() if kind is not CannotFitError
}
# A status without a reason of ours comes from gRPC itself, and so it has no hint.
_BY_CODE: Mapping[grpc.StatusCode, tuple[type[TrimtabError], str]] = {
    grpc.StatusCode.UNAVAILABLE: (UnavailableError, "is a sidecar running at this address? `trimtab serve` starts one"),
    grpc.StatusCode.DEADLINE_EXCEEDED: (DeadlineExceededError, "Fit may be repeated as it is; raise timeout if it comes often"),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (
        MessageTooLargeError,
        "raise max_message_bytes, of the client and of the server, or send less",
    ),
}


def error_from_rpc(error: grpc.RpcError) -> TrimtabError:
    """The typed error that a failed call stands for. Raise it `from error`."""
    call: Any = error  # every RpcError that a call raises is a Call as well, which the stubs do not say
    code: grpc.StatusCode = call.code()
    message: str = call.details() or code.name
    trailers = {item[0]: item[1] for item in call.trailing_metadata() or ()}
    info = _error_info(trailers.get(_STATUS_TRAILER))
    reason = info.reason if info is not None else trailers.get(_REASON_TRAILER)
    if reason is None:
        if code not in _BY_CODE:
            return TrimtabError(message, reason=code.name, code=code)
        kind, hint = _BY_CODE[code]
        return kind(f"{message} ({hint})", hint=hint, code=code)
    metadata = dict(info.metadata) if info is not None else {}
    hint = metadata.pop("hint", "")
    kind = _BY_REASON.get(str(reason), TrimtabError)
    return kind(message, reason=str(reason), hint=hint, details=metadata, code=code)


def _error_info(raw: object) -> error_details_pb2.ErrorInfo | None:
    """Our ErrorInfo in the status details, if they hold one."""
    if not isinstance(raw, bytes):
        return None
    info = error_details_pb2.ErrorInfo()
    for detail in status_pb2.Status.FromString(raw).details:
        if detail.Is(info.DESCRIPTOR) and detail.Unpack(info) and info.domain == _DOMAIN:
            return info
    return None
