"""Scan throughput: `fastpath.scan`, from nothing and after the body before, against JSON readers that make objects.

They do not do the same work: the readers make Python objects of everything (msgspec's raw rows: only of the history's list),
the scan finds spans and validates. The comparison says what a sidecar built on a reader would pay.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import orjson

from bench.bodies import grow_bodies
from bench.facts import percentiles
from fastpath import scan
from sidecar.core.types import Format
from sidecar.formats import adapter
from sidecar.replay.table import format_bytes, format_table

__all__ = ["SIZES", "measure_scan", "scan_table"]

SIZES = (32 << 10, 256 << 10, 1 << 20, 4 << 20)
FORMATS = {"anthropic-messages": Format.ANTHROPIC_MESSAGES, "openai-chat": Format.OPENAI_CHAT}


class _Rows(msgspec.Struct):
    messages: list[msgspec.Raw]


def measure_scan(sizes: Sequence[int] = SIZES, budget_s: float = 0.5) -> list[dict[str, Any]]:
    """Time every reader on a body of each size in each dialect, in turns, for about `budget_s` a cell."""
    rows: list[dict[str, Any]] = []
    decode_rows = msgspec.json.Decoder(_Rows).decode
    decode_all = msgspec.json.Decoder().decode
    for name, format in FORMATS.items():
        grammar = adapter(format).grammar
        for size in sizes:
            before, body = grow_bodies(size, 2, name)
            previous = scan(before, grammar)
            readers: dict[str, Callable[[], object]] = {
                "scan": partial(scan, body, grammar),
                "scan, resumed": partial(scan, body, grammar, previous),
                "msgspec, rows raw": partial(decode_rows, body),
                "msgspec": partial(decode_all, body),
                "orjson": partial(orjson.loads, body),
                "json": partial(json.loads, body),
            }
            times = _interleave(readers, budget_s)
            for reader, seen in times.items():
                summary = percentiles(seen)
                rows.append(
                    {
                        "format": name,
                        "size_bytes": size,
                        "reader": reader,
                        "us": summary,
                        "mb_per_s": round(size / summary["p50"], 1),
                    }
                )
    return rows


def _interleave(readers: dict[str, Callable[[], object]], budget_s: float) -> dict[str, list[float]]:
    """Time all readers in turns, so that a disturbance hits all alike; slow ones get fewer turns, at least five."""
    times: dict[str, list[float]] = {name: [] for name in readers}
    for read in readers.values():
        read()
    deadline = dict.fromkeys(readers, budget_s)
    while any(deadline.values()):
        for name, read in readers.items():
            if not deadline[name]:
                continue
            began = time.perf_counter()
            read()
            took = time.perf_counter() - began
            times[name].append(took * 1e6)
            deadline[name] = max(0.0, deadline[name] - took) if len(times[name]) >= 5 else deadline[name]
            if len(times[name]) >= 2000:
                deadline[name] = 0.0
    return times


def scan_table(rows: Sequence[dict[str, Any]]) -> str:
    """One line a dialect and reader, one column a size: microseconds (p50) and MB/s."""
    sizes = sorted({row["size_bytes"] for row in rows})
    cells = {(row["format"], row["reader"], row["size_bytes"]): row for row in rows}
    lines = [
        (f"{format} {reader}", *(_cell(cells[format, reader, size]) for size in sizes))
        for format, reader in dict.fromkeys((row["format"], row["reader"]) for row in rows)
    ]
    head = ("p50 us (MB/s)", *(format_bytes(size) for size in sizes))
    return format_table(head, lines)


def _cell(row: dict[str, Any]) -> str:
    return f"{row['us']['p50']:,.1f} ({row['mb_per_s']:,.0f})"
