"""All options, in one table, and where their values come from: flag, then TRIMTAB_* variable, then TOML file, then default.

A file's key that is not in the table is an error. A TRIMTAB_* variable that is not is only reported (`unknown_variables`):
Kubernetes makes such variables for every Service, so a Service called trimtab would otherwise stop the server.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from sidecar import option_values as values
from sidecar.core.errors import InvalidFieldError
from sidecar.core.limits import check_given, resolve
from sidecar.core.tokens import BYTES_PER_TOKEN_LOW
from sidecar.core.types import LimitsGiven, Preset

__all__ = [
    "OPTIONS",
    "Config",
    "ConfigError",
    "Option",
    "Resolved",
    "check_limits",
    "check_summarizer",
    "given_limits",
    "load_config",
    "to_toml",
    "unknown_variables",
]

READ_BACKS = ("tool", "inject", "caller", "none")
PRESETS = ("balanced", "minimal", "window")
SUMMARIZERS = ("ledger", "caller", "model")
SUMMARIZER_CLIENTS = ("openai", "anthropic")
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("auto", "console", "json")

MIN_MESSAGE_BYTES = 1024
MAX_MESSAGE_BYTES = (2 << 30) - (2 << 20)
"""gRPC counts in 32 bits, and a message is larger than the body in it."""

CONFIG_VARIABLE = "TRIMTAB_CONFIG"
# Variables that are read elsewhere: by the command line's own options, and by the tests.
_OTHER_VARIABLES = frozenset(
    {CONFIG_VARIABLE, "TRIMTAB_TARGET", "TRIMTAB_FORMAT", "TRIMTAB_SESSION", "TRIMTAB_SCOPE", "TRIMTAB_CORPUS"}
)


class ConfigError(Exception):
    """An option has a value that it may not have. The text names the option and where the value came from."""


class Config(msgspec.Struct, frozen=True):
    """The options' values. None: not given."""

    listen: tuple[str, ...] = ()
    data_dir: str = ""
    quota_bytes: int = 8 << 30
    max_message_bytes: int = 64 << 20
    threads: int = 8
    cache_bytes: int = 64 << 20
    read_back: str = ""
    read_back_tool_name: str = ""
    preset: str = "balanced"
    soft_bytes: int | None = None
    target_bytes: int | None = None
    hard_bytes: int | None = None
    min_saving_bytes: int | None = None
    externalize_bytes: int | None = None
    keep_unit_count: int | None = None
    keep_result_tokens: int | None = None
    compact_target_bytes: int | None = None
    compact_min_saving_bytes: int | None = None
    summary_bytes: int | None = None
    window_tokens: int | None = None
    reply_tokens: int | None = None
    cache_ttl_ms: int | None = None
    compaction: bool = True
    summarizer: str = "ledger"
    summarizer_client: str = ""
    summarizer_model: str = ""
    summarizer_base_url: str = ""
    summarizer_key_file: str = ""
    summarizer_key_env: str = ""
    socket_mode: int = 0o660
    insecure_tcp: bool = False
    drain_delay_s: float = 0.0
    drain_timeout_s: float = 10.0
    retain_age_s: float | None = None
    retain_scope_bytes: int | None = None
    retain_total_bytes: int | None = None
    retain_interval_s: float = 3600.0
    log_level: str = "info"
    log_format: str = "auto"


