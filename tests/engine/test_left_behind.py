"""What never left the body before it was covered can be read back exactly: by the tool, whatever the summary has room to name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from sidecar.core.compaction import CompactMode
from sidecar.core.types import Format, LimitsGiven, ReadBack, SessionKey
from sidecar.engine.compact_messages import CompactInput, CompactOutcome, CompactResult, RollbackInput
from sidecar.engine.messages import FitInput, FitResult
from sidecar.engine.readback import resolve_call
from sidecar.formats import adapter
from tests.helpers.bodies import FORMATS, History, history, words
from tests.helpers.compacting import Plant, plant
from tests.helpers.cst import parse

LIMITS = LimitsGiven(
    soft_bytes=1 << 30,
    target_bytes=1 << 29,
    min_saving_bytes=1,
    externalize_bytes=0,
    compact_target_bytes=1,
    compact_min_saving_bytes=1,
    keep_unit_count=1,
)


@pytest.fixture
def world() -> Iterator[Plant]:
    with plant() as made:
        yield made


class Run:
    """Sixty steps with results of 900 bytes each: none is cut, and no summary can name them all."""

    def __init__(self, world: Plant, form: str, read_back: ReadBack = ReadBack.INJECT, steps: int = 60) -> None:
        self.world, self.key, self.read_back = world, SessionKey("", "s"), read_back
        self.results = [words(900, n) for n in range(steps)]
        self.history: History = history(form).user("go")
        for n, result in enumerate(self.results):
            self.history.call(("read_file", {"path": f"{n}.py"})).results(result)
        self.sent = self.fit()

    def fit(self) -> bytes:
        given = FitInput(
            self.key, self.history.body(), format=Format(self.history.format), limits=LIMITS, read_back=self.read_back
        )
        result: FitResult = self.world.engine.fit(given)
        return result.body or self.history.body()

    def compact(self, request_id: str = "r", **fields: object) -> CompactResult:
        given = CompactInput(self.key, request_id, boundary="b", ignore_pressure=True, **fields)  # type: ignore[arg-type]
        result = self.world.engine.compact(given)
        assert result.outcome is CompactOutcome.COMMITTED
        return result

    def ask(self, **arguments: object) -> str:
        """The read-back tool's answer to a model's call."""
        dialect = adapter(Format(self.history.format))
        given = json.dumps(arguments)
        calls: dict[Format, dict[str, object]] = {
            Format.OPENAI_CHAT: {"id": "x", "type": "function", "function": {"name": "trimtab_read", "arguments": given}},
            Format.OPENAI_RESPONSES: {"type": "function_call", "call_id": "x", "name": "trimtab_read", "arguments": given},
            Format.ANTHROPIC_MESSAGES: {"type": "tool_use", "id": "x", "name": "trimtab_read", "input": arguments},
            Format.GEMINI: {"functionCall": {"name": "trimtab_read", "args": arguments}},
            Format.BEDROCK_CONVERSE: {"toolUse": {"toolUseId": "x", "name": "trimtab_read", "input": arguments}},
        }
        result, _ = resolve_call(dialect, self.world.engine.reader, self.key, json.dumps(calls[dialect.format]).encode())
        return max((node.string(result) or b"" for node in parse(result).walk()), key=len).decode()

    def artifacts(self) -> list[str]:
        self.world.engine.settle()
        return [source.artifact_id for _, source in self.world.store.list_sources(self.key, -1, 10_000)]


def ids_in(text: str) -> list[str]:
    return re.findall(r"\b[0-9a-f]{32}\b", text)


@pytest.mark.parametrize("form", FORMATS)
def test_every_covered_result_is_read_back_exactly_by_what_the_summary_says(world: Plant, form: str) -> None:
    run = Run(world, form)
    made = run.compact()
    assert made.checkpoint is not None
    summary = made.checkpoint.summary.decode()
    assert 'trimtab_read with artifact_id="c1" lists what it covers' in summary
    named = ids_in(summary)
    assert named
    world.reopen()
    listed = ids_in(run.ask(artifact_id="c1"))
    assert set(named) <= set(listed)
    read = [run.ask(artifact_id=each).split("\n", 1)[1] for each in listed]
    assert read == run.results[:-1]  # the newest unit is not covered


@pytest.mark.parametrize("form", FORMATS)
def test_a_pattern_is_looked_for_in_all_that_a_summary_covers(world: Plant, form: str) -> None:
    run = Run(world, form)
    run.compact()
    wanted = run.results[7].split()[40:44]
    answer = run.ask(artifact_id="checkpoint c1", pattern=" ".join(wanted))
    (found,) = ids_in(answer)
    assert run.ask(artifact_id=found).split("\n", 1)[1] == run.results[7]
    assert "item 15 " in answer or "item 16 " in answer
    assert "no hit" in run.ask(artifact_id="c1", pattern="nobody said that")
    assert "There is no checkpoint c9" in run.ask(artifact_id="c9")


def test_a_list_goes_on_where_it_was_cut(world: Plant) -> None:
    run = Run(world, "openai-chat", steps=500)
    run.compact()
    first = run.ask(artifact_id="c1")
    assert len(first.encode()) <= 32_768
    more = re.search(r"continue with start=(\d+)", first)
    assert more is not None
    rest = run.ask(artifact_id="c1", start=int(more[1]))
    assert len(ids_in(first) + ids_in(rest)) == len(run.results) - 1
    assert not set(ids_in(first)) & set(ids_in(rest))


@pytest.mark.parametrize("form", FORMATS)
def test_rollback_gives_the_bytes_before_and_making_it_anew_keeps_nothing_twice(world: Plant, form: str) -> None:
    run = Run(world, form)
    run.compact()
    once = run.artifacts()
    assert len(once) == len(run.results) - 1
    run.history.steps(4, 2_000)
    run.fit()
    made = run.compact("anew", mode=CompactMode.REDERIVE)
    assert made.checkpoint is not None and made.checkpoint.superseded_checkpoint_ids == ("c1",)
    anew = run.artifacts()
    assert (anew[: len(once)], len(anew)) == (once, len(once) + 4)  # that of the unit that was the newest, and three more
    world.engine.rollback(RollbackInput(run.key, "back", "c1"))
    del run.history.items[-8:]
    assert run.fit() == run.sent
    assert run.artifacts() == anew


def test_equal_results_are_one_artifact_and_a_read_back_is_none(world: Plant) -> None:
    run = Run(world, "openai-chat", steps=3)
    same = words(2_000, 99)
    for n in range(3):
        run.history.call(("read_file", {"path": "same.py", "n": n})).results(same)
    run.history.call(("trimtab_read", {"artifact_id": "0" * 32})).results(words(3_000, 5))
    run.history.step("end")
    run.fit()
    run.compact()
    kept = run.artifacts()
    assert len(kept) == 6
    assert len(set(kept)) == 4


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_is_kept_where_nobody_could_read_it(world: Plant, form: str) -> None:
    run = Run(world, form, ReadBack.NONE)
    made = run.compact()
    assert made.checkpoint is not None
    assert run.artifacts() == []
    assert b"trimtab_read" not in made.checkpoint.summary


def test_nothing_is_kept_when_nothing_is_committed(world: Plant) -> None:
    run = Run(world, "openai-chat")
    given = CompactInput(run.key, "dry", boundary="b", ignore_pressure=True, dry_run=True)
    assert world.engine.compact(given).outcome is CompactOutcome.KEPT
    assert run.artifacts() == []
