"""Writes the demo's project: a Python package about a harbor, its tests, its data. The same seed gives the same files.

Every Python file parses. The package has one fault that runs through all modules, so that the session has something to do:
windows of time are closed at both ends, and a hold that begins in the minute in which another ends collides with it.
"""

from __future__ import annotations

import json
from random import Random
from typing import Final

from sidecar.demo.words import PORTS, THINGS, VERBS, Thing

__all__ = ["PACKAGE", "build_project", "module_path", "tests_path"]

PACKAGE: Final = "harborline"

_SAMPLES: Final = {"str": '"{thing}-{n}"', "int": "{n}", "float": "{n}.5"}


def module_path(thing: Thing) -> str:
    """Where the module about a thing stands."""
    return f"src/{PACKAGE}/{thing.plural}.py"


def tests_path(thing: Thing) -> str:
    """Where its tests stand."""
    return f"tests/test_{thing.plural}.py"


def build_project(rng: Random) -> dict[str, str]:
    """Write all files, by path. O(size of the project), some 400 KiB."""
    version = f"0.{rng.randrange(3, 9)}.{rng.randrange(20)}"
    files: dict[str, str] = {
        "pyproject.toml": _pyproject(),
        "README.md": _readme(),
        "docs/time.md": _time_notes(),
        f"src/{PACKAGE}/__init__.py": f'"""Plans a harbor\'s day."""\n\n__version__ = "{version}"\n',
        f"src/{PACKAGE}/clock.py": _clock_module(),
    }
    for thing in THINGS:
        files[module_path(thing)] = _module(thing, rng)
        files[tests_path(thing)] = _tests(thing, rng)
    files["data/ports.json"] = _ports(rng)
    files["data/movements.csv"] = _movements(rng)
    return files


def _class_name(thing: Thing) -> str:
    return thing.name.capitalize()


def _has_window(thing: Thing) -> bool:
    return any(name == "until_min" for name, *_ in thing.fields)


def _module(thing: Thing, rng: Random) -> str:
    cls = _class_name(thing)
    verbs = rng.sample(VERBS, k=rng.randrange(5, len(VERBS) + 1))
    parts = [
        f'"""{thing.plural.capitalize()} of the harbor plan.\n\n{thing.why}\n"""\n\nfrom __future__ import annotations\n\n'
        f"from collections.abc import Iterable, Iterator, Mapping\nfrom dataclasses import dataclass, replace\n\n"
        f"from {PACKAGE}.clock import format_minute, parse_minute\n\n"
        '_SEPARATOR = "\\\\|"  # the yard system splits on a bar and wants it escaped\n',
        _dataclass(thing, cls),
        _parser(thing, cls),
    ]
    if _has_window(thing):
        parts.append(_window(thing, cls))
    parts.append(_registry(thing, cls))
    parts.extend(_verb(thing, cls, verb, sentence, rng) for verb, sentence in verbs)
    return "\n\n".join(parts)


def _dataclass(thing: Thing, cls: str) -> str:
    lines = ["@dataclass(frozen=True)", f"class {cls}:", f'    """One {thing.name}, as planned.', "", "    Attributes:"]
    lines += [f"        {name}: {what}{f' ({unit})' if unit else ''}." for name, _, unit, what in thing.fields]
    lines += ['    """', ""]
    lines += [f"    {name}: {kind}" for name, kind, _, _ in thing.fields]
    return "\n".join(lines) + "\n"


