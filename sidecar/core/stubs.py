"""Stub texts: one line of quoted facts that says what left the body and how to read it, then a preview where there is room.

Foreign text in a stub (tool names, arguments, previews) is quoted, capped, and cannot close the quote or imitate our own line:
control characters and our fence are escaped. Texts only; how they are spelled in a dialect is its adapter's.

Sizes: a stub without preview takes about 160 bytes, for arguments about 120; results that leave on arrival or from the tail
keep 1.5 KiB of head and 0.5 KiB of tail. In a session of 400 calls the stubs themselves are what fills the body: with 300 bytes
a stub the replay of real sessions cost 0.70 of sending raw, with these 0.68 (`trimtab replay`, preset balanced).
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from sidecar.core.types import ReductionKind

__all__ = [
    "ARGUMENTS_MIN_BYTES",
    "FENCE",
    "HEAD_BYTES",
    "RESULT_MIN_BYTES",
    "TAIL_BYTES",
    "StubFacts",
    "preview",
    "printable",
    "quote",
    "stub_text",
]

FENCE = "[trimtab"
RESULT_MIN_BYTES = 384
ARGUMENTS_MIN_BYTES = 448
HEAD_BYTES = 1536
TAIL_BYTES = 512
ASKED_BYTES = 40
NAME_BYTES = 64

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
_MEDIA_TYPE = re.compile(r"[\w.+-]{1,64}/[\w.+-]{1,64}", re.ASCII)
_SPACE = re.compile(r"\s+")
_OURS = re.compile(r"\[(?=\s*/?\s*trimtab)", re.IGNORECASE)


class StubFacts(NamedTuple):
    """What a stub says."""

    kind: ReductionKind
    tool_name: str  # "" when there is none
    asked: str  # what the call asked, as text; "" when unknown
    is_error: bool
    media_type: str
    size_bytes: int
    line_count: int  # 0: binary
    artifact_id: str
    read_tool: str  # name of the tool that reads it; "" when the agent reads in its own way
    came_from: str = ""  # an earlier artifact that this content is a read of


def printable(text: str) -> str:
    """Foreign text without control characters, bidirectional tricks and halves of characters, and without our fence."""
    return _OURS.sub("(", _CONTROL.sub("\ufffd", text))


def _cap(text: str, limit_bytes: int) -> str:
    data = text.encode("utf-8", "replace")
    return text if len(data) <= limit_bytes else data[: max(limit_bytes - 3, 0)].decode("utf-8", "ignore") + "..."


def quote(text: str, limit_bytes: int) -> str:
    """Foreign text on one line, in quotes that it cannot close, at most about limit_bytes long."""
    clean = _cap(_SPACE.sub(" ", printable(text)).strip(), limit_bytes)
    return json.dumps(clean.replace('"', "'").replace("\\", "/"), ensure_ascii=False)


def preview(content: bytes, head_bytes: int, tail_bytes: int) -> str:
    """Head and tail of a text, cut where characters and, if near, lines begin. Empty when the content is not UTF-8 text."""
    if b"\x00" in content[: head_bytes + 1]:
        return ""
    head = content[:head_bytes]
    tail = content[len(content) - tail_bytes :] if len(content) > head_bytes + tail_bytes else content[head_bytes:]
    at = head.rfind(b"\n")
    if at > head_bytes // 2:
        head = head[: at + 1]
    at = tail.find(b"\n")
    if 0 <= at < tail_bytes // 2:
        tail = tail[at + 1 :]
    while tail and (tail[0] & 0xC0) == 0x80:
        tail = tail[1:]
    cut = len(head)
    while cut > 0 and cut > len(head) - 4 and (head[cut - 1] & 0xC0) == 0x80:
        cut -= 1
    if cut > 0 and head[cut - 1] >= 0xC0:
        lead = head[cut - 1]
        need = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        if cut - 1 + need > len(head):
            head = head[: cut - 1]
    omitted = len(content) - len(head) - len(tail)
    texts = [printable(piece.decode("utf-8", "replace").replace("\r\n", "\n")) for piece in (head, tail)]
    return f"\n{texts[0].rstrip()}\n[... {omitted} bytes left out here ...]\n{texts[1].strip()}"


def _read_hint(facts: StubFacts) -> str:
    artifact_id = facts.came_from or facts.artifact_id
    return f"{facts.read_tool} artifact_id={artifact_id}" if facts.read_tool else f"artifact {artifact_id}"


def stub_text(facts: StubFacts, content: bytes = b"", *, with_preview: bool = False) -> str:
    """The text of a stub.

    Args:
        facts: what is said.
        content: of the artifact; only for the preview.
        with_preview: add head and tail.
    """
    size = f"{facts.size_bytes} bytes" + (f", {facts.line_count} lines" if facts.line_count else "")
    if facts.kind is ReductionKind.ARGUMENTS:
        return f"{FENCE}: {size} of arguments moved out, never copy this; {_read_hint(facts)}]"
    name = quote(facts.tool_name, NAME_BYTES) if facts.tool_name else "a tool"
    if facts.kind is ReductionKind.MEDIA:
        origin = f" from {name}" if facts.tool_name else ""
        # Told by the body, so foreign; one that is shaped as a media type cannot close or imitate anything.
        plain = _MEDIA_TYPE.fullmatch(facts.media_type)
        media = facts.media_type if plain else f"media {quote(facts.media_type, NAME_BYTES)}" if facts.media_type else "media"
        return f"{FENCE}: {media}{origin}, {size}, moved out; {_read_hint(facts)}]"
    asked = f" asked {quote(facts.asked, ASKED_BYTES)}" if facts.asked else ""
    outcome = "returned an error:" if facts.is_error else "returned"
    if facts.came_from:
        # The size is that of what was read, a page perhaps, not of the artifact that the reader is sent to.
        line = f"{FENCE}: an earlier read{asked} {outcome} {size} of it, moved out again; {_read_hint(facts)}]"
    else:
        line = f"{FENCE}: {name}{asked} {outcome} {size}, moved out; {_read_hint(facts)}]"
    return line + preview(content, HEAD_BYTES, TAIL_BYTES) if with_preview and content else line
