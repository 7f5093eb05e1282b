"""`trimtab recover`."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import click
from google.protobuf.json_format import MessageToDict

from sidecar.cli.options import TEXT, reached, session_options, speaking, target_options
from trimtab.stubs import open_stubs
from trimtab.v1 import common_pb2, context_pb2

__all__ = ["recover"]

_TIMEOUT_S = 120.0
_SHOWN_CHARACTERS = 100  # of a text that may be long


@click.command()
@click.option("--body", "body_file", metavar="FILE", help="Write the body as it would be sent now to FILE, - for stdout.")
@click.option("--close-interrupted", is_flag=True, help="Give calls that died an honest result, so that the history is valid.")
@click.option(
    "--request-id",
    default="",
    type=TEXT,
    metavar="ID",
    help="With --close-interrupted: a repeat with the same id answers as the first did. [default: a new one]",
)
@click.option(
    "--expected-revision",
    type=click.IntRange(min=0),
    metavar="N",
    help="With --close-interrupted: refuse at another revision, since another process is then at work.",
)
@click.option("--json", "as_json", is_flag=True, help="All that is known as one JSON object; payloads in base64.")
@session_options
@target_options
@speaking
def recover(
    body_file: str | None,
    close_interrupted: bool,
    request_id: str,
    expected_revision: int | None,
    as_json: bool,
    session_id: str,
    scope: str,
    target: str | None,
    data_dir: str | None,
) -> None:
    """Tell what is durably known of a session, after a crash for instance. No model and no tool is asked.

    \b
    trimtab recover --session s1 --target unix:/run/trimtab/sock
    trimtab recover --session s1 --close-interrupted --body body.json --target unix:/run/trimtab/sock

    It lists each call that has no final result, with what the agent recorded of it (its receipt). Nothing is written unless
    --close-interrupted is given. Then a call that may have been running gets the result "interrupted, the outcome is unknown",
    one that was recorded as not started "not run"; one that waits for a person or a long job stays open, and a result that was
    recorded is the result. A real result that comes later takes the place of such a one.
    """
    if not close_interrupted and (request_id or expected_revision is not None):
        raise click.UsageError("--request-id and --expected-revision go with --close-interrupted")
    request = context_pb2.RecoverRequest(
        session=common_pb2.SessionRef(scope=scope, session_id=session_id),
        include_body=body_file is not None,
        close_interrupted=close_interrupted,
        request_id=(request_id or f"cli-{uuid.uuid4()}") if close_interrupted else "",
        expected_revision=expected_revision,
    )
    with reached(target, data_dir) as address, open_stubs(address) as stubs:
        response = stubs.context.Recover(request, timeout=_TIMEOUT_S)
    to_stdout = body_file == "-"
    if as_json:
        told = MessageToDict(response, preserving_proto_field_name=True)
        if body_file is not None:
            told.pop("body", None)
        click.echo(json.dumps(told), err=to_stdout)
    else:
        click.echo("\n".join(_lines(response)), err=to_stdout)
    if to_stdout:
        sys.stdout.buffer.write(response.body)
        sys.stdout.buffer.flush()
    elif body_file is not None:
        Path(body_file).write_bytes(response.body)


def _lines(response: context_pb2.RecoverResponse) -> Iterator[str]:
    """What people want to know first."""
    dialect = common_pb2.Format.Name(response.format).removeprefix("FORMAT_").lower().replace("_", "-")
    size = f", a body of {response.pressure.total_bytes:,} bytes" if response.HasField("pressure") else ", no body told yet"
    yield f"{dialect}, revision {response.revision}: {response.item_count:,} items{size}, {response.artifact_count:,} artifacts"
    for made in response.checkpoints:
        yield f"  checkpoint {made.checkpoint_id}: {made.before_bytes:,} to {made.after_bytes:,} bytes"
    for attempt in response.attempts:
        state = context_pb2.AttemptState.Name(attempt.state).removeprefix("ATTEMPT_STATE_")
        yield f"  attempt {attempt.attempt_id}: {state}, by {attempt.summarizer}"
    if not response.open_calls:
        yield "  no open calls"
    for each in response.open_calls:
        yield _open_line(each)
    anchors = response.anchors
    if anchors.goal:
        yield f"  goal: {_short(anchors.goal)}"
    for rule in anchors.constraints:
        yield f"  constraint {rule.id}: {_short(rule.text)}{' (revoked)' if rule.revoked else ''}"
    for item in anchors.work:
        yield f"  work {item.id}: {common_pb2.WorkState.Name(item.state).removeprefix('WORK_STATE_')}, {_short(item.text)}"
    for pin in response.pins:
        yield f"  pin: {pin.tool_name or pin.call.call_id}"
    for note in response.notes:
        yield f"  note {note.reason}: {note.message}"


def _open_line(each: context_pb2.OpenCall) -> str:
    state = "no receipt"
    if each.HasField("receipt"):
        state = common_pb2.EffectState.Name(each.receipt.state).removeprefix("EFFECT_STATE_")
        if each.receipt.idempotency_key:
            state += f", key {each.receipt.idempotency_key!r}"
        if each.receipt.detail:
            state += f", {_short(each.receipt.detail)}"
    where = f"item {each.call.item_index}, call {each.call.call_index}"
    closed = "; closed" if each.closed_by else ""
    return f"  open call {each.call.call_id!r} of {each.tool_name!r} ({where}): {state}{closed}"


def _short(text: str) -> str:
    """One line of it."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARACTERS else line[: _SHOWN_CHARACTERS - 3] + "..."
