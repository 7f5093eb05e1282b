# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled forms: C (c/*.c) behind checked arguments.

Each function behaves as its reference in `_*_py.py` does, to the byte and to the error's offset; see there for what it
computes and what it costs. This file turns arguments into pointers, lets go of the GIL while C reads bytes, and makes rows
into tuples when they are asked for.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memcmp, memcpy, memset

from fastpath._core cimport (
    FP_BACKEND,
    FP_NOT_AN_ARRAY,
    FP_NOT_AN_OBJECT,
    FP_NO_HISTORY,
    FP_NO_MEMORY,
    FP_OK,
    FP_ROOT_HISTORY,
    FP_ROOT_SYSTEM,
    FP_ROOT_TOOLS,
    FP_SHADOWED,
    FP_STRING,
    FP_TOO_DEEP,
    FP_TOO_MANY_ITEMS,
    FP_TOO_MANY_VALUES,
    fp_block,
    fp_buffer,
    fp_child,
    fp_decode,
    fp_decode_blocks,
    fp_field,
    fp_find_element,
    fp_find_member,
    fp_grammar,
    fp_grammar_atom,
    fp_grammar_by,
    fp_grammar_case,
    fp_grammar_field,
    fp_grammar_free,
    fp_grammar_new,
    fp_grammar_root,
    fp_item,
    fp_member,
    fp_node,
    fp_part,
    fp_read_value,
    fp_reader,
    fp_scan,
    fp_scan_free,
    fp_scan_run,
    fp_shape,
    fp_skip_space,
    fp_tree,
    fp_tree_free,
    fp_tree_key,
    fp_tree_read,
    fp_write_canon,
    fp_write_stripped,
)

from fastpath._match_py import check_spec
from fastpath.limits import BODY_LIMIT_BYTES, DEPTH_LIMIT, ITEM_LIMIT, VALUE_LIMIT, MalformedError
from fastpath.rows import Item, Member, Part, Sizes

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject *type, Py_ssize_t nitems)


backend = FP_BACKEND.decode("ascii")

cdef enum:
    NOGIL_BYTES = 4096  # below, handing over the GIL costs more than the work
    SPLICE_NOGIL_BYTES = 1048576  # the same for a plain copy


cdef object raise_error(int error, int32_t offset, int32_t end):
    """Raise what an error code stands for, in the reference's words."""
    if error == FP_NO_MEMORY:
        raise MemoryError
    if error == FP_TOO_DEEP:
        raise MalformedError(f"nested deeper than {DEPTH_LIMIT}", offset, "depth")
    if error == FP_TOO_MANY_VALUES:
        raise MalformedError(f"more than {VALUE_LIMIT} values", offset, "nodes")
    if error == FP_TOO_MANY_ITEMS:
        raise MalformedError(f"more than {ITEM_LIMIT} items", offset, "items")
    if error == FP_NOT_AN_OBJECT:
        raise MalformedError("the body is not an object", offset)
    if error == FP_NOT_AN_ARRAY:
        raise MalformedError("the history is not an array", offset)
    if error == FP_NO_HISTORY:
        raise MalformedError("the body has no history", offset)
    raise MalformedError("unexpected end" if offset == end else "unexpected byte", offset)


cdef inline const uint8_t *data_of(bytes text):
    return <const uint8_t *>PyBytes_AS_STRING(text)


cdef int check_size(bytes body) except -1:
    if PyBytes_GET_SIZE(body) > BODY_LIMIT_BYTES:
        raise MalformedError(f"more than {BODY_LIMIT_BYTES} bytes", BODY_LIMIT_BYTES, "body_bytes")
    return 0


cdef int check_span(bytes body, Py_ssize_t start, Py_ssize_t end) except -1:
    check_size(body)
    if not 0 <= start <= end <= PyBytes_GET_SIZE(body):
        raise ValueError("span is outside the body")
    return 0


cdef inline object make_row(object row_type, Py_ssize_t size):
    """A named tuple to be filled at once; the type is one of rows.py, whose instances are plain tuples."""
    return PyType_GenericAlloc(<PyTypeObject *>row_type, size)


