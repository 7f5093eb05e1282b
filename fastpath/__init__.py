"""Scan, compare and splice request bodies without reading them into objects.

Each function has two forms with the same behavior: pure Python (`_*_py.py`, the specification) and C (`c/`, behind
`_fast.pyx`). The compiled one is taken when it is there. `FASTPATH_PURE=1` selects the Python form; `FASTPATH_REQUIRE_C=1`
makes a missing extension fatal.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

from fastpath.grammar import Code, Field, GrammarSpec, ItemFlag, Kind, PartFlag, Role, Shape, ValueType
from fastpath.limits import MalformedError
from fastpath.rows import Edit, Item, Member, Part, Sizes

__all__ = [
    "Code",
    "Edit",
    "Field",
    "Grammar",
    "GrammarSpec",
    "Item",
    "ItemFlag",
    "Kind",
    "MalformedError",
    "Member",
    "Part",
    "PartFlag",
    "Role",
    "Scan",
    "Shape",
    "Sizes",
    "ValueType",
    "backend",
    "canon",
    "common_prefix",
    "decode_blocks",
    "decode_string",
    "is_spliced",
    "locate",
    "locate_removal",
    "path_at",
    "scan",
    "size",
    "splice",
    "strings",
    "strip_markers",
    "take_field",
    "write_message",
]

_compiled = False
if not TYPE_CHECKING and os.environ.get("FASTPATH_PURE") != "1":
    try:
        importlib.import_module("fastpath._fast")
        importlib.import_module("fastpath._near")
        importlib.import_module("fastpath._wire")
        _compiled = True
    except ImportError:
        if os.environ.get("FASTPATH_REQUIRE_C") == "1":
            raise

if TYPE_CHECKING or not _compiled:
    from fastpath._canon_py import canon, strip_markers
    from fastpath._match_py import Grammar
    from fastpath._near_py import common_prefix, is_spliced, path_at
    from fastpath._path_py import locate, locate_removal, strings
    from fastpath._scan_py import Scan, scan
    from fastpath._splice_py import size, splice
    from fastpath._text_py import decode_blocks, decode_string
    from fastpath._wire_py import take_field, write_message

    backend: str = "python"
else:
    from fastpath._fast import (
        Grammar,
        Scan,
        backend,
        canon,
        decode_blocks,
        decode_string,
        locate,
        locate_removal,
        scan,
        size,
        splice,
        strings,
        strip_markers,
    )
    from fastpath._near import common_prefix, is_spliced, path_at
    from fastpath._wire import take_field, write_message
