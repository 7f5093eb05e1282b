"""What the structural rules of all dialects have in common: their names, and the view of a body that they judge.

A rule is a small function from `History` to violations. Rules judge what a provider refuses, or what breaks the joint of calls
and results; they never judge taste: a unit with a violation counts as unsettled and is not touched, so a rule that is too
strict makes trimtab useless for servers that accept more than the dialect's inventor.

`CALL_OPEN` stands for calls at the very end of the history that have no result yet. Both providers refuse a request that ends
so, hence it is a violation like any other; it has a name of its own because such a history is not broken, only not finished.

Two bodies are compared by (rule, item_index) as multisets: one item can break a rule several times.

A body is most often the one before with a few items more, so rules come in two kinds. A *local* rule says of a turn, and of
the results behind it, what the items of that turn alone decide, and whether anything follows; so of turns that stand before
the last one it need not be asked again. It looks at items from `History.since` on only. A *whole* rule may look at anything,
and is asked each time; it lives off lists that are kept (`roles`, `asked`, `server`), so that it costs little.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence

from fastpath import Item, Kind, Part, Role, Scan, ValueType, locate
from sidecar.formats.base import Judged, Rows, Violation
from sidecar.formats.pairing import Key, pair
from sidecar.formats.values import value_text

__all__ = [
    "ARGUMENTS_TYPE",
    "ASSISTANT",
    "CALL",
    "CALL_ID_REPEATED",
    "CALL_NOT_AFTER_USER",
    "CALL_OPEN",
    "CALL_WITHOUT_RESULT",
    "CALL_WRONG_ROLE",
    "CONTENT_EMPTY",
    "CONTENT_TYPE",
    "FIRST_ITEM_NOT_USER",
    "MARKER",
    "MARKERS_TOO_MANY",
    "MARKER_AFTER_REASONING",
    "MARKER_FIRST",
    "MAX_MARKER_COUNT",
    "RESULT_AFTER_TEXT",
    "RESULT_REPEATED",
    "RESULT_TYPE",
    "RESULT_WITHOUT_CALL",
    "RESULT_WRONG_ROLE",
    "ROLES_NOT_ALTERNATING",
    "ROLE_UNKNOWN",
    "SERVER_CALL_WITHOUT_RESULT",
    "SERVER_RESULT_WITHOUT_CALL",
    "TEXT_EMPTY",
    "THINKING_NOT_FIRST",
    "TOOLS_MISSING",
    "OTHER",
    "OTHER_PART",
    "REASONING",
    "REASONING_ALONE",
    "RESULT",
    "RESULT_ITEM",
    "SERVER_CALL",
    "SERVER_RESULT",
    "SYSTEM",
    "TEXT",
    "USER",
    "check_turn",
    "History",
    "Rule",
    "is_blank_string",
    "is_empty_array",
    "judge",
    "show",
    "text_is_blank",
]

ARGUMENTS_TYPE = "ARGUMENTS_TYPE"
CALL_ID_REPEATED = "CALL_ID_REPEATED"
CALL_NOT_AFTER_USER = "CALL_NOT_AFTER_USER"
CALL_OPEN = "CALL_OPEN"
CALL_WITHOUT_RESULT = "CALL_WITHOUT_RESULT"
CALL_WRONG_ROLE = "CALL_WRONG_ROLE"
CONTENT_EMPTY = "CONTENT_EMPTY"
CONTENT_TYPE = "CONTENT_TYPE"
FIRST_ITEM_NOT_USER = "FIRST_ITEM_NOT_USER"
MARKERS_TOO_MANY = "MARKERS_TOO_MANY"
MARKER_AFTER_REASONING = "MARKER_AFTER_REASONING"
MARKER_FIRST = "MARKER_FIRST"
REASONING_ALONE = "REASONING_ALONE"
RESULT_AFTER_TEXT = "RESULT_AFTER_TEXT"
RESULT_REPEATED = "RESULT_REPEATED"
RESULT_TYPE = "RESULT_TYPE"
RESULT_WITHOUT_CALL = "RESULT_WITHOUT_CALL"
RESULT_WRONG_ROLE = "RESULT_WRONG_ROLE"
ROLES_NOT_ALTERNATING = "ROLES_NOT_ALTERNATING"
ROLE_UNKNOWN = "ROLE_UNKNOWN"
SERVER_CALL_WITHOUT_RESULT = "SERVER_CALL_WITHOUT_RESULT"
SERVER_RESULT_WITHOUT_CALL = "SERVER_RESULT_WITHOUT_CALL"
TEXT_EMPTY = "TEXT_EMPTY"
THINKING_NOT_FIRST = "THINKING_NOT_FIRST"
TOOLS_MISSING = "TOOLS_MISSING"

MAX_MARKER_COUNT = 4

_SHOWN_ID_BYTES = 64


# The rules run on every body, twice. A member of an IntEnum costs as much as the rest of such a loop: plain numbers here.
ASSISTANT = int(Role.ASSISTANT)
CALL = int(Kind.CALL)
MARKER = int(Kind.MARKER)
OTHER = int(Role.OTHER)
OTHER_PART = int(Kind.OTHER)
REASONING = int(Kind.REASONING)
RESULT = int(Kind.RESULT)
RESULT_ITEM = int(Role.RESULT)
SERVER_CALL = int(Kind.SERVER_CALL)
SERVER_RESULT = int(Kind.SERVER_RESULT)
SYSTEM = int(Role.SYSTEM)
TEXT = int(Kind.TEXT)
USER = int(Role.USER)


class History:
    """A scanned body, with what several rules ask for. Parts that stand in other parts are in `parts` only."""

    __slots__ = ("asked", "body", "calls", "items", "parts", "results", "roles", "scan", "server", "since", "texts")

    def __init__(self, scan: Scan, rows: Rows | None = None, earlier: Judged | None = None, since: int = 0) -> None:
        """See `Adapter.judge`. `rows` are not changed."""
        self.scan = scan
        self.body = scan.body
        self.items, self.parts = rows or (scan.items(), scan.parts())
        self.since = since  # local rules look no further back
        self.calls: list[Part] = []  # these three of items from `since` on
        self.results: list[Part] = []
        self.texts: list[Part] = []
        self.roles: list[int] = []  # these three of the whole body
        self.asked: list[int] = []  # user items without results
        self.server: list[Part] = []  # calls and results of tools that the provider ran
        if since and earlier is not None:
            self.roles = earlier.roles[:since]
            self.asked = earlier.asked[: bisect_left(earlier.asked, since)]
            self.server = [part for part in earlier.server if part[2] < since]
        first_part = self.items[since][4] if since else 0
        answered: set[int] = set()
        for part in self.parts[first_part:] if first_part else self.parts:
            kind, outermost = part[0], part[3] < 0
            if kind == RESULT:
                answered.add(part[2])
                if outermost:
                    self.results.append(part)
            elif not outermost:
                continue
            elif kind == CALL:
                self.calls.append(part)
            elif kind == TEXT:
                self.texts.append(part)
            elif kind in (SERVER_CALL, SERVER_RESULT):
                self.server.append(part)
        for index in range(since, len(self.items)):
            role = self.items[index][2]
            self.roles.append(role)
            if role == USER and index not in answered:
                self.asked.append(index)

    def member(self, key: bytes) -> bytes:
        """Value of a root member, the last of that name; empty when there is none."""
        return self.scan.member(key)

    def indices(self) -> range:
        """Items that local rules judge."""
        return range(self.since, len(self.items))

    def key(self, part: Part) -> Key:
        """What joins a call or a result to its other half."""
        id = value_text(self.body[part.id_start : part.id_end]) if part.id_start >= 0 else b""
        name = value_text(self.body[part.name_start : part.name_end]) if part.name_start >= 0 else b""
        return Key(id, name)

    def raw_ids(self, parts: Sequence[Part]) -> list[bytes]:
        """Ids as they are spelled, quotes included; empty where there is none."""
        body = self.body
        return [body[part[6] : part[7]] if part[6] >= 0 else b"" for part in parts]

    def id(self, part: Part) -> bytes:
        """A part's id; empty when it has none."""
        return value_text(self.body[part.id_start : part.id_end]) if part.id_start >= 0 else b""

    def item_parts(self, item: Item) -> list[Part]:
        """Parts of an item, children included."""
        return self.parts[item.first_part : item.first_part + item.part_count]

    def has_any(self, item_index: int, *keys: bytes) -> bool:
        """Whether an item has one of these members, and it is not null."""
        start = self.items[item_index].start
        spans = [locate(self.body, start, (key,)) for key in keys]
        return any(span is not None and self.body[span[0] : span[1]] != b"null" for span in spans)

    def content_span(self, item_index: int) -> tuple[int, int] | None:
        """Where an item's content stands; None when it has none."""
        return locate(self.body, self.items[item_index].start, (b"content",))


