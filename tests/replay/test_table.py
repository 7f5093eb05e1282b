"""Tables and sizes."""

from __future__ import annotations

import pytest

from sidecar.replay.table import format_bytes, format_table


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (9_999, "9,999 B"),
        (98_304, "96.0 KiB"),
        (262_144, "256.0 KiB"),
        (2_315_957, "2.2 MiB"),
        (-(1 << 20), "-1.0 MiB"),
    ],
)
def test_format_bytes_at_each_unit_is_short(count: int, text: str) -> None:
    assert format_bytes(count) == text


def test_format_table_with_foot_lines_up_and_rules_it_off() -> None:
    table = format_table(["file", "steps"], [["a.json", "7"], ["longer.json", "1,234"]], ["mean", "2"])
    assert table.splitlines() == [
        "file         steps",
        "-----------  -----",
        "a.json           7",
        "longer.json  1,234",
        "-----------  -----",
        "mean             2",
    ]
