"""The body's tools: their names, and adding the read-back tool to them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fastpath import Scan, scan, splice
from sidecar.core.readback import READ_BACK_TOOL_NAME
from sidecar.formats.base import Adapter
from tests.formats.build import CHAT, MESSAGES, asked, scanned
from tests.helpers.sdk_types import sdk_violations

BOTH = [CHAT, MESSAGES]
CHAT_TOOL = {"type": "function", "function": {"name": "ls", "description": 'lists "files"', "parameters": {"type": "object"}}}
MESSAGES_TOOL = {"name": "ls", "input_schema": {"type": "object"}}
TOOLS: dict[str, dict[str, Any]] = {"openai-chat": CHAT_TOOL, "anthropic-messages": MESSAGES_TOOL}


def injected(adapter: Adapter, found: Scan) -> bytes:
    edit = adapter.inject_tool(found)
    assert edit is not None
    return splice(found.body, [edit])


def test_tool_names_chat_of_all_shapes_in_order() -> None:
    tools = [
        CHAT_TOOL,
        {"type": "custom", "custom": {"name": "sh"}},
        {"type": "function", "function": {"name": "c\ufffd\u0041"}},
        {"odd": 1},
        5,
    ]
    assert CHAT.tool_names(scanned(CHAT, [asked()], tools=tools)) == [b"ls", b"sh", "c\ufffdA".encode()]


def test_tool_names_chat_legacy_functions_are_named() -> None:
    assert CHAT.tool_names(scanned(CHAT, [asked()], functions=[{"name": "old", "parameters": {}}])) == [b"old"]


def test_tool_names_messages_client_and_server_tools() -> None:
    tools = [MESSAGES_TOOL, {"type": "web_search_20250305", "name": "web_search"}]
    assert MESSAGES.tool_names(scanned(MESSAGES, [asked()], tools=tools)) == [b"ls", b"web_search"]


@pytest.mark.parametrize("adapter", BOTH)
@pytest.mark.parametrize("tools", [None, {}, "x", []])
def test_tool_names_without_a_list_are_none(adapter: Adapter, tools: Any) -> None:
    assert adapter.tool_names(scanned(adapter, [asked()], tools=tools)) == []


def test_tool_names_last_of_repeated_members_counts() -> None:
    body = b'{"tools":[{"name":"old"}],"messages":[],"tools":[{"name":"new"}]}'
    assert MESSAGES.tool_names(scan(body, MESSAGES.grammar)) == [b"new"]


@pytest.mark.parametrize("adapter", BOTH)
def test_read_back_tool_is_a_valid_tool_of_its_name(adapter: Adapter) -> None:
    tool = json.loads(adapter.read_back_tool())
    body = {"model": "m", "max_tokens": 1, "messages": [], "tools": [tool]}
    assert sdk_violations(adapter.format, body) == set()
    assert adapter.tool_names(scanned(adapter, [], tools=[tool])) == [READ_BACK_TOOL_NAME.encode()]


@pytest.mark.parametrize("adapter", BOTH)
def test_inject_tool_appends_and_changes_nothing_else(adapter: Adapter) -> None:
    found = scanned(adapter, [asked()], tools=[TOOLS[adapter.name]], x=1)
    body = json.loads(injected(adapter, found))
    ours = body["tools"].pop()
    assert body == json.loads(found.body)
    assert ours == json.loads(adapter.read_back_tool())


@pytest.mark.parametrize("adapter", BOTH)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'{"messages":[],"tools":[ ]}', b'{"messages":[],"tools":[OURS ]}'),
        (b'{"messages":[],"tools":[{"name":"x"}\n]}', b'{"messages":[],"tools":[{"name":"x"},OURS\n]}'),
        (b'{"messages": [], "tools": [{"name": "x"}]}', b'{"messages": [], "tools": [{"name": "x"}, OURS]}'),
        (b'{"messages":[],"tools":null}', b'{"messages":[],"tools":[OURS]}'),
        (b'{"messages":[],"model":"m" }', b'{"messages":[],"model":"m","tools":[OURS] }'),
        (b'{"messages": [], "model": "m"}', b'{"messages": [], "model": "m", "tools": [OURS]}'),
        (b'{"model":"m","messages":[]}', b'{"model":"m","messages":[],"tools":[OURS]}'),
        (b'{"tools":"x","messages":[],"tools":[]}', b'{"tools":"x","messages":[],"tools":[OURS]}'),
    ],
)
def test_inject_tool_keeps_the_spelling_around_it(adapter: Adapter, before: bytes, after: bytes) -> None:
    head, tail = after.split(b"OURS")
    got = injected(adapter, scan(before, adapter.grammar))
    assert got.startswith(head)
    assert got.endswith(tail)
    assert json.loads(got[len(head) : len(got) - len(tail)]) == json.loads(adapter.read_back_tool())


@pytest.mark.parametrize("adapter", BOTH)
def test_inject_tool_twice_is_an_empty_edit(adapter: Adapter) -> None:
    once = injected(adapter, scanned(adapter, [asked()]))
    edit = adapter.inject_tool(scan(once, adapter.grammar))
    assert edit is not None
    assert edit.data == b""
    assert splice(once, [edit]) == once


@pytest.mark.parametrize("adapter", BOTH)
def test_inject_tool_that_a_client_rewrote_is_known_again(adapter: Adapter) -> None:
    once = json.loads(injected(adapter, scanned(adapter, [asked()])))
    once["tools"][0]["cache_control"] = {"type": "ephemeral"}
    again = json.dumps(once, sort_keys=True, indent=1).encode()
    edit = adapter.inject_tool(scan(again, adapter.grammar))
    assert edit is not None
    assert edit.data == b""


def foreign(adapter: Adapter) -> dict[str, Any]:
    return json.loads(json.dumps(TOOLS[adapter.name]).replace('"ls"', f'"{READ_BACK_TOOL_NAME}"'))


@pytest.mark.parametrize("adapter", BOTH)
def test_inject_tool_beside_another_tool_of_its_name_is_refused(adapter: Adapter) -> None:
    assert adapter.inject_tool(scanned(adapter, [asked()], tools=[foreign(adapter)])) is None


@pytest.mark.parametrize("adapter", BOTH)
@pytest.mark.parametrize("tools", [{}, "x", 1, True])
def test_inject_tool_into_what_is_no_list_is_refused(adapter: Adapter, tools: Any) -> None:
    assert adapter.inject_tool(scanned(adapter, [asked()], tools=tools)) is None


@pytest.mark.parametrize(
    ("adapter", "envelope"),
    [
        (CHAT, {"tools": [CHAT_TOOL], "tool_choice": "none"}),
        (CHAT, {"tools": [CHAT_TOOL], "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}}),
        (CHAT, {"functions": [{"name": "old"}]}),
        (MESSAGES, {"tools": [MESSAGES_TOOL], "tool_choice": {"type": "none"}}),
    ],
)
def test_inject_tool_that_could_not_be_called_is_refused(adapter: Adapter, envelope: dict[str, Any]) -> None:
    assert adapter.inject_tool(scanned(adapter, [asked()], **envelope)) is None


@pytest.mark.parametrize(
    ("adapter", "envelope"),
    [
        (CHAT, {"tools": [CHAT_TOOL], "tool_choice": "required"}),
        (CHAT, {"tools": [CHAT_TOOL], "tool_choice": {"type": "function", "function": {"name": "ls"}}}),
        (CHAT, {"functions": None, "tool_choice": None}),
        (MESSAGES, {"tools": [MESSAGES_TOOL], "tool_choice": {"type": "any"}}),
    ],
)
def test_inject_tool_with_other_choices_is_added(adapter: Adapter, envelope: dict[str, Any]) -> None:
    assert READ_BACK_TOOL_NAME.encode() in injected(adapter, scanned(adapter, [asked()], **envelope))


def test_sees_all_only_a_server_held_thread_hides_history() -> None:
    assert CHAT.sees_all(scanned(CHAT, [asked()]))
    assert MESSAGES.sees_all(scanned(MESSAGES, [asked()]))
    assert MESSAGES.sees_all(scanned(MESSAGES, [asked()], thread=None))
    assert MESSAGES.sees_all(scanned(MESSAGES, [asked()], thread={"type": "create"}))
    assert not MESSAGES.sees_all(scanned(MESSAGES, [asked()], thread={"type": "continue", "previous_message_id": "m"}))
