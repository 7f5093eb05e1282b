"""The cost model on hand-made runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.replay.cost import CostMeter, common_prefix_bytes, geometric_mean


@pytest.mark.parametrize("shared", [0, 1, 65_535, 65_536, 65_537, 200_000])
def test_common_prefix_bytes_at_chunk_edges_is_exact(shared: int) -> None:
    assert common_prefix_bytes(b"x" * shared + b"a" * 9, b"x" * shared + b"b" * 70_000) == shared


@pytest.mark.parametrize(("first", "second", "expected"), [(b"", b"", 0), (b"", b"a", 0), (b"ab", b"ab", 2), (b"ab", b"abc", 2)])
def test_common_prefix_bytes_where_one_ends_is_the_shorter(first: bytes, second: bytes, expected: int) -> None:
    assert common_prefix_bytes(first, second) == expected
    assert common_prefix_bytes(second, first) == expected


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40))
def test_common_prefix_bytes_equals_a_byte_by_byte_count(head: bytes, one: bytes, other: bytes) -> None:
    first, second = head + one, head + other
    count = 0
    while count < min(len(first), len(second)) and first[count] == second[count]:
        count += 1
    assert common_prefix_bytes(first, second) == count


def test_add_growing_history_charges_only_new_bytes_in_full_and_breaks_nothing() -> None:
    meter = CostMeter()
    first = meter.add(b'{"m":[1]}', 7)
    second = meter.add(b'{"m":[1,22]}', 10)
    assert first.cost == pytest.approx(9 * 1.25)
    assert (second.cached_bytes, second.broke_prefix) == (7, False)
    assert second.cost == pytest.approx(7 * 0.1 + 5 * 1.25)
    assert meter.cost == pytest.approx(first.cost + second.cost)
    assert (meter.break_count, meter.max_bytes) == (0, 12)


def test_add_changed_item_counts_one_break_and_charges_from_there() -> None:
    meter = CostMeter()
    meter.add(b'{"m":["aaaa","bbbb"]}', 19)
    cut = meter.add(b'{"m":["a","bbbb","c"]}', 20)
    grown = meter.add(b'{"m":["a","bbbb","c","d"]}', 24)
    assert (cut.cached_bytes, cut.broke_prefix) == (8, True)
    assert cut.cost == pytest.approx(8 * 0.1 + 14 * 1.25)
    assert (grown.cached_bytes, grown.broke_prefix) == (20, False)
    assert meter.break_count == 1


def test_add_same_history_with_other_envelope_tail_is_no_break() -> None:
    meter = CostMeter()
    meter.add(b'{"m":[1],"t":1}', 7)
    assert not meter.add(b'{"m":[1],"t":2}', 7).broke_prefix


def test_add_changed_envelope_head_is_a_break() -> None:
    meter = CostMeter()
    meter.add(b'{"t":1,"m":[1]}', 13)
    assert meter.add(b'{"t":2,"m":[1]}', 13).broke_prefix


def test_add_dropped_last_item_is_a_break() -> None:
    meter = CostMeter()
    meter.add(b'{"m":[1,2]}', 9)
    assert meter.add(b'{"m":[1]}', 7).broke_prefix


def test_geometric_mean_of_a_ratio_and_its_inverse_is_one() -> None:
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    assert geometric_mean([0.25, 1.0]) == pytest.approx(0.5)
    assert geometric_mean([]) == 1.0