def check_turn(history: History, calls: Sequence[Part], results: Sequence[Part], open_rule: str) -> Iterator[Violation]:
    """Calls of one turn against what answers it: every call one result, every result a call. `open_rule` names a call without."""
    if len(calls) == 1 == len(results):
        body, one, other = history.body, calls[0], results[0]
        if one[7] - one[6] > 2 and body[one[6] : one[7]] == body[other[6] : other[7]]:
            return  # the usual case, told at once
    asked, answered = history.raw_ids(calls), history.raw_ids(results)
    if asked == answered and len(min(asked, default=b"", key=len)) > 2:
        return  # the same ids in the same order, none of them empty
    pairing = pair([history.key(part) for part in calls], [history.key(part) for part in results])
    for at, call in enumerate(pairing.call_of):
        if call < 0:
            part = results[at]
            rule = RESULT_REPEATED if at in pairing.repeats else RESULT_WITHOUT_CALL
            message = f"result {show(history.id(part))} answers no open call of the turn before it"
            yield Violation(rule, part.item, part.start, message)
    for at, result in enumerate(pairing.result_of):
        if result < 0:
            part = calls[at]
            message = f"call {show(history.id(part))} has no result directly after its turn"
            yield Violation(open_rule, part.item, part.start, message)


Rule = Callable[[History], Iterator[Violation]]


