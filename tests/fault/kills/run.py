"""The run: start, load, kill, restart, compare; with one line of figures at the end."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from typing import NamedTuple

import grpc

from store import failpoints
from tests.fault.kills.agent import Killable, KillAgent
from tests.fault.kills.nursery import Nursery, WarmServer
from tests.fault.kills.truth import differences
from tests.helpers.bodies import history
from tests.helpers.client import Sidecar
from tests.helpers.model_server import ModelServer
from tests.helpers.server import Server

__all__ = ["ARMED", "Outcome", "run"]

AGENTS = 8
MODEL_AGENTS = 2
ENDED_COUNT = 4  # sessions that ended, compared after each kill
ARMED = (*failpoints.START_PLACES, *failpoints.SERVING_PLACES, *failpoints.PURGE_PLACES, *failpoints.END_PLACES)
"""Places that are armed in turn, every other life."""
DOOMED_CALLS, DOOMED_BYTES = 600, 5_000  # of a session that more than one step removes: its results left the body
NOTES = "## Accomplished\n- read files\n## In progress\n- none\n## Next steps\n- go on\n## Facts to keep\n- none\n"


class Outcome(NamedTuple):
    """What came of it."""

    kills: int
    by_place: Counter[str]
    ops: int
    checkpoints: int
    receipts: int
    artifacts: int
    model_requests: int
    seconds: float
    faults: list[str]

    def line(self) -> str:
        """A verdict in one line."""
        verdict = "nothing acknowledged was lost" if not self.faults else f"{len(self.faults)} FAULTS"
        return (
            f"{self.kills} kills in {self.seconds:.0f} s: {verdict}; {self.ops} steps, {self.receipts} receipts, "
            f"{self.checkpoints} checkpoints, {self.artifacts} artifacts compared; "
            f"{self.model_requests} model requests, none twice"
        )


def run(kills: int, seed: int, tell: Callable[[str], None]) -> Outcome:
    """Kill a sidecar that many times.

    Args:
        kills: how often.
        seed: of all that is chosen; which write a kill meets is not.
        tell: takes a line of progress.
    """
    rand = random.Random(seed)
    began = time.monotonic()
    faults: list[str] = []
    places: Counter[str] = Counter()
    killable = Killable()
    doomed: dict[str, bool] = {}  # sessions that were to be removed, and whether that was answered
    nursery = Nursery()
    with closing(nursery), ModelServer(text=NOTES) as model, Server() as twin:
        assert twin.channel is not None
        options = ("--summarizer-client", "openai", "--summarizer-model", "m", "--summarizer-base-url", model.base_url("openai"))
        server = WarmServer(nursery)
        try:
            server.start()
            agents = [
                KillAgent(number, seed, killable, Sidecar(twin.channel), number >= AGENTS - MODEL_AGENTS)
                for number in range(AGENTS)
            ]
            _open(killable, server)
            for agent in agents:
                agent.start()
            for number in range(kills):
                _doom(killable, server, number, doomed)
                _kill(killable, server, rand, number, places, model)
                faults += [agent.failure for agent in agents if agent.failure]
                if faults:
                    break
                # One in six has a model; one in ten loads all that it needs itself, as every start in earnest does.
                server.cold = number % 10 == 5
                server.arguments = options if (number + 1) % 6 == 0 else ()
                _restart(server, rand, number, places)
                _wait_until_quiet(killable, agents)
                assert server.channel is not None
                sidecar = Sidecar(server.channel)
                faults += _compare(sidecar, agents, number, deep=number % 10 == 9, last=number == kills - 1)
                faults += _still_there(sidecar, doomed)
                if faults:
                    break
                _open(killable, server)
                if number % 20 == 19:
                    tell(f"{number + 1} of {kills} kills, {sum(agent.ops for agent in agents)} steps")
            _close(killable)
            server.stop()
            faults += [f"check: {line}" for line in _check(server) if line.startswith(("error", "warning"))]
        finally:
            _close(killable)
            server.remove()
        asked = Counter(_focus(request.user) for request in model.requests)
        faults += [f"the model was asked {count} times under {name}" for name, count in asked.items() if count > 1]
        truths = [truth for agent in agents for truth in (*agent.ended.values(), agent.truth)]
        return Outcome(
            sum(places.values()),
            places,
            sum(agent.ops for agent in agents),
            sum(len(truth.checkpoints) for truth in truths),
            sum(len(truth.receipts) for truth in truths),
            sum(len(truth.artifacts) for truth in truths),
            len(model.requests),
            time.monotonic() - began,
            faults,
        )


def _compare(sidecar: Sidecar, agents: Sequence[KillAgent], number: int, *, deep: bool, last: bool) -> list[str]:
    """Nobody works. Faults of every session that is at work, and of some that ended, in turn; at the last kill of all."""
    found: list[str] = []
    for agent in agents:
        if agent.truth.revision:  # something of it is durable
            found += differences(sidecar, agent.session_id, agent.truth, read=deep or last)
    ended = [(name, truth) for agent in agents for name, truth in agent.ended.items() if truth.revision]
    for place in (
        range(len(ended)) if last else {(number * ENDED_COUNT + each) % len(ended) for each in range(ENDED_COUNT) if ended}
    ):
        session_id, truth = ended[place]
        found += differences(sidecar, session_id, truth, read=deep or last)
    return found


def _open(killable: Killable, server: Server) -> None:
    assert server.channel is not None
    killable.sidecar = Sidecar(server.channel)
    killable.up.set()


def _kill(killable: Killable, server: Server, rand: random.Random, number: int, places: Counter[str], model: ModelServer) -> None:
    """Wait for a failpoint to strike, or strike at a random moment. Then nobody asks any more.

    Now and then it strikes just when a model is asked.
    """
    process = server.process
    assert process is not None
    armed = server.env.get(failpoints.VARIABLE, "")
    if armed.startswith(failpoints.END_PLACES):
        time.sleep(rand.uniform(0.02, 0.6))
        process.send_signal(signal.SIGTERM)
    asked = len(model.requests)
    long = not armed and number and number % 6 == 0
    deadline = time.monotonic() + (15.0 if armed or long else rand.uniform(0.02, 0.6))
    while time.monotonic() < deadline and process.poll() is None and not (long and len(model.requests) > asked):
        time.sleep(0.002)
    struck = process.poll() is not None
    killable.up.clear()
    killable.sidecar = None
    process.kill()
    server.kill()
    time.sleep(0.01)
    places[armed.partition("=")[0] if struck and armed else "random"] += 1


def _wait_until_quiet(killable: Killable, agents: Sequence[KillAgent]) -> None:
    """Until what was answered before the kill is noted by all, the twin's answer included."""
    deadline = time.monotonic() + 120
    while killable.waiting < sum(agent.is_alive() for agent in agents):
        if time.monotonic() > deadline:
            raise RuntimeError("an agent neither works nor waits")
        time.sleep(0.001)


