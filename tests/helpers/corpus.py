"""Recorded request bodies, when they are at hand: `TRIMTAB_CORPUS`, or the folder `shared/data` beside the project."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["bodies", "corpus_dir"]


def corpus_dir() -> Path:
    """Where the recorded bodies are; the folder may be missing."""
    beside = Path(__file__).resolve().parents[2].parent / "shared" / "data"
    return Path(os.environ.get("TRIMTAB_CORPUS", str(beside)))


def bodies(format_name: str) -> list[Path]:
    """Files of that dialect, the damaged ones included, smallest first."""
    root = corpus_dir()
    found = [*root.glob(f"{format_name}/*.json"), *root.glob(f"malformed/{format_name}--*.json")]
    return sorted(found, key=lambda path: (path.stat().st_size, path.name))
