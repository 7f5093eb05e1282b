"""Values that cross boundaries: frozen, without behavior beyond what they are.

Positions come in two kinds and are never mixed: a *number* names a raw item of a session for ever; an *index* is a place in a
body or on the current branch. What is stored speaks of numbers, what a caller sees speaks of indices.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

__all__ = [
    "Anchors",
    "ArtifactRecord",
    "ArtifactSource",
    "Block",
    "CallKey",
    "Constraint",
    "Criterion",
    "Decision",
    "Encoding",
    "EffectState",
    "Envelope",
    "Format",
    "ItemMeta",
    "JournalItem",
    "LimitsGiven",
    "Offload",
    "Path",
    "PinKey",
    "Preset",
    "ReadBack",
    "ReceiptRecord",
    "ReductionKind",
    "SentForm",
    "SessionKey",
    "Source",
    "UsageFigures",
    "WorkItem",
    "WorkState",
]

Path = tuple[bytes | int, ...]
"""Where a value stands in a raw item: member keys (decoded) and element indices, from the item's root."""


class Format(IntEnum):
    """Provider dialect; numbers as in the proto."""

    UNSPECIFIED = 0
    OPENAI_CHAT = 1
    OPENAI_RESPONSES = 2
    ANTHROPIC_MESSAGES = 3
    GEMINI = 4
    BEDROCK_CONVERSE = 5


class Preset(IntEnum):
    """Documented sets of limits; numbers as in the proto."""

    UNSPECIFIED = 0
    BALANCED = 1
    MINIMAL = 2
    WINDOW = 3


class ReadBack(IntEnum):
    """How the model reads externalized content back; numbers as in the proto."""

    UNSPECIFIED = 0
    TOOL = 1
    INJECT = 2
    CALLER = 3
    NONE = 4


class ReductionKind(IntEnum):
    """What a reduction is; numbers as in the proto."""

    UNSPECIFIED = 0
    EXTERNALIZE = 1
    RESULT = 2
    ARGUMENTS = 3
    MEDIA = 4
    REASONING = 5
    RECENT_RESULT = 6
    CHECKPOINT = 7


class EffectState(IntEnum):
    """What is known of a call's effect; numbers as in the proto."""

    UNSPECIFIED = 0
    PENDING = 1
    SETTLED = 2
    FAILED = 3
    UNKNOWN = 4
    WAITING = 5
    NOT_STARTED = 6


class WorkState(IntEnum):
    """State of a piece of work; numbers as in the proto."""

    UNSPECIFIED = 0
    OPEN = 1
    IN_PROGRESS = 2
    BLOCKED = 3
    DONE = 4
    DROPPED = 5


class Encoding(IntEnum):
    """How an artifact's content stands in its raw item."""

    JSON_STRING = 0  # content is the decoded string (a lone surrogate as its three bytes)
    JSON = 1  # content is the JSON bytes themselves
    BASE64_STRING = 2  # content is what the base64 in the string decodes to


class SessionKey(msgspec.Struct, frozen=True):
    """Names one agent run."""

    scope: str  # "" is the default scope
    session_id: str


class CallKey(msgspec.Struct, frozen=True, array_like=True):
    """One call: the raw item that holds it and its place among that item's calls, both from 0; the id is for display."""

    number: int
    call_index: int
    call_id: str = ""


class LimitsGiven(msgspec.Struct, frozen=True, omit_defaults=True):
    """Limits as given by a caller; None means not given. Fields and units as in the proto's Limits."""

    preset: Preset = Preset.UNSPECIFIED
    soft_bytes: int | None = None
    target_bytes: int | None = None
    hard_bytes: int | None = None
    min_saving_bytes: int | None = None
    externalize_bytes: int | None = None
    keep_unit_count: int | None = None
    keep_result_tokens: int | None = None
    compact_target_bytes: int | None = None
    compact_min_saving_bytes: int | None = None
    summary_bytes: int | None = None
    window_tokens: int | None = None
    reply_tokens: int | None = None
    cache_ttl_ms: int | None = None


