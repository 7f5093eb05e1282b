"""What covered work held and nobody could read back: results, arguments and media that never left the body, as artifacts.

Without a stub in the body they had no artifact; once a summary stands in their place, it names them. No offload record is made: a
rollback gives the raw items back, not stubs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sidecar.core.cuts import Candidate, argument_candidates, content_of, media_candidates, result_candidates
from sidecar.core.paths import marker_paths
from sidecar.core.records import removals
from sidecar.core.types import ArtifactRecord, ArtifactSource, Path
from sidecar.core.units import Unit
from sidecar.engine.refs import shown

if TYPE_CHECKING:
    from sidecar.engine.fit_call import FitCall

__all__ = ["LeftBehind", "left_behind"]


class LeftBehind(NamedTuple):
    """A value that leaves with covered work."""

    number: int  # of the raw item
    path: Path  # in it
    artifact: ArtifactRecord
    source: ArtifactSource | None  # None: it is on record, by an earlier checkpoint over the same item


def left_behind(call: FitCall, units: Sequence[Unit]) -> list[LeftBehind]:
    """All values of these units that are large enough to be an artifact and are none yet. O(their bytes).

    What the read-back tool gave is left out: it is in the artifact that it came from.
    """
    session, intake = call.session, call.intake
    numbers = intake.numbers
    before = {number for record in session.checkpoints for start, end in record.gone for number in range(start, end)}
    before.update(trim.number for record in session.checkpoints for trim in record.trims)
    found: list[LeftBehind] = []
    for candidate in _candidates(call, units):
        number = numbers[candidate.item]
        records = session.records.get(number, [])
        removed = removals(records, intake.alignment.items[candidate.item].record_count)
        raw = call.cutter.raw(candidate.item, number)
        held = content_of(
            call.adapter,
            intake.body,
            candidate,
            raw=raw,
            number=number,
            removed=removed,
            markers=marker_paths(intake.body, intake.items[candidate.item], intake.parts),
            create_ms=call.now_ms,
        )
        if held is None or any(_within(held[0], record.path) or _within(record.path, held[0]) for record in records):
            continue
        path, artifact, _ = held
        source = None
        if number not in before or artifact.artifact_id not in session.artifact_ids:
            key = None if candidate.call is None else call.refs.key_of(candidate.call)
            tool = "" if candidate.call is None else shown(call.cutter.tool_name(candidate.call).encode("utf-8", "replace"))
            source = ArtifactSource(artifact.artifact_id, number, path, tool, key, candidate.is_error, call.now_ms)
        found.append(LeftBehind(number, path, artifact, source))
    return found


def _candidates(call: FitCall, units: Sequence[Unit]) -> Iterator[Candidate]:
    intake, view = call.intake, call.view
    body, items, parts = intake.body, intake.items, intake.parts
    for unit in units:
        calls = [each for each in unit.calls if not view.own_read(each)]
        owners = {index: each for each in calls for index in each.results}
        for each in calls:
            yield from argument_candidates(body, items, each, set())
        for index, each in owners.items():
            yield from result_candidates(body, items, parts, index, each, set())
        for at in sorted({parts[index].item for index in owners}):
            media = media_candidates(call.adapter, body, items, parts, at, owners.get)
            yield from (candidate for candidate in media if candidate.call is not None)


def _within(path: Path, other: Path) -> bool:
    return path[: len(other)] == other