def judge(
    history: History,
    local: Sequence[Rule],
    whole: Sequence[Rule],
    earlier: Judged | None = None,
    usual: Callable[[History], bool] | None = None,
) -> Judged:
    """Ask the local rules of what is new, the others of all.

    Args:
        history: made with `earlier`.
        local: rules that look at items from `history.since` on.
        whole: rules that look at anything.
        earlier: as given to `history`.
        usual: True only where no local rule can find anything; a quick look that most bodies pass.
    """
    found = [] if usual is not None and usual(history) else in_order(violation for rule in local for violation in rule(history))
    if earlier is not None and history.since and earlier.local:
        found = [violation for violation in earlier.local if violation.item_index < history.since] + found
    everywhere = [violation for rule in whole for violation in rule(history)]
    violations = in_order((*found, *everywhere)) if everywhere else found
    return Judged(violations, found, history.roles, history.asked, history.server)


def in_order(violations: Iterable[Violation]) -> list[Violation]:
    """By position, the envelope's first."""
    return sorted(violations, key=lambda found: (found.item_index, found.offset_bytes, found.rule))


def show(id: bytes) -> str:
    """An id in a message: capped, and nothing in it that could act on a terminal or a log."""
    text = id[:_SHOWN_ID_BYTES].decode("utf-8", "replace")
    clean = "".join(character if character.isprintable() else "\ufffd" for character in text)
    return f'"{clean}"' + (f" and {len(id) - _SHOWN_ID_BYTES} bytes more" if len(id) > _SHOWN_ID_BYTES else "")


def is_empty_array(body: bytes, span: tuple[int, int]) -> bool:
    """Whether the array at `span` has no element. O(1) but for white space."""
    at = span[0] + 1
    while body[at] in b" \t\r\n":
        at += 1
    return body[at] == 0x5D


def is_blank_string(body: bytes, span: tuple[int, int]) -> bool:
    """Whether the string at `span` holds no character but white space. O(1) for one that begins with something else."""
    if body[span[0] + 1] not in b' \\"\xc2\xe2\xe3':
        return False
    return not value_text(body[span[0] : span[1]]).decode("utf-8", "replace").strip()


def text_is_blank(body: bytes, part: Part) -> bool:
    """Whether a TEXT part has a text that holds no character but white space."""
    return part.payload_type == ValueType.STRING and is_blank_string(body, (part.payload_start, part.payload_end))
