"""Answers: sizes, reductions and matches as callers see them."""

from __future__ import annotations

from collections.abc import Sequence

from fastpath import Scan, Sizes
from sidecar.core.projection import Totals
from sidecar.core.records import Applied
from sidecar.core.types import ArtifactRecord, ArtifactSource
from sidecar.engine.messages import ArtifactView, CallRef, Pressure, Reduction, ReductionTotal, TokenBasis
from sidecar.engine.refs import Refs

__all__ = ["applied_reduction", "pressure", "same_envelope", "shown_totals", "view_of"]


def pressure(sizes: Sizes, tokens: int | None, basis: TokenBasis) -> Pressure:
    """Sizes of a body, with what is known of its tokens."""
    return Pressure(
        sizes.total,
        sizes.system,
        sizes.tools,
        sizes.user,
        sizes.assistant,
        sizes.reasoning,
        sizes.call,
        sizes.result,
        sizes.media,
        sizes.other,
        tokens,
        basis,
    )


def applied_reduction(applied: Applied, refs: Refs) -> Reduction:
    """A record at work in a body."""
    edit = applied.edit
    record = applied.record
    saved = record.saved_bytes if edit is None else edit.end - edit.start - len(edit.data)
    call = refs.ref_of(record.call)
    return Reduction(record.kind, applied.item, call, record.artifact_id, "", saved)


def shown_totals(old: Totals, new: Sequence[Reduction]) -> tuple[ReductionTotal, ...]:
    """By kind: what records of old save, and what reductions of this call add."""
    if not old and not new:
        return ()
    sums = dict(old)
    for reduction in new:
        count, saved = sums.get(reduction.kind, (0, 0))
        sums[reduction.kind] = (count + 1, saved + reduction.saved_bytes)
    return tuple(ReductionTotal(kind, *sums[kind]) for kind in sorted(sums))


def view_of(record: ArtifactRecord, source: ArtifactSource, call: CallRef | None, item_index: int) -> ArtifactView:
    """An artifact at one of its places."""
    return ArtifactView(
        record.artifact_id,
        record.sha256,
        record.size_bytes,
        record.line_count,
        record.media_type,
        source.tool_name,
        call,
        item_index,
        source.is_error,
        source.create_ms,
    )


def same_envelope(one: Scan, other: Scan) -> bool:
    """Outside of the history the two bodies are byte-equal."""
    (start, end), (other_start, other_end) = one.history, other.history
    if start != other_start or len(one.body) - end != len(other.body) - other_end:
        return False
    view = memoryview(one.body)  # tools can be large: compared in place
    return other.body.startswith(view[:start]) and other.body.endswith(view[end:])
