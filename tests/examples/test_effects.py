"""The agent with effects, killed before and after each of its steps: no effect twice, none invented, and it gets to its end."""

from __future__ import annotations

import ast
import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import trimtab
from examples import effects
from sidecar.app import App

ROOT = Path(__file__).resolve().parents[2]
DIALECTS = ("openai-chat", "anthropic-messages")


class _Killed(BaseException):
    """The process is gone."""


class _Fate:
    """Kills the agent at its n-th step: an odd one before it is done, an even one after."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.step = 0
        self.at = -1
        for owner, name in (
            (trimtab.Trimtab, "record"),
            (trimtab.Trimtab, "fit"),
            (trimtab.Trimtab, "recover"),
            (effects, "deploy"),
        ):
            monkeypatch.setattr(owner, name, self._watched(getattr(owner, name)))

    def _watched(self, done: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            self._tick()
            answer = done(*arguments, **options)
            self._tick()
            return answer

        return step

    def _tick(self) -> None:
        self.step += 1
        if self.step == self.at:
            raise _Killed


def _lives(app: App, fate: _Fate, dialect: str, session_id: str, log: Path, deaths: list[int]) -> tuple[list[Any], bool]:
    """Run until it ends, killed at the given steps of its first lives. Also whether there was a step for each death."""
    died = 0
    for at in [*deaths, -1]:
        fate.step, fate.at = 0, at
        try:
            return effects.run_agent(app.address, dialect, session_id, log), died == len(deaths)
        except _Killed:
            died += 1
    raise AssertionError("it never ended")


def _honest(messages: list[Any], log: Path) -> None:
    """What the history says was deployed is what was, each place once; a call that says nothing of it did nothing."""
    entries = [line.split() for line in log.read_text().splitlines()]
    assert sorted(place for _, place in entries) == sorted(effects.PLACES)
    text = json.dumps(messages)
    for place, call in effects.asked(messages):
        said = effects.is_deployed(text, call)
        assert said == any(key.endswith(f":{call}") and at == place for key, at in entries)
    assert messages[-1]["role"] == "assistant"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_run_agent_killed_at_each_step_repeats_nothing_and_invents_nothing(
    app: App, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, dialect: str
) -> None:
    fate = _Fate(monkeypatch)
    for at in range(1, 1000):
        log = tmp_path / f"{at}.log"
        messages, was_killed = _lives(app, fate, dialect, f"run-{at}", log, [at])
        _honest(messages, log)
        if not was_killed:
            break
    assert at > 30


@pytest.mark.parametrize("dialect", DIALECTS)
def test_run_agent_killed_again_while_it_resumes_is_as_safe(
    app: App, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, dialect: str
) -> None:
    fate = _Fate(monkeypatch)
    rand = random.Random(f"effects {dialect}")
    for number in range(25):
        log = tmp_path / f"{number}.log"
        deaths = [rand.randrange(1, 30), *(rand.randrange(1, 9) for _ in range(rand.randrange(1, 4)))]
        messages, _ = _lives(app, fate, dialect, f"run-{number}", log, deaths)
        _honest(messages, log)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_effects_runs_as_its_header_says_after_a_kill_too(app: App, tmp_path: Path, dialect: str) -> None:
    log = tmp_path / "log"
    killer = (
        "import os, signal, sys; from examples import effects; real = effects.deploy\n"
        "def deploy(log, place, key):\n"
        "    real(log, place, key)\n"
        "    if place == 'eu': os.kill(os.getpid(), signal.SIGKILL)\n"
        "effects.deploy = lambda *a: deploy(*a) or 'deployed to ' + a[1]\n"
        f"effects.run_agent({app.address!r}, {dialect!r}, 'effects-{dialect}', effects.Path({str(log)!r}))"
    )
    died = subprocess.run([sys.executable, "-c", killer], capture_output=True, timeout=60, check=False, cwd=ROOT)
    assert died.returncode == -signal.SIGKILL, died.stderr
    command = [sys.executable, str(ROOT / "examples" / "effects.py"), app.address, dialect, str(log)]
    told = []
    for _ in range(2):  # again, and nothing is added
        done = subprocess.run(command, capture_output=True, timeout=60, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)})
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith(b"; 3 deployments\n")
        told.append(done.stdout)
    assert told[0] == told[1]


@pytest.mark.parametrize("arguments", [[], ["unix:/x"], ["unix:/x", "gpt", "log"]])
def test_effects_without_its_arguments_tells_how(arguments: list[str]) -> None:
    command = [sys.executable, str(ROOT / "examples" / "effects.py"), *arguments]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.stderr.startswith(b"usage: effects.py")
    assert done.returncode == 2


@pytest.mark.parametrize("says", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_run_agent_after_a_close_by_hand_repeats_nothing(
    app: App, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, dialect: str, says: bool
) -> None:
    fate = _Fate(monkeypatch)
    for at in range(1, 1000):
        log, session_id = tmp_path / f"{at}.log", f"hand-{at}"
        fate.step, fate.at = 0, at
        try:
            effects.run_agent(app.address, dialect, session_id, log)
            break
        except _Killed:
            fate.at = -1
        with trimtab.connect(app.address, format=dialect, read_back="none") as t:
            try:
                known = t.recover(session_id)
            except trimtab.SessionNotFoundError:
                continue
            for each in known.open_calls if says else ():
                key = each.receipt.idempotency_key
                if key and not each.receipt.result:
                    state = "settled" if effects.happened(log, key) else "failed"
                    t.record(session_id, f"hand-{key}", receipts=[trimtab.receipt(each.call, state, idempotency_key=key)])
            t.recover(session_id, close_interrupted=True, request_id="hand")
        _honest(effects.run_agent(app.address, dialect, session_id, log), log)
    assert at > 30


def test_readme_shows_the_loop_as_it_is() -> None:
    source = (ROOT / "examples" / "effects.py").read_text()
    wanted = [
        ast.get_source_segment(source, node)
        for node in ast.parse(source).body
        if getattr(node, "name", "") in ("resume", "run_agent")
    ]
    section = re.search(r"## Effects and crashes\n.*?```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert section is not None
    assert section.group(1).strip() == "\n\n\n".join(str(each) for each in wanted)
