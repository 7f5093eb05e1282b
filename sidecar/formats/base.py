"""What a dialect's adapter says. Everything outside `sidecar/formats/` speaks to a dialect through this alone.

An adapter is stateless and pure: a grammar for the scan, the structural rules, and how to write a stub, the read-back tool and
its result. It decides nothing about what is cut and when.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple

from fastpath import Edit, Grammar, Item, Part, Scan
from sidecar.core.replies import ModelReply
from sidecar.core.types import Format, ReductionKind, UsageFigures

__all__ = ["Adapter", "ContentSpan", "Judged", "MediaPayload", "ReadBackCall", "Rows", "Style", "Violation"]

Rows = tuple[list[Item], list[Part]]
"""All items and parts of a scan."""


class Violation(NamedTuple):
    """A structural rule that a body breaks.

    Two bodies are compared by (rule, item_index) as multisets, so neither may depend on sizes or offsets.
    """

    rule: str  # UPPER_SNAKE, such as RESULT_WITHOUT_CALL
    item_index: int  # in the body; -1 for the envelope
    offset_bytes: int
    message: str  # for people; names ids and roles, never content


class Judged(NamedTuple):
    """What the structural rules say of a body, and what judging a longer one needs of it. Nothing in it is mutated."""

    violations: list[Violation]  # all, in order of position
    local: list[Violation]  # those that no later item can make or undo, but for items of the last turn
    roles: list[int]  # of all items
    asked: list[int]  # user items without results, ascending
    server: list[Part]  # calls and results of tools that the provider ran


class Style(NamedTuple):
    """How an item's JSON is spelled, so that what replaces a value of it is spelled alike."""

    ascii: bool  # what is not ASCII is written as \\uXXXX
    slash: bool  # "/" is written as "\\/"
    spaced: bool  # ", " and ": " rather than "," and ":"


class MediaPayload(NamedTuple):
    """Base64 data of a media part that stands in the body itself."""

    start: int  # span of the base64 text in the body, quotes and any "data:...;base64," prefix excluded
    end: int
    media_type: str


class ReadBackCall(NamedTuple):
    """A model's call, read from its JSON."""

    call_id: str
    name: str
    arguments: bytes | None  # JSON object text; None when what was given is not JSON
    raw_id: bytes  # the id's JSON value as it came (b"" when the dialect gives none)
    kind: str = ""  # which of several types of calls, where a dialect has them


class ContentSpan(NamedTuple):
    """The content of a user item that may become one item with its neighbors: a string, or a list of blocks."""

    start: int  # of the value in the body, quotes or brackets included
    end: int
    is_string: bool
    elements: tuple[tuple[int, int], ...]  # spans of the blocks; for a string the value itself


