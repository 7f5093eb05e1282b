"""A recording taken apart: exact bytes, valid JSON, one body a model call."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath import Grammar, GrammarSpec, Role, Shape, scan
from sidecar.demo.session import build_session
from sidecar.replay.cost import CostMeter
from sidecar.replay.steps import count_steps, grow_body, iterate_steps, plan_steps, read_history, step_body

ROLES = {b"system": Role.SYSTEM, b"user": Role.USER, b"assistant": Role.ASSISTANT, b"tool": Role.RESULT}
GRAMMAR = Grammar(
    GrammarSpec(
        history=(b"messages",),
        system=(),
        tools=(b"tools",),
        item="item",
        shapes={
            "item": Shape(by=b"role", cases={role: role.decode() for role in ROLES}),
            **{name.decode(): Shape(role=role) for name, role in ROLES.items()},
        },
    )
)


def body_of(roles: str, head: str = '{"model":"m","messages":', tail: str = ',"max_tokens":5}', space: str = "") -> bytes:
    """A body with one item a letter: s, u, a, t."""
    names = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}
    items = [f'{{"role":"{names[letter]}","content":"{index} é\\u00e9"}}' for index, letter in enumerate(roles)]
    return f"{head}[{space}{f',{space}'.join(items)}{space}]{tail}".encode()


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        ("", []),
        ("u", [1]),
        ("a", []),
        ("au", [2]),
        ("uau", [1, 3]),
        ("uaut", [1, 4]),
        ("suatata", [2, 4, 6]),
        ("uaauaa", [1, 4]),
        ("uatt", [1, 4]),
    ],
)
def test_plan_steps_for_each_run_of_roles_calls_once_before_each_answer(roles: str, expected: list[int]) -> None:
    recording = scan(body_of(roles), GRAMMAR)
    assert plan_steps(recording) == expected
    assert count_steps(recording) == len(expected)


@pytest.mark.parametrize("space", ["", "\n  "])
def test_iterate_steps_slices_the_recording_and_leaves_the_envelope(space: str) -> None:
    body = body_of("suatatta", space=space)
    whole = json.loads(body)
    steps = list(iterate_steps(scan(body, GRAMMAR)))
    assert [step.item_count for step in steps] == [2, 4, 7]
    for step in steps:
        assert json.loads(step.body) == whole | {"messages": whole["messages"][: step.item_count]}
        assert step.body.endswith(space.encode() + b'],"max_tokens":5}')
        common = step.body.rindex(b"}" + space.encode() + b"]") + 1
        assert body.startswith(step.body[:common])


def test_step_body_of_the_whole_history_is_the_recording() -> None:
    body = body_of("uatu", space=" ")
    assert step_body(scan(body, GRAMMAR), 4) == body


@pytest.mark.parametrize("count", [0, -1, 4])
def test_step_body_out_of_range_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match="3 items"):
        step_body(scan(body_of("uat"), GRAMMAR), count)


@given(st.text(alphabet="suat", max_size=12), st.sampled_from(["", " ", "\n\t"]))
def test_iterate_steps_of_any_roles_never_breaks_the_prefix(roles: str, space: str) -> None:
    meter = CostMeter()
    recording = scan(body_of(roles, space=space), GRAMMAR)
    sent = [meter.add(step.body, read_history(step.body, GRAMMAR).items_end) for step in iterate_steps(recording)]
    assert meter.break_count == 0
    assert all(after.cached_bytes > before.cached_bytes for before, after in zip(sent, sent[1:], strict=False))


def test_read_history_of_an_empty_history_ends_behind_its_bracket() -> None:
    body = b'{"messages":[ ],"x":1}'
    assert read_history(body, GRAMMAR)[1:] == (0, body.index(b"[") + 1)


def test_read_history_after_the_scan_before_gives_the_same() -> None:
    before, body = body_of("uat"), body_of("uatu")
    assert read_history(body, GRAMMAR, read_history(before, GRAMMAR).scan)[1:] == read_history(body, GRAMMAR)[1:]


def test_grow_body_puts_new_items_behind_the_adopted_ones() -> None:
    body = body_of("uatat", space="\n")
    recording = scan(body, GRAMMAR)
    adopted = b'{"model":"m","messages":[\n{"role":"user","content":"fitted"}\n],"tools":[1]}'
    grown = grow_body(adopted, read_history(adopted, GRAMMAR).items_end, recording, 1, 3)
    assert json.loads(grown) == {
        "model": "m",
        "messages": [{"role": "user", "content": "fitted"}, *json.loads(body)["messages"][1:3]],
        "tools": [1],
    }
    assert grow_body(adopted, read_history(adopted, GRAMMAR).items_end, recording, 2, 2) == adopted


def test_grow_body_of_the_raw_body_equals_the_next_step() -> None:
    recording = scan(body_of("uatat"), GRAMMAR)
    held = step_body(recording, 1)
    assert grow_body(held, read_history(held, GRAMMAR).items_end, recording, 1, 3) == step_body(recording, 3)


@pytest.mark.parametrize(("held", "wanted"), [(0, 2), (3, 2), (2, 9)])
def test_grow_body_out_of_range_is_refused(held: int, wanted: int) -> None:
    with pytest.raises(ValueError, match="cannot grow"):
        grow_body(b"", 0, scan(body_of("uat"), GRAMMAR), held, wanted)


@pytest.mark.parametrize("format", ["anthropic-messages", "openai-chat"])
def test_plan_steps_of_the_demo_session_counts_its_answers(format: str) -> None:
    session = build_session(min_calls=30, min_bytes=200_000, format=format)
    body = session.body()
    roles = [message["role"] for message in json.loads(body)["messages"]]
    assert count_steps(scan(body, GRAMMAR)) == roles.count("assistant") + 1
