# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled forms of `_near_py.py`, equal to it to the byte and to the error's offset."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memcmp

from fastpath.limits import BODY_LIMIT_BYTES, DEPTH_LIMIT, VALUE_LIMIT, MalformedError

cdef extern from "fp_json.h":
    enum:
        FP_OK
        FP_TOO_DEEP
        FP_TOO_MANY_VALUES
    ctypedef struct fp_reader:
        const uint8_t *body
        int32_t end
        int32_t value_count
        int error
        int32_t offset
        int escaped
    int32_t fp_skip_space(const fp_reader *reader, int32_t position) nogil
    int32_t fp_read_key(fp_reader *reader, int32_t position, int32_t *key_end) nogil
    int32_t fp_read_value(fp_reader *reader, int32_t position, int depth, void *tape, const void *grammar, int prune) nogil

cdef extern from "fp_text.h":
    size_t fp_decode(const uint8_t *raw, const uint8_t *end, uint8_t *out, const uint8_t **fault) nogil

cdef enum:
    BLOCK_BYTES = 4096  # compared at once; the difference is then looked for inside one block
    NOGIL_BYTES = 65536


cdef Py_ssize_t prefix(const char *one, const char *other, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t at = 0
    while at + BLOCK_BYTES <= size and memcmp(one + at, other + at, BLOCK_BYTES) == 0:
        at += BLOCK_BYTES
    while at + 64 <= size and memcmp(one + at, other + at, 64) == 0:
        at += 64
    while at < size and one[at] == other[at]:
        at += 1
    return at


def common_prefix(bytes one not None, bytes other not None, Py_ssize_t known=0):
    """Number of leading bytes that are the same. See `_near_py.common_prefix`."""
    cdef Py_ssize_t size = min(PyBytes_GET_SIZE(one), PyBytes_GET_SIZE(other)), found
    cdef const char *first = PyBytes_AS_STRING(one)
    cdef const char *second = PyBytes_AS_STRING(other)
    if not 0 <= known <= size:
        raise ValueError("more is known than there is")
    first += known
    second += known
    size -= known
    if size < NOGIL_BYTES:
        return known + prefix(first, second, size)
    with nogil:
        found = prefix(first, second, size)
    return known + found


def is_spliced(bytes body not None, edits, bytes result not None):
    """Whether `result` is what the edits make of the body. See `_near_py.is_spliced`."""
    cdef const char *source = PyBytes_AS_STRING(body)
    cdef const char *made = PyBytes_AS_STRING(result)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(body), made_size = PyBytes_GET_SIZE(result)
    cdef Py_ssize_t at = 0, there = 0, start, end, gap, length
    cdef bytes data
    for first, last, text in edits:
        start = first
        end = last
        data = text
        if data is None:
            raise TypeError("an edit's data must be bytes")
        if not at <= start <= end <= size:
            return False
        gap = start - at
        length = PyBytes_GET_SIZE(data)
        if gap > made_size - there or length > made_size - there - gap:
            return False
        if memcmp(source + at, made + there, gap) or memcmp(made + there + gap, PyBytes_AS_STRING(data), length):
            return False
        there += gap + length
        at = end
    return size - at == made_size - there and memcmp(source + at, made + there, size - at) == 0


cdef object raise_error(const fp_reader *reader):
    if reader.error == FP_TOO_DEEP:
        raise MalformedError(f"nested deeper than {DEPTH_LIMIT}", reader.offset, "depth")
    if reader.error == FP_TOO_MANY_VALUES:
        raise MalformedError(f"more than {VALUE_LIMIT} values", reader.offset, "nodes")
    raise MalformedError("unexpected end" if reader.offset == reader.end else "unexpected byte", reader.offset)


cdef bytes key_of(const uint8_t *raw, int32_t size):
    """A key, decoded, from the bytes between its quotes."""
    cdef const uint8_t *fault = NULL
    cdef uint8_t *plain
    cdef size_t written
    if memchr(raw, c"\\", size) == NULL:
        return PyBytes_FromStringAndSize(<const char *>raw, size)
    plain = <uint8_t *>malloc(size)
    if plain == NULL:
        raise MemoryError
    try:
        written = fp_decode(raw, raw + size, plain, &fault)
        return PyBytes_FromStringAndSize(<const char *>plain, <Py_ssize_t>written)
    finally:
        free(plain)


def path_at(bytes body not None, Py_ssize_t start, Py_ssize_t offset):
    """Path from the value at `start` to the value that begins at `offset`, or None. See `_near_py.path_at`."""
    if PyBytes_GET_SIZE(body) > BODY_LIMIT_BYTES:
        raise MalformedError(f"more than {BODY_LIMIT_BYTES} bytes", BODY_LIMIT_BYTES, "body_bytes")
    if not 0 <= start <= PyBytes_GET_SIZE(body):
        raise ValueError("start is outside the body")
    cdef fp_reader reader
    reader.body = <const uint8_t *>PyBytes_AS_STRING(body)
    reader.end = <int32_t>PyBytes_GET_SIZE(body)
    reader.value_count = 0
    reader.error = FP_OK
    reader.offset = 0
    reader.escaped = 0
    cdef int32_t at = <int32_t>start, end, value, key_end, index
    cdef uint8_t kind
    with nogil:
        end = fp_read_value(&reader, at, 0, NULL, NULL, 0)
    if end < 0:
        raise_error(&reader)
    if not start <= offset < end:
        return None
    path = []
    # The value is known to be whole, so nothing below can fail.
    while at != offset:
        kind = reader.body[at]
        if kind != c"{" and kind != c"[":
            return None
        at = fp_skip_space(&reader, at + 1)
        index = 0
        while True:
            if reader.body[at] == c"}" or reader.body[at] == c"]":
                return None
            value = fp_read_key(&reader, at, &key_end) if kind == c"{" else at
            reader.value_count = 0
            end = fp_read_value(&reader, value, 1, NULL, NULL, 0)
            if offset < end:
                break
            at = fp_skip_space(&reader, end)
            if reader.body[at] != c",":
                return None
            at = fp_skip_space(&reader, at + 1)
            index += 1
        if offset < value:
            return None
        path.append(key_of(reader.body + at + 1, key_end - at - 2) if kind == c"{" else index)
        at = value
    return tuple(path)
