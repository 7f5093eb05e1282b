"""What a scan looks for in a body: tables, no code.

A dialect's adapter describes its body as a set of named shapes. The scan walks the JSON once and, wherever a shape says so,
emits a row for an item or a part. Nothing here knows a dialect; nothing in a dialect knows how scanning works.

How a value is matched against a shape (this is the specification; `_match_py.py` is its executable form):

1. `by`: the value is an object and `by` names one of its members: the decoded string value of that member picks a shape from
   `cases`; otherwise `default` is taken. The picked shape takes the place of this one (whose own role, kind, fields and each
   then mean nothing) and may have `by` again. A shape without `by`, a value that is not an object, and a shape that has no
   such case and no default, stays.
2. `role`: the item being read gets this role.
3. `kind`: a part of this kind is opened over the whole value, as a child of the part that is open, and is now the open part.
4. A string: it becomes the open part's payload when this shape opened it.
5. An array with `each`: every element is matched against the shape `each`.
6. An object: each member whose key is in `fields` is treated as its `Field` says, in order of position; when a key occurs more
   than once only its last occurrence counts, as JSON readers do.

A `Field` does, in this order: `kind` raises the kind of the open part to this one (the larger wins) when the value is neither
null nor false; `code` files the value's span or a flag in the open part (in the item, when no part is open); `shape` matches
the value.

Cache markers are counted so: a part whose kind ends as MARKER is one; any other member with Code.MARKER is one when its value
is neither null nor false. The flags MARKED say that there is something to leave out of the item's identity, so they are set
whatever the value.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import NamedTuple

__all__ = ["Code", "Field", "GrammarSpec", "ItemFlag", "Kind", "PartFlag", "Role", "Shape", "ValueType"]


class Role(IntEnum):
    """Who speaks in an item. OTHER is what no shape named."""

    OTHER = 0
    SYSTEM = 1
    USER = 2
    ASSISTANT = 3
    RESULT = 4  # an item that is nothing but a result (a chat tool message)


class Kind(IntEnum):
    """What a part is. The larger wins where a part is several things at once (a text that is thought is REASONING)."""

    NONE = 0
    OTHER = 1  # a block that no shape named: passed through, never touched
    TEXT = 2
    MARKER = 3  # a block that is only a cache marker
    OPAQUE = 4  # a provider's own block that stands for history (compaction block, item reference)
    MEDIA = 5
    RESULT = 6
    CALL = 7
    SERVER_RESULT = 8  # output of a tool that the provider ran, inside the model's own turn
    SERVER_CALL = 9
    REASONING = 10


class Code(IntEnum):
    """What a member means for the part that is open."""

    NONE = 0
    ID = 1
    NAME = 2
    PAYLOAD = 3  # arguments of a call, content of a result, text of a text
    ERROR = 4  # sets PartFlag.ERROR when the value is true or the string "error"
    SIGNATURE = 5  # sets PartFlag.SIGNED when the value is a string that is not empty
    MARKER = 6  # a cache marker: sets PartFlag.MARKED and ItemFlag.MARKED; not part of an item's identity
    FAILURE = 7  # sets PartFlag.ERROR when the value is neither null nor false


class PartFlag(IntFlag):
    """Facts of a part."""

    ERROR = 1
    SIGNED = 2
    MARKED = 4


class ItemFlag(IntFlag):
    """Facts of an item."""

    MARKED = 1
    NON_ASCII = 2  # a byte over 0x7f stands in it


class ValueType(IntEnum):
    """JSON type of a value."""

    NONE = 0  # absent
    NULL = 1
    FALSE = 2
    TRUE = 3
    NUMBER = 4
    STRING = 5
    ARRAY = 6
    OBJECT = 7


class Field(NamedTuple):
    """What to do with one member of an object.

    `text_block` concerns the canonical form only: a string here is the same value as a list of one text block that holds it
    (`[{"text":…,"type":"text"}]`); clients switch between the two to carry a cache marker.
    """

    code: Code = Code.NONE
    kind: Kind = Kind.NONE
    shape: str = ""
    text_block: bool = False


class Shape(NamedTuple):
    """What to do with one value."""

    kind: Kind = Kind.NONE
    role: Role = Role.OTHER
    by: bytes = b""
    cases: dict[bytes, str] = {}
    default: str = ""
    fields: dict[bytes, Field] = {}
    each: str = ""


class GrammarSpec(NamedTuple):
    """A dialect's body.

    Attributes:
        history: keys of the root member that holds the items (an array); the first that is present counts.
        history_text: a string in that place is the only item, matched as an element of the array would be.
        system: keys of root members that are system text.
        tools: keys of root members that are tool schemas.
        item: shape of one item.
        shapes: all shapes by name.
        system_shape: shape of a root member that is system text; only its cache markers are counted.
        tools_shape: the same for a root member that is tool schemas.
    """

    history: tuple[bytes, ...]
    system: tuple[bytes, ...]
    tools: tuple[bytes, ...]
    item: str
    shapes: dict[str, Shape]
    system_shape: str = ""
    tools_shape: str = ""
    history_text: bool = False
