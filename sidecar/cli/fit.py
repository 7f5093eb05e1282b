"""`trimtab fit`."""

from __future__ import annotations

import sys

import click

import trimtab
from sidecar.cli.options import FORMATS, reached, session_options, size_of, speaking, target_options
from sidecar.config import READ_BACKS
from trimtab.v1 import context_pb2

__all__ = ["fit"]


@click.command()
@click.option(
    "--format",
    "dialect",
    required=True,
    type=click.Choice(FORMATS),
    envvar="TRIMTAB_FORMAT",
    help="Dialect of the body. [TRIMTAB_FORMAT]",
)
@click.option(
    "--read-back",
    required=True,
    type=click.Choice(READ_BACKS),
    envvar="TRIMTAB_READ_BACK",
    help="How the model reads content back. [TRIMTAB_READ_BACK]",
)
@click.option("--soft-bytes", metavar="SIZE", callback=size_of, help="Cut only when the body is larger than this.")
@click.option("--target-bytes", metavar="SIZE", callback=size_of, help="Cut down to this.")
@click.option("--hard-bytes", metavar="SIZE", callback=size_of, help="A body larger than this must not be sent.")
@click.option("--dry-run", is_flag=True, help="Plan and measure only; nothing is written, no body comes out.")
@session_options
@target_options
@speaking
def fit(
    dialect: str,
    read_back: str,
    soft_bytes: int | None,
    target_bytes: int | None,
    hard_bytes: int | None,
    dry_run: bool,
    session_id: str,
    scope: str,
    target: str | None,
    data_dir: str | None,
) -> None:
    """Fit one body: from stdin to stdout, with a summary on stderr.

    \b
    trimtab fit --format openai-chat --session s1 --read-back inject --data-dir ./store < body.json > fitted.json

    An unchanged body comes out byte for byte. A body that must not be sent (CANNOT_FIT) does not come out; exit code 1.
    """
    body = sys.stdin.buffer.read()
    limits = trimtab.Limits()
    if soft_bytes is not None:
        limits["soft_bytes"] = soft_bytes
    if target_bytes is not None:
        limits["target_bytes"] = target_bytes
    if hard_bytes is not None:
        limits["hard_bytes"] = hard_bytes
    with (
        reached(target, data_dir, make=True) as address,
        trimtab.connect(address, format=dialect, read_back=read_back, scope=scope, timeout=120.0, **limits) as client,
    ):
        response = client.fit_response(session_id, body, dry_run=dry_run)
    click.echo(_summary(response), err=True)
    if response.outcome == context_pb2.FIT_OUTCOME_CANNOT_FIT:
        raise trimtab.CannotFitError(response)
    if not dry_run:
        sys.stdout.buffer.write(response.body or body)
        sys.stdout.buffer.flush()


def _summary(response: context_pb2.FitResponse) -> str:
    """A few lines for people."""
    before, after = response.before.total_bytes, response.after.total_bytes
    outcome = context_pb2.FitOutcome.Name(response.outcome).removeprefix("FIT_OUTCOME_")
    lines = [f"{outcome}: {before:,} bytes in, {after:,} bytes out; revision {response.revision}"]
    for total in response.totals:
        kind = context_pb2.ReductionKind.Name(total.kind).removeprefix("REDUCTION_KIND_").lower()
        lines.append(f"  {total.count:,} x {kind}: {total.saved_bytes:,} bytes")
    lines += [f"  artifact {artifact.artifact_id}: {artifact.size_bytes:,} bytes" for artifact in response.artifacts]
    lines += [f"  in the way: {blocker.reason}, {blocker.size_bytes:,} bytes" for blocker in response.blockers]
    lines += [f"  note {note.reason}: {note.message}" for note in response.notes]
    return "\n".join(lines)
