"""`trimtab read`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click
import grpc

from sidecar.cli.options import TEXT, reached, session_options, speaking, target_options
from trimtab.stubs import Stubs, open_stubs
from trimtab.v1 import artifact_pb2, common_pb2

__all__ = ["read"]

_MOST = (1 << 63) - 1


def _range(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, int | None] | None:
    """START:END, END left out: to the end."""
    if value is None:
        return None
    start, colon, end = value.partition(":")
    if not colon or not start.isdecimal() or not (end == "" or end.isdecimal()):
        raise click.BadParameter("write START:END, or START: for all that follows; both count from 0")
    low, high = int(start), int(end) if end else None
    if max(low, high or 0) > _MOST:
        raise click.BadParameter("no artifact is as large")
    return low, high


@click.command()
@click.argument("artifact_id", metavar="ARTIFACT", type=TEXT)
@click.option("--bytes", "byte_range", metavar="START:END", callback=_range, help="Only these bytes, END not included.")
@click.option("--lines", "line_range", metavar="START:END", callback=_range, help="Only these lines, END not included.")
@session_options
@target_options
@speaking
def read(
    artifact_id: str,
    byte_range: tuple[int, int | None] | None,
    line_range: tuple[int, int | None] | None,
    session_id: str,
    scope: str,
    target: str | None,
    data_dir: str | None,
) -> None:
    """Write an artifact's content to stdout, exactly.

    \b
    trimtab read 0123456789abcdef0123456789abcdef --session s1 --target unix:/run/trimtab/sock --lines 100:200
    """
    if byte_range and line_range:
        raise click.UsageError("give --bytes or --lines, not both")
    request = artifact_pb2.ReadArtifactRequest(
        session=common_pb2.SessionRef(scope=scope, session_id=session_id), artifact_id=artifact_id
    )
    if byte_range:
        request.bytes.CopyFrom(artifact_pb2.ByteRange(start=byte_range[0], end=byte_range[1]))
    if line_range:
        request.lines.CopyFrom(artifact_pb2.LineRange(start=line_range[0], end=line_range[1]))
    with reached(target, data_dir) as address, open_stubs(address) as stubs:
        for content in _parts(stubs, request):
            sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()


def _parts(stubs: Stubs[grpc.Channel], request: artifact_pb2.ReadArtifactRequest) -> Iterator[bytes]:
    """The range in as many answers as it takes. The server says where to go on in bytes, so lines are counted here."""
    lines_left = request.lines.end - request.lines.start if request.lines.HasField("end") else None
    end = request.bytes.end if request.bytes.HasField("end") else None
    while True:
        response = stubs.artifacts.ReadArtifact(request)
        content = response.content
        if lines_left is not None:
            content = _leading_lines(content, lines_left)
            lines_left -= content.count(b"\n")
        yield content
        if not response.HasField("next_start") or lines_left == 0:
            return
        request.bytes.CopyFrom(artifact_pb2.ByteRange(start=response.next_start, end=end))


def _leading_lines(content: bytes, count: int) -> bytes:
    """The first `count` lines, or all there are."""
    at = 0
    for _ in range(count):
        at = content.find(b"\n", at) + 1
        if at == 0:
            return content
    return content[:at]
