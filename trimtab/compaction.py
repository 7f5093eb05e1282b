"""Requests of compaction, and what they may bring. No I/O here: the sync and the async client share it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from trimtab.payload import to_bytes
from trimtab.settings import Limits, Settings, anchors_of, check_options, named
from trimtab.v1 import common_pb2, context_pb2, session_pb2

__all__ = [
    "CompactOptions",
    "checkpoints_request",
    "compact_request",
    "finish_request",
    "rollback_request",
]

_MODES = {"extend": "COMPACT_MODE_EXTEND", "rederive": "COMPACT_MODE_REDERIVE"}
_SUMMARIZERS = {name.removeprefix("SUMMARIZER_").lower(): name for name, number in context_pb2.Summarizer.items() if number}


class CompactOptions(TypedDict, total=False):
    """What one Compact may bring; see trimtab.v1.CompactRequest."""

    boundary: str  # the stage that just ended; without it, nothing happens mid-stage unless forced
    force_mid_stage: bool
    ignore_pressure: bool
    mode: str  # extend, rederive
    summarizer: str  # ledger, caller, model; without it, the server's
    budget: context_pb2.Budget | Mapping[str, int]
    focus: str
    limits: Limits
    anchors: common_pb2.Anchors | Mapping[str, Any]
    receipts: Iterable[common_pb2.Receipt]
    dry_run: bool
    include_body: bool
    expected_revision: int
    timeout: float | None


def compact_request(
    settings: Settings, session_id: str, request_id: str, body: bytes | dict[str, Any], options: CompactOptions
) -> context_pb2.CompactRequest:
    """A CompactRequest for one call.

    Raises:
        ValueError: a mode or summarizer that does not exist.
        TypeError: an option that does not exist.
    """
    check_options(options, CompactOptions)
    budget = options.get("budget")
    mode, summarizer = options.get("mode"), options.get("summarizer")
    return context_pb2.CompactRequest(
        session=settings.session(session_id),
        request_id=request_id,
        body=to_bytes(body, "body"),
        boundary=options.get("boundary", ""),
        force_mid_stage=options.get("force_mid_stage", False),
        ignore_pressure=options.get("ignore_pressure", False),
        mode=named(_MODES, mode, "mode") if mode else None,
        summarizer=named(_SUMMARIZERS, summarizer, "summarizer") if summarizer else None,
        budget=context_pb2.Budget(**budget) if isinstance(budget, Mapping) else budget,
        focus=options.get("focus", ""),
        limits=settings.call_limits(options.get("limits")),
        anchors=anchors_of(options.get("anchors")),
        receipts=options.get("receipts", ()),
        dry_run=options.get("dry_run", False),
        include_body=options.get("include_body", False),
        expected_revision=options.get("expected_revision"),
    )


def finish_request(
    settings: Settings,
    session_id: str,
    attempt_id: str,
    *,
    response: object = None,
    text: str | bytes | None = None,
    failed: str | None = None,
    unknown: str | None = None,
    include_body: bool = False,
) -> context_pb2.FinishCompactRequest:
    """A FinishCompactRequest.

    Raises:
        TypeError: not exactly one of response, text, failed and unknown is given.
    """
    ends = {"response": response, "text": text, "failed": failed, "unknown": unknown}
    given = [name for name, value in ends.items() if value is not None]
    if len(given) != 1:
        raise TypeError(f"give exactly one of {', '.join(ends)}; not {' and '.join(given) or 'none'}")
    request = context_pb2.FinishCompactRequest(
        session=settings.session(session_id), attempt_id=attempt_id, include_body=include_body
    )
    if response is not None:
        request.response = to_bytes(response, "response")
    elif text is not None:
        request.text = _utf8(text) if isinstance(text, str) else text
    elif failed is not None:
        request.failed = _utf8(failed).decode()
    elif unknown is not None:
        request.unknown = _utf8(unknown).decode()
    return request


def checkpoints_request(settings: Settings, session_id: str) -> session_pb2.ListCheckpointsRequest:
    """A ListCheckpointsRequest for the first page."""
    return session_pb2.ListCheckpointsRequest(session=settings.session(session_id))


def rollback_request(
    settings: Settings, session_id: str, request_id: str, checkpoint_id: str, expected_revision: int | None
) -> session_pb2.RollbackRequest:
    """A RollbackRequest."""
    return session_pb2.RollbackRequest(
        session=settings.session(session_id),
        request_id=request_id,
        checkpoint_id=checkpoint_id,
        expected_revision=expected_revision,
    )


def _utf8(text: str) -> bytes:
    """A lone surrogate has no UTF-8; in a model's notes, or in words for people, it may become a question mark."""
    return text.encode("utf-8", "replace")
