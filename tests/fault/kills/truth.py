"""What a session was told is durable, and the comparison with what a sidecar says of it after a restart."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.helpers.client import Sidecar
from trimtab.v1 import common_pb2, context_pb2, session_pb2

__all__ = ["Truth", "differences"]


Place = tuple[int, int]
"""A call: its item, and its place among that item's calls."""
Told = tuple[int, str, str, bytes]
"""A receipt: state, idempotency key, detail, result."""


@dataclass
class Truth:
    """One session's acknowledged state, and all that was ever asked of it.

    Attributes:
        receipts: by item and call index: (state, idempotency key, detail, result), the newest acknowledged.
        asked_receipts: by item and call index: all that were ever sent, in that order.
        anchors: texts of constraints by id, acknowledged.
        asked_anchors: all that were ever sent.
        pins: names of pinned tools, acknowledged.
        artifacts: ids that an answer named.
        contents: every text that the agent had.
        checkpoints: by id, as they were acknowledged, serialized, without their place and liveness.
        taken_back: ids, acknowledged.
        attempts: state by id, where an end was acknowledged.
        asked_attempts: ids of all compactions that were asked for.
        revisions: by revision: what made it.
        revision: the largest that was acknowledged.
    """

    receipts: dict[Place, Told] = field(default_factory=dict)
    asked_receipts: dict[Place, list[Told]] = field(default_factory=dict)
    anchors: dict[str, str] = field(default_factory=dict)
    asked_anchors: dict[str, str] = field(default_factory=dict)
    pins: set[str] = field(default_factory=set)
    asked_pins: set[str] = field(default_factory=set)
    artifacts: set[str] = field(default_factory=set)
    contents: set[str] = field(default_factory=set)
    checkpoints: dict[str, bytes] = field(default_factory=dict)
    taken_back: set[str] = field(default_factory=set)
    planned: dict[str, bytes] = field(default_factory=dict)
    asked_attempts: set[str] = field(default_factory=set)
    revisions: dict[int, str] = field(default_factory=dict)
    revision: int = 0
    errors: list[str] = field(default_factory=list)

    def ask(self, place: Place, receipt: Told) -> Told:
        """A receipt is about to be sent."""
        self.asked_receipts.setdefault(place, []).append(receipt)
        return receipt

    def made(self, revision: int, what: str) -> None:
        """An answer says that something made a revision."""
        other = self.revisions.setdefault(revision, what)
        if other != what:
            self.errors.append(f"revision {revision} was given to {other} and to {what}")
        self.revision = max(self.revision, revision)


def shape(checkpoint: common_pb2.Checkpoint) -> bytes:
    """A checkpoint without what may change: places on the current branch, liveness."""
    fixed = common_pb2.Checkpoint()
    fixed.CopyFrom(checkpoint)
    fixed.ClearField("items")
    fixed.ClearField("live")
    return fixed.SerializeToString(deterministic=True)


def differences(sidecar: Sidecar, session_id: str, truth: Truth, *, read: bool) -> list[str]:
    """What a sidecar does not say, or says and was never asked to. Empty: all is well.

    Args:
        sidecar: after a restart, before anything new was asked.
        session_id: of the session.
        truth: of it.
        read: read every artifact back, too.
    """
    ref = common_pb2.SessionRef(session_id=session_id)
    answer = sidecar.context.Recover(context_pb2.RecoverRequest(session=ref), timeout=60)
    found: list[str] = list(truth.errors)
    if answer.revision < truth.revision:
        found.append(f"revision {truth.revision} was told, it is at {answer.revision}")
    receipts = {
        (each.call.item_index, each.call.call_index): (each.state, each.idempotency_key, each.detail, each.result)
        for each in answer.receipts
    }
    for place, told in truth.receipts.items():
        if place not in receipts:
            found.append(f"the receipt of call {place} is lost")
        elif receipts[place] not in truth.asked_receipts[place][truth.asked_receipts[place].index(told) :]:
            found.append(f"the receipt of call {place} is another than the newest that was told, and none sent since")
    found += [f"the receipt of call {place} was never given" for place in receipts if place not in truth.asked_receipts]
    rules = {rule.id: rule.text for rule in answer.anchors.constraints}
    found += [f"anchor {name} is lost" for name, text in truth.anchors.items() if rules.get(name) != text]
    found += [f"anchor {name} was never given" for name, text in rules.items() if truth.asked_anchors.get(name) != text]
    pins = {pin.tool_name for pin in answer.pins}
    found += [f"pin {name} is lost" for name in truth.pins - pins]
    found += [f"pin {name} was never given" for name in pins - truth.asked_pins]
    listed = sidecar.sessions.ListCheckpoints(session_pb2.ListCheckpointsRequest(session=ref, page_size=1000), timeout=60)
    checkpoints = {each.checkpoint_id: each for each in listed.checkpoints}
    for name, told in truth.checkpoints.items():
        if name not in checkpoints:
            found.append(f"checkpoint {name} is lost")
        elif shape(checkpoints[name]) != told:
            found.append(f"checkpoint {name} is another")
        elif name in truth.taken_back and checkpoints[name].live:
            found.append(f"checkpoint {name} was taken back and is live")
    asked = {each.attempt_id for each in checkpoints.values()}
    found += [f"checkpoint of {name} was never asked for" for name in asked - truth.asked_attempts]
    attempts = {each.attempt_id: each for each in answer.attempts}
    open_now = {name for name, each in attempts.items() if each.state == context_pb2.ATTEMPT_STATE_DISPATCHED}
    found += [f"planned attempt {name} is lost" for name in truth.planned if name not in open_now and name not in asked]
    found += [f"attempt {name} was never asked for" for name in attempts if name not in truth.asked_attempts]
    if read:
        for artifact_id in truth.artifacts:
            if sidecar.read(session_id, artifact_id).decode() not in truth.contents:
                found.append(f"artifact {artifact_id} is no text that the agent had")
    return [f"{session_id}: {each}" for each in found]
