"""Canonical forms, marker removal, paths, decoding and splicing, in both forms."""

from __future__ import annotations

import json

import pytest

from fastpath import Edit, MalformedError
from tests.helpers.backends import BACKENDS, Backend
from tests.helpers.grammars import CHAT, MESSAGES, TORTURE

pytestmark = pytest.mark.parametrize("fp", BACKENDS, ids=lambda backend: backend.name)


def strict(fp: Backend, text: bytes) -> bytes:
    return fp.canon(text, 0, len(text), fp.grammar(MESSAGES))[0]


def loose(fp: Backend, text: bytes) -> bytes:
    exact, other = fp.canon(text, 0, len(text), fp.grammar(MESSAGES))
    assert other != exact
    return exact if other is None else other


ITEM = {
    "role": "user",
    "content": [{"type": "text", "text": 'é €\U0001f600 "quoted" \\ / \n\t\x01', "n": [1, 2.5, -3e7, 10**30]}],
    "zz": {"é": None, "a": True, "": False},
}


@pytest.mark.parametrize("ensure_ascii", [True, False])
@pytest.mark.parametrize("sort_keys", [True, False])
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_canon_of_any_dump_is_the_same(
    fp: Backend, ensure_ascii: bool, sort_keys: bool, indent: int | None, separators: tuple[str, str]
) -> None:
    text = json.dumps(ITEM, ensure_ascii=ensure_ascii, sort_keys=sort_keys, indent=indent, separators=separators).encode()
    plain = json.dumps(ITEM).encode()
    assert fp.canon(text, 0, len(text), fp.grammar(MESSAGES)) == fp.canon(plain, 0, len(plain), fp.grammar(MESSAGES))


def test_canon_of_item_is_spelled_one_way(fp: Backend) -> None:
    text = rb' { "role" : "user", "b":[1.50,100,-0.0,1e3], "\u0061":"\u00e9\/\u000a\u001F\"\ud83d\ude00" } '
    assert strict(fp, text) == '{"a":"é/\\n\\u001f\\"\U0001f600","b":[15e-1,100,0,1000],"role":"user"}'.encode()


@pytest.mark.parametrize(
    "spellings",
    [
        [b"1", b"1.0", b"1e0", b"10e-1", b"0.1e1", b"1E+0", b"1.000e00000", b"100000e-5"],
        [b"0", b"-0", b"0.0", b"-0.0e5", b"0e99999999999999999999"],
        [b"1e21", b"1000000000000000000000", b"1000000000000000000000.0", b"1E21", b"0.001e24"],
        [b"123456789012345678901234567890", b"1.2345678901234567890123456789e29"],
        [b"0.1", b"1e-1", b"0.10"],
        [b"1e-7", b"0.0000001", b"1.0E-7"],
        [b"-12.5", b"-125e-1", b"-1.25e1"],
        [b"1e99999999999999999999", b"10e99999999999999999998", b"0.1e100000000000000000000"],
        [b"1e-99999999999999999999", b"0.1e-99999999999999999998"],
    ],
)
def test_canon_of_equal_numbers_is_the_same(fp: Backend, spellings: list[bytes]) -> None:
    assert len({strict(fp, text) for text in spellings}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"9007199254740993", b"9007199254740992"),
        (b"0.1", b"0.1000000000000000055511151231257827"),
        (b"1e400", b"1e401"),
        (b"1e-400", b"0"),
        (b"2.5", b"2.50000000000000000000000000001"),
    ],
)
def test_canon_of_numbers_equal_as_doubles_is_the_same_only_loosely(fp: Backend, one: bytes, other: bytes) -> None:
    assert strict(fp, one) != strict(fp, other)
    assert loose(fp, one) == loose(fp, other)


@pytest.mark.parametrize(
    ("one", "other"), [(b"1", b"-1"), (b"1", b"10"), (b"1e400", b"-1e400"), (b"0.1", b"0.2"), (b"1", b'"1"')]
)
def test_canon_of_other_values_is_another_form(fp: Backend, one: bytes, other: bytes) -> None:
    assert strict(fp, one) != strict(fp, other)
    assert loose(fp, one) != loose(fp, other)


def test_canon_of_huge_exponent_stays_small(fp: Backend) -> None:
    assert strict(fp, b"[1e999999999999999999999999]") == b"[1e999999999999999999999999]"
    assert loose(fp, b"[1e999999999999999999999999,-1e400,1e-400]") == b"[1e999,-1e999,0]"


