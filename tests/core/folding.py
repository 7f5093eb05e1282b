"""Checkpoints at work in small bodies, made without engine and store: real scan, real adapter."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from fastpath import Edit, Role, Scan, scan, splice
from sidecar.core.branch import to_ranges
from sidecar.core.checkpoints import Applicable
from sidecar.core.compaction import CheckpointRecord, CompactMode, Trim
from sidecar.core.fold import Fold, fold
from sidecar.core.types import Format
from sidecar.formats.base import Adapter

__all__ = ["Folded", "SUMMARY", "ask", "asked", "dump", "folded", "record", "spoken"]

SUMMARY = "[trimtab checkpoint c1, revision 2: what was"

Json = dict[str, Any]


def dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def ask(text: str, *, as_string: bool = False) -> Json:
    """A user item."""
    return {"role": "user", "content": text if as_string else [{"type": "text", "text": text}]}


def asked(adapter: Adapter, *ids: str) -> list[Json]:
    """A turn with calls, and their results."""
    if adapter.format is Format.OPENAI_CHAT:
        calls = [{"id": id, "type": "function", "function": {"name": "ls", "arguments": "{}"}} for id in ids]
        results = [{"role": "tool", "tool_call_id": id, "content": f"got {id}"} for id in ids]
        return [{"role": "assistant", "content": None, "tool_calls": calls}, *results]
    uses = [{"type": "tool_use", "id": id, "name": "ls", "input": {}} for id in ids]
    blocks = [{"type": "tool_result", "tool_use_id": id, "content": f"got {id}"} for id in ids]
    return [{"role": "assistant", "content": uses}, {"role": "user", "content": blocks}]


def record(
    gone: Sequence[int],
    after: int,
    *,
    trims: dict[int, tuple[int, ...]] | None = None,
    role: int = Role.USER,
    pointers: Sequence[int] = (),
    checkpoint_id: str = "c1",
    summary: str = SUMMARY,
    superseded: tuple[str, ...] = (),
) -> CheckpointRecord:
    """A checkpoint over items whose numbers are their indices."""
    return CheckpointRecord(
        checkpoint_id=checkpoint_id,
        base_revision=1,
        revision=2,
        gone=to_ranges(list(gone)),
        trims=tuple(Trim(at, blocks) for at, blocks in sorted((trims or {}).items())),
        after=after,
        role=role,
        pointers=tuple(pointers),
        items_sha256=b"",
        calls=(),
        artifact_ids=(),
        attempt_id="r1",
        summarizer="ledger/1",
        model="",
        format=Format.OPENAI_CHAT,
        boundary="",
        mode=CompactMode.EXTEND,
        superseded=superseded,
        summary=summary,
        anchors_revision=0,
        before_bytes=0,
        after_bytes=0,
        create_ms=0,
    )


class Folded(NamedTuple):
    """A body with checkpoints at work."""

    before: Scan
    fold: Fold
    after: Scan

    @property
    def items(self) -> list[Json]:
        """Of the finished body."""
        return list(json.loads(self.after.body)["messages"])

    @property
    def edits(self) -> list[Edit]:
        return [edit for edit, _ in self.fold.edits]


def folded(
    adapter: Adapter,
    body: bytes | Sequence[Json],
    *records: CheckpointRecord,
    markers: dict[str, bytes] | None = None,
) -> Folded:
    """Carry checkpoints out."""
    data = body if isinstance(body, bytes) else dump({"model": "m", "messages": list(body)})
    before = scan(data, adapter.grammar)
    applied = [
        Applicable(
            each,
            [at for start, end in each.gone for at in range(start, end)],
            {trim.number: trim.blocks for trim in each.trims},
            each.after,
            list(each.pointers),
        )
        for each in records
    ]
    found = fold(adapter, data, before.items(), before.parts(), applied, markers or {})
    edits = [edit for edit, _ in found.edits]
    return Folded(before, found, scan(splice(data, edits), adapter.grammar))


def spoken(items: Sequence[Json]) -> list[tuple[str, list[str]]]:
    """Role and texts of each item; results as "=id", calls as "?id"."""
    told: list[tuple[str, list[str]]] = []
    for item in items:
        content = item["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        words = [
            str(block.get("text") or "=" + block.get("tool_use_id", "") if "id" not in block else "?" + block["id"])
            for block in blocks
        ]
        words += ["?" + call["id"] for call in item.get("tool_calls", [])]
        told.append((item["role"], words if item["role"] != "tool" else ["=" + item["tool_call_id"]]))
    return told
