"""`trimtab retain`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import click

from sidecar.cli.options import config_options, resolve, startup_failure, store_folder
from sidecar.cli.table import table_lines

__all__ = ["retain"]

_HEADINGS = ("scope", "session", "reason", "stored bytes", "last used (UTC)")


@click.command()
@click.option("--dry-run", is_flag=True, help="Say what would go; remove nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line: sessions, then a count.")
@config_options("data_dir", "retain_age_s", "retain_scope_bytes", "retain_total_bytes")
def retain(dry_run: bool, as_json: bool, **flags: Any) -> None:
    """Remove whole sessions, the longest unused first, until a store is within bounds.

    \b
    trimtab retain --data-dir /var/lib/trimtab --retain-age-s 30d --retain-total-bytes 4GiB --dry-run

    No sidecar may hold the folder: one that serves does the same by itself, with the same options, and leaves sessions in use
    alone. Age is judged first, then the bytes of each scope, then of all. What is removed is gone for good.
    """
    from sidecar.app import STARTUP_ERRORS, retain_store

    config = resolve(flags, whole=False).config
    if config.retain_age_s is None and config.retain_scope_bytes is None and config.retain_total_bytes is None:
        raise click.UsageError("give a bound: --retain-age-s, --retain-scope-bytes or --retain-total-bytes")
    store_folder(config)
    try:
        report = retain_store(config, dry_run=dry_run)
    except STARTUP_ERRORS as error:
        raise startup_failure(error) from error
    if as_json:
        for one in report.removed:
            names = {"scope": one.key.scope, "session_id": one.key.session_id, "reason": one.reason.value}
            click.echo(json.dumps({**names, "stored_bytes": one.stored_bytes, "last_ms": one.last_ms}))
        counts = {"removed_session_count": len(report.removed), "removed_bytes": report.removed_bytes}
        kept = {"kept_session_count": report.kept_count, "kept_bytes": report.kept_bytes}
        click.echo(json.dumps({"dry_run": dry_run, **counts, **kept}))
        return
    if report.removed:
        rows = [
            (one.key.scope, one.key.session_id, one.reason.value, f"{one.stored_bytes:,}", _time(one.last_ms))
            for one in report.removed
        ]
        click.echo("\n".join(table_lines(_HEADINGS, rows, right=(3,))))
    done = "would be removed" if dry_run else "were removed"
    text = f"{len(report.removed)} sessions with {report.removed_bytes:,} bytes {done}; "
    click.echo(f"{text}{report.kept_count} with {report.kept_bytes:,} bytes stay", err=True)


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