def _parser(thing: Thing, cls: str) -> str:
    lines = [
        f"def parse_{thing.name}(row: Mapping[str, str], line_number: int = 0) -> {cls}:",
        f'    """Read one {thing.name} from a row of the yard system\'s export."""',
    ]
    for name, kind, unit, what in thing.fields:
        if name.endswith("_min") and name in {"start_min", "until_min"}:
            lines.append(f'    {name} = parse_minute(row["{name}"])')
        elif kind == "str":
            lines += [
                f'    {name} = row["{name}"].strip()',
                f"    if not {name}:",
                f'        raise ValueError(f"line {{line_number}}: {name} is empty ({what})")',
            ]
        else:
            of_unit = f" of {unit}" if unit else ""
            lines += [
                "    try:",
                f'        {name} = {kind}(row["{name}"].replace(",", "."))',
                "    except ValueError as error:",
                f'        raise ValueError(f"line {{line_number}}: {name} is not a number{of_unit}") from error',
                f"    if {name} < 0:",
                f'        raise ValueError(f"line {{line_number}}: {name} is negative: {{{name}}}")',
            ]
    lines.append(f"    return {cls}({', '.join(f'{name}={name}' for name, *_ in thing.fields)})")
    return "\n".join(lines) + "\n"


def _window(thing: Thing, cls: str) -> str:
    one, two = "first", "second"
    return (
        "\n".join(
            [
                f"def {thing.name}_minutes(item: {cls}) -> int:",
                f'    """Minutes that the {thing.name} is held, both ends included."""',
                "    return item.until_min - item.start_min + 1",
                "",
                "",
                f"def {thing.plural}_collide({one}: {cls}, {two}: {cls}) -> bool:",
                f'    """Whether two {thing.plural} claim the same minute."""',
                f"    return {one}.start_min <= {two}.until_min and {two}.start_min <= {one}.until_min",
                "",
                "",
                f"def merge_{thing.plural}(items: Iterable[{cls}]) -> list[{cls}]:",
                f'    """Join {thing.plural} that touch or overlap, in order of their start."""',
                f"    merged: list[{cls}] = []",
                "    for item in sorted(items, key=lambda each: (each.start_min, each.until_min, each.key)):",
                "        if merged and item.start_min <= merged[-1].until_min:",
                "            last = merged.pop()",
                "            merged.append(replace(last, until_min=max(last.until_min, item.until_min)))",
                "        else:",
                "            merged.append(item)",
                "    return merged",
                "",
                "",
                f"def free_{thing.plural}(items: Iterable[{cls}], start_min: int, until_min: int) -> Iterator[tuple[int, int]]:",
                f'    """Stretches of time in which no {thing.name} is held, within the asked window."""',
                "    cursor = start_min",
                f"    for item in merge_{thing.plural}(items):",
                "        if item.start_min > cursor:",
                "            yield cursor, min(item.start_min - 1, until_min)",
                "        cursor = max(cursor, item.until_min + 1)",
                "        if cursor > until_min:",
                "            return",
                "    if cursor <= until_min:",
                "        yield cursor, until_min",
            ]
        )
        + "\n"
    )


def _registry(thing: Thing, cls: str) -> str:
    number = next((name for name, kind, *_ in thing.fields if kind in {"float", "int"}), "key")
    return (
        "\n".join(
            [
                f"class {cls}Registry:",
                f'    """All {thing.plural} that the planner knows, by key. Not safe for several threads."""',
                "",
                "    def __init__(self) -> None:",
                f"        self._by_key: dict[str, {cls}] = {{}}",
                "        self._version = 0",
                "",
                f"    def add(self, item: {cls}) -> None:",
                f'        """Put a {thing.name} in, or replace the one of the same key."""',
                "        previous = self._by_key.get(item.key)",
                "        if previous == item:",
                "            return",
                "        self._by_key[item.key] = item",
                "        self._version += 1",
                "",
                f"    def remove(self, key: str) -> {cls}:",
                f'        """Take a {thing.name} out. Raises KeyError when there is none."""',
                "        item = self._by_key.pop(key)",
                "        self._version += 1",
                "        return item",
                "",
                f"    def by_{number}(self, least: float) -> list[{cls}]:",
                f'        """All {thing.plural} whose {number} is at least this, smallest first."""',
                f"        found = [item for item in self._by_key.values() if item.{number} >= least]",
                f"        return sorted(found, key=lambda item: (item.{number}, item.key))",
                "",
                "    @property",
                "    def version(self) -> int:",
                '        """Moves with every change; equal versions mean equal content."""',
                "        return self._version",
            ]
        )
        + "\n"
    )


