"""What a replay is told as."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec
import pytest

from sidecar.replay.compact import CompactionReport
from sidecar.replay.cost import Sent
from sidecar.replay.drive import KindTotal, ReplayReport, StepReport
from sidecar.replay.report import (
    PlotUnavailableError,
    draw_plot,
    format_compactions,
    format_reductions,
    format_replays,
    format_step,
    to_json,
)


def report(name: str, raw_cost: float, sent_cost: float, outcome: str = "FITTED") -> ReplayReport:
    """A run of three steps; the second cuts."""
    sizes = ((1000, 1000), (300_000, 98_000), (301_000, 99_000))
    steps = tuple(
        StepReport(
            item_count=index + 1,
            raw=Sent(raw, 0, raw * 1.25, False),
            sent=Sent(sent, 0, sent * 1.25, index == 1),
            outcome=outcome if index else "UNCHANGED",
            artifact_count=7 if index == 1 else 0,
            notes=(),
            fit_ms=1.25,
        )
        for index, (raw, sent) in enumerate(sizes)
    )
    totals = (KindTotal("RECENT_RESULT", 3, 150_000), KindTotal("ARGUMENTS", 4, 52_000))
    return ReplayReport(name, "openai-chat", steps, raw_cost, sent_cost, 0, 1, totals, 262_144, 98_304)


def test_format_replays_shows_each_run_and_the_geometric_mean() -> None:
    text = format_replays([report("one", 400_000, 100_000), report("two", 100_000, 100_000, "CANNOT_FIT")])
    lines = text.splitlines()
    assert [line.split() for line in lines[2:4]] == [
        ["one", "3", "293.9", "KiB", "96.7", "KiB", "390.6", "KiB", "97.7", "KiB", "0.250", "1", "7"],
        ["two", "3", "293.9", "KiB", "96.7", "KiB", "97.7", "KiB", "97.7", "KiB", "1.000", "1", "7"],
    ]
    assert lines[5].split() == ["geometric", "mean", "0.500"]
    assert "one: reductions in the last body: recent result 3, arguments 4" in lines
    assert "two: 2 bodies over a hard limit" in lines
    assert "one: 0 bodies" not in text


def compacted(name: str) -> ReplayReport:
    """The same run with compaction: one checkpoint, and two calls that kept the history."""
    run = report(name, 400_000, 100_000, "OVER")
    steps = tuple(
        msgspec.structs.replace(step, over_reason=why)
        for step, why in zip(run.steps, ("", "LOW_BENEFIT", "MID_STAGE"), strict=True)
    )
    compactions = (
        CompactionReport(0, "user item 7", "KEPT", "NO_CANDIDATE", 300_000, 0, 0, 1.0),
        CompactionReport(1, "", "COMMITTED", "", 300_000, 98_000, 5_000, 12.25),
        CompactionReport(2, "user item 9", "KEPT", "LOW_BENEFIT", 300_000, 299_000, 0, 1.0),
    )
    return msgspec.structs.replace(run, steps=steps, compact="auto", compactions=compactions)


def test_format_replays_with_compaction_tells_checkpoints_and_why_bodies_are_over() -> None:
    lines = format_replays([compacted("one"), report("two", 100_000, 100_000)]).splitlines()
    assert [line.split()[-1] for line in lines[:1] + lines[2:4]] == ["compactions", "1", "0"]
    assert lines[5].split() == ["geometric", "mean", "0.500"]
    assert "one: compacted before call 2 (mid-stage): 293.0 KiB to 95.7 KiB, a summary of 5,000 B, 12.2 ms" in lines
    assert "one: compactions that kept the history: NO_CANDIDATE 1, LOW_BENEFIT 1" in lines
    assert "one: bodies sent over the soft limit, and why: LOW_BENEFIT 1, MID_STAGE 1" in lines
    assert not [line for line in lines if line.startswith("two: ") and "over the soft" in line]


def test_format_compactions_of_none_is_empty() -> None:
    assert format_compactions(report("one", 1, 1)) == []


def test_to_json_holds_every_compaction() -> None:
    (run,) = json.loads(to_json([compacted("one")]))["replays"]
    assert (run["compact"], [each["outcome"] for each in run["compactions"]]) == ("auto", ["KEPT", "COMMITTED", "KEPT"])
    assert run["steps"][2]["over_reason"] == "MID_STAGE"


def test_format_reductions_of_none_says_so() -> None:
    assert format_reductions(ReplayReport("x", "f", (), 0, 0, 0, 0, (), 0, 0)) == "none"


def test_cost_ratio_of_no_steps_is_one() -> None:
    assert ReplayReport("x", "f", (), 0, 0, 0, 0, (), 0, 0).cost_ratio == 1.0


def test_format_step_of_a_cut_says_what_it_did() -> None:
    steps = report("one", 1, 1).steps
    assert format_step("one", 1, 3, steps[1]) == (
        "one  2/3  raw 293.0 KiB  sent 95.7 KiB  FITTED  1.2 ms  +7 artifacts  prefix broken"
    )
    assert format_step("one", 0, 3, steps[0]) == "one  1/3  raw 1,000 B  sent 1,000 B  UNCHANGED  1.2 ms"


def test_to_json_holds_every_step() -> None:
    value = json.loads(to_json([report("one", 400_000, 100_000)]))
    assert value["geometric_mean_ratio"] == pytest.approx(0.25)
    (run,) = value["replays"]
    assert run["cost_ratio"] == 0.25
    assert run["steps"][1]["sent"] == {"size_bytes": 98_000, "cached_bytes": 0, "cost": 122_500.0, "broke_prefix": True}
    assert run["totals"][0] == {"kind": "RECENT_RESULT", "count": 3, "saved_bytes": 150_000}


@pytest.mark.parametrize(("name", "magic"), [("plot.png", b"\x89PNG"), ("plot.svg", b"<?xml")])
def test_draw_plot_into_a_file_writes_that_kind(tmp_path: Path, name: str, magic: bytes) -> None:
    path = tmp_path / name
    draw_plot([report("one", 4, 1), report("two", 4, 3)], path)
    assert path.read_bytes().startswith(magic)


def test_draw_plot_as_svg_names_limits_and_ratio(tmp_path: Path) -> None:
    import matplotlib

    path = tmp_path / "plot.svg"
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        draw_plot([report("one", 4, 1)], path)
    text = path.read_text()
    for word in ("raw", "sent", "soft", "target", "0.25 of the raw cost", "prefix breaks: 1"):
        assert word in text


def test_draw_plot_into_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"plot\.pdf ends in neither"):
        draw_plot([], tmp_path / "plot.pdf")


def test_draw_plot_without_matplotlib_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(PlotUnavailableError, match=r"trimtab\[plot\]"):
        draw_plot([], tmp_path / "plot.png")
