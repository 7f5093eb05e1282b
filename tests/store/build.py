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
from sidecar.core.compaction import (
    AttemptRecord,
    AttemptState,
    CheckpointRecord,
    CompactMode,
    RequestRecord,
    RollbackRecord,
    Summarizer,
    Trim,
)
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
    UsageFigures,
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


def attempt(
    attempt_id: str, state: AttemptState, *, has_plan: bool = False, checkpoint_id: str = "", detail: str = ""
) -> AttemptRecord:
    """An attempt in a state."""
    return AttemptRecord(
        attempt_id=attempt_id,
        digest=sha256(attempt_id.encode()).digest(),
        state=state,
        kind=Summarizer.CALLER,
        summarizer="caller/1",
        model="m-1",
        numbers=((0, 1),),
        mode=CompactMode.EXTEND,
        boundary="stage one",
        detail=detail,
        before_bytes=100_000,
        checkpoint_id=checkpoint_id,
        usage=UsageFigures(input_tokens=5),
        has_plan=has_plan,
        create_ms=1_700_000,
    )


def checkpoint(
    checkpoint_id: str, attempt_id: str, number: int, revision: int, *, superseded: tuple[str, ...] = ()
) -> CheckpointRecord:
    """A checkpoint over one item."""
    return CheckpointRecord(
        checkpoint_id=checkpoint_id,
        base_revision=revision - 1,
        revision=revision,
        gone=((number, number + 1),),
        trims=(Trim(0, (1, 3)),),
        after=number,
        role=1,
        pointers=(number,),
        items_sha256=sha256(b"items").digest(),
        calls=(CallKey(0, 0, "x"),),
        artifact_ids=(),
        attempt_id=attempt_id,
        summarizer="caller/1",
        model="m-1",
        format=Format.OPENAI_CHAT,
        boundary="stage one",
        mode=CompactMode.REDERIVE if superseded else CompactMode.EXTEND,
        superseded=superseded,
        summary="[summary é 漢]\n- never push\n" * 20,
        anchors_revision=1,
        before_bytes=100_000,
        after_bytes=50_000,
        create_ms=1_700_000,
    )


def plan(attempt_id: str, size_bytes: int = 100_000) -> bytes:
    """A summary request; a function of its arguments."""
    return random.Random(attempt_id).randbytes(size_bytes)


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
        checkpoints=[checkpoint("c1", "try-1", 1, 1), checkpoint("c2", "try-1", 2, 2, superseded=("c1",))],
        attempts=[
            attempt("try-1", AttemptState.COMMITTED, checkpoint_id="c1", has_plan=True),
            attempt("try-2", AttemptState.DISPATCHED, has_plan=True),
            attempt("try-3", AttemptState.RESERVED),
        ],
        rollbacks=[RollbackRecord("back-1", b"d" * 32, ("c2",), 3, 1_700_000)],
        requests=[RequestRecord("record-1", b"e" * 32, 3, 4, b"h" * 32, b"\x00\xff")],
        plans=[("try-2", plan("try-2"))],
        pins=[PinKey(tool_name="plan"), PinKey(call=CallKey(1, 0))],
    )
