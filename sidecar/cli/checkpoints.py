"""`trimtab checkpoints`."""

from __future__ import annotations

import json
import sys

import click
import grpc
from google.protobuf.json_format import MessageToDict

from sidecar.cli.options import TEXT, reached, session_options, speaking, target_options
from sidecar.cli.table import table_lines
from trimtab.stubs import Stubs, open_stubs
from trimtab.v1 import common_pb2, session_pb2

__all__ = ["checkpoints"]

_HEADINGS = ("checkpoint", "state", "revision", "items", "before", "after", "summary", "by", "boundary", "made (UTC)")


@click.command()
@click.option(
    "--show", "checkpoint_id", default="", type=TEXT, metavar="ID", help="Print the summary of one, as it stands in the body."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, summaries in base64.")
@session_options
@target_options
@speaking
def checkpoints(checkpoint_id: str, as_json: bool, session_id: str, scope: str, target: str | None, data_dir: str | None) -> None:
    """List a session's checkpoints, oldest first: what was replaced by a summary, and what that saved.

    \b
    trimtab checkpoints --session s1 --target unix:/run/trimtab/sock
    trimtab checkpoints --session s1 --show c2 --target unix:/run/trimtab/sock

    A live one is at work; one that is not was taken back, or superseded by a later one. Items are raw items of the history, from
    0; sizes are of the whole body in bytes, before and after it was made.
    """
    with reached(target, data_dir) as address, open_stubs(address) as stubs:
        found = _list(stubs, common_pb2.SessionRef(scope=scope, session_id=session_id))
    if checkpoint_id:
        found = [each for each in found if each.checkpoint_id == checkpoint_id]
        if not found:
            raise click.ClickException(f"the session has no checkpoint {checkpoint_id}")
    if as_json:
        for each in found:
            click.echo(json.dumps(MessageToDict(each, preserving_proto_field_name=True)))
    elif checkpoint_id:
        sys.stdout.buffer.write(found[0].summary.rstrip(b"\n") + b"\n")
        sys.stdout.buffer.flush()
    else:
        click.echo("\n".join(table_lines(_HEADINGS, map(_row, found), right=range(2, 7))))


def _list(stubs: Stubs[grpc.Channel], ref: common_pb2.SessionRef) -> list[common_pb2.Checkpoint]:
    request = session_pb2.ListCheckpointsRequest(session=ref)
    found: list[common_pb2.Checkpoint] = []
    while True:
        response = stubs.sessions.ListCheckpoints(request)
        found += response.checkpoints
        request.page_token = response.next_page_token
        if not request.page_token:
            return found


def _row(made: common_pb2.Checkpoint) -> tuple[str, ...]:
    numbers = (made.before_bytes, made.after_bytes, len(made.summary))
    return (
        made.checkpoint_id,
        "live" if made.live else "-",
        f"{made.revision:,}",
        ",".join(f"{each.start}-{each.end - 1}" for each in made.items),
        *(f"{number:,}" for number in numbers),
        f"{made.summarizer} {made.model}".rstrip(),
        " ".join(made.boundary.split())[:40] or "-",
        made.create_time.ToDatetime().strftime("%Y-%m-%d %H:%M:%S"),
    )
