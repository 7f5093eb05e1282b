"""Fit's messages on the wire, read and written without an object of each: this call stands in front of every model call.

The body is taken out of the request by itself, copied once; what is left is small, and from one call of a session to the next
most often the same bytes, so what they say is kept. The answer is written field by field. Both are equal to what the generated
classes read and write, which are the reference (`fit_mapping`) and do whatever is not usual.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
from google.protobuf.message import DecodeError, Message

from fastpath import take_field, write_message
from sidecar.engine.messages import FitInput, FitResult, Note, Pressure
from sidecar.rpc.fit_mapping import decode_fit, encode_reduction
from sidecar.rpc.mapping import encode_artifact, encode_text, unreadable
from trimtab.v1 import common_pb2, context_pb2

__all__ = ["read_fit", "write_fit"]

KEPT_COUNT = 256  # requests without their bodies
KEPT_BYTES = 1024  # of one of them
_astuple = msgspec.structs.astuple


def _presence(message: type[Message]) -> int:
    """Fields that are told when they are 0 too, as bits for `write_message`."""
    fields = message.DESCRIPTOR.fields
    if [field.number for field in fields] != list(range(1, len(fields) + 1)):
        raise TypeError("fields are written by position")
    return sum(1 << field.number - 1 for field in fields if field.has_presence)


_BODY = context_pb2.FitRequest.DESCRIPTOR.fields_by_name["body"].number
_RESPONSE = _presence(context_pb2.FitResponse)
_PRESSURE = _presence(common_pb2.Pressure)
_MATCH = _presence(context_pb2.HistoryMatch)
_LIMITS = _presence(common_pb2.Limits)


def read_fit(data: bytes) -> FitInput:
    """Read a FitRequest from its bytes.

    Raises:
        InvalidFieldError: they are none, or as `decode_fit`.
    """
    taken = take_field(data, _BODY)
    if taken is None:
        return _read(data)
    body, rest = taken
    given = _read_kept(rest) if len(rest) <= KEPT_BYTES else _read(rest)
    return msgspec.structs.replace(given, body=body)


def _read(data: bytes) -> FitInput:
    try:
        request = context_pb2.FitRequest.FromString(data)
    except DecodeError:
        raise unreadable() from None  # its text may quote the request
    return decode_fit(request)


_read_kept = lru_cache(KEPT_COUNT)(_read)


def write_fit(result: FitResult) -> bytes:
    """Write a FitResponse as bytes."""
    before = _write_pressure(result.before)
    advice = result.advice
    return write_message(
        (
            result.outcome,
            result.body,
            before,
            before if result.after is result.before else _write_pressure(result.after),
            [encode_reduction(reduction).SerializeToString() for reduction in result.reductions],
            [write_message((total.kind, total.count, total.saved_bytes)) for total in result.totals],
            [encode_artifact(view).SerializeToString() for view in result.artifacts],
            write_message((advice.eligible, advice.unit_count, advice.range_bytes, advice.reason)),
            [write_message((each.item_index, each.size_bytes, each.reason.encode())) for each in result.blockers],
            [_write_note(note) for note in result.notes],
            write_message(_astuple(result.match), _MATCH),
            result.revision,
            result.item_count,
            result.history_digest,
            result.stable_prefix_bytes,
            result.journal_durable,
            result.read_back_tool_name.encode(),
            write_message(_astuple(result.effective_limits), _LIMITS),
        ),
        _RESPONSE,
    )


def _write_pressure(pressure: Pressure) -> bytes:
    return write_message(_astuple(pressure), _PRESSURE)


@lru_cache(KEPT_COUNT)
def _write_note(note: Note) -> bytes:
    return write_message((note.reason.encode(), encode_text(note.message).encode()))
