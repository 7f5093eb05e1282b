"""Proves that nothing was lost: by what the sidecar stored, and by what the last body says of all that is not in it.

The originals are worked out from the agent's own items by the JSON reader of the standard library; nothing of ours takes part.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

from sidecar.demo.dialects import to_json
from trimtab.v1 import artifact_pb2, artifact_pb2_grpc, common_pb2

__all__ = ["ArtifactProof", "Originals", "find_lost", "prove_artifacts"]

_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")
_SHOWN = re.compile(r"^\[bytes (\d+) to (\d+) of artifact ([0-9a-f]{32})")
_RANGES = 4  # random ranges read of each artifact
_BLOCK = 65_536


class Originals:
    """Every value of the agent's items, by the id that its content would have."""

    def __init__(self) -> None:
        """Of no items."""
        self._by_item: list[dict[str, bytes]] = []
        self.by_id: dict[str, bytes] = {}

    def add(self, item: bytes) -> None:
        """Walk the next item of the history."""
        found = {artifact_id(content): content for value in walk(json.loads(item)) for content in contents(value)}
        self._by_item.append(found)
        self.by_id |= found

    def of_item(self, index: int, wanted_id: str) -> bytes | None:
        """Content of that id in that item; None when nothing in it is."""
        return self._by_item[index].get(wanted_id) if 0 <= index < len(self._by_item) else None


class ArtifactProof(NamedTuple):
    """What reading everything back came to.

    Attributes:
        place_count: places that content stood in.
        distinct_count: different contents.
        size_bytes: of all distinct contents together.
        range_count: ranges read and compared.
        faults: one line each; empty is the proof.
    """

    place_count: int
    distinct_count: int
    size_bytes: int
    range_count: int
    faults: tuple[str, ...]


def artifact_id(content: bytes) -> str:
    """The name that content must have."""
    return hashlib.sha256(content).hexdigest()[:32]


def walk(value: object) -> Iterator[object]:
    """A value and everything in it."""
    yield value
    if isinstance(value, dict):
        for member in value.values():
            yield from walk(member)
    elif isinstance(value, list):
        for element in value:
            yield from walk(element)


def contents(value: object) -> Iterator[bytes]:
    """What a value could be stored as: a string's text, the bytes that base64 stands for, JSON of anything else."""
    if not isinstance(value, str):
        yield to_json(value)
        return
    yield value.encode()
    data = value.partition(";base64,")[2] if value.startswith("data:") else value
    if len(data) >= 64 and len(data) % 4 == 0:
        try:
            yield base64.b64decode(data, validate=True)
        except ValueError:  # not base64, whatever its length
            return


def prove_artifacts(
    stub: artifact_pb2_grpc.ArtifactServiceStub, session: common_pb2.SessionRef, originals: Originals, rng: Random
) -> ArtifactProof:
    """List all artifacts; read each whole and in ranges, by bytes and by lines; compare with what the agent had at that place."""
    faults: list[str] = []
    sizes: dict[str, int] = {}
    count = ranges = 0
    for artifact in list_artifacts(stub, session):
        count += 1
        original = originals.of_item(artifact.item_index, artifact.artifact_id)
        if original is None:
            faults.append(f"{artifact.artifact_id}: nothing in item {artifact.item_index} has this content")
            continue
        if artifact.artifact_id in sizes:
            continue
        sizes[artifact.artifact_id] = len(original)
        whole = read_whole(stub, session, artifact.artifact_id)
        if whole != original or artifact.sha256 != hashlib.sha256(original).digest() or artifact.size_bytes != len(original):
            faults.append(f"{artifact.artifact_id}: {len(whole)} bytes read back, the agent had {len(original)}, and they differ")
        for request, expected in _ranges(session, artifact, original, rng):
            ranges += 1
            if stub.ReadArtifact(request).content != expected:
                faults.append(
                    f"{artifact.artifact_id}: {request.WhichOneof('range')} range reads otherwise than the agent's content"
                )
    return ArtifactProof(count, len(sizes), sum(sizes.values()), ranges, tuple(faults))


def list_artifacts(stub: artifact_pb2_grpc.ArtifactServiceStub, session: common_pb2.SessionRef) -> Iterator[common_pb2.Artifact]:
    """All pages of ListArtifacts."""
    token = ""
    while True:
        page = stub.ListArtifacts(artifact_pb2.ListArtifactsRequest(session=session, page_size=50, page_token=token))
        yield from page.artifacts
        token = page.next_page_token
        if not token:
            return


def read_whole(stub: artifact_pb2_grpc.ArtifactServiceStub, session: common_pb2.SessionRef, wanted_id: str) -> bytes:
    """All of an artifact, in as many calls as the server wants."""
    parts: list[bytes] = []
    start: int | None = 0
    while start is not None:
        wanted = artifact_pb2.ByteRange(start=start)
        answer = stub.ReadArtifact(artifact_pb2.ReadArtifactRequest(session=session, artifact_id=wanted_id, bytes=wanted))
        parts.append(answer.content)
        start = answer.next_start if answer.HasField("next_start") else None
    return b"".join(parts)


