"""What a scan finds, in both forms."""

from __future__ import annotations

import json
import pickle

import pytest

from fastpath import (
    Code,
    Field,
    GrammarSpec,
    Item,
    ItemFlag,
    Kind,
    MalformedError,
    Member,
    Part,
    PartFlag,
    Role,
    Shape,
    ValueType,
)
from tests.helpers.backends import BACKENDS, Backend
from tests.helpers.grammars import CHAT, MESSAGES, TORTURE

pytestmark = pytest.mark.parametrize("fp", BACKENDS, ids=lambda backend: backend.name)


def text_of(body: bytes, start: int, end: int) -> bytes:
    return body[start:end]


def messages(*items: object, **members: object) -> bytes:
    return json.dumps({**members, "messages": items}, separators=(",", ":")).encode()


def test_scan_of_messages_body_finds_items_and_parts(fp: Backend) -> None:
    body = messages(
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "run", "input": {"a": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "out", "is_error": True}]},
        model="m",
    )
    scan = fp.scan(body, fp.grammar(MESSAGES))
    assert [item.role for item in scan.items()] == [Role.USER, Role.ASSISTANT, Role.USER]
    call, result = scan.parts()
    assert (call.kind, call.item, call.parent) == (Kind.CALL, 1, -1)
    assert text_of(body, call.id_start, call.id_end) == b'"c1"'
    assert text_of(body, call.name_start, call.name_end) == b'"run"'
    assert (text_of(body, call.payload_start, call.payload_end), call.payload_type) == (b'{"a":1}', ValueType.OBJECT)
    assert (result.kind, result.flags, result.item) == (Kind.RESULT, PartFlag.ERROR, 2)
    assert (text_of(body, result.payload_start, result.payload_end), result.payload_type) == (b'"out"', ValueType.STRING)
    assert text_of(body, *scan.history) == body[body.index(b"[") : -1]
    assert isinstance(scan.item(0), Item)
    assert isinstance(scan.part(0), Part)
    assert (
        text_of(body, call.start, call.end)
        == json.dumps({"type": "tool_use", "id": "c1", "name": "run", "input": {"a": 1}}, separators=(",", ":")).encode()
    )


def test_scan_of_chat_body_names_calls_inside_their_function(fp: Backend) -> None:
    body = messages(
        {"role": "system", "content": "s"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}],
            "reasoning_content": "why",
        },
        {"role": "tool", "tool_call_id": "a", "content": "out"},
    )
    scan = fp.scan(body, fp.grammar(CHAT))
    assert [item.role for item in scan.items()] == [Role.SYSTEM, Role.ASSISTANT, Role.RESULT]
    assert [part.kind for part in scan.parts()] == [Kind.TEXT, Kind.CALL, Kind.REASONING, Kind.RESULT]
    call = scan.part(1)
    assert text_of(body, call.name_start, call.name_end) == b'"f"'
    assert text_of(body, call.payload_start, call.payload_end) == b'"{}"'
    assert scan.part(2).payload_type == ValueType.STRING


def test_scan_files_an_absent_value_as_minus_one(fp: Backend) -> None:
    scan = fp.scan(messages({"role": "user", "content": [{"type": "tool_result"}]}), fp.grammar(MESSAGES))
    part = scan.part(0)
    assert part[6:] == (-1, -1, -1, -1, -1, -1, ValueType.NONE)


def test_scan_of_nested_blocks_gives_children_in_order(fp: Backend) -> None:
    inner = [{"type": "text", "text": "a"}, {"type": "image", "source": {}}]
    body = messages({"role": "user", "content": [{"type": "tool_result", "content": inner}, {"type": "text", "text": "b"}]})
    scan = fp.scan(body, fp.grammar(MESSAGES))
    assert [(part.kind, part.parent) for part in scan.parts()] == [
        (Kind.RESULT, -1),
        (Kind.TEXT, 0),
        (Kind.MEDIA, 0),
        (Kind.TEXT, -1),
    ]
    item = scan.item(0)
    media = scan.part(2).end - scan.part(2).start
    assert item.media_bytes == media
    assert item.result_bytes == scan.part(0).end - scan.part(0).start - media
    assert (item.first_part, item.part_count) == (0, 4)


