"""The demo's model: it answers as the session says, and now and then wants to see again what was moved out of its view."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from random import Random
from typing import Any, NamedTuple

from sidecar.demo.dialects import Call
from sidecar.demo.proof import Originals
from trimtab.v1 import common_pb2

__all__ = ["FakeModel", "check_answer"]

_SHOWN = re.compile(r"^\[bytes (\d+) to (\d+) of artifact ([0-9a-f]{32})")
_AFTER = (1, 3)  # model calls that pass between seeing a stub and asking for what it names


class _Wish(NamedTuple):
    due: int
    artifact: common_pb2.Artifact


class FakeModel:
    """Asks for artifacts whose id it has read in the body that it was sent; it knows no other way to one."""

    def __init__(self, rng: Random) -> None:
        """Ready for its first call; `rng` decides what it asks for."""
        self._rng = rng
        self._wishes: deque[_Wish] = deque()
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
        if seen:
            for after in _AFTER:
                self._wishes.append(_Wish(self._call_count + after, self._rng.choice(seen)))
        if not self._wishes or self._wishes[0].due > self._call_count:
            return None
        artifact = self._wishes.popleft().artifact
        self._asked_count += 1
        return Call(f"read_{self._asked_count:03d}", tool_name, self._arguments(artifact))

    def _arguments(self, artifact: common_pb2.Artifact) -> dict[str, Any]:
        """The whole of it, or a range, as models do either."""
        if self._asked_count % 2 or artifact.size_bytes < 1000:
            return {"artifact_id": artifact.artifact_id}
        start = self._rng.randrange(artifact.size_bytes // 2)
        return {"artifact_id": artifact.artifact_id, "start": start, "end": start + 2000}


def check_answer(text: str, originals: Originals) -> str:
    """Compare what a read-back call answered with the content it is of. Empty when it is right, else what is wrong.

    The answer says in its first line which bytes it shows; those bytes of the agent's own content must follow, and nothing else.
    """
    head, _, shown = text.partition("\n")
    match = _SHOWN.match(head)
    if match is None:
        # Media cannot be shown as text; the answer says so, and names the artifact.
        return "" if "not text" in head else f"not an answer of the read-back tool: {head[:80]!r}"
    start, end, wanted_id = int(match[1]), int(match[2]), match[3]
    content = originals.by_id.get(wanted_id)
    if content is None:
        return f"artifact {wanted_id} is nothing that the agent had"
    return "" if content[start:end].decode(errors="replace") == shown else f"artifact {wanted_id}: bytes {start} to {end} differ"
