"""What is counted of the whole store, in one small value that every change rewrites."""

from __future__ import annotations

from struct import Struct, error
from typing import NamedTuple

import lmdb

from store.codec import DamageError, seal, unseal
from store.layout import KEY_TOTALS

__all__ = ["Totals", "read_totals", "write_totals"]

_TOTALS = Struct(">QQQ")


class Totals(NamedTuple):
    """Counters; `used_bytes` is what the quota is about."""

    used_bytes: int = 0
    session_count: int = 0
    next_handle: int = 1


def read_totals(txn: lmdb.Transaction[memoryview]) -> Totals:
    """The counters; those of an empty store when there are none. Raises DamageError."""
    value = txn.get(KEY_TOTALS)
    if value is None:
        return Totals()
    try:
        return Totals(*_TOTALS.unpack(unseal(KEY_TOTALS, value)))
    except error as err:
        raise DamageError("the store's counters cannot be read") from err


def write_totals(txn: lmdb.Transaction[memoryview], totals: Totals) -> None:
    """Put the counters."""
    txn.put(KEY_TOTALS, seal(KEY_TOTALS, _TOTALS.pack(*totals)))
