"""Logs never hold content: not even in the trace of an error that nobody expected."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import logging, sys
from sidecar.log import set_up_logs
def fail(body):
    raise ValueError("broken")
set_up_logs("debug", sys.argv[1])
try:
    fail("-".join(("content", "canary")))
except ValueError:
    logging.getLogger("here").exception("it failed")
"""


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_set_up_logs_trace_shows_the_error_and_no_local_variable(log_format: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, log_format], capture_output=True, text=True, check=True, timeout=60)
    assert "it failed" in done.stderr
    assert "broken" in done.stderr
    assert "in fail" in done.stderr
    assert "content-canary" not in done.stderr
