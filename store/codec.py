"""Values to bytes and back: seals and versioned records. No LMDB here.

A sealed value is SHA-256(key, payload) and the payload: a flipped bit and a value under a wrong key are both seen. A record's
payload begins with its version. A newer version is refused, an older one is read: records only ever grow at their end, by fields
that have defaults. Encoders and decoders are made once.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Generic, TypeVar

import msgspec

from sidecar.core.compaction import AttemptRecord, CheckpointRecord, RequestRecord, RollbackRecord
from sidecar.core.types import (
    Anchors,
    ArtifactRecord,
    ArtifactSource,
    ItemMeta,
    Offload,
    PinKey,
    ReceiptRecord,
    SentForm,
)
from sidecar.ports import SessionHead
from store.layout import SEAL_BYTES

__all__ = [
    "ANCHORS",
    "ARTIFACT",
    "ATTEMPT",
    "AttemptEntry",
    "CHUNK",
    "ChunkItem",
    "DELTA",
    "DamageError",
    "Delta",
    "ENVELOPE",
    "EnvelopeRecord",
    "HEAD",
    "HeadRecord",
    "Hole",
    "NewerError",
    "PINS",
    "Record",
    "SOURCES",
    "seal",
    "unseal",
]

T = TypeVar("T")


class DamageError(ValueError):
    """A stored value is not what was written."""


class NewerError(ValueError):
    """A stored value was written by a newer version of this program."""

    def __init__(self, name: str, found: int, known: int) -> None:
        """Name both versions."""
        super().__init__(f"{name} record has version {found}, this program knows {known}")
        self.found = found
        self.known = known


def seal(key: bytes, payload: bytes) -> bytes:
    """The value to store under `key`."""
    digest = sha256(key)
    digest.update(payload)
    return digest.digest() + payload


def unseal(key: bytes, value: memoryview) -> memoryview:
    """The payload of a stored value, a view on it. Raises DamageError."""
    payload = value[SEAL_BYTES:]
    digest = sha256(key)
    digest.update(payload)
    if digest.digest() != value[:SEAL_BYTES]:
        raise DamageError("a stored value does not have the digest that was written with it")
    return payload


class Delta(msgspec.Struct, frozen=True, array_like=True):
    """What one batch added to a session, as `load` reads it."""

    items: tuple[ItemMeta, ...] = ()
    forms: tuple[SentForm, ...] = ()
    offloads: tuple[Offload, ...] = ()
    receipts: tuple[ReceiptRecord, ...] = ()
    checkpoints: tuple[CheckpointRecord, ...] = ()  # from here on: version 2
    rollbacks: tuple[RollbackRecord, ...] = ()
    requests: tuple[RequestRecord, ...] = ()


class Hole(msgspec.Struct, frozen=True, array_like=True):
    """Place in an item's skeleton where a large value belongs."""

    at: int  # offset in the skeleton
    sha256: bytes
    size_bytes: int


class ChunkItem(msgspec.Struct, frozen=True, array_like=True):
    """One raw item of a chunk."""

    skeleton_bytes: int
    holes: tuple[Hole, ...] = ()


class EnvelopeRecord(msgspec.Struct, frozen=True, array_like=True):
    """The newest envelope; its parts stand apart, by digest."""

    digest: bytes  # of the envelope, as `sidecar.core.envelope` computes it
    rest: tuple[bytes, int]  # SHA-256 and size
    holes: tuple[tuple[int, str], ...]
    system: tuple[tuple[bytes, int], ...] = ()
    tools: tuple[tuple[bytes, int], ...] = ()


class AttemptEntry(msgspec.Struct, frozen=True, array_like=True):
    """An attempt in its newest state."""

    place: int  # among the session's attempts, in order of the first record of each
    record: AttemptRecord
    plan: tuple[int, bytes] | None = None  # size and SHA-256 of its summary request; None: there is none, or no more


class HeadRecord(msgspec.Struct, frozen=True, array_like=True):
    """A session's head and what is counted of it."""

    index_key: bytes
    head: SessionHead
    envelope_digest: bytes
    next_number: int
    next_delta: int
    next_source: int
    artifact_count: int
    stored_bytes: bytes  # eight bytes, big-endian: the record's size must not depend on it, for it counts itself
    attempt_count: int = 0  # version 2


class Record(Generic[T]):
    """Encoder and decoder of one kind of record."""

    def __init__(self, name: str, type_: type[T], version: int = 1) -> None:
        """Make the decoder.

        Args:
            name: for error texts.
            type_: what it holds.
            version: raised by one with each field that is added.
        """
        self.name = name
        self.version = version
        self._decoder: msgspec.msgpack.Decoder[T] = msgspec.msgpack.Decoder(type_)
        self._prefix = bytes([version])

    def encode(self, value: T) -> bytes:
        """Version and value. Text that is not Unicode (half surrogates) becomes U+FFFD rather than a refusal."""
        try:
            return self._prefix + _ENCODER.encode(value)
        except UnicodeEncodeError:
            return self._prefix + _ENCODER.encode(_clean(msgspec.to_builtins(value, builtin_types=(bytes,))))

    def decode(self, payload: memoryview) -> T:
        """The value; it keeps no view on the payload. Raises NewerError, DamageError."""
        if not len(payload):
            raise DamageError(f"{self.name} record is empty")
        if payload[0] > self.version:
            raise NewerError(self.name, payload[0], self.version)
        try:
            return self._decoder.decode(payload[1:])
        except msgspec.DecodeError as err:
            raise DamageError(f"{self.name} record cannot be read") from err


def _clean(value: object) -> object:
    """Replace what cannot be written as UTF-8, at any depth."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_clean(key): _clean(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(element) for element in value]
    return value


_ENCODER = msgspec.msgpack.Encoder()

HEAD = Record("session head", HeadRecord, version=2)
ANCHORS = Record("anchors", Anchors)
PINS: Record[tuple[PinKey, ...]] = Record("pins", tuple[PinKey, ...])
ENVELOPE = Record("envelope", EnvelopeRecord)
ATTEMPT = Record("attempt", AttemptEntry)
DELTA = Record("delta", Delta, version=2)
CHUNK: Record[tuple[ChunkItem, ...]] = Record("chunk", tuple[ChunkItem, ...])
ARTIFACT = Record("artifact", ArtifactRecord)
SOURCES: Record[tuple[ArtifactSource, ...]] = Record("artifact sources", tuple[ArtifactSource, ...])