cdef inline void set_int(object row, Py_ssize_t place, int64_t value):
    cdef object number = value
    Py_INCREF(number)  # the slot takes the reference
    PyTuple_SET_ITEM(row, place, number)


cdef class Grammar:
    """A dialect's body, checked and ready to scan with."""

    cdef fp_grammar *tables
    cdef readonly object spec

    def __cinit__(self, spec):
        check_spec(spec)
        self.spec = spec
        cdef int32_t atom_count = len(spec.history) + len(spec.system) + len(spec.tools)
        cdef int32_t field_count = 0
        for shape in spec.shapes.values():
            atom_count += 1 + len(shape.cases) + len(shape.fields)
            field_count += len(shape.fields)
        self.tables = fp_grammar_new(len(spec.shapes), atom_count, field_count)
        if self.tables == NULL:
            raise MemoryError
        numbers = {name: number for number, name in enumerate(spec.shapes)}
        numbers[""] = -1
        for root, keys in ((FP_ROOT_HISTORY, spec.history), (FP_ROOT_SYSTEM, spec.system), (FP_ROOT_TOOLS, spec.tools)):
            for rank, key in enumerate(keys):
                fp_grammar_root(self.tables, self._atom(key), root, rank)
        for name, shape in spec.shapes.items():
            self._add_shape(numbers, numbers[name], shape)
        self.tables.item = numbers[spec.item]
        self.tables.history_text = bool(spec.history_text)
        self.tables.system_shape = numbers[spec.system_shape]
        self.tables.tools_shape = numbers[spec.tools_shape]

    def __dealloc__(self):
        fp_grammar_free(self.tables)

    cdef int _atom(self, bytes text) except -1:
        cdef int atom = fp_grammar_atom(self.tables, data_of(text), <int32_t>PyBytes_GET_SIZE(text))
        if atom < 0:
            raise ValueError("a key is too long")
        return atom

    cdef int _add_shape(self, dict numbers, int number, shape) except -1:
        cdef fp_field row
        cdef fp_shape *rule = &self.tables.shapes[number]
        rule.kind = int(shape.kind)
        rule.role = int(shape.role)
        rule.default_shape = numbers[shape.default]
        rule.each = numbers[shape.each]
        if shape.by:
            fp_grammar_by(self.tables, number, self._atom(shape.by))
        for text, picked in shape.cases.items():
            fp_grammar_case(self.tables, number, self._atom(text), numbers[picked])
        for key, field in shape.fields.items():
            memset(&row, 0, sizeof(row))
            row.code = int(field.code)
            row.kind = int(field.kind)
            row.shape = numbers[field.shape]
            row.text_block = bool(field.text_block)
            fp_grammar_field(self.tables, number, self._atom(key), row)
        return 0


