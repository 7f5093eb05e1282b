"""One exception base with a stable reason. Clients match on the reason, never on the text.

No status code of any transport stands here: `sidecar/rpc/status.py` holds the only table.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "ArtifactNotFoundError",
    "AttemptNotFoundError",
    "CallNotFoundError",
    "CheckpointNotFoundError",
    "CorruptedError",
    "FormatAmbiguousError",
    "InternalError",
    "InvalidFieldError",
    "MalformedBodyError",
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
    "SummarizerFailedError",
    "SummarizerNotConfiguredError",
    "SummarizerUnknownError",
    "TooManyError",
    "TrimtabError",
]


class TrimtabError(Exception):
    """Base of all errors that a caller may see.

    Attributes:
        reason: UPPER_SNAKE, one cause each; a name of trimtab.v1.ErrorReason without its prefix.
        message: for people; never content of a body, never a key.
        hint: what to do next; may be empty.
        details: the variables of the message, units in their names.
    """

    reason: ClassVar[str] = "INTERNAL"

    def __init__(self, message: str, *, hint: str = "", **details: str | int) -> None:
        """Keep the parts apart, so that an edge can send each in its own field."""
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    def __str__(self) -> str:
        """Message, and the hint when there is one."""
        return f"{self.message} ({self.hint})" if self.hint else self.message


class MalformedBodyError(TrimtabError):
    """Not JSON, not of a shape that the dialect has, or over a bound. Details: offset_bytes, bound."""

    reason = "MALFORMED_BODY"


class FormatAmbiguousError(TrimtabError):
    """More than one dialect fits. Details: candidates."""

    reason = "FORMAT_AMBIGUOUS"


class ReadBackRequiredError(TrimtabError):
    """No way to read back was told."""

    reason = "READ_BACK_REQUIRED"


class InvalidFieldError(TrimtabError):
    """A field has a value that it may not have. Details: field."""

    reason = "INVALID_FIELD"


class SessionNotFoundError(TrimtabError):
    """No such session, or not yours."""

    reason = "SESSION_NOT_FOUND"


class ArtifactNotFoundError(TrimtabError):
    """No such artifact in this session; final."""

    reason = "ARTIFACT_NOT_FOUND"


class CheckpointNotFoundError(TrimtabError):
    """No such checkpoint in this session, or it was taken back already."""

    reason = "CHECKPOINT_NOT_FOUND"


class AttemptNotFoundError(TrimtabError):
    """No such attempt in this session."""

    reason = "ATTEMPT_NOT_FOUND"


class SummarizerNotConfiguredError(TrimtabError):
    """MODEL was asked for and the server has no model endpoint."""

    reason = "SUMMARIZER_NOT_CONFIGURED"


class SummarizerFailedError(TrimtabError):
    """A model endpoint failed and that had no effect. Never leaves the engine: it becomes KEPT, SUMMARIZER_FAILED."""


class SummarizerUnknownError(TrimtabError):
    """Nobody can say whether a model endpoint answered. Never leaves the engine: it becomes UNKNOWN."""


class CallNotFoundError(TrimtabError):
    """No such call in this session."""

    reason = "CALL_NOT_FOUND"


class RangeInvalidError(TrimtabError):
    """The range is outside the content. Details: size_bytes or line_count."""

    reason = "RANGE_INVALID"


class PatternInvalidError(TrimtabError):
    """The pattern does not compile or is too large."""

    reason = "PATTERN_INVALID"


class PageTokenInvalidError(TrimtabError):
    """The page token belongs to another question."""

    reason = "PAGE_TOKEN_INVALID"


class RevisionConflictError(TrimtabError):
    """The session is at another revision. Details: revision."""

    reason = "REVISION_CONFLICT"


class RequestIdReusedError(TrimtabError):
    """The request_id was used with other content."""

    reason = "REQUEST_ID_REUSED"


class NoBodyError(TrimtabError):
    """No body was ever given for this session."""

    reason = "NO_BODY"


class StoreFullError(TrimtabError):
    """Disk or quota is full and a new record is needed."""

    reason = "STORE_FULL"


class StoreFailedError(TrimtabError):
    """The store could not write or flush."""

    reason = "STORE_FAILED"


class CorruptedError(TrimtabError):
    """A digest does not hold."""

    reason = "CORRUPTED"


class TooManyError(TrimtabError):
    """Too many calls or sessions at once."""

    reason = "TOO_MANY"


class NotServingError(TrimtabError):
    """Starting or draining."""

    reason = "NOT_SERVING"


class InternalError(TrimtabError):
    """A broken invariant; details only in the log."""

    reason = "INTERNAL"
