"""`trimtab check`."""

from __future__ import annotations

import json
from typing import Any

import click

from sidecar.cli.options import config_options, must_be_a_store, resolve

__all__ = ["check"]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@config_options("data_dir", "quota_bytes")
def check(as_json: bool, **flags: Any) -> None:
    """Walk a whole store and prove every digest. Exit code 1 when an error is found.

    No sidecar may hold the folder. Nothing is changed.
    """
    from sidecar.app import STARTUP_ERRORS, check_store

    config = resolve(flags, whole=False).config
    if config.data_dir:
        must_be_a_store(config.data_dir)
    errors = 0
    try:
        for finding in check_store(config):
            errors += finding["level"] == "error"
            if as_json:
                click.echo(json.dumps(finding, default=str))
                continue
            rest = ", ".join(f"{name} {value}" for name, value in finding.items() if name not in ("level", "what", "where"))
            where = f" at {finding['where']}" if finding["where"] else ""
            click.echo(f"{finding['level']}: {finding['what']}{where}{': ' + rest if rest else ''}")
    except STARTUP_ERRORS as error:
        raise click.ClickException(str(error)) from error
    if errors:
        raise click.exceptions.Exit(1)
