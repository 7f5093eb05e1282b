"""Whose item is it: a body against the branch, by hand for what agents do and against a naive reading of the rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.core.match import Alignment, Known, Matched, align

Form = tuple[bytes, bytes]


def form(text: str) -> Form:
    """A letter is an item; "a~1" is the same item in another spelling that only the looser form joins to "a"."""
    base, _, spelling = text.partition("~")
    return (text.encode(), b"") if not spelling else (text.encode(), base.encode())


def session(items: str) -> Known:
    """Items by letter, numbered in order."""
    known = Known()
    for letter in items.split():
        known.add_item(*form(letter))
    return known


def never(index: int, number: int) -> bool:
    return False


def anything(number: int) -> bool:
    return True


def match(
    known: Known, branch: Sequence[int], body: str, *, taken: Sequence[Matched] = (), own: Callable[[int], bool] = anything
) -> Alignment:
    letters = body.split()
    return align(known, branch, len(letters), lambda index: form(letters[index]), taken, own, never)


def numbers(alignment: Alignment) -> list[int]:
    return [item.number for item in alignment.items]


def test_align_of_raw_history_that_grows_takes_over_and_adds() -> None:
    found = match(session("a b c"), [0, 1, 2], "a b c d e")
    assert numbers(found) == [0, 1, 2, -1, -1]
    assert (found.matched_count, found.new_count, found.diverged_at, found.numbers_reused) == (3, 2, None, False)


def test_align_of_an_empty_session_is_all_new() -> None:
    found = match(Known(), [], "a a b")
    assert (numbers(found), found.diverged_at, found.new_count) == ([-1, -1, -1], None, 3)


def test_align_of_adopted_items_tells_how_many_records_each_holds() -> None:
    known = session("a b c")
    known.add_form(1, 1, b"B1", b"")
    known.add_form(1, 2, b"B2", b"")
    for body, count in (("a b c", 0), ("a B1 c", 1), ("a B2 c", 2)):
        found = match(known, [0, 1, 2], body)
        assert found.items == [Matched(0, 0), Matched(1, count), Matched(2, 0)]
        assert found.diverged_at is None


def test_align_of_mixed_history_takes_raw_and_sent_items() -> None:
    known = session("a b c d")
    known.add_form(1, 1, b"B", b"")
    known.add_form(3, 1, b"D", b"")
    assert numbers(match(known, [0, 1, 2, 3], "a B c d e")) == [0, 1, 2, 3, -1]


def test_add_form_of_one_digest_twice_keeps_the_larger_count() -> None:
    known = session("a")
    known.add_form(0, 2, b"A", b"")
    known.add_form(0, 1, b"A", b"")
    assert match(known, [0], "A").items == [Matched(0, 2)]


def test_align_of_dropped_oldest_items_is_one_branch_once() -> None:
    known = session("a b c d e")
    found = match(known, [0, 1, 2, 3, 4], "c d e f")
    assert (numbers(found), found.diverged_at, found.new_count) == ([2, 3, 4, -1], 0, 1)
    known.add_item(*form("f"))
    again = match(known, [2, 3, 4, 5], "c d e f g")
    assert (numbers(again), again.diverged_at) == ([2, 3, 4, 5, -1], None)


def test_align_of_an_item_put_in_late_is_one_branch_once() -> None:
    known = session("a b c")
    found = match(known, [0, 1, 2], "a x b c")
    assert (numbers(found), found.diverged_at) == ([0, -1, 1, 2], 1)
    known.add_item(*form("x"))
    again = match(known, [0, 3, 1, 2], "a x b c d")
    assert (numbers(again), again.diverged_at) == ([0, 3, 1, 2, -1], None)


def test_align_of_a_rewound_history_diverges_where_it_ends() -> None:
    found = match(session("a b c d"), [0, 1, 2, 3], "a b")
    assert (numbers(found), found.diverged_at, found.new_count) == ([0, 1], 2, 0)
    other = match(session("a b c d"), [0, 1, 2, 3], "a b x")
    assert (numbers(other), other.diverged_at) == ([0, 1, -1], 2)


def test_align_of_an_edited_item_is_new_and_the_rest_stays() -> None:
    found = match(session("a b c d"), [0, 1, 2, 3], "a x c d e")
    assert (numbers(found), found.diverged_at, found.new_count) == ([0, -1, 2, 3, -1], 1, 2)


def test_align_of_equal_items_is_leftmost_and_uses_each_once() -> None:
    known = session("a a b a")
    assert numbers(match(known, [0, 1, 2, 3], "a a b a")) == [0, 1, 2, 3]
    assert numbers(match(known, [0, 1, 2, 3], "a b a a")) == [0, 2, 3, -1]
    assert numbers(match(known, [0, 1, 2, 3], "b a")) == [2, 3]


def test_align_of_a_branch_that_comes_back_takes_its_items() -> None:
    known = session("a b c x y")
    found = match(known, [0, 3, 4], "a b c d")
    assert (numbers(found), found.numbers_reused, found.new_count) == ([0, 1, 2, -1], True, 1)
    assert not match(known, [0, 3, 4], "a x y d").numbers_reused


def test_align_of_equal_items_off_the_branch_takes_each_once() -> None:
    known = session("a b b c")
    assert numbers(match(known, [0, 3], "a b b b c")) == [0, 1, 2, -1, 3]


def test_align_of_items_of_another_dialect_never_matches_them() -> None:
    known = session("a b c")
    found = match(known, [], "a b c", own=lambda number: number >= 2)
    assert (numbers(found), found.numbers_reused) == ([-1, -1, 2], True)


def test_align_of_the_looser_form_matches_at_the_expected_position_only() -> None:
    known = session("a b c")
    assert numbers(match(known, [0, 1, 2], "a b~1 c")) == [0, 1, 2]
    skipped = match(known, [0, 1, 2], "b~1 c")
    assert (numbers(skipped), skipped.diverged_at) == ([-1, 2], 0)
    assert numbers(match(known, [0], "a b~1")) == [0, -1]


def test_align_of_the_looser_form_works_from_either_side() -> None:
    known = session("a~1 b")
    assert numbers(match(known, [0, 1], "a b")) == [0, 1]
    assert numbers(match(known, [0, 1], "a~2 b")) == [0, 1]
    known.add_form(1, 1, b"B~1", b"B")
    assert match(known, [0, 1], "a B").items[1] == Matched(1, 1)


def renew(known: Known, branch: Sequence[int], body: str, systems: set[int]) -> Alignment:
    """Items at these indices, and the branch's numbers of the same value, are system items."""
    letters = body.split()
    return align(
        known,
        branch,
        len(letters),
        lambda i: form(letters[i]),
        (),
        anything,
        lambda i, number: i in systems and number in systems,
    )