def _restart(server: Server, rand: random.Random, number: int, places: Counter[str]) -> None:
    """Start again, with a failpoint armed every other time, each in turn. One that lies in the start strikes at once."""
    server.env.pop(failpoints.VARIABLE, None)
    if number % 2 == 0:
        place = ARMED[number // 2 % len(ARMED)]
        passes = rand.choice((1, 2, 3, 5, 9, 20)) if place in failpoints.SERVING_PLACES else 1
        server.env[failpoints.VARIABLE] = f"{place}=kill@{passes}"
        if place in failpoints.START_PLACES:
            try:
                server.start()
            except RuntimeError:
                places[place] += 1
            server.kill()
            server.env.pop(failpoints.VARIABLE)
    server.start()


def _close(killable: Killable) -> None:
    """Nobody asks any more, for good."""
    killable.over = True
    killable.sidecar = None
    killable.up.set()


def _doom(killable: Killable, server: Server, number: int, doomed: dict[str, bool]) -> None:
    """Where a removal is to be struck: make a session that takes more than one step to remove, and remove it."""
    if not server.env.get(failpoints.VARIABLE, "").startswith(failpoints.PURGE_PLACES):
        return
    session_id = f"doomed-{number}"
    body = history("openai-chat").user("go").steps(DOOMED_CALLS, DOOMED_BYTES).body()
    sidecar = killable.sidecar
    assert sidecar is not None
    sidecar.fit(session_id, body, format="openai-chat")
    doomed[session_id] = False
    with suppress(grpc.RpcError):
        doomed[session_id] = sidecar.delete(session_id)


def _still_there(sidecar: Sidecar, doomed: dict[str, bool]) -> list[str]:
    """Sessions that came back. A removal that was cut off is repeated: the session is whole, or out of sight."""
    there = {session_id for session_id in doomed if sidecar.delete(session_id)}
    found = [f"{session_id} was removed, and is there" for session_id, told in doomed.items() if told and session_id in there]
    doomed.clear()
    return found


def _check(server: Server) -> list[str]:
    """What `trimtab check` says of the store, once what was being removed is gone."""
    command = [*server.program, "check", "--data-dir", str(server.data_dir)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False).stdout.splitlines()


def _focus(user: str) -> str:
    at = user.find("focus-")
    return user[at : user.index(".", at)] if at >= 0 else "no focus"
