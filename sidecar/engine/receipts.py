"""Results that come with receipts: whether one is what it says, and which of a body only close what a crash interrupted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from fastpath import Kind, Part, canon, scan, strip_markers
from sidecar.core.errors import InvalidFieldError, MalformedBodyError
from sidecar.core.types import ReceiptRecord
from sidecar.core.units import Call
from sidecar.engine.refs import Refs
from sidecar.formats.base import Adapter
from sidecar.formats.values import check_object, value_text

__all__ = ["check_result", "closing_results", "items_of", "late_results", "part_of"]

_HINT = "give the result as it will stand in the history: a tool message, a tool_result block"


def check_result(adapter: Adapter, call: Call, call_name: bytes, result: bytes) -> bytes:
    """A result that may stand in the history, white space around it taken off.

    Args:
        adapter: of the session's dialect.
        call: that it should answer.
        call_name: of its tool, decoded.
        result: JSON.

    Raises:
        MalformedBodyError: it is not one JSON object.
        InvalidFieldError: it is no result of the dialect, or it answers another call.
    """
    try:
        value = check_object(result, "receipts.result")
    except MalformedBodyError as error:
        raise MalformedBodyError(error.message, hint=_HINT, **error.details) from error
    body = adapter.empty_body[:-2] + b",".join(adapter.result_items([value])) + b"]}"
    found = scan(body, adapter.grammar)
    parts = [part for part in found.parts() if part.parent < 0]
    if found.item_count != 1 or [part.kind for part in parts] != [Kind.RESULT]:
        raise InvalidFieldError(f"receipts.result is no result of {adapter.name}", hint=_HINT, field="receipts.result")
    part = parts[0]
    id = value_text(body[part.id_start : part.id_end] if part.id_start >= 0 else b"")
    # A client may give ids to results of calls that came without; then the name tells.
    named = not call.id and part.name_start >= 0 and value_text(body[part.name_start : part.name_end]) == call_name
    if id != call.id and not named:
        raise InvalidFieldError(
            "receipts.result answers another call than the one that its receipt names",
            hint="the result must have the call's id",
            field="receipts.result",
        )
    return value


def closing_results(
    adapter: Adapter,
    body: bytes,
    parts: Sequence[Part],
    calls: Sequence[tuple[Call, Sequence[bytes]]],
) -> set[int]:
    """Indices of result parts that say only what closed their call: not final results, in whatever item they stand.

    Args:
        adapter: of the body's dialect.
        body: raw.
        parts: of the body.
        calls: those that were closed, each with the results that closed it, at one time or another.
    """
    found: set[int] = set()
    for call, told in calls:
        closed = {_identity(adapter, result) for result in told}
        found.update(index for index in call.results if _identity(adapter, body[parts[index].start : parts[index].end]) in closed)
    return found


def late_results(
    receipts: Mapping[tuple[int, int], ReceiptRecord],
    closed: Iterable[tuple[int, int]],
    refs: Refs,
    closing: Collection[int],
) -> list[tuple[Call, bytes]]:
    """Calls of a body that only a closing result answers, with the real one that came by receipt since.

    Args:
        receipts: the newest of each call.
        closed: calls that were closed, at one time or another.
        refs: of the body.
        closing: result parts of the body that only close a call.
    """
    found = []
    for key in closed:
        receipt, call = receipts[key], refs.call_at(*key)
        if call is not None and receipt.result and not receipt.closing and any(index in closing for index in call.results):
            found.append((call, receipt.result))
    return found


def items_of(adapter: Adapter, results: Sequence[bytes]) -> list[bytes]:
    """Results of one turn as the items that stand behind it, cache markers left out."""
    return [strip_markers(item, 0, len(item), adapter.grammar) for item in adapter.result_items(results)]


def part_of(adapter: Adapter, result: bytes) -> bytes:
    """A result as it stands inside its item, cache markers left out."""
    (item,) = items_of(adapter, [result])
    body = adapter.empty_body[:-2] + item + b"]}"
    part = scan(body, adapter.grammar).part(0)
    return body[part.start : part.end]


def _identity(adapter: Adapter, result: bytes) -> bytes:
    """What is equal for equal results, however they are spelled."""
    item = b",".join(adapter.result_items([result]))
    return canon(item, 0, len(item), adapter.grammar)[0]
