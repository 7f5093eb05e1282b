"""Recover's latency by size of session, in a small and in a large store.

Cold: the first Recover of that session in the process, with nothing of the file in the kernel's memory at the start. Warm: the
same call again. The body comes with the answer. Stores take turns, each round with a new process. Beside the time stands the
processor time of the sidecar in the call, which does not depend on what else the machine does.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from bench.facts import percentiles
from bench.stores import SidecarProcess, Store, evict_pages
from sidecar.replay.table import format_bytes, format_table

__all__ = ["measure_recover", "recover_table"]

_COLD_COUNT = 4  # sessions of a size that are asked in one process
_WARM_COUNT = 10  # times that each is asked again


def measure_recover(stores: Sequence[Store], rounds: int = 10) -> dict[str, Any]:
    """Measure each size of session in each store.

    Args:
        stores: that no process holds.
        rounds: processes a store.
    """
    cold: dict[tuple[int, str], list[float]] = defaultdict(list)
    warm: dict[tuple[int, str], list[float]] = defaultdict(list)
    cpu: dict[tuple[int, str], list[float]] = defaultdict(list)
    answered: dict[tuple[int, str], int] = {}
    for number in range(rounds):
        for store in stores if number % 2 else reversed(stores):
            evict_pages(store)
            with SidecarProcess.on(store) as sidecar:
                for size in sorted(set(store.sessions.values())):
                    names = [name for name, each in store.sessions.items() if each == size][:_COLD_COUNT]
                    for name in names:
                        case, cpu_before = (size, store.name), sidecar.cpu_s()
                        answer, seconds = sidecar.recover(name)
                        cpu[case].append((sidecar.cpu_s() - cpu_before) * 1e6)
                        cold[case].append(seconds * 1e6)
                        answered[case] = len(answer.body)
                        warm[case] += [sidecar.recover(name)[1] * 1e6 for _ in range(_WARM_COUNT)]
    rows = [
        {
            "size_bytes": size,
            "store": name,
            "answer_bytes": answered[size, name],
            "cold_us": _spread(cold[size, name]),
            "cold_cpu_us": _spread(cpu[size, name]),
            "warm_us": percentiles(warm[size, name]),
        }
        for size, name in sorted(cold)
    ]
    facts = [{"store": store.name, "session_count": len(store.sessions), "body_bytes": store.body_bytes} for store in stores]
    return {"rounds": rounds, "stores": facts, "rows": rows}


def _spread(times_us: Sequence[float]) -> dict[str, float]:
    """As percentiles, also of one time."""
    return percentiles(times_us) if len(times_us) > 1 else percentiles([*times_us, statistics.fmean(times_us)]) | {"count": 1}


def _ms(times_us: dict[str, float]) -> tuple[str, ...]:
    return tuple(f"{times_us[cut] / 1000:,.1f}" for cut in ("p50", "p90", "p99"))


def recover_table(result: dict[str, Any]) -> str:
    """One line a size and store."""
    head = ("session, store", "answer", "cold p50", "p90", "p99", "cpu p50", "n", "warm p50", "p90", "p99", "n")
    rows = [
        (
            f"{format_bytes(row['size_bytes'])} in {row['store']}",
            format_bytes(row["answer_bytes"]),
            *_ms(row["cold_us"]),
            f"{row['cold_cpu_us']['p50'] / 1000:,.1f}",
            str(row["cold_us"]["count"]),
            *_ms(row["warm_us"]),
            str(row["warm_us"]["count"]),
        )
        for row in result["rows"]
    ]
    return f"{format_table(head, rows)}\n\nmilliseconds, the body in the answer"
