"""SIGKILL at random moments: whatever was acknowledged is there afterwards, and equal.

Two hundred acknowledged fits over several sessions, some with receipts, pins and anchors; the process is killed while they run,
again and again. The seed is fixed; which write a kill meets is not, so this looks for damage; failpoint tests pin each place.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest

from sidecar.core.types import SessionKey
from store import LmdbStore
from tests.helpers.bodies import FORMATS, History, history, words
from tests.helpers.client import Agent, Sidecar, tight
from tests.helpers.server import Server
from trimtab.v1 import common_pb2, context_pb2

FITS = 200
KILLS = 14
RESTART_SECONDS = 10.0


@dataclass
class Run:
    """One agent and what it was told is durable."""

    agent: Agent
    rand: random.Random
    history: History
    fits: int = 0
    artifacts: set[str] = field(default_factory=set)
    receipts: dict[str, int] = field(default_factory=dict)  # idempotency key to item index
    pins: set[str] = field(default_factory=set)
    constraints: dict[str, str] = field(default_factory=dict)
    contents: set[str] = field(default_factory=set)

    def step(self) -> None:
        """One more step of work, then one Fit; what it acknowledged is noted only once the answer is here."""
        text = words(self.rand.choice([300, 2_000, 5_000, 40_000]), f"{self.agent.session_id}{len(self.history.items)}")
        self.contents.add(text)
        name = f"tool_{self.rand.randrange(50)}"
        self.history.step(text, name)
        call_id = f"call_{self.history.serial:06d}"
        item = len(self.history.items) - 2
        fields: dict[str, Any] = {}
        mark = f"{self.agent.session_id}-{self.history.serial}"
        if self.rand.random() < 0.4:
            state = self.rand.choice([common_pb2.EFFECT_STATE_SETTLED, common_pb2.EFFECT_STATE_PENDING])
            fields["receipts"] = [common_pb2.Receipt(call=common_pb2.CallRef(call_id=call_id), state=state, idempotency_key=mark)]
        if self.rand.random() < 0.15:
            fields["pins"] = [context_pb2.Pin(tool_name=name)]
        if self.rand.random() < 0.25:
            fields["anchors"] = common_pb2.Anchors(constraints=[common_pb2.Constraint(id=mark, text=f"rule {mark}")])
        self.agent.fit(self.history.body(), oracle=False, **fields)
        self.fits += 1
        self.artifacts |= {reduction.artifact_id for reduction in self.agent.response.reductions}
        if "receipts" in fields:
            self.receipts[mark] = item
        if "pins" in fields:
            self.pins.add(name)
        if "anchors" in fields:
            self.constraints[mark] = f"rule {mark}"


def work(runs: list[Run], until: int, cut_off: list[str]) -> None:
    """Step each run in turn until the process dies under it, which is noted, or enough is done."""
    while sum(run.fits for run in runs) < until:
        for run in runs:
            try:
                run.step()
            except grpc.RpcError as error:
                assert isinstance(error, grpc.Call)
                assert error.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}, error
                cut_off.append(run.agent.session_id)
                return


@pytest.fixture
def server() -> Iterator[Server]:
    """A sidecar to be killed."""
    running = Server()
    yield running
    running.remove()


def bind(runs: list[Run], server: Server) -> None:
    """Give the agents a channel to the new process."""
    assert server.channel is not None
    for run in runs:
        run.agent.sidecar = Sidecar(server.channel)


def assert_artifacts_whole(runs: list[Run]) -> None:
    """Everything acknowledged reads back, is by its digest what its id says, and is a text that the run had."""
    for run in runs:
        for artifact_id in run.artifacts:
            assert run.agent.sidecar.read(run.agent.session_id, artifact_id).decode() in run.contents


def test_sigkill_at_random_moments_loses_nothing_acknowledged(server: Server) -> None:
    rand = random.Random(20_310_504)
    limits = tight(60_000, 25_000)
    server.start()
    assert server.channel is not None
    sidecar = Sidecar(server.channel)
    runs = [
        Run(Agent(sidecar, FORMATS[n % 2], limits, f"kill-{n}"), random.Random(n), history(FORMATS[n % 2]).user("go"))
        for n in range(4)
    ]
    halves, cut_off = [runs[:2], runs[2:]], list[str]()
    for kill in range(KILLS):
        target = FITS * (kill + 1) // KILLS // 2
        threads = [threading.Thread(target=work, args=(half, target, cut_off)) for half in halves]
        for thread in threads:
            thread.start()
        time.sleep(rand.uniform(0.01, 0.35))
        process = server.process
        assert process is not None
        process.kill()
        for thread in threads:
            thread.join()
        server.kill()
        began = time.monotonic()
        server.start()
        assert time.monotonic() - began < RESTART_SECONDS
        bind(runs, server)
        assert_artifacts_whole(runs)
    for half in halves:
        work(half, FITS // 2, cut_off)
    assert len(cut_off) >= KILLS // 2
    assert sum(run.fits for run in runs) >= FITS
    assert_artifacts_whole(runs)
    for run in runs:
        run.agent.fit(run.history.body())
    server.stop()
    store = LmdbStore(server.data_dir, quota_bytes=0)
    findings = [finding for finding in store.check() if finding.get("level") == "error"]
    assert not findings
    for run in runs:
        image = store.load(SessionKey("", run.agent.session_id))
        assert image is not None
        assert len(run.receipts) >= 5
        assert set(run.receipts) <= {receipt.idempotency_key for receipt in image.receipts}
        assert run.pins <= {pin.tool_name for pin in image.pins}
        assert run.constraints.items() <= {rule.id: rule.text for rule in image.anchors.constraints}.items()
        assert run.artifacts <= image.artifact_ids
    store.close()
