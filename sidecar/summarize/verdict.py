"""Whether a model's reply will do as notes. A reason never holds content of the reply.

Notes that pass are taken as they are, white space around them off; nothing in them is ever interpreted.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from sidecar.core.foreign import fenced
from sidecar.core.replies import ModelReply, Stop
from sidecar.summarize.prompt import SECTIONS

__all__ = ["Rejection", "judge_reply"]

ECHO_RUN: Final = 160
"""Characters. A run of the input so long is more than a quoted command, path or error line."""

_STEP: Final = 40
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s*\**\s*([A-Za-z ]+?)\s*\**\s*:?\s*$", re.MULTILINE)


class Rejection(NamedTuple):
    """Why a reply will not do."""

    reason: str


def judge_reply(reply: ModelReply, limit_bytes: int, input_text: str) -> str | Rejection:
    """The notes in a reply, or why there are none. O(bytes of reply and input).

    Args:
        reply: as the dialect's rules read it. A stop that nobody told is no ground to refuse a text that is complete.
        limit_bytes: of the notes as they stand in a summary: fenced, the lines of the fence apart.
        input_text: what the model was asked, to tell an echo.
    """
    text = reply.text.strip()
    if reply.stop is Stop.REFUSED:
        return Rejection("the model refused, or its reply was filtered")
    if reply.has_calls or reply.stop is Stop.CALL:
        return Rejection("the reply calls a tool")
    if reply.stop is Stop.LENGTH:
        return Rejection("the reply was cut off")
    if not text:
        return Rejection("the reply is empty")
    size_bytes = len(fenced(text).encode("utf-8", "replace"))
    if size_bytes > limit_bytes:
        return Rejection(f"the reply takes {size_bytes} bytes; {limit_bytes} is the limit")
    there = {" ".join(found.lower().split()) for found in _HEADING.findall(text)}
    missing = [section for section in SECTIONS if section.removeprefix("## ").lower() not in there]
    if missing:
        return Rejection(f"the reply lacks the section {missing[0]!r}")
    if _is_echo(text, input_text):
        return Rejection("the reply repeats what it was given")
    return text


def _is_echo(text: str, given: str) -> bool:
    """Whether long verbatim runs of what was given make up most of a text; white space aside."""
    text, given = " ".join(text.split()), " ".join(given.split())
    places: dict[str, int] = {}
    for at in range(0, len(given) - _STEP + 1, _STEP):
        places.setdefault(given[at : at + _STEP], at)
    copied = at = done = 0
    while at + _STEP <= len(text):
        place = places.get(text[at : at + _STEP])
        if place is None:
            at += 1
            continue
        start, end = at, at + _STEP
        while start > done and place > at - start and text[start - 1] == given[place - (at - start) - 1]:
            start -= 1
        while end < len(text) and place + end - at < len(given) and text[end] == given[place + end - at]:
            end += 1
        if end - start >= ECHO_RUN:
            copied += end - start
            done = end
        at = end
    return 2 * copied >= len(text)
