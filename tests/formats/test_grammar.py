"""What the grammars see in an item: kinds, ids, names, payloads, flags."""

from __future__ import annotations

from typing import Any

import pytest

from fastpath import ItemFlag, Kind, PartFlag, Role, ValueType, canon, strip_markers
from sidecar.formats.base import Adapter
from tests.formats.build import CHAT, MESSAGES, asked, call, called, dump, result, scanned, text, tool, used

MARK = {"cache_control": {"type": "ephemeral"}}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}


def seen(adapter: Adapter, item: Any) -> list[tuple[str, bytes, bytes, bytes]]:
    """(kind, id, name, payload) of each part of one item."""
    scan = scanned(adapter, [item])
    body = scan.body

    def at(start: int, end: int) -> bytes:
        return body[start:end] if start >= 0 else b""

    return [
        (
            Kind(part.kind).name,
            at(part.id_start, part.id_end),
            at(part.name_start, part.name_end),
            at(part.payload_start, part.payload_end),
        )
        for part in scan.parts()
    ]


def flags(adapter: Adapter, item: Any) -> list[PartFlag]:
    return [PartFlag(part.flags) for part in scanned(adapter, [item]).parts()]


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("system", Role.SYSTEM),
        ("developer", Role.SYSTEM),
        ("user", Role.USER),
        ("assistant", Role.ASSISTANT),
        ("tool", Role.RESULT),
        ("function", Role.RESULT),
        ("model", Role.OTHER),
    ],
)
def test_chat_grammar_role_is_told(role: str, expected: Role) -> None:
    assert scanned(CHAT, [{"role": role, "content": "x"}]).item(0).role == expected


@pytest.mark.parametrize(
    ("role", "expected"),
    [("system", Role.SYSTEM), ("user", Role.USER), ("assistant", Role.ASSISTANT), ("tool", Role.OTHER), (1, Role.OTHER)],
)
def test_messages_grammar_role_is_told(role: Any, expected: Role) -> None:
    assert scanned(MESSAGES, [{"role": role, "content": "x"}]).item(0).role == expected


def test_chat_grammar_calls_are_seen_with_id_name_and_arguments() -> None:
    item = {
        "role": "assistant",
        "content": [{"type": "text", "text": "so"}, {"type": "refusal", "refusal": "no"}],
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "ls", "arguments": "{}"}},
            {"id": "b", "type": "custom", "custom": {"name": "sh", "input": "ls"}},
            {"function": {"name": "no_type", "arguments": {"x": 1}}},
        ],
    }
    assert seen(CHAT, item) == [
        ("TEXT", b"", b"", b'"so"'),
        ("TEXT", b"", b"", b'"no"'),
        ("CALL", b'"a"', b'"ls"', b'"{}"'),
        ("CALL", b'"b"', b'"sh"', b'"ls"'),
        ("CALL", b"", b'"no_type"', b'{"x": 1}'),
    ]


def test_chat_grammar_members_that_are_null_open_no_call() -> None:
    assert seen(CHAT, {"role": "assistant", "content": "x", "tool_calls": None, "function_call": None}) == []


def test_chat_grammar_legacy_call_has_a_name_and_no_id() -> None:
    item = {"role": "assistant", "content": None, "function_call": {"name": "ls", "arguments": "{}"}}
    assert seen(CHAT, item) == [("CALL", b"", b'"ls"', b'"{}"')]
    assert seen(CHAT, {"role": "function", "name": "ls", "content": "ok"}) == [("RESULT", b"", b'"ls"', b'"ok"')]


def test_chat_grammar_result_is_the_item_with_its_parts_inside() -> None:
    item = tool("a", [{"type": "text", "text": "t"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}])
    scan = scanned(CHAT, [item])
    whole, inner, media = scan.parts()
    assert (whole.start, whole.end) == (scan.item(0).start, scan.item(0).end)
    assert whole.payload_type == ValueType.ARRAY
    assert [Kind(part.kind).name for part in (whole, inner, media)] == ["RESULT", "TEXT", "MEDIA"]
    assert [inner.parent, media.parent] == [0, 0]


