"""What follows the size of a store and what does not: the time of a start, and resident memory.

Starts are measured from the spawn of the process until health says SERVING, in turn on an empty, a small and a large store, after
a clean end and after SIGKILL; each time the kernel has forgotten its pages of the file. Beside it stands the processor time of
the process until then, which does not depend on what else the machine does. Memory is what `/proc/PID/smaps_rollup` says: all
that is resident, and the anonymous part of it, which is the process's own. The rest is pages of files, most of them the store's
map, which the kernel takes back when it needs them.
"""

from __future__ import annotations

import signal
import statistics
from collections.abc import Sequence
from typing import Any

from bench.stores import SidecarProcess, Store, evict_pages
from sidecar.replay.table import format_bytes, format_table

__all__ = ["measure_store", "store_table"]

_Starts = dict[str, dict[str, list[tuple[float, float]]]]
"""By store and end of the process before: time to ready and processor time in it, seconds."""
_ENDS = {"clean": signal.SIGTERM, "killed": signal.SIGKILL}


def measure_store(stores: Sequence[Store], rounds: int = 10) -> dict[str, Any]:
    """Measure each store.

    Args:
        stores: that no process holds.
        rounds: starts a store and way to end.
    """
    starts: _Starts = {store.name: {end: [] for end in _ENDS} for store in stores}
    for end, how in _ENDS.items():
        for store in stores:
            SidecarProcess(store.folder).end(how)  # the end that the first start of the rounds finds
        for _ in range(rounds):
            for store in stores:
                evict_pages(store)
                with SidecarProcess.on(store, how) as sidecar:
                    starts[store.name][end].append((sidecar.ready_s, sidecar.ready_cpu_s))
    return {"rounds": rounds, "rows": [_row(store, starts[store.name]) for store in stores]}


def _row(store: Store, starts: dict[str, list[tuple[float, float]]]) -> dict[str, Any]:
    return {
        "store": store.name,
        "session_count": len(store.sessions),
        "body_bytes": store.body_bytes,
        "file_bytes": store.file_bytes,
        "start_ms": {end: _spread([wall for wall, _ in times]) for end, times in starts.items()},
        "start_cpu_ms": {end: _spread([cpu for _, cpu in times]) for end, times in starts.items()},
        "memory": _memory(store),
    }


def _memory(store: Store) -> dict[str, Any]:
    """After the start, after one Recover of a large session, after one of each, and after each once more."""
    found: dict[str, Any] = {}

    def note(when: str, sidecar: SidecarProcess) -> None:
        found[when] = sidecar.memory()._asdict()

    with SidecarProcess.on(store) as sidecar:
        note("start", sidecar)
        if store.sessions:
            sidecar.recover(max(store.sessions, key=lambda name: store.sessions[name]))
            note("one", sidecar)
            for when in ("all", "all again"):
                for name in store.sessions:
                    sidecar.recover(name)
                note(when, sidecar)
    return found


def _spread(times: Sequence[float]) -> dict[str, float]:
    """Milliseconds."""
    ms = [seconds * 1000 for seconds in times]
    return {"p50": round(statistics.median(ms), 1), "max": round(max(ms), 1), "count": len(ms)}


def store_table(result: dict[str, Any]) -> str:
    """Starts, then memory; one line a store."""
    head = ("store", "sessions", "bodies", "file", "clean p50", "max", "cpu", "killed p50", "max", "cpu", "n")
    rows = [
        (
            row["store"],
            str(row["session_count"]),
            format_bytes(row["body_bytes"]),
            format_bytes(row["file_bytes"]),
            *(
                f"{row[which][end][cut]:,.0f}"
                for end in _ENDS
                for which, cut in (("start_ms", "p50"), ("start_ms", "max"), ("start_cpu_ms", "p50"))
            ),
            str(row["start_ms"]["clean"]["count"]),
        )
        for row in result["rows"]
    ]
    memory_head = ("store", *(f"{when}{part}" for when in ("start", "one", "all", "all again") for part in ("", ", own")))
    memory_rows = [(row["store"], *_memory_cells(row["memory"])) for row in result["rows"]]
    return (
        f"{format_table(head, rows)}\n\n"
        "milliseconds from spawn to SERVING, with nothing of the file in memory; cpu: median processor time in it\n\n"
        f"{format_table(memory_head, memory_rows)}\n\n"
        "MiB resident, and the process's own part, after the start, one Recover, a Recover of each session, and of each again"
    )


def _memory_cells(memory: dict[str, Any]) -> tuple[str, ...]:
    cells: list[str] = []
    for when in ("start", "one", "all", "all again"):
        found = memory.get(when)
        cells += ["-", "-"] if found is None else [f"{found[part] / (1 << 20):,.0f}" for part in ("resident", "anonymous")]
    return tuple(cells)
