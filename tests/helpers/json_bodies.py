"""Bodies made for the scan's tests: hypothesis strategies, seeded mutations, and a table of hand-made cases."""

from __future__ import annotations

import random
from collections.abc import Iterator

from hypothesis import strategies as st

__all__ = ["CASES", "SMALL_BODY", "mutations", "texts", "torture_bodies"]

_KEYS = (
    rb"role type content text id mark cachePoint cache_control media call thought sig error any args name each input tools "
    rb"tool_calls function \u0069d zz k\"q \ud83d"
).split() + [b"", b"\xed\xa0\xbd", b"q" * 70]
_STRINGS = [
    *(rb"a x user assistant tool text tool_use tool_result \u00e9 \n\t\u0041\/ \ud83d\ude00 \ud83d error \u0065rror").split(),
    rb"\ude00\ud83d",
    b"",
    b"\xc3\xa9",
    b"\xed\xa0\x80",
    b"\xff\xfe",
    b"y" * 70,
    b"z" * 63 + b"\\\\",
    b"\\\\" * 33 + b'\\"',
]
_SCALARS = [
    b"null",
    b"true",
    b"false",
    b"0",
    b"-0",
    b"1.50",
    b"1e400",
    b"-1E-400",
    b"12345678901234567890.5",
    b"0.1e-5",
    b"9007199254740993",
]
_SPACES = ["", " ", "\n\t", "\r\n  "]

_quoted = st.sampled_from(_STRINGS).map(lambda text: b'"' + text + b'"')
_scalars = st.one_of(_quoted, st.sampled_from(_SCALARS))
_spaces = st.sampled_from([space.encode() for space in _SPACES])


def _array(space: bytes, values: list[bytes]) -> bytes:
    return b"[" + space + (space + b"," + space).join(values) + space + b"]"


def _object(space: bytes, members: list[tuple[bytes, bytes]]) -> bytes:
    return (
        b"{"
        + space
        + (b"," + space).join(b'"' + key + b'"' + space + b":" + space + value for key, value in members)
        + space
        + b"}"
    )


texts = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.builds(_array, _spaces, st.lists(inner, max_size=4)),
        st.builds(_object, _spaces, st.lists(st.tuples(st.sampled_from(_KEYS), inner), max_size=5)),
    ),
    max_leaves=20,
)
"""JSON texts over a small vocabulary, so that keys repeat and the grammars see much of it."""

_ROOT_KEYS = st.sampled_from(
    [b"messages", b"messages", b"input", b"system", b"tools", b"instructions", b"model", rb"m\u0065ssages"]
)
_history = st.builds(_array, _spaces, st.lists(texts, max_size=6))
torture_bodies = st.builds(
    _object, _spaces, st.lists(st.tuples(_ROOT_KEYS, st.one_of(_history, _history, texts)), min_size=1, max_size=4)
)
"""Bodies whose root members repeat, shadow one another and are not what they should be."""

SMALL_BODY = (
    rb'{"model":"m\u00e9","system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}], "messages" :['
    rb'{"role":"user","content":"hi \ud83d\ude00 \"x\\"},{"role":"assistant","content":['
    rb'{"type":"thinking","thinking":"t","signature":"sg"},'
    rb'{"type":"tool_use","id":"c1","name":"run","input":{"n":-12.5e+3,"deep":[[],{},[null,true,false]]}}]},'
    rb'{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","is_error":true,"content":[{"type":"text","text":"out\n\u0001"}]},'
    rb'{"type":"image","source":{"type":"base64","data":"QUJD"}}]}],"tools":[{"name":"run","input_schema":{"type":"object"}}],"max_tokens":0}'
    b"\n"
)

