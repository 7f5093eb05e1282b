"""A long session of a coding agent, made from a seed: a body as an agent would send it near the end of its run.

python -m sidecar.demo.session --format openai-chat > session.json
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

from sidecar.demo.dialects import Answer, Results, dialect
from sidecar.demo.script import SYSTEM, play

__all__ = ["MIN_BYTES", "MIN_CALLS", "SEED", "DemoSession", "build_session"]

SEED: Final = 7
MIN_CALLS: Final = 150
MIN_BYTES: Final = 2 << 20


class DemoSession(NamedTuple):
    """A session, in pieces.

    Attributes:
        format: the dialect's name.
        head: the body before its first item.
        items: the history, JSON, one element an item.
        tail: the body after its last item.
        call_count: tool calls in it.
    """

    format: str
    head: bytes
    items: tuple[bytes, ...]
    tail: bytes
    call_count: int

    def body(self) -> bytes:
        """The whole body."""
        return self.head + b",".join(self.items) + self.tail


def build_session(
    seed: int = SEED, *, min_calls: int = MIN_CALLS, min_bytes: int = MIN_BYTES, format: str = "anthropic-messages"
) -> DemoSession:
    """Make a session that has at least so many calls and bytes, and ends with results. The same arguments give the same bytes.

    Raises:
        ValueError: a dialect that the demo does not speak.
    """
    spelling = dialect(format)
    head, tail = spelling.envelope(SYSTEM)
    items = spelling.first_items(SYSTEM)
    size, calls = len(head) + len(tail) + sum(map(len, items)), 0
    for event in play(seed):
        new = spelling.items(event)
        items += new
        size += sum(len(item) + 1 for item in new)
        if isinstance(event, Answer):
            calls += len(event.calls)
        if isinstance(event, Results) and calls >= min_calls and size > min_bytes:
            break
    return DemoSession(format, head, tuple(items), tail, calls)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write a session to standard output."""
    parser = argparse.ArgumentParser(
        prog="python -m sidecar.demo.session", description="Write a generated coding session as one request body."
    )
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--format", default="anthropic-messages", help="anthropic-messages or openai-chat")
    parser.add_argument("--min-calls", type=int, default=MIN_CALLS)
    parser.add_argument("--min-bytes", type=int, default=MIN_BYTES)
    given = parser.parse_args(arguments)
    session = build_session(given.seed, min_calls=given.min_calls, min_bytes=given.min_bytes, format=given.format)
    sys.stdout.buffer.write(session.body())
    return 0


if __name__ == "__main__":
    sys.exit(main())
