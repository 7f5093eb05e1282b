"""Plays the script through a real sidecar, and lets a reader look at the body of step 62."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.acceptance.contract.script import COMPACT_STEP, DIFF, FREEZE, P99_LINE, READ_STEP, TRIM_STEP, Step, script
from tests.helpers.bodies import History, history
from tests.helpers.client import CALLER, Sidecar, notes
from trimtab.v1 import common_pb2, context_pb2

__all__ = ["FIELDS", "Found", "Played", "play", "read"]

FIELDS = ("provenance", "unresolved", "recovery", "constraints")
_ID = re.compile(r"[0-9a-f]{32}")
NOTES = "## Accomplished\n- moved the handler\n## In progress\n- runbook\n## Next steps\n- runbook\n## Facts to keep\n- none\n"


@dataclass
class Found:
    """What the reader found; "" where it did not."""

    why_redis: str = ""
    left_to_do: list[str] = field(default_factory=list)
    diff: str = ""
    freeze: str = ""
    read_backs: int = 0

    def fields(self) -> dict[str, bool]:
        """The four categories: provenance, unresolved work, recovery, constraints."""
        return {
            "provenance": self.why_redis == P99_LINE,
            "unresolved": self.left_to_do == ["runbook"],
            "recovery": self.diff == DIFF,
            "constraints": self.freeze == FREEZE,
        }


@dataclass
class Played:
    """A run.

    Attributes:
        sizes: by step: raw and sent bytes.
        bodies: by step, as sent.
        outcome: of the compaction.
        history: raw.
    """

    session_id: str
    history: History
    sizes: list[tuple[int, int]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    compacted: context_pb2.CompactResponse = field(default_factory=context_pb2.CompactResponse)
    notes: set[str] = field(default_factory=set)


def anchors(step: Step, item: int) -> common_pb2.Anchors:
    """What the agent keeps of a step; sources point at the item of its call."""
    source = common_pb2.Source(call=common_pb2.CallRef(item_index=item, call_index=0))
    return common_pb2.Anchors(
        constraints=[common_pb2.Constraint(id=name, text=text) for name, text in step.rules.items()],
        decisions=[common_pb2.Decision(id=name, text=text, sources=[source]) for name, text in step.decisions.items()],
        work=[
            common_pb2.WorkItem(id=name, text=text, state=common_pb2.WorkState.Value(f"WORK_STATE_{state}"))
            for name, (text, state) in step.work.items()
        ],
    )


def play(
    sidecar: Sidecar,
    format_name: str,
    session_id: str,
    *,
    thinking: bool = False,
    summarizer: int = context_pb2.SUMMARIZER_LEDGER,
    until: int = READ_STEP,
) -> Played:
    """Work through the script. The agent keeps its raw history, and sends it each time."""
    run = Played(session_id, history(format_name))
    if thinking and format_name == "anthropic-messages":
        run.history.rest["thinking"] = {"type": "enabled", "budget_tokens": 2_000}
    for number, step in enumerate(script()[:until], 1):
        if step.says:
            if number > 1:
                run.history.answer(f"Noted; going on with step {number}.")
            run.history.user(step.says)
        run.history.call((step.tool, step.arguments), thinking=f"thinking about step {number}" if thinking else "")
        item = len(run.history.items) - 1
        run.history.results(step.result)
        fields: dict[str, Any] = {"anchors": anchors(step, item)}
        if number == TRIM_STEP:
            fields["limits"] = common_pb2.Limits(soft_bytes=80_000, target_bytes=60_000, min_saving_bytes=1)
        body = run.history.body()
        if number == COMPACT_STEP:
            sidecar.fit(session_id, body, format=format_name, read_back=CALLER, **fields)
            run.compacted = _compact(sidecar, session_id, body, summarizer)
            fields = {}
        answer = sidecar.fit(session_id, body, format=format_name, read_back=CALLER, **fields)
        run.notes |= notes(answer)
        run.bodies.append(answer.body or body)
        run.sizes.append((len(body), len(run.bodies[-1])))
    return run


def _compact(sidecar: Sidecar, session_id: str, body: bytes, summarizer: int) -> context_pb2.CompactResponse:
    request = context_pb2.CompactRequest(
        session=common_pb2.SessionRef(session_id=session_id),
        request_id="stage-1",
        body=body,
        boundary="stage 1",
        ignore_pressure=True,
        summarizer=summarizer,
        limits=common_pb2.Limits(compact_target_bytes=30_000),
    )
    answer = sidecar.context.Compact(request, timeout=30)
    if answer.outcome == context_pb2.COMPACT_OUTCOME_PLANNED:
        finish = context_pb2.FinishCompactRequest(session=request.session, attempt_id="stage-1", text=NOTES.encode())
        answer = sidecar.context.FinishCompact(finish, timeout=30).compact
    return answer


def read(body: bytes, read_back: Callable[[str], str]) -> Found:
    """The reader: knows the body's text and the read-back tool, nothing else."""
    found = Found()
    text = "\n".join(_texts(json.loads(body)))
    lines = text.splitlines()
    known: dict[str, str] = {}

    def look(artifact_id: str) -> str:
        if artifact_id not in known:
            found.read_backs += 1
            known[artifact_id] = read_back(artifact_id)
        return known[artifact_id]

    # Why Redis: the line is in view, or in the artifact that the line that asked for the benchmark names.
    found.why_redis = next((line for line in lines if line.startswith("p99:")), "")
    for line in lines if not found.why_redis else ():
        if "bench/queues.py" in line:
            for artifact_id in _ID.findall(line):
                found.why_redis = next(
                    (each for each in look(artifact_id).splitlines() if each.startswith("p99:")), found.why_redis
                )
    # The exact diff: the same, by the command that showed it.
    found.diff = _diff_in(text)
    for line in lines if not found.diff else ():
        if "git diff orders/handler.py" in line:
            for artifact_id in _ID.findall(line):
                found.diff = found.diff or _diff_in(look(artifact_id))
    # What is left to do: the work that is not done, from the section that lists it.
    section = text.partition("## Work")[2].partition("\n## ")[0]
    for name in ("handler", "worker", "runbook"):
        state = re.search(rf"^- (?:\S+ )?\W*{name}\W.*$", section, re.MULTILINE)
        if state is not None and not re.search(r"\bdone\b", state[0], re.IGNORECASE):
            found.left_to_do.append(name)
    # The freeze: in the words of the user.
    found.freeze = next((line for line in lines if "billing module" in line and line.startswith("One more thing")), "")
    return found


def _diff_in(text: str) -> str:
    """The diff in a text; "" when it is not there whole."""
    start, last = text.find("--- a/orders/handler.py\n"), "+    return accepted(job.id)\n"
    end = text.find(last, start)
    return text[start : end + len(last)] if 0 <= start < end else ""


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for key, member in value.items() if key != "tools" for text in _texts(member)]
    if isinstance(value, list):
        return [text for element in value for text in _texts(element)]
    return []