class Option(msgspec.Struct, frozen=True):
    """One row of the table."""

    name: str
    kind: str  # for people: what a value looks like
    help: str
    parse: Callable[[object], Any]  # from TOML's value or a string; raises ValueError
    show: Callable[[Any], str]  # as TOML

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return f"TRIMTAB_{self.name.upper()}"

    @property
    def flag(self) -> str:
        """Its flag on the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def default(self) -> Any:
        """Its value when nobody gives one; None: unset."""
        return getattr(Config(), self.name)


def _size(name: str, text: str, at_least: int = 0, at_most: int = values.SIZE_MAX) -> Option:
    return Option(name, "SIZE", text, lambda value: values.parse_size(value, at_least, at_most), str)


def _count(name: str, text: str, at_least: int = 0) -> Option:
    return Option(name, "N", text, lambda value: values.parse_count(value, at_least), str)


def _seconds(name: str, text: str, at_least: float = 0.0) -> Option:
    return Option(name, "SECONDS", text, lambda value: values.parse_seconds(value, at_least), str)


def _choice(name: str, allowed: tuple[str, ...], text: str) -> Option:
    return Option(name, "|".join(allowed), text, lambda value: values.parse_choice(value, allowed), values.toml_string)


def _text(name: str, kind: str, text: str) -> Option:
    return Option(name, kind, text, values.parse_text, values.toml_string)


def _flag(name: str, text: str) -> Option:
    return Option(name, "true|false", text, values.parse_flag, lambda flag: "true" if flag else "false")


OPTIONS: tuple[Option, ...] = (
    Option(
        "listen",
        "ADDRESS",
        "Where to listen: unix:PATH or HOST:PORT; may be given more than once.",
        values.parse_list,
        values.toml_list,
    ),
    _text("data_dir", "DIR", "Folder of the store, readable by its owner only; `serve` makes it when it is missing."),
    _size("quota_bytes", "The store takes no more than this; set it below the volume's size."),
    _size("max_message_bytes", "Largest message in either direction; under 2 GiB.", MIN_MESSAGE_BYTES, MAX_MESSAGE_BYTES),
    _count("threads", "Calls that run at once.", 1),
    _size("cache_bytes", "Memory for sessions in use."),
    _choice("read_back", READ_BACKS, "How models read content back, unless the call or the session says. Unset: a call must."),
    _text("read_back_tool_name", "NAME", "Name of the agents' own tool that reads artifacts, where it is not ours."),
    _choice("preset", PRESETS, "Where limits that are not given come from."),
    _size("soft_bytes", "Fit cuts only when a body is larger than this."),
    _size("target_bytes", "Fit reduces down to this."),
    _size("hard_bytes", "A body larger than this must not be sent."),
    _size("min_saving_bytes", "Fit acts only when at least this much comes free, unless a hard limit is at stake."),
    _size("externalize_bytes", "A single result larger than this leaves the body when it arrives; 0 turns that off."),
    _count("keep_unit_count", "How many of the newest units stay intact."),
    _count("keep_result_tokens", "How many tokens of the newest results stay intact."),
    _size("compact_target_bytes", "Compact aims for a body of this size."),
    _size("compact_min_saving_bytes", "A summary that saves less is not made, unless a hard limit is at stake."),
    _size("summary_bytes", "The longest summary, anchors and states of requests apart."),
    _count("window_tokens", "The model's context window. Unset: not known, which is not unlimited."),
    _count("reply_tokens", "What the model's reply may take of the window."),
    _count("cache_ttl_ms", "How long the provider keeps an unused prompt cache; 0: not known."),
    _flag("compaction", "Allow new compactions; false does not undo any."),
    _choice("summarizer", SUMMARIZERS, "Who writes summaries where a call does not say."),
    _choice("summarizer_client", SUMMARIZER_CLIENTS, "SDK that asks the model endpoint, an extra of the package. Unset: none."),
    _text("summarizer_model", "NAME", "Model, as the endpoint names it."),
    Option(
        "summarizer_base_url",
        "URL",
        "Address of the endpoint, for openai with its /v1. Unset: the vendor's own.",
        values.parse_url,
        values.toml_string,
    ),
    _text("summarizer_key_file", "FILE", "File that holds the endpoint's key; read anew for each call."),
    Option(
        "summarizer_key_env",
        "NAME",
        "Variable that holds the key. Unset: OPENAI_API_KEY or ANTHROPIC_API_KEY.",
        values.parse_variable,
        values.toml_string,
    ),
    Option("socket_mode", "OCTAL", "Permission bits of Unix sockets.", values.parse_mode, lambda mode: f'"0{mode:o}"'),
    _flag("insecure_tcp", "Allow TCP beyond this machine, without TLS or authentication."),
    _seconds("drain_delay_s", "At the end, go on serving this long after readiness says no."),
    _seconds("drain_timeout_s", "At the end, how long running calls may take."),
    _seconds("retain_age_s", "Remove sessions that were not used for so long, such as 30d. Unset: never."),
    _size("retain_scope_bytes", "Remove a scope's longest unused sessions while they take more. Unset: no bound."),
    _size("retain_total_bytes", "Remove the longest unused sessions while all take more. Unset: no bound."),
    _seconds("retain_interval_s", "How often that is looked at.", 1.0),
    _choice("log_level", LOG_LEVELS, "Least level that is logged, on stderr."),
    _choice("log_format", LOG_FORMATS, "How logs are written; auto is console at a terminal, else json."),
)

_BY_NAME: Mapping[str, Option] = {option.name: option for option in OPTIONS}


class Resolved(msgspec.Struct, frozen=True):
    """A configuration and where each value came from: "flag", a variable's name, the file's path, or "default"."""

    config: Config
    origins: Mapping[str, str]


def load_config(
    flags: Mapping[str, object], environ: Mapping[str, str] | None = None, file: str | os.PathLike[str] | None = None
) -> Resolved:
    """Put the options' values together.

    Args:
        flags: values by option name; None and empty tuples count as not given.
        environ: the environment; os.environ when None. An empty variable counts as not given.
        file: TOML file; when None, the one that TRIMTAB_CONFIG names, if any.

    Raises:
        ConfigError: a value that an option may not have, a key that no option has, or a file that cannot be read.
    """
    environ = os.environ if environ is None else environ
    path = file or environ.get(CONFIG_VARIABLE) or None
    given: dict[str, tuple[object, str]] = {}
    if path is not None:
        for name, value in _read_file(Path(path)).items():
            if name not in _BY_NAME:
                raise ConfigError(f"{path}: no option is called {name!r}{_similar(name)}")
            given[name] = (value, os.fspath(path))
    for option in OPTIONS:
        if text := environ.get(option.variable):
            given[option.name] = (text, option.variable)
    for name, value in flags.items():
        if value is not None and value != ():
            given[name] = (value, "flag")
    parsed: dict[str, Any] = {}
    for name, (value, origin) in given.items():
        try:
            parsed[name] = _BY_NAME[name].parse(value)
        except ValueError as error:
            raise ConfigError(f"{name} (from {origin}): {error}") from None
    origins = {option.name: given[option.name][1] if option.name in given else "default" for option in OPTIONS}
    return Resolved(Config(**parsed), origins)


def check_limits(resolved: Resolved) -> None:
    """Refuse limits that no session could work with: each of its calls would be told of fields that it never sent.

    Raises:
        ConfigError: names the option and where its value came from.
    """
    given = given_limits(resolved.config)
    try:
        check_given(given)
        resolve(given, BYTES_PER_TOKEN_LOW)
    except InvalidFieldError as error:
        name = str(error.details["field"]).removeprefix("limits.")
        origin = f" (from {resolved.origins[name]})" if resolved.origins[name] != "default" else ""
        raise ConfigError(f"{name}{origin}: {error.message.replace('limits.', '')}; {error.hint}") from None


def check_summarizer(config: Config) -> None:
    """Refuse options of the summarizer that do not go together. Whether its key is there is not looked at.

    Raises:
        ConfigError: names the option.
    """
    client = config.summarizer_client
    if not client:
        of_client = ("summarizer_model", "summarizer_base_url", "summarizer_key_file", "summarizer_key_env")
        without = next((name for name in of_client if getattr(config, name)), None)
        if config.summarizer == "model":
            without = "summarizer = model"
        if without is not None:
            raise ConfigError(f"{without} needs summarizer_client: one of {', '.join(SUMMARIZER_CLIENTS)}")
    elif not config.summarizer_model:
        raise ConfigError(f"summarizer_model is not set: say which model summarizer_client = {client} asks for")
    if config.summarizer_key_file and config.summarizer_key_env:
        raise ConfigError("give summarizer_key_file or summarizer_key_env, not both")


def given_limits(config: Config) -> LimitsGiven:
    """The limits among the options."""
    limits = {name: getattr(config, name) for name in LimitsGiven.__struct_fields__ if name != "preset"}
    return LimitsGiven(preset=Preset[config.preset.upper()], **limits)


def unknown_variables(environ: Mapping[str, str] | None = None) -> list[str]:
    """TRIMTAB_* variables that no option has, such as a misspelled one."""
    environ = os.environ if environ is None else environ
    known = _OTHER_VARIABLES | {option.variable for option in OPTIONS}
    return sorted(name for name in environ if name.startswith("TRIMTAB_") and name not in known)


def to_toml(resolved: Resolved) -> str:
    """The configuration as a TOML file that gives it again; what is not set stands as a comment."""
    lines = []
    for option in OPTIONS:
        value = getattr(resolved.config, option.name)
        origin = resolved.origins[option.name]
        if value in (None, "", ()):
            lines.append(f"# {option.name} is not set")
        else:
            lines.append(f"{option.name} = {option.show(value)}  # {origin}")
    return "\n".join(lines) + "\n"


def _read_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read the configuration file {path}: {error}") from error


def _similar(name: str) -> str:
    close = difflib.get_close_matches(name, _BY_NAME, 1)
    return f"; did you mean {close[0]!r}?" if close else ""
