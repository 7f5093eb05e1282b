"""Facts of settled work: what a summary may be made from. Values only; `sidecar/summarize/` turns them into text.

Nothing here comes from reasoning or from an earlier summary. Indices are places of raw items on the current branch, as callers
count them.
"""

from __future__ import annotations

from typing import NamedTuple

from sidecar.core.types import Anchors, CallKey, EffectState

__all__ = ["RESULT_TEXT_BYTES", "CallFact", "RangeFacts", "RequestFact", "TextFact"]

RESULT_TEXT_BYTES = 400


class CallFact(NamedTuple):
    """One covered call, with how it ended."""

    call: CallKey
    index: int  # raw item that holds the call
    tool_name: str
    arguments: bytes  # JSON text as the model gave it, decoded where the dialect keeps it in a string; raw, never a stub
    is_error: bool  # the result was reported as an error
    result_bytes: int  # of all its results, as content
    result_text: str  # beginning of the result's text, at most RESULT_TEXT_BYTES of it, cut on a character; "" for none
    result_tail: str  # its end, of the same size, where it is longer than that
    artifact_ids: tuple[str, ...]  # under which its results can be read back; empty: they never left the body
    state: EffectState  # of the newest receipt; UNSPECIFIED: there is none
    detail: str  # of that receipt


class TextFact(NamedTuple):
    """Text that the model wrote in a covered turn."""

    index: int
    text: str


class RequestFact(NamedTuple):
    """What a person asked, and what is known of it."""

    index: int  # raw item
    text: str  # beginning of it, for people to recognize; the whole stands verbatim in the body
    answered_by: int  # raw item of the assistant's last text before the next request; -1: none. Says nothing about success
    done_by: str  # id of the work item that says so, "" for none
    is_last: bool


class RangeFacts(NamedTuple):
    """All that a summary of a range is made from."""

    calls: tuple[CallFact, ...]  # in order
    texts: tuple[TextFact, ...]
    requests: tuple[RequestFact, ...]  # of the whole history, oldest first
    anchors: Anchors
