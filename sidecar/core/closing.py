"""Calls that have no final result: which died with the process, and what an honest result says of each. Pure.

A call that waits for a person or a long job stays open. What was never begun is closed as "not run"; what may have run is closed
as unknown, which is neither failed nor safe to run again. A result that was recorded with a receipt is the result.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from fastpath import Kind
from sidecar.core.types import EffectState, ReceiptRecord
from sidecar.core.units import Call, Unit

__all__ = ["Closing", "OpenTurn", "closing_of", "open_turns"]


class OpenTurn(NamedTuple):
    """A turn of which some calls have no final result."""

    unit: Unit
    calls: list[Call]  # all that the agent runs, in order
    open: list[Call]  # of these


class Closing(NamedTuple):
    """How a call is closed."""

    text: str
    state: EffectState  # of the receipt that is written with it


def open_turns(units: Sequence[Unit], closing: Collection[int]) -> list[OpenTurn]:
    """Turns with calls that have no final result, oldest first. What a provider runs itself is its own affair.

    Args:
        units: of a raw body.
        closing: indices of result parts that only close what a crash interrupted, the outcome unknown: not final.
    """
    found = []
    for unit in units:
        calls = [call for call in unit.calls if not call.server and call.part.kind == Kind.CALL]
        waiting = [call for call in calls if all(index in closing for index in call.results)]
        if waiting:
            found.append(OpenTurn(unit, calls, waiting))
    return found


def closing_of(receipt: ReceiptRecord | None) -> Closing | None:
    """What an honest result of a call says that has none. None: it waits, and stays open."""
    state = EffectState.UNSPECIFIED if receipt is None else receipt.state
    if state is EffectState.WAITING:
        return None
    if state is EffectState.NOT_STARTED:
        return Closing("Not run: the agent stopped before this call was begun. Nothing happened.", EffectState.FAILED)
    if state is EffectState.SETTLED:
        return Closing(
            "Interrupted: the agent stopped without the output. Its records say that the effect happened: do not repeat it.",
            EffectState.SETTLED,
        )
    if state is EffectState.FAILED:
        return Closing(
            "Interrupted: the agent stopped before it had the output. Its records say that the effect did not happen.",
            EffectState.FAILED,
        )
    return Closing(
        "Interrupted: the agent stopped while this call may have been running. The outcome is unknown: find out what happened "
        "before you repeat it.",
        EffectState.UNKNOWN,
    )
