"""Facts of settled work: what a summary may be made from. `sidecar/summarize/` turns them into text.

Nothing here comes from reasoning or from an earlier summary. Indices are places of raw items on the current branch, as callers
count them.

Where an agent adopted our stubs, a stub stands in the body instead of a result or of arguments. Which do is known from the
records: a text is taken for a stub only where an artifact left that very place and the text names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from fastpath import Item, Kind, Part, PartFlag, Role, ValueType, decode_string, locate, path_at, strings
from sidecar.core.artifacts import find_artifact_id
from sidecar.core.foreign import cut_text
from sidecar.core.paths import marker_paths, shift
from sidecar.core.readback import show, whole_characters
from sidecar.core.stubs import FENCE
from sidecar.core.types import Anchors, CallKey, EffectState, Path, ReceiptRecord
from sidecar.core.units import Call, Unit

__all__ = [
    "REQUEST_TEXT_BYTES",
    "RESULT_TEXT_BYTES",
    "TEXT_BYTES",
    "CallFact",
    "RangeFacts",
    "RequestFact",
    "TextFact",
    "collect_facts",
    "item_text",
]

RESULT_TEXT_BYTES: Final = 400
TEXT_BYTES: Final = 1024
REQUEST_TEXT_BYTES: Final = 1024

_ID_BYTES: Final = 256  # as ids are shown everywhere
_STUB_SIZE = re.compile(r" returned(?: an error:)? (\d{1,18}) bytes")
_WORD = re.compile(r"[\w-]{1,32}", re.ASCII)
_QUOTE: Final = ord('"')


class CallFact(NamedTuple):
    """One covered call, with how it ended."""

    call: CallKey
    item_index: int  # raw item that holds the call
    tool_name: str
    arguments: (
        bytes  # as the model gave them, decoded where the dialect keeps them in a string; empty where a stub stands for them
    )
    is_error: bool  # the result was reported as an error
    result_bytes: int  # of all its results, as content
    result_text: str  # beginning of the result's text, at most RESULT_TEXT_BYTES of it, cut on a character; "" for none
    result_tail: str  # what is left of it behind that, at most the same size of its end
    artifact_ids: tuple[str, ...]  # under which its results can be read back; empty: none is large enough
    state: EffectState  # of the newest receipt; UNSPECIFIED: there is none
    detail: str  # of that receipt
    argument_ids: tuple[str, ...] = ()  # artifacts of its arguments
    in_view: bool = False  # it stands in the body whole: of what can be read back of it nothing has left before


class TextFact(NamedTuple):
    """Text that the model wrote in a covered turn."""

    item_index: int
    text: str  # beginning of it, at most TEXT_BYTES


class RequestFact(NamedTuple):
    """What a person asked, and what is known of it. See `requests.py` for the rules."""

    item_index: int  # raw item
    text: str  # beginning of it, at most REQUEST_TEXT_BYTES; the whole stands verbatim in the body
    answered_by: int  # raw item of the assistant's text that ended the work on it; -1: none. Says nothing about success
    done_by: str  # id of the work item that says so, "" for none
    is_last: bool  # nobody asked anything after it


class RangeFacts(NamedTuple):
    """All that a summary of a range is made from."""

    calls: tuple[CallFact, ...]  # in order
    texts: tuple[TextFact, ...]
    requests: tuple[RequestFact, ...]  # of the whole history, oldest first
    anchors: Anchors
    numbers: tuple[int, ...] = ()  # of all raw items by index: anchors name their sources by number
    later: tuple[CallFact, ...] = ()  # calls behind the range that are not covered: what they wrote, covered reads show no more


def collect_facts(
    body: bytes,
    items: Sequence[Item],
    parts: Sequence[Part],
    units: Sequence[Unit],
    chosen: Sequence[Unit],
    numbers: Sequence[int],
    receipts: Mapping[tuple[int, int], ReceiptRecord],
    artifact_ids_of: Callable[[int], Sequence[tuple[Path, str]]],
    anchors: Anchors,
    requests: Sequence[RequestFact],
    in_view: Collection[str] = (),
) -> RangeFacts:
    """Facts of a range. O(bytes of the covered units, and of the calls behind them).

    Args:
        body: unfolded: no summary stands in it for raw items.
        items: all its items.
        parts: all its parts.
        units: all its units, oldest first.
        chosen: those that are to be covered, oldest first.
        numbers: of its items; none is -1.
        receipts: the newest of each call, by (number, call_index).
        artifact_ids_of: by number of a raw item: path in it and id of each artifact that left it.
        anchors: in force.
        requests: states of the requests of the whole body.
        in_view: artifacts of values that stand in the body whole.
    """
    reader = _Reader(body, items, parts, numbers, receipts, artifact_ids_of, in_view)
    covered = {unit.first for unit in chosen}
    first = chosen[0].first if chosen else len(items)
    return RangeFacts(
        calls=tuple(reader.call(call) for unit in chosen for call in unit.calls),
        texts=tuple(fact for unit in chosen for index in unit.turn if (fact := reader.text(index)) is not None),
        requests=tuple(requests),
        anchors=anchors,
        numbers=tuple(numbers),
        later=tuple(
            reader.call(call) for unit in units if unit.first > first and unit.first not in covered for call in unit.calls
        ),
    )


def item_text(body: bytes, item: Item, parts: Sequence[Part]) -> str:
    """What a user or assistant item says, results, media and reasoning apart; its texts joined by line breaks.

    A content that is a string has no part in the scan, so it is looked for by its key, which is the same in all dialects that
    allow it.
    """
    texts = []
    span = locate(body, item.start, (b"content",))
    if span is not None and body[span[0]] == _QUOTE:
        texts.append(show(_content(body, *span)))
    for part in parts[item.first_part : item.first_part + item.part_count]:
        if part.kind == Kind.TEXT and part.parent < 0 and part.payload_type == ValueType.STRING:
            texts.append(show(_content(body, part.payload_start, part.payload_end)))
    return "\n".join(text for text in texts if text and not text.isspace())


def _content(body: bytes, start: int, end: int) -> bytes:
    """A string's content, or any other value as it stands; empty for what is absent."""
    if start < 0:
        return b""
    return decode_string(body[start + 1 : end - 1]) if body[start] == _QUOTE else body[start:end]


