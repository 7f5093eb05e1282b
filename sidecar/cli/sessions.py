"""`trimtab sessions`."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click
import grpc
from google.protobuf.json_format import MessageToDict

from sidecar.cli.options import TEXT, reached, speaking, target_options
from sidecar.cli.table import table_lines
from trimtab.stubs import Stubs, open_stubs
from trimtab.v1 import common_pb2, session_pb2

__all__ = ["sessions"]

_HEADINGS = ("session", "format", "revision", "items", "raw bytes", "stored bytes", "artifacts", "checkpoints", "last used (UTC)")


@click.command()
@click.argument("session_id", metavar="[SESSION]", required=False, type=TEXT)
@click.option("--scope", default="", type=TEXT, envvar="TRIMTAB_SCOPE", metavar="NAME", help="Scope to look in. [TRIMTAB_SCOPE]")
@click.option("--prefix", default="", type=TEXT, metavar="TEXT", help="Only sessions whose id begins with this.")
@click.option("--delete", is_flag=True, help="Remove SESSION and all that it holds.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@target_options
@speaking
def sessions(
    session_id: str | None, scope: str, prefix: str, delete: bool, as_json: bool, target: str | None, data_dir: str | None
) -> None:
    """List the sessions of a scope, most recently used first; show or delete one.

    \b
    trimtab sessions --target unix:/run/trimtab/sock
    trimtab sessions s1 --delete --target unix:/run/trimtab/sock
    """
    if delete and not session_id:
        raise click.UsageError("--delete needs SESSION")
    with reached(target, data_dir) as address, open_stubs(address) as stubs:
        if delete:
            ref = common_pb2.SessionRef(scope=scope, session_id=session_id)
            existed = stubs.sessions.DeleteSession(session_pb2.DeleteSessionRequest(session=ref)).existed
            click.echo("deleted" if existed else "there was none", err=True)
            return
        found = [_get(stubs, scope, session_id)] if session_id else list(_list(stubs, scope, prefix))
    if as_json:
        for session in found:
            click.echo(json.dumps(MessageToDict(session, preserving_proto_field_name=True)))
        return
    click.echo("\n".join(table_lines(_HEADINGS, map(_row, found), right=range(2, 8))))


def _get(stubs: Stubs[grpc.Channel], scope: str, session_id: str) -> session_pb2.Session:
    ref = common_pb2.SessionRef(scope=scope, session_id=session_id)
    session: session_pb2.Session = stubs.sessions.GetSession(session_pb2.GetSessionRequest(session=ref)).session
    return session


def _list(stubs: Stubs[grpc.Channel], scope: str, prefix: str) -> Iterator[session_pb2.Session]:
    request = session_pb2.ListSessionsRequest(scope=scope, session_id_prefix=prefix)
    while True:
        response = stubs.sessions.ListSessions(request)
        yield from response.sessions
        request.page_token = response.next_page_token
        if not request.page_token:
            return


def _row(session: session_pb2.Session) -> tuple[str, ...]:
    numbers = (
        session.revision,
        session.item_count,
        session.raw_bytes,
        session.stored_bytes,
        session.artifact_count,
        session.checkpoint_count,
    )
    return (
        session.ref.session_id,
        common_pb2.Format.Name(session.format).removeprefix("FORMAT_").lower().replace("_", "-"),
        *(f"{number:,}" for number in numbers),
        session.update_time.ToDatetime().strftime("%Y-%m-%d %H:%M:%S"),
    )
