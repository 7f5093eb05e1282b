"""Where the key of a model endpoint is. It is read anew for each call, so that a rotated one is taken up, and kept nowhere."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from sidecar.core.errors import SummarizerNotConfiguredError

__all__ = ["KeySource"]

_MOST_BYTES = 64 * 1024
"""A file larger than this is no key."""


class KeySource:
    """A file or an environment variable. What it shows of itself is only that place."""

    def __init__(self, *, file: str = "", variable: str = "", optional: bool = False, environ: Mapping[str, str] | None = None):
        """Name the place; nothing is read.

        Args:
            file: path; beats the variable.
            variable: name of an environment variable.
            optional: no key is fine; the request then goes without one.
            environ: the environment; os.environ when None.
        """
        self._file = file
        self._variable = variable
        self._optional = optional
        self._environ = environ

    def read(self) -> str:
        """The key; empty when there is none and that is fine.

        Raises:
            SummarizerNotConfiguredError: it is missing, cannot be read, or is no key. The text names the place only.
        """
        if self._file:
            try:
                with Path(self._file).open("rb") as file:
                    given = file.read(_MOST_BYTES + 1)
            except OSError as error:
                why = error.strerror or type(error).__name__
                raise SummarizerNotConfiguredError(f"the key file {self._file} cannot be read: {why}") from None
        else:
            environ = os.environ if self._environ is None else self._environ
            given = environ.get(self._variable, "").encode("utf-8", "surrogateescape")
        key = given.strip()
        if not key:
            if self._optional and not self._file:
                return ""
            raise SummarizerNotConfiguredError(
                f"there is no key for the model endpoint in {self.place}", hint="see summarizer_key_file and summarizer_key_env"
            )
        # Anything else cannot stand in a header, and libraries say so by quoting it.
        if len(given) > _MOST_BYTES or not all(0x21 <= byte <= 0x7E for byte in key):
            raise SummarizerNotConfiguredError(f"what is in {self.place} is no key: one word of printable ASCII is wanted")
        return key.decode("ascii")

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        return f"the file {self._file}" if self._file else f"the variable {self._variable}"

    def __repr__(self) -> str:
        """The place, never the key."""
        return f"KeySource({self.place})"
