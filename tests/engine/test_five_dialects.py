"""One run in five dialects: with a target that takes every eligible unit, the same work retires and the same facts stay."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from sidecar.core.compaction import CompactMode
from sidecar.core.types import Format, LimitsGiven, ReadBack, SessionKey
from sidecar.engine.compact_messages import CompactInput, CompactOutcome
from sidecar.engine.messages import FitInput
from tests.helpers.bodies import FORMATS, history, words
from tests.helpers.recording import Desk, desk
from tests.helpers.view import read_view

LIMITS = LimitsGiven(
    soft_bytes=1 << 20,
    target_bytes=1 << 19,
    externalize_bytes=0,
    compact_target_bytes=1,
    compact_min_saving_bytes=1,
    keep_unit_count=2,
)


@pytest.fixture(scope="module")
def place() -> Iterator[Desk]:
    with desk() as made:
        yield made


def retired(place: Desk, format_name: str) -> tuple[list[str], dict[str, set[str]], list[str]]:
    """Ids of the calls that retired; what the summary says of paths, numbers and verdicts; words of people that stay."""
    run = history(format_name).user("Mend tests/test_login.py without touching the API.")
    for n in range(6):
        run.step(f"line {n}\n" + words(1_500, n), "read_file", {"path": f"src/part_{n}.py"}, text=f"I look at part {n}")
    run.answer("Part 3 holds the fault.").user("Then mend it.")
    run.call(("write_file", {"path": "src/part_3.py", "text": words(900)}), ("run_tests", {"n": 12})).results(
        "written", "12 passed"
    )
    run.step("boom", "deploy", {"to": "stage"}, text="now").answer("Done.").user("And the docs?")
    run.step("# Docs", "read_file", {"path": "docs/a.md"}).step("# More", "read_file", {"path": "docs/b.md"})
    place.serial += 1
    key = SessionKey("", f"same-{place.serial}")
    body = run.body()
    place.engine.fit(FitInput(key, body, format=Format(run.format), read_back=ReadBack.CALLER, limits=LIMITS))
    given = CompactInput(key, "q", ignore_pressure=True, force_mid_stage=True, mode=CompactMode.EXTEND)
    made = place.engine.compact(given)
    assert made.outcome is CompactOutcome.COMMITTED and made.checkpoint is not None
    after = place.engine.fit(FitInput(key, body, format=Format(run.format))).body
    before_view, view = read_view(format_name, body), read_view(format_name, after)
    stay = {call.call_id for call in view.calls}
    gone = [call.call_id.decode() for call in before_view.calls if call.call_id not in stay]
    summary = made.checkpoint.summary.decode()
    said = {
        "paths": set(re.findall(r"\b(?:src|docs|tests)/\w+\.\w+", summary)),
        "tools": set(re.findall(r"\b(?:read_file|write_file|run_tests|deploy)\b", summary)),
        "told": {word for word in ("12 passed", "boom", "Part 3 holds the fault", "written") if word in summary},
    }
    spoken = [(node.string(after) or b"").decode() for _, role, node in view.texts if role == "user"]
    return gone, said, [text for text in spoken if not text.startswith("[trimtab ")]


def test_the_same_units_retire_and_the_same_facts_stay_in_all_five(place: Desk) -> None:
    found = {name: retired(place, name) for name in FORMATS}
    gone, said, spoken = found["openai-chat"]
    assert len(gone) >= 8
    assert said["paths"] >= {"src/part_3.py", "src/part_5.py"}
    assert spoken[0].startswith("Mend tests/test_login.py")
    for name, other in found.items():
        assert other[0] == gone, name
        assert other[1] == said, name
        assert other[2] == spoken, name
