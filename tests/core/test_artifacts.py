"""Artifacts: what a value's content is, where its blocks begin, and ids as they are written."""

from __future__ import annotations

import base64
import textwrap
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.core.artifacts import (
    BASE64_BLOCK_BYTES,
    BLOCK_BYTES,
    build_artifact,
    check_same_content,
    count_lines,
    decode_block,
    find_artifact_id,
)
from sidecar.core.errors import CorruptedError
from sidecar.core.types import ArtifactRecord, Encoding
from tests.engine.held import json_string


def made(raw: bytes, encoding: Encoding, media_type: str = "") -> tuple[ArtifactRecord, bytes]:
    item = b'{"a":"' + raw + b'"}'
    return build_artifact(item, 3, 6, 6 + len(raw), encoding, media_type=media_type, create_ms=9)


def blocks_of(record: ArtifactRecord, raw: bytes) -> list[bytes]:
    ends = [block.raw_start for block in record.blocks[1:]] + [len(raw)]
    return [decode_block(record, i, raw[block.raw_start : ends[i]]) for i, block in enumerate(record.blocks)]


def check_whole(record: ArtifactRecord, content: bytes, raw: bytes) -> None:
    """The record describes the content, and its blocks are the content."""
    blocks = blocks_of(record, raw)
    assert b"".join(blocks) == content
    assert record.sha256 == sha256(content).digest()
    assert record.artifact_id == record.sha256.hex()[:32]
    assert record.size_bytes == len(content)
    assert all(len(block) <= BLOCK_BYTES + 4 for block in blocks)
    starts = [block.start for block in record.blocks]
    assert starts == [sum(map(len, blocks[:i])) for i in range(len(blocks))]
    assert [block.line for block in record.blocks] == [content[:start].count(b"\n") for start in starts]


PIECES = st.sampled_from(
    [
        b"a",
        b"\\n",
        b"\\\\",
        b"\\u00e9",
        "é漢🙂".encode(),
        b"\\ud83d\\ude00",
        b"\\ud800",
        b"\\udc00",
        b"\xff\xfe",
        b"\\u0000",
        b"\xf0\x9f",
    ]
)


