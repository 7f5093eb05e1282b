"""Joins the parts: store, engine, services, server. The one place that knows them all."""

from __future__ import annotations

import logging
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from types import TracebackType
from typing import Self

import fastpath
from sidecar.config import Config, ConfigError, given_limits
from sidecar.core.compaction import Summarizer
from sidecar.core.errors import TrimtabError
from sidecar.core.retention import RetentionPolicy
from sidecar.core.types import ReadBack
from sidecar.engine.config import EngineConfig
from sidecar.engine.engine import Engine
from sidecar.engine.retention import RetentionLoop, RetentionReport
from sidecar.malloc import raise_malloc_thresholds
from sidecar.ports import Clock
from sidecar.rpc.artifact_service import ArtifactServicer
from sidecar.rpc.context_service import ContextServicer
from sidecar.rpc.listen import AddressError, ListenError
from sidecar.rpc.server import Server, ServerOptions
from sidecar.rpc.session_service import SessionServicer
from sidecar.summarize.open import load_sdk, open_model
from sidecar.version import VERSION
from store import LmdbStore, backup_folder, check_folder
from trimtab.v1 import artifact_pb2_grpc, context_pb2_grpc, session_pb2_grpc

__all__ = [
    "STARTUP_ERRORS",
    "USAGE_ERRORS",
    "App",
    "SystemClock",
    "backup_store",
    "check_store",
    "engine_config",
    "is_store",
    "open_app",
    "retain_store",
    "retention_policy",
    "versions",
]

STARTUP_ERRORS = (ConfigError, ListenError, TrimtabError)
USAGE_ERRORS = (ConfigError, AddressError)
"""Of these, those that only another option can mend."""
"""What keeps a sidecar from starting and says why: for a message, not a trace."""

_log = logging.getLogger(__name__)


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000


class App:
    """A sidecar in this process, serving from the moment that it is made until `close`."""

    def __init__(self, config: Config, clock: Clock | None = None) -> None:
        """Open the store, bind the listeners, serve.

        Args:
            config: data_dir and listen are needed.
            clock: the machine's when None.

        Raises:
            ConfigError: no data_dir, or a summarizer whose options do not go together.
            ListenError: an address cannot be had.
            TrimtabError: the store cannot be opened, or the model endpoint has no SDK or no key.
        """
        raise_malloc_thresholds()
        self.config = config
        clock = clock or SystemClock()
        model = open_model(config)
        self.store = _open_store(config, clock)
        try:
            self.engine = Engine(self.store, clock, engine_config(config), model)
            self._server = self._make_server()
        except BaseException:
            self.store.close()
            raise
        self._closed = False
        self._server.start()
        load_sdk(self.config)  # so that the first summary does not wait for it
        self._retention = RetentionLoop(self.engine, retention_policy(config), config.retain_interval_s)

    @property
    def addresses(self) -> Sequence[str]:
        """Targets for clients, with real ports."""
        return self._server.addresses

    @property
    def address(self) -> str:
        """The first of them."""
        return self.addresses[0]

    def close(self) -> None:
        """Drain and end: readiness off, running calls finish, what is queued is flushed. Closing twice does nothing."""
        if self._closed:
            return
        self._closed = True
        self._server.not_ready()
        time.sleep(self.config.drain_delay_s)
        self.engine.events.close()  # watchers would hold the drain until its timeout
        self._server.stop(self.config.drain_timeout_s)
        self._retention.close()
        self.engine.close()

    def __enter__(self) -> Self:
        """Use the app and close it at the end."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close it."""
        self.close()

    def _make_server(self) -> Server:
        config, engine = self.config, self.engine
        services = (
            (context_pb2_grpc.add_ContextServiceServicer_to_server, ContextServicer(engine, engine.reader, self.store)),
            (artifact_pb2_grpc.add_ArtifactServiceServicer_to_server, ArtifactServicer(engine.reader, self.store)),
            (session_pb2_grpc.add_SessionServiceServicer_to_server, SessionServicer(engine, self.store)),
        )
        options = ServerOptions(
            listen=config.listen,
            threads=config.threads,
            max_message_bytes=config.max_message_bytes,
            socket_mode=config.socket_mode,
            insecure_tcp=config.insecure_tcp,
        )
        return Server(options, services)


def open_app(config: Config, clock: Clock | None = None) -> App:
    """Start a sidecar in this process; see `App`."""
    return App(config, clock)


def check_store(config: Config, progress: Callable[[str, int, int], None]) -> Iterator[Mapping[str, object]]:
    """Walk a store, which a sidecar may hold meanwhile, and prove every digest; see `Store.check`."""
    yield from check_folder(_data_dir(config), lambda done, total: progress("check", done, total))


def backup_store(
    config: Config, target: str | os.PathLike[str], progress: Callable[[str, int, int], None]
) -> tuple[int, Mapping[str, object]]:
    """Copy a store, which a sidecar may hold meanwhile, to another folder. Bytes of the copy, and what is in it."""
    return backup_folder(_data_dir(config), target, progress)


def retain_store(config: Config, *, dry_run: bool) -> RetentionReport:
    """Apply the retention options to a store that no process holds."""
    clock = SystemClock()
    engine = Engine(_open_store(config, clock), clock, engine_config(config))
    try:
        return engine.retain(retention_policy(config), dry_run=dry_run)
    finally:
        engine.close()


def retention_policy(config: Config) -> RetentionPolicy:
    """The bounds among the options."""
    age_ms = None if config.retain_age_s is None else int(config.retain_age_s * 1000)
    return RetentionPolicy(age_ms, config.retain_scope_bytes, config.retain_total_bytes)


def is_store(data_dir: str) -> bool:
    """There is a store in the folder, whole or not. Nothing is opened."""
    return LmdbStore.is_at(data_dir)


def engine_config(config: Config) -> EngineConfig:
    """The engine's part of the configuration."""
    return EngineConfig(
        limits=given_limits(config),
        read_back=ReadBack[config.read_back.upper()] if config.read_back else ReadBack.UNSPECIFIED,
        read_back_tool_name=config.read_back_tool_name,
        cache_bytes=config.cache_bytes,
        max_body_bytes=config.max_message_bytes,
        compaction=config.compaction,
        summarizer=Summarizer[config.summarizer.upper()],
    )


def versions() -> dict[str, str]:
    """What runs here, by name."""
    return {
        "trimtab": VERSION,
        "fastpath": fastpath.backend,
        "python": platform.python_version(),
        "grpcio": version("grpcio"),
        "protobuf": version("protobuf"),
        "lmdb": version("lmdb"),
    }


def _data_dir(config: Config) -> str:
    if not config.data_dir:
        raise ConfigError("data_dir is not set: say where sessions are kept, such as --data-dir /var/lib/trimtab")
    return config.data_dir


def _open_store(config: Config, clock: Clock) -> LmdbStore:
    store = LmdbStore(_data_dir(config), quota_bytes=config.quota_bytes, clock=clock, what=f"trimtab {VERSION}")
    if store.unclean_end:
        _log.warning("the last process that held this folder did not close it; all that it acknowledged is here")
    if store.map_is_reduced:
        _log.warning("the address space does not allow the full map", extra={"map_bytes": store.map_bytes})
    if store.volatile:
        _log.warning("the data folder goes with the container or with the host's memory: use a folder on a volume that stays")
    if store.folder_is_shared:
        _log.warning("the data folder is another user's: its files are ours only, its own permissions stay as they are")
    return store
