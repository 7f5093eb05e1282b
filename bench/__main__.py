"""Run the benchmarks: one JSON file, one table each.

python -m bench [scan] [fit] [--quick] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from bench.facts import machine_facts
from bench.fit import SIZES as FIT_SIZES
from bench.fit import fit_table, measure_fit
from bench.scan import SIZES as SCAN_SIZES
from bench.scan import measure_scan, scan_table
from sidecar.malloc import raise_malloc_thresholds

_DEFAULT_OUT = Path("bench/out/bench.json")


def main() -> int:
    """Parse arguments, measure, write, print."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure what the sidecar costs.")
    parser.add_argument("what", nargs="*", choices=["scan", "fit", []], help="scan, fit; both when left out")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: a look, not a measurement")
    parser.add_argument("--rounds", type=int, default=0, help="sessions a case of fit (default 30)")
    parser.add_argument("--sizes", default="", help="comma-separated bytes, instead of the default sizes")
    parser.add_argument("--pace-ms", type=float, default=0.0, help="rest before each call of fit")
    parser.add_argument(
        "--folder", type=Path, default=None, help="where fit puts its store and sockets (default: a scratch folder)"
    )
    parser.add_argument("--out", type=Path, default=_DEFAULT_OUT, help=f"JSON file (default {_DEFAULT_OUT})")
    given = parser.parse_args()
    raise_malloc_thresholds()  # as a client that was told to; with glibc's own thresholds both sides of a pair are slower
    what = given.what or ["scan", "fit"]
    sizes = [int(size) for size in given.sizes.split(",") if size]
    result: dict[str, Any] = {
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "quick": given.quick,
        "machine": machine_facts(),
    }
    if "scan" in what:
        result["scan"] = measure_scan(sizes or SCAN_SIZES, 0.05 if given.quick else 0.5)
        print(f"Scan throughput\n\n{scan_table(result['scan'])}\n", flush=True)
    if "fit" in what:
        rounds = given.rounds or (3 if given.quick else 30)
        result["fit"] = measure_fit(sizes or FIT_SIZES, rounds, given.pace_ms, given.folder)
        print(f"Fit over a Unix socket, one caller, beside an echo of the same bytes\n\n{fit_table(result['fit'])}\n", flush=True)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written to {given.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
