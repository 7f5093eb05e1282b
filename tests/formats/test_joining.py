"""Texts beside user items: how they are written, and how the content of user items is taken apart."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath import Item, Role, canon, scan
from sidecar.formats.base import Adapter, ContentSpan, Style
from sidecar.formats.spelling import PLAIN
from tests.formats.build import CHAT, MESSAGES, asked, call, called, dump, result, scanned, text, tool, used
from tests.helpers.corpus import bodies
from tests.helpers.sdk_types import sdk_violations

BOTH = pytest.mark.parametrize("adapter", [CHAT, MESSAGES], ids=lambda adapter: adapter.name)
STYLES = [Style(ascii, slash, spaced) for ascii in (False, True) for slash in (False, True) for spaced in (False, True)]
MARKER = b'{"type":"ephemeral"}'
MARK = {"cache_control": {"type": "ephemeral"}}

markers = st.sampled_from([b"", MARKER, b'{ "type" : "ephemeral", "ttl":"1h" }'])
styles = st.sampled_from(STYLES)
roles = st.sampled_from([Role.USER, Role.ASSISTANT])
words = st.text(min_size=1)


def blocks_of(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def parsed_marker(marker: bytes) -> dict[str, Any]:
    return {"cache_control": json.loads(marker)} if marker else {}


# text_item, text_part, wrap_string


@BOTH
@given(words, roles, markers, styles)
def test_text_item_any_text_is_one_text_with_its_marker(
    adapter: Adapter, words: str, role: Role, marker: bytes, style: Style
) -> None:
    item = json.loads(adapter.text_item(words, role, marker, style))
    assert item["role"] == role.name.lower()
    assert blocks_of(item["content"]) == [text(words) | parsed_marker(marker)]
    assert item.keys() == {"role", "content"}


@BOTH
@given(words, markers, styles)
def test_text_part_any_text_is_a_block_with_its_marker(adapter: Adapter, words: str, marker: bytes, style: Style) -> None:
    assert json.loads(adapter.text_part(words, marker, style)) == text(words) | parsed_marker(marker)


@BOTH
@given(words, roles, styles)
def test_text_item_style_is_that_of_a_json_writer(adapter: Adapter, words: str, role: Role, style: Style) -> None:
    item = adapter.text_item(words, role, b"", style)
    separators = (", ", ": ") if style.spaced else (",", ":")
    expected = json.dumps(json.loads(item), ensure_ascii=style.ascii, separators=separators)
    assert item.decode() == (expected.replace("/", "\\/") if style.slash else expected)


@BOTH
@given(words, roles, st.sampled_from([MARKER, b""]), styles, styles)
def test_text_item_style_and_marker_do_not_change_what_it_is(
    adapter: Adapter, words: str, role: Role, marker: bytes, style: Style, other: Style
) -> None:
    one, two = adapter.text_item(words, role, marker, style), adapter.text_item(words, role, b"", other)
    assert canon(one, 0, len(one), adapter.grammar) == canon(two, 0, len(two), adapter.grammar)


def test_text_item_chat_without_marker_is_a_string() -> None:
    assert CHAT.text_item("a", Role.USER, b"", PLAIN) == b'{"role":"user","content":"a"}'
    marked = b'{"role":"assistant","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}'
    assert CHAT.text_item("a", Role.ASSISTANT, MARKER, PLAIN) == marked


def test_text_item_messages_is_a_list() -> None:
    spaced = Style(ascii=False, slash=False, spaced=True)
    assert MESSAGES.text_item("a", Role.USER, b"", PLAIN) == b'{"role":"user","content":[{"type":"text","text":"a"}]}'
    marked = b'{"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type":"ephemeral"}}]}'
    assert MESSAGES.text_item("a", Role.USER, MARKER, spaced) == marked


@BOTH
def test_text_item_lone_surrogate_is_an_escape(adapter: Adapter) -> None:
    assert b'"a\\ud800b"' in adapter.text_item("a\ud800b", Role.USER, b"", PLAIN)


@BOTH
@pytest.mark.parametrize("role", [Role.OTHER, Role.SYSTEM, Role.RESULT])
def test_text_item_other_role_is_refused(adapter: Adapter, role: Role) -> None:
    with pytest.raises(ValueError, match="role"):
        adapter.text_item("a", role, b"", PLAIN)


@pytest.mark.parametrize(("adapter", "extra"), [(CHAT, {}), (MESSAGES, {"max_tokens": 9})])
def test_text_item_in_a_body_passes_rules_and_sdk_types(adapter: Adapter, extra: dict[str, Any]) -> None:
    marker = MARKER if adapter is MESSAGES else b""  # OpenAI's own types know no cache_control
    items = [json.loads(adapter.text_item("a", role, marker, PLAIN)) for role in (Role.USER, Role.ASSISTANT, Role.USER)]
    assert adapter.check(scanned(adapter, items)) == []
    assert sdk_violations(adapter.name, {"model": "m", "messages": items, **extra}) == set()


def test_text_item_marker_counts_as_one() -> None:
    for adapter in (CHAT, MESSAGES):
        item = json.loads(adapter.text_item("a", Role.USER, MARKER, PLAIN))
        assert scanned(adapter, [item, item]).marker_count == 2


@BOTH
@pytest.mark.parametrize("value", [b'"a"', b'"\\u0041 \\/ \\ud83d"', b'"\xff"', b'""'])
def test_wrap_string_keeps_the_string_byte_for_byte(adapter: Adapter, value: bytes) -> None:
    assert adapter.wrap_string(value) == b'{"type":"text","text":' + value + b"}"


# content_span


def span_of(adapter: Adapter, item: bytes) -> ContentSpan | None:
    """Of an item between two others."""
    body = b'{"messages": [{"role":"user","content":"before"}, ' + item + b' ,{"role":"user","content":"after"}]}'
    return adapter.content_span(body, scan(body, adapter.grammar).item(1))


def values(adapter: Adapter, item: bytes) -> list[bytes] | None:
    body = b'{"messages":[' + item + b"]}"
    span = adapter.content_span(body, scan(body, adapter.grammar).item(0))
    return None if span is None else [body[start:end] for start, end in span.elements]


@BOTH
@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (b'{"role":"user","content":"a"}', [b'"a"']),
        (b'{"content":"a","role":"user"}', [b'"a"']),
        (b'{ "content" :\n"a\\"]}" , "role"\t: "user" }', [b'"a\\"]}"']),
        (b'{"r\\u006fle":"us\\u0065r","conten\\u0074":"\\u00e9"}', [b'"\\u00e9"']),
        (b'{"role":"user","content":[{"type":"text","text":"a"}]}', [b'{"type":"text","text":"a"}']),
        (b'{"content": [ {"a":1}\n,\t{} ] , "role":"user"}', [b'{"a":1}', b"{}"]),
        (b'{"role":"user","content":[{"text":"],[","type":"text"},{"x":{"content":"c","role":"r"}}]}', [
            b'{"text":"],[","type":"text"}',
            b'{"x":{"content":"c","role":"r"}}',
        ]),
        (b'{"role":"user","content":"\xff\xed\xa0\x80"}', [b'"\xff\xed\xa0\x80"']),
        (b'{"role":"user","content":" x"}', [b'" x"']),
    ],
)  # fmt: skip
def test_content_span_plain_user_item_has_its_blocks(adapter: Adapter, item: bytes, expected: list[bytes]) -> None:
    assert values(adapter, item) == expected


@BOTH
@pytest.mark.parametrize(
    "item",
    [
        b'{"role":"assistant","content":"a"}',
        b'{"role":"system","content":"a"}',
        b'{"role":"robot","content":"a"}',
        b'{"role":"user"}',
        b'{"content":"a"}',
        b'{"role":"user","content":null}',
        b'{"role":"user","content":5}',
        b'{"role":"user","content":{"type":"text","text":"a"}}',
        b'{"role":"user","content":""}',
        b'{"role":"user","content":" \\n\\u00a0"}',
        b'{"role":"user","content":[]}',
        b'{"role":"user","content":[ ]}',
        b'{"role":"user","content":["a"]}',
        b'{"role":"user","content":[{"type":"text","text":"a"},null]}',
        b'{"role":"user","content":[[{"type":"text","text":"a"}]]}',
        b'{"role":"user","content":"a","name":"n"}',
        b'{"role":"user","content":[{"type":"text","text":"a"}],"name":"n"}',
        b'{"role":"user","content":"a","cache_control":{"type":"ephemeral"}}',
        b'{"role":"user","role":"user","content":"a"}',
        b'{"role":"assistant","role":"user","content":"a"}',
        b'{"role":"user","content":"a","content":"b"}',
        b'{"role":"user","content":"a","content":[{"type":"text","text":"b"}]}',
        b'{"role":"user","content":[{"type":"text","text":"a"}],"content":"b"}',
        b'{"role":"user","content":[{"type":"text","text":"a"}],"c\\u006fntent":[{"type":"text","text":"b"}]}',
        b'"user"',
    ],
)
def test_content_span_anything_else_has_none(adapter: Adapter, item: bytes) -> None:
    assert span_of(adapter, item) is None


def test_content_span_item_with_results_has_its_blocks_too() -> None:
    body = dump({"messages": [asked([result("a"), text("go on")])]})
    span = MESSAGES.content_span(body, scan(body, MESSAGES.grammar).item(0))
    assert span is not None
    assert [json.loads(body[start:end]) for start, end in span.elements] == [result("a"), text("go on")]


def test_content_span_chat_result_item_has_none() -> None:
    assert span_of(CHAT, dump(tool("a"))) is None


@BOTH
def test_content_span_offsets_are_those_of_the_body(adapter: Adapter) -> None:
    body = b'{"model":"m","messages": [ {"role":"user","content": [ {"type":"text","text":"b"} , {"type":"text","text":"c"}] }]}'
    item = scan(body, adapter.grammar).item(0)
    start = body.index(b"[ {", 40)
    first, second = b'{"type":"text","text":"b"}', b'{"type":"text","text":"c"}'
    assert adapter.content_span(body, item) == ContentSpan(
        start=start,
        end=body.index(b" }]}"),
        is_string=False,
        elements=tuple((body.index(block), body.index(block) + len(block)) for block in (first, second)),
    )


def joined(adapter: Adapter, body: bytes, one: Item, two: Item) -> list[Any] | None:
    """The blocks of two items, put together from bytes; None when either is not to be joined."""
    pieces: list[bytes] = []
    for item in (one, two):
        span = adapter.content_span(body, item)
        if span is None:
            return None
        found = [body[start:end] for start, end in span.elements]
        pieces += [adapter.wrap_string(found[0])] if span.is_string else found
    both: list[Any] = json.loads(b"[" + b",".join(pieces) + b"]")
    return both


contents = st.one_of(
    st.text(min_size=1).filter(lambda told: told.strip() != ""),
    st.lists(st.builds(text, st.text(min_size=1)), min_size=1, max_size=3),
)


@BOTH
@given(contents, contents, st.sampled_from([None, 1, "\t"]), st.booleans(), st.booleans())
def test_content_span_two_items_joined_hold_the_blocks_of_both(
    adapter: Adapter, one: Any, two: Any, indent: Any, ascii: bool, turned: bool
) -> None:
    items = [asked(one), asked(two)]
    if turned:
        items = [dict(reversed(item.items())) for item in items]
    body = json.dumps({"messages": items}, indent=indent, ensure_ascii=ascii).encode()
    first, second = scan(body, adapter.grammar).items()
    assert joined(adapter, body, first, second) == blocks_of(one) + blocks_of(two)


RECORDED = [pytest.param(adapter, path, id=path.name) for adapter in (CHAT, MESSAGES) for path in bodies(adapter.name)]


@pytest.mark.skipif(not RECORDED, reason="no recorded bodies here")
@pytest.mark.parametrize(("adapter", "path"), RECORDED)
def test_content_span_recorded_user_items_have_the_blocks_that_a_json_reader_finds(adapter: Adapter, path: Path) -> None:
    body = path.read_bytes()
    found = scan(body, adapter.grammar)
    messages = json.loads(body)["messages"]
    expected, told = [], []
    for index, item in enumerate(found.items()):
        if item.role != Role.USER:
            continue
        content = messages[index]["content"]
        plain = messages[index].keys() == {"role", "content"} and bool(content)
        expected.append((index, blocks_of(content) if plain else None))
        span = adapter.content_span(body, item)
        pieces = [] if span is None else [body[start:end] for start, end in span.elements]
        pieces = [adapter.wrap_string(piece) for piece in pieces] if span is not None and span.is_string else pieces
        told.append((index, None if span is None else [json.loads(piece) for piece in pieces]))
    assert told == expected


# last_marker


def marker_of(adapter: Adapter, item: Any) -> bytes:
    body = b'{"messages":[{"role":"user","content":"b"},' + (item if isinstance(item, bytes) else dump(item)) + b"]}"
    at = scan(body, adapter.grammar).item(1)
    return adapter.last_marker(body, at.start, at.end)


def marked(ttl: str) -> dict[str, Any]:
    return {"cache_control": {"type": "ephemeral", "ttl": ttl}}


@pytest.mark.parametrize(
    ("adapter", "item", "expected"),
    [
        (CHAT, asked("a"), b""),
        (CHAT, asked("the word cache_control"), b""),
        (CHAT, asked('"cache_control": {}'), b""),
        (CHAT, asked([text() | marked("5m")]), b'{"type": "ephemeral", "ttl": "5m"}'),
        (CHAT, asked("a") | marked("5m"), b'{"type": "ephemeral", "ttl": "5m"}'),
        (CHAT, asked([text() | marked("5m")]) | marked("1h"), b'{"type": "ephemeral", "ttl": "1h"}'),
        (CHAT, marked("1h") | asked([text() | marked("5m")]), b'{"type": "ephemeral", "ttl": "5m"}'),
        (CHAT, tool("a") | marked("5m"), b'{"type": "ephemeral", "ttl": "5m"}'),
        (CHAT, tool("a", [text() | marked("5m"), text()]), b'{"type": "ephemeral", "ttl": "5m"}'),
        (CHAT, called("a") | marked("5m"), b'{"type": "ephemeral", "ttl": "5m"}'),
        (CHAT, asked([text() | {"prompt_cache_breakpoint": {"mode": "explicit"}}]), b""),
        (CHAT, asked([text() | {"metadata": marked("5m")}]), b""),
        (MESSAGES, asked([text() | marked("5m"), text() | marked("1h")]), b'{"type": "ephemeral", "ttl": "1h"}'),
        (MESSAGES, asked([text() | marked("5m"), text() | {"cache_control": None}]), b'{"type": "ephemeral", "ttl": "5m"}'),
        (MESSAGES, asked([text() | {"cache_control": False}]), b""),
        (MESSAGES, asked([result("a", [text() | marked("5m")])]), b'{"type": "ephemeral", "ttl": "5m"}'),
        (MESSAGES, asked([result("a", [text() | marked("5m")]) | marked("1h")]), b'{"type": "ephemeral", "ttl": "1h"}'),
        (MESSAGES, asked([marked("1h") | result("a", [text() | marked("5m")])]), b'{"type": "ephemeral", "ttl": "5m"}'),
        (MESSAGES, used(text() | marked("5m"), call("a")), b'{"type": "ephemeral", "ttl": "5m"}'),
        (MESSAGES, used(text(), call("a") | marked("5m")), b'{"type": "ephemeral", "ttl": "5m"}'),
        # Arguments are the caller's own: what stands in them marks nothing.
        (MESSAGES, used(call("a", input=marked("5m"))), b""),
        (MESSAGES, asked("a") | marked("5m"), b""),
        (MESSAGES, b'{"role":"user","content":[{"type":"text","text":"a","cache\\u005fcontrol":{"a":1}}]}', b'{"a":1}'),
        (MESSAGES, b'{"role":"user","content":[{"type":"text","cache_control":1,"cache_control":{"a":1}}]}', b'{"a":1}'),
    ],
)
def test_last_marker_is_the_last_that_the_grammar_sees(adapter: Adapter, item: Any, expected: bytes) -> None:
    assert marker_of(adapter, item) == expected


@BOTH
@given(words, roles, styles)
def test_last_marker_of_a_text_item_is_what_it_was_given(adapter: Adapter, words: str, role: Role, style: Style) -> None:
    for marker in (b"", MARKER, b'{ "type" : "ephemeral" }'):
        item = adapter.text_item(words, role, marker, style)
        assert adapter.last_marker(b"x" + item + b"y", 1, 1 + len(item)) == marker


@pytest.mark.skipif(not RECORDED, reason="no recorded bodies here")
@pytest.mark.parametrize(("adapter", "path"), RECORDED)
def test_last_marker_recorded_items_have_one_where_the_scan_counts_one(adapter: Adapter, path: Path) -> None:
    body = path.read_bytes()
    counted, told = [], []
    for item in scan(body, adapter.grammar).items():
        alone = scan(b'{"messages":[' + body[item.start : item.end] + b"]}", adapter.grammar)
        counted.append(alone.marker_count > 0)
        told.append(adapter.last_marker(body, item.start, item.end) != b"")
    assert told == counted


# may_follow_summary


def may_follow(adapter: Adapter, items: list[Any], index: int, **envelope: Any) -> bool:
    found = scanned(adapter, items, **envelope)
    return adapter.may_follow_summary(found, (found.items(), found.parts()), index)


ENABLED = {"type": "enabled", "budget_tokens": 1024}
THOUGHT = {"type": "thinking", "thinking": "t", "signature": "s"}
REDACTED = {"type": "redacted_thinking", "data": "d"}
LOOP = [
    asked(),
    used(THOUGHT, call("a")),
    asked([result("a")]),
    used(call("b")),
    asked([result("b")]),
    used(REDACTED, call("c")),
    asked([result("c")]),
]


@pytest.mark.parametrize(
    ("index", "items", "thinking", "expected"),
    [
        (3, LOOP, ENABLED, False),
        (1, LOOP, ENABLED, True),
        (5, LOOP, ENABLED, True),
        (4, LOOP, ENABLED, True),  # no assistant item
        (3, LOOP, None, True),
        (3, LOOP, {"type": "disabled"}, True),
        (3, LOOP, {"type": "adaptive"}, True),
        (3, LOOP, {"type": "not yet known"}, False),
        (3, LOOP, {}, False),
        # The loop is over: a person spoke after it.
        (3, [*LOOP, asked("and now?")], ENABLED, True),
        (3, [*LOOP[:5], asked([text("and now?")]), *LOOP[5:]], ENABLED, True),
        (3, [*LOOP[:3], {"role": "assistant", "content": "done"}, asked("and now?")], ENABLED, True),
        # Words beside results do not end it.
        (3, [*LOOP[:6], asked([result("c"), text("hurry")])], ENABLED, False),
        (3, [*LOOP[:3], {"role": "assistant", "content": "done"}], ENABLED, False),
        (3, [*LOOP[:3], used(text(), THOUGHT, call("x")), asked([result("x")])], ENABLED, False),
    ],
)
def test_may_follow_summary_open_loop_begins_with_thinking(index: int, items: Any, thinking: Any, expected: bool) -> None:
    envelope = {} if thinking is None else {"thinking": thinking}
    assert may_follow(MESSAGES, items, index, **envelope) is expected


def test_may_follow_summary_last_thinking_member_counts() -> None:
    body = b'{"thinking":{"type":"disabled"},"thinking":{"type":"enabled"},"messages":' + dump(LOOP) + b"}"
    found = scan(body, MESSAGES.grammar)
    assert not MESSAGES.may_follow_summary(found, (found.items(), found.parts()), 3)


def test_may_follow_summary_chat_always_may() -> None:
    items = [asked(), called("a", reasoning_content="r"), tool("a"), called("b"), tool("b")]
    assert may_follow(CHAT, items, 3, thinking=ENABLED)


@pytest.mark.parametrize("seed", range(80))
def test_may_follow_summary_agrees_with_the_rule_on_the_body_that_results(seed: int) -> None:
    rand = random.Random(seed)
    items: list[Any] = [asked()]
    for turn in range(rand.randrange(2, 7)):
        front = [THOUGHT] if rand.random() < 0.5 else []
        items.append(used(*front, call(f"t{turn}")))
        items.append(asked([result(f"t{turn}")]))
        if rand.random() < 0.25:
            items.append(asked("more"))
    summary = json.loads(MESSAGES.text_item("summary", Role.USER, b"", PLAIN))
    thinking = {"thinking": ENABLED}
    for index in (at for at, item in enumerate(items) if item["role"] == "assistant"):
        after = scanned(MESSAGES, [summary, *items[index:]], **thinking)
        # What is wrong with a later loop was wrong before.
        broken = [found.item_index for found in MESSAGES.check(after) if found.rule == "THINKING_NOT_FIRST"]
        assert may_follow(MESSAGES, items, index, **thinking) == (1 not in broken)
