"""`trimtab rollback`."""

from __future__ import annotations

import uuid

import click

from sidecar.cli.options import TEXT, reached, session_options, speaking, target_options
from trimtab.stubs import open_stubs
from trimtab.v1 import common_pb2, session_pb2

__all__ = ["rollback"]


@click.command()
@click.option("--checkpoint", "checkpoint_id", required=True, type=TEXT, metavar="ID", help="This one and all later ones go.")
@click.option(
    "--request-id",
    default="",
    type=TEXT,
    metavar="ID",
    help="Repeating a call with the same id answers as the first did. [default: a new one]",
)
@session_options
@target_options
@speaking
def rollback(checkpoint_id: str, request_id: str, session_id: str, scope: str, target: str | None, data_dir: str | None) -> None:
    """Take a checkpoint and all later ones back: the raw items stand in the place of their summaries again.

    \b
    trimtab checkpoints --session s1 --target unix:/run/trimtab/sock
    trimtab rollback --session s1 --checkpoint c2 --target unix:/run/trimtab/sock

    Nothing is deleted: the rollback is a record of its own, and the next fit shows the items. The same range is compacted again
    only with --force-mid-stage, or by a model.
    """
    request = session_pb2.RollbackRequest(
        session=common_pb2.SessionRef(scope=scope, session_id=session_id),
        request_id=request_id or f"cli-{uuid.uuid4()}",
        checkpoint_id=checkpoint_id,
    )
    with reached(target, data_dir) as address, open_stubs(address) as stubs:
        response = stubs.sessions.Rollback(request)
    click.echo(f"taken back: {', '.join(response.checkpoint_ids)}; revision {response.revision}", err=True)
