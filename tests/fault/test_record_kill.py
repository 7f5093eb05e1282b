"""SIGKILL directly after an answer: what Record and a closing Recover said is there, and a repeat answers as it did."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import trimtab
from tests.helpers.bodies import TYPED, history
from tests.helpers.server import Server


@pytest.fixture(params=TYPED)
def format_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        yield made


def test_kind15_record_is_there_after_a_kill_right_behind_its_answer(server: Server, format_name: str) -> None:
    with trimtab.connect(server.target, format=format_name, read_back="none") as t:
        past = history(format_name).user("go")
        t.fit("s", past.body())
        told: list[Any] = []
        for turn in range(3):
            past.call(("deploy", {"turn": turn}))
            call_id = past.open_ids[0]
            first = t.record(
                "s",
                f"turn-{turn}",
                past.items[-1:],
                receipts=[trimtab.receipt(call_id, "pending", idempotency_key=f"k{turn}")],
                anchors={"goal": f"goal {turn}"},
            )
            server.restart()
            known = t.recover("s", include_body=True)
            assert (known.revision, known.item_count, known.history_digest) == (
                first.revision,
                first.item_count,
                first.history_digest,
            )
            assert known.anchors.goal == f"goal {turn}"
            assert [each.receipt.idempotency_key for each in known.open_calls] == [f"k{turn}"]
            assert json.loads(known.body)["messages"] == past.items
            again = t.record(
                "s",
                f"turn-{turn}",
                past.items[-1:],
                receipts=[trimtab.receipt(call_id, "pending", idempotency_key=f"k{turn}")],
                anchors={"goal": f"goal {turn}"},
            )
            assert again == first
            told.append(first.revision)
            before = len(past.items)
            past.results(f"done {turn}")
            told.append(t.record("s", f"result-{turn}", past.items[before:]).revision)
            server.restart()
        assert told == sorted(set(told))
        assert t.recover("s").open_calls == []  # type: ignore[comparison-overlap]
        fitted = t.fit_response("s", past.body())
        assert (fitted.match.new_item_count, fitted.body) == (0, b"")


def test_kind15_recover_closed_is_closed_after_a_kill_right_behind_its_answer(server: Server, format_name: str) -> None:
    with trimtab.connect(server.target, format=format_name, read_back="none") as t:
        past = history(format_name).user("go").call(("deploy", {"n": 1}), ("deploy", {"n": 2}))
        t.fit("s", past.body())
        server.restart()
        closed = t.recover("s", include_body=True, close_interrupted=True, request_id="one")
        server.restart()
        assert t.recover("s", include_body=True, close_interrupted=True, request_id="one") == closed
        after = t.recover("s", include_body=True)
        assert (after.body, after.revision) == (closed.body, closed.revision)
        server.restart()
        assert t.fit("s", closed.body) == closed.body
        assert t.last is not None
        assert (t.last.match.new_item_count, t.last.revision) == (0, closed.revision)
