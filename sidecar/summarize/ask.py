"""Asking a model endpoint once: deadline, cancellation, and what a failure means. Knows no vendor's SDK.

One call is one request on a connection of its own. A connection that was used before may be closed by the other side just as a
request goes out, and then nobody knows whether it arrived; a new one that fails to open has sent nothing.

A call runs on an event loop of its own, so that a deadline or a cancellation ends it at once, wherever it waits, and closes its
connection. The limits of time that HTTP libraries have count each read anew: a server that sends a byte now and then never
reaches them.

What is raised here is made outside of `except`, so that no error of a library, which may quote a request or a response, hangs
on it and gets into a log.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import re
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, Protocol

import msgspec

from sidecar.core.errors import (
    MalformedBodyError,
    SummarizerFailedError,
    SummarizerNotConfiguredError,
    SummarizerUnknownError,
    TrimtabError,
)
from sidecar.core.replies import ModelReply

__all__ = ["Answer", "ask", "clean_text", "connect_seconds", "max_tokens", "need_package", "quiet", "read_answer", "read_as"]

ANSWER_BYTES = 16 * 1024 * 1024
"""A larger answer is no summary; it is not read to its end."""

CONNECT_SECONDS = 10.0
MIN_TOKENS = 256
BYTES_PER_TOKEN = 2
"""Errs low on text of any language, so that the limit in bytes is met before the one in tokens cuts."""

_POLL_SECONDS = 0.05
_CLOSE_SECONDS = 1.0

# By name: SDKs come with different generations of one HTTP library, each with classes of its own.
_NOT_SENT = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol", "InvalidURL"})
_TYPE = re.compile(r"[a-z]+(?:_[a-z]+){0,7}", re.ASCII)  # what vendors call kinds of errors; a key has another shape
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Answer(msgspec.Struct, frozen=True):
    """A response that was read to its end."""

    body: bytes
    is_whole: bool  # its size was told, so that nothing is missing; without, a cut looks like an end


class _Streamed(Protocol):
    """A response that SDKs hand out before its body was read."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    def iter_bytes(self, chunk_size: int | None = None) -> AsyncIterator[bytes]: ...


class _TooLarge(Exception):
    """The answer is larger than ANSWER_BYTES."""


class _Stopped(Exception):
    """The call was given up; the text says why."""


def need_package(name: str) -> None:
    """Look whether an SDK is installed, without importing it, which takes long.

    Raises:
        SummarizerNotConfiguredError: it is not.
    """
    if importlib.util.find_spec(name) is None:
        raise SummarizerNotConfiguredError(
            f"summarizer_client is {name}, and the package {name} is not installed", hint=f"pip install 'trimtab[{name}]'"
        )


def quiet(package: str) -> None:
    """Keep an SDK, once imported, and what it sends with from logging below warnings: addresses, headers, requests."""
    for name in (package, "httpx", "httpx2", "httpcore", "httpcore2"):
        logger = logging.getLogger(name)
        logger.setLevel(max(logger.level, logging.WARNING))


def clean_text(text: str) -> str:
    """`text` with what UTF-8 cannot write replaced."""
    return _LONE_SURROGATE.sub("\ufffd", text)


