"""How much a body may hold, and the error of a body that cannot be read.

The bounds keep every count and offset in 32 bits and every scan in memory that is known beforehand. They are far above what a
provider takes: a body of 64 MiB reaches the bound on values only when it is nothing but short numbers.
"""

from __future__ import annotations

__all__ = ["BODY_LIMIT_BYTES", "DEPTH_LIMIT", "ITEM_LIMIT", "VALUE_LIMIT", "MalformedError"]

BODY_LIMIT_BYTES = 2**31 - 1
DEPTH_LIMIT = 512  # arrays and objects open at once; Python's own json gives up near 1,000, RapidJSON's default is 512 too
ITEM_LIMIT = 1_000_000
VALUE_LIMIT = 4_000_000  # values of any type in one body, keys not counted


class MalformedError(ValueError):
    """A body that is not the JSON that it must be.

    Attributes:
        offset_bytes: the first byte that no valid body could have at its place; the body's length when it ends too early.
        bound: which bound was passed ("depth", "items", "nodes", "body_bytes"); "" when the body is not JSON or has no history.
    """

    def __init__(self, what: str, offset_bytes: int, bound: str = "") -> None:
        """Say what is wrong and where. `what` never holds content."""
        super().__init__(f"{what} at byte {offset_bytes}")
        self.what = what
        self.offset_bytes = offset_bytes
        self.bound = bound

    def __reduce__(self) -> tuple[type[MalformedError], tuple[str, int, str]]:
        """Pickle by the arguments, so that the error crosses processes."""
        return (MalformedError, (self.what, self.offset_bytes, self.bound))
