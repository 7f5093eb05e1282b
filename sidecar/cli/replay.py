"""`trimtab replay`."""

from __future__ import annotations

import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import click

from fastpath import MalformedError, scan
from sidecar.cli.options import FORMATS, TEXT, config_options, reached, resolve, speaking
from sidecar.config import READ_BACKS, Resolved
from sidecar.core.errors import FormatAmbiguousError, TrimtabError
from sidecar.core.types import Format, ReadBack
from sidecar.formats import NAMES, adapter, detect
from sidecar.replay.drive import ReplayReport, StepReport, replay_body
from sidecar.replay.report import (
    PLOT_SUFFIXES,
    PlotUnavailableError,
    draw_plot,
    format_replays,
    format_step,
    load_figure,
    to_json,
)
from trimtab.stubs import open_stubs
from trimtab.v1 import common_pb2

__all__ = ["replay"]

_LIMITS = (
    "preset",
    "soft_bytes",
    "target_bytes",
    "hard_bytes",
    "min_saving_bytes",
    "externalize_bytes",
    "keep_unit_count",
    "keep_result_tokens",
    "compact_target_bytes",
    "compact_min_saving_bytes",
    "summary_bytes",
    "window_tokens",
    "reply_tokens",
)
_PLAIN_EVERY = 50  # steps between two lines where there is no terminal
_PLAIN_SECONDS = 1.0  # and at cuts a line at most so often


def _plot_path(ctx: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    """Refused before the run, not after it."""
    if value is None:
        return None
    if value.suffix not in PLOT_SUFFIXES:
        raise click.BadParameter(f"the name must end in {' or '.join(PLOT_SUFFIXES)}")
    try:
        load_figure()
    except PlotUnavailableError as error:
        raise click.ClickException(str(error)) from error
    return value


@click.command()
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--format",
    "dialect",
    type=click.Choice(FORMATS),
    envvar="TRIMTAB_FORMAT",
    help="Dialect of the bodies; found out from each when not given. [TRIMTAB_FORMAT]",
)
@click.option(
    "--read-back",
    default="inject",
    show_default=True,
    type=click.Choice(READ_BACKS),
    envvar="TRIMTAB_READ_BACK",
    help="How the model could read content back. [TRIMTAB_READ_BACK]",
)
@click.option(
    "--read-back-tool-name",
    default="",
    type=TEXT,
    metavar="NAME",
    help="Name of the tool that reads artifacts, where it is not ours.",
)
@click.option("--adopt", is_flag=True, help="The agent keeps the fitted body as its history; without this it keeps the raw one.")
@click.option(
    "--compact",
    "compacting",
    default="off",
    show_default=True,
    type=click.Choice(["off", "auto"]),
    help="auto: compact where a stage ends and Fit says OVER, or where a body must not be sent; by ledger, no model is asked.",
)
@click.option(
    "--stage-tool",
    "stage_tools",
    multiple=True,
    type=TEXT,
    metavar="NAME",
    help="With --compact auto: a call of this tool ends a stage, as a user item does; may be given more than once.",
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=_plot_path,
    metavar="FILE",
    help="Draw the size of each body, raw against sent, into a .png or .svg file.",
)
@click.option(
    "--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write every figure as JSON."
)
@click.option(
    "--target",
    envvar="TRIMTAB_TARGET",
    metavar="ADDRESS",
    help="A running sidecar; the sessions stay there. Without it one is started in this process, on a store that is thrown away. "
    "[TRIMTAB_TARGET]",
)
@config_options(*_LIMITS)
@speaking
def replay(
    files: tuple[Path, ...],
    dialect: str | None,
    read_back: str,
    read_back_tool_name: str,
    adopt: bool,
    compacting: str,
    stage_tools: tuple[str, ...],
    plot: Path | None,
    json_path: Path | None,
    target: str | None,
    **flags: Any,
) -> None:
    """Drive recorded bodies through a sidecar, step by step, and tell what that would have cost.

    \b
    trimtab replay session.json --plot load.png
    trimtab replay runs/*.json --preset minimal --json minimal.json
    trimtab replay runs/*.json --compact auto --stage-tool TodoWrite

    A FILE is the last request body of a run. From it come all the bodies that the agent had sent on its way there, one before
    each model answer, byte for byte. Each goes through Fit; what comes back is compared with the body sent before it: bytes in
    the longest common prefix cost 0.1, all others 1.25, which is what a provider with a prompt cache charges. The table sets
    that against sending every body raw.
    """
    if stage_tools and compacting == "off":
        raise click.UsageError("--stage-tool needs --compact auto")
    limits = _limits(resolve(flags, whole=False))
    bodies = [(path, *_read(path, dialect)) for path in files]
    reports: list[ReplayReport] = []
    with _sidecar(target) as address, open_stubs(address) as stubs:
        for path, body, format in bodies:
            name = path.name.encode(errors="replace").decode()  # a file's name need not be text
            progress = _Progress(name)
            report = replay_body(
                stubs.context,
                common_pb2.SessionRef(session_id=f"replay-{uuid.uuid4().hex[:12]}-{Path(name).stem[:32]}"),
                body,
                adapter(format),
                read_back=ReadBack[read_back.upper()],
                read_back_tool_name=read_back_tool_name,
                limits=limits,
                adopt=adopt,
                compact=compacting == "auto",
                stage_tools=stage_tools,
                name=name,
                on_step=progress.step,
            )
            progress.end(report)
            reports.append(report)
    click.echo(format_replays(reports))
    if json_path is not None:
        json_path.write_bytes(to_json(reports))
    if plot is not None:
        draw_plot(reports, plot)


