"""Where everything lies in the store: keys, sizes, version. No LMDB here.

One tree. All integers in keys are big-endian, so that byte order is numeric order. Four regions by first byte:

    00 name                                  one of each: format, totals, clean
    01 scope_bytes scope session_id          index: full names, so that no two sessions can meet; value: handle
    02 handle family ...                     what a session holds
    03 handle                                a session that is being removed

A handle is a number that is never given out twice. A session's values stand together, what `load` reads first:

    HEAD ANCHORS PINS ENVELOPE               one value each
    ATTEMPT sha256                           newest state of an attempt to summarize, by SHA-256 of its id
    DELTA sequence                           what one batch added: item metas, forms, offloads, receipts, checkpoints, rollbacks,
                                             requests
    CHUNK first_number                       raw items of one batch, packed; large values in them are holes
    LARGE sha256 piece                       a value that is stored once per session, in pieces
    PART sha256 piece                        a part of the newest envelope, in pieces
    ARTIFACT id
    SOURCE first_sequence                    artifact sources of one batch
    PLAN sha256 piece                        summary request of an open attempt, by SHA-256 of the attempt's id, in pieces

A change of anything here changes FORMAT_VERSION. A store of an older version is read as it is, and marked with the new version
when it is opened, in one transaction:

    1    the first
    2    families ATTEMPT and PLAN; DELTA has checkpoints, rollbacks and requests; HEAD counts attempts and live checkpoints
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

__all__ = [
    "CHUNK_BYTES",
    "DATA",
    "FORMAT_VERSION",
    "Family",
    "INDEX",
    "KEY_CLEAN",
    "KEY_FORMAT",
    "KEY_TOTALS",
    "MAGIC",
    "MAX_SCOPE_BYTES",
    "PIECE_BYTES",
    "SEAL_BYTES",
    "TOMB",
    "blob_key",
    "data_key",
    "index_key",
    "index_names",
    "index_prefix",
    "number_in",
    "session_prefix",
    "stored_bytes",
    "tomb_key",
]

MAGIC = b"trimtab\x00"
FORMAT_VERSION = 2

MAX_SCOPE_BYTES = 255  # its size must fit one byte; the API allows 128
MAX_KEY_BYTES = 511  # LMDB's own limit

META = b"\x00"
INDEX = b"\x01"
DATA = b"\x02"
TOMB = b"\x03"

KEY_FORMAT = META + b"format"
KEY_TOTALS = META + b"totals"
KEY_CLEAN = META + b"clean"

SEAL_BYTES = 32  # SHA-256 before each sealed value
PAGE_BYTES = 4096
PAGE_HEADER_BYTES = 16
INLINE_BYTES = 2038  # LMDB moves a node over this to pages of its own
NODE_BYTES = 10  # node header and slot

# Values that fill their pages: n * 4096 - 16, less the seal. Pieces of 64 KiB keep a range read cheap and need no long run of
# free pages.
PIECE_BYTES = 16 * PAGE_BYTES - PAGE_HEADER_BYTES - SEAL_BYTES
CHUNK_BYTES = 8 * PAGE_BYTES - PAGE_HEADER_BYTES - SEAL_BYTES

_U64 = Struct(">Q")
_PREFIX = Struct(">cQ")
_FAMILY = Struct(">cQB")
_PIECE = Struct(">I")


class Family(IntEnum):
    """What a session's value is; in order of keys."""

    HEAD = 0x10
    ANCHORS = 0x11
    PINS = 0x12
    ENVELOPE = 0x13
    ATTEMPT = 0x14
    DELTA = 0x20
    CHUNK = 0x30
    LARGE = 0x40
    PART = 0x50
    ARTIFACT = 0x60
    SOURCE = 0x70
    PLAN = 0x80


def index_key(scope: str, session_id: str) -> bytes:
    """Key of a session by its names. Any text will do, half surrogates and NUL included.

    Raises:
        ValueError: the names are too long for a key. 128 and 256 bytes always fit.
    """
    return index_prefix(scope, session_id)


def index_prefix(scope: str, prefix: str) -> bytes:
    """Common beginning of the keys of a scope's sessions whose id begins with `prefix`. Raises ValueError as `index_key`."""
    scope_bytes = scope.encode("utf-8", "surrogatepass")
    id_bytes = prefix.encode("utf-8", "surrogatepass")
    if len(scope_bytes) > MAX_SCOPE_BYTES or 2 + len(scope_bytes) + len(id_bytes) > MAX_KEY_BYTES:
        raise ValueError("scope and session id are too long for a key")
    return INDEX + bytes([len(scope_bytes)]) + scope_bytes + id_bytes


def index_names(key: bytes) -> tuple[str, str]:
    """Scope and session id of an index key."""
    end = 2 + key[1]
    return key[2:end].decode("utf-8", "surrogatepass"), key[end:].decode("utf-8", "surrogatepass")


def session_prefix(handle: int) -> bytes:
    """Common beginning of all keys of a session's values."""
    return _PREFIX.pack(DATA, handle)


def tomb_key(handle: int) -> bytes:
    """Key that says: this session is being removed."""
    return _PREFIX.pack(TOMB, handle)


def data_key(handle: int, family: Family, number: int | None = None) -> bytes:
    """Key of one value of a session; `number` for the families that count."""
    key = _FAMILY.pack(DATA, handle, family)
    return key if number is None else key + _U64.pack(number)


def blob_key(handle: int, family: Family, name: bytes, piece: int | None = None) -> bytes:
    """Key of an artifact (by its id's bytes), of an attempt (by its id's SHA-256), or of one piece of a value (by SHA-256)."""
    key = _FAMILY.pack(DATA, handle, family) + name
    return key if piece is None else key + _PIECE.pack(piece)


def number_in(key: bytes) -> int:
    """The number at the end of a key of a family that counts."""
    return int(_U64.unpack(key[-8:])[0])


def stored_bytes(key_bytes: int, value_bytes: int) -> int:
    """What a value takes in the file, as the quota counts it: whole pages where LMDB gives it pages of its own.

    Free room in shared pages is not counted, nor what the tree itself takes.
    """
    if NODE_BYTES + key_bytes + value_bytes <= INLINE_BYTES:
        return NODE_BYTES + key_bytes + value_bytes
    return NODE_BYTES + key_bytes + 8 + -(-(value_bytes + PAGE_HEADER_BYTES) // PAGE_BYTES) * PAGE_BYTES
