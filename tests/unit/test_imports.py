"""The import table: which package may import what. What is not allowed is forbidden, wherever in a file it stands."""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

GRPC = ("grpc", "grpc_health", "grpc_reflection", "grpc_status", "google.protobuf", "google.rpc")
# What makes a decision depend on more than its arguments.
IMPURE = frozenset({"asyncio", "logging", "os", "random", "socket", "subprocess", "threading", "time", "uuid"})

# The longest prefix that fits a module decides. The standard library is allowed to all, but IMPURE.
ALLOWED: dict[str, tuple[str, ...]] = {
    "fastpath": ("fastpath",),
    "sidecar": ("msgspec", "structlog", "sidecar.config", "sidecar.option_values"),
    # The limits among the options are judged by the rules of the core.
    "sidecar.config": ("msgspec", "sidecar.option_values", "sidecar.core.errors", "sidecar.core.limits", "sidecar.core.tokens")
    + ("sidecar.core.types",),
    "sidecar.app": ("msgspec", "fastpath", "sidecar", "store", "trimtab", *GRPC),
    "sidecar.cli": (
        "click",
        "grpc",
        "google.protobuf",
        "sidecar.app",
        "sidecar.cli",
        "sidecar.config",
        "sidecar.formats",
        "sidecar.log",
    )
    + ("sidecar.option_values", "sidecar.replay", "trimtab"),
    "sidecar.cli.replay": ("click", "fastpath", "sidecar.cli", "sidecar.config", "sidecar.replay", "trimtab")
    + ("sidecar.core.errors", "sidecar.core.types", "sidecar.formats"),
    # A decision knows dialects by their interface only, never which there are.
    "sidecar.core": ("msgspec", "fastpath", "sidecar.core", "sidecar.formats.base", "sidecar.formats.spelling"),
    "sidecar.demo": ("msgspec", "grpc", "sidecar.demo", "sidecar.replay", "trimtab"),
    # Of what writes summaries the engine knows what needs no client: the ledger, the request for notes, the verdict on a reply.
    "sidecar.engine": ("msgspec", "re2", "fastpath", "sidecar.core", "sidecar.engine", "sidecar.formats", "sidecar.ports")
    + ("sidecar.summarize.ledger", "sidecar.summarize.prompt", "sidecar.summarize.verdict"),
    "sidecar.formats": ("msgspec", "fastpath", "sidecar.core.errors", "sidecar.core.readback", "sidecar.core.replies")
    + ("sidecar.core.types", "sidecar.formats"),
    "sidecar.ports": ("msgspec", "sidecar.core.compaction", "sidecar.core.replies", "sidecar.core.types"),
    # Recordings are read with the pure parts, and driven through the API like any agent's bodies.
    "sidecar.replay": ("msgspec", "matplotlib", "fastpath", "sidecar.core.types", "sidecar.formats", "sidecar.replay")
    + ("trimtab.v1",),
    "sidecar.rpc": ("msgspec", "fastpath", "sidecar.core", "sidecar.engine", "sidecar.formats", "sidecar.ports", "sidecar.rpc")
    + ("sidecar.version", "trimtab.v1", *GRPC),
    # A client of a model endpoint knows one vendor's SDK; the dialect's reader is handed to it.
    "sidecar.summarize": ("msgspec", "fastpath", "sidecar.core", "sidecar.ports", "sidecar.summarize"),
    "sidecar.summarize.anthropic_client": ("anthropic", "sidecar.core", "sidecar.summarize"),
    "sidecar.summarize.open": ("sidecar.config", "sidecar.core", "sidecar.formats", "sidecar.ports", "sidecar.summarize"),
    "sidecar.summarize.openai_client": ("openai", "sidecar.core", "sidecar.summarize"),
    # Beside types and errors, the store shares the pure functions that name and cut content.
    "store": ("msgspec", "lmdb", "sidecar.core", "sidecar.ports", "store"),
    "store.codec": ("msgspec", "sidecar.core.compaction", "sidecar.core.types", "sidecar.ports", "store.layout"),
    "store.layout": ("msgspec", "sidecar.core.types"),
    "trimtab": ("trimtab", *GRPC),
}
PURE = ("fastpath._", "sidecar.core", "sidecar.formats")


