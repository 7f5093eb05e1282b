"""What happens in the demo's session: an agent opens up closed time windows, module by module. Events only, no dialect."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from random import Random
from typing import Any

from sidecar.demo.dialects import Answer, Call, Event, Results, Says
from sidecar.demo.project import build_project, module_path, tests_path
from sidecar.demo.words import THINGS, Thing
from sidecar.demo.workspace import Outcome, Workspace

__all__ = ["SYSTEM", "TASK", "play"]

SYSTEM = """You are a coding agent in a repository. Work in small steps: look before you change, run the tests after each change.
Use the tools; never guess at a file's content. Say briefly what you found. Long tool output may be replaced by a short note that
tells where the original is kept; read it back when you need it, and never copy such a note into a call."""

TASK = """Our planner refuses a berth that becomes free in the very minute in which the next ship arrives. The harbor office
decided (docs/time.md): a minute belongs to what begins in it. So all windows must be half-open: start included, end excluded.

Rules for the whole job:
1. Rename `until_min` to `end_min` everywhere, in code, tests and data. No alias, no deprecation period.
2. Do not change any public function name.
3. Port names stay as they are written (Gdańsk, 横浜, Πειραιάς, "Bilbao 🚢"). No transliteration.
4. One module at a time. Tests of a module must pass before you go to the next.

Start with a look around."""

_BOARD = "I looked at the board and it still shows gaps of a minute. Is that the old build?"

_REMARKS = (
    "While you are there: the separator in `_SEPARATOR` must stay escaped, the yard system splits on `\\|`.",
    _BOARD,
    "The harbor office asks whether the margins changed. They must not. Please keep an eye on `margin_min`.",
    'Ship\'s master on the phone: "warum ist 横浜 2 noch gesperrt?" I told him it is in work. 🙏 Go on.',
    "Please do not touch data/movements.csv until I have a backup of it.",
    "Backup is done, data/movements.csv may be changed at the end.",
)


class _Player:
    """Keeps the numbers of calls and plays tools."""

    def __init__(self, workspace: Workspace, rng: Random) -> None:
        self.workspace = workspace
        self._rng = rng
        self._count = 0

    def turn(self, thinking: str, text: str, *calls: tuple[str, dict[str, Any]]) -> Iterator[Event]:
        """One answer of the model and what its calls came to."""
        # With thinking turned on, an answer inside a tool loop begins with it.
        thinking = thinking or " Then ".join(
            f"{name} {arguments.get('path', arguments.get('under', ''))}".strip() + "." for name, arguments in calls
        )
        made: list[Call] = []
        outcomes: list[tuple[str, Outcome]] = []
        for name, arguments in calls:
            self._count += 1
            call = Call(f"call_{self._count:04d}_{self._rng.randbytes(6).hex()}", name, arguments)
            made.append(call)
            outcomes.append((call.call_id, getattr(self.workspace, name)(**arguments)))
        yield Answer(thinking, self._signature() if thinking else "", text, tuple(made))
        if outcomes:
            yield Results(tuple(outcomes))

    def _signature(self) -> str:
        return base64.b64encode(self._rng.randbytes(self._rng.randrange(180, 420))).decode()


def play(seed: int) -> Iterator[Event]:
    """The session's events, the same from the same seed. They go on for ever: take as many as wanted, best up to a `Results`."""
    rng = Random(seed)
    player = _Player(Workspace(build_project(rng), rng), rng)
    yield Says(TASK)
    yield from player.turn(
        "", "I will look at the layout first.", ("list_files", {"under": ""}), ("read_file", {"path": "docs/time.md"})
    )
    yield from player.turn(
        "All windows are closed at both ends. I want every place before I touch one.",
        "",
        ("search", {"pattern": "until_min", "under": "src/", "context_lines": 1}),
        ("read_file", {"path": "src/harborline/clock.py"}),
    )
    yield from player.turn("", "A full run shows where we stand.", ("run_tests", {"under": "tests/", "verbose": True}))
    remark = 0
    for round_number in range(1_000_000):
        for number, thing in enumerate(THINGS):
            if round_number == 0:
                yield from _open_module(player, thing, rng)
            else:
                yield from _review_module(player, thing, rng, round_number)
            if number % 4 == 3:
                yield from player.turn("", "", ("run_tests", {"under": "tests/", "verbose": True}))
                yield from player.turn("", f"So far so good: {thing.plural} and everything before pass. Shall I go on?")
                said = _REMARKS[remark % len(_REMARKS)]
                remark += 1
                yield Says(said)
                if said == _BOARD:
                    yield from player.turn("The user says the board shows gaps. I need to see it.", "", ("picture", {}))


