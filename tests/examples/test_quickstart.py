from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples import quickstart
from sidecar.app import App

ROOT = Path(__file__).resolve().parents[2]


def test_run_agent_reads_back_and_stays_bounded(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    bodies: list[dict[str, Any]] = []
    model = quickstart.fake_model

    def watched(body: dict[str, Any]) -> list[dict[str, Any]]:
        bodies.append(body)
        return model(body)

    monkeypatch.setattr(quickstart, "fake_model", watched)
    sizes = quickstart.run_agent(app.address)
    assert len(sizes) == 62
    assert max(sizes) < 300_000 < 60 * 9_000
    read_back = bodies[-1]["messages"][-1]["content"][0]
    assert read_back["tool_use_id"] == "toolu_60"
    assert "# src/0.py" in json.dumps(read_back)


def test_quickstart_runs_as_the_readme_says(app: App) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "quickstart.py"), app.address], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"62 model calls")


@pytest.mark.parametrize("arguments", [[], ["unix:a", "b"]])
def test_quickstart_without_its_argument_says_how_it_is_called(arguments: list[str]) -> None:
    command = [sys.executable, str(ROOT / "examples" / "quickstart.py"), *arguments]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"usage: quickstart.py unix:SOCKET|HOST:PORT\n"


def test_readme_shows_the_quickstart_as_it_is() -> None:
    snippet = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert snippet is not None
    source = (ROOT / "examples" / "quickstart.py").read_text()
    body = ast.parse(source).body
    assert isinstance(body[0], ast.Expr)
    after_docstring = "\n".join(source.splitlines()[body[0].end_lineno :]).strip()
    assert snippet.group(1).strip() == after_docstring