def _limits(resolved: Resolved) -> common_pb2.Limits:
    """Limits that somebody gave, by flag, variable or file; a sidecar keeps its own for the rest."""
    limits = common_pb2.Limits()
    for name in _LIMITS:
        if resolved.origins[name] == "default":
            continue
        value = getattr(resolved.config, name)
        setattr(limits, name, common_pb2.Preset.Value(f"PRESET_{value.upper()}") if name == "preset" else value)
    return limits


def _read(path: Path, dialect: str | None) -> tuple[bytes, Format]:
    """A file's body and its dialect, known to be there and readable before anything is started."""
    body = path.read_bytes()
    try:
        format = detect(body) if dialect is None else next(number for number, name in NAMES.items() if name == dialect)
        scan(body, adapter(format).grammar)
    except MalformedError as error:
        raise click.ClickException(f"{path}: {error}") from error
    except TrimtabError as error:
        told = f"{error.message}; say which with --format" if isinstance(error, FormatAmbiguousError) else str(error)
        raise click.ClickException(f"{path}: {told}") from error
    return body, format


@contextmanager
def _sidecar(target: str | None) -> Iterator[str]:
    if target:
        yield target
        return
    with (
        tempfile.TemporaryDirectory(prefix="trimtab-") as scratch,
        reached(None, str(Path(scratch, "store")), make=True) as address,
    ):
        yield address


class _Progress:
    """Says on stderr how far a replay is: one line that changes on a terminal, a line now and then elsewhere."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._live = sys.stderr.isatty()
        self._told_at = -_PLAIN_SECONDS

    def step(self, index: int, step_count: int, step: StepReport) -> None:
        """After each step."""
        line = format_step(self._name, index, step_count, step)
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r{line[:width].ljust(width)}")
            sys.stderr.flush()
        elif index % _PLAIN_EVERY == 0 or (
            (step.artifact_count or step.sent.broke_prefix) and monotonic() - self._told_at >= _PLAIN_SECONDS
        ):
            self._told_at = monotonic()
            click.echo(line, err=True)

    def end(self, report: ReplayReport) -> None:
        """After the last step."""
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write("\r" + " " * width + "\r")
        made = sum(step.artifact_count for step in report.steps)
        told = f"{len(report.steps)} steps, {made:,} artifacts, {report.cost_ratio:.3f} of the raw cost"
        click.echo(f"{self._name}: {told}", err=True)
