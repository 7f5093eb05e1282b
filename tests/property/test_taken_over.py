"""What is taken over from the body before makes no difference: rows, judgement and units of a longer body, read on from an
earlier one, are those of the same body read alone.

Histories are of any kind, right or wrong: runs of one role, results that are late, repeated, missing or out of place, ids that
repeat or are empty, tools that the provider ran, thinking, empty items, items that are no objects.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath import scan
from sidecar.core.types import Format
from sidecar.core.units import Call, Grouped, Unit, group_units
from sidecar.engine.reading import Reading, read_body
from sidecar.formats import ADAPTERS
from sidecar.formats.base import Adapter
from tests.helpers.corpus import corpus_dir

Json = Any
IDS = ["a", "b", "c", "", "ü"]
BY_FOLDER = {"openai-chat": ADAPTERS[Format.OPENAI_CHAT], "anthropic-messages": ADAPTERS[Format.ANTHROPIC_MESSAGES]}
FILES = sorted(path for folder in BY_FOLDER for path in corpus_dir().glob(f"{folder}/*.json"))

ids = st.sampled_from(IDS)
blocks = st.one_of(
    st.builds(lambda id: {"type": "tool_use", "id": id, "name": "run", "input": {}}, ids),
    st.builds(lambda id: {"type": "tool_use", "id": id, "name": "run", "input": {}}, ids),
    st.builds(lambda id: {"type": "tool_result", "tool_use_id": id, "content": "ok"}, ids),
    st.builds(lambda id: {"type": "tool_result", "tool_use_id": id, "content": "ok"}, ids),
    st.builds(lambda id: {"type": "server_tool_use", "id": id, "name": "search", "input": {}}, ids),
    st.builds(lambda id: {"type": "mcp_tool_result", "tool_use_id": id, "content": "ok"}, ids),
    st.just({"type": "thinking", "thinking": "so", "signature": "s"}),
    st.just({"type": "tool_use", "name": "run", "input": []}),
    st.sampled_from(["text", " "]).map(lambda text: {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}),
)
messages = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["user", "assistant", "user", "assistant", "user", "assistant", "system", "nobody"]),
    st.one_of(st.lists(blocks, max_size=3), st.sampled_from(["text", "", None])),
)
functions = st.sampled_from(["{}", 1]).map(lambda text: {"name": "run", "arguments": text})
chat_calls = st.lists(
    st.builds(lambda id, function: {"id": id, "type": "function", "function": function}, ids, functions), max_size=3
)
chat = st.one_of(
    st.builds(lambda calls: {"role": "assistant", "content": None, "tool_calls": calls}, chat_calls),
    st.builds(lambda id: {"role": "tool", "tool_call_id": id, "content": "ok"}, ids),
    st.builds(lambda id: {"role": "tool", "tool_call_id": id, "content": "ok"}, ids),
    st.sampled_from(["user", "assistant", "system", "nobody"]).map(lambda role: {"role": role, "content": "text"}),
    st.just({"role": "assistant", "content": None, "function_call": {"name": "run", "arguments": "{}"}}),
    st.just({"role": "function", "name": "run", "content": "ok"}),
    st.just({"role": "user", "content": []}),
    st.just(7),
)


def body_of(items: list[Json], **envelope: Json) -> bytes:
    return json.dumps({"messages": items, "model": "m", **envelope}, separators=(",", ":")).encode()


def told(reading: Reading) -> tuple[object, ...]:
    return reading.items, reading.parts, reading.judged


def call_told(call: Call) -> tuple[object, ...]:
    return call.item, call.call_index, call.index, call.part, call.id, call.server, call.results


def grouped_told(grouped: Grouped) -> tuple[object, ...]:
    def unit_told(unit: Unit) -> tuple[object, ...]:
        return unit.first, unit.end, unit.reach, unit.turn, [call_told(call) for call in unit.calls], unit.reasoning

    late = {key: [(unit.first, call_told(call)) for unit, call in waiting] for key, waiting in grouped.late.items() if waiting}
    return [unit_told(unit) for unit in grouped.units], late


def check_read_on(adapter: Adapter, bodies: list[bytes]) -> None:
    """Read each body on from the one before, and alone."""
    reading: Reading | None = None
    grouped: Grouped | None = None
    for body in bodies:
        alone = read_body(body, adapter)
        reading = read_body(body, adapter, reading)
        assert told(reading) == told(alone)
        assert adapter.check(scan(body, adapter.grammar)) == alone.judged.violations
        before = None if grouped is None else grouped_told(grouped)
        known = grouped
        grouped = group_units(reading.items, reading.parts, reading.decode, known, reading.since)
        assert grouped_told(grouped) == grouped_told(group_units(alone.items, alone.parts, alone.decode))
        assert known is None or grouped_told(known) == before  # it was not changed


@pytest.mark.parametrize(("adapter", "item"), [(BY_FOLDER["anthropic-messages"], messages), (BY_FOLDER["openai-chat"], chat)])
@settings(deadline=None, max_examples=150)
@given(data=st.data(), thinking=st.booleans())
def test_body_read_on_from_another_is_read_as_alone(adapter: Adapter, item: Any, data: st.DataObject, thinking: bool) -> None:
    items = data.draw(st.lists(item, max_size=6))
    envelope = {"thinking": {"type": "enabled"}} if thinking else {}
    bodies = [body_of(items, **envelope)]
    for _ in range(data.draw(st.integers(1, 5))):
        items = items[: data.draw(st.sampled_from([len(items), len(items), len(items) // 2]))]
        items = items + data.draw(st.lists(item, max_size=3))
        bodies.append(body_of(items, **envelope))
    check_read_on(adapter, bodies)


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_recorded_body_read_on_item_by_item_is_read_as_alone(path: Any) -> None:
    adapter = BY_FOLDER[path.parent.name]
    whole = scan(path.read_bytes(), adapter.grammar)
    start, end = whole.history
    places = sorted({round(whole.item_count * share / 12) for share in range(1, 13)} - {0})
    head, tail = whole.body[: start + 1], whole.body[end - 1 :]
    bodies = [head + whole.body[start + 1 : whole.item(count - 1).end] + tail for count in places]
    check_read_on(adapter, bodies)


@pytest.mark.parametrize("format_name", BY_FOLDER)
def test_late_result_that_does_not_come_again_is_no_longer_its_calls(format_name: str) -> None:
    if format_name == "openai-chat":
        call: Json = {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "run", "arguments": "{}"}}]}
        late: Json = {"role": "tool", "tool_call_id": "a", "content": "ok"}
    else:
        call = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "run", "input": {}}]}
        late = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "ok"}]}
    before = [
        {"role": "user", "content": "go"},
        call,
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": "so"},
    ]
    bodies = [body_of([*before, *more]) for more in ([late], [{"role": "user", "content": "well"}], [late, late])]
    check_read_on(BY_FOLDER[format_name], bodies)
