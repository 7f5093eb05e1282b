"""Rows of text in columns, and sizes as people read them. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["format_bytes", "format_table"]


def format_bytes(count: int) -> str:
    """A size in at most ten characters, such as "9,999 B", "256.0 KiB" or "2.2 MiB"; binary units."""
    if abs(count) < 10_000:
        return f"{count:,} B"
    if abs(count) < 1 << 20:
        return f"{count / 1024:.1f} KiB"
    return f"{count / (1 << 20):.1f} MiB"


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]], foot: Sequence[str] = ()) -> str:
    """Lay out a table: first column to the left, the others to the right, a rule under the head and over the foot."""
    table = [list(head), *(list(row) for row in rows), *([list(foot)] if foot else [])]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
    rule = "  ".join("-" * width for width in widths)
    lines.insert(1, rule)
    if foot:
        lines.insert(len(lines) - 1, rule)
    return "\n".join(lines)