cdef class Scan:
    """What a scan found. Read only; holds the body. Rows are C arrays and become tuples when they are asked for."""

    cdef fp_scan rows
    cdef readonly bytes body
    cdef readonly Grammar grammar

    def __cinit__(self, bytes body not None, Grammar grammar not None):
        memset(&self.rows, 0, sizeof(self.rows))
        self.body = body
        self.grammar = grammar

    def __dealloc__(self):
        fp_scan_free(&self.rows)

    @property
    def item_count(self):
        """Number of items."""
        return self.rows.item_count

    @property
    def part_count(self):
        """Number of parts of all items."""
        return self.rows.parts.count

    @property
    def reused_item_count(self):
        """Number of leading items that were taken over from the previous scan."""
        return self.rows.reused_item_count

    @property
    def marker_count(self):
        """Number of cache markers in the body, as far as the grammar sees them."""
        return self.rows.marker_count

    @property
    def history(self):
        """Span of the history array."""
        return (self.rows.history_start, self.rows.history_end)

    @property
    def sizes(self):
        """Sizes by component."""
        return Sizes(*[self.rows.sizes[place] for place in range(10)])

    @property
    def members(self):
        """Members of the root object, in order."""
        cdef fp_member *row
        cdef int32_t index
        found = []
        for index in range(self.rows.member_count):
            row = &self.rows.members[index]
            key = decode_string(self.body[row.key_start + 1 : row.key_end - 1])
            found.append(Member(key, row.key_start, row.start, row.end))
        return found

    def member(self, bytes key not None):
        """Value of the last root member with this key. See `_scan_py.Scan.member`."""
        cdef fp_member *row
        cdef int32_t index = self.rows.member_count - 1
        cdef const uint8_t *data = data_of(self.body)
        cdef const uint8_t *raw
        cdef Py_ssize_t size = PyBytes_GET_SIZE(key), length
        while index >= 0:
            row = &self.rows.members[index]
            raw = data + row.key_start + 1
            length = row.key_end - row.key_start - 2
            if memchr(raw, c"\\", length) != NULL:
                if decode_string(<bytes>raw[:length]) == key:
                    return self.body[row.start : row.end]
            elif length == size and memcmp(raw, data_of(key), size) == 0:
                return self.body[row.start : row.end]
            index -= 1
        return b""

    cdef list _spans(self, int root):
        cdef fp_member *row
        cdef int32_t index
        found = []
        for index in range(self.rows.member_count):
            row = &self.rows.members[index]
            if row.last and self.grammar.tables.atoms[row.atom].root == root:
                found.append((row.start, row.end))
        return found

    @property
    def system(self):
        """Value spans of root members that are system text, the last of duplicates only."""
        return self._spans(FP_ROOT_SYSTEM)

    @property
    def tools(self):
        """Value spans of root members that are tool schemas, the last of duplicates only."""
        return self._spans(FP_ROOT_TOOLS)

    cdef object _item(self, int32_t index):
        cdef fp_item *row = &self.rows.items[index]
        found = make_row(Item, 10)
        set_int(found, 0, row.start)
        set_int(found, 1, row.end)
        set_int(found, 2, row.role)
        set_int(found, 3, row.flags)
        set_int(found, 4, row.first_part)
        set_int(found, 5, row.part_count)
        set_int(found, 6, row.bytes[0])
        set_int(found, 7, row.bytes[1])
        set_int(found, 8, row.bytes[2])
        set_int(found, 9, row.bytes[3])
        return found

    cdef object _part(self, int32_t index):
        cdef fp_part *row = &self.rows.parts.rows[index]
        found = make_row(Part, 13)
        set_int(found, 0, row.kind)
        set_int(found, 1, row.flags)
        set_int(found, 2, row.item)
        set_int(found, 3, row.parent)
        set_int(found, 4, row.start)
        set_int(found, 5, row.end)
        set_int(found, 6, row.id_start)
        set_int(found, 7, row.id_end)
        set_int(found, 8, row.name_start)
        set_int(found, 9, row.name_end)
        set_int(found, 10, row.payload_start)
        set_int(found, 11, row.payload_end)
        set_int(found, 12, row.payload_type)
        return found

    def item(self, Py_ssize_t index):
        """One item, from 0. Raises IndexError."""
        if not 0 <= index < self.rows.item_count:
            raise IndexError("no such item")
        return self._item(<int32_t>index)

    def items(self, Py_ssize_t start=0, end=None):
        """Items start to end (all, when None), bounds clipped."""
        cdef Py_ssize_t stop = self.rows.item_count
        if end is not None:
            stop = min(stop, max(<Py_ssize_t>end, 0))
        return [self._item(<int32_t>index) for index in range(max(start, 0), stop)]

    def part(self, Py_ssize_t index):
        """One part, from 0. Raises IndexError."""
        if not 0 <= index < self.rows.parts.count:
            raise IndexError("no such part")
        return self._part(<int32_t>index)

    def parts(self, Py_ssize_t start=0, end=None):
        """Parts start to end (all, when None), bounds clipped."""
        cdef Py_ssize_t stop = self.rows.parts.count
        if end is not None:
            stop = min(stop, max(<Py_ssize_t>end, 0))
        return [self._part(<int32_t>index) for index in range(max(start, 0), stop)]


