"""What a call asked and how it ended, in words.

Foreign text comes out quoted. Nothing is said to have succeeded that has no receipt.
"""

from __future__ import annotations

import json
import re
from typing import Final

from sidecar.core.facts import CallFact
from sidecar.core.foreign import one_line
from sidecar.core.readback import show
from sidecar.core.types import EffectState

__all__ = ["arguments_of", "asked", "looks_failed", "outcome", "text_values", "tool"]

NAME_BYTES: Final = 64
DETAIL_BYTES: Final = 120
# Arguments over this are looked at as text only: what names a file or a command in them stands in front.
PARSE_BYTES: Final = 1 << 20

# What tells most of a call, in this order. Seen in the schemas of coding agents and of common tool servers.
_TELLING: Final = (
    "command",
    "cmd",
    "file_path",
    "filepath",
    "path",
    "filename",
    "notebook_path",
    "uri",
    "url",
    "query",
    "pattern",
) + (
    "artifact_id",
    "script",
    "code",
    "sql",
    "name",
    "id",
)

_RECEIPT_WORDS: Final = {
    EffectState.SETTLED: "confirmed by receipt",
    EffectState.FAILED: "failed by receipt",
    EffectState.PENDING: "receipt says pending",
    EffectState.WAITING: "receipt says waiting",
    EffectState.UNKNOWN: "receipt says outcome unknown",
    EffectState.NOT_STARTED: "receipt says not begun",
}

_FAILED = re.compile(
    r"error\b|exception\b|traceback|\bfail(?:ed|ure)?\b|\bfatal\b|denied|not found|no such file|"
    r"(?:exit(?:ed)?(?: with)?(?: code| status)?|exit_code\"?|returncode)[: =]+[1-9]",
    re.IGNORECASE,
)


def arguments_of(fact: CallFact) -> dict[str, object] | None:
    """A call's arguments as an object; None when they are none. Numbers in it mean nothing: only texts are ever used."""
    data = fact.arguments
    if len(data) > PARSE_BYTES or data.lstrip()[:1] != b"{":
        return None
    try:
        value = json.loads(show(data), parse_int=len, parse_float=len)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def text_values(value: object) -> str:
    """A member's value as one text: a string, or a list of strings as a command line is given."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return " ".join(value)
    return ""


def asked(fact: CallFact, limit_bytes: int) -> str:
    """The argument that tells most, quoted; "" when the call had none."""
    arguments = arguments_of(fact)
    if arguments is None:
        text = show(fact.arguments[: 8 * limit_bytes])
        return one_line(text, limit_bytes) if text.strip() not in ("", "{}") else ""
    for key in _TELLING:
        if text := text_values(arguments.get(key)):
            return one_line(text, limit_bytes)
    if not arguments:
        return ""
    return one_line(show(fact.arguments), limit_bytes)


def tool(fact: CallFact) -> str:
    """The tool's name, quoted."""
    return one_line(fact.tool_name, NAME_BYTES) if fact.tool_name else "a tool without a name"


def looks_failed(fact: CallFact) -> bool:
    """Whether a result reads as if something went wrong. For what is worth showing only; it is never said."""
    return fact.is_error or _FAILED.search(fact.result_text) is not None or _FAILED.search(fact.result_tail) is not None


def outcome(fact: CallFact, text_bytes: int) -> str:
    """How a call ended: what its receipt says, then what came back.

    Args:
        fact: the call.
        text_bytes: of an error's text, or of the beginning of a result; 0: none of the latter.
    """
    words = []
    if fact.state is not EffectState.UNSPECIFIED:
        detail = f" {one_line(fact.detail, DETAIL_BYTES)}" if fact.detail else ""
        words.append(_RECEIPT_WORDS[fact.state] + detail)
    if fact.is_error:
        words.append(f"reported an error: {one_line(_telling(fact), max(text_bytes, 40))}")
    elif not fact.result_bytes:
        words.append("returned nothing")
    else:
        text = _telling(fact)
        words.append(f"returned {fact.result_bytes} bytes" + (f" {one_line(text, text_bytes)}" if text_bytes and text else ""))
    return "; ".join(words)


def _telling(fact: CallFact) -> str:
    """The part of a result that says how it ended: of what failed the line that says so, of anything else the beginning."""
    if _FAILED.search(fact.result_tail):
        lines = [line for line in fact.result_tail.splitlines() if line.strip()]
        return next((line for line in reversed(lines) if _FAILED.search(line)), fact.result_text)
    return fact.result_text
