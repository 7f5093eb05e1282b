"""ArtifactService over the wire: what Fit took out comes back, exactly, and refusals have their reasons."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from tests.rpc.build import messages_body, to_json
from tests.rpc.running import Running, reason_of, ref
from trimtab.v1 import artifact_pb2, common_pb2, context_pb2

TEXT = "".join(f"{n} naïve – line 二 \U0001f642\n" for n in range(4_000))
MEDIA = bytes(range(256)) * 400
CONTEXT = "context_line_count"


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with Running() as started:
        yield started


def body_with(*contents: Any) -> bytes:
    """A body whose first results are these, and which is long enough that they are old."""
    body = messages_body(len(contents) + 8)
    for place, content in enumerate(contents):
        body["messages"][2 + 2 * place]["content"][0]["content"] = content
    return to_json(body)


def image(data: bytes) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(data).decode()}}


@pytest.fixture(scope="module")
def fitted(running: Running) -> context_pb2.FitResponse:
    """A session "run" with a text, a medium, and a text twice."""
    body = body_with(TEXT, [image(MEDIA), {"type": "text", "text": "see"}], TEXT, "short " * 300)
    return running.fit("run", body, limits=common_pb2.Limits(soft_bytes=65_536, target_bytes=2_048, min_saving_bytes=1))


def artifact_of(fitted: context_pb2.FitResponse, size: int) -> common_pb2.Artifact:
    return next(artifact for artifact in fitted.artifacts if artifact.size_bytes == size)


def read(running: Running, artifact_id: str, **more: Any) -> artifact_pb2.ReadArtifactResponse:
    answer: artifact_pb2.ReadArtifactResponse = running.artifacts.ReadArtifact(
        artifact_pb2.ReadArtifactRequest(session=ref("run"), artifact_id=artifact_id, **more)
    )
    return answer


def test_read_artifact_gives_text_and_media_whole(running: Running, fitted: context_pb2.FitResponse) -> None:
    for content, media_type in ((TEXT.encode(), "text/plain"), (MEDIA, "image/png")):
        artifact = artifact_of(fitted, len(content))
        got = read(running, artifact.artifact_id)
        assert got.content == content
        assert (got.start, got.HasField("next_start")) == (0, False)
        assert got.artifact == artifact
        assert got.artifact.media_type == media_type


def test_read_artifact_describes_the_first_place(running: Running, fitted: context_pb2.FitResponse) -> None:
    got = read(running, artifact_of(fitted, len(TEXT.encode())).artifact_id).artifact
    assert (got.item_index, got.call.item_index, got.call.call_index, got.call.call_id) == (2, 1, 0, "toolu_0000")
    assert (got.tool_name, got.line_count, got.is_error) == ("bash", 4_000, False)
    assert got.create_time.seconds > 1_600_000_000


def test_read_artifact_by_ranges_goes_on_where_it_was_cut(running: Running, fitted: context_pb2.FitResponse) -> None:
    artifact_id = artifact_of(fitted, len(TEXT.encode())).artifact_id
    content = TEXT.encode()
    got = read(running, artifact_id, bytes=artifact_pb2.ByteRange(start=70_000, end=80_000), max_bytes=4_000)
    assert (got.content, got.start, got.next_start) == (content[70_000:74_000], 70_000, 74_000)
    got = read(running, artifact_id, bytes=artifact_pb2.ByteRange(start=70_000))
    assert (got.content, got.HasField("next_start")) == (content[70_000:], False)
    lines = TEXT.encode().splitlines(keepends=True)
    got = read(running, artifact_id, lines=artifact_pb2.LineRange(start=3_000, end=3_002))
    assert (got.content, got.start) == (b"".join(lines[3_000:3_002]), sum(map(len, lines[:3_000])))
    got = read(running, artifact_id, lines=artifact_pb2.LineRange())
    assert got.content == content
    got = read(running, artifact_id, bytes=artifact_pb2.ByteRange(start=5, end=5))
    assert (got.content, got.start) == (b"", 5)


def refused(call: Any, request: Any) -> tuple[grpc.StatusCode, str, dict[str, str]]:
    with pytest.raises(grpc.RpcError) as caught:
        call(request)
    reason, details = reason_of(caught.value)
    return caught.value.code(), reason, details  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("range_", "details"),
    [
        ({"bytes": artifact_pb2.ByteRange(start=-1)}, "size_bytes"),
        ({"bytes": artifact_pb2.ByteRange(start=9, end=8)}, "size_bytes"),
        ({"bytes": artifact_pb2.ByteRange(start=1 << 40)}, "size_bytes"),
        ({"lines": artifact_pb2.LineRange(start=4_001)}, "line_count"),
    ],
)
def test_read_artifact_outside_is_range_invalid(
    running: Running, fitted: context_pb2.FitResponse, range_: dict[str, Any], details: str
) -> None:
    artifact = artifact_of(fitted, len(TEXT.encode()))
    request = artifact_pb2.ReadArtifactRequest(session=ref("run"), artifact_id=artifact.artifact_id, **range_)
    code, reason, found = refused(running.artifacts.ReadArtifact, request)
    assert (code, reason) == (grpc.StatusCode.OUT_OF_RANGE, "RANGE_INVALID")
    assert int(found[details]) == getattr(artifact, details)


@pytest.mark.parametrize(
    ("request_", "reason", "field"),
    [
        (artifact_pb2.ReadArtifactRequest(artifact_id="0" * 32), "INVALID_FIELD", "session.session_id"),
        (artifact_pb2.ReadArtifactRequest(session=ref("run")), "INVALID_FIELD", "artifact_id"),
        (artifact_pb2.ReadArtifactRequest(session=ref("run"), artifact_id="0" * 32, max_bytes=-1), "INVALID_FIELD", "max_bytes"),
        (artifact_pb2.ReadArtifactRequest(session=ref("x" * 257), artifact_id="0" * 32), "INVALID_FIELD", "session.session_id"),
        (artifact_pb2.ReadArtifactRequest(session=ref("run"), artifact_id="0" * 32), "ARTIFACT_NOT_FOUND", None),
        (artifact_pb2.ReadArtifactRequest(session=ref("run"), artifact_id="../../etc"), "ARTIFACT_NOT_FOUND", None),
        (artifact_pb2.ReadArtifactRequest(session=ref("nobody"), artifact_id="0" * 32), "SESSION_NOT_FOUND", None),
        (artifact_pb2.ReadArtifactRequest(session=ref("run", "team"), artifact_id="0" * 32), "SESSION_NOT_FOUND", None),
        (artifact_pb2.SearchArtifactsRequest(session=ref("run")), "INVALID_FIELD", "pattern"),
        (artifact_pb2.SearchArtifactsRequest(session=ref("run"), literal="x", page_size=-1), "INVALID_FIELD", "page_size"),
        (artifact_pb2.SearchArtifactsRequest(session=ref("run"), context_line_count=101, regex="x"), "INVALID_FIELD", CONTEXT),
        (artifact_pb2.SearchArtifactsRequest(session=ref("run"), context_line_count=-1, regex="x"), "INVALID_FIELD", CONTEXT),
        (artifact_pb2.SearchArtifactsRequest(session=ref("run"), literal=""), "PATTERN_INVALID", None),
        (artifact_pb2.SearchArtifactsRequest(session=ref("run"), regex="(a"), "PATTERN_INVALID", None),
        (artifact_pb2.SearchArtifactsRequest(session=ref("run"), literal="x", page_token="x"), "PAGE_TOKEN_INVALID", None),
        (artifact_pb2.SearchArtifactsRequest(session=ref("nobody"), literal="x"), "SESSION_NOT_FOUND", None),
        (artifact_pb2.SearchArtifactsRequest(session=ref("run"), literal="x", artifact_id="0" * 32), "ARTIFACT_NOT_FOUND", None),
        (artifact_pb2.ListArtifactsRequest(session=ref("nobody")), "SESSION_NOT_FOUND", None),
        (artifact_pb2.ListArtifactsRequest(session=ref("run"), page_token="AAAA"), "PAGE_TOKEN_INVALID", None),
        (artifact_pb2.ListArtifactsRequest(session=ref("run"), page_size=-1), "INVALID_FIELD", "page_size"),
        (artifact_pb2.ListArtifactsRequest(), "INVALID_FIELD", "session.session_id"),
    ],
)  # fmt: skip
def test_every_call_that_is_wrong_is_refused_with_its_reason(
    running: Running, fitted: context_pb2.FitResponse, request_: Any, reason: str, field: str | None
) -> None:
    call = getattr(running.artifacts, type(request_).__name__.removesuffix("Request"))
    code, found, details = refused(call, request_)
    assert found == reason
    assert details.get("field") == field
    assert (code is grpc.StatusCode.NOT_FOUND) is reason.endswith("NOT_FOUND")


def test_search_artifacts_finds_each_artifact_once_on_pages(running: Running, fitted: context_pb2.FitResponse) -> None:
    hits, token = [], ""
    while True:
        answer = running.artifacts.SearchArtifacts(
            artifact_pb2.SearchArtifactsRequest(
                session=ref("run"), regex=r"^\d*99 na.ve", context_line_count=1, page_size=7, page_token=token
            )
        )
        hits += answer.hits
        token = answer.next_page_token
        if not token:
            break
    lines = TEXT.split("\n")
    expected = [number for number in range(4_000) if number % 100 == 99]
    assert [hit.line for hit in hits] == expected
    assert [hit.text.decode() for hit in hits] == ["\n".join(lines[n - 1 : n + 2]).rstrip("\n") for n in expected]
    content = TEXT.encode()
    assert all(content[hit.start :].startswith(f"{hit.line} na".encode()) for hit in hits)
    assert {hit.artifact_id for hit in hits} == {artifact_of(fitted, len(content)).artifact_id}


def test_search_artifacts_by_literal_finds_bytes_of_media(running: Running, fitted: context_pb2.FitResponse) -> None:
    artifact = artifact_of(fitted, len(MEDIA))
    answer = running.artifacts.SearchArtifacts(
        artifact_pb2.SearchArtifactsRequest(session=ref("run"), artifact_id=artifact.artifact_id, literal="XYZ[", page_size=2)
    )
    assert [hit.start for hit in answer.hits] == [0x58, 0x158]


def test_list_artifacts_gives_every_place_on_pages(running: Running, fitted: context_pb2.FitResponse) -> None:
    places, token = [], ""
    while True:
        answer = running.artifacts.ListArtifacts(
            artifact_pb2.ListArtifactsRequest(session=ref("run"), page_size=1, page_token=token)
        )
        assert len(answer.artifacts) == 1
        places += answer.artifacts
        token = answer.next_page_token
        if not token:
            break
    whole = running.artifacts.ListArtifacts(artifact_pb2.ListArtifactsRequest(session=ref("run")))
    assert list(whole.artifacts) == places
    text_id = artifact_of(fitted, len(TEXT.encode())).artifact_id
    assert [place.item_index for place in places if place.artifact_id == text_id] == [2, 6]
    assert {place.artifact_id for place in places} == {artifact.artifact_id for artifact in fitted.artifacts}


def test_artifacts_read_the_same_after_a_restart(running: Running, fitted: context_pb2.FitResponse) -> None:
    before = [read(running, artifact.artifact_id) for artifact in fitted.artifacts]
    running.stop()
    running.start()
    assert [read(running, artifact.artifact_id) for artifact in fitted.artifacts] == before


@pytest.mark.parametrize("spell", [str, str.upper, "artifact:{}".format, ' "{}" '.format])
def test_every_reader_takes_a_handle_as_it_was_emitted(running: Running, fitted: context_pb2.FitResponse, spell: Any) -> None:
    """Ensure that one who emits handles and one who reads them agree on what a handle is."""
    content = TEXT.encode()
    stubbed = json.loads(fitted.body)["messages"][2]["content"][0]["content"]
    listed = running.artifacts.ListArtifacts(artifact_pb2.ListArtifactsRequest(session=ref("run"))).artifacts[0]
    assert listed.artifact_id in stubbed
    for handle in (artifact_of(fitted, len(content)).artifact_id, listed.artifact_id, listed.sha256.hex()):
        assert read(running, spell(handle)).content == content
        found = running.artifacts.SearchArtifacts(
            artifact_pb2.SearchArtifactsRequest(session=ref("run"), artifact_id=spell(handle), literal="0 na")
        )
        assert found.hits[0].artifact_id == listed.artifact_id
        call = {"type": "tool_use", "id": "t", "name": "trimtab_read", "input": {"artifact_id": spell(handle), "end": 3}}
        answer = running.context.ResolveCall(context_pb2.ResolveCallRequest(session=ref("run"), call=json.dumps(call).encode()))
        assert json.loads(answer.result)["content"].split("\n", 1)[1] == TEXT[:3]
