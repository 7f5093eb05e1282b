"""What an operator decides for all sessions."""

from __future__ import annotations

import msgspec

from sidecar.core.compaction import Summarizer
from sidecar.core.types import LimitsGiven, ReadBack

__all__ = ["EngineConfig"]

MIB = 1024 * 1024


class EngineConfig(msgspec.Struct, frozen=True):
    """Defaults that a session, then a call, may override, and bounds that none may."""

    limits: LimitsGiven = LimitsGiven()
    read_back: ReadBack = ReadBack.UNSPECIFIED  # unspecified: each session must say
    read_back_tool_name: str = ""  # empty: ours
    cache_bytes: int = 64 * MIB  # of sessions kept in memory; a session over it alone is kept while it is in use
    max_body_bytes: int = 64 * MIB
    compaction: bool = True  # without, no new checkpoint is made; those there are go on being applied
    summarizer: Summarizer = Summarizer.LEDGER  # where a call does not say
    write_timeout_s: float = 60.0  # how long a reply waits for its flush before it is told as failed
