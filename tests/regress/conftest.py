"""One real sidecar for a module's tests, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.client import Sidecar
from tests.helpers.server import Server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A running sidecar."""
    with Server() as running:
        yield running


@pytest.fixture
def sidecar(server: Server) -> Iterator[Sidecar]:
    """A client; the server must have survived the test."""
    assert server.channel is not None
    yield Sidecar(server.channel)
    assert server.is_alive()
