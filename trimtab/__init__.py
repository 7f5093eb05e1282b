"""What an agent imports: a thin client for the trimtab sidecar.

    import trimtab

    t = trimtab.connect("unix:/run/trimtab.sock", format="anthropic-messages", read_back="inject")
    body = t.fit("run-1", body)             # before each model call: send what it gives
    body = t.prepare("run-1", body, boundary="step 7")   # instead, where a stage ended: it may compact
    result = t.resolve("run-1", tool_use)   # for each call of the model: its result, or None when the tool is yours
    t.record("run-1", "call-7", [...], receipts=[trimtab.receipt("call-7", "pending")])  # before a tool runs, and after
    known = t.recover("run-1", include_body=True)  # after a crash

The generated messages and stubs are in `trimtab.v1`.
"""

from __future__ import annotations

from trimtab.aio import AsyncTrimtab, connect_async
from trimtab.client import Trimtab, connect
from trimtab.compaction import CompactOptions
from trimtab.errors import (
    ArtifactNotFoundError,
    AttemptNotFoundError,
    CallNotFoundError,
    CannotFitError,
    CheckpointNotFoundError,
    CorruptedError,
    DeadlineExceededError,
    FormatAmbiguousError,
    InternalError,
    InvalidFieldError,
    MalformedBodyError,
    MessageTooLargeError,
    NoBodyError,
    NotServingError,
    PageTokenInvalidError,
    PatternInvalidError,
    RangeInvalidError,
    ReadBackRequiredError,
    RequestIdReusedError,
    RevisionConflictError,
    SessionNotFoundError,
    StoreFailedError,
    StoreFullError,
    SummarizerNotConfiguredError,
    TooManyError,
    TrimtabError,
    UnauthenticatedError,
    UnavailableError,
    error_from_rpc,
)
from trimtab.prepare import PrepareOptions, SummaryNotMade
from trimtab.recording import RecordOptions, receipt
from trimtab.settings import CallOptions, Limits

__all__ = [
    "ArtifactNotFoundError",
    "AsyncTrimtab",
    "AttemptNotFoundError",
    "CallNotFoundError",
    "CallOptions",
    "CannotFitError",
    "CheckpointNotFoundError",
    "CompactOptions",
    "CorruptedError",
    "DeadlineExceededError",
    "FormatAmbiguousError",
    "InternalError",
    "InvalidFieldError",
    "Limits",
    "MalformedBodyError",
    "MessageTooLargeError",
    "NoBodyError",
    "NotServingError",
    "PageTokenInvalidError",
    "PatternInvalidError",
    "PrepareOptions",
    "RangeInvalidError",
    "ReadBackRequiredError",
    "RecordOptions",
    "RequestIdReusedError",
    "RevisionConflictError",
    "SessionNotFoundError",
    "StoreFailedError",
    "StoreFullError",
    "SummarizerNotConfiguredError",
    "SummaryNotMade",
    "TooManyError",
    "Trimtab",
    "TrimtabError",
    "UnauthenticatedError",
    "UnavailableError",
    "connect",
    "connect_async",
    "error_from_rpc",
    "receipt",
]
