"""Dialects: one adapter each, all over the same scan. Nothing outside this package branches on a dialect."""

from __future__ import annotations

from sidecar.core.errors import InvalidFieldError
from sidecar.core.types import Format
from sidecar.formats.anthropic_messages import AnthropicMessages
from sidecar.formats.base import Adapter
from sidecar.formats.detect import NAMES, detect
from sidecar.formats.openai_chat import OpenAIChat

__all__ = ["ADAPTERS", "NAMES", "adapter", "detect"]

ADAPTERS: dict[Format, Adapter] = {
    Format.OPENAI_CHAT: OpenAIChat(),
    Format.ANTHROPIC_MESSAGES: AnthropicMessages(),
}


def adapter(format: Format) -> Adapter:
    """The adapter of a dialect.

    Raises:
        InvalidFieldError: the dialect is not there yet, or none was named. Details: field.
    """
    found = ADAPTERS.get(format)
    if found is None:
        known = ", ".join(NAMES[there] for there in ADAPTERS)
        raise InvalidFieldError(
            f"no adapter for the format {NAMES.get(format, 'unspecified')}", hint=f"formats: {known}", field="format"
        )
    return found
