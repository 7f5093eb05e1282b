"""Dialects: one adapter each, all over the same scan. Nothing outside this package branches on a dialect."""

from __future__ import annotations

from sidecar.formats.adapters import ADAPTERS, NAMES, adapter
from sidecar.formats.detect import detect

__all__ = ["ADAPTERS", "NAMES", "adapter", "detect"]
