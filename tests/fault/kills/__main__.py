"""Command line of the kill test."""

from __future__ import annotations

import argparse
import sys

from tests.fault.kills.run import run


def main() -> int:
    """Run; 0 when nothing was lost."""
    parser = argparse.ArgumentParser(description="Kill a sidecar under load, and compare with what it acknowledged.")
    parser.add_argument("--kills", type=int, default=1000, help="how often (default: 1000)")
    parser.add_argument("--seed", type=int, default=1, help="of all that is chosen (default: 1)")
    given = parser.parse_args()
    outcome = run(given.kills, given.seed, lambda line: print(line, file=sys.stderr, flush=True))
    for fault in outcome.faults[:20]:
        print(fault, file=sys.stderr)
    print("kills by place:", ", ".join(f"{place} {count}" for place, count in sorted(outcome.by_place.items())))
    print(outcome.line())
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main())