def test_canon_of_null_member_differs_loosely(fp: Backend) -> None:
    text = b'{"a":null,"b":[null],"c":{"d":null}}'
    assert strict(fp, text) == text
    assert loose(fp, text) == b'{"b":[null],"c":{}}'


def test_canon_without_nulls_and_long_numbers_has_one_form(fp: Backend) -> None:
    text = b'{"a":[1,2.5,1e300,123456789012345,-0.001],"b":{}}'
    assert fp.canon(text, 0, len(text), fp.grammar(MESSAGES))[1] is None


def test_canon_keeps_the_last_of_duplicates(fp: Backend) -> None:
    assert strict(fp, rb'{"a":1,"b":2,"\u0061":3}') == b'{"a":3,"b":2}'


def test_canon_sorts_by_decoded_key(fp: Backend) -> None:
    keys = ["b", "a", "", "aa", 'a"', "é", "\x01", "\\", "~", "z" * 100]
    text = json.dumps(dict.fromkeys(keys, 0)).encode()
    found = list(json.loads(strict(fp, text)))
    assert found == sorted(keys, key=lambda key: key.encode())


def test_canon_of_many_members_is_sorted(fp: Backend) -> None:
    text = json.dumps({f"k{number * 7919 % 1000:04}": number for number in range(1000)}).encode()
    found = json.loads(strict(fp, text))
    assert list(found) == sorted(found)
    assert found == json.loads(text)


def test_canon_keeps_lone_surrogates_and_bytes_apart(fp: Backend) -> None:
    spellings = [rb'"\ud800"', b'"\xed\xa0\x80"', b'"\xff"', rb'"\udfff"', b'"\xef\xbf\xbd"', rb'"\\ud800"']
    assert len({strict(fp, text) for text in spellings}) == len(spellings)
    assert strict(fp, rb'"\uD800"') == strict(fp, rb'"\ud800"')
    assert strict(fp, rb'"\ud83d\ude00"') == '"\U0001f600"'.encode()


def test_canon_leaves_markers_out(fp: Backend) -> None:
    marked = {"role": "user", "content": [{"type": "text", "cache_control": {"type": "ephemeral"}, "text": "a"}]}
    plain = {"role": "user", "content": [{"type": "text", "text": "a"}]}
    assert strict(fp, json.dumps(marked).encode()) == strict(fp, json.dumps(plain).encode())


def test_canon_leaves_null_and_repeated_markers_out(fp: Backend) -> None:
    text = b'{"role":"user","content":[{"cache_control":{},"type":"text","text":"a","cache_control":null}]}'
    assert strict(fp, text) == b'{"content":[{"text":"a","type":"text"}],"role":"user"}'


def test_canon_leaves_marker_blocks_out_of_arrays(fp: Backend) -> None:
    text = b'{"content":[{"cachePoint":{}},{"text":"a"},{"cachePoint":{}}],"role":"x"}'
    assert fp.canon(text, 0, len(text), fp.grammar(TORTURE))[0] == b'{"content":[{"text":"a"}],"role":"x"}'


def test_canon_keeps_markers_where_the_grammar_sees_none(fp: Backend) -> None:
    arguments = {"cache_control": {"type": "ephemeral"}, "cachePoint": {}}
    text = json.dumps({"role": "assistant", "content": [{"type": "tool_use", "input": arguments}]}).encode()
    assert json.loads(strict(fp, text))["content"][0]["input"] == arguments