class UsageFigures(msgspec.Struct, frozen=True):
    """What the provider reported; None is not known, which is not zero."""

    input_tokens: int | None = None  # cached ones included
    cached_input_tokens: int | None = None
    output_tokens: int | None = None


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a statement rests on; exactly one is set."""

    artifact_id: str = ""
    call: CallKey | None = None
    number: int | None = None
    note: str = ""


class Criterion(msgspec.Struct, frozen=True):
    """A sign by which it is known that the goal is met."""

    id: str
    text: str = ""
    revoked: bool = False


class Constraint(msgspec.Struct, frozen=True):
    """A rule that binds until it is revoked."""

    id: str
    text: str = ""
    source: Source | None = None
    revoked: bool = False


class Decision(msgspec.Struct, frozen=True):
    """Something that was decided, and why it may be believed."""

    id: str
    text: str = ""
    sources: tuple[Source, ...] = ()
    revoked: bool = False


class WorkItem(msgspec.Struct, frozen=True):
    """A piece of work that the agent tracks."""

    id: str
    text: str = ""
    state: WorkState = WorkState.OPEN
    evidence: tuple[Source, ...] = ()


class Anchors(msgspec.Struct, frozen=True):
    """What must survive every reduction, merged by id in the order first given."""

    goal: str = ""
    success_criteria: tuple[Criterion, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    decisions: tuple[Decision, ...] = ()
    work: tuple[WorkItem, ...] = ()
    revision: int = 0  # of the session, when they last changed


class ReceiptRecord(msgspec.Struct, frozen=True):
    """What the agent durably knows of one call; the newest counts."""

    call: CallKey
    state: EffectState
    idempotency_key: str = ""
    detail: str = ""
    result: bytes = b""
    revision: int = 0  # of the session, when it was given
    next_number: int = 0  # of raw items when it was given: a result in an item from there on came after it
    closing: bool = False  # written by close_interrupted: a real result ends it
    holds: bool = False  # closing, where the agent had said UNKNOWN: only a new receipt ends that


class PinKey(msgspec.Struct, frozen=True):
    """A call, or every call of a tool, that stays in the body."""

    call: CallKey | None = None
    tool_name: str = ""


class ItemMeta(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of a raw item beside its bytes."""

    number: int
    digest: bytes  # SHA-256 of its canonical form: its identity
    loose: bytes  # of the looser canonical form, empty when that form is the same
    crc: int  # CRC-32 of its bytes as they first came, markers apart: tells "rewritten" from "as before"
    size_bytes: int  # of those bytes
    closing: bool = False  # written by close_interrupted; a real result replaces it
    role: int = 0  # fastpath.Role
    format: int = 0  # Format: equal values of two dialects are two items


class JournalItem(msgspec.Struct, frozen=True):
    """A raw item on its way into the journal."""

    meta: ItemMeta
    raw: bytes  # JSON, as it came, cache markers left out
    large: tuple[tuple[int, int], ...] = ()  # spans in raw of string values over 16 KiB: stored once per session, by digest


class SentForm(msgspec.Struct, frozen=True, array_like=True):
    """An item as it was sent: the raw item with the first `record_count` of its records applied, in order of commit."""

    number: int
    record_count: int
    digest: bytes
    loose: bytes  # empty when the same


class Offload(msgspec.Struct, frozen=True, array_like=True):
    """A record: one value of one raw item stands as `replacement` in every body from now on. Never changes."""

    kind: ReductionKind
    number: int
    path: Path
    replacement: bytes  # JSON value in the raw item's spelling; empty: the element at path is left out
    artifact_id: str
    call: CallKey | None  # source call, if any
    saved_bytes: int  # at commit
    revision: int  # that it made


class Block(msgspec.Struct, frozen=True, array_like=True):
    """Up to 64 KiB of an artifact's content."""

    raw_start: int  # within the raw value's bytes (quotes excluded)
    start: int  # within the content
    line: int  # LF bytes in the content before it
    sha256: bytes  # of this block's content


class ArtifactRecord(msgspec.Struct, frozen=True):
    """Content that left the body: a view on a value of a stored raw item. Names content; where it stood is ArtifactSource."""

    artifact_id: str  # 32 hex digits of sha256
    sha256: bytes
    size_bytes: int
    line_count: int  # 0 for binary content
    media_type: str
    encoding: Encoding
    number: int  # raw item that holds the value
    start: int  # span of the value in that raw item, quotes excluded for strings
    end: int
    blocks: tuple[Block, ...]
    create_ms: int


class ArtifactSource(msgspec.Struct, frozen=True):
    """One place that an artifact's content stood in."""

    artifact_id: str
    number: int
    path: Path
    tool_name: str
    call: CallKey | None
    is_error: bool
    create_ms: int


class Envelope(msgspec.Struct, frozen=True):
    """Everything in a body that is not the history array, with places for what is stored apart.

    `rest` is the body without the values at `holes`; each hole is (offset in rest, which), in order, which being "history",
    "system" or "tools". `system` and `tools` are the values that belong there, in order of occurrence.
    """

    rest: bytes
    holes: tuple[tuple[int, str], ...]
    system: tuple[bytes, ...] = ()
    tools: tuple[bytes, ...] = ()
