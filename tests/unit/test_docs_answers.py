"""Every reason that an answer may carry is explained in docs/answers.md, and no other is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from sidecar.core import fit
from sidecar.core.compaction import KeptReason
from sidecar.engine.messages import FitOutcome

ROOT = Path(__file__).resolve().parents[2]


def listed(section: str) -> set[str]:
    """Reasons in the first column of the table of a section."""
    text = (ROOT / "docs" / "answers.md").read_text()
    body = text.split(f"\n## {section}", 1)[1].split("\n## ", 1)[0]
    return {
        name for line in body.splitlines() if line.startswith("| `") for name in re.findall("`([A-Z_]+)`", line.split("|")[1])
    }


def literals(node: ast.AST) -> Iterator[str]:
    """UPPER_SNAKE strings of a syntax tree."""
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and re.fullmatch("[A-Z]+(_[A-Z]+)*", each.value):
            yield each.value


def noted() -> set[str]:
    """Reasons that stand in the code: first in `Note(...)` and `note(...)`, or handed on by what such a call takes."""
    found = set()
    for path in [*(ROOT / "sidecar" / "engine").glob("*.py"), *(ROOT / "sidecar" / "core").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            called = isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in ("Note", "note")
            if called and node.args:
                found |= set(literals(node.args[0]))
            if isinstance(node, ast.FunctionDef) and node.name == "too_large":
                found |= set(literals(node))
    return found | {"STORE_FULL", "STORE_FAILED"}  # the reason of an error that a Fit lived through


def test_docs_notes_are_those_of_the_code() -> None:
    assert len(noted()) > 12
    assert listed("Notes") == noted()


def test_docs_kept_reasons_are_those_of_the_code() -> None:
    assert listed("Why Compact") == {reason.name for reason in KeptReason} - {"UNSPECIFIED"}


def test_docs_outcomes_are_those_of_the_code() -> None:
    assert listed("Outcome") == {outcome.name for outcome in FitOutcome} - {"UNSPECIFIED"}


def test_docs_blockers_are_those_of_the_code() -> None:
    tree = ast.parse(Path(fit.__file__).read_text())
    (function,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "blockers")
    assert listed("Blockers") == set(literals(function))
