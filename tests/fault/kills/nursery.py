"""Lives without the imports: a process that has loaded all of the sidecar, and forks one each time that it is told to.

To load the sidecar's modules takes ten times as long as all else that a start does. The fork runs the same command line on
the same folder from there on. It is made before any thread, channel or store is opened, as gRPC and LMDB need.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.helpers.server import Server

__all__ = ["Life", "Nursery", "WarmServer"]

_PRELOAD = ("sidecar.cli.main", "sidecar.cli.serve", "sidecar.app", "openai")


class Life:
    """A forked process, asked as one asks a Popen. It is another process's child: it is watched by a descriptor."""

    def __init__(self, pid: int) -> None:
        """Of a process that is not yet reaped."""
        self.pid = pid
        self._watch = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """None while it runs. The code that it ended with is not known here: 1."""
        return 1 if self._wait_ms(0) else None

    def send_signal(self, sign: int) -> None:
        """To this very process, also when its number was given to another."""
        if self.poll() is None:
            signal.pidfd_send_signal(self._watch, sign)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float) -> int:
        """Until it ended. Raises subprocess.TimeoutExpired."""
        if not self._wait_ms(int(timeout * 1000)):
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        os.close(self._watch)
        return 1

    def _wait_ms(self, timeout_ms: int) -> bool:
        watched = select.poll()
        watched.register(self._watch, select.POLLIN)
        return bool(watched.poll(timeout_ms))


class Nursery:
    """Starts lives."""

    def __init__(self) -> None:
        """Start the process; what it loads, it loads while others work."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fault.kills.nursery"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def start(self, arguments: Sequence[str], env: Mapping[str, str], log_path: Path) -> Life:
        """Fork one that runs the command line with these arguments and additions to the environment."""
        assert self._process.stdin is not None and self._process.stdout is not None
        order = {"arguments": list(arguments), "env": dict(env), "log": str(log_path)}
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        return Life(int(self._process.stdout.readline()))

    def close(self) -> None:
        """End it; lives are ended by who started them."""
        self._process.communicate(timeout=30)


class WarmServer(Server):
    """A server whose lives come from a nursery, but for those that are to load everything themselves.

    Attributes:
        cold: the next start is a process from its first instruction on.
    """

    def __init__(self, nursery: Nursery) -> None:
        """Nothing is started; the first start is a cold one."""
        super().__init__()
        self.cold = True
        self._nursery = nursery

    def spawn(self, arguments: Sequence[str]) -> Any:
        """A process of one of both kinds."""
        if self.cold:
            return super().spawn(arguments)
        return self._nursery.start(arguments, self.env, self.log_path)


def _serve_orders() -> None:
    """The nursery's own life: an order a line, the number of the new process as the answer."""
    for name in _PRELOAD:
        __import__(name)
    last = 0
    for line in sys.stdin.buffer:
        if last:
            os.waitpid(last, 0)  # only now: a process that is not reaped keeps its number
        last = os.fork()
        if last == 0:
            _live(json.loads(line))
        os.write(1, b"%d\n" % last)


def _live(order: dict[str, Any]) -> None:
    """Be a sidecar. Does not return."""
    code = 70
    try:
        log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for mine, stream in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(mine, stream)
        os.environ.update(order["env"])
        from sidecar.cli.main import main
        from store import failpoints

        failpoints.configure(os.environ.get(failpoints.VARIABLE, ""))  # read at import, which was before
        main(order["arguments"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    _serve_orders()
