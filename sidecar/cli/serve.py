"""`trimtab serve`."""

from __future__ import annotations

import logging
from typing import Any

import click

from sidecar.cli.options import config_options, resolve, speaking, started
from sidecar.cli.signals import EndSignals
from sidecar.config import unknown_variables
from sidecar.log import set_up_logs

__all__ = ["serve"]

_log = logging.getLogger(__name__)


@click.command()
@config_options()
@speaking
def serve(**flags: Any) -> None:
    """Serve until SIGTERM or SIGINT, then drain and exit with 0.

    \b
    trimtab serve --listen unix:/run/trimtab/sock --listen 127.0.0.1:7733 --data-dir /var/lib/trimtab

    --listen and --data-dir are needed, as flags, variables or in the file. Health is the standard gRPC health service: "liveness"
    (and "") says that the process answers, "readiness" that it wants work. Logs go to stderr and never hold content.
    """
    config = resolve(flags).config
    for option, example in (("listen", "unix:/run/trimtab/sock"), ("data_dir", "/var/lib/trimtab")):
        if not getattr(config, option):
            flag, variable = option.replace("_", "-"), option.upper()
            raise click.UsageError(f"{option} is not set: give --{flag}, such as --{flag} {example}, or TRIMTAB_{variable}")
    set_up_logs(config.log_level, config.log_format)
    for name in unknown_variables():
        _log.warning("no option reads this variable", extra={"variable": name})
    ended = EndSignals()
    with started(config) as app:
        _log.info("serving", extra={"addresses": list(app.addresses), "data_dir": config.data_dir})
        ended.wait()
        _log.info("draining", extra={"delay_s": config.drain_delay_s, "timeout_s": config.drain_timeout_s})
    _log.info("ended")
