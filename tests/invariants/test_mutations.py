"""Each invariant has a test that fails when the line that keeps it is removed: by removing the line.

The packages are copied to a scratch folder, compiled parts too, once; a mutation is written there, its tests run in a process of
their own, and the file is put back. Tests that fail by anything but an assertion prove nothing and are refused, and so is a line
that is not found exactly once: the table cannot rot.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.invariants.mutations import MUTATIONS, Mutation

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("fastpath", "sidecar", "store", "trimtab")
ASSERTED = ("AssertionError", "assert ", "Failed: DID NOT RAISE", "Failed: DID NOT WARN")
COLUMNS = {"provenance", "unresolved_work", "recovery", "constraints"}
BUILT = {str(number) for number in range(1, 15)}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The packages and their tests, apart from those that are worked on."""
    folder = tmp_path_factory.mktemp("mutated")
    junk = shutil.ignore_patterns("__pycache__", "*.pyx", "*.c", "*.h")
    for name in (*PACKAGES, "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=junk)
    # Fixtures of the whole suite start servers; no witness needs them.
    (folder / "tests" / "conftest.py").unlink()
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    yield folder


def write(path: Path, source: str) -> None:
    """Write a module, and forget its compiled form: another of the same size within a second would not be seen."""
    path.write_text(source)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def run(folder: Path, tests: set[str]) -> dict[str, str]:
    """Run tests in a process of their own; by node id, "" for those that passed, else how they failed."""
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # compiling everything anew takes most of the time
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
    done = subprocess.run([*command, *sorted(tests)], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: dict[str, str] = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        node = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        failure = case.find("failure")
        assert case.find("error") is None and case.find("skipped") is None, f"{node} did not run"
        found[node] = "" if failure is None else failure.get("message") or "?"
    return found


def outcomes_of(test: str, found: dict[str, str]) -> list[str]:
    """Of a test with all its parameters, or of one of them."""
    return [how for node, how in found.items() if node == test or node.startswith(f"{test}[")]


def test_witnesses_pass_as_things_are(copy: Path) -> None:
    tests = {test for mutation in MUTATIONS for test in mutation.tests}
    found = run(copy, tests)
    missing = [test for test in tests if not outcomes_of(test, found)]
    assert missing == []
    assert [(node, how) for node, how in found.items() if how] == []


@pytest.mark.parametrize("mutation", MUTATIONS, ids=str)
def test_witnesses_fail_without_the_line(mutation: Mutation, copy: Path) -> None:
    path = copy / mutation.file
    source = path.read_text()
    assert source.count(mutation.source) == 1, f"{mutation.file} has the line {source.count(mutation.source)} times"
    mutated = source.replace(mutation.source, mutation.replacement)
    compile(mutated, mutation.file, "exec")
    write(path, mutated)
    try:
        found = run(copy, set(mutation.tests))
    finally:
        write(path, source)
    for test in mutation.tests:
        # Of a test with many parameters, one that fails is enough; how it fails must be an assertion.
        failed = [how for how in outcomes_of(test, found) if how]
        assert failed, f"{test} passes without the line"
        assert [how for how in failed if not how.startswith(ASSERTED)] == []


def test_table_has_a_line_for_all_that_is_built() -> None:
    assert {mutation.keeps for mutation in MUTATIONS} == BUILT | COLUMNS
