"""Reading a provider's response to a summary request. Its errors say what is wrong, never what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from sidecar.core.errors import MalformedBodyError
from sidecar.core.replies import Stop
from sidecar.core.types import UsageFigures
from sidecar.formats.base import Adapter
from sidecar.formats.values import check_object, elements, string_at, value_at

__all__ = ["block_kinds", "content_text", "is_told", "no_reply", "response_object", "stop_of", "usage_of"]

_NOTHING = (b"", b"null")


def no_reply(why: str) -> NoReturn:
    """Raises MalformedBodyError."""
    raise MalformedBodyError(
        f"response is no reply: {why}", hint="the provider's whole response, as JSON", offset_bytes=0, bound=""
    )


def response_object(response: bytes) -> bytes:
    """The response, read as JSON. Raises MalformedBodyError when it is none, or says that the request failed."""
    value = check_object(response, "response")
    # Some gateways answer 200 with an error in it.
    if string_at(value, b"type") == b"error" or is_told(value_at(value, b"error")):
        no_reply("it is an error object")
    return value


def is_told(value: bytes) -> bool:
    """Neither absent nor null, nor an empty string, list or object."""
    if value[:1] in (b'"', b"[", b"{"):
        return value[1:-1].strip(b" \t\r\n") != b""
    return value not in _NOTHING


def content_text(content: bytes) -> str:
    """Text of a content: a string, or the text blocks of a list, joined; empty for null. Raises MalformedBodyError."""
    if content == b"null":
        return ""
    if content[:1] == b'"':
        return _text(content)
    if content[:1] != b"[":
        no_reply("its content is neither a string nor a list")
    return "".join(
        _text(value_at(block, b"text")) for block in elements(content) if string_at(block, b"type") in (b"text", b"output_text")
    )


def _text(value: bytes) -> str:
    found = string_at(value) if value[:1] == b'"' else None
    return "" if found is None else found.decode("utf-8", "replace")


def block_kinds(content: bytes) -> list[bytes]:
    """The `type` of each block of a content; none for a string."""
    return [string_at(block, b"type") or b"" for block in elements(content)]


def stop_of(value: bytes, known: Mapping[bytes, Stop]) -> Stop:
    """What a stop reason, a JSON value, means."""
    name = string_at(value) if value[:1] == b'"' else None
    return Stop.UNKNOWN if name is None else known.get(name, Stop.UNKNOWN)


def usage_of(adapter: Adapter, value: bytes) -> UsageFigures | None:
    """Token figures; None where there are none that can be read: an answer that was paid for is not lost over them."""
    if value[:1] != b"{":
        return None
    try:
        return adapter.usage(value)
    except MalformedBodyError:
        return None
