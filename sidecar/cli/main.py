"""The command `trimtab`. Commands are imported when they are used, so that `--help` and `version` do not load the server."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import click

__all__ = ["main"]

_COMMANDS = {
    "serve": "sidecar.cli.serve:serve",
    "fit": "sidecar.cli.fit:fit",
    "compact": "sidecar.cli.compact:compact",
    "checkpoints": "sidecar.cli.checkpoints:checkpoints",
    "rollback": "sidecar.cli.rollback:rollback",
    "recover": "sidecar.cli.recover:recover",
    "record": "sidecar.cli.record:record",
    "replay": "sidecar.cli.replay:replay",
    "read": "sidecar.cli.read:read",
    "search": "sidecar.cli.search:search",
    "sessions": "sidecar.cli.sessions:sessions",
    "check": "sidecar.cli.check:check",
    "backup": "sidecar.cli.backup:backup",
    "retain": "sidecar.cli.retain:retain",
    "config": "sidecar.cli.config:config",
    "version": "sidecar.cli.version:version",
}

_HELP = """Keep an LLM agent's working context bounded without losing anything.

Start a sidecar and hand it each request body before it goes to the model; under pressure it gives back a smaller one, and
keeps what it took out:

\b
  trimtab serve --listen unix:/run/trimtab/sock --data-dir /var/lib/trimtab
  trimtab fit --target unix:/run/trimtab/sock --format anthropic-messages --session run-1 --read-back inject < body.json
  trimtab sessions --target unix:/run/trimtab/sock
  trimtab read ARTIFACT --session run-1 --target unix:/run/trimtab/sock

Every option of `serve` is also a TRIMTAB_* variable and a key of a TOML file; `trimtab config` lists them and prints what is in
force. Exit codes: 0 done, 1 refused or failed (the reason is on stderr), 2 wrong usage, such as
an option that is missing or has a value that it may not have.
"""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the table's order, which is the order of use."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 120}


@click.command("trimtab", cls=_Commands, help=_HELP, context_settings=_SETTINGS)
def _trimtab() -> None:
    """The group; its help is _HELP."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exits the process."""
    _open_missing_streams()
    try:
        _trimtab.main(args=arguments, prog_name="trimtab")
    except BrokenPipeError:  # the reader of our output has gone
        _end_quietly()
    except OSError as error:
        what = f"{error.filename}: " if error.filename else "cannot read the input or write the output: "
        with suppress(OSError):
            click.echo(f"Error: {what}{error.strerror or error}", err=True)
        _end_quietly()


def _open_missing_streams() -> None:
    """Input and output that the caller closed fail when they are used; their numbers must not go to other files."""
    for name, use, mode in (("stdin", os.O_WRONLY, "r"), ("stdout", os.O_RDONLY, "w"), ("stderr", os.O_WRONLY, "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, use), mode))


def _end_quietly() -> NoReturn:
    """Exit with 1. What Python would still flush at its end goes nowhere: it could only fail once more, with a trace."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
    raise SystemExit(1) from None


if __name__ == "__main__":
    main()
