"""Limits and presets: from what was given to what is in force.

What is given holds until given again; what never was takes the preset's value. MINIMAL's and BALANCED's bytes are shares of
soft_bytes. The numbers come from replaying real sessions with prompt-cache prices: shallow cuts break the provider's cached
prefix often and can cost more than doing nothing; few, deep cuts are the cheapest. No clock and no I/O in this file.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from sidecar.core.errors import InvalidFieldError
from sidecar.core.types import LimitsGiven, Preset

__all__ = ["MOST", "Effective", "check_given", "merge", "resolve"]

KIB = 1024
MOST = 1 << 62
"""No figure is larger: sums of two still go into the 64 bits of the wire and of the store."""

SOFT_BYTES = 256 * KIB
_KEPT = 256  # answers: the same few limits are asked for on each call
COMPACT_MIN_SAVING_BYTES = 4096
SUMMARY_BYTES = 6000
EARLY_MIN_SAVING_BYTES = 4096
"""What a cut on a lost cache must free at least."""

WINDOW_SOFT = (80, 100)
WINDOW_TARGET = (30, 100)
WINDOW_MIN_SAVING = (10, 100)
WINDOW_COMPACT_TARGET = (60, 100)
WINDOW_KEEP_RESULT_TOKENS = 16_000


class Effective(msgspec.Struct, frozen=True):
    """Limits in force for one call. Bytes are UTF-8 bytes of the serialized body; None means there is none."""

    preset: Preset
    soft_bytes: int
    target_bytes: int
    hard_bytes: int | None
    min_saving_bytes: int
    externalize_bytes: int  # 0: off
    keep_unit_count: int
    keep_result_bytes: int  # newest results that stay intact beside the units; 0: none
    compact_target_bytes: int
    compact_min_saving_bytes: int
    summary_bytes: int
    window_tokens: int | None
    reply_tokens: int | None
    cache_ttl_ms: int
    cuts_early: bool
    early_bytes: int  # a lost cache lets Fit cut over this
    given: LimitsGiven

    def shown(self) -> LimitsGiven:
        """As the wire shows them: every limit that is in force has a value."""
        return LimitsGiven(
            preset=self.preset,
            soft_bytes=self.soft_bytes,
            target_bytes=self.target_bytes,
            hard_bytes=self.hard_bytes,
            min_saving_bytes=self.min_saving_bytes,
            externalize_bytes=self.externalize_bytes,
            keep_unit_count=self.keep_unit_count,
            keep_result_tokens=self.given.keep_result_tokens
            if self.given.keep_result_tokens is not None
            else (WINDOW_KEEP_RESULT_TOKENS if self.preset is Preset.WINDOW else 0),
            compact_target_bytes=self.compact_target_bytes,
            compact_min_saving_bytes=self.compact_min_saving_bytes,
            summary_bytes=self.summary_bytes,
            window_tokens=self.window_tokens,
            reply_tokens=self.reply_tokens,
            cache_ttl_ms=self.cache_ttl_ms,
        )


@lru_cache(_KEPT)
def merge(older: LimitsGiven, newer: LimitsGiven | None) -> LimitsGiven:
    """What is given now over what was given before. A preset given again keeps single limits that were given."""
    if newer is None:
        return older
    values = {name: getattr(newer, name) for name in LimitsGiven.__struct_fields__}
    kept = {
        name: getattr(older, name)
        for name, value in values.items()
        if (value is None or (name == "preset" and value is Preset.UNSPECIFIED))
    }
    return LimitsGiven(**{**values, **kept})


def check_given(given: LimitsGiven) -> None:
    """Refuse values that no limit may have.

    Raises:
        InvalidFieldError: INVALID_FIELD, details: field.
    """
    for name in LimitsGiven.__struct_fields__:
        value = getattr(given, name)
        if name == "preset" or value is None:
            continue
        lowest = 1024 if name == "soft_bytes" else 1 if name in ("window_tokens", "hard_bytes") else 0
        if value < lowest:
            raise InvalidFieldError(
                f"limits.{name} is {value}; it must be at least {lowest}",
                hint="leave it out for the preset's value",
                field=f"limits.{name}",
            )


def _in_bytes(tokens: int, bytes_per_token: float) -> int:
    """Bytes of so many tokens. Cut to MOST: no body is as large."""
    return int(min(tokens * bytes_per_token, MOST))


def _share(share: tuple[int, int], of: int) -> int:
    return of * share[0] // share[1]


@lru_cache(_KEPT)
def resolve(given: LimitsGiven, bytes_per_token: float) -> Effective:
    """Limits in force, from all that was given (server, session, call, already merged).

    Args:
        given: merged limits; checked by `check_given`.
        bytes_per_token: of this session, for limits that are told in tokens. Errs low, so that limits err early.

    Raises:
        InvalidFieldError: WINDOW without window_tokens; target_bytes above soft_bytes.
    """
    preset = given.preset or Preset.BALANCED
    window_bytes = None if given.window_tokens is None else _in_bytes(given.window_tokens, bytes_per_token)
    hard = given.hard_bytes
    if given.window_tokens is not None and window_bytes is not None:
        room = _in_bytes(max(given.window_tokens - (given.reply_tokens or 0), 0), bytes_per_token)
        hard = room if hard is None else min(hard, room)

    if preset is Preset.WINDOW:
        if window_bytes is None or given.window_tokens is None:
            raise InvalidFieldError(
                "preset WINDOW needs limits.window_tokens", hint="tell the model's context window", field="limits.window_tokens"
            )
        soft = max(_share(WINDOW_SOFT, window_bytes), 1024)
        if given.soft_bytes is not None:
            soft = min(soft, given.soft_bytes)
        target = min(_share(WINDOW_TARGET, window_bytes), soft)
        min_saving = _share(WINDOW_MIN_SAVING, window_bytes)
        compact_target = min(_share(WINDOW_COMPACT_TARGET, window_bytes), soft)
        externalize, keep_units, keep_tokens = 32 * KIB, 5, WINDOW_KEEP_RESULT_TOKENS
    else:
        soft = SOFT_BYTES if given.soft_bytes is None else given.soft_bytes
        keep_tokens = 0
        if preset is Preset.MINIMAL:
            target, min_saving, externalize, keep_units = soft * 7 // 8, soft // 64, 50 * KIB, 3
            compact_target = soft * 7 // 8
        else:
            target, min_saving, externalize, keep_units = soft * 3 // 8, soft // 8, 32 * KIB, 5
            # As deep as a cut, for the same reason: each checkpoint breaks the cached prefix once. Down to 7/8 it does so every
            # 32 KiB, and six replayed sessions cost 0.66 of sending raw instead of 0.62.
            compact_target = soft * 3 // 8

    if given.target_bytes is not None:
        if given.target_bytes > soft:
            raise InvalidFieldError(
                f"limits.target_bytes ({given.target_bytes}) is above limits.soft_bytes ({soft})",
                hint="Fit reduces from soft_bytes down to target_bytes",
                field="limits.target_bytes",
            )
        target = given.target_bytes
    if given.keep_result_tokens is not None:
        keep_tokens = given.keep_result_tokens
    cuts_early = preset is not Preset.MINIMAL

    def over(value: int | None, default: int) -> int:
        return default if value is None else value

    return Effective(
        preset=preset,
        soft_bytes=soft,
        target_bytes=target,
        hard_bytes=hard,
        min_saving_bytes=over(given.min_saving_bytes, min_saving),
        externalize_bytes=over(given.externalize_bytes, externalize),
        keep_unit_count=over(given.keep_unit_count, keep_units),
        keep_result_bytes=_in_bytes(keep_tokens, bytes_per_token),
        compact_target_bytes=over(given.compact_target_bytes, compact_target),
        compact_min_saving_bytes=over(given.compact_min_saving_bytes, COMPACT_MIN_SAVING_BYTES),
        summary_bytes=over(given.summary_bytes, SUMMARY_BYTES),
        window_tokens=given.window_tokens,
        reply_tokens=given.reply_tokens,
        cache_ttl_ms=over(given.cache_ttl_ms, 0),
        cuts_early=cuts_early,
        early_bytes=soft // 2,
        given=given,
    )