def _open_module(player: _Player, thing: Thing, rng: Random) -> Iterator[Event]:
    module, tests = module_path(thing), tests_path(thing)
    files = player.workspace.files
    if rng.randrange(4) == 0:  # guesses a name, as models do
        yield from player.turn("", "", ("read_file", {"path": module.replace(thing.plural, thing.name)}))
    yield from player.turn(
        f"Next is {thing.plural}. {thing.why} I read the module and its tests together.",
        f"On to `{thing.plural}`.",
        ("read_file", {"path": module}),
        ("read_file", {"path": tests}),
    )
    yield from player.turn("", "", ("run_tests", {"under": tests, "verbose": True}))
    old = files[module]
    count = old.count("until_min")
    if not count:
        yield from player.turn(
            f"{module} has no window at all, only {old.count('def ')} functions. Nothing to do.",
            "",
            ("search", {"pattern": "_min", "under": module}),
        )
        return
    new = _open_windows(old)
    yield from player.turn(
        f"{module} names until_min {count} times. The comparison, the length and the gaps are off by one. I write it anew.",
        "",
        ("write_file", {"path": module, "content": new}),
    )
    yield from player.turn(
        "",
        "The tests still build items with `until_min`.",
        ("edit_file", {"path": tests, "old": "until_min", "new": "end_min"}),
    )
    yield from player.turn(
        "The edit was refused since the text stands there more than once; the whole file then.",
        "",
        ("write_file", {"path": tests, "content": files[tests].replace("until_min", "end_min")}),
    )
    yield from player.turn("", "", ("run_tests", {"under": tests, "verbose": True}))
    if rng.randrange(2):
        yield from player.turn("", "", ("search", {"pattern": "until_min", "under": "", "context_lines": 0}))


def _review_module(player: _Player, thing: Thing, rng: Random, round_number: int) -> Iterator[Event]:
    module, tests = module_path(thing), tests_path(thing)
    files = player.workspace.files
    yield from player.turn(
        f"Review {round_number} of {thing.plural}: compare with the start, look for margins that moved.",
        "",
        ("diff", {"under": module}),
        ("read_file", {"path": module, "start_line": 1 + 40 * (round_number - 1), "line_count": 260}),
        ("search", {"pattern": r"margin_min = \d+", "under": module, "context_lines": 2}),
    )
    name = f"test_{thing.plural}_review_{round_number}_{rng.randrange(1000):03d}"
    added = (
        f'\n\ndef {name}() -> None:\n    """Minute {rng.randrange(1440)} belongs to what begins in it."""\n'
        f'    assert make(key="{name} ⚓").key.endswith("⚓")\n'
    )
    yield from player.turn("One more test for the edge.", "", ("write_file", {"path": tests, "content": files[tests] + added}))
    yield from player.turn("", "", ("run_tests", {"under": tests, "verbose": True}))


def _open_windows(text: str) -> str:
    text = text.replace(
        ".start_min <= second.until_min and second.start_min <= first.until_min",
        ".start_min < second.until_min and second.start_min < first.until_min",
    )
    text = text.replace("item.until_min - item.start_min + 1", "item.until_min - item.start_min")
    text = text.replace("item.start_min - 1, until_min", "item.start_min, until_min").replace(
        "item.until_min + 1", "item.until_min"
    )
    text = text.replace("if cursor > until_min", "if cursor >= until_min").replace(
        "if cursor <= until_min", "if cursor < until_min"
    )
    text = text.replace("both ends included", "start included, end excluded").replace(
        "last minute that still counts", "first minute that no longer counts"
    )
    return text.replace("until_min", "end_min")
