"""The demo's second act: settled work retires into a summary, is read back through it, and comes back by a rollback."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sidecar.demo.dialects import Call, dialect
from sidecar.demo.model import check_answer
from sidecar.replay.table import format_bytes
from trimtab.v1 import context_pb2

if TYPE_CHECKING:
    import trimtab
    from sidecar.demo.run import AgentRun
    from sidecar.demo.screen import Screen

__all__ = ["show_compaction"]

_TARGET_BYTES, _SUMMARY_BYTES = 48 * 1024, 4_000
_SUMMARY_LINES = 12
_ARTIFACT = re.compile(r"\b[0-9a-f]{32}\b")


def show_compaction(screen: Screen, run: AgentRun, client: trimtab.Trimtab, session_id: str, format: str) -> bool:
    """Compact, fit, read back, roll back; each claim checked. True when all hold."""
    before = run.fit(client)
    screen.say("Where moving things out of view is not enough, settled work retires into a summary (Compact). For the show")
    screen.say("the body is compacted although it is under its limit, by records alone, no model, with limits lowered to a")
    screen.say(
        f"body of {format_bytes(_TARGET_BYTES)} and a summary of {format_bytes(_SUMMARY_BYTES)}, requests and rules apart:"
    )
    answer = client.compact(
        session_id,
        "demo-stage",
        run.raw_body,
        boundary="demo",
        ignore_pressure=True,
        limits={"compact_target_bytes": _TARGET_BYTES, "summary_bytes": _SUMMARY_BYTES},
    )
    committed = answer.outcome == context_pb2.COMPACT_OUTCOME_COMMITTED
    if not screen.claim("a checkpoint is durable", [] if committed else [f"{answer.detail}"]):
        return False
    made = answer.checkpoint
    count = sum(part.end - part.start for part in made.items)
    screen.say(
        f"          {made.checkpoint_id}: {count} items became {format_bytes(len(made.summary))} of summary; the body went from "
        f"{format_bytes(made.before_bytes)} to {format_bytes(made.after_bytes)}"
    )
    summary = made.summary.decode("utf-8", "replace")
    shown = [line for line in summary.splitlines() if line.strip()]
    for line in shown[:_SUMMARY_LINES]:
        screen.say(f"          | {line[:112]}")
    screen.say(f"          | ... {len(shown) - _SUMMARY_LINES} more lines")
    compacted = run.fit(client)
    claims = [
        screen.claim(
            "the agent goes on with its raw history, and the next Fit applies the checkpoint",
            [] if len(compacted) == made.after_bytes and summary[:40].encode() in compacted else ["the body is another"],
        ),
        screen.claim(
            "what the summary names can be read back, byte for byte", _read_back(run, client, session_id, format, summary)
        ),
    ]
    client.rollback(session_id, "demo-rollback", made.checkpoint_id)
    claims.append(
        screen.claim(
            "a rollback puts the raw items back: the body is the one before, byte for byte",
            [] if run.fit(client) == before else ["the bodies differ"],
        )
    )
    return all(claims)


def _read_back(run: AgentRun, client: trimtab.Trimtab, session_id: str, format: str, summary: str) -> list[str]:
    """Read the first artifact that the summary names, as a model would."""
    found = _ARTIFACT.search(summary)
    if found is None:
        return ["the summary names no artifact"]
    spelling = dialect(format)
    call = Call("demo-read", run.last.read_back_tool_name, {"artifact_id": found[0]})
    result = client.resolve(session_id, spelling.call(call))
    if result is None:
        return ["the call was not answered"]
    fault = check_answer(spelling.result_text(result), call, run.originals)
    return [fault] if fault else []
