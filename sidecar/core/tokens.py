"""Token counts: reported, carried forward, or estimated so that they err high. Unknown stays unknown.

A count that was not measured is absent, not zero. `estimate_tokens` may be wrong and errs high: two bytes a token for text, one
byte a token for long unbroken runs (base64, minified data), a fixed charge for each medium, whose base64 is not text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from sidecar.core.types import UsageFigures

__all__ = ["BYTES_PER_TOKEN_LOW", "MEDIA_TOKENS", "Ratio", "cache_lost", "estimate_tokens"]

BYTES_PER_TOKEN_LOW = 2.0
"""Bytes a token at the least, for text. Tokenizers give 3 to 4.5 for English and code, 2.5 to 3 for CJK in UTF-8."""

MEDIA_TOKENS = 1600
"""Charge for one image or page. Providers charge about 1,600 for a full-size image, whatever its bytes."""

# Hex digests, UUIDs, base64 in lines and emoji take up to a token for 1.5 bytes, in runs from 32 bytes on. The look behind begins
# only where a run does: else text with runs just short of the bound takes time for each byte of each run.
_RUN = re.compile(rb"(?<![^\s\"\\])[^\s\"\\]{32,}")


class Ratio(NamedTuple):
    """Bytes a token of one session, from what its provider reported. Not kept over a restart."""

    body_bytes: int = 0
    tokens: int = 0

    def learned(self, body_bytes: int, usage: UsageFigures) -> Ratio:
        """With the provider's count for a body of that size."""
        known = usage.input_tokens is not None and usage.input_tokens > 0 and body_bytes > 0
        return Ratio(body_bytes, usage.input_tokens or 0) if known else self

    @property
    def known(self) -> bool:
        """A count was reported in this process."""
        return self.tokens > 0

    def bytes_per_token(self) -> float:
        """This session's ratio, else the low bound. Never under half a byte."""
        return max(self.body_bytes / self.tokens, 0.5) if self.tokens else BYTES_PER_TOKEN_LOW

    def tokens_of(self, body_bytes: int) -> int:
        """The reported count plus what came since, by this session's ratio."""
        return self.tokens + round((body_bytes - self.body_bytes) / self.bytes_per_token())


def estimate_tokens(data: bytes, media_bytes: int = 0, media_count: int = 0) -> int:
    """Tokens of serialized text at the most, media apart.

    Args:
        data: the serialized body.
        media_bytes: bytes of media in it, which are charged by piece.
        media_count: how many pieces.
    """
    runs = sum(len(run) for run in _RUN.findall(data))
    runs = max(runs - media_bytes, 0)
    text = max(len(data) - media_bytes - runs, 0)
    # Combining marks take a token for each of their two bytes, emoji up to three for four, wherever they stand.
    more = data.count(b"\xcc") + data.count(b"\xcd") + data.count(b"\xf0")
    return runs + min(-(-text // 2) + more, text) + media_count * MEDIA_TOKENS


def cache_lost(usage: UsageFigures | None, idle_ms: int, cache_ttl_ms: int) -> bool:
    """The provider's prompt cache is known to be lost: it reported no cached tokens, or the session idled past its time."""
    if usage is not None and usage.cached_input_tokens == 0 and (usage.input_tokens or 0) > 0:
        return True
    return cache_ttl_ms > 0 and idle_ms > cache_ttl_ms