def test_canon_of_string_content_is_that_of_one_text_block(fp: Backend) -> None:
    block = [{"type": "text", "text": 'a"\n'}]
    for grammar, role in ((MESSAGES, "user"), (CHAT, "tool")):
        forms = []
        for content in ('a"\n', block):
            text = json.dumps({"role": role, "content": content}).encode()
            forms.append(fp.canon(text, 0, len(text), fp.grammar(grammar))[0])
        assert forms[0] == forms[1]
        assert json.loads(forms[0])["content"] == block


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        (b'{"role":"x","content":[1]}', b'{"role":"x","content":[1]}'),
        (b' {"mark":1 , "role":"x"} ', b' {"role":"x"} '),
        (b'{"role":"x" , "mark":1 }', b'{"role":"x" }'),
        (b'{"role":"x", "mark":1, "id":2}', b'{"role":"x", "id":2}'),
        (b'{ "mark":1 }', b"{  }"),
        (b'{"mark":1,"mark":2}', b"{}"),
        (b'{"mark":1,"id":3,"mark":2,"mark":null}', b'{"id":3}'),
        (
            b'{"content":[{"cachePoint":{}}, {"cachePoint":{}} ,{"id":1},{"cachePoint":{}},{"id":2}]}',
            b'{"content":[{"id":1},{"id":2}]}',
        ),
        (b'{"content":[{"cachePoint":{}}]}', b'{"content":[]}'),
        (b'{"content":[{"id":1,"mark":{}},{"mark":{}}]}', b'{"content":[{"id":1},{}]}'),
        (b'{"thought":{"mark":1},"other":{"mark":1}}', b'{"thought":{"mark":1},"other":{"mark":1}}'),
    ],
)
def test_strip_markers_cuts_each_with_one_comma(fp: Backend, text: bytes, stripped: bytes) -> None:
    assert fp.strip_markers(text, 0, len(text), fp.grammar(TORTURE)) == stripped
    around = b"[[" + text + b"]]"
    assert fp.strip_markers(around, 2, len(around) - 2, fp.grammar(TORTURE)) == stripped


def test_locate_finds_values_by_decoded_keys_and_indices(fp: Backend) -> None:
    body = rb'xx {"a":[1, {"\u00e9" : "v"}],"a ":{},"":[[]]} yy'
    for path, value in (
        ((), body[3:-3]),
        ((b"a",), rb'[1, {"\u00e9" : "v"}]'),
        ((b"a", 0), b"1"),
        ((b"a", 1, "é".encode()), b'"v"'),
        ((b"a ",), b"{}"),
        ((b"", 0), b"[]"),
    ):
        found = fp.locate(body, 2, path)
        assert found is not None
        assert body[slice(*found)] == value


@pytest.mark.parametrize(
    "path", [(b"b",), (0,), (b"a", b"a"), (b"a", 2), (b"a", -1), (b"a", 10**30), (b"a", 0, 0), (b"b", b"c"), (b"a" * 3000,)]
)
def test_locate_of_what_is_not_there_is_none(fp: Backend, path: tuple[bytes | int, ...]) -> None:
    body = b'{"a":[1,2]}'
    assert fp.locate(body, 0, path) is None
    assert fp.locate_removal(body, 0, path) is None


def test_locate_takes_the_last_of_duplicates(fp: Backend) -> None:
    body = rb'{"a":1,"\u0061":2,"b":3}'
    assert fp.locate(body, 0, (b"a",)) == (16, 17)


def test_locate_in_malformed_text_fails(fp: Backend) -> None:
    with pytest.raises(MalformedError) as caught:
        fp.locate(b'{"a":1,"b":[1,}', 0, (b"a",))
    assert caught.value.offset_bytes == 14
    with pytest.raises(ValueError, match="outside"):
        fp.locate(b"{}", 3, ())


@pytest.mark.parametrize(
    ("body", "path", "left"),
    [
        (b"[1, 2, 3]", (0,), b"[2, 3]"),
        (b"[1, 2, 3]", (1,), b"[1, 3]"),
        (b"[1, 2, 3]", (2,), b"[1, 2]"),
        (b"[ 1 ]", (0,), b"[  ]"),
        (b'{"a": 1, "b": 2}', (b"a",), b'{"b": 2}'),
        (b'{"a": 1, "b": 2 }', (b"b",), b'{"a": 1 }'),
        (b'{ "a" : 1 }', (b"a",), b"{  }"),
        (b'[{"a":[1,{"b":2}]}]', (0, b"a", 1), b'[{"a":[1]}]'),
    ],
)
def test_locate_removal_takes_one_comma(fp: Backend, body: bytes, path: tuple[bytes | int, ...], left: bytes) -> None:
    span = fp.locate_removal(body, 0, path)
    assert span is not None
    assert body[: span[0]] + body[span[1] :] == left


def test_locate_removal_of_the_root_is_none(fp: Backend) -> None:
    assert fp.locate_removal(b"[1]", 0, ()) is None


def test_strings_lists_values_with_paths(fp: Backend) -> None:
    body = rb'..{"a":"12345","bbbbbb":["123","1234",{"\u00e9":"\u0041"}],"s":{"t":"12345"},"s":1}..'
    found = fp.strings(body, 2, len(body) - 2, 4)
    assert [(body[start:end], path) for start, end, path in found] == [
        (b'"12345"', (b"a",)),
        (b'"1234"', (b"bbbbbb", 1)),
        (rb'"\u0041"', (b"bbbbbb", 2, "é".encode())),
    ]
    assert fp.strings(b'"abc"', 0, 5, 3) == [(0, 5, ())]
    assert fp.strings(b'"abc"', 0, 5, 4) == []


