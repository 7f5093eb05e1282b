"""`trimtab compact`."""

from __future__ import annotations

import json
import sys
import uuid

import click
from google.protobuf.json_format import MessageToDict

from sidecar.cli.options import TEXT, next_command, reached, session_options, size_of, speaking, target_options
from trimtab.stubs import open_stubs
from trimtab.v1 import common_pb2, context_pb2

__all__ = ["compact"]

_TIMEOUT_S = 300.0  # a model may be asked


@click.command()
@click.option("--boundary", default="", type=TEXT, metavar="STAGE", help="The stage that just ended.")
@click.option("--force-mid-stage", is_flag=True, help="Compact although no stage ended.")
@click.option("--ignore-pressure", is_flag=True, help="Compact although the body is under its limit.")
@click.option(
    "--summarizer",
    type=click.Choice(["ledger", "caller", "model"]),
    help="Who writes the summary: the records alone, you (see below), or the sidecar's model. [default: the sidecar's]",
)
@click.option(
    "--mode",
    type=click.Choice(["extend", "rederive"]),
    help="Cover what no live checkpoint covers, or everything anew. [default: extend]",
)
@click.option("--focus", default="", type=TEXT, metavar="TEXT", help="What the summary should pay attention to.")
@click.option("--soft-bytes", metavar="SIZE", callback=size_of, help="Compact only when the body is larger than this.")
@click.option("--compact-target-bytes", metavar="SIZE", callback=size_of, help="Compact down to this.")
@click.option("--summary-bytes", metavar="SIZE", callback=size_of, help="The longest summary, anchors and requests apart.")
@click.option("--dry-run", is_flag=True, help="Plan and measure only; nothing is written, no model is asked.")
@click.option("--include-body", is_flag=True, help="Write the body as it would be sent now to stdout.")
@click.option(
    "--request-id",
    default="",
    type=TEXT,
    metavar="ID",
    help="Repeating a call with the same id answers as the first did. [default: a new one]",
)
@click.option(
    "--finish", "attempt_id", default="", type=TEXT, metavar="ATTEMPT", help="End a PLANNED attempt instead; see below."
)
@click.option("--failed", type=TEXT, metavar="WHY", help="With --finish: the model was not asked, or refused.")
@click.option("--unknown", type=TEXT, metavar="WHY", help="With --finish: nobody can say whether the model was asked.")
@click.option("--json", "as_json", is_flag=True, help="The whole answer as one JSON object on stdout; payloads in base64.")
@session_options
@target_options
@speaking
def compact(
    boundary: str,
    force_mid_stage: bool,
    ignore_pressure: bool,
    summarizer: str | None,
    mode: str | None,
    focus: str,
    soft_bytes: int | None,
    compact_target_bytes: int | None,
    summary_bytes: int | None,
    dry_run: bool,
    include_body: bool,
    request_id: str,
    attempt_id: str,
    failed: str | None,
    unknown: str | None,
    as_json: bool,
    session_id: str,
    scope: str,
    target: str | None,
    data_dir: str | None,
) -> None:
    """Replace a session's older settled work by a summary, bound to a checkpoint that can be taken back.

    \b
    trimtab compact --session s1 --boundary "step 12" --target unix:/run/trimtab/sock
    trimtab compact --session s1 --boundary now --ignore-pressure --dry-run --target unix:/run/trimtab/sock < body.json

    The session is one that `fit` knows. A body on stdin is taken as its newest; with nothing on stdin, the history stands as the
    session has it. What came of it is told on stderr: COMMITTED; KEPT, with the reason why the history stays; UNKNOWN, exit code
    1. The next fit of the history, raw or adopted, has the summary in it. `trimtab rollback` takes it back.

    With --summarizer caller the answer is PLANNED: the request for your own model comes out on stdout. Send it, then hand in the
    provider's response:

    \b
    trimtab compact --session s1 --boundary "step 12" --summarizer caller --request-id step-12 > request.json
    trimtab compact --session s1 --finish step-12 < response.json
    """
    if not attempt_id and (failed is not None or unknown is not None):
        raise click.UsageError("--failed and --unknown need --finish")
    if failed is not None and unknown is not None:
        raise click.UsageError("give --failed or --unknown, not both")
    ref = common_pb2.SessionRef(scope=scope, session_id=session_id)
    request: context_pb2.CompactRequest | context_pb2.FinishCompactRequest
    if attempt_id:
        request = context_pb2.FinishCompactRequest(session=ref, attempt_id=attempt_id, include_body=include_body)
        if failed is not None:
            request.failed = failed
        elif unknown is not None:
            request.unknown = unknown
        else:
            request.response = _stdin()
    else:
        request = context_pb2.CompactRequest(
            session=ref,
            request_id=request_id or f"cli-{uuid.uuid4()}",
            body=_stdin(),
            boundary=boundary,
            force_mid_stage=force_mid_stage,
            ignore_pressure=ignore_pressure,
            mode=f"COMPACT_MODE_{mode.upper()}" if mode else None,
            summarizer=f"SUMMARIZER_{summarizer.upper()}" if summarizer else None,
            focus=focus,
            dry_run=dry_run,
            include_body=include_body,
        )
        limits = {"soft_bytes": soft_bytes, "compact_target_bytes": compact_target_bytes, "summary_bytes": summary_bytes}
        for name, value in limits.items():
            if value is not None:
                setattr(request.limits, name, value)
    with reached(target, data_dir) as address, open_stubs(address) as stubs:
        if isinstance(request, context_pb2.FinishCompactRequest):
            response = stubs.context.FinishCompact(request, timeout=_TIMEOUT_S).compact
        else:
            response = stubs.context.Compact(request, timeout=_TIMEOUT_S)
    finish = next_command("compact", session_id, scope, target, data_dir, "--finish", response.attempt.attempt_id)
    click.echo(_summary(response, finish), err=True)
    if as_json:
        click.echo(json.dumps(MessageToDict(response, preserving_proto_field_name=True)))
    else:
        sys.stdout.buffer.write(response.summary_request or response.body)
        sys.stdout.buffer.flush()
    if response.outcome == context_pb2.COMPACT_OUTCOME_UNKNOWN:
        raise click.exceptions.Exit(1)