def test_chat_grammar_reasoning_strings_have_a_payload_and_lists_have_none() -> None:
    item = {
        "role": "assistant",
        "content": "x",
        "reasoning_content": "r1",
        "reasoning": "r2",
        "reasoning_details": [{"type": "reasoning.text", "text": "r3"}, {"type": "reasoning.encrypted", "data": "e"}],
        "thinking_blocks": [{"type": "thinking", "thinking": "r4", "signature": "s"}],
    }
    assert seen(CHAT, item) == [
        ("REASONING", b"", b"", b'"r1"'),
        ("REASONING", b"", b"", b'"r2"'),
        ("REASONING", b"", b"", b""),
        ("REASONING", b"", b"", b""),
        ("REASONING", b"", b"", b""),
    ]
    assert [bool(flag & PartFlag.SIGNED) for flag in flags(CHAT, item)] == [False, False, False, True, True]


@pytest.mark.parametrize(
    "where",
    [
        {"extra_content": {"google": {"thought_signature": "s"}}},
        {"provider_specific_fields": {"thought_signature": "s"}},
        {"thought_signature": "s"},
    ],
)
def test_chat_grammar_signed_call_is_told(where: dict[str, Any]) -> None:
    item = called("a")
    item["tool_calls"][0] |= where
    assert flags(CHAT, item) == [PartFlag.SIGNED]
    assert flags(CHAT, called("a")) == [PartFlag(0)]


def test_chat_grammar_block_of_another_dialect_with_base64_is_media() -> None:
    assert [kind for kind, *_ in seen(CHAT, asked([IMAGE, {"type": "unknown", "x": 1}]))] == ["MEDIA", "OTHER"]


def test_messages_grammar_blocks_are_told() -> None:
    item = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "t", "signature": "s"},
            {"type": "redacted_thinking", "data": "d"},
            text("so"),
            call("a", input={"x": 1}),
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
            {"type": "mcp_tool_use", "id": "m", "name": "ask", "server_name": "z", "input": {}},
            {"type": "compaction", "content": "c"},
            {"type": "container_upload", "file_id": "f"},
        ],
    }
    assert seen(MESSAGES, item) == [
        ("REASONING", b"", b"", b'"t"'),
        ("REASONING", b"", b"", b""),
        ("TEXT", b"", b"", b'"so"'),
        ("CALL", b'"a"', b'"ls"', b'{"x": 1}'),
        ("SERVER_CALL", b'"s"', b'"web_search"', b"{}"),
        ("SERVER_CALL", b'"m"', b'"ask"', b"{}"),
        ("OPAQUE", b"", b"", b""),
        ("OTHER", b"", b"", b""),
    ]
    assert [bool(flag & PartFlag.SIGNED) for flag in flags(MESSAGES, item)][:3] == [True, True, False]


def test_messages_grammar_result_has_its_blocks_inside() -> None:
    document = {"type": "document", "source": {"type": "content", "content": [text("page"), IMAGE]}}
    plain = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "page"}}
    item = asked([result("a", [text("t"), IMAGE, document, plain], is_error=True), text("user")])
    scan = scanned(MESSAGES, [item])
    kinds = [(Kind(part.kind).name, part.parent) for part in scan.parts()]
    assert kinds == [
        ("RESULT", -1),
        ("TEXT", 0),
        ("MEDIA", 0),
        ("OTHER", 0),
        ("TEXT", 3),
        ("MEDIA", 3),
        ("OTHER", 0),
        ("TEXT", -1),
    ]
    assert scan.part(0).flags == PartFlag.ERROR


