"""The demo's agent: history in, Fit, model, tools, again. All that it needs of trimtab is the two calls on the client."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple, Protocol

from sidecar.demo.dialects import dialect
from sidecar.demo.model import FakeModel, check_answer
from sidecar.demo.proof import Originals
from sidecar.demo.session import DemoSession
from sidecar.replay.cost import CostMeter
from trimtab.v1 import context_pb2

__all__ = ["AgentClient", "AgentRun", "StepView"]


class AgentClient(Protocol):
    """What is needed of the client."""

    def fit_response(self, session_id: str, body: bytes) -> context_pb2.FitResponse:
        """Fit a body."""

    def resolve(self, session_id: str, call: bytes) -> bytes | None:
        """Answer a call of the read-back tool; None when it is another tool's."""


class StepView(NamedTuple):
    """One model call, for the screen.

    Attributes:
        number: from 1.
        raw_bytes: the body with the history that the agent holds.
        sent_bytes: the body that went to the model.
        outcome: UNCHANGED, FITTED, OVER or CANNOT_FIT.
        moved: reductions made by this call, by kind.
        broke_prefix: bytes that the provider had in its cache changed.
        read_back: what the model asks to see again in its answer; empty when it goes on with its work.
    """

    number: int
    raw_bytes: int
    sent_bytes: int
    outcome: str
    moved: dict[str, int]
    broke_prefix: bool
    read_back: str


class AgentRun:
    """One run of the session. Holds the raw history, as most agents do, and keeps the tally.

    Attributes:
        items: the raw history, read-back calls and their results included.
        originals: everything in it, by content.
        raw_body: the last body, raw.
        sent_body: the last body, as sent.
        last: the answer to the last Fit.
        raw: what sending raw would have cost.
        sent: what was sent cost.
        fit_ms: wall time of each Fit, as the client saw it.
        read_back_count: calls of the read-back tool.
        faults: one line for each thing that went wrong.
    """

    def __init__(self, client: AgentClient, session_id: str, session: DemoSession, rng: Random) -> None:
        """Ready for the first model call.

        Args:
            client: of the sidecar.
            session_id: names the run.
            session: what user, model and tools say.
            rng: decides what the model reads back.
        """
        self._client, self._session_id, self._session, self._rng = client, session_id, session, rng
        self._spelling = dialect(session.format)
        self.items: list[bytes] = []
        self.originals = Originals()
        self.raw_body = self.sent_body = b""
        self.last = context_pb2.FitResponse()
        self.raw, self.sent = CostMeter(), CostMeter()
        self.fit_ms: list[float] = []
        self.read_back_count = 0
        self.faults: list[str] = []

    def live(self, on_step: Callable[[StepView], None]) -> None:
        """Go through the whole session. `on_step` is called after each model call."""
        first, *turns = _turns(self._session.items)
        self._append(first)
        model = FakeModel(self._rng)
        for turn in [*turns, []]:
            while self._call_model(model, on_step):
                pass
            self._append(turn)

    def fit(self, client: AgentClient | None = None) -> bytes:
        """What happens before each model call: the whole history goes to the sidecar, and what comes back goes to the model."""
        client = client or self._client
        self.raw_body = self._session.head + b",".join(self.items) + self._session.tail
        began = time.perf_counter()
        self.last = client.fit_response(self._session_id, self.raw_body)
        self.fit_ms.append((time.perf_counter() - began) * 1000)
        return self.last.body or self.raw_body

    def _call_model(self, model: FakeModel, on_step: Callable[[StepView], None]) -> bool:
        """Send one body. True when the model read something back and must be called again before it goes on."""
        self.sent_body = self.fit()
        self._check_told()
        # The demo's bodies end with their history, so the last item ends before "]}".
        self.raw.add(self.raw_body, len(self.raw_body) - 2)
        broke = self.sent.add(self.sent_body, len(self.sent_body) - 2).broke_prefix
        call = model.read(self.sent_body, self.last.artifacts, self.last.read_back_tool_name)
        kinds = Counter(_kind(reduction.kind) for reduction in self.last.reductions)
        outcome = context_pb2.FitOutcome.Name(self.last.outcome).removeprefix("FIT_OUTCOME_")
        asked = "" if call is None else str(call.arguments["artifact_id"])
        on_step(StepView(len(self.fit_ms), len(self.raw_body), len(self.sent_body), outcome, dict(kinds), broke, asked))
        if call is None:
            return False
        call_json = self._spelling.call(call)
        result = self._client.resolve(self._session_id, call_json)
        if result is None:
            self.faults.append(f"the sidecar does not know its own tool {call.name}")
            return False
        if fault := check_answer(self._spelling.result_text(result), call, self.originals):
            self.faults.append(fault)
        self.read_back_count += 1
        self._append(self._spelling.exchange(call_json, result))
        return True

    def totals(self) -> list[tuple[str, int, int]]:
        """Reductions in the last body: kind, how many, bytes that they save."""
        return [(_kind(total.kind), total.count, total.saved_bytes) for total in self.last.totals]

    def _append(self, items: Sequence[bytes]) -> None:
        self.items += items
        for item in items:
            self.originals.add(item)

    def _check_told(self) -> None:
        """A note that nobody can follow is a deletion.

        Reasoning leaves none in the body; there the answer's reduction tells. An answer of the read-back tool leaves one that
        names what it had shown, not itself; `find_lost` looks at those.
        """
        told = {
            reduction.artifact_id for reduction in self.last.reductions if reduction.kind == context_pb2.REDUCTION_KIND_REASONING
        }
        for artifact in self.last.artifacts:
            is_read_back = artifact.tool_name == self.last.read_back_tool_name
            if not is_read_back and artifact.artifact_id not in told and artifact.artifact_id.encode() not in self.sent_body:
                self.faults.append(f"artifact {artifact.artifact_id} left the body and nothing in the body says so")


def _kind(number: context_pb2.ReductionKind) -> str:
    return context_pb2.ReductionKind.Name(number).removeprefix("REDUCTION_KIND_").lower().replace("_", " ")


def _turns(items: Sequence[bytes]) -> Iterator[list[bytes]]:
    """What stands before the first model answer; then each answer with what follows it."""
    turn: list[bytes] = []
    for item in items:
        if item.startswith(b'{"role":"assistant"'):
            yield turn
            turn = []
        turn.append(item)
    yield turn
