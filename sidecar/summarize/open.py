"""Opens the model endpoint that the options name."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Mapping

from sidecar.config import Config, check_summarizer
from sidecar.core.types import Format
from sidecar.formats import ADAPTERS
from sidecar.ports import SummaryModel
from sidecar.summarize.anthropic_client import AnthropicModel
from sidecar.summarize.key import KeySource
from sidecar.summarize.openai_client import OpenAIModel

__all__ = ["load_sdk", "open_model"]

_KEY_VARIABLES = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}


def load_sdk(config: Config) -> threading.Thread | None:
    """Import the vendor's SDK, which takes a second or two, while nobody waits for it. None: no model is configured."""
    if not config.summarizer_client:
        return None
    thread = threading.Thread(target=_load, args=(config.summarizer_client,), name="load-sdk", daemon=True)
    thread.start()
    return thread


def _load(name: str) -> None:
    importlib.import_module(name)


def open_model(config: Config, environ: Mapping[str, str] | None = None) -> SummaryModel | None:
    """The model endpoint; None when none is configured. Sends nothing.

    Args:
        config: the summarizer's options count.
        environ: where a key may be; os.environ when None.

    Raises:
        ConfigError: options that do not go together.
        SummarizerNotConfiguredError: its SDK is not installed, or its key is missing. With `summarizer_base_url` and no
            place of the key named, none is needed.
    """
    check_summarizer(config)
    if not config.summarizer_client:
        return None
    key = KeySource(
        file=config.summarizer_key_file,
        variable=config.summarizer_key_env or _KEY_VARIABLES[config.summarizer_client],
        optional=bool(config.summarizer_base_url) and not config.summarizer_key_env,
        environ=environ,
    )
    if config.summarizer_client == "openai":
        return OpenAIModel(
            model=config.summarizer_model,
            key=key,
            read_reply=ADAPTERS[Format.OPENAI_CHAT].read_reply,
            base_url=config.summarizer_base_url,
        )
    return AnthropicModel(
        model=config.summarizer_model,
        key=key,
        read_reply=ADAPTERS[Format.ANTHROPIC_MESSAGES].read_reply,
        base_url=config.summarizer_base_url,
    )