# What a server tool returned: (block, whether it is signed, its payload).
SERVER_RESULTS: list[tuple[dict[str, Any], bool, bytes]] = [
    ({"type": "mcp_tool_result", "content": "out"}, False, b'"out"'),
    ({"type": "mcp_tool_result", "content": [text("out")]}, False, b'[{"type": "text", "text": "out"}]'),
    ({"type": "bash_code_execution_tool_result", "content": {"type": "x", "stdout": "o", "stderr": "e"}}, False, b'"o"'),
    ({"type": "code_execution_tool_result", "content": {"type": "x", "stdout": "o"}}, False, b'"o"'),
    ({"type": "code_execution_tool_result", "content": {"type": "x", "encrypted_stdout": "o"}}, True, b""),
    (
        {
            "type": "text_editor_code_execution_tool_result",
            "content": {"type": "text_editor_code_execution_view_result", "content": "f"},
        },
        False,
        b'"f"',
    ),
    (
        {
            "type": "text_editor_code_execution_tool_result",
            "content": {"type": "text_editor_code_execution_str_replace_result", "lines": ["f"]},
        },
        False,
        b"",
    ),
    ({"type": "web_search_tool_result", "content": [{"type": "web_search_result", "encrypted_content": "z"}]}, True, b""),
    ({"type": "web_search_tool_result", "content": {"type": "web_search_tool_result_error", "error_code": "x"}}, False, b""),
    ({"type": "web_fetch_tool_result", "content": {"type": "web_fetch_result", "url": "u"}}, False, b""),
    ({"type": "tool_search_tool_result", "content": {"tool_references": []}}, False, b""),
    ({"type": "advisor_tool_result", "content": {"type": "advisor_redacted_result", "encrypted_content": "z"}}, True, b""),
]


@pytest.mark.parametrize(("block", "signed", "payload"), SERVER_RESULTS)
def test_messages_grammar_server_result_may_be_cut_only_at_its_payload(
    block: dict[str, Any], signed: bool, payload: bytes
) -> None:
    item = used(block | {"tool_use_id": "s"})
    found = seen(MESSAGES, item)
    assert found[0] == ("SERVER_RESULT", b'"s"', b"", payload)
    assert bool(flags(MESSAGES, item)[0] & PartFlag.SIGNED) is signed


@pytest.mark.parametrize("adapter", [CHAT, MESSAGES])
def test_grammar_marker_and_list_of_one_text_do_not_change_an_item(adapter: Adapter) -> None:
    plain = dump({"role": "user", "content": "hi"})
    marked = dump({"content": [{"cache_control": {"type": "ephemeral"}, "text": "hi", "type": "text"}], "role": "user"})
    assert canon(plain, 0, len(plain), adapter.grammar) == canon(marked, 0, len(marked), adapter.grammar)
    other = dump({"role": "user", "content": "ho"})
    assert canon(plain, 0, len(plain), adapter.grammar) != canon(other, 0, len(other), adapter.grammar)


@pytest.mark.parametrize(
    ("adapter", "plain", "marked"),
    [
        (
            CHAT,
            tool("a", "ok"),
            tool("a", [{"type": "text", "text": "ok", "prompt_cache_breakpoint": {"mode": "explicit"}}]) | MARK,
        ),
        (MESSAGES, asked([result("a", "ok")]), asked([result("a", [text("ok") | MARK]) | MARK])),
        (MESSAGES, used(call("a")), used(call("a") | MARK)),
    ],
)
def test_grammar_marker_anywhere_in_an_item_does_not_change_it(adapter: Adapter, plain: Any, marked: Any) -> None:
    one, other = dump(plain), dump(marked)
    assert canon(one, 0, len(one), adapter.grammar) == canon(other, 0, len(other), adapter.grammar)
    assert b"cache" not in strip_markers(other, 0, len(other), adapter.grammar)
    assert scanned(adapter, [marked]).item(0).flags & ItemFlag.MARKED


def test_grammar_marker_key_inside_arguments_is_data() -> None:
    one, other = dump(used(call("a", input=MARK))), dump(used(call("a")))
    assert canon(one, 0, len(one), MESSAGES.grammar) != canon(other, 0, len(other), MESSAGES.grammar)
    assert scanned(MESSAGES, [used(call("a", input=MARK))]).marker_count == 0


def test_grammar_sizes_add_up_by_component() -> None:
    scan = scanned(
        MESSAGES,
        [asked("do it"), used(text("so"), call("a")), asked([result("a", [text("t"), IMAGE]), text("and")])],
        system="rules",
        tools=[{"name": "ls", "input_schema": {}}],
    )
    assert sum(scan.sizes[1:]) == scan.sizes.total == len(scan.body)
    assert min(scan.sizes.system, scan.sizes.tools, scan.sizes.call, scan.sizes.result, scan.sizes.media) > 0