def test_align_of_a_renewed_system_item_goes_on_with_the_history() -> None:
    known = session("s1 a b")
    found = renew(known, [0, 1, 2], "s2 a b c", {0})
    assert (numbers(found), found.diverged_at, found.new_count) == ([-1, 1, 2, -1], None, 2)


def test_align_of_a_system_item_that_was_before_takes_its_number_again() -> None:
    known = session("s1 a b s2")
    found = renew(known, [3, 1, 2], "s1 a b", {0, 3})
    assert (numbers(found), found.diverged_at, found.new_count, found.numbers_reused) == ([0, 1, 2], None, 0, True)


def test_align_of_a_user_item_in_place_of_a_system_item_is_an_edit() -> None:
    known = session("s a b")
    found = renew(known, [0, 1, 2], "x a b", set())
    assert (numbers(found), found.diverged_at) == ([-1, 1, 2], 0)


def test_align_of_taken_items_asks_for_no_digest_of_them() -> None:
    known = session("a b c")
    asked: list[int] = []

    def digest_of(index: int) -> Form:
        asked.append(index)
        return form("abcd"[index])

    found = align(known, [0, 1, 2], 4, digest_of, [Matched(0, 0), Matched(1, 0)], anything, never)
    assert (numbers(found), asked) == ([0, 1, 2, -1], [2, 3])


def naive(known_forms: list[dict[bytes, int]], branch: list[int], body: list[bytes]) -> tuple[list[Matched], int | None]:
    """The rule, word for word: in order, leftmost; then an item of another branch, the oldest first; else new."""
    found: list[Matched] = []
    used: set[int] = set()
    at = 0
    for item in body:
        place = next((p for p in range(at, len(branch)) if item in known_forms[branch[p]]), None)
        if place is not None:
            number, at = branch[place], place + 1
        else:
            number = next(
                (n for n, forms in enumerate(known_forms) if item in forms and n not in branch and n not in used),
                -1,
            )
        found.append(Matched(number, known_forms[number][item] if number >= 0 else 0))
        used.add(number)
    same = 0
    while same < min(len(branch), len(found)) and found[same].number == branch[same]:
        same += 1
    return found, None if same == len(branch) else same


LETTERS = st.sampled_from([letter.encode() for letter in "abcdef"])


@st.composite
def sessions(draw: st.DrawFn) -> tuple[Known, list[dict[bytes, int]], list[int]]:
    known = Known()
    forms: list[dict[bytes, int]] = []
    for letter in draw(st.lists(LETTERS, max_size=9)):
        known.add_item(letter, b"")
        forms.append({letter: 0})
    for number, count, letter in draw(
        st.lists(st.tuples(st.integers(0, 8), st.integers(1, 3), LETTERS.map(bytes.upper)), max_size=5)
    ):
        if number < len(forms):
            known.add_form(number, count, letter, b"")
            forms[number][letter] = max(count, forms[number].get(letter, 0))
    order = draw(st.permutations(range(len(forms))))
    return known, forms, list(order[: draw(st.integers(0, len(forms)))])


