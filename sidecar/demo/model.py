"""The demo's model: it answers as the session says, and now and then wants to see again what was moved out of its view."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any, NamedTuple

from sidecar.demo.dialects import Call
from sidecar.demo.proof import Originals, shows
from trimtab.v1 import common_pb2

__all__ = ["FakeModel", "check_answer"]

_AFTER = 2  # model calls that pass between seeing a stub and asking for what it names


class _Wish(NamedTuple):
    due: int
    artifact: common_pb2.Artifact


class FakeModel:
    """Asks for artifacts whose id it has read in the body that it was sent; it knows no other way to one."""

    def __init__(self, rng: Random) -> None:
        """Ready for its first call; `rng` decides what it asks for."""
        self._rng = rng
        self._wish: _Wish | None = None
        self._call_count = 0
        self._asked_count = 0

    def read(self, sent: bytes, moved_out: Iterable[common_pb2.Artifact], tool_name: str) -> Call | None:
        """Take in a body; answer with a read-back call, or with None to go on as the session says.

        Args:
            sent: the body.
            moved_out: what left the body just now; only to pick from: an id that does not stand in the body is not asked for.
            tool_name: the read-back tool, as the body declares it.
        """
        self._call_count += 1
        seen = [artifact for artifact in moved_out if f"artifact_id={artifact.artifact_id}".encode() in sent]
        if seen and self._wish is None:
            self._wish = _Wish(self._call_count + _AFTER, self._rng.choice(seen))
        if self._wish is None or self._wish.due > self._call_count:
            return None
        artifact, self._wish = self._wish.artifact, None
        self._asked_count += 1
        return Call(f"read_{self._asked_count:03d}", tool_name, self._arguments(artifact))

    def _arguments(self, artifact: common_pb2.Artifact) -> dict[str, Any]:
        """The whole of it, or a range, as models do either."""
        if self._asked_count % 2 or artifact.size_bytes < 1000:
            return {"artifact_id": artifact.artifact_id}
        start = self._rng.randrange(artifact.size_bytes // 2)
        return {"artifact_id": artifact.artifact_id, "start": start, "end": start + 2000}


def check_answer(text: str, call: Call, originals: Originals) -> str:
    """Compare what a read-back call answered with the content that it is of. Empty when it is right, else what is wrong."""
    wanted_id = str(call.arguments["artifact_id"])
    content = originals.by_id.get(wanted_id)
    if content is None:
        return f"artifact {wanted_id} is nothing that the agent had"
    # Media cannot be shown as text; the answer then says so.
    if shows(text, wanted_id, content) or (wanted_id in text and "not text" in text):
        return ""
    return f"artifact {wanted_id}: the answer shows something else: {text[:100]!r}"
