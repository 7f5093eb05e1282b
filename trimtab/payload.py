"""Bodies, calls and results in the two forms that agents hold them: JSON bytes, and dicts.

Bytes stay bytes, untouched. A dict is written as JSON once, here, and what comes back is read once. Objects of the providers'
SDKs inside a dict (an answer's content blocks, appended to the history) are written as their SDK would send them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from trimtab.errors import CannotFitError
from trimtab.v1 import context_pb2

__all__ = ["fitted_body", "resolved_result", "to_bytes", "to_dict"]


def to_bytes(value: object, what: str) -> bytes:
    """JSON bytes of `value`.

    Args:
        value: bytes, bytearray or memoryview (taken as they are), a dict, or an SDK's object.
        what: names it in errors.

    Raises:
        TypeError: it is neither, or holds what has no JSON.
        ValueError: it holds NaN or an infinity, which no provider takes.
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        raise TypeError(f"{what} must be bytes or a dict, not str: encode it first")
    if not isinstance(value, Mapping):
        if not callable(getattr(value, "model_dump", None)):
            raise TypeError(f"{what} must be bytes, a dict, or an object of a provider's SDK, not {type(value).__name__}")
        value = _plain(value)
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{what} cannot be written as JSON: {error}") from error
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate: legal as an escape only
        return json.dumps(value, separators=(",", ":"), allow_nan=False, default=_plain).encode()


def to_dict(raw: bytes) -> dict[str, Any]:
    """The JSON object in `raw`."""
    value: dict[str, Any] = json.loads(raw)
    return value


def fitted_body(body: bytes | dict[str, Any], response: context_pb2.FitResponse) -> bytes | dict[str, Any]:
    """The body to send, in the form of the one that came; that one itself when it is to be sent as it is.

    Raises:
        CannotFitError: neither may be sent.
    """
    if response.outcome == context_pb2.FIT_OUTCOME_CANNOT_FIT:
        raise CannotFitError(response)
    if not response.body:
        return body
    return response.body if isinstance(body, bytes | bytearray | memoryview) else to_dict(response.body)


def resolved_result(call: bytes | dict[str, Any], response: context_pb2.ResolveCallResponse) -> bytes | dict[str, Any] | None:
    """The result of a read-back call, in the form of the call; None when the call is of another tool."""
    if response.not_ours:
        return None
    return response.result if isinstance(call, bytes | bytearray | memoryview) else to_dict(response.result)


def _plain(value: object) -> object:
    """An SDK's object as plain values: only what was set, as its SDK sends it."""
    if isinstance(value, Mapping):
        return dict(value)
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json", by_alias=True, exclude_unset=True)
    raise TypeError(f"it holds a value of type {type(value).__name__}")
