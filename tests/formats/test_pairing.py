from __future__ import annotations

import pytest

from sidecar.formats.pairing import Key, pair


def keys(*ids: str) -> list[Key]:
    return [Key(id.encode()) for id in ids]


@pytest.mark.parametrize(
    ("calls", "results", "call_of", "result_of", "repeats"),
    [
        (["a", "b"], ["a", "b"], [0, 1], [0, 1], []),
        (["a", "b"], ["b", "a"], [1, 0], [1, 0], []),
        (["a", "b"], ["b"], [1], [-1, 0], []),
        (["a"], ["a", "a"], [0, -1], [0], [1]),
        (["a"], ["z"], [-1], [-1], []),
        (["x", "x", "x"], ["x", "x"], [0, 1], [0, 1, -1], []),
        (["x", "x"], ["x", "x", "x"], [0, 1, -1], [0, 1], [2]),
        (["", ""], ["", ""], [0, 1], [0, 1], []),
        (["", "a"], ["a", ""], [1, 0], [1, 0], []),
        (["a", "b"], ["", "a"], [1, 0], [1, 0], []),  # the one without id takes what is left
        ([], ["a", ""], [-1, -1], [], []),
        (["a"], [], [], [-1], []),
    ],
)
def test_pair_joins_by_id_and_then_in_order(
    calls: list[str], results: list[str], call_of: list[int], result_of: list[int], repeats: list[int]
) -> None:
    assert pair(keys(*calls), keys(*results)) == (call_of, result_of, set(repeats))


def test_pair_without_ids_goes_by_name_first() -> None:
    calls = [Key(b"", b"ls"), Key(b"", b"cat"), Key(b"", b"ls")]
    results = [Key(b"", b"cat"), Key(b"", b"ls"), Key(b"", b"ls")]
    assert pair(calls, results).call_of == [1, 0, 2]


def test_pair_name_that_no_call_has_goes_by_order() -> None:
    assert pair([Key(b"", b"ls")], [Key(b"", b"Listing")]).call_of == [0]


def test_pair_result_with_an_id_does_not_take_a_call_without_one() -> None:
    assert pair([Key(b"")], [Key(b"a")]).call_of == [-1]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("key", [Key(b"x"), Key(b""), Key(b"", b"ls")])
def test_pair_very_many_calls_alike_is_linear(key: Key) -> None:
    calls = [key] * 100_000
    found = pair(calls, calls[:-1])
    assert found.call_of == list(range(99_999))
    assert found.result_of[-1] == -1
