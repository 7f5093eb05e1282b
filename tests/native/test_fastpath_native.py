"""The C core without Python: under sanitizers, and in all three variants, over recorded bodies and damaged copies of them.

Each build prints one digest a file of all rows, forms, blocks and errors; all must be the same. See harness.c.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.corpus import corpus_dir
from tests.helpers.json_bodies import CASES, SMALL_BODY

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [ROOT / "tests" / "native" / "harness.c", *sorted((ROOT / "fastpath" / "c").glob("*.c"))]
FLAGS = ["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'fastpath' / 'c'}"]
ARM_COMPILER = "aarch64-linux-gnu-gcc"
ARM_EMULATOR = "qemu-aarch64"

Run = Callable[..., tuple[str, str]]

if sys.platform != "linux":
    pytest.skip("the harness is built with a Linux compiler driver", allow_module_level=True)


SANITIZED = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
STARVED = ["-DWRAPPED", "-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc"]


def require(tool: str) -> str:
    found = shutil.which(tool)
    if found is None:
        pytest.skip(f"{tool} is not installed")
    return found


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Hand-made bodies, and the recorded ones when they are at hand."""
    folder = tmp_path_factory.mktemp("bodies")
    for number, body in enumerate([SMALL_BODY, *CASES.values()]):
        (folder / f"case-{number:03}.json").write_bytes(body)
    return [str(path) for path in [*sorted(folder.glob("*.json")), *sorted(corpus_dir().glob("*/*.json"))]]


@pytest.fixture(scope="module")
def run(files: list[str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Build the harness, run it over all files, and return what it printed: digests, and the variant."""
    folder = tmp_path_factory.mktemp("builds")

    def build_and_run(compiler: str, *flags: str, through: tuple[str, ...] = ()) -> tuple[str, str]:
        program = str(folder / f"harness-{len(list(folder.iterdir()))}")
        subprocess.run([compiler, *FLAGS, *flags, *map(str, SOURCES), "-lm", "-o", program], check=True, timeout=120)
        environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "halt_on_error=1"}
        command = [*through, program, "-r", "20", *files]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment)
        assert (ended.returncode, len(ended.stdout.splitlines())) == (0, len(files)), ended.stderr[-4000:]
        return ended.stdout, ended.stderr.strip()

    return build_and_run


@pytest.fixture(scope="module")
def native(run: Run) -> tuple[str, str]:
    """Digests of the build that this machine would use."""
    return run(require("cc"), "-O2")


def test_harness_under_sanitizers_finds_nothing(run: Run, native: tuple[str, str]) -> None:
    """Ensure that no read leaves a body, nothing leaks and nothing is undefined, also where memory runs out."""
    assert run(require("cc"), *SANITIZED, *STARVED) == native


def test_harness_under_sanitizers_finds_nothing_in_the_portable_variant(run: Run, native: tuple[str, str]) -> None:
    assert run(require("cc"), *SANITIZED, "-DFASTPATH_SWAR") == (native[0], "c-swar")


def test_harness_of_portable_variant_prints_the_same(run: Run, native: tuple[str, str]) -> None:
    digests, variant = run(require("cc"), "-O2", "-DFASTPATH_SWAR")
    assert (digests, variant) == (native[0], "c-swar")


def test_harness_for_aarch64_prints_the_same(run: Run, native: tuple[str, str]) -> None:
    digests, variant = run(require(ARM_COMPILER), "-O2", "-static", through=(require(ARM_EMULATOR),))
    assert (digests, variant) == (native[0], "c-neon")