def _verb(thing: Thing, cls: str, verb: str, sentence: str, rng: Random) -> str:
    numbers = [name for name, kind, *_ in thing.fields if kind in {"float", "int"} and not name.endswith("_min")]
    number = rng.choice(numbers or ["key"])
    margin, rounds = rng.randrange(2, 30), rng.randrange(3, 9)
    windowed = _has_window(thing)
    lines = [
        f"def {verb}_{thing.plural}(items: Iterable[{cls}], wanted: Mapping[str, float], now_min: int) -> list[{cls}]:",
        f'    """{sentence.format(thing=thing.name, plural=thing.plural)}.',
        "",
        "    Args:",
        "        items: what is planned, in any order. Not changed.",
        f"        wanted: least {number} by key; a key that is missing asks for nothing.",
        "        now_min: what lies before is history and stays as it is.",
        '    """',
        f"    margin_min = {margin}  # asked for by the harbor office, see docs/time.md",
        f"    chosen: list[{cls}] = []",
        "    rejected: dict[str, str] = {}",
        "    for item in sorted(items, key=lambda each: (each.key, repr(each))):",
        "        least = wanted.get(item.key, 0.0)",
        f"        if item.{number} < least:",
        f'            rejected[item.key] = f"{number} {{item.{number}}} is under {{least}}"',
        "            continue",
    ]
    if windowed:
        lines += [
            "        if item.until_min <= now_min + margin_min:",
            '            rejected[item.key] = "over at " + format_minute(item.until_min)',
            "            continue",
            f"        if any({thing.plural}_collide(item, other) for other in chosen):",
            f"            for step in range(1, {rounds}):",
            "                by_min = step * margin_min",
            "                moved = replace(item, start_min=item.start_min + by_min, until_min=item.until_min + by_min)",
            f"                if not any({thing.plural}_collide(moved, other) for other in chosen):",
            "                    chosen.append(moved)",
            "                    break",
            "            else:",
            f'                rejected[item.key] = "no room within {rounds} steps"',
            "            continue",
        ]
    lines += [
        "        chosen.append(item)",
        f"    if rejected and len(rejected) > len(chosen) * {rounds}:",
        f"        reasons = sorted(rejected.values())[:{rounds}]",
        f'        raise ValueError("{verb}: nearly everything was rejected: " + _SEPARATOR.join(reasons))',
        "    return chosen",
    ]
    return "\n".join(lines) + "\n"


def _tests(thing: Thing, rng: Random) -> str:
    cls = _class_name(thing)
    lines = [f'"""Tests of {PACKAGE}.{thing.plural}."""', "", "from __future__ import annotations", "", "import pytest", ""]
    lines += [f"from {PACKAGE} import {thing.plural} as module", "", ""]
    values = ", ".join(f"{name}={_SAMPLES[kind].format(thing=thing.name, n='{n}')}" for name, kind, *_ in thing.fields)
    lines += [f"def make(n: int = 1, **changes: object) -> module.{cls}:", f'    """Build a {thing.name}."""']
    lines += [f"    values = dict({values.replace('{n}', '1')})", f"    return module.{cls}(**(values | changes))", ""]
    for number in range(rng.randrange(14, 30)):
        port, (verb, _) = rng.choice(PORTS), rng.choice(VERBS)
        start, length = rng.randrange(0, 1440, 6), rng.randrange(6, 240, 6)
        lines += ["", f"def test_{verb}_{thing.plural}_{number:02d}_keeps_order() -> None:"]
        if _has_window(thing):
            lines += [
                f'    first = make(key="{port} {number}", start_min={start}, until_min={start + length})',
                f'    second = make(key="{port} {number + 1}", start_min={start + length}, until_min={start + 2 * length})',
                f'    assert not module.{thing.plural}_collide(first, second), "the minute belongs to the one that begins"',
                f"    assert len(list(module.free_{thing.plural}([first, second], {start}, {start + 3 * length}))) == 1",
            ]
        else:
            lines += [
                f'    items = [make(key=f"{port} {{index}}") for index in range({rng.randrange(2, 9)})]',
                "    registry = module." + cls + "Registry()",
                "    for item in items:",
                "        registry.add(item)",
                "    assert registry.version == len(items)",
            ]
        lines.append("")
    lines += [
        "",
        '@pytest.mark.parametrize("text", ["", "24:61", "١٢:٣٠", "noon"])',
        f"def test_parse_{thing.name}_refuses(text: str) -> None:",
    ]
    lines += [
        "    with pytest.raises((KeyError, ValueError)):",
        f'        module.parse_{thing.name}({{"start_min": text, "key": "x"}})',
        "",
    ]
    return "\n".join(lines)