def _ranges(
    session: common_pb2.SessionRef, artifact: common_pb2.Artifact, original: bytes, rng: Random
) -> Iterator[tuple[artifact_pb2.ReadArtifactRequest, bytes]]:
    """Requests and what they must give: random byte ranges, one over a block's edge, and lines where there are any."""
    size = len(original)
    spans = [tuple(sorted((rng.randrange(size + 1), rng.randrange(size + 1)))) for _ in range(_RANGES)]
    if size > _BLOCK + 8:
        spans.append((_BLOCK - 7, _BLOCK + 8))
    for start, end in spans:
        wanted = artifact_pb2.ByteRange(start=start, end=end)
        yield (
            artifact_pb2.ReadArtifactRequest(session=session, artifact_id=artifact.artifact_id, bytes=wanted),
            original[start:end],
        )
    lines = original.split(b"\n")
    if artifact.line_count:
        start = rng.randrange(artifact.line_count)
        end = min(start + 3, artifact.line_count)
        expected = b"\n".join([*lines[start:end], b""] if end < len(lines) else lines[start:end])
        asked = artifact_pb2.LineRange(start=start, end=end)
        yield artifact_pb2.ReadArtifactRequest(session=session, artifact_id=artifact.artifact_id, lines=asked), expected


def find_lost(raw: bytes, sent: bytes, read: Callable[[str], bytes]) -> list[str]:
    """Compare the history that the agent holds with the one that was sent: whatever differs must name where the original is.

    Args:
        raw: body with the raw history.
        sent: body as fitted.
        read: gives an artifact's content; raises KeyError for one that there is not.

    Returns:
        One line for each value that is neither the same nor replaced by something that leads back to it, byte for byte.
    """
    raw_items, sent_items = json.loads(raw)["messages"], json.loads(sent)["messages"]
    if len(raw_items) != len(sent_items):
        return [f"{len(raw_items)} items are held, {len(sent_items)} were sent"]
    return [
        line
        for index, pair in enumerate(zip(raw_items, sent_items, strict=True))
        for line in _compare(*pair, f"item {index}", read)
    ]


def _compare(raw: Any, sent: Any, where: str, read: Callable[[str], bytes]) -> list[str]:
    if raw == sent:
        return []
    inner = _compare_members(raw, sent, where, read)
    if inner is not None and not inner:
        return []
    # What replaces a value names where it is; inside or outside of a member, both are fine as long as it leads back.
    for wanted_id in _ID.findall(to_json(sent).decode(errors="replace")):
        try:
            content = read(wanted_id)
        except KeyError:
            continue
        if content in list(contents(raw)) or any(content == each for value in walk(raw) for each in _media(value)):
            return []
        if any(shows(value, wanted_id, content) for value in walk(raw) if isinstance(value, str)):
            return []
    return inner or [f"{where}: differs, and nothing in its place leads back to it"]


def shows(text: str, wanted_id: str, content: bytes) -> bool:
    """Whether a text is what the read-back tool answers for some bytes of that content: a line that says which, then these.

    An answer that was itself moved out later is replaced by a note that names the artifact that it had shown, so that reading
    back never leads to a copy of a copy.
    """
    head, _, shown = text.partition("\n")
    match = _SHOWN.match(head)
    if match is None or match[3] != wanted_id:
        return False
    return content[int(match[1]) : int(match[2])].decode(errors="replace") == shown


def _compare_members(raw: Any, sent: Any, where: str, read: Callable[[str], bytes]) -> list[str] | None:
    """Faults in members; None when the two are not built alike."""
    if isinstance(raw, dict) and isinstance(sent, dict) and raw.keys() == sent.keys():
        pairs = [(raw[key], sent[key], f"{where}.{key}") for key in raw if not _is_blanked(key, raw[key], sent[key], read)]
        return [line for pair in pairs for line in _compare(*pair, read)]
    if isinstance(raw, list) and isinstance(sent, list):
        kept = (
            raw if len(raw) == len(sent) else [block for block in raw if not _is_reasoning(block) or not _is_stored(block, read)]
        )
        if len(kept) == len(sent):
            pairs = [(one, other, f"{where}[{index}]") for index, (one, other) in enumerate(zip(kept, sent, strict=True))]
            return [line for pair in pairs for line in _compare(*pair, read)]
    return None


# Reasoning leaves no note in the body, since a provider would not take one in its place: it is left out, or emptied. So here the
# store itself must have it, under the name that its content gives it.


def _is_blanked(key: str, raw: object, sent: object, read: Callable[[str], bytes]) -> bool:
    return key == "reasoning_content" and sent == "" and _is_stored(raw, read)


def _is_reasoning(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") in {"thinking", "redacted_thinking"}


def _is_stored(value: object, read: Callable[[str], bytes]) -> bool:
    for content in contents(value):
        try:
            if read(artifact_id(content)) == content:
                return True
        except KeyError:
            continue
    return False


def _media(value: object) -> Iterator[bytes]:
    """Bytes of an image: its data's."""
    if isinstance(value, str) and value.startswith("data:"):
        yield base64.b64decode(value.partition(";base64,")[2])
    if isinstance(value, dict) and value.get("type") == "base64" and isinstance(value.get("data"), str):
        yield base64.b64decode(value["data"])
