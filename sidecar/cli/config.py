"""`trimtab config`."""

from __future__ import annotations

from typing import Any

import click

from sidecar.cli.options import config_options, resolve
from sidecar.config import to_toml, unknown_variables

__all__ = ["config"]


@click.command()
@click.option(
    "--check",
    is_flag=True,
    help="Print nothing when all is well; exit with 2 when it is not. That listen and data_dir are set is for serve to ask.",
)
@config_options()
def config(check: bool, **flags: Any) -> None:
    """Print the options in force as TOML, each with where its value comes from.

    Takes all flags of `serve`. The output is a file that --config takes.
    """
    resolved = resolve(flags)
    for name in unknown_variables():
        click.echo(f"warning: no option reads the variable {name}", err=True)
    if not check:
        click.echo(to_toml(resolved), nl=False)
