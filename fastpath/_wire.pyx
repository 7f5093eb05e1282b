# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled forms of `_wire_py.py`, equal to it to the byte."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    VARINT_BYTES = 10
    TAG_BYTES = 5
    MAX_FIELDS = 64  # of one message; a bit of `present` each

cdef uint64_t SIZE_LIMIT = 1 << 31


cdef inline Py_ssize_t varint(const uint8_t *data, Py_ssize_t at, Py_ssize_t end, int limit, uint64_t *value) noexcept nogil:
    """Where the number ends, -1 when it ends nowhere."""
    cdef int index
    value[0] = 0
    for index in range(limit):
        if at + index >= end:
            return -1
        value[0] |= <uint64_t>(data[at + index] & 0x7F) << (7 * index)
        if data[at + index] < 0x80:
            return at + index + 1
    return -1


def take_field(bytes message not None, uint64_t number):
    """Content of one length-delimited field, and the message without it, or None. See `_wire_py.take_field`."""
    cdef const uint8_t *data = <const uint8_t *>PyBytes_AS_STRING(message)
    cdef Py_ssize_t end = PyBytes_GET_SIZE(message), at = 0, first, start = 0
    cdef Py_ssize_t found = -1, found_start = 0, found_end = 0
    cdef uint64_t tag, size
    cdef int kind
    cdef bytes rest
    while at < end:
        first = at
        at = varint(data, at, end, TAG_BYTES, &tag)
        if at < 0 or tag >> 32 or not tag >> 3:
            return None
        kind = tag & 7
        if kind == 2:
            at = varint(data, at, end, TAG_BYTES, &size)
            if at < 0 or size >= SIZE_LIMIT:
                return None
            start = at
            at += <Py_ssize_t>size
        elif kind == 0:
            at = varint(data, at, end, VARINT_BYTES, &size)
            if at < 0:
                return None
        elif kind == 1:
            at += 8
        elif kind == 5:
            at += 4
        else:
            return None
        if at > end:
            return None
        if tag >> 3 == number:
            if found >= 0 or kind != 2:
                return None
            found, found_start, found_end = first, start, at
    if found < 0:
        return None
    rest = PyBytes_FromStringAndSize(NULL, found + end - found_end)
    memcpy(PyBytes_AS_STRING(rest), data, found)
    memcpy(PyBytes_AS_STRING(rest) + found, data + found_end, end - found_end)
    return PyBytes_FromStringAndSize(<const char *>data + found_start, found_end - found_start), rest


cdef inline int varint_size(uint64_t value) noexcept nogil:
    cdef int size = 1
    while value >= 0x80:
        value >>= 7
        size += 1
    return size


cdef inline uint8_t *put(uint8_t *out, uint64_t value) noexcept nogil:
    while value >= 0x80:
        out[0] = <uint8_t>(value | 0x80)
        out += 1
        value >>= 7
    out[0] = <uint8_t>value
    return out + 1


cdef inline Py_ssize_t head_size(uint64_t number, bytes value) noexcept:
    """Bytes of a field, its content included."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(value)
    return varint_size(number << 3 | 2) + varint_size(<uint64_t>size) + size


cdef inline uint8_t *put_bytes(uint8_t *out, uint64_t number, bytes value) noexcept:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(value)
    out = put(put(out, number << 3 | 2), size)
    memcpy(out, PyBytes_AS_STRING(value), size)
    return out + size


def write_message(values, object present=0):
    """Write a message; the value at index n is that of field n + 1. See `_wire_py.write_message`."""
    cdef tuple given = tuple(values)
    cdef Py_ssize_t count = len(given), index, size = 0
    cdef uint64_t bits = present
    cdef int64_t numbers[MAX_FIELDS]
    cdef uint8_t written[MAX_FIELDS]
    cdef bytes made
    cdef uint8_t *out
    if count > MAX_FIELDS:
        raise OverflowError("more fields than bits")
    for index in range(count):
        value = given[index]
        written[index] = 0
        if value is None:
            continue
        if isinstance(value, int):
            numbers[index] = value
            if numbers[index] or bits >> index & 1:
                written[index] = 1
                size += varint_size(<uint64_t>(index + 1) << 3) + varint_size(<uint64_t>numbers[index])
        elif isinstance(value, bytes):
            if PyBytes_GET_SIZE(value) or bits >> index & 1:
                written[index] = 2
                size += head_size(index + 1, value)
        elif isinstance(value, list):
            written[index] = 3
            for each in <list>value:
                if not isinstance(each, bytes):
                    raise TypeError("a repeated value must be bytes")
                size += head_size(index + 1, each)
        else:
            raise TypeError("a value must be int, bytes, a list of bytes or None")
    made = PyBytes_FromStringAndSize(NULL, size)
    out = <uint8_t *>PyBytes_AS_STRING(made)
    for index in range(count):
        if written[index] == 1:
            out = put(put(out, <uint64_t>(index + 1) << 3), <uint64_t>numbers[index])
        elif written[index] == 2:
            out = put_bytes(out, index + 1, given[index])
        elif written[index] == 3:
            for each in <list>given[index]:
                out = put_bytes(out, index + 1, each)
    return made
