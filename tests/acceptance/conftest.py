"""One real sidecar for the whole session, and a client of it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.helpers.client import Sidecar
from tests.helpers.server import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A running sidecar that no test may stop."""
    with Server() as running:
        yield running


@pytest.fixture
def sidecar(server: Server) -> Iterator[Sidecar]:
    """A client; the server must have survived the test."""
    assert server.channel is not None
    yield Sidecar(server.channel)
    assert server.is_alive()


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A running sidecar that a test may kill and start again."""
    with Server() as running:
        yield running


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Of the recorded bodies: how many each dialect's Fit left whole, how many stay over their limit and why, bytes kept."""
    module = sys.modules.get("tests.acceptance.test_corpus")
    outcomes: dict[str, list[tuple[int, int, str]]] = {} if module is None else module.OUTCOMES
    if not outcomes:
        return
    terminalreporter.write_line("Recorded bodies at 50 %, 25 % and 10 % of their size, through Fit, all valid:")
    terminalreporter.write_line(f"{'dialect':<20}{'bodies':>8}{'fitted':>8}{'over':>6}{'bytes kept':>12}  over because of")
    for name, rows in outcomes.items():
        over = Counter(why for _, _, why in rows if why)
        kept = sum(after for _, after, _ in rows) / sum(before for before, _, _ in rows)
        told = ", ".join(f"{why} {count}" for why, count in over.most_common())
        terminalreporter.write_line(
            f"{name:<20}{len(rows):>8}{len(rows) - over.total():>8}{over.total():>6}{kept:>12.0%}  {told}"
        )
