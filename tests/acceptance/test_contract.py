"""The contract scenario in every format; and for each of the four categories a mutation that makes exactly its check fail."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sidecar.core import checkpoints, contract
from sidecar.core.errors import ArtifactNotFoundError
from sidecar.core.types import Anchors
from sidecar.engine import compaction
from sidecar.engine.opener import Opener
from tests.acceptance.contract.play import FIELDS, Found, Played, play, read
from tests.acceptance.contract.script import FREEZE, P99_LINE
from tests.helpers.bodies import TYPED
from tests.helpers.client import Sidecar
from tests.rpc.running import Running
from trimtab.v1 import context_pb2

LEDGER, CALLER = context_pb2.SUMMARIZER_LEDGER, context_pb2.SUMMARIZER_CALLER


@pytest.fixture
def sidecar() -> Iterator[Sidecar]:
    """A sidecar in this process, over a real socket and store, so that its code can be mutated."""
    with Running() as running:
        yield Sidecar(running.channel)


def resolver(sidecar: Sidecar, run: Played) -> Callable[[str], str]:
    """Read back by the tool, as a model does; what cannot be read is empty."""

    def read_back(artifact_id: str) -> str:
        name = sidecar.read_back_tool(run.history.format_name).name
        arguments = {"artifact_id": artifact_id}
        call: dict[str, Any] = {"type": "tool_use", "id": "r", "name": name, "input": arguments}
        if run.history.format_name == "openai-chat":
            call = {"id": "r", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        result = json.loads(sidecar.resolve(run.session_id, json.dumps(call).encode()).result)
        content = result["content"]
        text: str = content if isinstance(content, str) else content[0]["text"]
        return text.partition("\n")[2]  # behind the line that says what it is

    return read_back


def reader_of(sidecar: Sidecar, run: Played) -> Found:
    """What the reader finds in the body of step 62."""
    return read(run.bodies[-1], resolver(sidecar, run))


@pytest.mark.parametrize("summarizer", [LEDGER, CALLER], ids=["ledger", "caller"])
@pytest.mark.parametrize("thinking", [False, True], ids=["plain", "thinking"])
@pytest.mark.parametrize("format_name", TYPED)
def test_reader_without_memory_finds_everything(sidecar: Sidecar, format_name: str, thinking: bool, summarizer: int) -> None:
    run = play(sidecar, format_name, "run", thinking=thinking, summarizer=summarizer)
    assert run.compacted.outcome == context_pb2.COMPACT_OUTCOME_COMMITTED
    raw, sent = run.sizes[-1]
    assert sent < raw / 3
    assert P99_LINE.encode() not in run.bodies[-1]  # it must be read back
    found = reader_of(sidecar, run)
    assert found.fields() == dict.fromkeys(FIELDS, True)
    assert found.read_backs == 2


def without_provenance(monkeypatch: pytest.MonkeyPatch) -> None:
    """The summary forgets where the benchmark's result is."""
    real = compaction.collect_facts

    def forgetful(*arguments: Any) -> Any:
        facts = real(*arguments)
        calls = [call._replace(artifact_ids=()) if b"bench/queues" in call.arguments else call for call in facts.calls]
        return facts._replace(calls=tuple(calls))

    monkeypatch.setattr(compaction, "collect_facts", forgetful)


def without_unresolved_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """The summary leaves the agent's work out."""
    real = compaction.render_summary

    def forgetful(label: Any, facts: Any, ledger: str, notes: str) -> str:
        anchors: Anchors = facts.anchors
        kept = Anchors(anchors.goal, anchors.success_criteria, anchors.constraints, anchors.decisions, (), anchors.revision)
        return real(label, facts._replace(anchors=kept), ledger, notes)

    monkeypatch.setattr(compaction, "render_summary", forgetful)


def without_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    """The diff's record is lost."""
    real = Opener.find

    def forgetful(self: Opener, key: Any, artifact_id: str) -> Any:
        record = real(self, key, artifact_id)
        with self.open(key, record) as (view, _):
            if view.read(0, 30).startswith(b"--- a/orders/handler.py"):
                raise ArtifactNotFoundError("gone")
        return record

    monkeypatch.setattr(Opener, "find", forgetful)


def without_constraints(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint takes the user's words along, and nobody holds the finished body against the contract."""
    real = checkpoints._place

    def greedy(record: Any, numbers: Any, index_of: Any) -> Any:
        placed = real(record, numbers, index_of)
        at = _FREEZE_ITEM[0]
        return None if placed is None else placed._replace(gone=sorted({*placed.gone, at}))

    monkeypatch.setattr(checkpoints, "_place", greedy)
    monkeypatch.setattr(contract, "broken_fold", lambda *arguments: "")


_FREEZE_ITEM = [0]
MUTATIONS = {
    "provenance": without_provenance,
    "unresolved": without_unresolved_work,
    "recovery": without_recovery,
    "constraints": without_constraints,
}


@pytest.mark.parametrize("category", FIELDS)
@pytest.mark.parametrize("format_name", TYPED)
def test_mutation_of_a_category_makes_exactly_its_check_fail(
    sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch, format_name: str, category: str
) -> None:
    if category == "constraints":
        plain = play(sidecar, format_name, "plain", until=3)
        items = plain.history.items
        _FREEZE_ITEM[0] = next(at for at, item in enumerate(items) if FREEZE in json.dumps(item))
    if category != "recovery":
        MUTATIONS[category](monkeypatch)
    run = play(sidecar, format_name, "run")
    if category == "recovery":
        MUTATIONS[category](monkeypatch)
    assert run.compacted.outcome == context_pb2.COMPACT_OUTCOME_COMMITTED
    assert reader_of(sidecar, run).fields() == {name: name != category for name in FIELDS}
