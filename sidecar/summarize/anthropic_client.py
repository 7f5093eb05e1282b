"""Anthropic's messages, by the vendor's SDK (extra `anthropic`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from sidecar.core.replies import ModelReply
from sidecar.summarize.ask import Answer, ask, clean_text, connect_seconds, max_tokens, need_package, quiet, read_answer, read_as
from sidecar.summarize.key import KeySource

__all__ = ["AnthropicModel"]

_VENDOR_URL = "https://api.anthropic.com"


class AnthropicModel:
    """A SummaryModel over POST {base_url}/v1/messages."""

    def __init__(self, *, model: str, key: KeySource, read_reply: Callable[[bytes], ModelReply], base_url: str = "") -> None:
        """Check that the SDK is installed and the key can be read; nothing is sent.

        Args:
            model: model route, as the endpoint names it.
            key: where the key is. An endpoint without one gets no header for it.
            read_reply: the dialect's reader.
            base_url: without "/v1"; empty for the vendor's own, whatever the SDK's environment variables say.

        Raises:
            SummarizerNotConfiguredError: no SDK, or no key.
        """
        need_package("anthropic")
        key.read()
        self._model = model
        self._key = key
        self._read_reply = read_reply
        self._base_url = base_url

    @property
    def name(self) -> str:
        """Client with prompt version."""
        return "anthropic/1"

    @property
    def model(self) -> str:
        """Model route."""
        return self._model

    def summarize(
        self, system: str, user: str, *, max_output_bytes: int, timeout_s: float, cancel: threading.Event | None = None
    ) -> ModelReply:
        """Ask once; see SummaryModel. The SDK is imported in the first call."""
        deadline = time.monotonic() + timeout_s
        import anthropic

        quiet("anthropic")
        left_s = deadline - time.monotonic()

        async def send() -> Answer:
            key = self._key.read()
            # A redirect would send the request a second time, and the key to a place that nobody named.
            transport = anthropic.DefaultAsyncHttpxClient(follow_redirects=False)
            client = anthropic.AsyncAnthropic(
                api_key=key or "none",
                base_url=self._base_url or _VENDOR_URL,
                max_retries=0,
                timeout=anthropic.Timeout(left_s, connect=connect_seconds(left_s)),
                http_client=transport,
            )
            client.auth_token = None  # older SDKs send the one of the environment along
            async with (
                client,
                client.messages.with_streaming_response.create(
                    model=self._model,
                    max_tokens=max_tokens(max_output_bytes),
                    system=clean_text(system),
                    messages=[{"role": "user", "content": clean_text(user)}],
                    # By which of the two a key is sent is a matter of the SDK's version.
                    extra_headers=None if key else {"X-Api-Key": anthropic.Omit(), "Authorization": anthropic.Omit()},
                ) as response,
            ):
                return await read_answer(response)

        return read_as(ask(send, timeout_s=left_s, cancel=cancel), self._read_reply)
