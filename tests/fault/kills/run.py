"""The run: start, load, kill, restart, compare; with one line of figures at the end."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from store import failpoints
from tests.fault.kills.agent import Killable, KillAgent
from tests.fault.kills.truth import differences
from tests.helpers.client import Sidecar
from tests.helpers.model_server import ModelServer
from tests.helpers.server import Server

__all__ = ["Outcome", "run"]

AGENTS = 8
MODEL_AGENTS = 2
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
    with ModelServer(text=NOTES) as model, Server() as twin:
        assert twin.channel is not None
        options = ("--summarizer-client", "openai", "--summarizer-model", "m", "--summarizer-base-url", model.base_url("openai"))
        server = Server()
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
                _kill(killable, server, rand, number, places, model)
                faults += [agent.failure for agent in agents if agent.failure]
                if faults:
                    break
                # Loading a vendor's SDK takes longer than most of these lives: one in six has a model.
                server.arguments = options if (number + 1) % 6 == 0 else ()
                _restart(server, rand, number, places)
                assert server.channel is not None
                sidecar = Sidecar(server.channel)
                deep = number % 10 == 9 or number == kills - 1
                for agent in agents:
                    if agent.ops:
                        faults += differences(sidecar, agent.session_id, agent.truth, read=deep)
                if faults:
                    break
                _open(killable, server)
                if number % 20 == 19:
                    tell(f"{number + 1} of {kills} kills, {sum(agent.ops for agent in agents)} steps")
        finally:
            killable.over = True
            killable.up.set()
            server.remove()
        asked = Counter(_focus(request.user) for request in model.requests)
        faults += [f"the model was asked {count} times under {name}" for name, count in asked.items() if count > 1]
        return Outcome(
            sum(places.values()),
            places,
            sum(agent.ops for agent in agents),
            sum(len(agent.truth.checkpoints) for agent in agents),
            sum(len(agent.truth.receipts) for agent in agents),
            sum(len(agent.truth.artifacts) for agent in agents),
            len(model.requests),
            time.monotonic() - began,
            faults,
        )


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
    asked = len(model.requests)
    long = not armed and number and number % 6 == 0
    deadline = time.monotonic() + (5.0 if armed or long else rand.uniform(0.02, 0.6))
    while time.monotonic() < deadline and process.poll() is None and not (long and len(model.requests) > asked):
        time.sleep(0.002)
    struck = process.poll() is not None
    killable.up.clear()
    killable.sidecar = None
    process.kill()
    server.kill()
    time.sleep(0.01)
    places[armed.partition("=")[0] if struck and armed else "random"] += 1


def _restart(server: Server, rand: random.Random, number: int, places: Counter[str]) -> None:
    """Start again, with a failpoint armed every other time, each in turn."""
    names = failpoints.SERVING_PLACES
    server.env.pop(failpoints.VARIABLE, None)
    if number % 2 == 0:
        server.env[failpoints.VARIABLE] = f"{names[number // 2 % len(names)]}=kill@{rand.choice((1, 2, 3, 5, 9, 20))}"
    server.start()


def _focus(user: str) -> str:
    at = user.find("focus-")
    return user[at : user.index(".", at)] if at >= 0 else "no focus"
