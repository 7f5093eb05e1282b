"""What commands share: options from the table, the choice between a running sidecar and a data folder, and errors as messages."""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import grpc

from sidecar.config import OPTIONS, Config, ConfigError, Resolved, check_limits, check_summarizer, load_config
from sidecar.formats import ADAPTERS, NAMES
from sidecar.option_values import parse_size
from trimtab import TrimtabError, error_from_rpc

if TYPE_CHECKING:
    from sidecar.app import App

__all__ = [
    "FORMATS",
    "TEXT",
    "config_options",
    "must_be_a_store",
    "next_command",
    "reached",
    "resolve",
    "session_options",
    "size_of",
    "speaking",
    "started",
    "startup_failure",
    "store_folder",
    "target_options",
]

FORMATS = tuple(NAMES[format] for format in ADAPTERS)
"""Dialects that there are adapters for, by name."""

F = TypeVar("F", bound=Callable[..., Any])


class _Text(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click only
    """Text that goes into a request: a byte that is not UTF-8 is refused here, not where the request is written."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            value.encode()
        except UnicodeEncodeError:
            self.fail("is not UTF-8 text", param, ctx)
        return value


TEXT = _Text()


def size_of(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Callback of an option that is a size, such as 64KiB."""
    try:
        return None if value is None else parse_size(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def config_options(*names: str) -> Callable[[F], F]:
    """Flags for options of the table (all of it when none is named) and `--config`. Values are not parsed here."""
    chosen = [option for option in OPTIONS if not names or option.name in names]

    def add(command: F) -> F:
        for option in reversed(chosen):
            default = "" if option.default in (None, "", ()) else f" [default: {option.show(option.default)}]"
            decorate = click.option(
                option.flag,
                option.name,
                metavar=option.kind,
                multiple=option.default == (),
                help=f"{option.help}{default} [{option.variable}]",
            )
            command = decorate(command)
        return click.option(
            "--config", "config_file", metavar="FILE", help="TOML file of options; flags and variables beat it. [TRIMTAB_CONFIG]"
        )(command)

    return add


def resolve(flags: dict[str, Any], *, whole: bool = True) -> Resolved:
    """The configuration that these flags, the environment and the file give.

    Args:
        flags: as click gives them.
        whole: it is a sidecar's own. Without this, limits are not judged together: what is not among them is another's.
    """
    file = flags.pop("config_file", None)
    try:
        resolved = load_config(flags, file=file)
        if whole:
            check_limits(resolved)
            check_summarizer(resolved.config)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    return resolved


def target_options(command: F) -> F:
    """`--target` or `--data-dir`: which sessions a command sees."""
    command = click.option(
        "--data-dir", metavar="DIR", help="A store that no sidecar holds: one is started in this process. [TRIMTAB_DATA_DIR]"
    )(command)
    return click.option(
        "--target",
        type=TEXT,
        envvar="TRIMTAB_TARGET",
        metavar="ADDRESS",
        help="A running sidecar: unix:PATH or HOST:PORT. [TRIMTAB_TARGET]",
    )(command)


def session_options(command: F) -> F:
    """`--session` and `--scope`."""
    command = click.option(
        "--scope", default="", type=TEXT, envvar="TRIMTAB_SCOPE", metavar="NAME", help="Scope of the session. [TRIMTAB_SCOPE]"
    )(command)
    return click.option(
        "--session",
        "session_id",
        required=True,
        type=TEXT,
        envvar="TRIMTAB_SESSION",
        metavar="ID",
        help="Session. [TRIMTAB_SESSION]",
    )(command)


def next_command(command: str, session_id: str, scope: str, target: str | None, data_dir: str | None, *words: str) -> str:
    """A command line to run next on the same session, as a shell takes it. What the environment gave it gives again."""
    own = sys.argv[0]
    program = own if Path(own).name == "trimtab" and shutil.which("trimtab") is None else "trimtab"
    named = ("--session", session_id, *(("--scope", scope) if scope else ()))
    where = ("--target", target) if target else ("--data-dir", data_dir) if data_dir else ()
    return shlex.join((program, command, *words, *named, *where))


def must_be_a_store(data_dir: str) -> None:
    """Refuse a folder that holds no store: to look at a misspelled one must not make one there."""
    from sidecar.app import is_store

    if not is_store(data_dir):
        raise click.ClickException(
            f"there is no store in {data_dir}: check --data-dir; `trimtab serve` and `trimtab fit` make one where there is none"
        )


def store_folder(config: Config) -> str:
    """The folder of a store that is there, for a command that works on the store itself."""
    if not config.data_dir:
        raise click.UsageError("give --data-dir DIR of a store, or set TRIMTAB_DATA_DIR")
    must_be_a_store(config.data_dir)
    return config.data_dir


@contextmanager
def reached(target: str | None, data_dir: str | None, *, make: bool = False) -> Iterator[str]:
    """A sidecar to talk to: the one at `target`, or one started here on `data_dir`, on a socket that only this user sees.

    Args:
        target: its address.
        data_dir: used without a target; the environment's when None.
        make: make a store where there is none.
    """
    if target:
        if data_dir:
            raise click.UsageError("give --target or --data-dir, not both")
        yield target
        return
    data_dir = data_dir or os.environ.get("TRIMTAB_DATA_DIR")
    if not data_dir:
        raise click.UsageError("give --target ADDRESS of a running sidecar, or --data-dir DIR of a store")
    if not make:
        must_be_a_store(data_dir)
    with tempfile.TemporaryDirectory(prefix="trimtab-") as folder:
        resolved = load_config({"listen": (f"unix:{Path(folder, 's')}",), "data_dir": data_dir, "socket_mode": "0600"})
        check_limits(resolved)
        check_summarizer(resolved.config)
        with started(resolved.config) as app:
            yield app.address


@contextmanager
def started(config: Config) -> Iterator[App]:
    """A sidecar in this process. What keeps it from starting is told as a message."""
    from sidecar.app import STARTUP_ERRORS, open_app  # the server, only where it is needed

    try:
        app = open_app(config)
    except STARTUP_ERRORS as error:
        raise startup_failure(error) from error
    with app:
        yield app


def startup_failure(error: Exception) -> click.ClickException:
    """What keeps a sidecar or a store from opening, as a message: exit code 2 where an option has a wrong value, else 1."""
    from sidecar.app import USAGE_ERRORS

    return click.UsageError(str(error)) if isinstance(error, USAGE_ERRORS) else click.ClickException(str(error))


def speaking(command: F) -> F:
    """Turn the errors that a user can do something about into a message on stderr and exit code 1, or 2 for wrong options."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except ConfigError as error:
            raise click.UsageError(str(error)) from error
        except TrimtabError as error:
            raise click.ClickException(str(error)) from error
        except grpc.RpcError as error:
            raise click.ClickException(str(error_from_rpc(error))) from error

    return run  # type: ignore[return-value]