class Adapter(ABC):
    """One dialect."""

    format: ClassVar[Format]
    name: ClassVar[str]  # "openai-chat"
    grammar: ClassVar[Grammar]
    reasoning: ClassVar[Literal["never", "remove_before_last_user", "blank"]]
    """How old reasoning may go: not at all; its parts left out, before the last user item without results; its value made "".

    Where it is made "", only a REASONING part with a string as payload goes; one that is signed never does.
    """

    empty_body: ClassVar[bytes]
    """The smallest body: an object with an empty history, nothing behind that."""
    merges_users: ClassVar[bool]
    """Neighboring user items without results are one item: roles alternate, or the API merges them."""
    joins_results: ClassVar[bool]
    """All results of a turn are one user item; else each is an item."""
    behind_turn: ClassVar[bool] = True
    """Results stand behind all items of their turn; else behind the item that holds their calls."""
    one_item: ClassVar[Literal["none", "results", "users"]] = "none"
    """Neighboring user items that the API refuses: any at all, or two that hold results of one turn."""

    @abstractmethod
    def judge(self, scan: Scan, rows: Rows | None = None, earlier: Judged | None = None, since: int = 0) -> Judged:
        """All structural rules of the dialect that the body breaks. O(parts from `since` on), and one copy of the roles.

        Args:
            scan: of the body, with this dialect's grammar.
            rows: all its items and parts, where the caller has them already: making them costs as much as the rules.
            earlier: what was judged of a body that begins with the same `since` items at the same offsets. The answer is the
                same as without it.
            since: 0, or an assistant item of this body and of that one that follows an item that is not the assistant's.
        """

    def check(self, scan: Scan, rows: Rows | None = None) -> list[Violation]:
        """What `judge` finds broken, in order of position."""
        return self.judge(scan, rows).violations

    def binds_reasoning(self, scan: Scan, edited_from: int) -> bool:
        """Whether the provider may refuse or drop signed reasoning that stands behind a change at `edited_from`.

        Some models check on each request that nothing before a signed block has changed since they made it.
        """
        return False

    @abstractmethod
    def sees_all(self, scan: Scan) -> bool:
        """False when the body stands for history that is not in it (previous_response_id, conversation)."""

    @abstractmethod
    def stub(self, kind: ReductionKind, original: bytes, text: str, style: Style) -> bytes | None:
        """A JSON value that may stand where `original` (one JSON value: a string, object, array or media block) stood.

        Results keep their type: a string becomes a string, a list of blocks a list of one text block. Media blocks become a text
        block. ARGUMENTS become a value of the type that the dialect demands (chat: a string that holds a JSON object;
        messages: an object), which says that it is not to be copied. REASONING with `reasoning == "blank"` becomes "". A
        cache marker of `original` is not in the answer; the caller puts it back. None where the dialect allows no
        replacement: for any other type.

        Of SERVER_RESULT parts only the payload may be replaced, and only where there is one and the part is not SIGNED.
        """

    def with_marker(self, stub: bytes, original: bytes, style: Style) -> bytes:
        """`stub` with the cache marker of the block, or of the last marked block in the list, that it replaces, byte for byte.

        As it is where the dialect has no markers, or has them beside what they mark.
        """
        return stub

    @abstractmethod
    def media(self, body: bytes, part_span: tuple[int, int]) -> MediaPayload | None:
        """Base64 data of the media part at that span; None when it only refers to data elsewhere (a URL, a file id)."""

    @abstractmethod
    def tool_names(self, scan: Scan) -> list[bytes]:
        """Decoded names of the tools that the body declares, in order."""

    @abstractmethod
    def read_back_tool(self) -> bytes:
        """The read-back tool as an element of the body's tools, JSON. Its name is READ_BACK_TOOL_NAME."""

    @abstractmethod
    def inject_tool(self, scan: Scan) -> Edit | None:
        """The edit that adds the read-back tool to the body, last of the tools.

        Where the body has it already (a tool of that name that takes an artifact_id) the edit is empty: no bytes, start == end.
        None where it cannot be added: tools are no array, the model may not call it, another tool has its name.
        """

    @abstractmethod
    def parse_call(self, call: bytes) -> ReadBackCall:
        """Read a call as the model made it. Raises MalformedBodyError."""

    @abstractmethod
    def result(self, call: ReadBackCall, text: str, *, is_error: bool) -> bytes:
        """The result item or block for a call, JSON, UTF-8."""

    def takes_text(self, call: bytes) -> bool:
        """Whether a text can answer that call, JSON: what cannot is never closed in the agent's place."""
        return True

    def listed(self, item: bytes) -> bytes:
        """An item as it stands in a list of several; it may have come alone, in another form."""
        return item

    @abstractmethod
    def result_items(self, results: Sequence[bytes]) -> list[bytes]:
        """Results of all calls of one turn, in order of the calls, as the items that stand behind the turn, JSON."""

    @abstractmethod
    def usage(self, usage: bytes) -> UsageFigures:
        """Read the provider's usage object, by the dialect's rules. Raises MalformedBodyError; unknown members are ignored."""

    # Compaction -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def text_item(self, text: str, role: int, marker: bytes, style: Style) -> bytes:
        """An item of role USER or ASSISTANT that holds one text, JSON; with a cache marker of that value unless it is empty."""

    @abstractmethod
    def text_part(self, text: str, marker: bytes, style: Style) -> bytes:
        """The same text as one element of a user item's content list, JSON."""

    @abstractmethod
    def wrap_string(self, value: bytes) -> bytes:
        """A content list's element that holds the text of a string content; `value` is that string's JSON, kept byte for byte."""

    @abstractmethod
    def content_span(self, body: bytes, item: Item) -> ContentSpan | None:
        """Content of a user item that may become one with its neighbors.

        One that holds results has a span too: whether it may be joined is for the caller to say. None where it may not: no user
        item, members beside role and content (each once) that are not null, a content that is empty or blank, or that is neither
        a string nor a list of objects.
        """

    def last_marker(self, body: bytes, start: int, end: int) -> bytes:
        """JSON value of the last cache marker in the item at that span, as `text_item` takes it; b"" for none."""
        return b""

    def element_marker(self, body: bytes, start: int, end: int) -> bytes:
        """The same of one element of a content list, as `content_span` gives it."""
        return b""

    def may_follow_summary(self, scan: Scan, rows: Rows, index: int) -> bool:
        """Whether the assistant item at `index`, and all that follows, may stand behind a new user item without results.

        False where thinking is on, `index` is in the tool loop that is still open, and it does not begin with its thinking block.
        Always True where what the API asks of reasoning, it asks of an item wherever that stands.
        """
        return True

    @abstractmethod
    def summary_request(self, envelope: bytes, system: str, user: str, max_output_tokens: int) -> bytes:
        """A complete request of this dialect that asks for a text: valid by itself, without tools and without thinking.

        Args:
            envelope: a body of the session; its model is taken over, with the few members that say where the request goes and
                who may see it; nothing of its history, its tools, or how it samples. Absent members stay absent, model too.
            system: instructions.
            user: the material. Neither may be blank.
            max_output_tokens: where the dialect has such a limit; at least this, more where the session's own is larger (see
                requests.py).
        """

    @abstractmethod
    def read_reply(self, response: bytes) -> ModelReply:
        """Read a provider's whole response, JSON. Unknown members are ignored; a usage that cannot be read is not told.

        Raises:
            MalformedBodyError: it is not JSON, is not a reply of this dialect, or says that the request failed. The message never
                holds content.
        """
