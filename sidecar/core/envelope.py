"""The digest by which an envelope is known: engine and store must compute the same."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from sidecar.core.types import Envelope

__all__ = ["envelope_digest"]

_ENCODER = msgspec.msgpack.Encoder()


def envelope_digest(envelope: Envelope) -> bytes:
    """SHA-256 over everything in an envelope. O(its bytes)."""
    return sha256(_ENCODER.encode(envelope)).digest()