_H = b'{"messages":['
CASES: dict[str, bytes] = {
    "empty": b"",
    "space only": b" \n",
    "byte order mark": b"\xef\xbb\xbf{}",
    "not an object": b"[1]",
    "a number": b"12",
    "no members": b"{}",
    "no history": b'{"a":1}',
    "history is null": b'{"messages":null}',
    "history is a string": b'{"messages":"x"}',
    "empty history": _H + b"]}",
    "items of every type": _H + b'null,true,false,0,"s",[],{},[1],{"a":1}]}',
    "later history": b'{"messages":[{"role":"user"}],"messages":[{"role":"assistant"},{}]}',
    "later history is no array": b'{"messages":[{"role":"user"}],"messages":3}',
    "history after no array": b'{"messages":3,"messages":[{"role":"user"}]}',
    "two kinds of history": b'{"messages":[1],"input":[2,3]}',
    "two kinds, the better first": b'{"input":[2,3],"messages":[1]}',
    "better history is no array": b'{"messages":[1],"input":"x"}',
    "escaped history key": rb'{"m\u0065ssages":[{}]}',
    "trailing comma in history": _H + b"{},]}",
    "leading comma in history": _H + b",{}]}",
    "two commas": _H + b"{},,{}]}",
    "no comma": _H + b"{} {}]}",
    "trailing comma in root": b'{"messages":[],}',
    "comma only": b"{,}",
    "missing colon": b'{"messages" []}',
    "missing value": b'{"messages":}',
    "key without quotes": b"{messages:[]}",
    "trailing data": b'{"messages":[]}x',
    "trailing object": b'{"messages":[]} {}',
    "trailing space": b'{"messages":[]} \r\n\t ',
    "other space": b'{"messages":[]}\x0c',
    "wrong bracket": _H + b"{]}",
    "wrong closing": _H + b"}",
    "NaN": _H + b"NaN]}",
    "nan": _H + b"nan]}",
    "Infinity": _H + b"-Infinity]}",
    "True": _H + b"True]}",
    "truth": _H + b"truth]}",
    "nulls": _H + b"nulls]}",
    "leading zero": _H + b"01]}",
    "minus only": _H + b"-]}",
    "minus zero": _H + b"-0]}",
    "minus zero one": _H + b"-01]}",
    "plus": _H + b"+1]}",
    "point only": _H + b".5]}",
    "point at the end": _H + b"1.]}",
    "point then exponent": _H + b"1.e5]}",
    "two points": _H + b"1.5.2]}",
    "exponent only": _H + b"1e]}",
    "exponent sign only": _H + b"1E+]}",
    "two exponents": _H + b"1e5e5]}",
    "point in exponent": _H + b"1e5.5]}",
    "all of a number": _H + b"-10.250E-07]}",
    "hexadecimal": _H + b"0x10]}",
    "number then letters": _H + b"12abc]}",
    "single quotes": _H + b"'a']}",
    "unclosed string": _H + b'"abc',
    "unclosed key": b'{"messages',
    "line feed in string": _H + b'"a\nb"]}',
    "tab in string": _H + b'"a\tb"]}',
    "zero byte in string": _H + b'"a\x00b"]}',
    "control in key": b'{"mess\x1fages":[]}',
    "delete in string": _H + b'"\x7f"]}',
    "bad escape": _H + rb'"a\qb"]}',
    "bad escape of a zero": _H + b'"a\\\x00b"]}',
    "escaped line feed": _H + b'"a\\\n"]}',
    "escape at the end": _H + b'"a\\',
    "short unicode escape": _H + rb'"\u12"]}',
    "cut unicode escape": _H + rb'"\u12',
    "no digits": _H + rb'"\uXYZW"]}',
    "all escapes": _H + rb'"\"\\\/\b\f\n\r\t\u0000\uABcd"]}',
    "lone surrogates": _H + rb'"\ud800","\udc00\ud800","\ud800\ud800\udc00"]}',
    "invalid UTF-8": _H + b'"\xff\xc0\x80\xed\xa0\x80\xf5"]}',
    "invalid UTF-8 outside": _H + b"\xff]}",
    "backslashes up to a quote": _H + b'"' + b"\\\\" * 100 + b'"]}',
    "odd backslashes": _H + b'"' + b"\\\\" * 100 + b'\\""]}',
    "role twice": _H + b'{"role":"user","content":"a","role":"assistant"}]}',
    "role is a number": _H + b'{"role":1,"content":[{"type":"text","text":"a"}]}]}',
    "role is escaped": _H + rb'{"role":"\u0075ser","content":[{"type":"te\u0078t","text":"a"}]}]}',
    "content twice": _H + b'{"role":"user","content":[{"type":"text","text":"a"}],"content":[{"type":"image","source":{}}]}]}',
    "marker is null": _H + b'{"role":"user","content":[{"type":"text","text":"a","cache_control":null}]}]}',
    "marker twice": _H + b'{"role":"user","content":[{"type":"text","cache_control":{},"text":"a","cache_control":null}]}]}',
    "marker block": _H + b'{"role":"x","content":[{"cachePoint":{"type":"default"}},{"text":"a"}]}]}',
    "marked tools": b'{"tools":[{"cache_control":{}},{"cache_control":{}}],"messages":[],"tools":[{"cache_control":{}}]}',
    "system twice": b'{"system":"a","messages":[],"system":[{"type":"text","text":"b","cache_control":{}}]}',
    "media in a result": _H
    + b'{"role":"user","content":[{"type":"tool_result","content":[{"type":"image","source":1},{"type":"text","text":"a"}]}]}]}',
    "call in a call": _H + b'{"call":[{"any":{"call":{"args":1},"media":{"each":{"mark":1}}}}]}]}',
    "raised kinds": _H + b'{"text":"a","thought":true},{"text":null,"thought":false},{"content":[{"text":"a","mark":0}]}]}',
    "many members": _H + b'{"a":{' + b",".join(b'"k%d":%d' % (number * 37 % 200, number) for number in range(300)) + b"}}]}",
    "many items and parts": _H
    + b",".join([b'{"role":"user","content":[{"type":"text","text":"a"},{"type":"image"}]}'] * 70)
    + b"]}",
    "many root members": b"{" + b",".join(b'"k%d":%d' % (number, number) for number in range(70)) + b',"messages":[]}',
    "deep but legal": _H + b"[" * 510 + b"]" * 510 + b"]}",
    "one too deep": _H + b"[" * 511 + b"]" * 511 + b"]}",
    "deep objects": _H + b'{"any":' * 511 + b"1" + b"}" * 511 + b"]}",
}
"""Bodies by what is special about them. All are read with every grammar, so most are malformed for some."""


def mutations(body: bytes, seed: int, count: int) -> Iterator[bytes]:
    """Cut and changed copies of a body, the same for the same seed."""
    rand = random.Random(seed)
    troubles = b'"\\{}[],:0-eE.nut \n\x01\xff'
    for _ in range(count):
        yield body[: rand.randrange(len(body))]
        changed = bytearray(body)
        for _ in range(rand.randint(1, 3)):
            at = rand.randrange(len(changed))
            changed[at : at + rand.randint(0, 2)] = bytes([rand.choice(troubles)])
        yield bytes(changed)