def scan(bytes body not None, Grammar grammar not None, Scan previous=None):
    """Check a whole body and find its items, parts and sizes. See `_scan_py.scan`."""
    check_size(body)
    cdef Scan found = Scan(body, grammar)
    cdef const uint8_t *data = data_of(body)
    cdef int32_t size = <int32_t>PyBytes_GET_SIZE(body)
    cdef fp_scan *earlier = NULL
    cdef const uint8_t *earlier_data = NULL
    cdef int32_t earlier_size = 0
    if previous is not None and previous.grammar is grammar:
        earlier = &previous.rows
        earlier_data = data_of(previous.body)
        earlier_size = <int32_t>PyBytes_GET_SIZE(previous.body)
    with nogil:
        fp_scan_run(&found.rows, grammar.tables, data, size, earlier, earlier_data, earlier_size)
    if found.rows.error:
        raise_error(found.rows.error, found.rows.offset, size)
    return found


def canon(bytes body not None, Py_ssize_t start, Py_ssize_t end, Grammar grammar not None):
    """Canonical forms of the item at body[start:end]: (strict, loose or None). See `_canon_py.canon`."""
    check_span(body, start, end)
    cdef fp_tree tree
    cdef fp_buffer strict, loose
    cdef int error, differs = 0
    cdef const uint8_t *data = data_of(body)
    cdef int32_t first = <int32_t>start, last = <int32_t>end
    memset(&strict, 0, sizeof(strict))
    memset(&loose, 0, sizeof(loose))
    memset(&tree, 0, sizeof(tree))
    try:
        if end - start < NOGIL_BYTES:
            error = canon_forms(&tree, grammar.tables, data, first, last, &strict, &loose, &differs)
        else:
            with nogil:
                error = canon_forms(&tree, grammar.tables, data, first, last, &strict, &loose, &differs)
        if error:
            raise_error(error, tree.reader.offset, last)
        return (
            PyBytes_FromStringAndSize(<char *>strict.data, <Py_ssize_t>strict.size),
            PyBytes_FromStringAndSize(<char *>loose.data, <Py_ssize_t>loose.size) if differs else None,
        )
    finally:
        fp_tree_free(&tree)
        free(strict.data)
        free(loose.data)


cdef int canon_forms(fp_tree *tree, const fp_grammar *grammar, const uint8_t *body, int32_t start, int32_t end, fp_buffer *strict,
                     fp_buffer *loose, int *differs) noexcept nogil:
    cdef int again
    cdef int error = fp_tree_read(tree, grammar, body, start, end)
    if not error:
        error = fp_write_canon(tree, 0, strict, differs)
    if not error and differs[0]:
        error = fp_write_canon(tree, 1, loose, &again)
    return error


def strip_markers(bytes body not None, Py_ssize_t start, Py_ssize_t end, Grammar grammar not None):
    """The bytes body[start:end] of an item without its cache markers. See `_canon_py.strip_markers`."""
    check_span(body, start, end)
    cdef fp_tree tree
    cdef fp_buffer out
    cdef const uint8_t *data = data_of(body)
    cdef int32_t first = <int32_t>start, last = <int32_t>end
    cdef int error
    memset(&out, 0, sizeof(out))
    memset(&tree, 0, sizeof(tree))
    try:
        with nogil:
            error = fp_tree_read(&tree, grammar.tables, data, first, last)
            if not error:
                error = fp_write_stripped(&tree, first, last, &out)
        if error:
            raise_error(error, tree.reader.offset, last)
        return PyBytes_FromStringAndSize(<char *>out.data, <Py_ssize_t>out.size)
    finally:
        fp_tree_free(&tree)
        free(out.data)


