"""Children that use a store in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def start(mode: str, *words: object, env: dict[str, str] | None = None, prefix: Sequence[str] = ()) -> subprocess.Popen[str]:
    """Start `tests.store.child`."""
    return subprocess.Popen(
        [*prefix, sys.executable, "-m", "tests.store.child", mode, *map(str, words)],
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def run(mode: str, *words: object, prefix: Sequence[str] = ()) -> list[str]:
    """Run one to its end; its lines. Its failure is the caller's."""
    with start(mode, *words, prefix=prefix) as process:
        text, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        return text.splitlines()
