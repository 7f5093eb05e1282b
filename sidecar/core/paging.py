"""Page tokens: where to go on with a question, bound to that question.

A token is opaque to callers and holds no secret: it is a position with a digest over question and position, so that a token of
another question, another session or another version, or one that was altered, is refused. How many to return on a page is not
part of the question.
"""

from __future__ import annotations

import base64
import binascii
from hashlib import sha256
from typing import TypeVar

import msgspec

from sidecar.core.errors import PageTokenInvalidError

__all__ = ["Question", "decode_page_token", "encode_page_token"]

Question = tuple[str | bytes | int | bool, ...]
"""The parameters that decide an answer; the first names the kind of question and changes when its positions change."""

P = TypeVar("P", bound=msgspec.Struct)

_DIGEST_BYTES = 12
_TOKEN_LIMIT = 1024  # the longest position is a session id of 256 bytes


def encode_page_token(question: Question, position: msgspec.Struct) -> str:
    """A token that answers `question` from `position` on."""
    packed = msgspec.msgpack.encode(position)
    return base64.urlsafe_b64encode(_digest(question, packed) + packed).decode().rstrip("=")


def decode_page_token(question: Question, token: str, kind: type[P]) -> P | None:
    """The position in a token; None for the empty token, which is the beginning.

    Raises:
        PageTokenInvalidError: the token was not made for this question.
    """
    if not token:
        return None
    try:
        if len(token) > _TOKEN_LIMIT:
            raise ValueError
        data = base64.b64decode(token.encode("ascii") + b"=" * (-len(token) % 4), altchars=b"-_", validate=True)
        if data[:_DIGEST_BYTES] != _digest(question, data[_DIGEST_BYTES:]):
            raise ValueError
        return msgspec.msgpack.decode(data[_DIGEST_BYTES:], type=kind)
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise PageTokenInvalidError(
            "page_token belongs to another question", hint="leave it empty to begin anew; repeat all other fields to go on"
        ) from None


def _digest(question: Question, packed: bytes) -> bytes:
    return sha256(msgspec.msgpack.encode((question, packed))).digest()[:_DIGEST_BYTES]
