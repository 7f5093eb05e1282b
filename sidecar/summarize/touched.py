"""Files and resources that calls read and wrote, computed from their arguments. What a call asked is not proof that it happened.

A path is taken from members that name one, from the file lines of a patch, and from the plain redirections of a short command
line; whether it was read or written is told by the tool's name and by what else was given. A path whose call tells neither is
"named". A later write supersedes what was read before it; one that reported an error, or failed by its receipt, supersedes
nothing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from sidecar.core.facts import CallFact
from sidecar.core.readback import READ_BACK_TOOL_NAME, show
from sidecar.core.types import EffectState
from sidecar.summarize.calls import arguments_of, text_values

__all__ = ["Touch", "Touched", "find_touched", "touches"]

PATH_BYTES: Final = 512
COMMAND_BYTES: Final = 2048

_PATH_KEYS: Final = frozenset(
    ("path", "paths", "file", "files", "file_path", "file_paths", "filepath", "filename", "file_name", "absolute_path")
    + ("relative_path", "notebook_path", "target_file", "uri", "url", "urls", "resource", "resource_uri", "directory", "dir")
)
_FROM_KEYS: Final = frozenset(("source", "source_path", "src", "old_path", "from_path"))
_TO_KEYS: Final = frozenset(("destination", "destination_path", "dest", "new_path", "to_path", "output_path", "output_file"))
_COMMAND_KEYS: Final = ("command", "cmd", "script")
_WRITING_KEYS: Final = frozenset(
    ("content", "contents", "file_text", "new_string", "new_str", "new_source", "insert_text", "edits", "patch", "diff", "data")
)
_WRITES: Final = frozenset(
    ("write", "edit", "multiedit", "create", "replace", "insert", "patch", "apply", "append", "delete", "remove", "rm", "move")
    + ("mv", "rename", "update", "save", "upload", "put", "mkdir", "undo")
)
_READS: Final = frozenset(
    ("read", "view", "cat", "open", "get", "fetch", "load", "list", "ls", "search", "grep", "glob", "find", "browse")
    + ("navigate", "show", "head", "tail", "download")
)

_TOKENS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (\S.*)$|^\+\+\+ b/(\S+)", re.MULTILINE)
_ODD = re.compile(r"[\n`$\\]|<<")


class Touch(NamedTuple):
    """One path in one call."""

    path: str
    how: str  # "read", "write" or "named"


class Touched(NamedTuple):
    """A path, with all that covered calls did to it."""

    path: str
    read_count: int
    write_count: int
    named_count: int
    last_read: int  # item of the newest call that read it; -1: none
    last_write: int  # of the newest that was to write it and reported no error
    last_failed: int  # of the newest that was to write it and did report one
    superseded_by: int  # item of a call that was to write it after the last read, perhaps behind the range; -1: none
    last_index: int


def touches(fact: CallFact) -> list[Touch]:
    """Paths that a call asked to read or write, each once, in order; a write counts where both are asked."""
    found: dict[str, str] = {}
    if fact.tool_name == READ_BACK_TOOL_NAME:
        return []
    for path, how in _touches(fact):
        if path.strip() and len(path) <= PATH_BYTES and found.get(path) != "write":
            found[path] = how
    return [Touch(path, how) for path, how in found.items()]


def _touches(fact: CallFact) -> Iterator[tuple[str, str]]:
    arguments = arguments_of(fact)
    if arguments is None:
        yield from ((path, "write") for path in _patched(show(fact.arguments[: 1 << 20])))
        return
    how = _how(fact.tool_name, arguments)
    for key, value in arguments.items():
        name = _snake(key)
        if name in _PATH_KEYS:
            yield from ((path, how) for path in _strings(value))
        elif name in _FROM_KEYS or name in _TO_KEYS:
            yield from ((path, "write" if name in _TO_KEYS or how == "write" else how) for path in _strings(value))
        elif name in ("patch", "input", "diff") and isinstance(value, str):
            yield from ((path, "write") for path in _patched(value))
    for key in _COMMAND_KEYS:
        command = text_values(arguments.get(key))
        yield from ((path, "write") for path in _patched(command))
        yield from ((path, "write") for path in _redirected(command))


def _how(tool_name: str, arguments: dict[str, object]) -> str:
    words = {token.lower() for token in _TOKENS.findall(tool_name)}
    # Editors that are one tool name the act in `command`: one word, no command line.
    act = arguments.get("command") or arguments.get("action")
    if isinstance(act, str) and act.replace("_", "").isalpha():
        acts = set(act.lower().split("_"))
        if acts & (_READS | _WRITES):
            words = acts
    if words & _WRITES or any(_snake(key) in _WRITING_KEYS for key in arguments):
        return "write"
    return "read" if words & _READS else "named"


def _snake(key: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower()


def _strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _patched(text: str) -> list[str]:
    return [(one or two).strip() for one, two in _PATCHED.findall(text)] if "*** " in text or "+++ b/" in text else []


def _redirected(command: str) -> list[str]:
    """Targets of `>`, `>>` and `tee` in a plain command line; none from one that needs a shell to be understood."""
    if not (">" in command or "tee" in command) or len(command) > COMMAND_BYTES or _ODD.search(command):
        return []
    try:
        lexer = shlex.shlex(command, posix=False, punctuation_chars=True)
        lexer.whitespace_split = True
        lexer.commenters = ""
        words = list(lexer)
    except ValueError:
        return []
    found = []
    for before, word, target in zip(["", *words], words, words[1:], strict=False):
        if word in (">", ">>") and before not in ("1", "2", "&"):
            found.append(target)
        elif word == "tee":
            found += [each for each in words[words.index(word) + 1 :][:2] if not each.startswith("-")][:1]
    return [path for path in found if re.fullmatch(r"[\w./~@%+=:,-]+", path) and not path.startswith("/dev/")]


def find_touched(calls: Sequence[CallFact], later: Sequence[CallFact] = ()) -> list[Touched]:
    """All paths that some calls touched, in the order in which they were touched last.

    Args:
        calls: covered ones, in order.
        later: behind them; only what these were to write counts, for what it supersedes.
    """
    found: dict[str, Touched] = {}
    for fact in calls:
        for path, how in touches(fact):
            at = found.pop(path, None) or Touched(path, 0, 0, 0, -1, -1, -1, -1, -1)
            if how == "read":
                at = at._replace(read_count=at.read_count + 1, last_read=fact.item_index, superseded_by=-1)
            elif how == "write" and _failed(fact):
                at = at._replace(write_count=at.write_count + 1, last_failed=fact.item_index)
            elif how == "write":
                superseded_by = fact.item_index if at.read_count else -1
                at = at._replace(write_count=at.write_count + 1, last_write=fact.item_index, superseded_by=superseded_by)
            else:
                at = at._replace(named_count=at.named_count + 1)
            found[path] = at._replace(last_index=fact.item_index)
    for fact in later:
        for path, how in touches(fact):
            if how == "write" and not _failed(fact) and path in found:
                found[path] = found[path]._replace(superseded_by=fact.item_index)
    return list(found.values())


def _failed(fact: CallFact) -> bool:
    return fact.is_error or fact.state in (EffectState.FAILED, EffectState.NOT_STARTED)
