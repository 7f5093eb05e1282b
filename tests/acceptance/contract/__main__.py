"""Prints the report of the contract scenario, per step and format."""

from __future__ import annotations

import sys
from functools import partial

from tests.acceptance.contract.play import FIELDS, play, read
from tests.acceptance.contract.script import COMPACT_STEP, READ_STEP, STEPS, TRIM_STEP
from tests.helpers.bodies import TYPED
from tests.helpers.client import Sidecar
from tests.helpers.server import Server


def _read_back(sidecar: Sidecar, session_id: str, artifact_id: str) -> str:
    return sidecar.read(session_id, artifact_id).decode()


def main() -> int:
    """0 when the reader finds everything in every format."""
    held = True
    with Server() as server:
        assert server.channel is not None
        sidecar = Sidecar(server.channel)
        for format_name in TYPED:
            run = play(sidecar, format_name, f"contract-{format_name}", until=STEPS)
            print(f"{format_name}\n{'step':>5} {'raw':>9} {'sent':>9}  {'  '.join(FIELDS)}  read-backs")
            for number, ((raw, sent), body) in enumerate(zip(run.sizes, run.bodies, strict=True), 1):
                found = read(body, partial(_read_back, sidecar, run.session_id))
                fields = found.fields()
                marks = "  ".join(("yes" if fields[name] else "-").ljust(len(name)) for name in FIELDS)
                what = {TRIM_STEP: "trim", COMPACT_STEP: "compaction", READ_STEP: "reader"}.get(number, "")
                if number >= READ_STEP and not all(fields.values()):
                    held = False
                if number % 5 == 0 or what:
                    print(f"{number:>5} {raw:>9,} {sent:>9,}  {marks}  {found.read_backs:>4}  {what}")
            print("repeated work: none, the scripted agent runs each step once\n")
    print("the reader found everything" if held else "the reader did NOT find everything")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
