"""What a client was told once, and the requests made of it. No I/O here: the sync and the async client share it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from trimtab.payload import to_bytes
from trimtab.v1 import common_pb2, context_pb2

__all__ = ["CallOptions", "Limits", "Settings", "anchors_of", "check_options", "make_settings", "named"]

MAX_MESSAGE_BYTES = (2 << 30) - (2 << 20)
"""gRPC counts in 32 bits, and a message is larger than the body in it."""

# What people write, to the proto's name of it.
_FORMATS = {name.removeprefix("FORMAT_").lower().replace("_", "-"): name for name, number in common_pb2.Format.items() if number}
_READ_BACKS = {name.removeprefix("READ_BACK_").lower(): name for name, number in context_pb2.ReadBack.items() if number}
_PRESETS = {name.removeprefix("PRESET_").lower(): name for name, number in common_pb2.Preset.items() if number}


class Limits(TypedDict, total=False):
    """Limits by name; see trimtab.v1.Limits for what each means."""

    preset: str
    soft_bytes: int
    target_bytes: int
    hard_bytes: int
    min_saving_bytes: int
    externalize_bytes: int
    keep_unit_count: int
    keep_result_tokens: int
    compact_target_bytes: int
    compact_min_saving_bytes: int
    summary_bytes: int
    window_tokens: int
    reply_tokens: int
    cache_ttl_ms: int


class CallOptions(TypedDict, total=False):
    """What one Fit may bring beside its body; see trimtab.v1.FitRequest."""

    usage: object  # the provider's usage object for the previous request (bytes, dict, SDK object), or a trimtab.v1 Usage
    limits: Limits
    anchors: common_pb2.Anchors | Mapping[str, Any]
    receipts: Iterable[common_pb2.Receipt]
    pins: Iterable[context_pb2.Pin]
    expected_revision: int
    list_applied: bool
    dry_run: bool
    timeout: float | None


@dataclass(frozen=True, slots=True)
class Settings:
    """A client's settings, checked."""

    target: str
    format: str  # the proto's name of it, as read_back
    read_back: str
    read_back_tool_name: str
    scope: str
    limits: common_pb2.Limits | None
    fail_open: bool
    timeout: float | None
    max_message_bytes: int

    def session(self, session_id: str) -> common_pb2.SessionRef:
        """A session of this client's scope."""
        return common_pb2.SessionRef(scope=self.scope, session_id=session_id)

    def fit_request(self, session_id: str, body: bytes, options: CallOptions) -> context_pb2.FitRequest:
        """A FitRequest for one call. Raises TypeError for an option that does not exist."""
        check_options(options, CallOptions)
        request = context_pb2.FitRequest(
            session=self.session(session_id),
            format=self.format,
            body=body,
            limits=self.call_limits(options.get("limits")),
            anchors=anchors_of(options.get("anchors")),
            receipts=options.get("receipts", ()),
            pins=options.get("pins", ()),
            read_back=self.read_back,
            read_back_tool_name=self.read_back_tool_name,
            dry_run=options.get("dry_run", False),
            list_applied=options.get("list_applied", False),
            expected_revision=options.get("expected_revision"),
        )
        usage = options.get("usage")
        if isinstance(usage, common_pb2.Usage):
            request.previous_usage.CopyFrom(usage)
        elif usage is not None:
            request.previous_usage_json = to_bytes(usage, "usage")
        return request

    def resolve_request(self, session_id: str, call: object) -> context_pb2.ResolveCallRequest:
        """A ResolveCallRequest for one call of the model."""
        return context_pb2.ResolveCallRequest(session=self.session(session_id), format=self.format, call=to_bytes(call, "call"))

    def call_limits(self, given: Limits | None) -> common_pb2.Limits | None:
        """The client's limits with those of one call on top; None when there are neither."""
        if not given:
            return self.limits
        limits = common_pb2.Limits()
        if self.limits is not None:
            limits.CopyFrom(self.limits)
        limits.MergeFrom(make_limits(given))
        return limits

    def call_timeout(self, options: Mapping[str, Any]) -> float | None:
        """Seconds for one call; None: no limit."""
        timeout: float | None = options.get("timeout", self.timeout)
        return timeout


def make_settings(
    target: str,
    *,
    format: str,
    read_back: str,
    read_back_tool_name: str,
    scope: str,
    fail_open: bool,
    timeout: float | None,
    max_message_bytes: int,
    limits: Limits,
) -> Settings:
    """Check what `connect` was given.

    Raises:
        ValueError: a name that does not exist, which the text answers with those that do; or a max_message_bytes out of range.
    """
    if not 0 < max_message_bytes <= MAX_MESSAGE_BYTES:
        raise ValueError(f"max_message_bytes must be from 1 to {MAX_MESSAGE_BYTES}; not {max_message_bytes}")
    return Settings(
        target=target,
        format=named(_FORMATS, format, "format"),
        read_back=named(_READ_BACKS, read_back, "read_back"),
        read_back_tool_name=read_back_tool_name,
        scope=scope,
        limits=make_limits(limits) if limits else None,
        fail_open=fail_open,
        timeout=timeout,
        max_message_bytes=max_message_bytes,
    )


def make_limits(limits: Limits) -> common_pb2.Limits:
    """Limits as a proto. Raises ValueError for a name or preset that does not exist, TypeError for what is no whole number."""
    values: dict[str, Any] = dict(limits)
    for name, value in values.items():
        if name not in Limits.__annotations__:
            raise ValueError(f"there is no limit {name!r}; limits are {', '.join(Limits.__annotations__)}")
        if name != "preset" and not isinstance(value, int):
            raise TypeError(f"{name} must be a whole number, such as 65536; not {value!r}")
    if "preset" in values:
        values["preset"] = named(_PRESETS, values["preset"], "preset")
    return common_pb2.Limits(**values)


def anchors_of(given: common_pb2.Anchors | Mapping[str, Any] | None) -> common_pb2.Anchors | None:
    """Anchors as a proto."""
    return common_pb2.Anchors(**given) if isinstance(given, Mapping) else given


def check_options(options: Mapping[str, Any], known: type) -> None:
    """Refuse an option that does not exist: a misspelt `receipts` would be lost without a word."""
    for name in options:
        if name not in known.__annotations__:
            raise TypeError(f"there is no option {name!r}; options are {', '.join(known.__annotations__)}")


def named(names: Mapping[str, str], name: str, what: str) -> str:
    """The proto's name of what people write. Raises ValueError with the names that there are."""
    if name not in names:
        raise ValueError(f"{what} must be one of {', '.join(names)}; not {name!r}")
    return names[name]
