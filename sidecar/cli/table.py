"""A table for people, as wide as it needs to be. No I/O."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

__all__ = ["table_lines"]


def table_lines(headings: Sequence[str], rows: Iterable[Sequence[str]], *, right: Container[int] = ()) -> list[str]:
    """The lines of a table under its headings; the columns in `right` stand to the right."""
    table = [headings, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(headings))]
    return [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
