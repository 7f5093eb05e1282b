"""Requests for a summary: what they take over from a body of the session, and how much the model may write."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sidecar.formats.spelling import PLAIN, spell
from sidecar.formats.values import value_at

__all__ = ["MOST_OWN_TOKENS", "own_limit", "plain_text", "request", "taken_over"]

MOST_OWN_TOKENS = 8192
"""What a session's own limit may raise the limit of output to.

Models that always reason count their reasoning in. SDKs refuse more without streaming: anthropic-sdk-python, `_constants.py`
(MODEL_NONSTREAMING_TOKENS).
"""

_SURROGATE = re.compile("[\ud800-\udfff]")


def plain_text(text: str) -> bytes:
    """A text's JSON. Lone surrogates become U+FFFD: providers refuse a request that holds one."""
    return spell(_SURROGATE.sub("\ufffd", text), PLAIN)


def taken_over(envelope: bytes, keys: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    """Root members of these names, values byte for byte; without those that are absent or null. A pass over the body for each."""
    found = ((key, value_at(envelope, key)) for key in keys)
    return [(key, value) for key, value in found if value not in (b"", b"null")]


def own_limit(envelope: bytes, key: bytes, given: int) -> int:
    """The limit of output: the given one, or the session's own where that is larger, up to MOST_OWN_TOKENS."""
    value = value_at(envelope, key)
    own = int(value) if value.isdigit() and len(value) <= 18 else 0
    return max(given, min(own, MOST_OWN_TOKENS))


def request(members: Iterable[tuple[bytes, bytes]]) -> bytes:
    """An object of members whose names need no escapes, JSON."""
    return b"{" + b",".join(spell(key.decode(), PLAIN) + b":" + value for key, value in members) + b"}"