def _within(module: str, prefixes: tuple[str, ...]) -> bool:
    return any(module == prefix or module.startswith(f"{prefix}.") for prefix in prefixes)


def _imports(source: str) -> list[str]:
    """Full names of all that is imported; of `from a import b`, a.b."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found += [f"{module}.{alias.name}" for alias in node.names]
    return found


def _broken(module: str, source: str) -> list[str]:
    rule = max((prefix for prefix in ALLOWED if _within(module, (prefix,))), key=len)
    broken = []
    for imported in _imports(source):
        top = imported.partition(".")[0]
        if imported.startswith("."):
            broken.append(f"{module}: relative import {imported}")
        elif top in sys.stdlib_module_names:
            if _within(module, PURE) and top in IMPURE:
                broken.append(f"{module}: impure {imported}")
        elif not _within(imported, ALLOWED[rule]):
            broken.append(f"{module}: {imported}")
    return broken


def _modules() -> dict[str, Path]:
    found = {}
    for package in ("fastpath", "sidecar", "store", "trimtab"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            found[name] = path
    return {name: path for name, path in found.items() if not name.startswith("trimtab.v1")}


@pytest.mark.parametrize("module", sorted(_modules()))
def test_imports_of_module_are_allowed(module: str) -> None:
    assert _broken(module, _modules()[module].read_text()) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("sidecar.core.fit", "import lmdb"),
        ("sidecar.core.fit", "def f():\n    import time"),
        ("sidecar.core.fit", "from os import path"),
        ("sidecar.core.fit", "from sidecar.formats.gemini import Gemini"),
        ("sidecar.core.fit", "from sidecar.formats import adapter"),
        ("sidecar.core.fit", "from . import types"),
        ("sidecar.formats.gemini", "from google.protobuf import message"),
        ("sidecar.engine.engine", "import grpc"),
        ("sidecar.engine.engine", "from store import LmdbStore"),
        ("sidecar.rpc.server", "from store.store import LmdbStore"),
        ("sidecar.rpc.server", "from trimtab import connect"),
        ("sidecar.cli.check", "import lmdb"),
        ("sidecar.cli.check", "from sidecar.engine.engine import Engine"),
        ("store.layout", "import lmdb"),
        ("store.codec", "from sidecar.core.errors import TrimtabError"),
        ("store.env", "import grpc"),
        ("trimtab.client", "from sidecar.core import errors"),
        ("trimtab.client", "import msgspec"),
        ("fastpath", "from sidecar.core import types"),
    ],
)
def test_imports_that_break_the_table_are_found(module: str, source: str) -> None:
    assert len(_broken(module, source)) == 1


def test_packages_of_the_distribution_are_all_that_there_are() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    there = {path.parent for package in ("fastpath", "sidecar", "store", "trimtab") for path in (ROOT / package).rglob("*.py")}
    assert sorted(told) == sorted(".".join(path.relative_to(ROOT).parts) for path in there)


def test_constraints_of_the_oldest_run_are_the_lower_bounds() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    bounds = [dependency.split(",")[0].replace(">=", "==") for dependency in told]
    pins = [line for line in (ROOT / "constraints-oldest.txt").read_text().splitlines() if not line.startswith("#")]
    assert pins == bounds


def test_sources_of_the_extensions_are_all_that_there_are() -> None:
    modules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"]
    sources = [*(ROOT / "fastpath").glob("*.pyx"), *(ROOT / "fastpath" / "c").glob("*.c")]
    headers = [*(ROOT / "fastpath").glob("*.pxd"), *(ROOT / "fastpath" / "c").glob("*.h")]
    assert {name for module in modules for name in module["sources"]} == {path.relative_to(ROOT).as_posix() for path in sources}
    assert {name for module in modules for name in module["depends"]} == {path.relative_to(ROOT).as_posix() for path in headers}
