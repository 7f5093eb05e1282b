"""Run the benchmarks: one JSON file, one table each.

python -m bench [scan] [fit] [recover] [store] [--quick] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.facts import machine_facts
from bench.fit import SIZES as FIT_SIZES
from bench.fit import fit_table, measure_fit
from bench.recover import measure_recover, recover_table
from bench.scan import SIZES as SCAN_SIZES
from bench.scan import measure_scan, scan_table
from bench.store import measure_store, store_table
from bench.stores import LARGE, QUICK_LARGE, QUICK_SMALL, SMALL, build_store
from sidecar.malloc import raise_malloc_thresholds

_DEFAULT_OUT = Path("bench/out/bench.json")


def main() -> int:
    """Parse arguments, measure, write, print."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure what the sidecar costs.")
    parser.add_argument(
        "what",
        nargs="*",
        choices=["scan", "fit", "recover", "store", []],
        help="scan and fit when left out; recover and store build a store of 1 GiB first and take minutes",
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds: a look, not a measurement")
    parser.add_argument(
        "--rounds", type=int, default=0, help="sessions a case of fit (default 30), starts of recover and store (10)"
    )
    parser.add_argument("--sizes", default="", help="comma-separated bytes, instead of the default sizes")
    parser.add_argument("--pace-ms", type=float, default=0.0, help="rest before each call of fit")
    parser.add_argument("--folder", type=Path, default=None, help="where stores and sockets are put (default: a scratch folder)")
    parser.add_argument("--out", type=Path, default=_DEFAULT_OUT, help=f"JSON file (default {_DEFAULT_OUT})")
    given = parser.parse_args()
    if given.folder is not None:
        given.folder.mkdir(parents=True, exist_ok=True)
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
    if "recover" in what or "store" in what:
        _measure_stores(what, given, result)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written to {given.out}")
    return 0


def _measure_stores(what: list[str], given: argparse.Namespace, result: dict[str, Any]) -> None:
    """Recover and store, on the same stores."""

    def tell(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    rounds = given.rounds or (2 if given.quick else 10)
    with tempfile.TemporaryDirectory(prefix="bench", dir=given.folder) as scratch:
        place = Path(scratch)
        empty = build_store("empty", place / "empty", {}, tell)
        small = build_store("small", place / "small", QUICK_SMALL if given.quick else SMALL, tell)
        large = build_store("large", place / "large", QUICK_LARGE if given.quick else LARGE, tell)
        result["load_1min_built"] = round(os.getloadavg()[0], 2)
        if "recover" in what:
            result["recover"] = measure_recover([small, large], rounds)
            print(f"Recover over a Unix socket\n\n{recover_table(result['recover'])}\n", flush=True)
        if "store" in what:
            result["store"] = measure_store([empty, small, large], rounds)
            print(f"Start and memory\n\n{store_table(result['store'])}\n", flush=True)
    result["load_1min_end"] = round(os.getloadavg()[0], 2)


if __name__ == "__main__":
    sys.exit(main())
