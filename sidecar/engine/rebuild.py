"""A session's body from the store alone: the newest durable envelope around the raw items of the current branch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from fastpath import scan
from sidecar.core.errors import NoBodyError
from sidecar.core.types import Envelope
from sidecar.engine.session import Session
from sidecar.formats.base import Adapter

if TYPE_CHECKING:
    from sidecar.engine.engine import Engine

__all__ = ["Spans", "join_body", "known_body", "stored_body"]

_BRACKET = ord("[")


class Spans(NamedTuple):
    """Where the history is in a body."""

    history: tuple[int, int]
    items: Sequence[tuple[int, int]]

    @staticmethod
    def of(body: bytes, adapter: Adapter) -> Spans:
        """Of a body whose history is a list."""
        found = scan(body, adapter.grammar)
        return Spans(found.history, [(item.start, item.end) for item in found.items()])

    def around(self, body: bytes, count: int, added: Sequence[bytes]) -> bytes:
        """The body with its first items kept, byte for byte, and others behind them."""
        kept = self.items[:count]
        front = body[: kept[-1][1]] if kept else body[: self.history[0]] + b"["
        front += b"," if kept and added else b""
        return front + b",".join(added) + b"]" + body[self.history[1] :]


def stored_body(engine: Engine, session: Session) -> bytes:
    """The raw body as last told. O(its bytes). Cache markers of items are not kept, so they are not in it.

    Raises:
        NoBodyError: no envelope was ever durable.
        CorruptedError: a digest does not hold.
    """
    if not session.envelope_digest:
        raise NoBodyError(
            "no body was ever given for this session", hint="Record alone does not tell one: call Fit, or give the body here"
        )
    seen = session.seen
    if seen is not None and seen.numbers == session.branch:
        return seen.reading.scan.body
    engine.settle(session.key)
    envelope = engine.store.read_envelope(session.key)
    if envelope is None:
        raise NoBodyError("no body of this session is durable", hint="call Fit with the body again")
    items = [session.raw(engine.store, number) for number in session.branch]
    return join_body(envelope, b"[" + b",".join(items) + b"]")


def known_body(engine: Engine, session: Session, adapter: Adapter, *, stored: bool = False) -> tuple[bytes, Spans]:
    """The raw body as last told, with the places of its items; around an empty envelope when none was told.

    Args:
        engine: for the store.
        session: locked.
        adapter: of the session's dialect.
        stored: from the store, also where it is in memory. Cache markers of items are not kept, so they are not in it.
    """
    seen = None if stored else session.seen
    if seen is not None and seen.numbers == session.branch:
        scanned = seen.reading.scan
        # Where a text stands for the list, nothing can stand behind it.
        if scanned.grammar is adapter.grammar and scanned.body[scanned.history[0]] == _BRACKET:
            return scanned.body, Spans(scanned.history, [(item.start, item.end) for item in seen.reading.items])
    engine.settle(session.key)
    envelope = engine.store.read_envelope(session.key) if session.envelope_digest else None
    raws = [session.raw(engine.store, number) for number in session.branch]
    history = b"[" + b",".join(raws) + b"]"
    if envelope is None:
        front = adapter.empty_body[:-3]
        body = front + history + b"}"
    else:
        body = join_body(envelope, history)
        front = front_of(envelope)
    at = len(front) + 1
    spans: list[tuple[int, int]] = []
    for raw in raws:
        spans.append((at, at + len(raw)))
        at += len(raw) + 1
    return body, Spans((len(front), len(front) + len(history)), spans)


def join_body(envelope: Envelope, history: bytes) -> bytes:
    """Put an envelope and a history together again."""
    return b"".join(_pieces(envelope, history))


def front_of(envelope: Envelope) -> bytes:
    """What stands before the history."""
    pieces: list[bytes] = []
    system, tools = iter(envelope.system), iter(envelope.tools)
    at = 0
    for offset, which in envelope.holes:
        pieces.append(envelope.rest[at:offset])
        if which == "history":
            break
        pieces.append(next(system) if which == "system" else next(tools))
        at = offset
    return b"".join(pieces)


def _pieces(envelope: Envelope, history: bytes) -> list[bytes]:
    system, tools = iter(envelope.system), iter(envelope.tools)
    pieces: list[bytes] = []
    at = 0
    for offset, which in envelope.holes:
        pieces.append(envelope.rest[at:offset])
        pieces.append(history if which == "history" else next(system) if which == "system" else next(tools))
        at = offset
    pieces.append(envelope.rest[at:])
    return pieces
