"""Reading token figures out of a provider's usage object."""

from __future__ import annotations

import json

from sidecar.core.errors import MalformedBodyError
from sidecar.formats.values import check_object

__all__ = ["Figures"]


class Figures:
    """A usage object. Absent and null figures are unknown; anything but a whole number of at least 0 is an error."""

    __slots__ = ("_value",)

    def __init__(self, usage: bytes) -> None:
        """Raises MalformedBodyError when it is not a JSON object."""
        text = check_object(usage, "usage").decode("utf-8", "replace")
        self._value: dict[str, object] = json.loads(text, strict=False)

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
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise MalformedBodyError(f"usage figure {'.'.join(path)} is not a count", offset_bytes=0, bound="")
            return value
        return None
