"""Stubs keep the type of what they replace, carry its cache marker when told to, and are spelled like it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from sidecar.core.types import ReductionKind
from sidecar.formats.base import Adapter, Style
from sidecar.formats.spelling import PLAIN
from tests.formats.build import CHAT, MESSAGES, asked, dump, scanned

BOTH = [CHAT, MESSAGES]
RESULTS = [ReductionKind.EXTERNALIZE, ReductionKind.RESULT, ReductionKind.RECENT_RESULT]
NOTE = 'moved out; see "a/b" → \ud83d\ude00'.encode("utf-16", "surrogatepass").decode("utf-16")


@pytest.mark.parametrize("adapter", BOTH)
@pytest.mark.parametrize("kind", RESULTS)
@pytest.mark.parametrize(
    ("original", "expected"),
    [
        ("long", NOTE),
        ("", NOTE),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], [{"type": "text", "text": NOTE}]),
        ([], [{"type": "text", "text": NOTE}]),
        ({"type": "text", "text": "a"}, {"type": "text", "text": NOTE}),
    ],
)
def test_stub_result_keeps_its_type(adapter: Adapter, kind: ReductionKind, original: Any, expected: Any) -> None:
    made = adapter.stub(kind, dump(original), NOTE, PLAIN)
    assert made is not None
    assert json.loads(made) == expected


@pytest.mark.parametrize("adapter", BOTH)
@pytest.mark.parametrize("original", [1, None, True, {"stdout": "x"}, {"type": 1}])
def test_stub_result_of_another_type_is_refused(adapter: Adapter, original: Any) -> None:
    assert adapter.stub(ReductionKind.RESULT, dump(original), NOTE, PLAIN) is None


def test_stub_chat_arguments_are_a_string_that_holds_an_object() -> None:
    made = CHAT.stub(ReductionKind.ARGUMENTS, dump('{"path":"x"}'), NOTE, PLAIN)
    assert made is not None
    assert list(json.loads(json.loads(made)).values()) == [NOTE]


def test_stub_chat_arguments_that_a_server_gave_as_an_object_stay_one() -> None:
    made = CHAT.stub(ReductionKind.ARGUMENTS, dump({"path": "x"}), NOTE, PLAIN)
    assert made is not None
    assert list(json.loads(made).values()) == [NOTE]
    assert CHAT.stub(ReductionKind.ARGUMENTS, b"null", NOTE, PLAIN) is None


def test_stub_messages_input_is_an_object() -> None:
    made = MESSAGES.stub(ReductionKind.ARGUMENTS, dump({"path": "x"}), NOTE, PLAIN)
    assert made is not None
    assert list(json.loads(made).values()) == [NOTE]
    assert MESSAGES.stub(ReductionKind.ARGUMENTS, dump("{}"), NOTE, PLAIN) is None


@pytest.mark.parametrize("adapter", BOTH)
def test_stub_media_becomes_a_text_block(adapter: Adapter) -> None:
    made = adapter.stub(
        ReductionKind.MEDIA, dump({"type": "image", "source": {}, "cache_control": {"type": "ephemeral"}}), NOTE, PLAIN
    )
    assert made is not None
    assert json.loads(made) == {"type": "text", "text": NOTE}
    assert adapter.stub(ReductionKind.MEDIA, dump("data"), NOTE, PLAIN) is None


def test_stub_reasoning_is_blank_only_where_it_was_a_string() -> None:
    assert CHAT.stub(ReductionKind.REASONING, dump("hm"), NOTE, PLAIN) == b'""'
    assert CHAT.stub(ReductionKind.REASONING, dump([{"type": "reasoning.text"}]), NOTE, PLAIN) is None
    assert MESSAGES.stub(ReductionKind.REASONING, dump({"type": "thinking"}), NOTE, PLAIN) is None


@pytest.mark.parametrize("adapter", BOTH)
def test_stub_is_spelled_in_the_style(adapter: Adapter) -> None:
    made = adapter.stub(ReductionKind.RESULT, b"[]", "é/", Style(ascii=True, slash=True, spaced=True))
    assert made == b'[{"type": "text", "text": "\\u00e9\\/"}]'
    assert adapter.stub(ReductionKind.RESULT, b"[]", "é/", PLAIN) == '[{"type":"text","text":"é/"}]'.encode()


STUB = b'{"type":"text","text":"s"}'
MARK = b'{ "type" : "ephemeral" }'


@pytest.mark.parametrize("adapter", BOTH)
def test_with_marker_block_brings_its_marker_byte_for_byte(adapter: Adapter) -> None:
    original = b'{"type":"image","cache_control":' + MARK + b',"source":{"cache_control":1}}'
    assert adapter.with_marker(STUB, original, PLAIN) == b'{"type":"text","text":"s","cache_control":' + MARK + b"}"


@pytest.mark.parametrize("adapter", BOTH)
def test_with_marker_list_brings_only_the_last_marker(adapter: Adapter) -> None:
    original = (
        b'[{"type":"text","text":"a","cache_control":{"type":"x"}},{"type":"text","text":"b","cache_control":'
        + MARK
        + b'},{"type":"text"}]'
    )
    assert (
        adapter.with_marker(b"[" + STUB + b"]", original, PLAIN) == b'[{"type":"text","text":"s","cache_control":' + MARK + b"}]"
    )


@pytest.mark.parametrize("adapter", BOTH)
@pytest.mark.parametrize(
    ("stub", "original"),
    [
        (STUB, b'{"type":"image"}'),
        (STUB, b'{"type":"image","cache_control":null}'),
        (STUB, b'{"type":"image","source":{"cache_control":1}}'),
        (b"[" + STUB + b"]", b"[]"),
        (b'"s"', b'"text with cache_control"'),
        (b'{"_moved_out":"s"}', b'{"cache_control":{"type":"ephemeral"}}'),
    ],
)
def test_with_marker_nothing_to_carry_leaves_the_stub(adapter: Adapter, stub: bytes, original: bytes) -> None:
    assert adapter.with_marker(stub, original, PLAIN) == stub


def test_with_marker_chat_knows_the_breakpoint_of_openai() -> None:
    original = b'{"type":"text","text":"x","prompt_cache_breakpoint":{"mode":"explicit"}}'
    assert json.loads(CHAT.with_marker(STUB, original, PLAIN))["prompt_cache_breakpoint"] == {"mode": "explicit"}


DATA = base64.b64encode(b"a picture").decode()


@pytest.mark.parametrize(
    ("adapter", "block", "media_type"),
    [
        (CHAT, {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}", "detail": "low"}}, "image/png"),
        (CHAT, {"type": "image_url", "image_url": f"data:image/png;base64,{DATA}"}, "image/png"),
        (CHAT, {"type": "image_url", "image_url": {"url": f"DATA:image/svg+xml;charset=utf-8;BASE64,{DATA}"}}, "image/svg+xml"),
        (CHAT, {"type": "input_audio", "input_audio": {"data": DATA, "format": "mp3"}}, "audio/mp3"),
        (
            CHAT,
            {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{DATA}"}},
            "application/pdf",
        ),
        (CHAT, {"type": "file", "file": {"file_data": DATA}}, "application/octet-stream"),
        (CHAT, {"type": "video_url", "video_url": {"url": f"data:video/mp4;base64,{DATA}"}}, "video/mp4"),
        (CHAT, {"type": "input_image", "image_url": f"data:image/png;base64,{DATA}"}, "image/png"),
        (CHAT, {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": DATA}}, "image/gif"),
        (MESSAGES, {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": DATA}}, "image/gif"),
        (
            MESSAGES,
            {"type": "document", "source": {"data": DATA, "media_type": "application/pdf", "type": "base64"}},
            "application/pdf",
        ),
    ],
)
def test_media_base64_is_found_without_what_stands_around_it(adapter: Adapter, block: dict[str, Any], media_type: str) -> None:
    scan = scanned(adapter, [asked([block])])
    (part,) = scan.parts()
    found = adapter.media(scan.body, (part.start, part.end))
    assert found is not None
    assert scan.body[found.start : found.end] == DATA.encode()
    assert found.media_type == media_type


def test_media_escaped_slashes_are_no_hindrance() -> None:
    body = b'{"type":"image_url","image_url":{"url":"data:image\\/png;base64,QUJD"}}'
    found = CHAT.media(body, (0, len(body)))
    assert found is not None
    assert (body[found.start : found.end], found.media_type) == (b"QUJD", "image/png")


@pytest.mark.parametrize(
    ("adapter", "block"),
    [
        (CHAT, {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}),
        (CHAT, {"type": "image_url", "image_url": {}}),
        (CHAT, {"type": "image_url"}),
        (CHAT, {"type": "file", "file": {"file_id": "f"}}),
        (CHAT, {"type": "input_audio", "input_audio": {}}),
        (MESSAGES, {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}),
        (MESSAGES, {"type": "image", "source": {"type": "file", "file_id": "f"}}),
        (MESSAGES, {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}}),
        (MESSAGES, {"type": "image"}),
    ],
)
def test_media_elsewhere_is_none(adapter: Adapter, block: dict[str, Any]) -> None:
    body = dump(block)
    assert adapter.media(body, (0, len(body))) is None
