"""`trimtab check`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from sidecar.cli.options import config_options, resolve, startup_failure, store_folder
from sidecar.cli.progress import Progress

__all__ = ["check"]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@config_options("data_dir")
def check(as_json: bool, **flags: Any) -> None:
    """Walk a whole store and prove every digest. Exit code 1 when an error is found.

    \b
    trimtab check --data-dir /var/lib/trimtab

    A sidecar may serve from the folder meanwhile; nothing is changed. Levels: error (damaged or missing), warning (values that
    nothing can reach: they only take room), info (sessions that are on their way out, and the count at the end).
    """
    from sidecar.app import STARTUP_ERRORS, check_store

    config = resolve(flags, whole=False).config
    store_folder(config)
    errors = 0
    try:
        with Progress() as progress:
            for finding in check_store(config, progress.tell):
                errors += finding["level"] == "error"
                progress.clear()
                click.echo(json.dumps(finding, default=str) if as_json else _line(finding))
    except STARTUP_ERRORS as error:
        raise startup_failure(error) from error
    if errors:
        raise click.exceptions.Exit(1)


def _line(finding: Mapping[str, object]) -> str:
    rest = ", ".join(f"{name} {value}" for name, value in finding.items() if name not in ("level", "what", "where"))
    where = f" at {finding['where']}" if finding["where"] else ""
    return f"{finding['level']}: {finding['what']}{where}{': ' + rest if rest else ''}"
