"""Which checkpoints are live, and which of them apply to a body."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fastpath import scan
from sidecar.core.checkpoints import Applicable, applicable, go_on_applying, live_checkpoints, taken_back
from sidecar.core.compaction import CheckpointRecord, RollbackRecord
from sidecar.core.units import group_units
from sidecar.formats.base import Adapter
from tests.core.build import CHAT, MESSAGES, decode_at
from tests.core.folding import Json, ask, asked, dump, record

BOTH = pytest.mark.parametrize("adapter", [CHAT, MESSAGES], ids=["chat", "messages"])


def back(*ids: str) -> RollbackRecord:
    return RollbackRecord("r", b"", ids, 3, 0)


def ids_of(records: Sequence[CheckpointRecord]) -> list[str]:
    return [each.checkpoint_id for each in records]


def test_live_checkpoints_superseded_live_again_when_the_later_is_taken_back() -> None:
    first = record([1], 1)
    other = record([2], 2, checkpoint_id="c2")
    later = record([1, 2, 3], 3, checkpoint_id="c3", superseded=("c1", "c2"))
    last = record([1, 2, 3, 4], 4, checkpoint_id="c4", superseded=("c3",))
    assert ids_of(live_checkpoints([first, other], [])) == ["c1", "c2"]
    assert ids_of(live_checkpoints([first, other, later], [])) == ["c3"]
    assert ids_of(live_checkpoints([first, other, later], [back("c3")])) == ["c1", "c2"]
    assert ids_of(live_checkpoints([first, other, later, last], [back("c4")])) == ["c3"]
    assert ids_of(live_checkpoints([first, other, later, last], [back("c3", "c4")])) == ["c1", "c2"]
    assert ids_of(live_checkpoints([first, other, later, last], [back("c4"), back("c2", "c3")])) == ["c1"]
    assert taken_back([back("c1"), back("c2", "c3")]) == {"c1", "c2", "c3"}


def split(
    adapter: Adapter, items: Sequence[Json], numbers: Sequence[int], *live: CheckpointRecord
) -> tuple[list[Applicable], list[str]]:
    body = dump({"messages": list(items)})
    found = scan(body, adapter.grammar)
    rows = found.items(), found.parts()

    def decode(start: int, end: int) -> bytes:
        return decode_at(body, start, end)

    def index_of(number: int) -> int:
        return list(numbers).index(number) if number in numbers else -1

    applied, aside = applicable(live, numbers, index_of, group_units(*rows, decode).units, rows[1], decode)
    return applied, ids_of(aside)


def covering(adapter: Adapter) -> tuple[list[Json], CheckpointRecord]:
    """A history, and a checkpoint over its first two turns."""
    a, b = asked(adapter, "a"), asked(adapter, "b")
    items = [ask("go"), *a, *b, ask("then"), *asked(adapter, "c")]
    return items, record(range(1, 1 + len(a) + len(b)), len(a) + len(b))


@BOTH
def test_applicable_all_sources_in_order_applies(adapter: Adapter) -> None:
    items, checkpoint = covering(adapter)
    applied, aside = split(adapter, items, range(len(items)), checkpoint)
    assert [(each.record, each.gone, each.after) for each in applied] == [(checkpoint, [1, 2, 3, 4], 4)]
    assert aside == []


@BOTH
def test_applicable_source_missing_or_elsewhere_aside(adapter: Adapter) -> None:
    items, checkpoint = covering(adapter)
    count = len(items)
    assert split(adapter, items[2:], range(2, count), checkpoint) == ([], ["c1"])
    assert split(adapter, items[:3], range(3), checkpoint) == ([], ["c1"])
    swapped = [0, 3, 4, 1, 2, *range(5, count)]
    assert split(adapter, items, swapped, checkpoint) == ([], ["c1"])
    between = [0, 1, 2, 99, *range(3, count)]
    assert split(adapter, [*items[:3], ask("edit"), *items[3:]], between, checkpoint) == ([], ["c1"])
    parts = record([1, 2], 2)
    two = CheckpointRecord(**{**{f: getattr(parts, f) for f in parts.__struct_fields__}, "gone": ((3, 5), (1, 3))})
    assert split(adapter, items, range(count), two) == ([], ["c1"])


@BOTH
def test_applicable_place_or_trimmed_item_missing_aside(adapter: Adapter) -> None:
    items, _ = covering(adapter)
    numbers = range(10, 10 + len(items))
    assert split(adapter, items, numbers, record(range(11, 15), 3)) == ([], ["c1"])
    assert split(adapter, items, numbers, record([11], 11, trims={3: (0,)})) == ([], ["c1"])


@BOTH
def test_applicable_overlap_earlier_applies(adapter: Adapter) -> None:
    items, checkpoint = covering(adapter)
    other = record([3, 4], 4, checkpoint_id="c2")
    applied, aside = split(adapter, items, range(len(items)), checkpoint, other)
    assert ([each.record.checkpoint_id for each in applied], aside) == (["c1"], ["c2"])


@BOTH
def test_applicable_second_answer_to_a_covered_call_aside(adapter: Adapter) -> None:
    items, checkpoint = covering(adapter)
    late = asked(adapter, "a")[-1]
    more = [*items, ask("well"), late]
    assert split(adapter, more, range(len(more)), checkpoint) == ([], ["c1"])
    other = asked(adapter, "z")[-1]
    more = [*items, ask("well"), other]
    assert split(adapter, more, range(len(more)), checkpoint)[1] == []


@BOTH
def test_applicable_id_used_again_by_a_later_turn_applies(adapter: Adapter) -> None:
    items, checkpoint = covering(adapter)
    more = [*items, *asked(adapter, "a")]
    assert split(adapter, more, range(len(more)), checkpoint)[1] == []


@BOTH
@pytest.mark.parametrize("more", ["turn", "again", "orphan", "text", "nothing"])
def test_go_on_applying_never_says_more_than_applicable(adapter: Adapter, more: str) -> None:
    items, checkpoint = covering(adapter)
    fresh = {
        "turn": asked(adapter, "d"),
        "again": asked(adapter, "a"),
        "orphan": [ask("well"), asked(adapter, "a")[-1]],
        "text": [{"role": "assistant", "content": "x"}, ask("well")],
        "nothing": [],
    }[more]
    applied, _ = split(adapter, items, range(len(items)), checkpoint)
    body = dump({"messages": [*items, *fresh]})
    found = scan(body, adapter.grammar)
    rows = found.items(), found.parts()
    before = scan(dump({"messages": items}), adapter.grammar)
    earlier = group_units(before.items(), before.parts(), lambda a, b: decode_at(before.body, a, b))
    last = len(items) - len(asked(adapter, "c"))
    grouped = group_units(*rows, lambda a, b: decode_at(body, a, b), earlier, last)
    goes_on = go_on_applying(applied, len(items), *rows, grouped.units, grouped.shared)
    still = split(adapter, [*items, *fresh], range(len(items) + len(fresh)), checkpoint)[1] == []
    assert goes_on == still
    assert not go_on_applying(applied, 3, *rows, grouped.units, grouped.shared)
    assert not go_on_applying(applied, len(items), *rows, grouped.units, 0)