def _clock_module() -> str:
    return '''"""Minutes, as the whole package counts them."""

from __future__ import annotations

import re

_PATTERN = re.compile(r"^(?:(\\d+)d )?([01]?\\d|2[0-4]):([0-5]\\d)$")


def parse_minute(text: str) -> int:
    """Read "3d 06:40" or "06:40" as minutes since midnight UTC of day zero. 24:00 is the end of a day."""
    match = _PATTERN.match(text.strip())
    if match is None:
        raise ValueError(f"not a time: {text!r}")
    days, hours, minutes = (int(group or 0) for group in match.groups())
    if hours == 24 and minutes:
        raise ValueError(f"past the end of the day: {text!r}")
    return days * 1440 + hours * 60 + minutes


def format_minute(minute: int) -> str:
    """Write minutes as parse_minute reads them."""
    days, rest = divmod(minute, 1440)
    clock = f"{rest // 60:02d}:{rest % 60:02d}"
    return f"{days}d {clock}" if days else clock
'''


def _pyproject() -> str:
    return (
        f'[project]\nname = "{PACKAGE}"\nversion = "0.5.1"\nrequires-python = ">=3.11"\n\n'
        '[tool.pytest.ini_options]\ntestpaths = ["tests"]\naddopts = "-ra --color=yes"\nfilterwarnings = ["error"]\n'
    )


def _readme() -> str:
    rows = "\n".join(f"| `{thing.plural}` | {thing.why} |" for thing in THINGS)
    return f"# {PACKAGE}\n\nPlans the day of a tidal harbor.\n\n| module | what it knows |\n|---|---|\n{rows}\n"


def _time_notes() -> str:
    return (
        "# Time\n\nMinutes count from midnight UTC of day zero. There is no local time inside the package: the night when\n"
        "clocks are set back has 25 hours on the wall and 24 on the quay.\n\n"
        "Decided by the harbor office (minutes of the spring meeting, §4): a minute belongs to what begins in it.\n"
    )


def _ports(rng: Random) -> str:
    ports = [
        {
            "name": name,
            "note": f'"{name}" as on the chart; path C:\\charts\\{number:03d}\\{rng.randrange(999)}.s57',
            "lat": round(rng.uniform(-60, 70), 5),
            "lon": round(rng.uniform(-180, 180), 5),
            "gauges": [
                {"key": f"{number}-{index}", "datum_mm": rng.randrange(-4000, 4000)} for index in range(rng.randrange(6, 14))
            ],
        }
        for number, name in enumerate(PORTS)
    ]
    return json.dumps(ports, ensure_ascii=False, indent=1) + "\n"


def _movements(rng: Random) -> str:
    rows = ["key;port;vessel;start_min;until_min;draft_m;remark"]
    for number in range(900):
        start = rng.randrange(0, 40_000, 6)
        remark = rng.choice(["", "", "late tide", "pilot refused: \tgust", 'master says "wait"', "⚠ silt", "夜間", "½ ahead"])
        until, draft = start + rng.randrange(60, 1800, 60), rng.randrange(30, 160) / 10
        rows.append(f"{number:05d};{rng.choice(PORTS)};V{rng.randrange(10**6):06d};{start};{until};{draft};{remark}")
    return "\n".join(rows) + "\n"
