"""Both forms of fastpath side by side, whatever the environment selected."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from fastpath import GrammarSpec, MalformedError, _canon_py, _match_py, _path_py, _scan_py, _splice_py, _text_py

__all__ = ["BACKENDS", "PURE", "Backend", "compiled", "outcome", "scan_outcome"]

REQUIRED = os.environ.get("FASTPATH_REQUIRE_C") == "1" or bool(os.environ.get("CI"))


class Backend(NamedTuple):
    """One form's functions."""

    name: str
    grammar: Callable[[GrammarSpec], Any]
    scan: Callable[..., Any]
    canon: Callable[..., tuple[bytes, bytes | None]]
    strip_markers: Callable[..., bytes]
    locate: Callable[..., tuple[int, int] | None]
    locate_removal: Callable[..., tuple[int, int] | None]
    strings: Callable[..., list[tuple[int, int, tuple[bytes | int, ...]]]]
    decode_string: Callable[[bytes], bytes]
    decode_blocks: Callable[..., tuple[bytes, list[tuple[int, int]]]]
    size: Callable[..., int]
    splice: Callable[..., bytes]


def _load() -> ModuleType | None:
    try:
        return importlib.import_module("fastpath._fast")
    except ImportError:
        if REQUIRED:
            raise
        return None


def _from_module(module: ModuleType) -> Backend:
    return Backend(module.backend, module.Grammar, *(getattr(module, name) for name in Backend._fields[2:]))


PURE = Backend(
    "python",
    _match_py.Grammar,
    _scan_py.scan,
    _canon_py.canon,
    _canon_py.strip_markers,
    _path_py.locate,
    _path_py.locate_removal,
    _path_py.strings,
    _text_py.decode_string,
    _text_py.decode_blocks,
    _splice_py.size,
    _splice_py.splice,
)
_FAST = _load()
BACKENDS = [PURE] if _FAST is None else [PURE, _from_module(_FAST)]


def compiled() -> Backend:
    """The compiled form; the test is skipped where it was not built, unless FASTPATH_REQUIRE_C or CI is set."""
    if _FAST is None:
        pytest.skip("the extension fastpath._fast is not built")
    return _from_module(_FAST)


def outcome(function: Callable[..., Any], *arguments: Any) -> tuple[str, object]:
    """What a call returns, or the whole of its MalformedError."""
    try:
        return "returned", function(*arguments)
    except MalformedError as error:
        return "malformed", (error.offset_bytes, error.bound, str(error))


def scan_outcome(backend: Backend, body: bytes, grammar: Any, previous: Any = None) -> tuple[str, object]:
    """Everything that a scan says, reused_item_count aside, or the whole of its MalformedError."""
    kind, found = outcome(backend.scan, body, grammar, previous)
    if kind == "malformed":
        return kind, found
    scan: Any = found
    counts = (scan.item_count, scan.part_count, scan.marker_count)
    spans = (scan.history, scan.members, scan.system, scan.tools, scan.sizes)
    return kind, (counts, spans, scan.items(), scan.parts())
