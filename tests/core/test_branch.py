"""A branch's numbers and indices against the plain list that they stand for."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.branch import BranchIndex, from_ranges, to_ranges

NUMBERS = st.lists(st.integers(0, 40), unique=True, max_size=40)


@given(NUMBERS)
def test_to_ranges_of_any_numbers_is_undone_by_from_ranges(numbers: list[int]) -> None:
    ranges = to_ranges(numbers)
    assert from_ranges(ranges) == numbers
    assert all(start < end for start, end in ranges)
    assert all(before[1] != after[0] for before, after in itertools.pairwise(ranges))


@given(NUMBERS)
def test_index_of_any_branch_equals_the_list(numbers: list[int]) -> None:
    branch = BranchIndex(to_ranges(numbers))
    assert branch.count == len(numbers)
    assert [branch.number_at(index) for index in range(branch.count)] == numbers
    expected = {number: index for index, number in enumerate(numbers)}
    assert [branch.index_of(number) for number in range(-2, 44)] == [expected.get(number, -1) for number in range(-2, 44)]


@given(NUMBERS, st.integers(0, 50), st.none() | st.integers(0, 50))
def test_numbers_of_any_slice_equals_the_list(numbers: list[int], start: int, end: int | None) -> None:
    assert list(BranchIndex(to_ranges(numbers)).numbers(start, end)) == numbers[start:end]


def test_init_joins_neighbors() -> None:
    assert BranchIndex([(0, 3), (3, 5), (9, 10), (5, 7)]).ranges == ((0, 5), (9, 10), (5, 7))


@pytest.mark.parametrize("ranges", [[(3, 3)], [(4, 2)], [(-1, 2)], [(0, 5), (4, 6)], [(2, 3), (7, 9), (2, 4)]])
def test_init_of_no_branch_raises(ranges: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="item number"):
        BranchIndex(ranges)


@pytest.mark.parametrize("index", [-1, 5])
def test_number_at_outside_raises(index: int) -> None:
    with pytest.raises(IndexError, match="outside"):
        BranchIndex([(0, 5)]).number_at(index)


def test_index_of_a_long_plain_branch_costs_one_range() -> None:
    branch = BranchIndex([(0, 1_000_000_000)])
    assert (branch.index_of(999_999_999), branch.number_at(999_999_999), branch.count) == (
        999_999_999,
        999_999_999,
        1_000_000_000,
    )
