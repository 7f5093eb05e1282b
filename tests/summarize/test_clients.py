"""Both clients against a server that misbehaves: what each failure is told as, one request each, and no secret anywhere."""

from __future__ import annotations

import logging
import socket
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.config import load_config
from sidecar.core.errors import SummarizerFailedError, SummarizerNotConfiguredError, SummarizerUnknownError, TrimtabError
from sidecar.core.replies import ModelReply, Stop
from sidecar.core.types import UsageFigures
from sidecar.ports import SummaryModel
from sidecar.summarize import ask
from sidecar.summarize.open import open_model
from tests.helpers.model_server import Behavior, ModelServer

KEY = "sk-test-0123456789abcdef"
SYSTEM = "instructions-canary"
USER = "material-canary " * 20
LIBRARIES = ("openai", "anthropic", "httpx", "httpx2", "httpcore", "httpcore2")
SECRETS = (KEY, SYSTEM, USER[:15])


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that SDKs read must change nothing."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token-of-another")
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture(params=["openai", "anthropic"])
def client(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def _no_secret_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    for name in LIBRARIES:
        caplog.set_level(logging.DEBUG, name)
    yield
    records = caplog.get_records("call")  # at this point `caplog.records` are the teardown's own
    assert [record.name for record in records if record.name.partition(".")[0] in LIBRARIES] == []
    told = "".join(caplog.handler.format(record) for record in records)
    assert [secret for secret in SECRETS if secret in told] == []


def opened(client: str, base_url: str, key: str | None = KEY) -> SummaryModel:
    flags = {"summarizer_client": client, "summarizer_model": "small", "summarizer_base_url": base_url}
    environ = {} if key is None else {f"{client.upper()}_API_KEY": key}
    model = open_model(load_config(flags, {}).config, environ)
    assert model is not None
    return model


def asked_of(model: SummaryModel, timeout_s: float = 20.0, cancel: threading.Event | None = None) -> ModelReply:
    return model.summarize(SYSTEM, USER, max_output_bytes=6000, timeout_s=timeout_s, cancel=cancel)


def failure_of(model: SummaryModel, timeout_s: float = 20.0, cancel: threading.Event | None = None) -> TrimtabError:
    """The error, after a look for secrets in all that it carries."""
    with pytest.raises((SummarizerFailedError, SummarizerUnknownError)) as caught:
        asked_of(model, timeout_s, cancel)
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    told = "".join([repr(error), str(error), repr(error.details), error.hint, *traceback.format_exception(error), repr(model)])
    assert [secret for secret in SECRETS if secret in told] == []
    return error


def test_summarize_sends_one_request_and_reads_the_reply(client: str, server: ModelServer) -> None:
    reply = asked_of(opened(client, server.base_url(client)))
    assert reply == ModelReply("notes", Stop.END, False, UsageFigures(120, 30, 7))
    (request,) = server.requests
    assert (request.system, request.user, request.key, request.body["model"]) == (SYSTEM, USER, KEY, "small")
    assert request.body["max_tokens"] == 3000
    assert "token-of-another" not in str(request.headers)
    assert set(request.body) <= {"model", "messages", "system", "max_tokens", "stream"}
    assert server.connection_count == 1


def test_summarize_name_and_model_are_told(client: str) -> None:
    model = opened(client, "http://127.0.0.1:9")
    assert (model.name, model.model) == (f"{client}/1", "small")


def test_summarize_twice_opens_a_connection_for_each(client: str, server: ModelServer) -> None:
    model = opened(client, server.base_url(client))
    assert [asked_of(model).text, asked_of(model).text] == ["notes", "notes"]
    assert (server.request_count, server.connection_count) == (2, 2)


def test_summarize_small_limit_leaves_room_for_256_tokens(client: str, server: ModelServer) -> None:
    opened(client, server.base_url(client)).summarize("s", "u", max_output_bytes=10, timeout_s=20)
    assert server.requests[0].body["max_tokens"] == 256


def test_summarize_text_with_lone_surrogate_and_nul_is_sent(client: str, server: ModelServer) -> None:
    opened(client, server.base_url(client)).summarize("s", "a\ud800b\x00c", max_output_bytes=10, timeout_s=20)
    assert server.requests[0].user == "a\ufffdb\x00c"


def test_summarize_without_a_key_sends_none(client: str, server: ModelServer) -> None:
    asked_of(opened(client, server.base_url(client), key=None))
    assert server.requests[0].key is None
    assert not {"authorization", "x-api-key"} & set(server.requests[0].headers)


@pytest.mark.parametrize(
    ("behavior", "text", "stop", "has_calls"),
    [
        (Behavior.NULL_CONTENT, "", Stop.LENGTH, False),
        (Behavior.CALLS, "notes", Stop.CALL, True),
        (Behavior.ECHO, USER + USER[: len(USER) // 2], Stop.END, False),
        (Behavior.REFUSE, "notes", Stop.REFUSED, False),
    ],
)
def test_summarize_odd_reply_is_handed_on(
    client: str, server: ModelServer, behavior: Behavior, text: str, stop: Stop, has_calls: bool
) -> None:
    server.behavior = behavior
    reply = asked_of(opened(client, server.base_url(client)))
    assert (reply.text, reply.stop, reply.has_calls) == (text, stop, has_calls)
    assert reply.usage == UsageFigures(120, 30, 7)
    assert server.request_count == 1


@pytest.mark.parametrize(
    ("behavior", "told"),
    [
        (Behavior.STATUS_400, "status 400 (invalid_request_error)"),
        (Behavior.STATUS_401, "status 401 (authentication_error)"),
        (Behavior.STATUS_429, "status 429 (rate_limit_error)"),
        (Behavior.STATUS_500, "status 500 (api_error)"),
        (Behavior.STATUS_529, "status 529 (overloaded_error)"),
        (Behavior.REDIRECT, "status 307"),
        (Behavior.EMPTY_BODY, "is no reply"),
        (Behavior.INVALID_JSON, "is no reply"),
        (Behavior.HTML, "is no reply"),
        (Behavior.ERROR_OBJECT, "is no reply"),
        (Behavior.HUGE, "larger than"),
    ],
)
def test_summarize_answer_that_is_of_no_use_is_failed(client: str, server: ModelServer, behavior: Behavior, told: str) -> None:
    server.behavior = behavior
    error = failure_of(opened(client, server.base_url(client)))
    assert type(error) is SummarizerFailedError
    assert told in error.message
    assert (server.request_count, server.connection_count) == (1, 1)


def test_summarize_status_is_in_the_details(client: str, server: ModelServer) -> None:
    server.behavior = Behavior.STATUS_429
    assert failure_of(opened(client, server.base_url(client))).details == {"status": 429}


@pytest.mark.parametrize(
    "behavior",
    [
        Behavior.LOST,
        Behavior.RESET,
        Behavior.CUT_OFF,
        Behavior.CUT_OFF_UNTOLD,
        Behavior.CUT_OFF_CHUNKED,
        Behavior.STATUS_500_CUT_OFF,
    ],
)
def test_summarize_answer_that_is_lost_or_cut_off_is_unknown(client: str, server: ModelServer, behavior: Behavior) -> None:
    server.behavior = behavior
    assert type(failure_of(opened(client, server.base_url(client)))) is SummarizerUnknownError
    assert (server.request_count, server.connection_count) == (1, 1)


@pytest.mark.parametrize("behavior", [Behavior.ANSWER, Behavior.DRIP])
def test_summarize_no_whole_answer_by_the_deadline_is_unknown(client: str, server: ModelServer, behavior: Behavior) -> None:
    model = opened(client, server.base_url(client))
    asked_of(model)  # so that importing the SDK takes nothing of the deadline
    server.behavior = behavior
    if_held = {Behavior.ANSWER: server.hold, Behavior.DRIP: server.release}
    if_held[behavior]()
    start = time.monotonic()
    error = failure_of(model, timeout_s=0.7)
    assert 0.6 < time.monotonic() - start < 3
    assert type(error) is SummarizerUnknownError
    assert "within 0.7 seconds" in error.message
    server.wait_for_left(1)  # the connection was closed, not left open
    assert server.request_count == 2


@pytest.mark.parametrize("behavior", [Behavior.ANSWER, Behavior.DRIP])
def test_summarize_cancelled_after_the_request_ends_at_once_as_unknown(
    client: str, server: ModelServer, behavior: Behavior
) -> None:
    model = opened(client, server.base_url(client))
    server.behavior = behavior
    if_held = {Behavior.ANSWER: server.hold, Behavior.DRIP: server.release}
    if_held[behavior]()
    cancel = threading.Event()
    found: list[TrimtabError] = []
    caller = threading.Thread(target=lambda: found.append(failure_of(model, 60.0, cancel)))
    caller.start()
    server.wait_for_requests(1)
    cancel.set()
    caller.join(3)
    assert [type(error) for error in found] == [SummarizerUnknownError]
    assert "cancelled" in found[0].message
    server.wait_for_left(1)
    assert server.request_count == 1


def test_summarize_cancel_that_is_never_set_changes_nothing(client: str, server: ModelServer) -> None:
    assert asked_of(opened(client, server.base_url(client)), cancel=threading.Event()).text == "notes"


def test_summarize_cancelled_or_late_before_it_begins_sends_nothing(client: str, server: ModelServer) -> None:
    model = opened(client, server.base_url(client))
    cancel = threading.Event()
    cancel.set()
    assert type(failure_of(model, cancel=cancel)) is SummarizerFailedError
    assert type(failure_of(model, timeout_s=0)) is SummarizerFailedError
    assert type(failure_of(model, timeout_s=-1)) is SummarizerFailedError
    assert server.connection_count == 0


def test_summarize_connection_refused_is_failed(client: str) -> None:
    with socket.socket() as taken:  # bound and not listening: nobody else gets the port
        taken.bind(("127.0.0.1", 0))
        error = failure_of(opened(client, f"http://127.0.0.1:{taken.getsockname()[1]}"))
    assert type(error) is SummarizerFailedError
    assert "could not be reached" in error.message


def test_summarize_name_that_does_not_exist_is_failed(client: str) -> None:
    assert type(failure_of(opened(client, "http://nowhere.invalid"))) is SummarizerFailedError


def test_summarize_no_tls_at_the_other_end_is_failed(client: str, server: ModelServer) -> None:
    error = failure_of(opened(client, server.base_url(client).replace("http:", "https:")))
    assert type(error) is SummarizerFailedError
    assert "could not be reached" in error.message
    assert server.request_count == 0


def test_summarize_nobody_accepts_the_connection_is_failed(client: str) -> None:
    with socket.socket() as full, socket.socket() as first:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        first.connect(full.getsockname())  # takes the only place; further ones wait for good
        with socket.socket() as second:
            second.setblocking(False)
            second.connect_ex(full.getsockname())
            error = failure_of(opened(client, f"http://127.0.0.1:{full.getsockname()[1]}"), timeout_s=1.0)
    assert type(error) is SummarizerFailedError
    assert "nothing was sent" in error.message


def test_summarize_leaves_no_threads(client: str, server: ModelServer) -> None:
    model = opened(client, server.base_url(client))
    asked_of(model)
    server.hold()
    own = set(threading.enumerate())
    failure_of(model, timeout_s=0.3)
    server.wait_for_left(1)
    deadline = time.monotonic() + 5
    while (left := set(threading.enumerate()) - own) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left == set()


def test_summarize_key_that_is_changed_or_lost_is_noticed(client: str, server: ModelServer, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("first\n")
    flags = {"summarizer_client": client, "summarizer_model": "m", "summarizer_base_url": server.base_url(client)}
    model = open_model(load_config({**flags, "summarizer_key_file": str(file)}, {}).config, {})
    assert model is not None
    asked_of(model)
    file.write_text("second")
    asked_of(model)
    file.unlink()
    with pytest.raises(SummarizerFailedError, match=r"key file .* cannot be read"):
        asked_of(model)
    assert [request.key for request in server.requests] == ["first", "second"]


def test_openai_vendor_gets_the_new_name_of_the_limit(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecar.summarize.openai_client._VENDOR_URL", server.base_url("openai"))
    asked_of(opened("openai", ""))
    assert server.requests[0].body["max_completion_tokens"] == 3000
    assert "max_tokens" not in server.requests[0].body


def test_need_package_that_is_not_installed_names_the_extra() -> None:
    with pytest.raises(SummarizerNotConfiguredError) as caught:
        ask.need_package("no_such_sdk")
    assert caught.value.hint == "pip install 'trimtab[no_such_sdk]'"
