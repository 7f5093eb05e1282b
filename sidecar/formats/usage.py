"""Reading token figures out of a provider's usage object."""

from __future__ import annotations

import json

from sidecar.core.errors import MalformedBodyError
from sidecar.core.types import UsageFigures
from sidecar.formats.values import check_object

__all__ = ["MOST_TOKENS", "Figures"]

MOST_TOKENS = 1 << 62
"""A larger figure is no count of tokens: with what is estimated on top, it would not go into the 64 bits of the wire."""


class Figures:
    """A usage object. Absent and null figures are unknown; anything but a whole number from 0 to MOST_TOKENS is an error."""

    __slots__ = ("_value",)

    def __init__(self, usage: bytes) -> None:
        """Raises MalformedBodyError when it is not a JSON object."""
        text = check_object(usage, "usage").decode("utf-8", "replace")
        # Python reads no integer of thousands of digits. As a float it is refused too, but only where it is asked for.
        self._value: dict[str, object] = json.loads(text, strict=False, parse_int=_integer)

    def first(self, *paths: tuple[str, ...]) -> int | None:
        """The first figure that is known."""
        for path in paths:
            value: object = self._value
            for key in path:
                value = value.get(key) if isinstance(value, dict) else None
            if value is None:
                continue
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_TOKENS:
                raise _no_count(".".join(path))
            return value
        return None

    @staticmethod
    def told(input_tokens: int | None, cached_input_tokens: int | None, output_tokens: int | None) -> UsageFigures:
        """The figures together; a sum may be too large where its parts were not."""
        if input_tokens is not None and input_tokens > MOST_TOKENS:
            raise _no_count("sum of input tokens")
        return UsageFigures(input_tokens=input_tokens, cached_input_tokens=cached_input_tokens, output_tokens=output_tokens)


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= 20 else float(digits)


def _no_count(name: str) -> MalformedBodyError:
    return MalformedBodyError(
        f"usage figure {name} is not a count", hint=f"a whole number from 0 to {MOST_TOKENS}", offset_bytes=0, bound=""
    )
