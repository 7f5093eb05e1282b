"""A model endpoint on this machine that speaks both dialects and misbehaves as it is told. Loopback only, threads of its own."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

__all__ = ["Asked", "Behavior", "ModelServer"]

LEAST_BYTES_OF_A_DRIP = 1
DRIP_SECONDS = 0.05
WAIT_SECONDS = 20.0


class Behavior(Enum):
    """What the server does with a request that it has read."""

    ANSWER = auto()
    REFUSE = auto()  # a reply whose stop reason says so
    DRIP = auto()  # a byte now and then, without end
    CUT_OFF = auto()  # half of the size that it told
    CUT_OFF_UNTOLD = auto()  # half of an answer whose size it did not tell
    CUT_OFF_CHUNKED = auto()  # chunks without the last
    EMPTY_BODY = auto()
    NULL_CONTENT = auto()  # and the stop reason for a full output
    CALLS = auto()  # a tool, beside text
    ECHO = auto()  # its input, one and a half times
    INVALID_JSON = auto()
    HTML = auto()
    ERROR_OBJECT = auto()  # an error with status 200
    HUGE = auto()  # without end
    REDIRECT = auto()  # 307 to the same server
    STATUS_400 = 400
    STATUS_401 = 401
    STATUS_429 = 429
    STATUS_500 = 500
    STATUS_529 = 529
    STATUS_500_CUT_OFF = auto()
    LOST = auto()  # an orderly end without an answer
    RESET = auto()  # a reset


@dataclass(frozen=True)
class Asked:
    """A request that was read whole."""

    path: str
    headers: dict[str, str]  # names in lower case
    body: dict[str, Any]

    @property
    def is_messages(self) -> bool:
        """It is of Anthropic's dialect."""
        return self.path.endswith("/messages")

    @property
    def system(self) -> str:
        """Instructions."""
        return str(self.body["system"] if self.is_messages else self.body["messages"][0]["content"])

    @property
    def user(self) -> str:
        """The material."""
        return str(self.body["messages"][-1]["content"])

    @property
    def key(self) -> str | None:
        """What it was authorized with. Anthropic's SDK sends it by either header, as its version will have it."""
        told = self.headers.get("x-api-key", self.headers.get("authorization"))
        return None if told is None else told.removeprefix("Bearer ")


