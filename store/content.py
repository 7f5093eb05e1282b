"""An artifact's content, from the raw value that it is a view on, and the proof that it is what its record says."""

from __future__ import annotations

from binascii import Error, a2b_base64
from hashlib import sha256

import fastpath
from sidecar.core.types import ArtifactRecord, Encoding
from store.codec import DamageError

__all__ = ["check_artifact", "decode_content"]

_URL_SAFE = bytes.maketrans(b"-_", b"+/")


def decode_content(encoding: Encoding, raw: bytes) -> bytes:
    """Content of a raw value (quotes excluded for strings); base64 in either alphabet, padded or not. Raises DamageError."""
    if encoding is Encoding.JSON:
        return raw
    text = fastpath.decode_string(raw)
    if encoding is Encoding.JSON_STRING:
        return text
    try:
        return a2b_base64(text.translate(_URL_SAFE) + b"==")
    except Error as err:
        raise DamageError("an artifact's value is no longer base64") from err


def check_artifact(record: ArtifactRecord, raw: bytes) -> None:
    """Prove an artifact's size, digest and blocks from its raw value. Raises DamageError."""
    content = decode_content(record.encoding, raw)
    if len(content) != record.size_bytes or sha256(content).digest() != record.sha256:
        raise DamageError("an artifact's content does not have the size and digest that it was stored with")
    ends = [block.start for block in record.blocks[1:]] + [len(content)]
    for block, end in zip(record.blocks, ends, strict=bool(record.blocks)):
        if sha256(content[block.start : end]).digest() != block.sha256:
            raise DamageError("a block of an artifact does not have its digest")
