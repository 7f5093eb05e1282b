"""Reads option values: sizes, counts, seconds, choices. From TOML values or strings; ValueError says what is wanted."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

__all__ = [
    "SIZE_MAX",
    "parse_choice",
    "parse_count",
    "parse_flag",
    "parse_list",
    "parse_mode",
    "parse_seconds",
    "parse_size",
    "parse_text",
    "parse_url",
    "parse_variable",
    "toml_list",
    "toml_string",
]

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", re.ASCII)
_SIZE_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", 1):
    _SIZE_UNITS[f"{_letter}ib"] = 1 << (10 * _power)
    _SIZE_UNITS[f"{_letter}b"] = 1000**_power
_SECONDS = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d)?\s*", re.ASCII)
_SECOND_UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
SIZE_MAX = 1 << 62
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SECONDS_MAX = 1e9  # what the operating system's waits take


def parse_size(value: object, at_least: int = 0, at_most: int = SIZE_MAX) -> int:
    """Bytes: a number, or text such as 64MiB (powers of 1,024) or 64MB (powers of 1,000)."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _bounded(value, at_least, at_most)
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    unit = _SIZE_UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise ValueError(f"{value!r} is not a size; write bytes, or a number with KiB, MiB, GiB, TiB, kB, MB, GB or TB")
    amount = float(match[1]) * unit if "." in match[1] else int(match[1]) * unit
    if amount != int(amount):
        raise ValueError(f"{value!r} is not a whole number of bytes")
    return _bounded(int(amount), at_least, at_most)


def parse_count(value: object, at_least: int = 0) -> int:
    """A whole number, not below `at_least`."""
    if isinstance(value, str) and re.fullmatch(r"\s*\d{1,19}\s*", value, re.ASCII):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not at_least <= value <= SIZE_MAX:
        raise ValueError(f"{value!r} is not a whole number from {at_least}")
    return value


def parse_seconds(value: object, at_least: float = 0.0) -> float:
    """Seconds, not below `at_least`: a number, or text such as 10s, 500ms, 2m or 30d."""
    seconds = -1.0
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value) if 0 <= value < _SECONDS_MAX else -1.0  # NaN is in no range
    elif isinstance(value, str) and (match := _SECONDS.fullmatch(value)):
        seconds = float(match[1]) * _SECOND_UNITS[match[2] or ""]
    if not 0 <= seconds < _SECONDS_MAX:
        raise ValueError(f"{value!r} is not a time; write seconds, or a number with ms, s, m, h or d")
    if seconds < at_least:
        raise ValueError(f"{value!r} is less than {at_least:g} seconds")
    return seconds


def parse_mode(value: object) -> int:
    """Permission bits in octal digits, as text: 0660. A TOML number is refused, since 660 would be read as decimal."""
    if not isinstance(value, str) or not re.fullmatch(r"(0o?)?[0-7]{3}", value, re.ASCII):
        raise ValueError(f"{value!r} is not a mode; write three octal digits in quotes, such as 0660")
    return int(value.removeprefix("0o"), 8)


def parse_flag(value: object) -> bool:
    """True or false; as text also 1, 0, yes, no, on, off."""
    if isinstance(value, bool):
        return value
    known = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    if not isinstance(value, str) or value.lower() not in known:
        raise ValueError(f"{value!r} is neither true nor false")
    return known[value.lower()]


def parse_choice(value: object, values: tuple[str, ...]) -> str:
    """One of `values`."""
    if not isinstance(value, str) or value not in values:
        raise ValueError(f"{value!r} is not one of {', '.join(values)}")
    return value


def parse_text(value: object) -> str:
    """Any text without control characters. A byte of an argument or a variable that is not UTF-8 arrives as a surrogate."""
    if not isinstance(value, str) or any(_is_odd(character) for character in value):
        raise ValueError(f"{value!r} is not plain text in UTF-8")
    return value


def parse_url(value: object) -> str:
    """Address of a server: scheme, host, port, path. Not a user, a password or a query: it is shown, and they may be secret."""
    if value == "":
        return ""
    text = value if isinstance(value, str) else " "
    try:
        url = urlsplit(text)
        good = url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        good = False
    # None of the text stands in the message: it may hold what it should not.
    if not good or not text.isascii() or not text.isprintable() or any(mark in text for mark in " @?#\\"):
        raise ValueError("is not an address such as https://host/v1, without user, password and query")
    return text


def parse_variable(value: object) -> str:
    """Name of an environment variable."""
    if value != "" and not (isinstance(value, str) and _VARIABLE.fullmatch(value)):
        # It is not quoted: who takes this for the place of the value itself may have written a secret.
        raise ValueError("is not the name of a variable: letters, digits and underscores")
    return value


def parse_list(value: object) -> tuple[str, ...]:
    """Texts: a list, or one text with commas between."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list | tuple):
        raise ValueError(f"{value!r} is not a list of texts")
    return tuple(parse_text(part) for part in value)


def toml_string(value: str) -> str:
    """`value` as a TOML string. It holds no control characters."""
    return json.dumps(value, ensure_ascii=False)


def toml_list(values: Sequence[str]) -> str:
    """`values` as a TOML array."""
    return "[" + ", ".join(map(toml_string, values)) + "]"


def _is_odd(character: str) -> bool:
    return character < " " or character == "\x7f" or "\ud800" <= character <= "\udfff"


def _bounded(value: int, at_least: int, at_most: int) -> int:
    if not at_least <= value <= at_most:
        raise ValueError(f"{value} is not from {at_least} to {at_most}")
    return value
