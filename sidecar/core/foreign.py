"""Foreign text in a text of ours: what tools, models and files wrote must not pose as us, as a person, or as a section.

Three ways to carry it. `one_line` puts it between quotes that it cannot close. `fenced` keeps its lines, each behind a mark, so
that none of them begins as a label, a heading or a role. `indented` is for what the agent itself gave and must stand verbatim:
only its line breaks get an indent behind them.
"""

from __future__ import annotations

import re
from typing import Final

from sidecar.core.stubs import printable, quote

__all__ = ["LINE_MARK", "cut_text", "fenced", "indented", "one_line"]

LINE_MARK: Final = "> "
"""What each line of a fenced text begins with."""

_INDENT: Final = "    "

# What ends a line for some reader: str.splitlines knows all of these.
_BREAK = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
# Tags and tokens by which prompts and chat templates tell who speaks.
_ROLE = re.compile(
    r"<(?=\s*/?\s*(?:system|user|assistant|human|developer|tool|function|instruction|message|trimtab)|/?\|)|\[(?=\s*/?\s*inst\b)",
    re.IGNORECASE,
)
_BLANK_LINES = re.compile(r"\n{3,}")


def cut_text(text: str, limit_bytes: int) -> str:
    """The beginning of a text, at most `limit_bytes` of UTF-8, cut on a character."""
    return text[:limit_bytes].encode("utf-8", "replace")[:limit_bytes].decode("utf-8", "ignore")


def one_line(text: str, limit_bytes: int) -> str:
    """Foreign text between double quotes on one line; "..." says that it goes on.

    Args:
        text: of any size; of a long one only the beginning is looked at.
        limit_bytes: of what stands between the quotes, three more where it was cut; at least 8.
    """
    seen = text[: 4 * limit_bytes + 64]
    quoted = quote(_without_roles(_BREAK.sub(" ", seen)), limit_bytes)
    return quoted if len(seen) == len(text) or quoted.endswith('..."') else f'{quoted[:-1]}..."'


def fenced(text: str) -> str:
    """Foreign text of several lines: each behind LINE_MARK, without control characters, role tags and our own fence."""
    lines = _BLANK_LINES.sub("\n\n", _BREAK.sub("\n", text).strip("\n")).split("\n")
    return "\n".join(f"{LINE_MARK}{_without_roles(printable(line))}".rstrip() for line in lines)


def indented(text: str) -> str:
    """The agent's own text, verbatim but for an indent behind each line break."""
    return _BREAK.sub(lambda found: found.group() + _INDENT, text)


def _without_roles(text: str) -> str:
    return _ROLE.sub("(", text)
