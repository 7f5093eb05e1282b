"""OpenAI's chat completions, and servers that speak like it, by the vendor's SDK (extra `openai`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from sidecar.core.replies import ModelReply
from sidecar.summarize.ask import Answer, ask, clean_text, connect_seconds, max_tokens, need_package, quiet, read_answer, read_as
from sidecar.summarize.key import KeySource

__all__ = ["OpenAIModel"]

_VENDOR_URL = "https://api.openai.com/v1"


class OpenAIModel:
    """A SummaryModel over POST {base_url}/chat/completions."""

    def __init__(self, *, model: str, key: KeySource, read_reply: Callable[[bytes], ModelReply], base_url: str = "") -> None:
        """Check that the SDK is installed and the key can be read; nothing is sent.

        Args:
            model: model route, as the endpoint names it.
            key: where the key is. An endpoint without one gets no header for it.
            read_reply: the dialect's reader.
            base_url: with its "/v1"; empty for the vendor's own, whatever the SDK's environment variables say.

        Raises:
            SummarizerNotConfiguredError: no SDK, or no key.
        """
        need_package("openai")
        key.read()
        self._model = model
        self._key = key
        self._read_reply = read_reply
        self._base_url = base_url

    @property
    def name(self) -> str:
        """Client with prompt version."""
        return "openai/1"

    @property
    def model(self) -> str:
        """Model route."""
        return self._model

    def summarize(
        self, system: str, user: str, *, max_output_bytes: int, timeout_s: float, cancel: threading.Event | None = None
    ) -> ModelReply:
        """Ask once; see SummaryModel. The SDK is imported in the first call."""
        deadline = time.monotonic() + timeout_s
        import openai

        quiet("openai")
        left_s = deadline - time.monotonic()

        async def send() -> Answer:
            key = self._key.read()
            # A redirect would send the request a second time, and the key to a place that nobody named.
            transport = openai.DefaultAsyncHttpxClient(follow_redirects=False)
            limit = max_tokens(max_output_bytes)
            async with (
                openai.AsyncOpenAI(
                    api_key=key or "none",
                    base_url=self._base_url or _VENDOR_URL,
                    max_retries=0,
                    timeout=openai.Timeout(left_s, connect=connect_seconds(left_s)),
                    http_client=transport,
                ) as client,
                client.chat.completions.with_streaming_response.create(
                    model=self._model,
                    messages=[
                        {"role": "system", "content": clean_text(system)},
                        {"role": "user", "content": clean_text(user)},
                    ],
                    # The vendor's reasoning models refuse the old name; many other servers don't know the new one.
                    extra_body={"max_tokens" if self._base_url else "max_completion_tokens": limit},
                    extra_headers=None if key else {"Authorization": openai.Omit()},
                ) as response,
            ):
                return await read_answer(response)

        return read_as(ask(send, timeout_s=left_s, cancel=cancel), self._read_reply)
