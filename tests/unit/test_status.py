from __future__ import annotations

import logging

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from sidecar.core import errors
from sidecar.core.errors import (
    InternalError,
    MalformedBodyError,
    StoreFullError,
    SummarizerFailedError,
    SummarizerUnknownError,
    TrimtabError,
)
from sidecar.rpc.status import CODES, abort, abort_unknown, to_status
from trimtab.v1 import error_pb2

NEVER_LEAVING = (SummarizerFailedError, SummarizerUnknownError)
"""The engine turns these into outcomes. One that came to the edge all the same would be a broken invariant."""


class _Aborted(Exception):
    pass


class _Context:
    """The one method of a servicer context that abort uses, by hand: it keeps the status and raises, as grpc does."""

    def __init__(self) -> None:
        self.status: grpc.Status | None = None

    def abort_with_status(self, status: grpc.Status) -> None:
        self.status = status
        raise _Aborted


def _subclasses(base: type[TrimtabError]) -> list[type[TrimtabError]]:
    return [kind for child in base.__subclasses__() for kind in (child, *_subclasses(child))]


def _info(status: grpc.Status) -> error_details_pb2.ErrorInfo:
    raw = dict(status.trailing_metadata)["grpc-status-details-bin"]
    info = error_details_pb2.ErrorInfo()
    assert status_pb2.Status.FromString(raw).details[0].Unpack(info)
    return info


def test_codes_every_reason_of_the_proto_is_in_the_table() -> None:
    names = {name.removeprefix("ERROR_REASON_") for name in error_pb2.ErrorReason.keys()} - {"UNSPECIFIED"}
    assert set(CODES) == names


def test_codes_match_the_comment_of_each_reason_in_the_proto() -> None:
    from pathlib import Path

    source = Path(__file__).parents[2].joinpath("proto/trimtab/v1/error.proto").read_text()
    told: dict[str, str] = {}
    comment = ""
    for line in map(str.strip, source.splitlines()):
        if line.startswith("//"):
            comment += " " + line
        elif line.startswith("ERROR_REASON_"):
            told[line.split(" ")[0].removeprefix("ERROR_REASON_")] = comment.rstrip(".").rsplit(" ", 1)[-1]
            comment = ""
    told.pop("UNSPECIFIED")
    assert told == {reason: code.name for reason, code in CODES.items()}


@pytest.mark.parametrize("kind", _subclasses(TrimtabError), ids=lambda kind: kind.__name__)
def test_to_status_of_every_subclass_has_its_reason(kind: type[TrimtabError]) -> None:
    status = to_status(kind("text"))
    assert status.code is CODES[kind.reason]
    assert dict(status.trailing_metadata)["trimtab-reason"] == kind.reason
    assert _info(status).reason == kind.reason


def test_errors_each_reason_has_one_class_and_each_class_is_exported() -> None:
    kinds = [kind for kind in _subclasses(TrimtabError) if kind.__module__ == errors.__name__]
    leaving = [kind for kind in kinds if kind not in NEVER_LEAVING]
    assert len({kind.reason for kind in leaving}) == len(leaving)
    assert {kind.reason for kind in NEVER_LEAVING} == {"INTERNAL"}
    assert {kind.__name__ for kind in kinds} | {"TrimtabError"} == set(errors.__all__)


def test_to_status_carries_message_hint_details_and_domain() -> None:
    status = to_status(StoreFullError("the store is full", hint="raise quota_bytes", quota_bytes=4096))
    info = _info(status)
    assert status.details == "the store is full (raise quota_bytes)"
    assert info.domain == "trimtab"
    assert dict(info.metadata) == {"quota_bytes": "4096", "hint": "raise quota_bytes"}


def test_to_status_long_text_and_lone_surrogates_are_cut_to_what_headers_carry() -> None:
    status = to_status(MalformedBodyError("x\ud800" * 5000, field="\u00e9" * 5000))
    assert len(status.details.encode()) <= 1024
    assert len(_info(status).metadata["field"].encode()) <= 256


def test_abort_unknown_keeps_the_text_of_the_exception_off_the_wire_and_out_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    context = _Context()
    with caplog.at_level(logging.ERROR), pytest.raises(_Aborted):
        try:
            raise KeyError("SECRET CONTENT")
        except KeyError as error:
            abort_unknown(context, error)  # type: ignore[arg-type]
    assert context.status is not None
    assert context.status.code is grpc.StatusCode.INTERNAL
    assert "SECRET" not in repr((context.status.details, context.status.trailing_metadata))
    record = caplog.records[-1]
    assert "SECRET" not in repr(record.__dict__)
    assert record.__dict__["exception"] == "KeyError"
    assert record.__dict__["incident"] == _info(context.status).metadata["incident"]


@pytest.mark.parametrize("kind", [InternalError, *NEVER_LEAVING])
def test_abort_of_a_broken_invariant_tells_only_the_log(kind: type[TrimtabError], caplog: pytest.LogCaptureFixture) -> None:
    context = _Context()
    with caplog.at_level(logging.ERROR), pytest.raises(_Aborted):
        abort(context, kind("parts do not add up", part_bytes=7))  # type: ignore[arg-type]
    assert context.status is not None
    assert "add up" not in context.status.details
    assert "part_bytes" not in _info(context.status).metadata
    assert caplog.records[-1].__dict__["text"] == "parts do not add up"
