"""Proto messages that several calls share, to and from plain values. Checks what a field alone tells; the rest is the engine's.

Field names in errors are as in the proto, dotted, with indices: "receipts[2].call".
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Any, TypeVar

import msgspec
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from sidecar.core.errors import InvalidFieldError
from sidecar.core.types import Format, LimitsGiven, Preset, SessionKey, UsageFigures
from sidecar.engine.messages import ArtifactView, CallRef, Pressure
from trimtab.v1 import common_pb2

__all__ = [
    "REQUEST_ID_BYTES",
    "SCOPE_BYTES",
    "SESSION_ID_BYTES",
    "decode_call",
    "decode_enum",
    "decode_format",
    "decode_limits",
    "decode_page_size",
    "decode_request_id",
    "decode_revision",
    "decode_scope",
    "decode_session",
    "encode_artifact",
    "encode_call",
    "encode_limits",
    "encode_pressure",
    "encode_session",
    "encode_text",
    "encode_time",
    "encode_usage",
    "not_negative",
    "require",
    "short",
    "unreadable",
]

SESSION_ID_BYTES = 256
SCOPE_BYTES = 128
REQUEST_ID_BYTES = 128
NAME_BYTES = 256
SOFT_BYTES_MIN = 1024
TEXT_BYTES = 256  # what the proto says of text that comes from a body

_SURROGATES = re.compile("[\ud800-\udfff]")

E = TypeVar("E", bound=IntEnum)


def require(good: bool, field: str, what: str, hint: str = "") -> None:
    """Refuse a field unless `good`.

    Raises:
        InvalidFieldError: INVALID_FIELD with the field's name.
    """
    if not good:
        raise InvalidFieldError(f"{field} {what}", hint=hint, field=field)


def unreadable() -> InvalidFieldError:
    """For a request that is no message of its call's type."""
    return InvalidFieldError(
        "the request is not a message of this call's type, or a text field of it is not UTF-8",
        hint="send what the stubs generated from proto/trimtab/v1 write; payloads go in bytes fields",
        field="request",
    )


def not_negative(value: int, field: str) -> int:
    """`value`, which must not be below 0."""
    require(value >= 0, field, "must not be negative")
    return value


def short(value: str, field: str, limit_bytes: int = NAME_BYTES) -> str:
    """`value`, which must fit in `limit_bytes` of UTF-8."""
    require(len(value.encode()) <= limit_bytes, field, f"must be at most {limit_bytes} bytes")
    return value


def decode_enum(kind: type[E], value: int, field: str) -> E:
    """A proto enum's value. Proto enums are open: a number that this server does not know is refused."""
    try:
        return kind(value)
    except ValueError:
        raise InvalidFieldError(f"{field} has no value {value}", field=field) from None


def decode_format(value: int, field: str = "format") -> Format:
    """A dialect; UNSPECIFIED passes."""
    return decode_enum(Format, value, field)


def decode_scope(scope: str, field: str = "scope") -> str:
    """A scope's name; empty is the default scope."""
    return short(scope, field, SCOPE_BYTES)


def decode_session(request: Message, field: str = "session") -> SessionKey:
    """The session that a request names in its field `session`.

    Raises:
        InvalidFieldError: INVALID_FIELD when it names none, or by too long a name.
    """
    ref: common_pb2.SessionRef = getattr(request, field)
    require(bool(ref.session_id), f"{field}.session_id", "is required")
    short(ref.session_id, f"{field}.session_id", SESSION_ID_BYTES)
    return SessionKey(decode_scope(ref.scope, f"{field}.scope"), ref.session_id)


def decode_request_id(value: str, field: str = "request_id") -> str:
    """What makes a repeated call answer as the first did."""
    require(bool(value), field, "is required", "make it from what is done, such as the stage's name, not from the time")
    return short(value, field, REQUEST_ID_BYTES)


def decode_revision(request: Message, field: str = "expected_revision") -> int | None:
    """The revision that a call asks for; None: any."""
    return not_negative(getattr(request, field), field) if request.HasField(field) else None


