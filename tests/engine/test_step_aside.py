"""Checkpoints whose layout breaks a rule of the body that they stand in: made by hand, in a real store."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import msgspec
import pytest

from sidecar.core.compaction import CheckpointRecord
from sidecar.core.errors import InternalError
from sidecar.core.types import LimitsGiven, Offload, ReductionKind
from sidecar.engine import compaction as compaction_module
from sidecar.engine import shape as shape_module
from sidecar.engine.compact_messages import CompactOutcome
from sidecar.engine.record_messages import RecoverInput
from sidecar.ports import Batch
from tests.core.folding import record
from tests.helpers.bodies import TYPED, history
from tests.helpers.compacting import LOOSE, STYLES, Client, Plant, plant, violations

SUMMARY = "[trimtab checkpoint {}, revision 2: what was"


@pytest.fixture
def world() -> Iterator[Plant]:
    with plant() as made:
        yield made


def run(world: Plant, format_name: str, limits: LimitsGiven = LOOSE) -> Client:
    """A user item, then eight steps of two items each."""
    client = Client(world, format_name, limits)
    client.items = [STYLES[0].item(item) for item in history(format_name).user("go").steps(8, 900).items]
    client.fit()
    return client


def write(client: Client, records: Sequence[CheckpointRecord], offloads: Sequence[Offload] = ()) -> None:
    """Into the store, past all that Compact checks; read from there again."""
    engine = client.engine
    engine.settle()
    image, summary = engine.store.load(client.key), engine.store.summary(client.key)
    assert image is not None and summary is not None
    records = [msgspec.structs.replace(each, format=client.format) for each in records]
    head = msgspec.structs.replace(summary.head, revision=summary.head.revision + 1, checkpoint_count=len(records))
    batch = Batch(client.key, image.next_number, summary.head.revision, head, offloads=offloads, checkpoints=records)
    engine.store.submit(batch).result(10)
    engine.sessions.forget(client.key)


def covering(name: str, unit: int, after: int | None = None) -> CheckpointRecord:
    """A checkpoint over one step; its summary stands in the place of that, or behind another item."""
    gone = [1 + 2 * unit, 2 + 2 * unit]
    return record(gone, gone[-1] if after is None else after, checkpoint_id=name, summary=SUMMARY.format(name))


def torn(name: str, unit: int) -> CheckpointRecord:
    """Its summary stands between the call of the next step and the result."""
    return covering(name, unit, 3 + 2 * unit)


def aside(client: Client) -> list[str]:
    assert client.result is not None
    return [note.message.split()[0] for note in client.result.notes if note.reason == "CHECKPOINT_ASIDE"]


def recovered(client: Client) -> tuple[bytes, list[str]]:
    found = client.engine.recover(RecoverInput(client.key, include_body=True))
    return found.body, [note.message.split()[0] for note in found.notes if note.reason == "CHECKPOINT_ASIDE"]


@pytest.mark.parametrize("format_name", TYPED)
def test_fit_layout_that_breaks_a_rule_gives_raw_items(world: Plant, format_name: str) -> None:
    client = run(world, format_name)
    write(client, [torn("c1", 2)])
    assert client.fit() == client.body()
    assert aside(client) == ["c1"]
    assert client.fit() == client.body()
    client.items += [STYLES[0].item(item) for item in history(format_name).steps(1, 900).items]
    assert client.fit() == client.body()


@pytest.mark.parametrize("format_name", TYPED)
@pytest.mark.parametrize("broken", [0, 1, 2])
def test_fit_one_broken_layout_of_three_steps_aside_alone(world: Plant, format_name: str, broken: int) -> None:
    client = run(world, format_name)
    made = [torn(f"c{n + 1}", 2 * n) if n == broken else covering(f"c{n + 1}", 2 * n) for n in range(3)]
    write(client, made)
    sent = client.fit()
    assert aside(client) == [f"c{broken + 1}"]
    assert not violations(client.format, sent)
    assert [name for name in ("c1", "c2", "c3") if SUMMARY.format(name) in sent.decode()] == [
        f"c{n + 1}" for n in range(3) if n != broken
    ]
    assert client.fit() == sent
    assert client.fit(sent) == sent  # adopted


@pytest.mark.parametrize("format_name", TYPED)
def test_fit_two_broken_layouts_all_step_aside(world: Plant, format_name: str) -> None:
    client = run(world, format_name)
    write(client, [torn("c1", 0), covering("c2", 2), torn("c3", 4)])
    assert client.fit() == client.body()
    assert aside(client) == ["c1", "c2", "c3"]


@pytest.mark.parametrize("format_name", TYPED)
def test_fit_of_many_broken_layouts_reads_few_bodies(world: Plant, format_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(world, format_name)
    client.items = [STYLES[0].item(item) for item in history(format_name).user("go").steps(40, 900).items]
    client.fit()
    write(client, [torn(f"c{n + 1}", 2 * n) for n in range(19)])
    tries = 0
    real = shape_module.hold

    def counted(*given: object, **more: object) -> object:
        nonlocal tries
        tries += 1
        return real(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(shape_module, "hold", counted)
    assert client.fit() == client.body()
    assert tries <= shape_module.MAX_TRIED + 1


@pytest.mark.parametrize("format_name", TYPED)
def test_fit_broken_layout_raw_items_are_cut_as_usual(world: Plant, format_name: str) -> None:
    limits = msgspec.structs.replace(LOOSE, soft_bytes=6_000, target_bytes=3_000)
    client = run(world, format_name, msgspec.structs.replace(LOOSE, keep_unit_count=1))
    write(client, [torn("c1", 2)])
    sent = client.fit(limits=limits)
    assert aside(client) == ["c1"]
    assert len(sent) <= 6_000 < len(client.body())
    assert client.fit() == sent


@pytest.mark.parametrize("format_name", TYPED)
def test_recover_layout_that_breaks_a_rule_gives_raw_items(world: Plant, format_name: str) -> None:
    client = run(world, format_name)
    write(client, [covering("c1", 0), torn("c2", 2)])
    body, noted = recovered(client)
    assert noted == ["c2"]
    assert not violations(client.format, body)
    assert body == client.fit()


@pytest.mark.parametrize("format_name", TYPED)
def test_compact_beside_a_broken_layout_covers_what_that_covered(world: Plant, format_name: str) -> None:
    """What stepped aside covers nothing in this body: a new checkpoint covers its items, and takes its place."""
    client = run(world, format_name)
    write(client, [torn("c1", 2)])
    answer = client.compact(include_body=True)
    assert answer.outcome is CompactOutcome.COMMITTED
    assert not violations(client.format, answer.body)
    assert "CHECKPOINT_ASIDE" in {note.reason for note in answer.notes}
    assert answer.checkpoint is not None
    assert answer.checkpoint.superseded_checkpoint_ids == ("c1",)
    assert client.fit() == answer.body
    assert aside(client) == []


def test_fit_trim_that_leaves_nothing_steps_aside(world: Plant) -> None:
    client = run(world, "anthropic-messages")
    trimmed = record([5], 5, trims={6: (0,)}, summary=SUMMARY.format("c1"))
    write(client, [trimmed])
    assert client.fit() == client.body()
    assert aside(client) == ["c1"]


@pytest.mark.parametrize("format_name", TYPED)
@pytest.mark.parametrize("stub", [b'"gone"', b'"go'], ids=["in a wrong place", "no JSON"])
def test_fit_broken_without_any_checkpoint_is_internal_and_recover_tells_all_but_the_body(
    world: Plant, format_name: str, stub: bytes
) -> None:
    client = run(world, format_name)
    # A stub in the place of what a person said: no reduction may write there.
    words = Offload(ReductionKind.RESULT, 0, (b"content",), stub, "", None, 1, 1)
    write(client, [covering("c1", 0)], [words])
    with pytest.raises(InternalError):
        client.fit()
    with pytest.raises(InternalError):
        client.engine.recover(RecoverInput(client.key, include_body=True))
    found = client.engine.recover(RecoverInput(client.key))
    assert found.item_count == len(client.items)
    assert found.pressure is None
    assert "BODY_BROKEN" in {note.reason for note in found.notes}


@pytest.mark.parametrize("format_name", TYPED)
def test_compact_candidate_that_breaks_the_contract_is_kept(
    world: Plant, format_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = run(world, format_name)
    real = compaction_module.layouts

    def torn_layouts(*given: object, **more: object) -> object:
        return [each._replace(after=len(client.items) - 2) for each in real(*given, **more)]  # type: ignore[arg-type]

    monkeypatch.setattr(compaction_module, "layouts", torn_layouts)
    answer = client.compact()
    assert (answer.outcome, answer.kept_reason.name) == (CompactOutcome.KEPT, "DOES_NOT_FIT")
    assert client.fit() == client.body()
    assert json.loads(client.sent)
