"""A real sidecar in this process, on a socket and a store of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sidecar.app import open_app
from sidecar.config import Config
from trimtab.stubs import open_stubs


@pytest.fixture(scope="module")
def stubs() -> Iterator[Any]:
    """Stubs on a sidecar; tests use sessions of their own. A socket's path must be short, so no tmp_path."""
    with tempfile.TemporaryDirectory(prefix="trimtab-") as folder:
        config = Config(listen=(f"unix:{folder}/s",), data_dir=str(Path(folder, "store")))
        with open_app(config) as app, open_stubs(app.address) as opened:
            yield opened