@settings(max_examples=40, deadline=None)
@given(st.lists(PIECES, min_size=1, max_size=12), st.integers(1, 140_000))
def test_build_artifact_of_any_string_has_blocks_that_decode_alone(pieces: list[bytes], size: int) -> None:
    unit = b"".join(pieces)
    raw = unit * (size // len(unit) + 1)
    record, content = made(raw, Encoding.JSON_STRING)
    assert record.encoding is Encoding.JSON_STRING
    check_whole(record, content, raw)
    assert record.line_count == count_lines(content)


@settings(max_examples=30, deadline=None)
@given(
    st.binary(max_size=300),
    st.integers(0, 700),
    st.sampled_from(["plain", "url", "unpadded", "slashes", "lines", "unicode", "spaced", "tabs"]),
)
def test_build_artifact_of_any_base64_has_the_bytes_as_content(unit: bytes, times: int, spelling: str) -> None:
    content = unit * times
    text = base64.b64encode(content)
    raw = {
        "plain": lambda: text,
        "url": lambda: base64.urlsafe_b64encode(content),
        "unpadded": lambda: text.rstrip(b"="),
        "slashes": lambda: text.replace(b"/", b"\\/"),
        "lines": lambda: "\\r\\n".join(textwrap.wrap(text.decode(), 76)).encode(),
        "unicode": lambda: text.replace(b"A", b"\\u0041"),
        "spaced": lambda: b" " + text + b"  ",
        "tabs": lambda: text.replace(b"B", b"\\u0009B\\u000a"),
    }[spelling]()
    record, got = made(raw, Encoding.BASE64_STRING, "image/png")
    assert got == content
    assert (record.encoding, record.media_type) == (Encoding.BASE64_STRING, "image/png")
    check_whole(record, content, raw)


@pytest.mark.parametrize(
    "size", [0, 1, 2, 3, BASE64_BLOCK_BYTES - 1, BASE64_BLOCK_BYTES, BASE64_BLOCK_BYTES + 1, 3 * BASE64_BLOCK_BYTES]
)
@pytest.mark.parametrize("padding", [b"", b"="])
def test_build_artifact_of_base64_at_block_ends_is_whole(size: int, padding: bytes) -> None:
    content = bytes(i % 251 for i in range(size))
    raw = base64.b64encode(content) + (padding if size % 3 == 0 and size else b"")
    record, got = made(raw, Encoding.BASE64_STRING)
    assert got == content
    check_whole(record, content, raw)
    assert len(record.blocks) == -(-size // BASE64_BLOCK_BYTES)


@pytest.mark.parametrize("raw", [b"A", b"QUJD$", b"QQ==QUJD", "é".encode(), b"\\u00e9AAA", b"\\b", b"=", b"QUJD\\\\"])
def test_build_artifact_of_what_is_no_base64_is_text(raw: bytes) -> None:
    record, content = made(raw, Encoding.BASE64_STRING, "image/png")
    assert (record.encoding, record.media_type) == (Encoding.JSON_STRING, "text/plain")
    check_whole(record, content, raw)


@pytest.mark.parametrize("size", [2, BLOCK_BYTES, BLOCK_BYTES + 1, 5 * BLOCK_BYTES - 1])
def test_build_artifact_of_json_is_the_bytes_as_they_stand(size: int) -> None:
    raw = b"[" + b"1," * ((size - 2) // 2) + b" " * ((size - 2) % 2) + b"]"
    record, content = made(raw, Encoding.JSON)
    assert content == raw
    assert record.media_type == "application/json"
    check_whole(record, content, raw)
    assert len(record.blocks) == -(-len(raw) // BLOCK_BYTES)


def test_build_artifact_counts_no_lines_in_binary_media_but_in_text_media() -> None:
    image, _ = made(base64.b64encode(b"\x89PNG\n\0\n"), Encoding.BASE64_STRING, "image/png")
    drawing, _ = made(base64.b64encode(b"<svg>\n</svg>\n"), Encoding.BASE64_STRING, "image/svg+xml")
    latin, _ = made(base64.b64encode(b"caf\xe9\n"), Encoding.BASE64_STRING, "text/plain")
    assert (image.line_count, drawing.line_count, latin.line_count) == (0, 2, 0)


@pytest.mark.parametrize(
    ("content", "count"), [(b"", 0), (b"\n", 1), (b"a", 1), (b"a\n", 1), (b"a\nb", 2), (b"\r\r\x0b\xe2\x80\xa8", 1)]
)
def test_count_lines_ends_a_line_with_lf_and_nothing_else(content: bytes, count: int) -> None:
    assert count_lines(content) == count


@pytest.mark.parametrize("raw", [b"QUJEQUJE", b"\\q", b"QUJ"])
def test_decode_block_of_other_bytes_raises(raw: bytes) -> None:
    record, _ = made(b"QUJDQUJD", Encoding.BASE64_STRING)
    with pytest.raises(CorruptedError):
        decode_block(record, 0, raw)
    text, _ = made(b"some text", Encoding.JSON_STRING)
    with pytest.raises(CorruptedError):
        decode_block(text, 0, raw)


def test_check_same_content_refuses_another_digest_under_the_same_id() -> None:
    record, _ = made(json_string(b"x" * 99), Encoding.JSON_STRING)
    other, _ = made(json_string(b"y" * 99), Encoding.JSON_STRING)
    forged = type(other)(**{name: getattr(other, name) for name in other.__struct_fields__} | {"artifact_id": record.artifact_id})
    check_same_content(record, record)
    check_same_content(record, other)
    with pytest.raises(CorruptedError):
        check_same_content(record, forged)


ID = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    "text",
    [
        ID,
        ID.upper(),
        f"  {ID}\n",
        f'"{ID}"',
        f"[{ID}]",
        f"`{ID}`.",
        f"artifact:{ID}",
        f"artifact_id={ID}",
        f"artifact {ID}; then start=0",
        f"<{ID}>",
        f"sha256:{ID}{'f' * 32}",
        f"{ID} (the same as {ID.upper()})",
        f'[trimtab: result of "bash" moved out of view; no error reported; 9 bytes; read it with trimtab_read artifact_id={ID}]',
    ],
)
def test_find_artifact_id_in_what_models_write_finds_it(text: str) -> None:
    assert find_artifact_id(text) == ID


@pytest.mark.parametrize(
    "text",
    [
        "",
        *(ID[:size] for size in (12, 24, 31)),
        ID + "0",
        "0" + ID,
        ID[:16] + " " + ID[16:],
        f"{ID} or {ID[::-1]}",
        "g" * 32,
        "x" + ID,
        ID + "z",
        ID[:31] + "é",
        "\u0660" * 32,
    ],
)
def test_find_artifact_id_in_what_is_not_one_id_is_none(text: str) -> None:
    assert find_artifact_id(text) is None
