"""`trimtab version`."""

from __future__ import annotations

import click

__all__ = ["version"]


@click.command()
def version() -> None:
    """Print versions of trimtab and of what it runs on; fastpath is the scanner in use."""
    from sidecar.app import versions

    for name, text in versions().items():
        click.echo(f"{name} {text}")
