"""The read-back tool as data: what a model is told of it, in no dialect yet; and how its answers are worded and cut.

An injected tool is in every request, and where tools stand behind the history it is paid in full each time, so its words are few.
What a model must know to use it stands in the description; the rest it learns from the answers.
"""

from __future__ import annotations

import base64
import re
from typing import Final

__all__ = [
    "ANSWER_BYTES",
    "READ_BACK_TOOL_DESCRIPTION",
    "READ_BACK_TOOL_NAME",
    "READ_BACK_TOOL_SCHEMA",
    "fit_base64",
    "fit_text",
    "show",
]

READ_BACK_TOOL_NAME: Final = "trimtab_read"

READ_BACK_TOOL_DESCRIPTION: Final = (
    "Reads content that was moved out of this conversation by the artifact_id in its place: whole, bytes start to end, "
    "or lines with a pattern."
)

READ_BACK_TOOL_SCHEMA: Final[dict[str, object]] = {
    "type": "object",
    "properties": {
        "artifact_id": {"type": "string"},
        "start": {"type": "integer"},
        "end": {"type": "integer"},
        "pattern": {"type": "string"},
        "regex": {"type": "boolean"},
    },
    "required": ["artifact_id"],
}

ANSWER_BYTES: Final = 32_768
"""The longest answer, whatever was asked: what it says of itself and what it shows, in UTF-8."""

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
_REPLACEMENT = "\ufffd".encode()


def show(content: bytes) -> str:
    """Content as text: U+FFFD for what is not UTF-8, one for a lone surrogate's three bytes."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(_REPLACEMENT, content).decode("utf-8", "replace")


def fit_text(content: bytes, limit_bytes: int, *, more: bool) -> tuple[str, int]:
    """As much of some content as may be shown.

    Args:
        content: from the place that was asked for.
        limit_bytes: of what is shown, in UTF-8; at least 16.
        more: content goes on after these bytes, so that a character cut off at their end is left for the next answer.

    Returns:
        The text, and how many bytes of content it shows; not 0 unless there are none.
    """
    size = whole_characters(content[:limit_bytes]) if more or len(content) > limit_bytes else len(content)
    while True:
        text = show(content[:size])
        shown_bytes = len(text.encode())
        if shown_bytes <= limit_bytes:
            return text, size
        # U+FFFD takes three bytes where one stood: shrink by the same rate, and a little more so that this ends.
        size = whole_characters(content[: size * limit_bytes // shown_bytes - 1])


def fit_base64(content: bytes, limit_bytes: int) -> tuple[str, int]:
    """As `fit_text`, for content that is not text."""
    size = min(len(content), limit_bytes // 4 * 3)
    return base64.b64encode(content[:size]).decode(), size


def whole_characters(content: bytes) -> int:
    """How many bytes of content are left when a UTF-8 character that is cut at its end goes, unless nothing else is there."""
    for back in range(1, min(4, len(content)) + 1):
        lead = content[-back]
        if lead & 0xC0 == 0x80:
            continue
        size = 1 if lead < 0xC0 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        return len(content) - back if back < size and len(content) > back else len(content)
    return len(content)