def _stdin() -> bytes:
    """What was piped in; nothing where a person sits."""
    return b"" if sys.stdin.isatty() else sys.stdin.buffer.read()


def _summary(response: context_pb2.CompactResponse, finish: str) -> str:
    """A few lines for people."""
    outcome = context_pb2.CompactOutcome.Name(response.outcome).removeprefix("COMPACT_OUTCOME_")
    if response.kept_reason:
        outcome += ", " + context_pb2.KeptReason.Name(response.kept_reason).removeprefix("KEPT_REASON_")
    lines = [outcome + (f": {response.detail}" if response.detail else "")]
    if response.HasField("before"):
        after = f", {response.after.total_bytes:,} after" if response.HasField("after") else ""
        lines.append(f"  {response.before.total_bytes:,} bytes before{after}; revision {response.revision}")
    if response.HasField("checkpoint"):
        made = response.checkpoint
        items = sum(each.end - each.start for each in made.items)
        lines.append(f"  checkpoint {made.checkpoint_id}: {items:,} items, a summary of {len(made.summary):,} bytes")
    if response.HasField("attempt"):
        state = context_pb2.AttemptState.Name(response.attempt.state).removeprefix("ATTEMPT_STATE_")
        lines.append(f"  attempt {response.attempt.attempt_id}: {state}, by {response.attempt.summarizer}")
    if response.outcome == context_pb2.COMPACT_OUTCOME_PLANNED:
        size = len(response.summary_request)
        lines.append(f"  send the {size:,} bytes on stdout to your model, then hand in its response:")
        lines.append(f"    {finish} < response.json")
    lines += [f"  note {note.reason}: {note.message}" for note in response.notes]
    return "\n".join(lines)
