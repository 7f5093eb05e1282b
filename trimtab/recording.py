"""Requests of Record and Recover, and receipts to put in them. No I/O here: the sync and the async client share it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from trimtab.payload import to_bytes
from trimtab.settings import Settings, anchors_of, check_options, named
from trimtab.v1 import common_pb2, context_pb2

__all__ = ["RecordOptions", "receipt", "record_request", "recover_request"]

_STATES = {
    name.removeprefix("EFFECT_STATE_").lower().replace("_", "-"): name
    for name, number in common_pb2.EffectState.items()
    if number
}


class RecordOptions(TypedDict, total=False):
    """What one Record may bring beside its items; see trimtab.v1.RecordRequest."""

    first_item_index: int  # raw index at which the items begin; without it, after the last item known
    receipts: Iterable[common_pb2.Receipt]  # see `receipt`
    anchors: common_pb2.Anchors | Mapping[str, Any]
    expected_revision: int
    timeout: float | None


def receipt(
    call: str | common_pb2.CallRef | tuple[int, int],
    state: str,
    *,
    idempotency_key: str = "",
    detail: str = "",
    result: object = None,
) -> common_pb2.Receipt:
    """What is known of a call's effect, to give with `record`, `fit`, `prepare` or `compact`.

    Args:
        call: the call's id; where ids repeat or are missing, its place (item_index, call_index), or a trimtab.v1 CallRef.
        state: not-started, pending, waiting, settled, failed or unknown.
        idempotency_key: what makes a repeat detectable outside.
        detail: for people.
        result: the call's result as it will stand in the history (bytes, dict, SDK object): a tool message, a tool_result block.
            Durable with the receipt, before the calls beside it have ended.

    Raises:
        ValueError: there is no such state.
    """
    ref = call
    if isinstance(ref, str):
        ref = common_pb2.CallRef(call_id=ref)
    elif isinstance(ref, tuple):
        ref = common_pb2.CallRef(item_index=ref[0], call_index=ref[1])
    return common_pb2.Receipt(
        call=ref,
        state=named(_STATES, state, "state"),
        idempotency_key=idempotency_key,
        detail=detail,
        result=b"" if result is None else to_bytes(result, "result"),
    )


def record_request(
    settings: Settings, session_id: str, request_id: str, items: bytes | Iterable[object], options: RecordOptions
) -> context_pb2.RecordRequest:
    """A RecordRequest for one call.

    Raises:
        TypeError: an item that has no JSON; an option that does not exist.
    """
    check_options(options, RecordOptions)
    return context_pb2.RecordRequest(
        session=settings.session(session_id),
        request_id=request_id,
        format=settings.format,
        items=_array(items),
        first_item_index=options.get("first_item_index"),
        receipts=options.get("receipts", ()),
        anchors=anchors_of(options.get("anchors")),
        expected_revision=options.get("expected_revision"),
    )


def recover_request(
    settings: Settings,
    session_id: str,
    *,
    close_interrupted: bool,
    request_id: str,
    include_body: bool,
    expected_revision: int | None,
) -> context_pb2.RecoverRequest:
    """A RecoverRequest.

    Raises:
        ValueError: to close calls without a request_id.
    """
    if close_interrupted and not request_id:
        raise ValueError("close_interrupted needs a request_id: a repeat then answers as the first call did")
    return context_pb2.RecoverRequest(
        session=settings.session(session_id),
        include_body=include_body,
        close_interrupted=close_interrupted,
        request_id=request_id,
        expected_revision=expected_revision,
    )


def _array(items: bytes | Iterable[object]) -> bytes:
    """Items as one JSON array; bytes are one already."""
    if isinstance(items, bytes | bytearray | memoryview):
        return bytes(items)
    if isinstance(items, str | Mapping) or not isinstance(items, Iterable):
        raise TypeError(f"items must be a list of items, or the bytes of a JSON array; not {type(items).__name__}")
    written = [to_bytes(item, "item") for item in items]
    return b"[" + b",".join(written) + b"]" if written else b""
