"""One store for a module's tests; each test, and each example, has sessions of its own in it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from sidecar.core.types import SessionKey
from store.store import LmdbStore
from tests.engine.held import Held, open_store

_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def store() -> Iterator[LmdbStore]:
    with open_store() as opened:
        yield opened


@pytest.fixture(scope="module")
def held(store: LmdbStore) -> Callable[[], Held]:
    """Makes sessions."""
    return lambda: Held(store, SessionKey("", f"run-{next(_NUMBERS)}"))
