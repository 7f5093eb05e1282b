"""One form for all spellings of an item, and an item without its cache markers: the reference of c/fp_canon.c."""

from __future__ import annotations

from fastpath._json_py import Node, Reader
from fastpath._match_py import Grammar, ItemMatch
from fastpath._number_py import double_spelling, exact_spelling
from fastpath._text_py import canonical_text
from fastpath.grammar import ValueType

__all__ = ["canon", "strip_markers"]

_WORDS = {ValueType.NULL: b"null", ValueType.FALSE: b"false", ValueType.TRUE: b"true"}


def read_span(body: bytes, start: int, end: int) -> tuple[Reader, Node]:
    """Read the one value that body[start:end] must be, white space around it aside."""
    if not 0 <= start <= end <= len(body):
        raise ValueError("span is outside the body")
    reader = Reader(body, end)
    node = reader.value(reader.skip(start), 0)
    rest = reader.skip(node.end)
    if rest != end:
        reader.fail(rest)
    return reader, node


def canon(body: bytes, start: int, end: int, grammar: Grammar) -> tuple[bytes, bytes | None]:
    """Canonical forms of the item at body[start:end]. O(n log n) in its members.

    Cache markers are left out and a string at a field with `text_block` is written as a list of one text block, where the
    grammar's item shape says so and nowhere else. Members are in order of their decoded keys, the last of duplicates counts;
    strings and numbers have one spelling.

    Returns:
        The strict form, numbers equal by exact value; and the loose form, numbers equal as doubles and members that are null
        left out, or None when it is the same.

    Raises:
        MalformedError: the span is not one JSON value.
    """
    _, node = read_span(body, start, end)
    match = ItemMatch(body, grammar.spec, node, grammar.spec.item)
    forms: list[bytes] = []
    for loose in (False, True):
        out: list[bytes] = []
        _write(body, node, match.text_blocks, loose, out)
        forms.append(b"".join(out))
    return forms[0], None if forms[1] == forms[0] else forms[1]


def _write(body: bytes, node: Node, text_blocks: set[int], loose: bool, out: list[bytes]) -> None:
    """Append the canonical form of a value. As deep as the value, which is bounded."""
    if node.type == ValueType.OBJECT:
        members = [child for child in node.children if not child.shadowed and not child.drop]
        members.sort(key=lambda child: child.key or b"")
        mark = b"{"
        for child in members:
            if loose and child.type == ValueType.NULL:
                continue
            out += (mark, _canonical_key(body, child), b":")
            _write(body, child, text_blocks, loose, out)
            mark = b","
        out.append(b"{}" if mark == b"{" else b"}")
    elif node.type == ValueType.ARRAY:
        mark = b"["
        for child in node.children:
            if child.drop:
                continue
            out.append(mark)
            _write(body, child, text_blocks, loose, out)
            mark = b","
        out.append(b"[]" if mark == b"[" else b"]")
    elif node.type == ValueType.STRING:
        text = b'"' + canonical_text(body[node.start + 1 : node.end - 1]) + b'"'
        out.append(b'[{"text":' + text + b',"type":"text"}]' if node.start in text_blocks else text)
    elif node.type == ValueType.NUMBER:
        out.append((double_spelling if loose else exact_spelling)(body[node.start : node.end]))
    else:
        out.append(_WORDS[ValueType(node.type)])


def _canonical_key(body: bytes, member: Node) -> bytes:
    end = Reader(body, member.start).string(member.key_start)
    return b'"' + canonical_text(body[member.key_start + 1 : end - 1]) + b'"'


def strip_markers(body: bytes, start: int, end: int, grammar: Grammar) -> bytes:
    """The bytes body[start:end] of an item without its cache markers, each cut out with one comma. O(n).

    Raises:
        MalformedError: the span is not one JSON value.
    """
    _, node = read_span(body, start, end)
    ItemMatch(body, grammar.spec, node, grammar.spec.item)
    cuts: list[tuple[int, int]] = []
    _collect_cuts(node, cuts)
    out: list[bytes] = []
    position = start
    for cut_start, cut_end in cuts:
        out.append(body[position:cut_start])
        position = cut_end
    out.append(body[position:end])
    return b"".join(out)


def _collect_cuts(node: Node, cuts: list[tuple[int, int]]) -> None:
    """Append the spans to cut inside a value, in order of position."""
    kept = False  # an earlier child stays
    pending = -1  # where a run of leading children that go begins
    before = -1  # end of the child before
    for child in node.children:
        child_start = child.start if child.key is None else child.key_start
        if child.drop and kept:
            cuts.append((before, child.end))
        elif child.drop:
            pending = child_start if pending < 0 else pending
        else:
            if pending >= 0:
                cuts.append((pending, child_start))
                pending = -1
            kept = True
            _collect_cuts(child, cuts)
        before = child.end
    if pending >= 0:
        cuts.append((pending, before))