def test_decode_string_resolves_escapes(fp: Backend) -> None:
    assert fp.decode_string(rb"\"\\\/\b\f\n\r\t\u0041\u00e9\u20ac") == '"\\/\b\f\n\r\tAé€'.encode()
    assert fp.decode_string(rb"\ud83d\ude00 \uD83D\uDE00") == "\U0001f600 \U0001f600".encode()
    assert fp.decode_string(rb"\ud83d.\ude00\ud83d\u0041\ud83d\n") == b"\xed\xa0\xbd.\xed\xb8\x80\xed\xa0\xbdA\xed\xa0\xbd\n"
    assert fp.decode_string(b"\xff\xed\xa0\x80\x00") == b"\xff\xed\xa0\x80\x00"
    assert fp.decode_string(b"") == b""


@pytest.mark.parametrize(("raw", "offset"), [(b"a\\", 2), (rb"a\x", 2), (rb"\u12", 4), (rb"\u12G4", 4), (rb"ok\n\ud83d\u1", 13)])
def test_decode_string_of_bad_escape_fails(fp: Backend, raw: bytes, offset: int) -> None:
    for function in (fp.decode_string, fp.decode_blocks):
        with pytest.raises(MalformedError) as caught:
            function(raw)
        assert caught.value.offset_bytes == offset


def test_decode_blocks_begins_blocks_at_characters(fp: Backend) -> None:
    raw = rb"ab\u00e9\u00e9c" + "€€".encode() + rb"\ud83d\ude00z"
    content, starts = fp.decode_blocks(raw, 3)
    assert content == "abéé c€€\U0001f600z".replace(" ", "").encode()
    assert starts == [(0, 0), (8, 4), (14, 6), (18, 10), (21, 13), (33, 17)]


@pytest.mark.parametrize(
    ("raw", "starts"),
    [
        (b"", [(0, 0)]),
        (b"a", [(0, 0)]),
        (b"abcd", [(0, 0)]),
        (b"abcde", [(0, 0), (4, 4)]),
        (b"abc\xc3\xa9", [(0, 0)]),
        (b"abc\xc3\xa9d", [(0, 0), (5, 5)]),
        (b"abcd\\n", [(0, 0), (4, 4)]),
        (b"abc\xc3\xc3\xa9", [(0, 0), (4, 4)]),
        (b"abc\x80\x80", [(0, 0), (4, 4)]),
        (b"ab\xe2\x82\xacd", [(0, 0), (5, 5)]),
        (b"ab\xe2\x82", [(0, 0)]),
    ],
)
def test_decode_blocks_has_no_empty_block(fp: Backend, raw: bytes, starts: list[tuple[int, int]]) -> None:
    assert fp.decode_blocks(raw, 4)[1] == starts


def test_decode_blocks_of_no_size_is_refused(fp: Backend) -> None:
    with pytest.raises(ValueError, match="block_bytes"):
        fp.decode_blocks(b"a", 0)


def test_splice_replaces_inserts_and_deletes(fp: Backend) -> None:
    edits = [Edit(0, 0, b"<"), (1, 3, b"XYZ"), (3, 3, b"+"), Edit(4, 6, b""), (6, 6, b">")]
    assert fp.splice(b"abcdef", edits) == b"<aXYZ+d>"
    assert fp.size(b"abcdef", edits) == 8
    assert fp.splice(b"abc", []) == b"abc"


def test_splice_of_large_body_is_exact(fp: Backend) -> None:
    body = bytes(range(256)) * 8192
    edits = [(start, start + 100, b"-" * (start % 7)) for start in range(0, len(body) - 100, 50_000)]
    expected = bytearray(body)
    for start, end, data in reversed(edits):
        expected[start:end] = data
    assert fp.splice(body, edits) == bytes(expected)


@pytest.mark.parametrize(
    "edits", [[(2, 1, b"")], [(-1, 1, b"")], [(0, 4, b"")], [(0, 2, b""), (1, 3, b"")], [(2, 3, b""), (0, 1, b"")]]
)
def test_splice_of_bad_edits_is_refused(fp: Backend, edits: list[tuple[int, int, bytes]]) -> None:
    for function in (fp.size, fp.splice):
        with pytest.raises(ValueError, match="edits"):
            function(b"abc", edits)
