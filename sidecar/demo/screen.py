"""What the demo shows: made for somebody who sees this for the first time. Text only."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO

from sidecar.demo.run import AgentRun, StepView
from sidecar.demo.session import DemoSession
from sidecar.replay.table import format_bytes, format_table

__all__ = ["Screen"]

_BAR_CELLS = 28


class Screen:
    """Prints to a stream, one short line at a time."""

    def __init__(self, session: DemoSession, seed: int, out: TextIO | None = None) -> None:
        """Remember the session's size, which the bars are drawn to; standard output when `out` is None."""
        self._session, self._seed, self._out = session, seed, out or sys.stdout
        self._full_bytes = len(session.body())
        ascii_only = "utf" not in (self._out.encoding or "").lower()
        self._full, self._rest = ("#", ".") if ascii_only else ("█", "░")

    def say(self, text: str = "") -> None:
        """One line, at once."""
        print(text, file=self._out, flush=True)

    def begin(self, address: str) -> None:
        """What is about to happen."""
        session = self._session
        self.say("trimtab: the working context of a long-running agent, bounded, and nothing lost")
        self.say()
        self.say(
            f"  session  a coding agent renames a field in 32 files: {session.call_count} tool calls, {len(session.items)} items,"
        )
        self.say(f"           {format_bytes(self._full_bytes)} as {session.format}, generated from seed {self._seed}")
        self.say(f"  sidecar  `trimtab serve` in a process of its own on {address}, store in a scratch folder")
        self.say()
        self.say(
            "Before each model call the agent hands its whole history to the sidecar (Fit) and sends the model what comes back."
        )

    def _limits(self, run: AgentRun) -> None:
        """The limits in force, from the sidecar's first answer."""
        limits = run.last.effective_limits
        self.say(
            f"Limits: a body over {format_bytes(limits.soft_bytes)} is cut down to {format_bytes(limits.target_bytes)}, oldest "
            f"results first; a single result over {format_bytes(limits.externalize_bytes)} leaves at once."
        )
        self.say(
            "What leaves goes to the store; a short note with an id stays, and the model reads the original back by that id."
        )
        self.say()
        self.say(f"  call  agent holds  model gets  {self._full} model gets, {self._rest} agent holds")

    def step(self, run: AgentRun, view: StepView) -> None:
        """One model call."""
        if view.number == 1:
            self._limits(run)
        held = max(1, round(view.raw_bytes * _BAR_CELLS / self._full_bytes))
        sent = max(1, round(view.sent_bytes * _BAR_CELLS / self._full_bytes))
        bar = (self._full * sent + self._rest * (held - sent)).ljust(_BAR_CELLS)
        said = []
        if view.moved:
            said.append("moved out: " + ", ".join(f"{count} {kind}" for kind, count in view.moved.items()))
        if view.broke_prefix:
            said.append("cached prefix broken")
        if view.read_back:
            said.append(f"model reads back {view.read_back[:8]}…")
        if view.outcome in {"OVER", "CANNOT_FIT"}:
            said.append(view.outcome)
        sizes = f"{format_bytes(view.raw_bytes):>11}  {format_bytes(view.sent_bytes):>10}"
        self.say(f"  {view.number:>4}  {sizes}  {bar}  {'; '.join(said)}".rstrip())

    def result(self, run: AgentRun) -> None:
        """What the run came to."""
        fit = sorted(run.fit_ms)
        self.say()
        self.say("Out of view in the last body, and what that saves there:")
        rows = [(kind, str(count), format_bytes(saved)) for kind, count, saved in run.totals()]
        self._indent(format_table(("kind", "count", "saved"), rows))
        self.say()
        figures = [
            _compare("largest body", run.raw.max_bytes, run.sent.max_bytes),
            _compare("all bodies together", run.raw.sum_bytes, run.sent.sum_bytes),
            _compare("cost with a prompt cache", run.raw.cost, run.sent.cost),
            ("cached prefix broken", str(run.raw.break_count), str(run.sent.break_count), ""),
        ]
        self._indent(format_table((f"{len(fit)} model calls", "raw", "with trimtab", "share"), figures))
        self.say("  (cost: bytes that the provider has in its cache at 0.1, all others at 1.25)")
        self.say()
        self.say(f"  Fit took {fit[len(fit) // 2]:.1f} ms for half of the calls and at most {fit[-1]:.1f} ms.")

    def claim(self, text: str, faults: Sequence[str]) -> bool:
        """Say whether something holds; show the first faults when not."""
        self.say(f"  {'FAILED' if faults else 'ok':<6}  {text}")
        for fault in faults[:5]:
            self.say(f"          {fault}")
        return not faults

    def _indent(self, text: str) -> None:
        for line in text.splitlines():
            self.say(f"  {line}")


def _compare(what: str, raw: float, sent: float) -> tuple[str, str, str, str]:
    return what, format_bytes(round(raw)), format_bytes(round(sent)), f"{sent / raw:.0%}"
