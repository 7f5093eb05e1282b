"""Taking checkpoints back: a new record, and the raw items stand in their place again."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from sidecar.core.checkpoints import live_checkpoints, taken_back
from sidecar.core.compaction import RollbackRecord
from sidecar.core.errors import (
    CheckpointNotFoundError,
    RequestIdReusedError,
    RevisionConflictError,
    SessionNotFoundError,
)
from sidecar.engine.commit import unchanged
from sidecar.engine.compact_call import write
from sidecar.engine.compact_messages import RollbackInput, RollbackResult
from sidecar.engine.session import Session

if TYPE_CHECKING:
    from sidecar.engine.engine import Engine

__all__ = ["roll_back"]


def roll_back(engine: Engine, session: Session, given: RollbackInput) -> tuple[RollbackResult, bool]:
    """Take a checkpoint and all later ones back, under the session's lock. Also says whether that was done now.

    Raises:
        SessionNotFoundError, CheckpointNotFoundError, RequestIdReusedError, RevisionConflictError.
        StoreFullError, StoreFailedError: nothing was written.
    """
    if not session.exists and not session.metas:
        raise SessionNotFoundError("no such session", hint="check scope and session_id; a deleted session is gone for good")
    digest = sha256(given.checkpoint_id.encode()).digest()
    known = next((each for each in session.rollbacks if each.request_id == given.request_id), None)
    taken = given.request_id in session.attempts or given.request_id in session.requests
    if taken or (known is not None and known.digest != digest):
        raise RequestIdReusedError(
            "this request_id was used with other content", hint="a new request needs a new id; a repeat, the same content"
        )
    if known is not None:
        return RollbackResult(known.checkpoint_ids, known.revision), False
    head = session.head
    if given.expected_revision is not None and given.expected_revision != head.revision:
        raise RevisionConflictError(
            f"the session is at revision {head.revision}, not {given.expected_revision}",
            hint="another writer was faster: read the session again, then repeat",
            revision=head.revision,
        )
    back = taken_back(session.rollbacks)
    ids = [record.checkpoint_id for record in session.checkpoints]
    if given.checkpoint_id not in ids or given.checkpoint_id in back:
        raise CheckpointNotFoundError(
            "this session has no such checkpoint, or it was taken back already",
            hint="ListCheckpoints gives all that there are",
            checkpoint_id=given.checkpoint_id[:128],
        )
    later = ids[ids.index(given.checkpoint_id) :]
    record = RollbackRecord(
        request_id=given.request_id,
        digest=digest,
        checkpoint_ids=tuple(each for each in later if each not in back),
        revision=head.revision + 1,
        create_ms=engine.clock.now_ms(),
    )
    live = live_checkpoints(session.checkpoints, [*session.rollbacks, record])
    change = unchanged(session)
    change.head = msgspec.structs.replace(head, revision=record.revision, checkpoint_count=len(live))
    change.rollbacks = [record]
    write(engine, session, change)
    return RollbackResult(record.checkpoint_ids, record.revision), True
