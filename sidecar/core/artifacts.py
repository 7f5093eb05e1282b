"""What an artifact is: a view on a value of a stored raw item, with a digest of the whole and of each block.

Pure. Two things must agree for ever, since the store holds records made by the first and read by the second: how
`build_artifact` cuts a value into blocks, and how `decode_block` reads one back from the raw bytes between two block starts.

Where blocks begin, by encoding (always on a whole unit, so that a block can be decoded alone):
    JSON_STRING     the first character at or after each multiple of 64 KiB of content
    JSON            each multiple of 64 KiB
    BASE64_STRING   each multiple of 65,535 bytes (a multiple of three: a whole group of four digits), at its first digit
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from hashlib import sha256

from fastpath import decode_blocks, decode_string
from sidecar.core.errors import CorruptedError
from sidecar.core.types import ArtifactRecord, Block, Encoding

__all__ = [
    "BASE64_BLOCK_BYTES",
    "BLOCK_BYTES",
    "build_artifact",
    "check_same_content",
    "count_lines",
    "decode_block",
    "decode_content",
    "find_artifact_id",
]

BLOCK_BYTES = 65_536
BASE64_BLOCK_BYTES = 65_535  # the largest multiple of 3 that fits in BLOCK_BYTES
_BLOCK_DIGITS = BASE64_BLOCK_BYTES // 3 * 4

# A run of digits, one character spelled as an escape, or white space (left out of the content). JSON allows "\/" for "/", and
# some encoders write it; MIME encoders break lines.
_BASE64_TOKEN = re.compile(rb"([A-Za-z0-9+/_=-]+)|\\(/)|\\u([0-9A-Fa-f]{4})|((?:[ ]|\\[nrt])+)")
_BASE64_SPACE = b" \t\n\r"
_BASE64_URL = bytes.maketrans(b"-_", b"+/")
_HEX_RUN = re.compile(r"(?<![0-9A-Za-z])(?:[0-9a-f]{64}|[0-9a-f]{32})(?![0-9A-Za-z])")


def build_artifact(
    raw_item: bytes,
    number: int,
    start: int,
    end: int,
    encoding: Encoding,
    *,
    media_type: str = "",
    create_ms: int = 0,
) -> tuple[ArtifactRecord, bytes]:
    """Describe a value of a raw item as an artifact. O(value).

    Base64 that cannot be decoded makes a JSON_STRING artifact: what stood there is text, whatever it was meant to be.

    Args:
        raw_item: the item's raw bytes, as they are stored.
        number: of the item.
        start: of the value in `raw_item`; quotes excluded for the two string encodings. May be a part of a string (the base64
            of a data URL).
        end: one past it.
        encoding: how the content stands there.
        media_type: as far as known; empty takes text/plain, application/json or application/octet-stream.
        create_ms: when.

    Returns:
        The record, and the content that it names.
    """
    raw = raw_item[start:end]
    starts: list[tuple[int, int]] = []
    content = b""
    if encoding is Encoding.BASE64_STRING:
        decoded = _decode_base64(raw)
        if decoded is None:
            encoding, media_type = Encoding.JSON_STRING, ""
        else:
            content, starts = decoded
    if encoding is Encoding.JSON_STRING:
        content, starts = decode_blocks(raw, BLOCK_BYTES)
    elif encoding is Encoding.JSON:
        content, starts = raw, [(at, at) for at in range(0, len(raw), BLOCK_BYTES)]
    binary = encoding is Encoding.BASE64_STRING and not _is_text(content)
    digest = sha256(content).digest()
    record = ArtifactRecord(
        artifact_id=digest[:16].hex(),
        sha256=digest,
        size_bytes=len(content),
        line_count=0 if binary else count_lines(content),
        media_type=media_type or _MEDIA_TYPES[encoding],
        encoding=encoding,
        number=number,
        start=start,
        end=end,
        blocks=tuple(_blocks(content, starts, digest)),
        create_ms=create_ms,
    )
    return record, content


def decode_block(record: ArtifactRecord, index: int, raw: bytes) -> bytes:
    """Content of one block, from the raw bytes between its start and the next block's; its digest proven.

    Raises:
        CorruptedError: the bytes are not those that the block was made of.
    """
    block = record.blocks[index]
    content = decode_content(record.encoding, raw)
    if content is None or sha256(content).digest() != block.sha256:
        raise CorruptedError(
            f"block {index} of artifact {record.artifact_id} does not have the digest that was recorded",
            hint="the store's folder was damaged; `trimtab check` lists all that is",
            artifact_id=record.artifact_id,
            block=index,
        )
    return content


def decode_content(encoding: Encoding, raw: bytes) -> bytes | None:
    """Content that stands in `raw` in a given way; None when it cannot stand there so."""
    if encoding is Encoding.JSON:
        return raw
    if encoding is Encoding.JSON_STRING:
        try:
            return decode_string(raw)
        except ValueError:
            return None
    decoded = _decode_base64(raw)
    return None if decoded is None else decoded[0]


def check_same_content(known: ArtifactRecord, new: ArtifactRecord) -> None:
    """Refuse two contents under one id: the id is half of the digest, so the other half is compared on each write.

    Raises:
        CorruptedError: same id, other digest.
    """
    if known.artifact_id == new.artifact_id and (known.sha256, known.size_bytes) != (new.sha256, new.size_bytes):
        raise CorruptedError(f"two contents have the artifact id {new.artifact_id}", artifact_id=new.artifact_id)


def count_lines(content: bytes) -> int:
    """Lines, each ended by LF or by the end of the content."""
    return content.count(b"\n") + (1 if content and not content.endswith(b"\n") else 0)


def find_artifact_id(text: str) -> str | None:
    """The artifact id in what somebody wrote where an id was asked for.

    Models copy an id with what stands around it: quotes, brackets, "artifact:", a whole stub. So the one run of 32 hex digits
    counts, in either case; a run of 64, the whole SHA-256, is its first half. Fewer digits are never completed, and two different
    ids are none.

    Returns:
        32 lower-case hex digits, or None. When the whole digest was given, its other half is not compared here.
    """
    found = {run[:32] for run in _HEX_RUN.findall(text.lower())}
    return found.pop() if len(found) == 1 else None


_MEDIA_TYPES = {
    Encoding.JSON_STRING: "text/plain",
    Encoding.JSON: "application/json",
    Encoding.BASE64_STRING: "application/octet-stream",
}


def _blocks(content: bytes, starts: list[tuple[int, int]], whole: bytes) -> Iterator[Block]:
    """Blocks that begin at these places; `whole` is the digest of all content."""
    if len(starts) == 1:
        yield Block(raw_start=starts[0][0], start=0, line=0, sha256=whole)
        return
    line = 0
    ends = [*(start for _, start in starts[1:]), len(content)]
    for (raw_start, start), end in zip(starts, ends, strict=bool(starts)):
        yield Block(raw_start=raw_start, start=start, line=line, sha256=sha256(content[start:end]).digest())
        line += content.count(b"\n", start, end)


def _is_text(content: bytes) -> bool:
    """UTF-8 without NUL: a text file or an SVG that came as base64 has lines to ask for."""
    if b"\0" in content:
        return False
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _decode_base64(raw: bytes) -> tuple[bytes, list[tuple[int, int]]] | None:
    """Content and block starts of base64 in a JSON string, or None when it is not base64.

    Either alphabet, white space between, padding optional. What is odd in the spelling need not survive: the raw item keeps it.
    """
    if b"\\" not in raw and b" " not in raw:  # nearly always: raw and digits go in step
        digits = raw
        starts = [(at, at // 4 * 3) for at in range(0, len(raw), _BLOCK_DIGITS)]
    else:
        found = _base64_digits(raw)
        if found is None:
            return None
        digits, starts = found
    if b"-" in digits or b"_" in digits:
        digits = digits.translate(_BASE64_URL)
    if len(digits) % 4:
        digits += b"=" * (4 - len(digits) % 4)
    try:
        content = binascii.a2b_base64(digits, strict_mode=True)
    except binascii.Error:
        return None
    # Padding alone can open a last block without content.
    while starts and starts[-1][1] >= len(content):
        starts.pop()
    return content, starts


def _base64_digits(raw: bytes) -> tuple[bytes, list[tuple[int, int]]] | None:
    """Digits and block starts of base64 with escapes or white space in it; None when there is something else in it."""
    digits: list[bytes] = []
    starts: list[tuple[int, int]] = []
    count = at = 0
    next_block = 0  # in digits
    while at < len(raw):
        token = _BASE64_TOKEN.match(raw, at)
        if token is None:
            return None
        run, slash, escaped, _space = token.groups()
        if slash is not None:
            run = slash
        elif escaped is not None:
            code = int(escaped, 16)
            if code > 0x7F:
                return None
            run = b"" if code in _BASE64_SPACE else bytes((code,))
        if run:
            while next_block < count + len(run):
                # Only a plain run is longer than one digit, so there raw and digits go in step.
                starts.append((at + next_block - count, next_block // 4 * 3))
                next_block += _BLOCK_DIGITS
            digits.append(run)
            count += len(run)
        at = token.end()
    return b"".join(digits), starts
