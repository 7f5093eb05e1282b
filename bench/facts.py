"""What a figure was measured on, and how figures are summed up."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import fastpath

__all__ = ["machine_facts", "measure_fdatasync_us", "percentiles"]

_PACKAGES = ("grpcio", "protobuf", "lmdb", "msgspec", "orjson", "cython")


def machine_facts() -> dict[str, Any]:
    """Processor, versions, load. Names no host and no path."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].partition(":")[2].strip() if lines else model
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "fastpath": fastpath.backend,
        "load_1min": round(os.getloadavg()[0], 2),
        "versions": versions,
    }


def measure_fdatasync_us(folder: Path, count: int = 50) -> dict[str, float]:
    """How long the disk takes to make 4 KiB durable: what a call that waits for the store waits for, twice."""
    path = folder / "fdatasync.bin"
    times: list[float] = []
    with path.open("wb", buffering=0) as file:
        for _ in range(count):
            began = time.perf_counter()
            file.write(b"\0" * 4096)
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - began) * 1e6)
    path.unlink()
    return percentiles(times)


def percentiles(times_us: Sequence[float]) -> dict[str, float]:
    """p50, p90, p99 and how many; microseconds."""
    if len(times_us) < 2:
        raise ValueError("percentiles need at least two times")
    cuts = statistics.quantiles(times_us, n=100, method="inclusive")
    return {"p50": round(cuts[49], 1), "p90": round(cuts[89], 1), "p99": round(cuts[98], 1), "count": len(times_us)}
