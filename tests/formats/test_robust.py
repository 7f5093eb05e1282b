"""Whatever JSON stands where a history should be: the adapters answer or raise their own errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath import Kind, scan, splice
from sidecar.core.errors import FormatAmbiguousError, MalformedBodyError
from sidecar.core.types import ReductionKind
from sidecar.formats import detect
from sidecar.formats.base import Adapter
from sidecar.formats.spelling import PLAIN
from tests.formats.build import CHAT, MESSAGES

BOTH = [CHAT, MESSAGES]
ROLES = ["user", "assistant", "system", "tool", "function", "developer", "model", "", None]
TYPES = [
    "text",
    "image",
    "image_url",
    "document",
    "tool_use",
    "tool_result",
    "thinking",
    "server_tool_use",
    "mcp_tool_result",
    "file",
    "x",
]
KEYS = [
    "content",
    "text",
    "id",
    "tool_use_id",
    "tool_call_id",
    "name",
    "input",
    "function",
    "arguments",
    "source",
    "cache_control",
    "data",
    "url",
]

leaves = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", " ", "a", "b", "\ud800", "\u00e9", "{}"])
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
        | st.builds(
            lambda kind, rest: {"type": kind, **rest},
            st.sampled_from(TYPES),
            st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
        )
    ),
    max_leaves=12,
)
items = st.lists(
    st.builds(
        lambda role, content, calls, rest: {"role": role, "content": content, **calls, **rest},
        st.sampled_from(ROLES),
        values,
        st.sampled_from(["tool_calls", "function_call", "reasoning_content", "z"]).flatmap(
            lambda key: values.map(lambda value: {key: value})
        ),
        st.dictionaries(st.sampled_from(KEYS), values, max_size=2),
    )
    | values,
    max_size=6,
)
envelopes = st.fixed_dictionaries(
    {}, optional={"tools": values, "thinking": values, "tool_choice": values, "system": values, "cache_control": values}
)


@pytest.mark.parametrize("adapter", BOTH)
@settings(max_examples=150, deadline=None)
@given(items=items, envelope=envelopes)
def test_adapter_any_history_is_judged_without_an_accident(adapter: Adapter, items: list[Any], envelope: dict[str, Any]) -> None:
    body = json.dumps({**envelope, "messages": items}).encode()
    found = scan(body, adapter.grammar)
    judged = adapter.check(found)
    assert adapter.check(found, (found.items(), found.parts())) == judged
    for violation in judged:
        assert -1 <= violation.item_index < len(items)
        assert 0 <= violation.offset_bytes < len(body)
    adapter.tool_names(found)
    assert isinstance(adapter.sees_all(found), bool)
    edit = adapter.inject_tool(found)
    json.loads(splice(body, [edit] if edit is not None else []))
    for part in found.parts():
        media = adapter.media(body, (part.start, part.end)) if part.kind == Kind.MEDIA else None
        assert media is None or part.start <= media.start <= media.end <= part.end


@pytest.mark.parametrize("adapter", BOTH)
@pytest.mark.parametrize("kind", list(ReductionKind))
@settings(max_examples=30, deadline=None)
@given(original=values, text=st.text(st.characters(codec=None), min_size=1))
def test_stub_of_any_value_is_json_of_its_type_or_none(adapter: Adapter, kind: ReductionKind, original: Any, text: str) -> None:
    raw = json.dumps(original).encode()
    made = adapter.stub(kind, raw, text, PLAIN)
    assert made is None or type(json.loads(made)) is type(original)
    if made is not None:
        assert type(json.loads(adapter.with_marker(made, raw, PLAIN))) is type(original)


@settings(max_examples=100, deadline=None)
@given(items=items, envelope=envelopes)
def test_detect_any_history_is_told_or_refused(items: list[Any], envelope: dict[str, Any]) -> None:
    body = json.dumps({**envelope, "messages": items}).encode()
    try:
        assert detect(body)
    except FormatAmbiguousError as error:
        assert "," in str(error.details["candidates"])


@pytest.mark.parametrize("adapter", BOTH)
@settings(max_examples=100, deadline=None)
@given(value=values)
def test_parse_call_of_any_value_is_a_call_or_an_error(adapter: Adapter, value: Any) -> None:
    raw = json.dumps(value).encode()
    try:
        found = adapter.parse_call(raw)
    except MalformedBodyError:
        return
    json.loads(adapter.result(found, "x", is_error=True))


@pytest.mark.parametrize("adapter", BOTH)
def test_check_many_empty_items_are_each_reported(adapter: Adapter) -> None:
    count = 20_000
    body = b'{"messages":[' + b",".join([b"{}"] * count) + b"]}"
    found = adapter.check(scan(body, adapter.grammar))
    assert sum(violation.rule == "ROLE_UNKNOWN" for violation in found) == count