def max_tokens(max_output_bytes: int) -> int:
    """The limit of output in tokens that goes with one in bytes: half of it, at least 256."""
    return max(MIN_TOKENS, max_output_bytes // BYTES_PER_TOKEN)


def connect_seconds(timeout_s: float) -> float:
    """How long to wait for a connection: less than for all, so that it is known that nothing was sent."""
    return min(CONNECT_SECONDS, timeout_s / 2)


async def read_answer(response: _Streamed) -> Answer:
    """Read a response to its end, which may not be far."""
    body = bytearray()
    async for chunk in response.iter_bytes():
        body += chunk
        if len(body) > ANSWER_BYTES:
            raise _TooLarge
    headers = {name.lower() for name in response.headers}
    return Answer(bytes(body), bool(headers & {"content-length", "transfer-encoding"}))


def ask(send: Callable[[], Coroutine[Any, Any, Answer]], *, timeout_s: float, cancel: threading.Event | None) -> Answer:
    """Run one request to its end, to the deadline, or until it is cancelled. Blocks the calling thread.

    Args:
        send: makes the request. Called at most once.
        timeout_s: for all of it.
        cancel: ends the call soon after it is set.

    Raises:
        SummarizerFailedError: nothing was sent, or the endpoint said that it failed.
        SummarizerUnknownError: anything else.
    """
    if timeout_s <= 0:
        raise SummarizerFailedError("no time is left to ask the model endpoint; nothing was sent")
    if cancel is not None and cancel.is_set():
        raise SummarizerFailedError("the call was cancelled before the model endpoint was asked")
    loop = asyncio.new_event_loop()
    try:
        answer, failure = None, None
        try:
            answer = loop.run_until_complete(_run(send(), timeout_s, cancel))
        except Exception as error:
            failure = _judge(error)
    finally:
        _close(loop)
    if answer is None:
        raise failure or SummarizerUnknownError("the request to the model endpoint ended without an answer")
    return answer


def read_as(answer: Answer, read_reply: Callable[[bytes], ModelReply]) -> ModelReply:
    """Read an answer by a dialect's rules.

    Raises:
        SummarizerFailedError: it is no reply.
        SummarizerUnknownError: it is no reply, and may have been cut off.
    """
    try:
        return read_reply(answer.body)
    except MalformedBodyError as error:
        message = error.message
    if answer.is_whole or _is_json(answer.body):
        raise SummarizerFailedError(f"what the model endpoint answered is no reply: {message}")
    raise SummarizerUnknownError("the model endpoint's answer cannot be read, and may have been cut off")


async def _run(sending: Coroutine[Any, Any, Answer], timeout_s: float, cancel: threading.Event | None) -> Answer:
    task = asyncio.ensure_future(sending)
    waiting: set[asyncio.Future[Any]] = {task}
    if cancel is not None:
        waiting.add(asyncio.ensure_future(_until_set(cancel)))
    done, _ = await asyncio.wait(waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    if task not in done:
        task.cancel()
        await asyncio.wait({task}, timeout=_CLOSE_SECONDS)
        # It may have ended just now; then that is how it ended.
        if not task.done() or task.cancelled():
            raise _Stopped("the call was cancelled" if done else f"no whole answer came within {timeout_s:.1f} seconds")
    return task.result()


async def _until_set(event: threading.Event) -> None:
    while not event.is_set():
        await asyncio.sleep(_POLL_SECONDS)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """As asyncio.run does, but waits for no thread: looking up a name cannot be interrupted."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=_CLOSE_SECONDS))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def _judge(error: Exception) -> TrimtabError:
    """What an error of the SDK, or of the HTTP library below it, means. Nothing of its text is taken over."""
    if isinstance(error, SummarizerNotConfiguredError):  # a key that was there at the start is not any more
        return SummarizerFailedError(error.message, hint=error.hint)
    if isinstance(error, _Stopped):
        return SummarizerUnknownError(f"{error}; the request to the model endpoint may have been answered")
    if isinstance(error, _TooLarge):
        return SummarizerFailedError(f"the model endpoint's answer is larger than {ANSWER_BYTES:,} bytes")
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        kind = _error_type(getattr(error, "body", None))
        return SummarizerFailedError(f"the model endpoint answered with status {status}{kind}", status=status)
    causes = _causes(error)
    names = {base.__name__ for cause in causes for base in type(cause).__mro__}
    last = type(causes[-1]).__name__
    if names & _NOT_SENT:
        return SummarizerFailedError(f"the model endpoint could not be reached ({last}); nothing was sent")
    return SummarizerUnknownError(f"the request to the model endpoint was lost after it was sent ({last})")


def _causes(error: BaseException) -> list[BaseException]:
    """The SDK's error, and that of the HTTP library below it, if any. Not further: below are the system's, of many names."""
    return [error] if error.__cause__ is None else [error, error.__cause__]


def _error_type(body: object) -> str:
    """The vendor's name for the kind of error, where the response has one that looks like a name."""
    for value in (body, body.get("error") if isinstance(body, dict) else None):
        kind = value.get("type") if isinstance(value, dict) else None
        if isinstance(kind, str) and kind != "error" and len(kind) <= 64 and _TYPE.fullmatch(kind):
            return f" ({kind})"
    return ""


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return True
