"""A recorded body, taken apart into the bodies that the agent sent on its way there.

An agent sends its whole history before each model call, so a recorded body holds all the earlier ones: the prefix of its history
that ends right before each model answer, in the same envelope. Every byte is sliced from the recording; nothing is written anew.
No I/O and no clock in this file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fastpath import Grammar, Role, Scan, scan

__all__ = ["History", "Step", "count_steps", "grow_body", "iterate_steps", "plan_steps", "read_history", "step_body"]


class History(NamedTuple):
    """Where the items of a body end.

    Attributes:
        scan: the scan of the body; give it to the next `read_history` to save work.
        item_count: items in the history.
        items_end: first byte after the last item; after the opening bracket when there is none.
    """

    scan: Scan
    item_count: int
    items_end: int


class Step(NamedTuple):
    """One body that the agent sent.

    Attributes:
        item_count: items of the recording that it holds.
        body: the bytes.
    """

    item_count: int
    body: bytes


def read_history(body: bytes, grammar: Grammar, previous: Scan | None = None) -> History:
    """Scan a body and find where its items end. O(bytes that differ from the previous body).

    Raises:
        MalformedError: the body cannot be read.
    """
    seen = scan(body, grammar, previous)
    count = seen.item_count
    end = seen.item(count - 1).end if count else seen.history[0] + 1
    return History(seen, count, end)


def plan_steps(recording: Scan) -> list[int]:
    """Choose how many items each body of the run held, ascending. O(items).

    A model was called right before each run of assistant items, and once more at the end when the last item is not the model's.
    A recording that begins with an assistant item says nothing of the call before it.
    """
    counts: list[int] = []
    after_assistant = True  # so that an empty history is no step
    for index, item in enumerate(recording.items()):
        is_assistant = item.role == Role.ASSISTANT
        if is_assistant and not after_assistant:
            counts.append(index)
        after_assistant = is_assistant
    if not after_assistant:
        counts.append(recording.item_count)
    return counts


def count_steps(recording: Scan) -> int:
    """How many bodies the agent sent."""
    return len(plan_steps(recording))


def step_body(recording: Scan, item_count: int) -> bytes:
    """Slice the body that held the first `item_count` items, from 1. The envelope is that of the recording, byte for byte."""
    body = recording.body
    if not 1 <= item_count <= recording.item_count:
        raise ValueError(f"item_count is {item_count}, the recording has {recording.item_count} items")
    kept_end = recording.item(item_count - 1).end
    last_end = recording.item(recording.item_count - 1).end
    return body[:kept_end] + body[last_end:]


def iterate_steps(recording: Scan) -> Iterator[Step]:
    """All bodies of the run, oldest first, each made when it is asked for."""
    for count in plan_steps(recording):
        yield Step(count, step_body(recording, count))


def grow_body(adopted: bytes, adopted_end: int, recording: Scan, held_count: int, item_count: int) -> bytes:
    """The next body of an agent that adopted what it was given: that body with the recording's newer items behind its last item.

    Args:
        adopted: the body that was sent last.
        adopted_end: `History.items_end` of it.
        recording: where the new items come from.
        held_count: items of the recording that `adopted` stands for, from 1.
        item_count: items that the next body is to stand for.
    """
    if not 1 <= held_count <= item_count <= recording.item_count:
        raise ValueError(f"cannot grow from {held_count} to {item_count} of {recording.item_count} items")
    # Sliced from the end of the last held item, so that the comma and the white space between come along.
    new_items = recording.body[recording.item(held_count - 1).end : recording.item(item_count - 1).end]
    return adopted[:adopted_end] + new_items + adopted[adopted_end:]