def test_scan_counts_each_byte_once(fp: Backend) -> None:
    block = {"type": "text", "text": "x" * 50}
    body = messages(
        {"role": "user", "content": [{"type": "image", "source": "y" * 40}, block]},
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "t" * 30}, block, {"type": "tool_use", "input": {"z": 1}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "content": [{"type": "image", "source": "y"}, block]}]},
        {"role": "else"},
        system="s" * 20,
        tools=[{"name": "n"}],
    )
    sizes = fp.scan(body, fp.grammar(MESSAGES)).sizes
    assert sizes.total == len(body) == sum(sizes[1:])
    assert (sizes.system, sizes.tools) == (22, len('[{"name":"n"}]'))
    assert sizes.reasoning == len('{"type":"thinking","thinking":""}') + 30
    assert sizes.call == len('{"type":"tool_use","input":{"z":1}}')
    assert sizes.media == 2 * len('{"type":"image","source":""}') + 41
    assert sizes.result == len('{"type":"tool_result","content":[,{"type":"text","text":""}]}') + 50


def test_scan_counts_result_items_whole(fp: Backend) -> None:
    item = {"role": "tool", "tool_call_id": "a", "content": "out"}
    sizes = fp.scan(messages(item), fp.grammar(CHAT)).sizes
    assert sizes.result == len(json.dumps(item, separators=(",", ":")))


def test_scan_takes_the_last_of_duplicate_keys(fp: Backend) -> None:
    block = b'{"type":"tool_use","id":"a","type":"tool_result","tool_use_id":"b"}'
    body = b'{"messages":[{"role":"user","content":[' + block + b'],"role":"assistant"}]}'
    scan = fp.scan(body, fp.grammar(MESSAGES))
    part = scan.part(0)
    assert (scan.item(0).role, part.kind, text_of(body, part.id_start, part.id_end)) == (Role.ASSISTANT, Kind.RESULT, b'"b"')


def test_scan_takes_the_last_of_duplicate_histories(fp: Backend) -> None:
    body = b'{"messages":[{},{}],"x":1,"messages":[{"role":"user"}]}'
    scan = fp.scan(body, fp.grammar(MESSAGES))
    assert (scan.item_count, text_of(body, *scan.history)) == (1, b'[{"role":"user"}]')
    assert [member.key for member in scan.members] == [b"messages", b"x", b"messages"]


def test_scan_prefers_the_first_history_key_of_the_grammar(fp: Backend) -> None:
    for body in (b'{"messages":[1],"input":[2,3]}', b'{"input":[2,3],"messages":[1]}'):
        scan = fp.scan(body, fp.grammar(TORTURE))
        assert text_of(body, *scan.history) == b"[2,3]"


def test_scan_lists_members_with_decoded_keys(fp: Backend) -> None:
    body = rb'{"\u00e9":1, "messages":[] ,"k":{"a":[]}}'
    scan = fp.scan(body, fp.grammar(MESSAGES))
    assert scan.members[0] == Member("é".encode(), 1, body.index(b"1"), body.index(b"1") + 1)
    assert [text_of(body, member.start, member.end) for member in scan.members] == [b"1", b"[]", b'{"a":[]}']
    assert [body[member.key_start : member.key_start + 1] for member in scan.members] == [b'"'] * 3


def test_scan_names_system_and_tools_the_last_of_duplicates(fp: Backend) -> None:
    body = b'{"system":"a","tools":[1],"messages":[],"instructions":"c","system":"b"}'
    scan = fp.scan(body, fp.grammar(TORTURE))
    assert [text_of(body, *span) for span in scan.system] == [b'"c"', b'"b"']
    assert [text_of(body, *span) for span in scan.tools] == [b"[1]"]


