"""How far a long command is, on stderr: a bar on a terminal, a plain line now and then otherwise."""

from __future__ import annotations

import shutil
import sys
from time import monotonic
from types import TracebackType
from typing import Self

import click

__all__ = ["Progress"]

STEP_PERCENT = 10
LINE_SECONDS = 1.0  # between two plain lines, but for the last
DRAW_SECONDS = 0.05
MOST_WIDE = 40


class Progress:
    """Shows phases one after another. Use it in a `with`, so that a bar does not stay behind."""

    def __init__(self) -> None:
        """Nothing is shown yet."""
        self._is_terminal = sys.stderr.isatty()
        self._phase = ""
        self._percent = -1
        self._at = 0.0
        self._drawn = False

    def tell(self, phase: str, done: int, total: int) -> None:
        """So many bytes of so many are done in this phase."""
        percent = 100 if done >= total else 100 * done // total
        now = monotonic()
        if phase != self._phase:
            self._phase, self._percent, self._at = phase, -1, 0.0
        if self._is_terminal:
            if now - self._at >= DRAW_SECONDS or percent == 100:
                self._at = now
                self._draw(phase, percent, total)
            return
        step = percent - percent % STEP_PERCENT
        if step > self._percent and (now - self._at >= LINE_SECONDS or step == 100):
            self._percent, self._at = step, now
            click.echo(f"{phase}: {percent} % of {total:,} bytes", err=True)

    def clear(self) -> None:
        """Take the bar away, so that something else can be written."""
        if self._drawn:
            click.echo("\r\x1b[K", nl=False, err=True)
            self._drawn = False
            self._at = 0.0

    def _draw(self, phase: str, percent: int, total: int) -> None:
        rest = f" {percent:3} % of {total:,} bytes"
        columns = shutil.get_terminal_size().columns
        width = max(0, min(MOST_WIDE, columns - len(phase) - len(rest) - 4))
        full = width * percent // 100
        click.echo(f"\r\x1b[K{phase} [{'#' * full}{'-' * (width - full)}]{rest}"[: columns + 3], nl=False, err=True)
        self._drawn = True

    def __enter__(self) -> Self:
        """Show progress."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Take the bar away."""
        self.clear()