class _Reader:
    """Reads one body's calls and texts."""

    def __init__(
        self,
        body: bytes,
        items: Sequence[Item],
        parts: Sequence[Part],
        numbers: Sequence[int],
        receipts: Mapping[tuple[int, int], ReceiptRecord],
        artifact_ids_of: Callable[[int], Sequence[tuple[Path, str]]],
        in_view: Collection[str],
    ) -> None:
        self._in_view = in_view
        self._body, self._items, self._parts = body, items, parts
        self._numbers, self._receipts, self._artifact_ids_of = numbers, receipts, artifact_ids_of

    def text(self, index: int) -> TextFact | None:
        """What the model wrote in an item; None when nothing."""
        text = item_text(self._body, self._items[index], self._parts)
        return TextFact(index, cut_text(text, TEXT_BYTES)) if text else None

    def call(self, call: Call) -> CallFact:
        """One call, with how it ended."""
        body, part = self._body, call.part
        number = self._numbers[call.item]
        receipt = self._receipts.get((number, call.call_index))
        arguments = _content(body, part.payload_start, part.payload_end)
        argument_ids = self._artifact_ids(part)
        if argument_ids and FENCE.encode() in arguments and find_artifact_id(show(arguments)) in argument_ids:
            arguments = b""
        texts: list[bytes] = []
        artifact_ids: dict[str, None] = {}
        size_bytes = 0
        for index in call.results:
            ids = self._artifact_ids(self._parts[index])
            artifact_ids.update(dict.fromkeys(ids))
            text, size = self._result(index, ids)
            texts.append(text)
            size_bytes += size
        content = b"\n".join(text for text in texts if text)
        head_bytes = whole_characters(content[:RESULT_TEXT_BYTES])
        tail = content[max(head_bytes, len(content) - RESULT_TEXT_BYTES) :]
        return CallFact(
            CallKey(number, call.call_index, show(call.id[:_ID_BYTES])),
            call.item,
            show(_content(body, part.name_start, part.name_end)),
            arguments,
            any(self._parts[index].flags & PartFlag.ERROR for index in call.results),
            size_bytes,
            show(content[:head_bytes]),
            show(tail.lstrip(bytes(range(0x80, 0xC0))) if head_bytes else tail),
            tuple(artifact_ids),
            EffectState.UNSPECIFIED if receipt is None else receipt.state,
            "" if receipt is None else receipt.detail,
            argument_ids,
            bool(artifact_ids or argument_ids) and all(id in self._in_view for id in (*artifact_ids, *argument_ids)),
        )

    def _artifact_ids(self, part: Part) -> tuple[str, ...]:
        """Artifacts that left from inside a part, or its whole item where the item is nothing else."""
        left = self._artifact_ids_of(self._numbers[part.item])
        if not left:
            return ()
        item = self._items[part.item]
        path: Path = () if item.role == Role.RESULT else path_at(self._body, item.start, part.start) or ()
        path = shift(path, marker_paths(self._body, item, self._parts))
        return tuple(dict.fromkeys(id for at, id in left if at[: len(path)] == path))

    def _result(self, index: int, artifact_ids: tuple[str, ...]) -> tuple[bytes, int]:
        """Text of one result and size of its content, both as before a stub of ours took its place."""
        body, part = self._body, self._parts[index]
        start, end = part.payload_start, part.payload_end
        if part.payload_type == ValueType.STRING:
            content = _content(body, start, end)
            size_bytes = len(content)
            pieces = [content]
        else:
            pieces = self._blocks(index)
            size_bytes = end - start if start >= 0 else part.end - part.start
            if not pieces and start >= 0:
                pieces = [body[start:end]]
                told = list(strings(body, start, end, 0)) if part.payload_type == ValueType.OBJECT else []
                if len(told) == 1 and len(told[0][2]) == 1:  # an object that only wraps a text
                    pieces = [_content(body, told[0][0], told[0][1])]
                    size_bytes = len(pieces[0])
        texts = []
        for piece in pieces:
            stub = _stub(piece, artifact_ids)
            if stub is None:
                texts.append(piece)
            else:
                texts.append(stub[0])
                size_bytes += max(stub[1] - len(piece), 0)
        return b"\n".join(text for text in texts if text), size_bytes

    def _blocks(self, index: int) -> list[bytes]:
        """Texts in a result, in order; what is no text by its name in brackets."""
        body, part = self._body, self._parts[index]
        item = self._items[part.item]
        found = []
        inside = False
        for kid in self._parts[index + 1 : item.first_part + item.part_count]:
            if kid.start >= part.end:
                break
            inside = True
            if kid.kind == Kind.TEXT:
                found.append(_content(body, kid.payload_start, kid.payload_end))
            elif kid.kind == Kind.MEDIA or (kid.kind == Kind.OTHER and not self._has_text(kid)):
                found.append(b"[" + self._type(kid, b"media") + b"]")
        if not inside and part.payload_start < 0:
            # What a provider's own tool left, and only the provider can read.
            found.append(b"[" + self._type(part, b"result") + b"]")
        return found

    def _has_text(self, part: Part) -> bool:
        item = self._items[part.item]
        own = self._parts[item.first_part : item.first_part + item.part_count]
        return any(kid.kind == Kind.TEXT and part.start < kid.start < part.end for kid in own)

    def _type(self, part: Part, default: bytes) -> bytes:
        span = locate(self._body, part.start, (b"type",)) if self._body[part.start : part.start + 1] == b"{" else None
        name = b"" if span is None else _content(self._body, *span)
        word = name.removeprefix(b"input_").removesuffix(b"_url")
        return word if _WORD.fullmatch(word.decode("utf-8", "replace")) else default


def _stub(text: bytes, artifact_ids: tuple[str, ...]) -> tuple[bytes, int] | None:
    """Of a text that begins with a stub of one of these artifacts: what stands behind the stub, and the size that it tells."""
    if not artifact_ids or not text.startswith(FENCE.encode()):
        return None
    line, _, preview = text.partition(b"\n")
    shown = show(line)
    if find_artifact_id(shown) not in artifact_ids:
        return None
    # The last: what was asked stands quoted before it.
    sizes = _STUB_SIZE.findall(shown)
    return preview, int(sizes[-1]) if sizes else 0
