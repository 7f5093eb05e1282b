"""What the stores of released format versions hold: functions of nothing, so that a reader knows what must be there.

`first` is what format version 1 can hold, `second` what version 2 added to it. Neither changes once its file is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sidecar.core.compaction import AttemptState, RequestRecord, RollbackRecord
from sidecar.core.types import (
    Anchors,
    CallKey,
    Constraint,
    EffectState,
    LimitsGiven,
    PinKey,
    Preset,
    ReadBack,
    ReceiptRecord,
    SentForm,
    SessionKey,
)
from sidecar.ports import Batch, Store
from tests.store import build

ONE = SessionKey("team", "released é")
TWO = SessionKey("", "other")
RAWS = [
    build.raw_item("what is in the file?", "user"),
    build.raw_item("a line é of output\n" * 1_200),
    build.raw_item("a line é of output\n" * 1_200, "user"),
    b'{"role":"tool","content":"half \\ud800 and \xff raw","n":1.50}',
]


def first() -> list[Batch]:
    """Two batches of one session, one of another."""
    record = build.artifact(1, RAWS[1])
    head = msgspec.structs.replace(
        build.head(revision=2, count=4, update_ms=9),
        read_back=ReadBack.TOOL,
        read_back_tool_name="read",
        limits=LimitsGiven(preset=Preset.MINIMAL),
        raw_bytes=sum(map(len, RAWS)),
        floor_bytes=7,
    )
    begin = build.plain(ONE, 0, RAWS[:3])
    begin.envelope = build.envelope()
    begin.pins = [PinKey(tool_name="plan")]
    go_on = Batch(
        key=ONE,
        base_number=3,
        base_revision=0,
        head=head,
        items=[build.item(3, RAWS[3])],
        envelope=build.envelope(system="Another."),
        forms=[SentForm(1, 1, b"f" * 32, b"")],
        offloads=[build.offload(1, record.artifact_id, 2)],
        artifacts=[record],
        sources=[build.source(record.artifact_id, 1)],
        anchors=Anchors(goal="ship it", constraints=(Constraint("c1", "never push"),), revision=1),
        receipts=[ReceiptRecord(CallKey(0, 0, "x"), EffectState.PENDING, "idem-1", "d", b"\x00\xff", 2, 4)],
        pins=[PinKey(tool_name="plan"), PinKey(call=CallKey(1, 0))],
    )
    return [begin, go_on, build.plain(TWO, 0, [b"[]"])]


def second() -> list[Batch]:
    """What follows in the first session: a checkpoint, a rollback, an attempt that is open."""
    batch = Batch(
        key=ONE,
        base_number=4,
        base_revision=2,
        head=msgspec.structs.replace(first()[1].head, revision=4, checkpoint_count=1),
        checkpoints=[build.checkpoint("c1", "try-1", 1, 3), build.checkpoint("c2", "", 2, 4)],
        attempts=[
            build.attempt("try-1", AttemptState.COMMITTED, checkpoint_id="c1", has_plan=True),
            build.attempt("try-2", AttemptState.DISPATCHED, has_plan=True),
        ],
        rollbacks=[RollbackRecord("back-1", b"d" * 32, ("c2",), 4, 1_700_000)],
        requests=[RequestRecord("record-1", b"e" * 32, 3, 4, b"h" * 32, b"\x00\xff")],
        plans=[("try-2", b"summarize this")],
    )
    return [batch]


def write(store: Store, batches: Sequence[Batch]) -> None:
    """Write in order."""
    for batch in batches:
        store.submit(batch).result(20)
