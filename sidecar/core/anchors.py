"""Anchors: merged by id, in the order first given, kept until revoked; never inferred. Texts stay verbatim."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from sidecar.core.types import Anchors, Constraint, Criterion, Decision, WorkItem

__all__ = ["merge_anchors"]

E = TypeVar("E", Criterion, Constraint, Decision, WorkItem)


def _merge(older: tuple[E, ...], newer: Iterable[E], join: Callable[[E, E], E]) -> tuple[E, ...]:
    merged = {entry.id: entry for entry in older}
    for entry in newer:
        known = merged.get(entry.id)
        merged[entry.id] = entry if known is None else join(known, entry)
    return tuple(merged.values())


def merge_anchors(older: Anchors, newer: Anchors, revision: int) -> Anchors:
    """Merge entries by id. An empty text, source or evidence leaves what stands; nothing is removed by leaving it out.

    Args:
        older: in force. Not mutated.
        newer: given now, with sources resolved.
        revision: that the session has once this is durable.

    Returns:
        `older` itself when nothing changes.
    """
    merged = Anchors(
        goal=newer.goal or older.goal,
        success_criteria=_merge(
            older.success_criteria, newer.success_criteria, lambda a, b: msgspec.structs.replace(b, text=b.text or a.text)
        ),
        constraints=_merge(
            older.constraints,
            newer.constraints,
            lambda a, b: msgspec.structs.replace(b, text=b.text or a.text, source=b.source or a.source),
        ),
        decisions=_merge(
            older.decisions,
            newer.decisions,
            lambda a, b: msgspec.structs.replace(b, text=b.text or a.text, sources=b.sources or a.sources),
        ),
        work=_merge(
            older.work,
            newer.work,
            lambda a, b: msgspec.structs.replace(b, text=b.text or a.text, evidence=b.evidence or a.evidence),
        ),
        revision=older.revision,
    )
    return older if merged == older else msgspec.structs.replace(merged, revision=revision)