cdef int find(bytes body, Py_ssize_t start, path, fp_child *child) except -1:
    """Walk a path; child.start is -1 when nothing stands there. A child of no container has outer_start -1."""
    check_size(body)
    if not 0 <= start <= PyBytes_GET_SIZE(body):
        raise ValueError("start is outside the body")
    cdef fp_reader reader
    cdef int32_t position, end
    cdef int error
    cdef int64_t index
    cdef bytes key
    reader.body = data_of(body)
    reader.end = <int32_t>PyBytes_GET_SIZE(body)
    reader.value_count = 0
    reader.error = FP_OK
    reader.offset = 0
    position = fp_skip_space(&reader, <int32_t>start)
    with nogil:
        end = fp_read_value(&reader, position, 0, NULL, NULL, 0)
    if end < 0:
        raise_error(reader.error, reader.offset, reader.end)
    child.start = position
    child.end = end
    child.outer_start = child.before_end = child.after_start = -1
    for step in path:
        if child.start < 0:
            break
        position = child.start
        if isinstance(step, int):
            index = step if 0 <= step <= VALUE_LIMIT else -1
            error = fp_find_element(&reader, position, index, child)
        else:
            key = step
            error = fp_find_member(&reader, position, data_of(key), <int32_t>min(PyBytes_GET_SIZE(key), BODY_LIMIT_BYTES), child)
        if error:
            raise_error(error, reader.offset, reader.end)
    return 0


def locate(bytes body not None, Py_ssize_t start, path):
    """Span of the value at `path` inside the JSON value that begins at `start`, or None. See `_path_py.locate`."""
    cdef fp_child child
    find(body, start, path, &child)
    return None if child.start < 0 else (child.start, child.end)


def locate_removal(bytes body not None, Py_ssize_t start, path):
    """Span to delete so that what stands at `path` is gone with exactly one comma, or None. See `_path_py.locate_removal`."""
    cdef fp_child child
    find(body, start, path, &child)
    if child.start < 0 or child.outer_start < 0:
        return None
    if child.before_end >= 0:
        return (child.before_end, child.end)
    return (child.outer_start, child.after_start if child.after_start >= 0 else child.end)


cdef tuple path_to(fp_tree *tree, int32_t node):
    """Path from the root of a tree to one of its nodes."""
    cdef int32_t size
    cdef const uint8_t *key
    steps = []
    while tree.tape.nodes[node].parent >= 0:
        if tree.tape.nodes[node].key_start < 0:
            steps.append(tree.tape.nodes[node].index)
        else:
            key = fp_tree_key(tree, node, &size)
            steps.append(PyBytes_FromStringAndSize(<const char *>key, size))
        node = tree.tape.nodes[node].parent
    steps.reverse()
    return tuple(steps)


def strings(bytes body not None, Py_ssize_t start, Py_ssize_t end, Py_ssize_t min_bytes):
    """Every string value of at least `min_bytes` in body[start:end], with its path. See `_path_py.strings`."""
    check_span(body, start, end)
    cdef fp_tree tree
    cdef fp_node *node
    cdef int32_t at = 0, first = <int32_t>start, last = <int32_t>end
    cdef const uint8_t *data = data_of(body)
    cdef int error
    found = []
    memset(&tree, 0, sizeof(tree))
    try:
        with nogil:
            error = fp_tree_read(&tree, NULL, data, first, last)
        if error:
            raise_error(error, tree.reader.offset, last)
        while at < tree.tape.count:
            node = &tree.tape.nodes[at]
            if node.flags & FP_SHADOWED:
                at = node.next
                continue
            if node.type == FP_STRING and node.end - node.start - 2 >= min_bytes:
                found.append((node.start, node.end, path_to(&tree, at)))
            at += 1
        return found
    finally:
        fp_tree_free(&tree)


cdef object raise_escape(const uint8_t *raw, const uint8_t *fault, Py_ssize_t size):
    raise MalformedError("unexpected end" if fault - raw == size else "unexpected byte", fault - raw)


