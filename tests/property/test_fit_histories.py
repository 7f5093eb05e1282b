"""Histories made by hypothesis in both dialects, grown step by step under changing limits: the oracle finds nothing.

Parallel calls, thinking, dangling calls, repeated and empty ids, media, markers, text beside results, legacy calls.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers.bodies import FORMATS, TYPED, History, history, words
from tests.helpers.client import Agent, Sidecar, tight
from tests.helpers.rewriters import REWRITERS
from tests.helpers.server import Server
from tests.helpers.translate import history_of
from tests.helpers.view import read_view

SETTINGS = settings(
    max_examples=int(os.environ.get("TRIMTAB_EXAMPLES", "40")),  # more for a long run
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

WRITERS = sorted(set(REWRITERS) - {"node"})  # a process for each step is too slow here


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """A client of a real process."""
    with Server() as running:
        assert running.channel is not None
        yield Sidecar(running.channel)
        assert running.is_alive()


texts = st.one_of(
    st.text(max_size=40),
    st.builds(words, st.integers(1, 6_000), st.integers(0, 9)),
    st.builds(
        lambda letter, count: letter * count,
        st.sampled_from(["🙂", "漢", "\\", '"', "\x00", "\x1b", "é", "<|", "\n"]),
        st.integers(1, 900),
    ),
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=6,
)
arguments = st.dictionaries(st.text(max_size=8), values, max_size=4)
ids = st.sampled_from(["", "call_0", "x/../y", "k" * 400, None, None, None, None])
calls = st.lists(st.tuples(st.sampled_from(["read", "write", "ünïcode", ""]), arguments), min_size=1, max_size=4)

steps = st.one_of(
    st.tuples(st.just("turn"), calls, ids, texts, st.booleans(), st.booleans()),
    st.tuples(st.just("turn"), calls, ids, texts, st.booleans(), st.booleans()),
    st.tuples(st.just("dangling"), calls, ids, texts),
    st.tuples(st.just("user"), texts.filter(lambda text: bool(text.strip()))),
    st.tuples(st.just("beside"), texts.filter(lambda text: bool(text.strip()))),
    st.tuples(st.just("image"), st.binary(min_size=1, max_size=3_000)),
    st.tuples(st.just("legacy"), arguments, texts),
    st.tuples(st.just("shot"), st.binary(min_size=1, max_size=3_000), texts),
    st.tuples(st.just("interleaved"), st.integers(1, 4), texts),
    st.tuples(
        st.just("marker"),
    ),
    st.tuples(
        st.just("nothing"),
    ),
)
limits = st.builds(
    lambda soft, share, keep, external, hard: tight(
        soft,
        max(1, int(soft * share)),
        keep_unit_count=keep,
        externalize_bytes=external,
        **({"hard_bytes": soft * 2} if hard else {}),
    ),
    st.integers(1_024, 40_000),
    st.floats(0.1, 1.0),
    st.integers(0, 4),
    st.sampled_from([0, 500, 4_000, 32_768]),
    st.booleans(),
)


def content(run: History, text: str, as_blocks: bool) -> Any:
    """A result's content, as a string or as blocks."""
    return [text_part(run, text or "-"), text_part(run, text[::-1] or "-")] if as_blocks else text


def text_part(run: History, text: str) -> dict[str, Any]:
    """A text in a result's list."""
    if run.format_name == "bedrock-converse":
        return {"text": text}
    return {"type": "input_text" if run.format_name == "openai-responses" else "text", "text": text}


def picture(run: History, data: bytes) -> dict[str, Any]:
    """An image block."""
    text = base64.b64encode(data).decode()
    if run.format_name == "openai-chat":
        return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{text}"}}
    if run.format_name == "openai-responses":
        return {"type": "input_image", "image_url": f"data:image/png;base64,{text}", "detail": "auto"}
    if run.format_name == "bedrock-converse":
        return {"image": {"format": "png", "source": {"bytes": text}}}
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": text}}


