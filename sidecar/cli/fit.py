"""`trimtab fit`."""

from __future__ import annotations

import sys
from collections import Counter

import click

import trimtab
from sidecar.cli.options import FORMATS, next_command, reached, session_options, size_of, speaking, target_options
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
@click.option("--verbose", "-v", is_flag=True, help="List every artifact, blocker and note on stderr, not their counts.")
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
    verbose: bool,
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
    first = [each.artifact_id for each in response.artifacts[:1]]
    read = "" if dry_run else next_command("read", session_id, scope, target, data_dir, *first)
    click.echo(_summary(response, read, verbose=verbose), err=True)
    if response.outcome == context_pb2.FIT_OUTCOME_CANNOT_FIT:
        raise trimtab.CannotFitError(response)
    if not dry_run:
        sys.stdout.buffer.write(response.body or body)
        sys.stdout.buffer.flush()


def _summary(response: context_pb2.FitResponse, read: str, *, verbose: bool) -> str:
    """For people: a few lines, or, when they asked for it, all there is. `read` reads the first artifact."""
    before, after = response.before.total_bytes, response.after.total_bytes
    outcome = context_pb2.FitOutcome.Name(response.outcome).removeprefix("FIT_OUTCOME_")
    lines = [f"{outcome}: {before:,} bytes in, {after:,} bytes out; revision {response.revision}"]
    for total in response.totals:
        kind = context_pb2.ReductionKind.Name(total.kind).removeprefix("REDUCTION_KIND_").lower()
        lines.append(f"  {total.count:,} x {kind}: {total.saved_bytes:,} bytes")
    artifacts, blockers = response.artifacts, response.blockers
    if verbose:
        lines += [
            f"  artifact {each.artifact_id}: {each.size_bytes:,} bytes, {each.tool_name or 'no tool'}" for each in artifacts
        ]
        lines += [f"  in the way: item {each.item_index}, {each.reason}, {each.size_bytes:,} bytes" for each in blockers]
        lines += [f"  note {note.reason}: {note.message}" for note in response.notes]
        return "\n".join(lines)
    if artifacts:
        size = sum(each.size_bytes for each in artifacts)
        lines.append(f"  new artifacts: {len(artifacts):,} of {size:,} bytes{'; to read one: ' + read if read else ''}")
    counts = Counter(each.reason for each in blockers)
    for reason, count in counts.most_common():
        size = sum(each.size_bytes for each in blockers if each.reason == reason)
        lines.append(f"  in the way: {count:,} x {reason}, {size:,} bytes")
    noted = Counter(note.reason for note in response.notes)
    for note in {note.reason: note for note in reversed(response.notes)}.values():
        more = f" (and {noted[note.reason] - 1:,} more)" if noted[note.reason] > 1 else ""
        lines.append(f"  note {note.reason}: {note.message}{more}")
    if len(artifacts) > 1 or len(blockers) > len(counts) or len(response.notes) > len(noted):
        lines.append("  --verbose lists them all")
    return "\n".join(lines)
