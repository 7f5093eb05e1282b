"""A session's body from the store alone: the newest durable envelope around the raw items of the current branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar.core.errors import NoBodyError
from sidecar.core.types import Envelope
from sidecar.engine.session import Session

if TYPE_CHECKING:
    from sidecar.engine.engine import Engine

__all__ = ["stored_body"]


def stored_body(engine: Engine, session: Session) -> bytes:
    """The raw body as last told. O(its bytes). Cache markers of items are not kept, so they are not in it.

    Raises:
        NoBodyError: no envelope was ever durable.
        CorruptedError: a digest does not hold.
    """
    seen = session.seen
    if seen is not None and seen.numbers == session.branch and seen.reading.scan.body:
        return seen.reading.scan.body
    engine.settle(session.key)
    envelope = engine.store.read_envelope(session.key)
    if envelope is None:
        raise NoBodyError(
            "no body was ever given for this session", hint="Record alone does not tell one: call Fit, or give the body here"
        )
    items = [session.raw(engine.store, number) for number in session.branch]
    return join_body(envelope, b"[" + b",".join(items) + b"]")


def join_body(envelope: Envelope, history: bytes) -> bytes:
    """Put an envelope and a history together again."""
    system, tools = iter(envelope.system), iter(envelope.tools)
    pieces: list[bytes] = []
    at = 0
    for offset, which in envelope.holes:
        pieces.append(envelope.rest[at:offset])
        pieces.append(history if which == "history" else next(system) if which == "system" else next(tools))
        at = offset
    pieces.append(envelope.rest[at:])
    return b"".join(pieces)