class ModelServer:
    """Use as a context manager. Each request does what `behavior` is when it has been read.

    Attributes:
        text: the answer, or what makes it of the request.
        behavior: what happens to requests.
        requests: those that were read, in order.
        connection_count: those that were accepted.
    """

    def __init__(self, text: str | Callable[[Asked], str] = "notes", behavior: Behavior = Behavior.ANSWER) -> None:
        """Listen at once, on a free port."""
        self.text = text
        self.behavior = behavior
        self.requests: list[Asked] = []
        self.connection_count = 0
        self.left_count = 0  # callers that went away before they had their answer
        self._changed = threading.Condition()
        self._free = threading.Event()
        self._free.set()
        self._ended = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def base_url(self, client: str) -> str:
        """For summarizer_client "openai" or "anthropic"."""
        return f"http://127.0.0.1:{self.port}" + ("/v1" if client == "openai" else "")

    @property
    def request_count(self) -> int:
        """How many were read."""
        return len(self.requests)

    def hold(self) -> None:
        """From now on requests are read, and wait for `release` before anything is answered."""
        self._free.clear()

    def release(self) -> None:
        """Let those that wait go on."""
        self._free.set()

    def wait_for_requests(self, count: int, timeout_s: float = WAIT_SECONDS) -> None:
        """Wait until so many were read in all. Raises TimeoutError."""
        self._wait(lambda: len(self.requests) >= count, f"{count} requests", timeout_s)

    def wait_for_left(self, count: int, timeout_s: float = WAIT_SECONDS) -> None:
        """Wait until so many callers went away without their answer. Raises TimeoutError."""
        self._wait(lambda: self.left_count >= count, f"{count} callers to leave", timeout_s)

    def close(self) -> None:
        """End; requests that wait are dropped."""
        self._ended.set()
        self._free.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _wait(self, there: Callable[[], bool], what: str, timeout_s: float) -> None:
        with self._changed:
            if not self._changed.wait_for(there, timeout_s):
                raise TimeoutError(f"waited for {what}; requests: {len(self.requests)}, left: {self.left_count}")

    def _note(self, *, asked: Asked | None = None, connections: int = 0, left: int = 0) -> None:
        with self._changed:
            if asked is not None:
                self.requests.append(asked)
            self.connection_count += connections
            self.left_count += left
            self._changed.notify_all()

    def _answer(self, asked: Asked) -> str:
        return self.text if isinstance(self.text, str) else self.text(asked)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    owner: ModelServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that went away is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        self.server.owner._note(connections=1)
        super().setup()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""

    def do_POST(self) -> None:
        owner = self.server.owner
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        asked = Asked(self.path, {name.lower(): value for name, value in self.headers.items()}, json.loads(raw))
        behavior = owner.behavior
        owner._note(asked=asked)
        if not self._wait_until_free():
            owner._note(left=1)
            self.close_connection = True
            return
        if owner._ended.is_set():
            self.close_connection = True
            return
        try:
            self._behave(behavior, asked)
        except OSError:
            owner._note(left=1)
            self.close_connection = True

    def _wait_until_free(self) -> bool:
        """False when the caller goes away first."""
        while not self.server.owner._free.wait(0.02):
            self.connection.setblocking(False)
            try:
                if self.connection.recv(1, socket.MSG_PEEK) == b"":
                    return False
            except BlockingIOError:
                pass
            except OSError:
                return False
            finally:
                self.connection.setblocking(True)
        return True

    def _behave(self, behavior: Behavior, asked: Asked) -> None:
        whole = json.dumps(_reply(behavior, asked, self.server.owner._answer(asked))).encode()
        if behavior.name.startswith("STATUS_"):
            status = behavior.value if behavior is not Behavior.STATUS_500_CUT_OFF else 500
            error = json.dumps(_error(status, asked)).encode()
            cut = behavior is Behavior.STATUS_500_CUT_OFF
            self._send(error[:10] if cut else error, status=status, told=len(error))
        elif behavior is Behavior.REDIRECT:
            self._send(b"", status=307, location=self.path)
        elif behavior is Behavior.LOST:
            self.close_connection = True
        elif behavior is Behavior.RESET:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
        elif behavior is Behavior.CUT_OFF:
            self._send(whole[: len(whole) // 2], told=len(whole))
        elif behavior is Behavior.CUT_OFF_UNTOLD:
            self._send(whole[: len(whole) // 2], told=None)
        elif behavior is Behavior.CUT_OFF_CHUNKED:
            half = whole[: len(whole) // 2]
            self._send(b"%x\r\n%s\r\n" % (len(half), half), told=None, transfer_encoding="chunked")
        elif behavior in (Behavior.DRIP, Behavior.HUGE):
            self._stream(b" " * (LEAST_BYTES_OF_A_DRIP if behavior is Behavior.DRIP else 1 << 20), behavior is Behavior.DRIP)
        elif behavior is Behavior.EMPTY_BODY:
            self._send(b"")
        elif behavior is Behavior.INVALID_JSON:
            self._send(whole + b"}")
        elif behavior is Behavior.HTML:
            self._send(b"<html><body>Welcome to the hotel's network</body></html>", content_type="text/html")
        elif behavior is Behavior.ERROR_OBJECT:
            self._send(json.dumps(_error(500, asked)).encode())
        else:
            self._send(whole)

    def _send(
        self, body: bytes, *, status: int = 200, told: int | None = -1, content_type: str = "application/json", **headers: str
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        if told is not None:
            self.send_header("Content-Length", str(len(body) if told < 0 else told))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-").title(), value)
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = told is None or told > len(body)

    def _stream(self, piece: bytes, slowly: bool) -> None:
        self._send(b"", told=None)
        while not self.server.owner._ended.is_set():
            self.wfile.write(piece)
            if slowly:
                time.sleep(DRIP_SECONDS)


def _reply(behavior: Behavior, asked: Asked, text: str) -> dict[str, Any]:
    content: str | None = text
    if behavior is Behavior.ECHO:
        content = asked.user + asked.user[: len(asked.user) // 2]
    elif behavior is Behavior.NULL_CONTENT:
        content = None
    calls = behavior is Behavior.CALLS
    if asked.is_messages:
        blocks: list[dict[str, Any]] = [] if content is None else [{"type": "text", "text": content}]
        if calls:
            blocks.append({"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}})
        stops = {Behavior.NULL_CONTENT: "max_tokens", Behavior.CALLS: "tool_use", Behavior.REFUSE: "refusal"}
        usage: dict[str, Any] = {"input_tokens": 90, "cache_read_input_tokens": 30, "output_tokens": 7}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": asked.body["model"], "content": blocks}
        return {**message, "stop_reason": stops.get(behavior, "end_turn"), "stop_sequence": None, "usage": usage}
    message = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}]
    stops = {Behavior.NULL_CONTENT: "length", Behavior.CALLS: "tool_calls", Behavior.REFUSE: "content_filter"}
    choice = {"index": 0, "message": message, "finish_reason": stops.get(behavior, "stop")}
    usage = {"prompt_tokens": 120, "completion_tokens": 7, "total_tokens": 127, "prompt_tokens_details": {"cached_tokens": 30}}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": asked.body["model"]}
    return {**head, "choices": [choice], "usage": usage}


def _error(status: int, asked: Asked) -> dict[str, Any]:
    """As vendors do it, with what must not get into a log: the key and the content."""
    kinds = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}
    error = {"type": kinds.get(status, "api_error"), "message": f"not with {asked.key}: {asked.user}", "code": asked.key}
    return {"type": "error", "error": error} if asked.is_messages else {"error": error}