def decode_string(bytes raw not None):
    """Content of a raw text. See `_text_py.decode_string`."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(raw), written
    cdef const uint8_t *data = data_of(raw)
    cdef const uint8_t *fault = NULL
    cdef uint8_t *out
    if b"\\" not in raw:
        return raw
    out = <uint8_t *>malloc(size)
    if out == NULL:
        raise MemoryError
    try:
        with nogil:
            written = <Py_ssize_t>fp_decode(data, data + size, out, &fault)
        if fault != NULL:
            raise_escape(data, fault, size)
        return PyBytes_FromStringAndSize(<char *>out, written)
    finally:
        free(out)


def decode_blocks(bytes raw not None, Py_ssize_t block_bytes=65536):
    """Content of a raw text, and where each block of it begins. See `_text_py.decode_blocks`."""
    if block_bytes < 1:
        raise ValueError("block_bytes must be at least 1")
    cdef Py_ssize_t size = PyBytes_GET_SIZE(raw), written
    cdef const uint8_t *data = data_of(raw)
    cdef const uint8_t *fault = NULL
    cdef fp_block *blocks = NULL
    cdef size_t count = 0, place
    cdef uint8_t *out = <uint8_t *>malloc(size + 1)
    if out == NULL:
        raise MemoryError
    try:
        with nogil:
            written = <Py_ssize_t>fp_decode_blocks(data, data + size, block_bytes, out, &blocks, &count, &fault)
        if blocks == NULL:
            raise MemoryError
        if fault != NULL:
            raise_escape(data, fault, size)
        starts = [(blocks[place].raw_start, blocks[place].start) for place in range(count)]
        return PyBytes_FromStringAndSize(<char *>out, written), starts
    finally:
        free(out)
        free(blocks)


cdef struct piece:
    Py_ssize_t start
    Py_ssize_t end
    const char *data
    Py_ssize_t size


cdef Py_ssize_t read_edits(bytes body, list edits, piece *pieces) except -1:
    """Check edits, note them in pieces unless it is NULL, and return the size of the result. The list keeps their data alive."""
    cdef Py_ssize_t total = PyBytes_GET_SIZE(body), position = 0, start, end, place = 0
    cdef bytes data
    for first, last, text in edits:
        start = first
        end = last
        data = text
        if data is None:
            raise TypeError("an edit's data must be bytes")
        if not position <= start <= end <= PyBytes_GET_SIZE(body):
            raise ValueError("edits must be in order, apart, and inside the body")
        total += PyBytes_GET_SIZE(data) - (end - start)
        position = end
        if pieces != NULL:
            pieces[place] = piece(start, end, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
            place += 1
    return total


cdef void copy_pieces(char *to, const char *body, Py_ssize_t size, const piece *pieces, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t place, position = 0
    for place in range(count):
        memcpy(to, body + position, pieces[place].start - position)
        to += pieces[place].start - position
        memcpy(to, pieces[place].data, pieces[place].size)
        to += pieces[place].size
        position = pieces[place].end
    memcpy(to, body + position, size - position)


def size(bytes body not None, edits):
    """Size in bytes of the body after the edits. See `_splice_py.size`."""
    return read_edits(body, list(edits), NULL)


def splice(bytes body not None, edits):
    """The body after the edits. See `_splice_py.splice`."""
    cdef list kept = [tuple(edit) for edit in edits]
    cdef Py_ssize_t count = len(kept), total
    cdef bytes result
    cdef char *to
    cdef const char *source = PyBytes_AS_STRING(body)
    cdef Py_ssize_t source_size = PyBytes_GET_SIZE(body)
    cdef piece *pieces = <piece *>malloc((count + 1) * sizeof(piece))
    if pieces == NULL:
        raise MemoryError
    try:
        total = read_edits(body, kept, pieces)
        result = PyBytes_FromStringAndSize(NULL, total)
        to = PyBytes_AS_STRING(result)
        if total < SPLICE_NOGIL_BYTES:
            copy_pieces(to, source, source_size, pieces, count)
        else:
            with nogil:
                copy_pieces(to, source, source_size, pieces, count)
        return result
    finally:
        free(pieces)
