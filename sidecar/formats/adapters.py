"""Which dialects there are, with the adapter of each."""

from __future__ import annotations

from sidecar.core.errors import InvalidFieldError
from sidecar.core.types import Format
from sidecar.formats.anthropic_messages import AnthropicMessages
from sidecar.formats.base import Adapter
from sidecar.formats.bedrock_converse import BedrockConverse
from sidecar.formats.gemini import Gemini
from sidecar.formats.openai_chat import OpenAIChat
from sidecar.formats.openai_responses import OpenAIResponses

__all__ = ["ADAPTERS", "NAMES", "adapter"]

NAMES: dict[Format, str] = {
    Format.OPENAI_CHAT: "openai-chat",
    Format.OPENAI_RESPONSES: "openai-responses",
    Format.ANTHROPIC_MESSAGES: "anthropic-messages",
    Format.GEMINI: "gemini",
    Format.BEDROCK_CONVERSE: "bedrock-converse",
}
"""All dialects of the API."""

ADAPTERS: dict[Format, Adapter] = {
    Format.OPENAI_CHAT: OpenAIChat(),
    Format.OPENAI_RESPONSES: OpenAIResponses(),
    Format.ANTHROPIC_MESSAGES: AnthropicMessages(),
    Format.GEMINI: Gemini(),
    Format.BEDROCK_CONVERSE: BedrockConverse(),
}
"""By format."""


def adapter(format: Format) -> Adapter:
    """The adapter of a dialect.

    Raises:
        InvalidFieldError: none was named. Details: field.
    """
    found = ADAPTERS.get(format)
    if found is None:
        raise InvalidFieldError("no format was named", hint=f"formats: {', '.join(NAMES.values())}", field="format")
    return found
