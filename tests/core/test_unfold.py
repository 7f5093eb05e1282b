"""Adopted bodies in all the ways in which clients send them back, through the real engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sidecar.core.compaction import CompactMode
from sidecar.core.types import LimitsGiven
from sidecar.engine.compact_messages import CompactOutcome
from tests.helpers.bodies import FORMATS, TYPED, history
from tests.helpers.compacting import Client, Plant, Spelled, adopt, plant, wrong

PLAIN = Spelled()


@pytest.fixture(scope="module")
def world() -> Iterator[Plant]:
    with plant() as made:
        yield made


def run(world: Plant, format_name: str, steps: int = 8, size: int = 900) -> Client:
    """A session with that many settled calls behind a request, and a newer request in the middle."""
    made = history(format_name).user("begin with this").steps(steps // 2, size).answer("so far").user("and now that")
    made.steps(steps - steps // 2, size)
    client = Client(world, format_name)
    client.items = [PLAIN.item(item) for item in made.items]
    client.fit()
    return client


def grow(client: Client, *more: str) -> None:
    """New turns at the end."""
    made = history(client.format_name)
    for text in more:
        made.answer(f"reply before {text}").user(text)
    client.items += [PLAIN.item(item) for item in made.items]


def compacted(client: Client, mode: CompactMode = CompactMode.EXTEND) -> str:
    """Compact and send the raw history; the summary's text."""
    answer = client.compact(mode=mode)
    assert answer.outcome is CompactOutcome.COMMITTED, answer
    client.fit()
    assert wrong(client, client.body()) == []
    return client.live()[-1][1]


def sent_items(client: Client) -> list[dict[str, Any]]:
    return list(json.loads(client.sent)["messages"])


def texts(client: Client) -> list[str]:
    """All texts of the body answered last."""
    found: list[str] = []
    for item in sent_items(client):
        content = item["content"]
        blocks = [{"text": content}] if isinstance(content, str) else content or []
        found += [block["text"] for block in blocks if "text" in block]
    return found


def diverged(client: Client) -> int | None:
    assert client.result is not None
    return client.result.match.diverged_at


@pytest.mark.parametrize("format_name", FORMATS)
def test_unfold_adopted_body_same_history(world: Plant, format_name: str) -> None:
    client = run(world, format_name)
    compacted(client)
    sent = client.sent
    client.fit(sent)
    assert client.result is not None
    assert client.result.body == b""
    assert (client.result.match.new_item_count, diverged(client)) == (0, None)
    grow(client, "more")
    client.fit(client.adopted())
    assert client.result.match.new_item_count == 2
    assert wrong(client, sent) == []


@pytest.mark.parametrize("format_name", TYPED)
def test_unfold_summary_quoted_by_user_is_text(world: Plant, format_name: str) -> None:
    client = run(world, format_name)
    summary = compacted(client)
    grow(client, f"what does this mean: {summary}")
    client.fit(client.adopted())
    assert diverged(client) is None
    assert texts(client).count(summary) == 1
    assert "SUMMARY_DISPLACED" not in client.notes  # a quote inside other words is nothing to note


@pytest.mark.parametrize("format_name", TYPED)
@pytest.mark.parametrize("adopts", [False, True])
def test_unfold_summary_pasted_alone_is_text_and_the_true_one_stands(world: Plant, format_name: str, adopts: bool) -> None:
    client = run(world, format_name)
    summary = compacted(client)
    grow(client, summary, "go on")
    client.fit(client.adopted() if adopts else client.body())
    assert diverged(client) is None
    assert client.notes.count("SUMMARY_DISPLACED") == 1
    assert texts(client).count(summary) == 2
    first = client.sent
    client.fit(first)
    assert client.result is not None
    assert client.result.body == b""
    assert client.result.match.new_item_count == 0


@pytest.mark.parametrize("format_name", TYPED)
def test_unfold_quote_of_a_summary_of_a_left_branch_is_text(world: Plant, format_name: str) -> None:
    """What it covers is not on this branch, and all of this branch is in the body: somebody quotes it."""
    client = run(world, format_name)
    summary = compacted(client)
    client.roll_back("c1")
    made = (
        history(format_name).answer("anew").steps(3, 900).answer("b").user(summary).steps(3, 900).answer("c").user("on").step("x")
    )
    client.items = [client.items[0], *(PLAIN.item(item) for item in made.items)]
    client.fit()
    assert client.compact().outcome is CompactOutcome.COMMITTED
    client.fit()
    sent = client.sent
    assert texts(client).count(summary) == 1
    client.fit(sent)
    assert client.sent == sent
    assert diverged(client) is None
    assert client.result is not None and client.result.match.new_item_count == 0
    assert "SUMMARY_DISPLACED" in client.notes