def test_scan_counts_markers_in_items_system_and_tools(fp: Backend) -> None:
    marker = {"cache_control": {"type": "ephemeral"}}
    body = messages(
        {
            "role": "user",
            "content": [{"type": "text", "text": "a", **marker}, {"type": "text", "text": "b", "cache_control": None}],
        },
        {"role": "user", "content": [{"type": "text", "text": "c"}]},
        system=[{"type": "text", "text": "s", **marker}],
        tools=[{"name": "t", **marker}],
    )
    scan = fp.scan(body, fp.grammar(MESSAGES))
    assert scan.marker_count == 3
    assert [item.flags for item in scan.items()] == [ItemFlag.MARKED, 0]
    assert [part.flags for part in scan.parts()] == [PartFlag.MARKED, PartFlag.MARKED, 0]


def test_scan_does_not_see_markers_in_arguments(fp: Backend) -> None:
    body = messages({"role": "assistant", "content": [{"type": "tool_use", "input": {"cache_control": {"type": "ephemeral"}}}]})
    scan = fp.scan(body, fp.grammar(MESSAGES))
    assert (scan.marker_count, scan.item(0).flags) == (0, 0)


def test_scan_counts_a_marker_block_once(fp: Backend) -> None:
    body = messages({"role": "x", "content": [{"text": "a"}, {"cachePoint": {"type": "default"}, "mark": 1}]})
    scan = fp.scan(body, fp.grammar(TORTURE))
    assert scan.marker_count == 1
    assert [part.kind for part in scan.parts()] == [Kind.OTHER, Kind.OTHER, Kind.TEXT, Kind.MARKER]


def test_scan_raises_kinds_unless_null_or_false(fp: Backend) -> None:
    grammar = fp.grammar(TORTURE)
    for value, kind in ((True, Kind.REASONING), ("", Kind.REASONING), (0, Kind.REASONING), (None, Kind.TEXT), (False, Kind.TEXT)):
        scan = fp.scan(messages({"thought": value, "text": "a"}), grammar)
        assert scan.part(0).kind == kind


def test_scan_flags_signatures_and_errors(fp: Backend) -> None:
    grammar = fp.grammar(TORTURE)
    for member, flags in (
        ({"sig": "x"}, PartFlag.SIGNED),
        ({"sig": ""}, 0),
        ({"sig": 1}, 0),
        ({"error": True}, PartFlag.ERROR),
        ({"error": "error"}, PartFlag.ERROR),
        ({"error": "errors"}, 0),
        ({"error": False}, 0),
    ):
        assert fp.scan(messages(member), grammar).part(0).flags == flags


def test_scan_flags_items_that_are_not_ascii(fp: Backend) -> None:
    for position in range(70):
        item = json.dumps({"role": "user", "content": "x" * position + "é" + "y" * 70}, ensure_ascii=False).encode()
        scan = fp.scan(b'{"messages":[{"content":"' + b"z" * 90 + b'"},' + item + b"]}", fp.grammar(MESSAGES))
        assert [row.flags for row in scan.items()] == [0, ItemFlag.NON_ASCII]


def test_scan_reads_escaped_keys_and_cases(fp: Backend) -> None:
    body = rb'{"m\u0065ssages":[{"r\u006fle":"us\u0065r","cont\u0065nt":[{"t\u0079pe":"t\u0065xt","t\u0065xt":"a"}]}]}'
    scan = fp.scan(body, fp.grammar(MESSAGES))
    assert (scan.item(0).role, [part.kind for part in scan.parts()]) == (Role.USER, [Kind.TEXT])


def test_scan_with_long_keys_and_ids_finds_them(fp: Backend) -> None:
    name = "k" * 2000
    body = messages({"role": "assistant", "content": [{"type": "tool_use", name: 1, "id": name}], name: name}, **{name: [name]})
    scan = fp.scan(body, fp.grammar(MESSAGES))
    part = scan.part(0)
    assert text_of(body, part.id_start, part.id_end) == b'"' + name.encode() + b'"'
    assert scan.members[0].key == name.encode()


def test_scan_rows_are_clipped_and_checked(fp: Backend) -> None:
    scan = fp.scan(messages({}, {}, {}), fp.grammar(MESSAGES))
    assert [len(scan.items(*bounds)) for bounds in ((), (1,), (1, 2), (2, 1), (-5, 99), (0, -1), (7,))] == [3, 2, 1, 0, 3, 0, 0]
    for row in (scan.item, scan.part):
        for index in (-1, 3):
            with pytest.raises(IndexError):
                row(index)


