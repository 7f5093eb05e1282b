"""Limits: the table of presets as documented, shares of soft_bytes, what holds until given again, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.errors import InvalidFieldError
from sidecar.core.limits import EARLY_MIN_SAVING_BYTES, MOST, Effective, check_given, merge, resolve
from sidecar.core.types import LimitsGiven, Preset

# The table as it is documented, row by row.
BALANCED: dict[str, Any] = {
    "soft_bytes": 262_144,
    "target_bytes": 98_304,
    "min_saving_bytes": 32_768,
    "keep_unit_count": 5,
    "keep_result_bytes": 0,
    "externalize_bytes": 32_768,
    "cuts_early": True,
    "early_bytes": 131_072,
    "compact_target_bytes": 98_304,
    "compact_min_saving_bytes": 4_096,
    "summary_bytes": 6_000,
    "hard_bytes": None,
}
MINIMAL = BALANCED | {
    "compact_target_bytes": 229_376,
    "target_bytes": 229_376,
    "min_saving_bytes": 4_096,
    "keep_unit_count": 3,
    "externalize_bytes": 51_200,
    "cuts_early": False,
}
WINDOW_200K = {  # at two bytes a token
    "soft_bytes": 320_000,
    "target_bytes": 120_000,
    "min_saving_bytes": 40_000,
    "keep_unit_count": 5,
    "keep_result_bytes": 32_000,
    "externalize_bytes": 32_768,
    "cuts_early": True,
    "early_bytes": 160_000,
    "compact_target_bytes": 240_000,
    "compact_min_saving_bytes": 4_096,
    "summary_bytes": 6_000,
    "hard_bytes": 400_000,
}


def shown(effective: Effective) -> dict[str, Any]:
    return {name: getattr(effective, name) for name in BALANCED}


@pytest.mark.parametrize(
    ("preset", "row"), [(Preset.UNSPECIFIED, BALANCED), (Preset.BALANCED, BALANCED), (Preset.MINIMAL, MINIMAL)]
)
def test_resolve_of_preset_gives_the_documented_table(preset: Preset, row: dict[str, Any]) -> None:
    effective = resolve(LimitsGiven(preset=preset), 2.0)
    assert shown(effective) == row
    assert effective.preset is (preset or Preset.BALANCED)


def test_resolve_of_window_gives_the_documented_shares() -> None:
    effective = resolve(LimitsGiven(preset=Preset.WINDOW, window_tokens=200_000), 2.0)
    assert shown(effective) == WINDOW_200K
    assert effective.min_saving_bytes == 20_000 * 2


def test_resolve_of_window_follows_the_measured_ratio() -> None:
    given = LimitsGiven(preset=Preset.WINDOW, window_tokens=100_000, keep_result_tokens=40_000)
    effective = resolve(given, 4.5)
    assert (effective.soft_bytes, effective.target_bytes, effective.keep_result_bytes) == (360_000, 135_000, 180_000)


def test_early_minimum_is_the_documented_one() -> None:
    assert EARLY_MIN_SAVING_BYTES == 4_096


@pytest.mark.parametrize("soft", [1024, 65_536, 1_000_000])
def test_resolve_of_soft_bytes_moves_what_is_a_share_of_it(soft: int) -> None:
    balanced = resolve(LimitsGiven(soft_bytes=soft), 2.0)
    minimal = resolve(LimitsGiven(soft_bytes=soft, preset=Preset.MINIMAL), 2.0)
    assert (balanced.target_bytes, balanced.min_saving_bytes, balanced.early_bytes) == (soft * 3 // 8, soft // 8, soft // 2)
    assert (minimal.target_bytes, minimal.min_saving_bytes) == (soft * 7 // 8, soft // 64)
    assert (balanced.compact_target_bytes, minimal.compact_target_bytes) == (soft * 3 // 8, soft * 7 // 8)
    assert (balanced.externalize_bytes, minimal.externalize_bytes) == (32_768, 51_200)


def test_resolve_of_window_keeps_a_lower_soft_limit_and_target_under_it() -> None:
    effective = resolve(LimitsGiven(preset=Preset.WINDOW, window_tokens=200_000, soft_bytes=50_000), 2.0)
    assert (effective.soft_bytes, effective.target_bytes, effective.compact_target_bytes) == (50_000, 50_000, 50_000)
    higher = resolve(LimitsGiven(preset=Preset.WINDOW, window_tokens=200_000, soft_bytes=900_000), 2.0)
    assert higher.soft_bytes == 320_000


@pytest.mark.parametrize(
    ("given", "hard"),
    [
        (LimitsGiven(), None),
        (LimitsGiven(hard_bytes=7_000), 7_000),
        (LimitsGiven(window_tokens=10_000), 20_000),
        (LimitsGiven(window_tokens=10_000, reply_tokens=4_000), 12_000),
        (LimitsGiven(window_tokens=10_000, hard_bytes=7_000), 7_000),
        (LimitsGiven(window_tokens=10_000, hard_bytes=70_000), 20_000),
        (LimitsGiven(window_tokens=10_000, reply_tokens=40_000), 0),
        (LimitsGiven(reply_tokens=40_000), None),
    ],
)
def test_resolve_of_window_and_reply_gives_the_hard_limit(given: LimitsGiven, hard: int | None) -> None:
    assert resolve(given, 2.0).hard_bytes == hard


@pytest.mark.parametrize(
    "name",
    [
        "soft_bytes",
        "target_bytes",
        "min_saving_bytes",
        "externalize_bytes",
        "keep_unit_count",
        "compact_target_bytes",
        "compact_min_saving_bytes",
        "summary_bytes",
        "window_tokens",
        "reply_tokens",
        "cache_ttl_ms",
    ],
)
@pytest.mark.parametrize("preset", [Preset.BALANCED, Preset.MINIMAL])
def test_resolve_of_a_given_limit_takes_it(name: str, preset: Preset) -> None:
    assert getattr(resolve(LimitsGiven(preset=preset, **{name: 2_048}), 2.0), name) == 2_048


@pytest.mark.parametrize(
    "name", ["target_bytes", "min_saving_bytes", "externalize_bytes", "keep_unit_count", "keep_result_tokens", "cache_ttl_ms"]
)
def test_resolve_of_zero_is_zero_and_not_the_preset(name: str) -> None:
    given = LimitsGiven(preset=Preset.WINDOW, window_tokens=200_000, **{name: 0})
    check_given(given)
    field = "keep_result_bytes" if name == "keep_result_tokens" else name
    assert getattr(resolve(given, 2.0), field) == 0


def test_resolve_of_window_without_window_tokens_is_refused() -> None:
    with pytest.raises(InvalidFieldError) as error:
        resolve(LimitsGiven(preset=Preset.WINDOW), 2.0)
    assert error.value.details == {"field": "limits.window_tokens"}


def test_resolve_of_target_above_soft_is_refused() -> None:
    with pytest.raises(InvalidFieldError) as error:
        resolve(LimitsGiven(soft_bytes=2_000, target_bytes=2_001), 2.0)
    assert error.value.details == {"field": "limits.target_bytes"}
    assert resolve(LimitsGiven(soft_bytes=2_000, target_bytes=2_000), 2.0).target_bytes == 2_000


@pytest.mark.parametrize(
    ("name", "lowest"),
    [("soft_bytes", 1024), ("window_tokens", 1), ("hard_bytes", 1)]
    + [
        (name, 0) for name in LimitsGiven.__struct_fields__ if name not in ("preset", "soft_bytes", "window_tokens", "hard_bytes")
    ],
)
def test_check_given_refuses_what_is_under_the_lowest_value(name: str, lowest: int) -> None:
    check_given(LimitsGiven(**{name: lowest}))  # type: ignore[arg-type]
    with pytest.raises(InvalidFieldError) as error:
        check_given(LimitsGiven(**{name: lowest - 1}))  # type: ignore[arg-type]
    assert error.value.details == {"field": f"limits.{name}"}


def test_merge_of_nothing_is_what_was() -> None:
    older = LimitsGiven(soft_bytes=5_000)
    assert merge(older, None) is older


def test_merge_of_a_new_preset_keeps_single_limits() -> None:
    older = LimitsGiven(preset=Preset.BALANCED, soft_bytes=5_000, keep_unit_count=2)
    newer = LimitsGiven(preset=Preset.MINIMAL, keep_unit_count=0)
    assert merge(older, newer) == LimitsGiven(preset=Preset.MINIMAL, soft_bytes=5_000, keep_unit_count=0)


GIVEN = st.builds(
    LimitsGiven,
    preset=st.sampled_from(Preset),
    **{name: st.none() | st.integers(0, 9) for name in LimitsGiven.__struct_fields__ if name != "preset"},
)


@given(GIVEN, GIVEN)
def test_merge_takes_the_newer_value_wherever_one_was_given(older: LimitsGiven, newer: LimitsGiven) -> None:
    merged = merge(older, newer)
    assert merged.preset == (newer.preset or older.preset)
    for name in LimitsGiven.__struct_fields__[1:]:
        value = getattr(newer, name)
        assert getattr(merged, name) == (getattr(older, name) if value is None else value)


@given(GIVEN, GIVEN, GIVEN)
def test_merge_is_associative(one: LimitsGiven, two: LimitsGiven, three: LimitsGiven) -> None:
    assert merge(merge(one, two), three) == merge(one, merge(two, three))


@pytest.mark.parametrize("preset", [Preset.BALANCED, Preset.MINIMAL, Preset.WINDOW])
def test_shown_given_again_gives_the_same_limits(preset: Preset) -> None:
    effective = resolve(LimitsGiven(preset=preset, window_tokens=150_000, reply_tokens=8_000), 3.5)
    again = resolve(effective.shown(), 3.5)
    assert shown(again) == shown(effective)
    assert again.shown() == effective.shown()


@pytest.mark.parametrize("ratio", [0.5, 2.0, 2.0**31])
@pytest.mark.parametrize("preset", [Preset.BALANCED, Preset.MINIMAL, Preset.WINDOW])
def test_resolve_of_the_largest_figures_stays_within_64_bits(preset: Preset, ratio: float) -> None:
    most = 2**63 - 1
    effective = resolve(LimitsGiven(preset=preset, window_tokens=most, keep_result_tokens=most, soft_bytes=most), ratio)
    figures = [getattr(effective, name) for name in effective.__struct_fields__ if name != "given"]
    assert max(figure for figure in figures if figure is not None) <= most
    assert effective.hard_bytes is not None
    assert effective.hard_bytes <= MOST
    assert effective.keep_result_bytes <= MOST
