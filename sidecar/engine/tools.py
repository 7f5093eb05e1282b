"""What Fit asks of a body's tools: their names, and the edit that adds the read-back tool.

Reading twenty tools takes as long as all the rest of a small Fit, and they seldom change in a run; so the answers are kept with
the body, and hold for one with the same envelope.
"""

from __future__ import annotations

from functools import cached_property

from fastpath import Edit, Scan
from sidecar.engine.answer import same_envelope
from sidecar.formats.base import Adapter

__all__ = ["Tools"]

HEAD_BYTES = 512
"""The spelling of an envelope without tools is read off so many bytes of the body, of which some may be history."""


class Tools:
    """Tools of one body; read when they are asked for."""

    def __init__(self, adapter: Adapter, scanned: Scan) -> None:
        """Of a body in that dialect."""
        self._adapter = adapter
        self._scan = scanned

    @cached_property
    def names(self) -> list[bytes]:
        """Decoded names, in order."""
        return self._adapter.tool_names(self._scan)

    @cached_property
    def injection(self) -> Edit | None:
        """See `Adapter.inject_tool`."""
        return self._adapter.inject_tool(self._scan)

    def of(self, adapter: Adapter, scanned: Scan) -> Tools:
        """Tools of another body: with the same answers, where its envelope is the same."""
        other, old = Tools(adapter, scanned), self._scan
        if adapter is not self._adapter or old.body[:HEAD_BYTES] != scanned.body[:HEAD_BYTES] or not same_envelope(old, scanned):
            return other
        known = vars(self)
        if "names" in known:
            other.names = self.names
        if "injection" in known:
            edit, moved = self.injection, scanned.history[1] - old.history[1]
            behind = edit is not None and edit.start >= old.history[1]
            other.injection = Edit(edit.start + moved, edit.end + moved, edit.data) if edit is not None and behind else edit
        return other
