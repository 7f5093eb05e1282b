"""Logs: one line an event, on stderr, never content. Console lines for people at a terminal, JSON elsewhere.

Modules log by the standard library with `extra` fields; structlog only writes the lines.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

import structlog

__all__ = ["set_up_logs"]


def set_up_logs(level: str, log_format: str) -> None:
    """Send the logs of this process to stderr.

    Args:
        level: one of config.LOG_LEVELS.
        log_format: one of config.LOG_FORMATS; auto is console at a terminal, else json.
    """
    console = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    shared: Sequence[structlog.types.Processor] = (
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    )
    renderer: structlog.types.Processor = (
        # Its own way with traces, where `rich` is installed, shows local variables, and those hold content.
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
        if console
        else structlog.processors.JSONRenderer()
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *(() if console else (structlog.processors.format_exc_info,)),
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
