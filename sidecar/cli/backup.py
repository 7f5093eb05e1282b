"""`trimtab backup`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from sidecar.cli.options import config_options, resolve, startup_failure, store_folder
from sidecar.cli.progress import Progress

__all__ = ["backup"]


@click.command()
@click.argument("target", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a sentence.")
@config_options("data_dir")
def backup(target: Path, as_json: bool, **flags: Any) -> None:
    """Copy a store to DIR, which is empty or not there yet, and prove every digest of the copy.

    \b
    trimtab backup /backup/monday --data-dir /var/lib/trimtab

    A sidecar may serve from the folder meanwhile: all that it acknowledged before the copy began is in it. Run this on the same
    machine as the sidecar, and as the same user. DIR becomes a store only once the copy is whole and proven; when it fails,
    nothing is left. To restore, start `trimtab serve` with DIR as its --data-dir, or move DIR to where the old folder was.
    """
    from sidecar.app import STARTUP_ERRORS, backup_store

    config = resolve(flags, whole=False).config
    store_folder(config)
    try:
        with Progress() as progress:
            size_bytes, counts = backup_store(config, target, progress.tell)
    except STARTUP_ERRORS as error:
        raise startup_failure(error) from error
    if as_json:
        click.echo(json.dumps({"dir": os.fspath(target), "size_bytes": size_bytes, **counts}))
        return
    sessions, artifacts = counts["session_count"], counts["artifact_count"]
    click.echo(f"copied and proven: {sessions} sessions, {artifacts} artifacts, {size_bytes:,} bytes in {target}")
