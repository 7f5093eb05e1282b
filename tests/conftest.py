"""Fixtures that several areas use."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.app import App, open_app
from sidecar.config import load_config
from tests.helpers.corpus import corpus_dir


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Folder of recorded bodies. In CI they must be there; elsewhere a test without them is skipped."""
    folder = corpus_dir()
    if not folder.is_dir():
        assert not os.environ.get("CI"), f"CI needs the recorded bodies; there are none at {folder}"
        pytest.skip("no recorded bodies: set TRIMTAB_CORPUS")
    return folder


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A scratch folder whose path leaves room for a socket's name (107 bytes in all); pytest's own may be too long."""
    with tempfile.TemporaryDirectory(prefix="tt") as folder:
        yield Path(folder)


@pytest.fixture
def app(short_path: Path) -> Iterator[App]:
    """A sidecar in this process, on a Unix socket and a real store."""
    flags = {"listen": (f"unix:{short_path}/s",), "data_dir": str(short_path / "data"), "drain_timeout_s": 1}
    with open_app(load_config(flags, {}).config) as running:
        yield running
