"""The version of what is installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

__all__ = ["VERSION"]

try:
    VERSION = version("trimtab")
except PackageNotFoundError:  # run from a tree that was not installed
    VERSION = "0+unknown"
