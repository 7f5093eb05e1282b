"""The tools of the demo's agent, at work on files held in memory. What they answer follows from the files as they are.

Nothing is run and nothing touches the disk: a test run is played by looking at what the tested module says now. Times and process
numbers come from the seeded generator.
"""

from __future__ import annotations

import base64
import difflib
import re
import struct
import zlib
from random import Random
from typing import NamedTuple

from sidecar.demo.project import PACKAGE

__all__ = ["Outcome", "Workspace"]

_GREEN, _RED, _DIM, _OFF = "\x1b[32m", "\x1b[31m", "\x1b[2m", "\x1b[0m"
_TEST = re.compile(r"^def (test_\w+)\(", re.MULTILINE)


class Outcome(NamedTuple):
    """What a tool answered.

    Attributes:
        text: for the model.
        is_error: the tool failed.
        png: a picture that came with it, or empty.
    """

    text: str
    is_error: bool = False
    png: bytes = b""


class Workspace:
    """Files by path, as they were and as they are."""

    def __init__(self, files: dict[str, str], rng: Random) -> None:
        """Start from the files; they are copied."""
        self._before = dict(files)
        self.files = dict(files)
        self._rng = rng

    def list_files(self, under: str = "") -> Outcome:
        """Paths with sizes."""
        rows = [f"{len(text.encode()):>8}  {path}" for path, text in sorted(self.files.items()) if path.startswith(under)]
        return (
            Outcome("\n".join(rows) + "\n") if rows else Outcome(f"ls: cannot access '{under}': No such file or directory", True)
        )

    def read_file(self, path: str, start_line: int = 1, line_count: int = 0) -> Outcome:
        """Numbered lines of a file."""
        if path not in self.files:
            close = difflib.get_close_matches(path, self.files, n=3)
            hint = f" Did you mean: {', '.join(close)}?" if close else ""
            return Outcome(f"File does not exist: {path}.{hint}", True)
        lines = self.files[path].splitlines()
        chosen = lines[start_line - 1 : start_line - 1 + line_count] if line_count else lines[start_line - 1 :]
        return Outcome("\n".join(f"{number:>6}\t{line}" for number, line in enumerate(chosen, start_line)))

    def search(self, pattern: str, under: str = "", context_lines: int = 0) -> Outcome:
        """Lines that a regular expression matches, as grep -n prints them."""
        try:
            wanted = re.compile(pattern)
        except re.error as error:
            return Outcome(f"grep: {pattern!r}: {error}", True)
        rows: list[str] = []
        for path, text in sorted(self.files.items()):
            if not path.startswith(under):
                continue
            lines = text.splitlines()
            for index, line in enumerate(lines):
                if wanted.search(line):
                    for near in range(max(0, index - context_lines), min(len(lines), index + context_lines + 1)):
                        rows.append(
                            f"{path}{':' if near == index else '-'}{near + 1}{':' if near == index else '-'}{lines[near]}"
                        )
        return Outcome("\n".join(rows) if rows else "(no matches)")

    def write_file(self, path: str, content: str) -> Outcome:
        """Replace a file, or make it."""
        known = path in self.files
        self.files[path] = content
        return Outcome(
            f"{'Updated' if known else 'Created'} {path} ({len(content.encode())} bytes, {content.count(chr(10))} lines)."
        )

    def edit_file(self, path: str, old: str, new: str) -> Outcome:
        """Replace the one place where a text stands."""
        text = self.files.get(path)
        if text is None:
            return Outcome(f"File does not exist: {path}.", True)
        if (count := text.count(old)) != 1:
            return Outcome(f"old_text was found {count} times in {path}; it must be found exactly once.", True)
        self.files[path] = text.replace(old, new)
        line = text[: text.index(old)].count("\n") + 1
        return Outcome(f"Edited {path} at line {line}: -{old.count(chr(10)) + 1} +{new.count(chr(10)) + 1} lines.")

    def diff(self, under: str = "") -> Outcome:
        """What changed since the start, as a unified diff."""
        parts: list[str] = []
        for path in sorted(self.files):
            if path.startswith(under):
                old, new = self._before.get(path, ""), self.files[path]
                parts += difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/{path}", f"b/{path}")
        return Outcome("".join(parts) or "(no changes)")

    def run_tests(self, under: str = "tests/", verbose: bool = True) -> Outcome:
        """A test run's log. Tests of windows fail as long as their module closes windows at both ends."""
        rng = self._rng
        log = [
            f"{_DIM}${_OFF} python -m pytest -{'vv' if verbose else 'q'} {under}",
            "\x1b[1m============================= test session starts ==============================\x1b[0m",
            f"platform linux -- Python 3.11.9, pytest-8.3.{rng.randrange(5)}, pluggy-1.5.0",
            "rootdir: /srv/build/harborline",
            "configfile: pyproject.toml",
        ]
        names: list[tuple[str, str]] = []
        for path in sorted(self.files):
            if path.startswith(under) and path.endswith(".py"):
                names += [(path, name) for name in _TEST.findall(self.files[path])]
        if not names:
            return Outcome("\n".join([*log, f"ERROR: file or directory not found: {under}", "exit status 4"]), True)
        log.append(f"collected {len(names)} items\n")
        failed: list[tuple[str, str, int]] = []
        for number, (path, name) in enumerate(names, 1):
            bad = "_keeps_order" in name and self._closed_at_both_ends(path)
            percent = f"[{number * 100 // len(names):3d}%]"
            log.append(f"{path}::{name} {_RED + 'FAILED' if bad else _GREEN + 'PASSED'}{_OFF} {percent}")
            if verbose and rng.randrange(3) == 0:
                log.append(self._captured(name))
            if bad:
                failed.append((path, name, number))
        if failed:
            log.append("\n=================================== FAILURES ===================================")
            log += [self._traceback(path, name) for path, name, _ in failed[:12]]
            log += [
                f"{_RED}FAILED{_OFF} {path}::{name} - AssertionError: the minute belongs to the one that begins"
                for path, name, _ in failed
            ]
        seconds = f"{rng.randrange(40, 900) / 100:.2f}s"
        log.append(
            f"===== {len(failed)} failed, {len(names) - len(failed)} passed in {seconds} ====="
            if failed
            else f"===== {len(names)} passed in {seconds} ====="
        )
        return Outcome("\n".join(log) + f"\nexit status {1 if failed else 0}", bool(failed))

    def picture(self) -> Outcome:
        """The plan board as a picture: one row a berth, one column ten minutes."""
        rng = self._rng
        width, rows, height = 192, 24, 96
        board = [[rng.randrange(256) if rng.randrange(7) == 0 else 236 for _ in range(width)] for _ in range(rows)]
        for row in board:
            for _ in range(rng.randrange(3, 9)):
                start, length, color = rng.randrange(width), rng.randrange(4, 40), rng.randrange(30, 220)
                row[start : start + length] = [color] * len(row[start : start + length])
        lines = b"".join(
            b"\x00" + bytes(value ^ (rng.randrange(8)) for value in board[line * rows // height]) for line in range(height)
        )
        header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
        png = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", _stored(lines)) + _chunk(b"IEND", b"")
        return Outcome(f"Screenshot of the plan board, {width}x{height}, {len(png)} bytes.", False, png)

    def _closed_at_both_ends(self, tests: str) -> bool:
        module = self.files.get(tests.replace("tests/test_", f"src/{PACKAGE}/"), "")
        return ".start_min <= second.until_min" in module

    def _captured(self, name: str) -> str:
        rng = self._rng
        token = base64.b32encode(rng.randbytes(10)).decode()
        lines = [f"    {_DIM}----- captured log, {name} -----{_OFF}"]
        for _ in range(rng.randrange(1, 5)):
            level = rng.choice(["DEBUG  ", "DEBUG  ", "INFO   ", "WARNING"])
            fact = rng.choice(
                [
                    f'registry version {rng.randrange(90)} -> {rng.randrange(90, 180)}, key="{token[:6]}"',
                    f"merged {rng.randrange(2, 90)} windows into {rng.randrange(1, 20)} in {rng.randrange(10, 900)} µs",
                    f"C:\\yard\\export\\{rng.randrange(9999):04d}.csv: {rng.randrange(900)} rows, '\\|', {rng.randrange(5)} bad",
                    f"gauge {rng.randrange(40)}: {rng.uniform(-3, 6):+.3f} m, σ={rng.uniform(0, 0.2):.4f}",
                    f"⚓ {rng.randrange(40)} holds, {rng.randrange(9)} wait; next {rng.randrange(24):02d}:00Z",
                ]
            )
            lines.append(f"    {level} {PACKAGE}.plan:{rng.randrange(20, 400)} {fact}")
        return "\n".join(lines)

    def _traceback(self, path: str, name: str) -> str:
        text = self.files[path]
        start = text.index(f"def {name}(")
        body = text[start : text.index("\n\n", start)].splitlines()
        line = text[:start].count("\n") + 1
        shown = "\n".join(("E   " if "assert not" in each else "    ") + each for each in body)
        return (
            f"____________________ {name} ____________________\n\n{shown}\n"
            f"{_RED}E       AssertionError: the minute belongs to the one that begins{_OFF}\n"
            f"E       assert not True\n\n{path}:{line + 3}: AssertionError"
        )


def _stored(data: bytes) -> bytes:
    """One uncompressed zlib block, up to 64 KiB: the same bytes whichever zlib is installed."""
    size = struct.pack("<HH", len(data), len(data) ^ 0xFFFF)
    return b"\x78\x01\x01" + size + data + struct.pack(">I", zlib.adler32(data))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
