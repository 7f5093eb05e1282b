"""`trimtab record`."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path

import click

import trimtab
from sidecar.cli.options import FORMATS, TEXT, reached, session_options, speaking, target_options
from trimtab.stubs import open_stubs
from trimtab.v1 import common_pb2, context_pb2

__all__ = ["record"]

_TIMEOUT_S = 120.0


@click.command()
@click.option(
    "--items",
    "items_file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="JSON array of new items, as they will stand in the next body; - for stdin.",
)
@click.option(
    "--first-item", type=click.IntRange(min=0), metavar="N", help="Raw index of the first of them. [default: behind the last]"
)
@click.option(
    "--receipt",
    "receipts",
    multiple=True,
    type=TEXT,
    metavar="CALL=STATE",
    help="What is known of a call: not-started, pending, waiting, settled, failed, unknown. CALL is its id, or ITEM:INDEX.",
)
@click.option("--key", default="", type=TEXT, metavar="TEXT", help="Idempotency key of the receipts.")
@click.option("--detail", default="", type=TEXT, metavar="TEXT", help="Words for people, kept with the receipts.")
@click.option("--format", "dialect", type=click.Choice(FORMATS), help="Dialect of the items, for a session that has none.")
@click.option(
    "--request-id",
    default="",
    type=TEXT,
    metavar="ID",
    help="Repeating a call with the same id answers as the first did. [default: a new one]",
)
@click.option("--expected-revision", type=click.IntRange(min=0), metavar="N", help="Refuse at another revision.")
@session_options
@target_options
@speaking
def record(
    items_file: str | None,
    first_item: int | None,
    receipts: tuple[str, ...],
    key: str,
    detail: str,
    dialect: str | None,
    request_id: str,
    expected_revision: int | None,
    session_id: str,
    scope: str,
    target: str | None,
    data_dir: str | None,
) -> None:
    """Add items and receipts to a session between two model calls; all is durable when it returns.

    \b
    trimtab record --session s1 --receipt call_7=settled --detail "looked it up" --target unix:/run/trimtab/sock
    trimtab record --session s1 --items new.json --target unix:/run/trimtab/sock

    For people, mostly to say how a call ended of which `trimtab recover` knows no outcome. Agents use the client.
    """
    if items_file is None and not receipts:
        raise click.UsageError("give --items or --receipt")
    items = b"" if items_file is None else sys.stdin.buffer.read() if items_file == "-" else Path(items_file).read_bytes()
    request = context_pb2.RecordRequest(
        session=common_pb2.SessionRef(scope=scope, session_id=session_id),
        request_id=request_id or f"cli-{uuid.uuid4()}",
        format=f"FORMAT_{dialect.upper().replace('-', '_')}" if dialect else None,
        items=items,
        first_item_index=first_item,
        receipts=[_receipt(each, key, detail) for each in receipts],
        expected_revision=expected_revision,
    )
    with reached(target, data_dir) as address, open_stubs(address) as stubs:
        response = stubs.context.Record(request, timeout=_TIMEOUT_S)
    click.echo(f"recorded: revision {response.revision}, {response.item_count:,} items", err=True)


def _receipt(given: str, key: str, detail: str) -> common_pb2.Receipt:
    """CALL=STATE; a call id may hold an equals sign or a colon."""
    name, equals, state = given.rpartition("=")
    if not equals:
        raise click.UsageError(f"--receipt is CALL=STATE, not {given!r}")
    item, colon, index = name.rpartition(":")
    place = (int(item), int(index)) if colon and item.isdecimal() and index.isdecimal() else None
    try:
        return trimtab.receipt(place or name, state, idempotency_key=key, detail=detail)
    except ValueError as error:
        raise click.UsageError(f"--receipt {given}: {error}") from None
