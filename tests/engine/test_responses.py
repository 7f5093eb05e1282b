"""Responses: what is its own there. Several items are one answer of the model, a text may stand for the list, shells and patches
are calls, and history can be elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fastpath import scan
from sidecar.core.compaction import CompactMode
from sidecar.core.types import EffectState, Format, LimitsGiven, ReadBack, SessionKey
from sidecar.engine.compact_messages import CompactInput, CompactOutcome
from sidecar.engine.messages import CallRef, FitInput, FitResult, ReceiptGiven
from sidecar.engine.record_messages import RecordInput, RecoverInput, RecoverResult
from sidecar.formats import ADAPTERS
from tests.helpers.recording import Desk, desk, dumped

Json = dict[str, Any]
ADAPTER = ADAPTERS[Format.OPENAI_RESPONSES]
KEEP_ALL = LimitsGiven(soft_bytes=1 << 30, target_bytes=1 << 29, externalize_bytes=0)
TINY = LimitsGiven(compact_target_bytes=1, compact_min_saving_bytes=1, keep_unit_count=1)


@pytest.fixture(scope="module")
def place() -> Iterator[Desk]:
    with desk() as made:
        yield made


class Run:
    """One session."""

    def __init__(self, place: Desk) -> None:
        place.serial += 1
        self.place = place
        self.key = SessionKey("", f"responses-{place.serial}")
        self.requests = 0

    def fit(self, items: list[Json] | str, **members: Any) -> FitResult:
        body = dumped({"model": "m", "input": items, **members})
        given = FitInput(self.key, body, format=Format.OPENAI_RESPONSES, read_back=ReadBack.CALLER, limits=KEEP_ALL)
        return self.place.engine.fit(given)

    def next(self) -> str:
        self.requests += 1
        return f"q{self.requests}"

    def record(self, items: list[Json], *receipts: ReceiptGiven) -> None:
        raw = dumped(items) if items else b""
        self.place.engine.record(RecordInput(self.key, self.next(), items=raw, receipts=receipts))

    def recover(self) -> RecoverResult:
        return self.place.engine.recover(RecoverInput(self.key, include_body=True))

    def close(self) -> RecoverResult:
        given = RecoverInput(self.key, include_body=True, close_interrupted=True, request_id=self.next())
        return self.place.engine.recover(given)


@pytest.fixture
def run(place: Desk) -> Run:
    return Run(place)


def user(text: str = "go") -> Json:
    return {"role": "user", "content": text}


def thought(id: str = "rs_1") -> Json:
    return {"type": "reasoning", "id": id, "summary": [], "encrypted_content": "c2VhbGVk"}


def call(id: str, name: str = "deploy") -> Json:
    return {"type": "function_call", "call_id": id, "name": name, "arguments": "{}"}


def output(id: str, text: str = "ok") -> Json:
    return {"type": "function_call_output", "call_id": id, "output": text}


def broken(body: bytes) -> list[str]:
    return [found.rule for found in ADAPTER.check(scan(body, ADAPTER.grammar))]


def items_of(body: bytes) -> Any:
    return json.loads(body)["input"]


def test_a_text_in_the_place_of_the_list_is_the_users_first_item(run: Run) -> None:
    first = run.fit("hello")
    assert (first.match.new_item_count, first.body) == (1, b"")
    run.place.reopen()
    assert items_of(run.recover().body) == [user("hello")]
    answer = {"role": "assistant", "content": "hi"}
    second = run.fit([user("hello"), answer])
    assert (second.match.matched_item_count, second.match.new_item_count, second.match.diverged_at) == (1, 1, None)
    assert run.fit("hello").match.diverged_at == 1  # rewound


def test_record_behind_a_text_makes_it_a_list(run: Run) -> None:
    run.fit("hello")
    run.record([thought(), call("a")])
    run.place.reopen()
    known = run.recover()
    assert items_of(known.body) == [user("hello"), thought(), call("a")]
    assert [view.call.call_id for view in known.open_calls] == ["a"]


def test_close_gives_each_kind_of_call_an_output_of_its_kind(run: Run) -> None:
    calls: list[Json] = [
        call("f"),
        {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** Begin"},
        {
            "type": "local_shell_call",
            "id": "ls_1",
            "call_id": "l",
            "status": "completed",
            "action": {"type": "exec", "command": ["ls"]},
        },
        {"type": "shell_call", "call_id": "s", "status": "completed", "action": {"commands": ["ls"]}},
        {"type": "apply_patch_call", "call_id": "p", "status": "completed", "operation": {"type": "delete_file", "path": "a"}},
        {"type": "computer_call", "id": "cu_1", "call_id": "u", "status": "completed", "action": {"type": "screenshot"}},
    ]
    run.fit([user(), thought(), *calls])
    known = run.close()
    found = {item["call_id"]: item for item in items_of(known.body)[2:] if item["type"].endswith("_output")}
    assert {id: item["type"] for id, item in found.items()} == {
        "f": "function_call_output",
        "c": "custom_tool_call_output",
        "l": "local_shell_call_output",
        "s": "shell_call_output",
        "p": "apply_patch_call_output",
    }
    assert found["p"]["status"] == "failed"
    assert found["s"]["output"][0]["outcome"] == {"type": "exit", "exit_code": 1}
    # No text can answer a computer: it stays open, and whoever asked decides.
    assert [view.call.call_id for view in run.recover().open_calls][-1] == "u"
    assert broken(known.body) == ["CALL_OPEN"]


def test_outputs_that_come_late_replace_closing_ones_once(run: Run) -> None:
    items = [user(), thought(), call("a"), call("b")]
    run.fit(items)
    closed = run.close()
    assert broken(closed.body) == []
    assert [item["type"] for item in items_of(closed.body)[4:]] == ["function_call_output"] * 2
    run.record([], ReceiptGiven(CallRef("a"), EffectState.SETTLED, result=dumped(output("a", "real"))))
    run.place.reopen()
    body = run.recover().body
    assert [item["output"] for item in items_of(body) if item.get("call_id") == "a" and "output" in item] == ["real"]
    told = run.fit([*items, output("a", "real"), output("b", "real too"), user("next")])
    assert told.match.diverged_at is None
    assert [item["output"] for item in items_of(run.recover().body) if "output" in item] == ["real", "real too"]


def test_a_turn_retires_with_its_reasoning_and_a_compaction_item_never_does(run: Run) -> None:
    items: list[Json] = [user(), {"type": "compaction", "id": "cmp_1", "encrypted_content": "c2VhbGVk"}, user("on")]
    for n in range(4):
        items += [thought(f"rs_{n}"), call(f"c{n}"), output(f"c{n}", "so it went\n" * 300)]
    run.fit(items)
    given = CompactInput(run.key, "q", limits=TINY, ignore_pressure=True, force_mid_stage=True, mode=CompactMode.EXTEND)
    made = run.place.engine.compact(given)
    assert made.outcome is CompactOutcome.COMMITTED
    fitted = run.fit(items)
    kept = items_of(fitted.body)
    assert broken(fitted.body) == []
    assert items[1] in kept
    assert [item["id"] for item in kept if item.get("type") == "reasoning"] == ["rs_3"]
    assert [item["call_id"] for item in kept if item.get("type") == "function_call"] == ["c3"]


@pytest.mark.parametrize("member", ["previous_response_id", "conversation"])
def test_history_that_is_not_in_the_body_is_said_and_nothing_is_compacted(run: Run, member: str) -> None:
    items = [user(), *(each for n in range(4) for each in (call(f"c{n}"), output(f"c{n}", "so it went\n" * 300)))]
    result = run.fit(items, **{member: "resp_1"})
    assert result.body == b""
    assert not result.advice.eligible
    given = CompactInput(run.key, "q", limits=TINY, ignore_pressure=True, force_mid_stage=True)
    assert run.place.engine.compact(given).outcome is CompactOutcome.KEPT


def test_an_approval_that_waits_stays_open_and_nobody_answers_it(run: Run) -> None:
    request = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "drop", "arguments": "{}", "server_label": "db"}
    items = [
        user(),
        *(each for n in range(3) for each in (call(f"c{n}"), output(f"c{n}", "so it went\n" * 300))),
        thought(),
        request,
    ]
    run.fit(items)
    closed = run.close()
    assert items_of(closed.body) == items
    made = run.place.engine.compact(CompactInput(run.key, "q", limits=TINY, ignore_pressure=True, force_mid_stage=True))
    assert made.outcome is CompactOutcome.COMMITTED
    assert request in items_of(run.fit(items).body)