def apply_step(run: History, step: tuple[Any, ...], index: int) -> None:
    """Add what the step says to the run."""
    kind = step[0]
    if kind in {"turn", "dangling"}:
        chosen = (
            None if step[2] is None else [f"{step[2]}" if len(step[1]) == 1 else f"{step[2]}{n % 2}" for n in range(len(step[1]))]
        )
        if chosen is not None and not all(chosen) and run.format_name not in TYPED:
            chosen = None  # no ids: by order alone, which only some dialects do
        thinking = words(300, index) if kind == "turn" and step[4] else ""
        run.call(*step[1], text="" if index % 3 else f"step {index}", thinking=thinking, ids=chosen)
        if kind == "turn":
            run.results(*[content(run, f"{n}{step[3]}", step[5]) for n in range(len(step[1]))], error=index % 5 == 0)
        run.user(f"word {index}") if kind == "dangling" else None
    elif kind == "user":
        run.answer(f"reply {index}").user(step[1])
    elif kind == "beside":
        run.user(step[1])
    elif kind == "image":
        run.answer("see").user_image(f"picture {index}", step[1])
    elif kind == "shot":
        run.call(("screenshot", {"n": index})).results([text_part(run, step[2] or "-"), picture(run, step[1])])
    elif kind == "interleaved":
        run.call(*[("read", {"n": n}) for n in range(step[1])], thinking=words(200, index))
        run.results(*[f"{n} {step[2]}" for n in range(step[1])])
        blocks = run.items[-2]["content"] if run.format_name == "anthropic-messages" else []
        for n in range(1, len(blocks)):
            blocks.insert(2 * n, {"type": "thinking", "thinking": words(150, (index, n)), "signature": f"c2ln{index}{n}"})
        del blocks[2 * step[1] :]
    elif kind == "legacy" and run.format_name == "openai-chat":
        call = {"name": "old", "arguments": json.dumps(step[1])}
        run.items.append({"role": "assistant", "content": None, "function_call": call})
        run.items.append({"role": "function", "name": "old", "content": step[2]})
    elif kind == "marker" and run.format_name in TYPED and isinstance(run.items[-1].get("content"), list):
        for item in run.items:
            for block in item["content"] if isinstance(item.get("content"), list) else []:
                block.pop("cache_control", None)
        run.items[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}


def stands(format_name: str, before: bytes, after: bytes, fresh: set[int]) -> list[int]:
    """Items of the earlier answer that stand otherwise in the later one, though nothing new was cut in them."""
    old, new = read_view(format_name, before), read_view(format_name, after)
    pairs = enumerate(zip(old.items[:-1], new.items, strict=False))
    return [index for index, (a, b) in pairs if index not in fresh and unmarked(a.raw(before)) != unmarked(b.raw(after))]


def unmarked(raw: bytes) -> bytes:
    """An item's bytes without the one marker that these tests write."""
    return raw.replace(b',"cache_control":{"type":"ephemeral"}', b"")


@pytest.mark.parametrize("format_name", FORMATS)
@SETTINGS
@given(plan=st.lists(st.tuples(steps, st.one_of(st.none(), limits)), min_size=2, max_size=14), first=limits)
def test_fit_any_history_whole_and_stable(sidecar: Sidecar, format_name: str, plan: list[Any], first: Any) -> None:
    run = history(format_name).user("begin")
    agent = Agent(sidecar, format_name, first)
    before = agent.fit(run.body())
    out: set[tuple[int, int, str]] = set()
    for index, (step, new_limits) in enumerate(plan):
        apply_step(run, step, index)
        sent = agent.fit(run.body(), limits=new_limits)
        now: set[tuple[int, int, str]] = {(r.kind, r.item_index, r.artifact_id) for r in agent.response.reductions}
        if not agent.response.match.HasField("diverged_at"):
            assert out <= now
            assert stands(format_name, before, sent, {item for _, item, _ in now - out}) == []
        assert agent.fit(run.body(), limits=None, oracle=False) == sent
        before, out = sent, now


