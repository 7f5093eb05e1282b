"""Builders of batches: an agent's session, seen from the store."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from hashlib import sha256
from typing import Any
from zlib import crc32

import msgspec

import fastpath
from sidecar.core.types import (
    Anchors,
    ArtifactRecord,
    ArtifactSource,
    Block,
    CallKey,
    Constraint,
    EffectState,
    Encoding,
    Envelope,
    Format,
    ItemMeta,
    JournalItem,
    Offload,
    PinKey,
    ReceiptRecord,
    ReductionKind,
    SentForm,
    SessionKey,
)
from sidecar.ports import Batch, SessionHead

KEY = SessionKey("team", "run-1")
LARGE_BYTES = 16_384


def msgspec_replace(record: ArtifactRecord, **fields: Any) -> ArtifactRecord:
    """A record with other fields."""
    return msgspec.structs.replace(record, **fields)


def raw_item(text: str | bytes, role: str = "tool") -> bytes:
    """A chat item; bytes are the JSON string's bytes as they are to stand."""
    content = json.dumps(text).encode() if isinstance(text, str) else b'"' + text + b'"'
    return b'{"role":"' + role.encode() + b'","content":' + content + b"}"


def item(number: int, raw: bytes, *, large: Sequence[tuple[int, int]] | None = None) -> JournalItem:
    """A journal item; when not given, the content string is large if it is over 16 KiB."""
    if large is None:
        start = raw.find(b'"content":"') + len(b'"content":"')
        large = [(start, len(raw) - 2)] if len(raw) - 2 - start > LARGE_BYTES else []
    meta = ItemMeta(number, sha256(raw).digest(), b"" if number % 2 else sha256(b"loose" + raw).digest(), crc32(raw), len(raw))
    return JournalItem(meta, raw, tuple(large))


def artifact(number: int, raw: bytes, *, encoding: Encoding = Encoding.JSON_STRING, block_bytes: int = 65_536) -> ArtifactRecord:
    """The record of an item's whole content string."""
    start = raw.find(b'"content":"') + len(b'"content":"')
    end = len(raw) - 2
    content, starts = fastpath.decode_blocks(raw[start:end], block_bytes)
    return record(number, start, end, content, starts, encoding)


def record(
    number: int, start: int, end: int, content: bytes, starts: Sequence[tuple[int, int]], encoding: Encoding
) -> ArtifactRecord:
    """A record of given content."""
    ends = [place for _, place in starts[1:]] + [len(content)]
    blocks = tuple(
        Block(raw_start, begin, content.count(b"\n", 0, begin), sha256(content[begin:stop]).digest())
        for (raw_start, begin), stop in zip(starts, ends, strict=True)
    )
    digest = sha256(content).digest()
    return ArtifactRecord(
        digest.hex()[:32],
        digest,
        len(content),
        content.count(b"\n"),
        "text/plain",
        encoding,
        number,
        start,
        end,
        blocks,
        1_700_000,
    )


def source(artifact_id: str, number: int) -> ArtifactSource:
    """Where an artifact stood."""
    return ArtifactSource(artifact_id, number, (b"content",), "read_file", CallKey(number, 0, "call_1"), False, 1_700_000)


def offload(number: int, artifact_id: str, revision: int) -> Offload:
    """A record of one reduction."""
    replacement = b'"[stub ' + artifact_id.encode() + b']"'
    return Offload(ReductionKind.RESULT, number, (b"content",), replacement, artifact_id, CallKey(number, 0), 1000, revision)


def head(*, revision: int = 0, count: int = 0, update_ms: int = 1) -> SessionHead:
    """A head with one branch that holds all items."""
    branch = ((0, count),) if count else ()
    return SessionHead(format=Format.OPENAI_CHAT, revision=revision, branch=branch, create_ms=1, update_ms=update_ms)


def plain(key: SessionKey, base: int, raws: Sequence[bytes], *, revision: int = 0, update_ms: int = 1) -> Batch:
    """A batch of new items only."""
    items = [item(base + place, raw) for place, raw in enumerate(raws)]
    return Batch(key, base, revision, head(revision=revision, count=base + len(raws), update_ms=update_ms), items)


def envelope(system: str = "You are careful.", tools: int = 3, model: str = "m-1") -> Envelope:
    """An envelope with system text and tools."""
    rest = b'{"model":"' + model.encode() + b'","system":,"tools":,"messages":}'
    at = rest.find(b'"system":') + 9
    schemas = json.dumps([{"name": f"tool_{n}", "description": "d" * 400} for n in range(tools)]).encode()
    holes = ((at, "system"), (at + 9, "tools"), (len(rest) - 1, "history"))
    return Envelope(rest, holes, (json.dumps(system).encode(),), (schemas,))


def full(key: SessionKey, rng: random.Random) -> Batch:
    """A first batch with everything in it."""
    raws = [
        raw_item("what is in the file?", "user"),
        raw_item("line é \n" * 20_000),
        raw_item(b"half \\ud800 and \xff\xfe raw, nul \\u0000 " + b"y" * 40_000),
        raw_item(os.urandom(3).hex()),
    ]
    records = [artifact(1, raws[1]), artifact(2, raws[2])]
    return Batch(
        key=key,
        base_number=0,
        base_revision=0,
        head=head(revision=3, count=len(raws), update_ms=rng.randrange(1, 1 << 40)),
        items=[item(number, raw) for number, raw in enumerate(raws)],
        envelope=envelope(),
        forms=[SentForm(1, 1, sha256(b"form").digest(), b"")],
        offloads=[offload(1, records[0].artifact_id, 2), offload(2, records[1].artifact_id, 3)],
        artifacts=records,
        sources=[source(one.artifact_id, one.number) for one in records],
        anchors=Anchors(goal="ship it", constraints=(Constraint("c1", "never push"),), revision=1),
        receipts=[ReceiptRecord(CallKey(0, 0, "x"), EffectState.PENDING, "idem-1", "d", b"\x00\xff", 2, 4)],
        pins=[PinKey(tool_name="plan"), PinKey(call=CallKey(1, 0))],
    )
