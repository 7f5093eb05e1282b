"""What goes wrong below becomes one of our errors, here and nowhere else. Texts name what failed, never content or keys."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import lmdb

from sidecar.core.errors import CorruptedError, StoreFailedError, StoreFullError, TrimtabError
from store.codec import DamageError, NewerError

__all__ = ["FULL_ERRNOS", "translated", "to_ours"]

FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def to_ours(err: Exception, doing: str) -> TrimtabError:
    """Our error for one from below.

    Args:
        err: of LMDB, of the operating system, of the codec; anything else is a failure too.
        doing: what failed, for the text.
    """
    if isinstance(err, TrimtabError):
        return err
    if isinstance(err, DamageError | lmdb.CorruptedError | lmdb.PageNotFoundError | lmdb.BadChecksumError):
        return CorruptedError(f"could not {doing}: {err}", hint="run check; restore the data folder from a copy")
    if isinstance(err, NewerError):
        return StoreFailedError(
            f"could not {doing}: {err}", hint="start the newer version", found_version=err.found, known_version=err.known
        )
    if isinstance(err, lmdb.MapFullError):
        return StoreFullError(f"could not {doing}: the map is full", hint="delete sessions, or allow more address space")
    code = err.code if isinstance(err, lmdb.Error) else err.errno if isinstance(err, OSError) else 0
    if code in FULL_ERRNOS:
        return StoreFullError(f"could not {doing}: the disk is full", hint="free space; no restart is needed", errno=code or 0)
    if isinstance(err, lmdb.Error | OSError):
        return StoreFailedError(f"could not {doing}: {err}", errno=code or 0)
    return StoreFailedError(f"could not {doing}: {type(err).__name__}")


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise our errors for what is raised inside."""
    try:
        yield
    except (lmdb.Error, OSError, DamageError, NewerError) as err:
        raise to_ours(err, doing) from err
