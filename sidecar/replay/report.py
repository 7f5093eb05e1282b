"""What a replay is told as: a line a step, a table, JSON, a plot. Text and files only; nothing is decided here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from sidecar.replay.cost import geometric_mean
from sidecar.replay.drive import ReplayReport, StepReport
from sidecar.replay.table import format_bytes, format_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "PLOT_SUFFIXES",
    "load_figure",
    "PlotUnavailableError",
    "draw_plot",
    "format_compactions",
    "format_reductions",
    "format_replays",
    "format_step",
    "to_json",
]


PLOT_SUFFIXES = (".png", ".svg")


class PlotUnavailableError(Exception):
    """The library that draws is not installed."""


def format_step(name: str, index: int, step_count: int, step: StepReport) -> str:
    """One line about a step; fits 100 columns when the name is short."""
    marks = "  prefix broken" if step.sent.broke_prefix else ""
    if step.artifact_count:
        marks = f"  +{step.artifact_count} artifacts{marks}"
    return (
        f"{name}  {index + 1}/{step_count}  raw {format_bytes(step.raw.size_bytes)}  sent {format_bytes(step.sent.size_bytes)}"
        f"  {step.outcome}  {step.fit_ms:.1f} ms{marks}"
    )


def format_reductions(report: ReplayReport) -> str:
    """Reductions in the last body, by kind: "result 31, arguments 12"; "none"."""
    return ", ".join(f"{total.kind.lower().replace('_', ' ')} {total.count}" for total in report.totals) or "none"


def format_compactions(report: ReplayReport) -> list[str]:
    """A line for each checkpoint, and one for what kept the history."""
    made = [each for each in report.compactions if each.outcome == "COMMITTED"]
    lines = [
        f"{report.name}: compacted before call {each.step + 1} ({each.boundary or 'mid-stage'}): "
        f"{format_bytes(each.before_bytes)} to {format_bytes(each.after_bytes)}, "
        f"a summary of {format_bytes(each.summary_bytes)}, {each.compact_ms:.1f} ms"
        for each in made
    ]
    kept = _counts(each.kept_reason or each.outcome for each in report.compactions if each.outcome != "COMMITTED")
    if kept:
        lines.append(f"{report.name}: compactions that kept the history: {kept}")
    return lines


def _counts(reasons: Iterable[str]) -> str:
    """Each reason with how often, the most frequent first: "MID_STAGE 31, LOW_BENEFIT 2"."""
    return ", ".join(f"{reason} {count}" for reason, count in Counter(reasons).most_common())


def format_replays(reports: Sequence[ReplayReport]) -> str:
    """The table at the end, and what its columns mean."""
    head: tuple[str, ...] = ("file", "steps", "raw max", "sent max", "cost raw", "cost sent", "ratio", "breaks", "artifacts")
    rows: list[tuple[str, ...]] = [
        (
            report.name,
            f"{len(report.steps):,}",
            format_bytes(report.raw_bytes),
            format_bytes(report.sent_bytes),
            format_bytes(round(report.raw_cost)),
            format_bytes(round(report.sent_cost)),
            f"{report.cost_ratio:.3f}",
            f"{report.sent_break_count}",
            f"{report.artifact_count}",
        )
        for report in reports
    ]
    foot: tuple[str, ...] = (
        "geometric mean",
        "",
        "",
        "",
        "",
        "",
        f"{geometric_mean(report.cost_ratio for report in reports):.3f}",
        "",
        "",
    )
    if any(report.compact != "off" for report in reports):
        head, foot = (*head, "compactions"), (*foot, "")
        rows = [(*row, f"{report.checkpoint_count}") for row, report in zip(rows, reports, strict=True)]
    lines = [format_table(head, rows, foot), ""]
    lines += [f"{report.name}: reductions in the last body: {format_reductions(report)}" for report in reports]
    for report in reports:
        lines += format_compactions(report)
        over = _counts(step.over_reason for step in report.steps if step.over_reason)
        if over:
            lines.append(f"{report.name}: bodies sent over the soft limit, and why: {over}")
    lines += [f"{report.name}: {report.refused_count} bodies over a hard limit" for report in reports if report.refused_count]
    lines += [
        "",
        "cost: bytes in the longest common prefix with the body sent before at 0.1, all others at 1.25 (prompt-cache prices).",
        "breaks: steps at which bytes that had been sent before changed; sending raw has none.",
    ]
    return "\n".join(lines)


def to_json(reports: Sequence[ReplayReport]) -> bytes:
    """Everything, as indented JSON: {"geometric_mean_ratio": ..., "replays": [...]}."""
    value = {
        "geometric_mean_ratio": geometric_mean(report.cost_ratio for report in reports),
        "replays": [
            {"cost_ratio": report.cost_ratio, **{field: getattr(report, field) for field in report.__struct_fields__}}
            for report in reports
        ],
    }
    return msgspec.json.format(msgspec.json.encode(msgspec.to_builtins(value)), indent=1) + b"\n"


def load_figure() -> type[Figure]:
    """The class that draws, imported when it is wanted. Raises PlotUnavailableError."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PlotUnavailableError("plots need matplotlib: pip install 'trimtab[plot]'") from error
    return Figure


def draw_plot(reports: Sequence[ReplayReport], path: Path) -> None:
    """Draw the context load of each run, raw against sent, step by step, into a PNG or SVG file.

    Raises:
        PlotUnavailableError: matplotlib is not installed.
        ValueError: the file's name ends in neither .png nor .svg.
    """
    if path.suffix not in PLOT_SUFFIXES:
        raise ValueError(f"{path.name} ends in neither {' nor '.join(PLOT_SUFFIXES)}")
    figure = load_figure()(figsize=(9, 3.2 * max(len(reports), 1)), layout="constrained")
    axes = figure.subplots(max(len(reports), 1), 1, squeeze=False)
    for axis, report in zip(axes[:, 0], reports, strict=False):
        numbers = range(1, len(report.steps) + 1)
        axis.plot(
            numbers, [step.raw.size_bytes / 1024 for step in report.steps], color="#b04a3a", label="raw", drawstyle="steps-post"
        )
        axis.plot(
            numbers, [step.sent.size_bytes / 1024 for step in report.steps], color="#23618e", label="sent", drawstyle="steps-post"
        )
        for limit, word in ((report.soft_bytes, "soft"), (report.target_bytes, "target")):
            if limit:
                axis.axhline(limit / 1024, color="#777777", linewidth=0.8, linestyle="--" if word == "soft" else ":", label=word)
        axis.set_title(
            f"{report.name}: {report.cost_ratio:.2f} of the raw cost, prefix breaks: {report.sent_break_count}", fontsize=10
        )
        axis.set_ylabel("body, KiB")
        axis.set_ylim(bottom=0)
        axis.legend(loc="upper left", fontsize=8)
    axes[-1, 0].set_xlabel("model call")
    # Without the date and the version, the same run gives the same file.
    figure.savefig(path, dpi=130, metadata={"Software": None} if path.suffix == ".png" else {"Date": None})