@pytest.mark.parametrize("format_name", TYPED)
def test_unfold_several_quotes_do_not_keep_the_true_ones_from_being_opened(world: Plant, format_name: str) -> None:
    client = run(world, format_name)
    first = compacted(client)
    grow(client, "more")
    client.items += [PLAIN.item(item) for item in history(format_name).steps(5, 900).items]
    client.fit()
    client.roll_back("c1")
    second_again = client.compact(mode=CompactMode.REDERIVE)
    assert second_again.outcome is CompactOutcome.COMMITTED
    client.roll_back("c2")
    third = client.compact(mode=CompactMode.REDERIVE)
    assert third.outcome is CompactOutcome.COMMITTED
    assert second_again.checkpoint is not None
    client.fit()
    grow(client, first, second_again.checkpoint.summary.decode(), "go on")
    client.fit(client.adopted())
    assert diverged(client) is None
    assert client.notes.count("SUMMARY_DISPLACED") == 1
    live = client.live()
    assert [texts(client).count(each[1]) for each in live] == [1]
    assert len([text for text in texts(client) if text.startswith("[trimtab checkpoint")]) == 3


@pytest.mark.parametrize("format_name", TYPED)
def test_unfold_summary_moved_elsewhere_is_text_and_noted(world: Plant, format_name: str) -> None:
    client = run(world, format_name)
    summary = compacted(client)
    value = json.loads(client.sent)
    items = value["messages"]
    for item in list(items):
        if item["content"] == summary:
            items.remove(item)
        elif isinstance(item["content"], list):
            item["content"] = [block for block in item["content"] if block.get("text") != summary]
    items += [{"role": "assistant", "content": "fine"}, {"role": "user", "content": summary}]
    client.fit(json.dumps(value).encode())
    assert "SUMMARY_DISPLACED" in client.notes
    assert texts(client).count(summary) == 1


@pytest.mark.parametrize("format_name", TYPED)
def test_unfold_new_text_in_the_summary_item_is_a_new_item(world: Plant, format_name: str) -> None:
    """Clients that merge neighbors put what the user says next into the item that ends the body."""
    made = history(format_name).user("begin").steps(6, 900).answer("done").user("thanks")
    client = Client(world, format_name)
    client.items = [PLAIN.item(item) for item in made.items]
    client.fit()
    summary = compacted(client)
    value = json.loads(client.sent)
    last = value["messages"][-1]
    blocks = [{"type": "text", "text": last["content"]}] if isinstance(last["content"], str) else last["content"]
    last["content"] = [*blocks, {"type": "text", "text": "one more wish"}]
    client.fit(json.dumps(value).encode())
    assert texts(client).count(summary) == 1
    assert texts(client).count("one more wish") == 1
    assert texts(client).count("thanks") == 1
    assert [each[0] for each in client.live()] == ["c1"]
    again = client.sent
    client.fit(again)
    assert client.result is not None
    assert client.result.body == b""
    assert client.result.match.new_item_count == 0


def test_unfold_new_text_behind_the_summary_in_one_item_keeps_it(world: Plant) -> None:
    """A messages body that ends with the summary: the user's next words go into its item."""
    made = history("anthropic-messages").user("begin").steps(6, 900)
    client = Client(world, "anthropic-messages")
    client.items = [PLAIN.item(item) for item in made.items]
    client.fit(limits=client.limits)
    answer = client.compact(limits=keep_none())
    assert answer.outcome is CompactOutcome.COMMITTED
    client.fit()
    assert len(sent_items(client)) == 1
    value = json.loads(client.sent)
    value["messages"][0]["content"].append({"type": "text", "text": "one more wish"})
    client.fit(json.dumps(value).encode())
    assert client.result is not None
    assert (diverged(client), client.result.match.new_item_count) == (None, 1)
    assert len(sent_items(client)) == 1
    assert texts(client)[-1] == "one more wish"


