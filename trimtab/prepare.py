"""What `prepare` does, as steps that a driver takes: Fit, where it helps Compact, then Fit again.

There is no I/O in the steps, so that the sync and the async client share them. A body is never lost to a compaction that went
wrong: what Fit gave first stands. A summary that could not be had from the caller's model is made from records instead, once.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypedDict

from trimtab.compaction import CompactOptions, compact_request, finish_request
from trimtab.errors import RequestIdReusedError, TrimtabError
from trimtab.fail_open import FailOpen
from trimtab.settings import CallOptions, Limits, Settings, check_options
from trimtab.v1 import common_pb2, context_pb2

__all__ = [
    "Call",
    "PrepareOptions",
    "Prepared",
    "Step",
    "Summarize",
    "SummaryNotMade",
    "drive",
    "drive_async",
    "prepare_steps",
]

_BOUNDARY_BYTES = 64  # of a stage's name in a request_id, which holds 128 bytes; a longer one is hashed
_NO_MODEL = (
    context_pb2.KEPT_REASON_ATTEMPTS_SPENT,
    context_pb2.KEPT_REASON_RESERVE_PROTECTED,
    context_pb2.KEPT_REASON_DOES_NOT_FIT,  # beside the summaries that there are; the ledger can make one in the place of all
)

_log = logging.getLogger("trimtab")


class SummaryNotMade(Exception):
    """Raised by the function given as `summarize`: no model request was made, or it was refused without effect.

    Anything else that the function raises counts as unknown: the request may have been made, and may have cost.
    """


class PrepareOptions(TypedDict, total=False):
    """What one `prepare` may bring beside its body, boundary and model."""

    usage: object  # as in CallOptions, as all that follow
    limits: Limits
    anchors: common_pb2.Anchors | Mapping[str, Any]
    receipts: Iterable[common_pb2.Receipt]
    pins: Iterable[context_pb2.Pin]
    expected_revision: int
    list_applied: bool
    timeout: float | None  # for each call
    summarizer: str  # without a model of the caller's: ledger (the default), model
    budget: context_pb2.Budget | Mapping[str, int]
    focus: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call to make of ContextService."""

    method: str
    request: Any


@dataclass(frozen=True, slots=True)
class Summarize:
    """A request for the caller's own model."""

    request: bytes


@dataclass(frozen=True, slots=True)
class Prepared:
    """How it ended."""

    fit: context_pb2.FitResponse | None  # None: failed open, the body goes as it came
    compact: context_pb2.CompactResponse | None  # None: none was asked for, or the call failed
    by_model: context_pb2.CompactResponse | None = None  # what came of the model, where the ledger took its place


Step = Call | Summarize
Steps = Generator[Step, Any, Prepared]


def prepare_steps(
    settings: Settings,
    fail_open: FailOpen,
    session_id: str,
    body: bytes,
    options: PrepareOptions,
    *,
    boundary: str,
    has_model: bool,
) -> Steps:
    """The steps. What a step gives is sent in, what it raises is thrown in.

    Raises:
        ValueError: there is no such summarizer.
        TrimtabError: a call failed, and the client does not fail open, or what Fit gave first must not be sent.
    """
    if options.get("summarizer") == "caller" and not has_model:
        raise ValueError("summarizer 'caller' needs summarize, which asks your model")
    check_options(options, PrepareOptions)
    told: CallOptions = {name: value for name, value in options.items() if name in CallOptions.__annotations__}  # type: ignore[assignment]
    try:
        first: context_pb2.FitResponse = yield Call("Fit", settings.fit_request(session_id, body, told))
    except TrimtabError as error:
        if fail_open.allow(error, session_id):
            return Prepared(None, None)
        raise
    if not _wants_compaction(first, boundary):
        return Prepared(first, None)
    try:
        compacted, by_model = yield from _compact(settings, session_id, body, options, first, boundary, has_model)
        if compacted.outcome != context_pb2.COMPACT_OUTCOME_COMMITTED:
            return Prepared(first, compacted, by_model)
        # What was told once is not told again: usage would be taken for that of the body answered first, which was not sent.
        again: CallOptions = {name: told[name] for name in ("limits", "list_applied") if name in told}  # type: ignore[assignment]
        second: context_pb2.FitResponse = yield Call("Fit", settings.fit_request(session_id, body, again))
    except TrimtabError as error:
        sendable = first.outcome != context_pb2.FIT_OUTCOME_CANNOT_FIT
        if sendable and fail_open.allow(error, session_id, "a body that was not compacted"):
            return Prepared(first, None)
        raise
    return Prepared(second, compacted, by_model)


def drive(steps: Steps, take: Callable[[Step], Any]) -> Prepared:
    """Take all steps."""
    try:
        step = next(steps)
        while True:
            try:
                given = take(step)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(given)
    except StopIteration as end:
        prepared: Prepared = end.value
        return prepared


async def drive_async(steps: Steps, take: Callable[[Step], Awaitable[Any]]) -> Prepared:
    """Take all steps. A task that is cancelled while the model answers leaves the attempt open: the same call goes on with it."""
    try:
        step = next(steps)
        while True:
            try:
                given = await take(step)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(given)
    except StopIteration as end:
        prepared: Prepared = end.value
        return prepared