def decode_page_size(value: int, limit: int, field: str = "page_size") -> int:
    """How many to list: 0 means `limit`, more than that is cut to it."""
    return min(not_negative(value, field) or limit, limit)


def decode_call(ref: common_pb2.CallRef, field: str) -> CallRef:
    """A call as the caller names it: by id, by position, or both."""
    item_index = not_negative(ref.item_index, f"{field}.item_index") if ref.HasField("item_index") else None
    call_index = not_negative(ref.call_index, f"{field}.call_index") if ref.HasField("call_index") else None
    named = bool(ref.call_id) or (item_index is not None and call_index is not None)
    require(named, field, "needs call_id, or item_index and call_index")
    return CallRef(ref.call_id, item_index, call_index)


def decode_limits(limits: common_pb2.Limits, field: str = "limits") -> LimitsGiven:
    """Limits as given; what is not set stays None. How they go together is for the core to judge."""
    given: dict[str, int] = {}
    for name in _LIMIT_FIELDS:
        if limits.HasField(name):
            given[name] = not_negative(getattr(limits, name), f"{field}.{name}")
    soft = given.get("soft_bytes")
    require(soft is None or soft >= SOFT_BYTES_MIN, f"{field}.soft_bytes", f"must be at least {SOFT_BYTES_MIN}")
    return LimitsGiven(preset=decode_enum(Preset, limits.preset, f"{field}.preset"), **given)


def encode_limits(limits: LimitsGiven) -> common_pb2.Limits:
    """Limits, with what is None left unset."""
    return common_pb2.Limits(**_set_fields(limits))


def encode_session(key: SessionKey) -> common_pb2.SessionRef:
    """A session's name."""
    return common_pb2.SessionRef(scope=key.scope, session_id=key.session_id)


def encode_text(text: str, limit_bytes: int = TEXT_BYTES) -> str:
    """Text from a body as it may be shown: U+FFFD for lone surrogates, cut at 256 bytes on a character."""
    text = _SURROGATES.sub("\ufffd", text)
    raw = text.encode()
    return text if len(raw) <= limit_bytes else raw[:limit_bytes].decode("utf-8", "ignore")


def encode_call(call: CallRef | None) -> common_pb2.CallRef | None:
    """A call, positions left unset where they are not known."""
    if call is None:
        return None
    return common_pb2.CallRef(call_id=encode_text(call.call_id), item_index=call.item_index, call_index=call.call_index)


def encode_time(time_ms: int) -> Timestamp:
    """Milliseconds since the epoch."""
    return Timestamp(seconds=time_ms // 1000, nanos=time_ms % 1000 * 1_000_000)


def encode_pressure(pressure: Pressure) -> common_pb2.Pressure:
    """Sizes; tokens unset when they are not known."""
    return common_pb2.Pressure(**_set_fields(pressure))


def encode_usage(usage: UsageFigures) -> common_pb2.Usage:
    """What a provider reported; a figure that it did not is unset."""
    return common_pb2.Usage(**_set_fields(usage))


def encode_artifact(view: ArtifactView) -> common_pb2.Artifact:
    """An artifact at one of its places."""
    return common_pb2.Artifact(
        artifact_id=view.artifact_id,
        sha256=view.sha256,
        size_bytes=view.size_bytes,
        line_count=view.line_count,
        media_type=encode_text(view.media_type),
        tool_name=encode_text(view.tool_name),
        call=encode_call(view.call),
        item_index=view.item_index,
        is_error=view.is_error,
        create_time=encode_time(view.create_ms),
    )


def _set_fields(value: msgspec.Struct) -> dict[str, Any]:
    """The members of a struct of numbers that are not None. Struct and proto have the same names, which a test proves."""
    return {name: number for name in value.__struct_fields__ if (number := getattr(value, name)) is not None}


_LIMIT_FIELDS = tuple(name for name in LimitsGiven.__struct_fields__ if name != "preset")