def test_scan_with_previous_takes_over_whole_items(fp: Backend) -> None:
    grammar = fp.grammar(MESSAGES)
    items = [{"role": "user", "content": "a" * 100 + str(number)} for number in range(50)]
    earlier = fp.scan(messages(*items, model="m", system="s"), grammar)
    body = messages(*items, {"role": "user", "content": "new"}, model="m", system="s")
    scan = fp.scan(body, grammar, earlier)
    fresh = fp.scan(body, grammar)
    assert (scan.reused_item_count, fresh.reused_item_count) == (50, 0)
    assert (scan.items(), scan.parts(), scan.members, scan.sizes) == (fresh.items(), fresh.parts(), fresh.members, fresh.sizes)


def test_scan_with_previous_does_not_trust_an_item_that_may_go_on(fp: Backend) -> None:
    """Ensure that a number at the end of the common prefix is read again."""
    grammar = fp.grammar(MESSAGES)
    earlier = fp.scan(b'{"messages":[{},12]}', grammar)
    for body, reused in ((b'{"messages":[{},123]}', 1), (b'{"messages":[{},12,{}]}', 1), (b'{"messages":[{},12]}', 2)):
        scan = fp.scan(body, grammar, earlier)
        assert (scan.reused_item_count, scan.items()) == (reused, fp.scan(body, grammar).items())


def test_scan_with_previous_of_another_grammar_starts_afresh(fp: Backend) -> None:
    body = messages({"role": "user", "content": "a"})
    scan = fp.scan(body, fp.grammar(CHAT), fp.scan(body, fp.grammar(MESSAGES)))
    assert (scan.reused_item_count, scan.part_count) == (0, 1)


def test_scan_with_previous_obeys_a_later_history(fp: Backend) -> None:
    grammar = fp.grammar(MESSAGES)
    earlier = fp.scan(b'{"messages":[{"role":"user"},{}]}', grammar)
    body = b'{"messages":[{"role":"user"},{}],"messages":[{}]}'
    scan = fp.scan(body, grammar, earlier)
    assert (scan.item_count, scan.history) == (1, fp.scan(body, grammar).history)


def test_scan_with_previous_still_checks_the_rest(fp: Backend) -> None:
    grammar = fp.grammar(MESSAGES)
    earlier = fp.scan(b'{"messages":[{},{}]}', grammar)
    with pytest.raises(MalformedError) as caught:
        fp.scan(b'{"messages":[{},{}],}', grammar, earlier)
    assert caught.value.offset_bytes == 20


def test_malformed_error_survives_pickling(fp: Backend) -> None:
    with pytest.raises(MalformedError) as caught:
        fp.scan(b'{"messages":[01]}', fp.grammar(MESSAGES))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.offset_bytes, again.bound) == ("unexpected byte at byte 14", 14, "")


@pytest.mark.parametrize(
    "change",
    [
        {"item": "nowhere"},
        {"history": ()},
        {"system": (b"messages",)},
        {"system_shape": "nowhere"},
        {"tools_shape": "nowhere"},
        {"history": (b"k" * 256,)},
        {"shapes": {"item": Shape(each="nowhere")}},
        {"shapes": {"item": Shape(default="nowhere")}},
        {"shapes": {"item": Shape(cases={b"a": "nowhere"})}},
        {"shapes": {"item": Shape(fields={b"a": Field(shape="nowhere")})}},
        {"shapes": {"item": Shape(by=b"a", default="item")}},
        {"shapes": {"item": Shape(by=b"a", cases={b"x": "b"}), "b": Shape(by=b"b", default="item")}},
        {"shapes": {"item": Shape(fields={b"%d" % number: Field(Code.ID) for number in range(2001)})}},
    ],
    ids=str,
)
def test_grammar_of_bad_specification_is_refused(fp: Backend, change: dict[str, object]) -> None:
    spec = GrammarSpec(history=(b"messages",), system=(), tools=(), item="item", shapes={"item": Shape()})
    assert fp.grammar(spec).spec == spec
    with pytest.raises(ValueError, match=r"shape|key|circle"):
        fp.grammar(spec._replace(**change))