async def awaited(value: Any) -> Any:
    """`value`, waited for when that is what it is there for."""
    return await value if inspect.isawaitable(value) else value


def _wants_compaction(fit: context_pb2.FitResponse, boundary: str) -> bool:
    if fit.outcome == context_pb2.FIT_OUTCOME_CANNOT_FIT:
        return fit.advice.eligible
    return fit.outcome == context_pb2.FIT_OUTCOME_OVER and bool(boundary)


def _compact(
    settings: Settings,
    session_id: str,
    body: bytes,
    options: PrepareOptions,
    fit: context_pb2.FitResponse,
    boundary: str,
    has_model: bool,
) -> Generator[Step, Any, tuple[context_pb2.CompactResponse, context_pb2.CompactResponse | None]]:
    """One compaction; by ledger in the end where a model gave no summary, and then what came of the model, too."""
    request_id = _request_id(boundary, fit)
    summarizer = "caller" if has_model else options.get("summarizer", "ledger")
    asked: CompactOptions = {
        "boundary": boundary,
        # A body that must not be sent waits for no stage to end, and not for a range that was taken back.
        "force_mid_stage": fit.outcome == context_pb2.FIT_OUTCOME_CANNOT_FIT,
        "focus": options.get("focus", ""),
    }
    if "budget" in options:
        asked["budget"] = options["budget"]

    def ask(request_id: str, summarizer: str) -> Generator[Step, Any, context_pb2.CompactResponse]:
        request = compact_request(settings, session_id, request_id, body, {**asked, "summarizer": summarizer})
        try:
            answer: context_pb2.CompactResponse = yield Call("Compact", request)
        except RequestIdReusedError:  # the same history, asked for otherwise: in another envelope, say
            digest = sha256(request.SerializeToString(deterministic=True)).hexdigest()
            other = compact_request(
                settings, session_id, f"{request_id}:{digest[:16]}", body, {**asked, "summarizer": summarizer}
            )
            answer = yield Call("Compact", other)
        return answer

    answer = yield from ask(request_id, summarizer)
    if answer.outcome == context_pb2.COMPACT_OUTCOME_COMMITTED and not answer.checkpoint.live:
        # An answer of old, taken back since. The body is over again, so this is another question.
        request_id = f"{request_id}:r{fit.revision}"
        answer = yield from ask(request_id, summarizer)
    cause = ""
    if answer.outcome == context_pb2.COMPACT_OUTCOME_PLANNED:
        answer, cause = yield from _finish(settings, session_id, answer)
    if summarizer != "ledger" and _may_fall_back(answer):
        _log.warning("session %r: no summary by a model (%s): it is made from records", session_id, cause or _why(answer))
        return (yield from ask(f"{request_id}:ledger", "ledger")), answer
    return answer, None


def _finish(
    settings: Settings, session_id: str, planned: context_pb2.CompactResponse
) -> Generator[Step, Any, tuple[context_pb2.CompactResponse, str]]:
    """Have the caller's model asked, and tell how that went. Also why there is no answer of it, in words that hold no content."""
    end: dict[str, Any]
    cause = ""
    try:
        made = yield Summarize(planned.summary_request)
        end = {"text": made} if isinstance(made, str) else {"response": made}
        request = finish_request(settings, session_id, planned.attempt.attempt_id, **end)
    except SummaryNotMade as error:
        cause = "it was not asked"
        request = finish_request(settings, session_id, planned.attempt.attempt_id, failed=str(error))
    except Exception as error:
        kind = type(error).__name__  # its text may be content
        cause = f"{kind}: nobody can say whether it was asked"
        request = finish_request(settings, session_id, planned.attempt.attempt_id, unknown=kind)
    try:
        finished: context_pb2.FinishCompactResponse = yield Call("FinishCompact", request)
    except TrimtabError:
        if cause:
            _log.warning("session %r: no summary by a model (%s)", session_id, cause)
        raise
    return finished.compact, cause


def _why(answer: context_pb2.CompactResponse) -> str:
    """Why a model gave none. What a model or a caller said of it may be content; what the sidecar found wrong is none."""
    if answer.outcome == context_pb2.COMPACT_OUTCOME_UNKNOWN:
        return "UNKNOWN"
    reason = context_pb2.KeptReason.Name(answer.kept_reason).removeprefix("KEPT_REASON_")
    found = answer.kept_reason == context_pb2.KEPT_REASON_SUMMARY_REJECTED and answer.detail
    return f"{reason}: {answer.detail}" if found else reason


def _may_fall_back(answer: context_pb2.CompactResponse) -> bool:
    """A model gave no summary that stands, or may not be asked; the ledger asks none."""
    if answer.outcome == context_pb2.COMPACT_OUTCOME_UNKNOWN:
        return True
    kept = answer.outcome == context_pb2.COMPACT_OUTCOME_KEPT
    return kept and (answer.HasField("attempt") or answer.kept_reason in _NO_MODEL)


def _request_id(boundary: str, fit: context_pb2.FitResponse) -> str:
    """The same for the same history at the same boundary, so that a repeated call finds what it did before."""
    raw = boundary.encode()
    stage = (boundary if len(raw) <= _BOUNDARY_BYTES else sha256(raw).hexdigest()[:32]) or "mid-stage"
    return f"{stage}:{fit.item_count}:{fit.history_digest.hex()[:16]}"