@settings(max_examples=400)
@given(sessions(), st.lists(LETTERS | LETTERS.map(bytes.upper), max_size=12))
def test_align_of_any_body_equals_the_naive_rule(
    made: tuple[Known, list[dict[bytes, int]], list[int]], body: list[bytes]
) -> None:
    known, forms, branch = made
    found = align(known, branch, len(body), lambda index: (body[index], b""), (), anything, never)
    items, diverged = naive(forms, branch, body)
    assert found.items == items
    assert found.diverged_at == diverged
    assert found.new_count == sum(item.number < 0 for item in items)
    assert found.matched_count == len(body) - found.new_count
    assert found.numbers_reused == any(item.number >= 0 and item.number not in branch for item in items)
    kept = [item.number for item in items if item.number >= 0]
    assert len(set(kept)) == len(kept)


@given(sessions(), st.lists(LETTERS, max_size=6))
def test_align_of_any_taken_front_changes_nothing(
    made: tuple[Known, list[dict[bytes, int]], list[int]], more: list[bytes]
) -> None:
    known, forms, branch = made
    body = [next(iter(forms[number])) for number in branch] + more
    whole = align(known, branch, len(body), lambda index: (body[index], b""), (), anything, never)
    for size in range(len(branch) + 1):
        assert align(known, branch, len(body), lambda index: (body[index], b""), whole.items[:size], anything, never) == whole


def test_align_of_a_long_history_that_dropped_its_oldest_is_linear() -> None:
    known = Known()
    for number in range(20_000):
        known.add_item(b"%d" % (number % 40), b"")
    body = [b"%d" % (number % 40) for number in range(7, 20_000)]
    calls = 0

    def digest_of(index: int) -> Form:
        nonlocal calls
        calls += 1
        return body[index], b""

    found = align(known, range(20_000), len(body), digest_of, (), anything, never)
    assert (found.diverged_at, found.new_count, calls) == (0, 0, len(body))


def test_align_does_not_depend_on_the_order_in_which_forms_became_known() -> None:
    sent, loaded = session("a b"), session("a b")
    for known, order in ((sent, (1, 0)), (loaded, (0, 1))):
        for number in order:
            known.add_form(number, 1, b"S", b"")
    assert match(sent, [], "S") == match(loaded, [], "S")
    assert numbers(match(sent, [], "S")) == [0]


# Items that only close what a crash interrupted


def closed(
    body: str, branch: Sequence[int] = (0, 1, 2, 3, 4), closing: Sequence[int] = (2, 3), items: str = "q call c1 c2 n"
) -> Alignment:
    letters = body.split()
    return align(session(items), branch, len(letters), lambda index: form(letters[index]), closing=closing)


@pytest.mark.parametrize(
    ("body", "expected", "replaced"),
    [
        ("q call c1 c2 n", [0, 1, 2, 3, 4], False),  # adopted
        ("q call n", [0, 1, 4], True),  # raw, without them
        ("q call r1 r2 n", [0, 1, -1, -1, 4], True),  # real ones, each once
        ("q call r1 c2 n", [0, 1, -1, 3, 4], True),
        ("q call c1 r2 n", [0, 1, 2, -1, 4], True),
        ("q call r2 c1 n", [0, 1, -1, 2, 4], True),  # in another order
        ("q call c2 r1 n", [0, 1, 3, -1, 4], True),
        ("q call r n", [0, 1, -1, 4], True),  # one item of both
        ("q call c1~x c2 n", [0, 1, 2, 3, 4], False),
    ],
)
def test_align_of_closing_items_that_stay_go_or_are_replaced_goes_on(body: str, expected: list[int], replaced: bool) -> None:
    found = closed(body)
    assert (numbers(found), found.replaced) == (expected, replaced)


@pytest.mark.parametrize("body", ["q call r1 r2 n", "q call r1 c2 n", "q call c1 r2 n", "q call n", "q call r n", "q call r n m"])
def test_align_of_real_results_in_the_place_of_closing_items_is_no_divergence(body: str) -> None:
    assert closed(body).diverged_at is None


@pytest.mark.parametrize("body", ["q call", "q call r1", "q call r1 r2", "q call c1", "q call r1 x y"])
def test_align_of_a_body_that_ends_where_closing_items_ended_the_branch_is_no_divergence(body: str) -> None:
    found = closed(body, branch=[0, 1, 2, 3], items="q call c1 c2")
    assert found.diverged_at is None
    assert found.replaced is ("c1" not in body or "c2" not in body)


def test_align_of_closing_items_never_makes_a_second_one_of_them() -> None:
    for body in ("q call x c1 y c2 n", "q call r2 c1", "q call n c1 c2", "q c2 c1 call n", "q call a b c c1"):
        found = numbers(closed(body))
        kept = [number for number in found if number in (2, 3)]
        assert len(kept) == sum(letter in ("c1", "c2") for letter in body.split()), body
        assert len(kept) == len(set(kept))


def test_align_of_more_new_items_than_closing_ones_is_an_edit() -> None:
    found = closed("q call r1 r2 r3 n")
    assert (numbers(found), found.diverged_at) == ([0, 1, -1, -1, -1, 4], 4)