def cuts_of(agent: Agent) -> set[tuple[int, int, str]]:
    """Reductions in the body answered last."""
    return {(r.kind, r.item_index, r.artifact_id) for r in agent.response.reductions}


def weight(agent: Agent, known: set[tuple[int, int, str]]) -> int:
    """Bytes of the body answered last, without the cuts that this answer made: what its limits were held against."""
    new = [r.saved_bytes for r in agent.response.reductions if (r.kind, r.item_index, r.artifact_id) not in known]
    return int(agent.response.after.total_bytes) + sum(new)


@pytest.mark.parametrize("format_name", TYPED)
@SETTINGS
@given(plan=st.lists(st.tuples(steps, st.booleans(), st.one_of(st.none(), limits)), min_size=2, max_size=12), first=limits)
def test_fit_any_history_adopted_or_raw_same_answer(sidecar: Sidecar, format_name: str, plan: list[Any], first: Any) -> None:
    run = history(format_name).user("begin")
    raw, mixed = Agent(sidecar, format_name, first), Agent(sidecar, format_name, first)
    raw.fit(run.body())
    mixed.fit(run.body())
    for index, (step, adopts, new_limits) in enumerate(plan):
        before = json.dumps(run.items)
        apply_step(run, step, index)
        known = len(json.loads(before))
        grown_only = json.dumps(run.items[:known]) == before
        body = adopted(mixed.sent, run.items[known:]) if adopts and grown_only else run.body()
        known_cuts = cuts_of(raw), cuts_of(mixed)
        raw.fit(run.body(), limits=new_limits, oracle=False)
        mixed.fit(body, raw=run.body(), limits=new_limits, respelled=True)
        if weight(raw, known_cuts[0]) != weight(mixed, known_cuts[1]):
            # Our stubs are spelled as their items are, the agent writes them in UTF-8: of two bodies of other sizes one may
            # be over a limit that the other is not.
            return
        assert json.loads(mixed.sent) == json.loads(raw.sent)
        assert mixed.response.match.HasField("diverged_at") == raw.response.match.HasField("diverged_at")
        assert not grown_only or not mixed.response.match.HasField("diverged_at")


@pytest.mark.parametrize("format_name", TYPED)
@SETTINGS
@given(
    plan=st.lists(
        st.tuples(steps, st.lists(st.sampled_from(WRITERS), max_size=2), st.one_of(st.none(), limits)), min_size=2, max_size=10
    ),
    first=limits,
)
def test_fit_any_history_rewritten_each_turn_no_branch(sidecar: Sidecar, format_name: str, plan: list[Any], first: Any) -> None:
    """The client adopts each answer and writes it in one way or another; every item is known again, and what is out stays out."""
    run = history(format_name).user("begin")
    agent = Agent(sidecar, format_name, first)
    agent.fit(run.body())
    out: set[tuple[int, int, str]] = set()
    for index, (step, writers, new_limits) in enumerate(plan):
        before = json.dumps(run.items)
        apply_step(run, step, index)
        known = len(json.loads(before))
        if json.dumps(run.items[:known]) != before:
            return
        body = adopted(agent.sent, run.items[known:])
        for name in writers:
            body = REWRITERS[name](body)
        agent.fit(body, limits=new_limits, oracle=False)
        match = agent.response.match
        assert not match.HasField("diverged_at")
        assert (match.matched_item_count, match.new_item_count) == (known, len(run.items) - known)
        now: set[tuple[int, int, str]] = {(r.kind, r.item_index, r.artifact_id) for r in agent.response.reductions}
        assert out <= now
        out = now
        json.loads(agent.sent)


def adopted(sent: bytes, fresh: list[dict[str, Any]]) -> bytes:
    """The answered body with new items at its end, written as the SDK writes it."""
    value = json.loads(sent)
    history_of(value).extend(fresh)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
