"""A tree of values matched against shapes: the reference of c/fp_match.c. The rules are in grammar.py.

A match also marks the nodes that are cache markers (`Node.drop`): members with Code.MARKER, every occurrence of them, and array
elements whose part ends as Kind.MARKER.
"""

from __future__ import annotations

from fastpath._json_py import Node
from fastpath._text_py import decode_string
from fastpath.grammar import Code, GrammarSpec, Kind, PartFlag, Shape, ValueType

__all__ = ["Grammar", "ItemMatch", "PartMatch"]

_SHAPE_LIMIT = 1000  # the compiled tables are dense
_KEY_LIMIT = 2000
_FIELD_LIMIT = 30_000
_KEY_BYTES = 255


class Grammar:
    """A dialect's body, checked and ready to scan with."""

    def __init__(self, spec: GrammarSpec) -> None:
        """Check a specification.

        Raises:
            ValueError: it names a shape that is not there, shapes pick each other by `by` in a circle, no history key is given,
                a root key has two meanings, or it has more than 1,000 shapes, 30,000 fields, 2,000 keys and cases, or one over
                255 bytes.
        """
        self.spec = spec
        check_spec(spec)


def check_spec(spec: GrammarSpec) -> None:
    """Raise ValueError when a specification cannot be used."""
    shapes = spec.shapes
    if not spec.history:
        raise ValueError("no history key")
    roots = [*spec.history, *spec.system, *spec.tools]
    if len(set(roots)) != len(roots):
        raise ValueError("a root key has two meanings")
    if spec.item not in shapes:
        raise ValueError(f"unknown shape: {spec.item!r}")
    atoms = set(roots)
    for shape in shapes.values():
        named = [*shape.cases.values(), shape.default, shape.each, *(field.shape for field in shape.fields.values())]
        for name in [*named, spec.system_shape, spec.tools_shape]:
            if name and name not in shapes:
                raise ValueError(f"unknown shape: {name!r}")
        atoms.update(shape.fields, shape.cases, [shape.by])
    field_count = sum(len(shape.fields) for shape in shapes.values())
    if len(shapes) > _SHAPE_LIMIT or len(atoms) > _KEY_LIMIT or field_count > _FIELD_LIMIT:
        raise ValueError("too many shapes, fields or keys")
    if any(len(atom) > _KEY_BYTES for atom in atoms):
        raise ValueError("a key is too long")
    settled: set[str] = set()

    def follow(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise ValueError(f"shapes pick each other in a circle: {name!r}")
        if name and name not in settled and shapes[name].by:
            for picked in [*shapes[name].cases.values(), shapes[name].default]:
                follow(picked, (*path, name))
            settled.add(name)

    for name in shapes:
        follow(name, ())


class PartMatch:
    """A part while its item is being read."""

    __slots__ = ("flags", "id", "kind", "marker_count", "name", "node", "parent", "payload", "payload_type")

    def __init__(self, kind: int, parent: int, node: Node) -> None:
        """Open a part over a node."""
        self.kind = kind
        self.flags = 0
        self.parent = parent  # index among the item's parts, or -1
        self.node = node
        self.id = (-1, -1)
        self.name = (-1, -1)
        self.payload = (-1, -1)
        self.payload_type = int(ValueType.NONE)
        self.marker_count = 0  # members with Code.MARKER that are neither null nor false


class ItemMatch:
    """What a match of one value finds."""

    def __init__(self, body: bytes, spec: GrammarSpec, node: Node, shape: str) -> None:
        """Match `node` against the named shape ("" for none)."""
        self._body = body
        self._shapes = spec.shapes
        self.role = 0
        self.marked = False
        self.marker_count = 0
        self.parts: list[PartMatch] = []
        self.text_blocks: set[int] = set()  # starts of strings at a field with text_block
        if shape:
            self._match(node, shape, -1)
        for part in self.parts:
            if part.kind == Kind.MARKER:
                self.marked = True
                self.marker_count += 1
                part.node.drop |= part.node.key is None
            else:
                self.marker_count += part.marker_count

    def _text(self, node: Node) -> bytes:
        return decode_string(self._body[node.start + 1 : node.end - 1])

    def _pick(self, node: Node, name: str) -> Shape:
        shape = self._shapes[name]
        while shape.by and node.type == ValueType.OBJECT:
            picked = shape.default
            for child in node.children:
                if child.key == shape.by and not child.shadowed and child.type == ValueType.STRING:
                    picked = shape.cases.get(self._text(child), shape.default)
            if not picked:
                break
            shape = self._shapes[picked]
        return shape

    def _match(self, node: Node, name: str, part: int) -> None:
        shape = self._pick(node, name)
        if shape.role:
            self.role = int(shape.role)
        if shape.kind:
            self.parts.append(PartMatch(int(shape.kind), part, node))
            part = len(self.parts) - 1
        if node.type == ValueType.STRING and shape.kind:
            self.parts[part].payload = (node.start, node.end)
            self.parts[part].payload_type = ValueType.STRING
        elif node.type == ValueType.ARRAY and shape.each:
            for child in node.children:
                self._match(child, shape.each, part)
        elif node.type == ValueType.OBJECT and shape.fields:
            for child in node.children:
                field = shape.fields.get(child.key or b"")
                if field is None:
                    continue
                child.drop |= field.code == Code.MARKER
                if child.shadowed:
                    continue
                real = child.type not in (ValueType.NULL, ValueType.FALSE)
                if part >= 0 and real:
                    self.parts[part].kind = max(self.parts[part].kind, int(field.kind))
                if field.text_block and child.type == ValueType.STRING:
                    self.text_blocks.add(child.start)
                self._file(child, field.code, part, real)
                if field.shape:
                    self._match(child, field.shape, part)

    def _file(self, node: Node, code: Code, part: int, real: bool) -> None:
        if code == Code.MARKER:
            self.marked = True
            if part < 0:
                self.marker_count += real
        if part < 0:
            return
        open_part, span = self.parts[part], (node.start, node.end)
        if code == Code.ID:
            open_part.id = span
        elif code == Code.NAME:
            open_part.name = span
        elif code == Code.PAYLOAD:
            open_part.payload, open_part.payload_type = span, node.type
        elif code == Code.ERROR:
            if node.type == ValueType.TRUE or (node.type == ValueType.STRING and self._text(node) == b"error"):
                open_part.flags |= PartFlag.ERROR
        elif code == Code.FAILURE:
            open_part.flags |= PartFlag.ERROR if real else 0
        elif code == Code.SIGNATURE:
            if node.type == ValueType.STRING and node.end - node.start > 2:
                open_part.flags |= PartFlag.SIGNED
        elif code == Code.MARKER:
            open_part.flags |= PartFlag.MARKED
            open_part.marker_count += real
