"""`trimtab search`."""

from __future__ import annotations

import sys

import click

from sidecar.cli.options import TEXT, reached, session_options, speaking, target_options
from trimtab.stubs import open_stubs
from trimtab.v1 import artifact_pb2, common_pb2

__all__ = ["search"]

_COUNT = click.IntRange(0, (1 << 31) - 1)


@click.command()
@click.argument("pattern", type=TEXT)
@click.option("--regex", is_flag=True, help="PATTERN is a regular expression (RE2), not literal text.")
@click.option("--artifact", "artifact_id", default="", type=TEXT, metavar="ARTIFACT", help="Only in this artifact.")
@click.option(
    "--context", "context_line_count", default=0, type=_COUNT, metavar="N", help="Lines to show before and after each hit."
)
@click.option("--max", "max_count", default=1000, type=_COUNT, metavar="N", help="Stop after so many hits. [default: 1000]")
@session_options
@target_options
@speaking
def search(
    pattern: str,
    regex: bool,
    artifact_id: str,
    context_line_count: int,
    max_count: int,
    session_id: str,
    scope: str,
    target: str | None,
    data_dir: str | None,
) -> None:
    """Search a session's artifacts. Prints ARTIFACT:LINE:BYTE: and the line; both count from 0.

    \b
    trimtab search 'Traceback' --session s1 --target unix:/run/trimtab/sock
    """
    request = artifact_pb2.SearchArtifactsRequest(
        session=common_pb2.SessionRef(scope=scope, session_id=session_id),
        artifact_id=artifact_id,
        context_line_count=context_line_count,
    )
    if regex:
        request.regex = pattern
    else:
        request.literal = pattern
    count = 0
    with reached(target, data_dir) as address, open_stubs(address) as stubs:
        while True:
            response = stubs.artifacts.SearchArtifacts(request)
            for hit in response.hits:
                if count == max_count:
                    click.echo(f"there are more than {max_count} hits; see --max", err=True)
                    return
                count += 1
                head = f"{hit.artifact_id}:{hit.line}:{hit.start}:".encode()
                sys.stdout.buffer.write(head + hit.text.removesuffix(b"\n") + b"\n")
            sys.stdout.buffer.flush()
            request.page_token = response.next_page_token
            if not request.page_token:
                return