def keep_none() -> LimitsGiven:
    return LimitsGiven(keep_unit_count=0)


@pytest.mark.parametrize("format_name", TYPED)
def test_unfold_oldest_items_dropped_nothing_else_lost(world: Plant, format_name: str) -> None:
    client = run(world, format_name, steps=20)
    summary = compacted(client)
    grow(client, *[f"word {n:02}" for n in range(12)])
    client.fit(client.adopted())
    value = json.loads(client.sent)
    kept = value["messages"][10:]
    value["messages"] = kept
    client.fit(json.dumps(value).encode())
    assert diverged(client) is not None
    assert texts(client).count(summary) == 0
    said = [text for text in texts(client) if text.startswith("word")]
    asked = json.dumps([item for item in kept if item["role"] == "user"])
    assert said == [f"word {n:02}" for n in range(12) if f"word {n:02}" in asked]
    assert len(said) > 3


@pytest.mark.parametrize("format_name", TYPED)
def test_unfold_raw_oldest_items_dropped_checkpoint_aside(world: Plant, format_name: str) -> None:
    client = run(world, format_name, steps=12)
    summary = compacted(client)
    whole = list(client.items)
    client.items = whole[5:]
    client.fit()
    assert "CHECKPOINT_ASIDE" in client.notes
    assert texts(client).count(summary) == 0
    client.items = whole
    client.fit()
    assert "CHECKPOINT_ASIDE" not in client.notes
    assert texts(client).count(summary) == 1


@pytest.mark.parametrize("format_name", TYPED)
@pytest.mark.parametrize("adopts", [False, True])
def test_unfold_rewind_before_and_behind_a_summary(world: Plant, format_name: str, adopts: bool) -> None:
    client = run(world, format_name)
    grow(client, "first way", "second way")
    client.fit()
    summary = compacted(client)
    full, whole = client.sent, list(client.items)
    # In front of the tail: one branch, the summary stays.
    grow(client, "third way")
    client.fit(client.adopted() if adopts else client.body())
    client.items = [*whole, *[PLAIN.item(item) for item in history(format_name).answer("other").user("fourth way").items]]
    client.fit(adopt(full, client.items[len(whole) :], client.back) if adopts else client.body())
    assert diverged(client) == len(whole)
    assert texts(client).count(summary) == 1
    # Behind the summary: it steps aside, and applies again when its items come back.
    client.items = [*whole[:3], *[PLAIN.item(item) for item in history(format_name).user("start over").items]]
    client.fit()
    assert "CHECKPOINT_ASIDE" in client.notes
    assert diverged(client) == 3
    assert texts(client).count(summary) == 0
    client.items = whole
    client.fit(full if adopts else client.body())
    assert "CHECKPOINT_ASIDE" not in client.notes
    assert client.sent == full
    client.fit(full if adopts else client.body())
    assert diverged(client) is None


@pytest.mark.parametrize("format_name", FORMATS)
def test_unfold_summary_taken_back_gives_raw_items(world: Plant, format_name: str) -> None:
    client = run(world, format_name)
    before = client.sent
    compacted(client)
    adopted = client.sent
    client.roll_back("c1")
    client.fit(adopted)
    assert client.sent == before
    assert diverged(client) is None


@pytest.mark.parametrize("format_name", FORMATS)
def test_unfold_after_restart_same_bytes(world: Plant, format_name: str) -> None:
    client = run(world, format_name)
    compacted(client)
    adopted = client.sent
    world.reopen()
    client.fit(adopted)
    assert client.result is not None
    assert client.result.body == b""
    world.reopen()
    client.fit()
    assert client.sent == adopted


@pytest.mark.parametrize("format_name", FORMATS)
def test_unfold_many_summaries_in_a_row_each_once(world: Plant, format_name: str) -> None:
    client = run(world, format_name)
    for turn in range(6):
        compacted(client)
        client.items += [PLAIN.item(item) for item in history(format_name).user(f"wish {turn}").steps(3, 1500, turn).items]
        client.fit(client.adopted())
        assert diverged(client) is None
        assert wrong(client, client.sent) == []
    assert len(client.live()) == 6
    client.fit(json.dumps(json.loads(client.sent)).encode())
    assert diverged(client) is None
