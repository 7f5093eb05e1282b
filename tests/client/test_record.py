"""The client's record and recover against a real sidecar, and its async twin."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

import trimtab
from sidecar.app import App
from trimtab.v1 import common_pb2

CALL = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "deploy", "input": {"n": 1}}]}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "é"}
BODY = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "go"}]}


class _Block:
    """As an SDK's object."""

    def model_dump(self, **options: Any) -> Any:
        return CALL


@pytest.fixture
def client(app: App) -> Iterator[trimtab.Trimtab]:
    with trimtab.connect(app.address, format="anthropic-messages", read_back="none") as made:
        yield made


def test_record_keeps_items_receipts_and_anchors_and_recover_tells_them(client: trimtab.Trimtab) -> None:
    client.fit("s", BODY)
    pending = trimtab.receipt("t1", "pending", idempotency_key="k", detail="d")
    first = client.record("s", "one", [_Block()], receipts=[pending], anchors={"goal": "g"}, expected_revision=0)
    assert (first.revision, first.item_count) == (1, 2)
    assert client.record("s", "one", [CALL], receipts=[pending], anchors={"goal": "g"}) == first
    known = client.recover("s", include_body=True)
    assert json.loads(known.body) == {**BODY, "messages": [*BODY["messages"], CALL]}  # type: ignore[misc]
    (opened,) = known.open_calls
    assert (opened.call.call_id, opened.call.item_index, opened.tool_name) == ("t1", 1, "deploy")
    assert (opened.receipt.state, opened.receipt.idempotency_key) == (common_pb2.EFFECT_STATE_PENDING, "k")
    assert known.anchors.goal == "g"
    assert client.recover("s").body == b""


def test_record_bytes_go_as_they_are_at_their_place(client: trimtab.Trimtab) -> None:
    client.fit("s", BODY)
    client.record("s", "one", b' [ {"role":"assistant","content":"a"} ] ')
    assert client.record("s", "two", memoryview(b'[{"role":"user","content":"b"}]'), first_item_index=1).item_count == 2
    assert client.recover("s", include_body=True).body.endswith(b'{"role":"user","content":"b"}]}')


def test_recover_closes_what_died_once(client: trimtab.Trimtab) -> None:
    client.fit("s", BODY)
    client.record("s", "one", [CALL])
    closed = client.recover("s", include_body=True, close_interrupted=True, request_id="c", expected_revision=1)
    assert closed.revision == 2
    assert b"outcome is unknown" in closed.open_calls[0].closed_by
    assert closed.open_calls[0].closed_by in closed.body
    assert client.recover("s", include_body=True, close_interrupted=True, request_id="c", expected_revision=1) == closed


def test_receipt_names_a_call_in_three_ways() -> None:
    by_id = trimtab.receipt("t1", "not-started")
    assert by_id == common_pb2.Receipt(call=common_pb2.CallRef(call_id="t1"), state=common_pb2.EFFECT_STATE_NOT_STARTED)
    place = trimtab.receipt((0, 2), "settled", result=RESULT)
    assert place.call == common_pb2.CallRef(item_index=0, call_index=2)
    assert place.result == json.dumps(RESULT, ensure_ascii=False, separators=(",", ":")).encode()
    assert trimtab.receipt(place.call, "waiting").call == place.call


def test_record_and_recover_mistakes_are_told_before_a_call_or_by_their_class(client: trimtab.Trimtab) -> None:
    with pytest.raises(ValueError, match="not-started"):
        trimtab.receipt("t1", "done")
    for items in ("[]", {"role": "user"}):
        with pytest.raises(TypeError):
            client.record("s", "one", items)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="request_id"):
        client.recover("s", close_interrupted=True)
    with pytest.raises(trimtab.SessionNotFoundError):
        client.recover("s")
    client.record("s", "one", [CALL])
    with pytest.raises(trimtab.NoBodyError):
        client.recover("s", include_body=True)
    with pytest.raises(trimtab.RequestIdReusedError):
        client.record("s", "one", [])
    with pytest.raises(trimtab.CallNotFoundError):
        client.record("s", "two", receipts=[trimtab.receipt("t9", "pending")])
    with pytest.raises(trimtab.MalformedBodyError):
        client.record("s", "two", b"[{]")
    with pytest.raises(trimtab.InvalidFieldError):
        client.record("s", "", [CALL])
    with pytest.raises(trimtab.RevisionConflictError) as caught:
        client.record("s", "two", [], expected_revision=7)
    assert caught.value.details["revision"] == "1"


def test_async_record_and_recover_do_the_same(app: App) -> None:
    async def main() -> None:
        async with trimtab.connect_async(app.address, format="anthropic-messages", read_back="none") as t:
            await t.fit("s", BODY)
            first = await t.record("s", "one", [CALL], receipts=[trimtab.receipt("t1", "pending")])
            assert (first.revision, first.item_count) == (1, 2)
            assert [each.call.call_id for each in (await t.recover("s")).open_calls] == ["t1"]
            closed = await t.recover("s", include_body=True, close_interrupted=True, request_id="c")
            assert closed.open_calls[0].closed_by in closed.body
            with pytest.raises(trimtab.SessionNotFoundError):
                await t.recover("nobody")

    asyncio.run(main())
