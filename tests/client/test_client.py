"""The Python client against a real sidecar."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import logging
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from anthropic.types import TextBlock

import trimtab
from sidecar.app import App, open_app
from sidecar.config import load_config
from tests.rpc.build import messages_body, to_json
from trimtab import errors
from trimtab.stubs import channel_options
from trimtab.v1 import common_pb2, context_pb2, error_pb2

SMALL: trimtab.Limits = {"soft_bytes": 30_000, "target_bytes": 30_000, "min_saving_bytes": 1}


@pytest.fixture
def client(app: App) -> Iterator[trimtab.Trimtab]:
    with trimtab.connect(app.address, format="anthropic-messages", read_back="inject", **SMALL) as made:
        yield made


def _nobody(short_path: Path, **options: Any) -> trimtab.Trimtab:
    return trimtab.connect(f"unix:{short_path}/nobody", format="anthropic-messages", read_back="inject", timeout=5, **options)


def test_exports_are_these() -> None:
    assert sorted(trimtab.__all__) == [
        "ArtifactNotFoundError",
        "AsyncTrimtab",
        "AttemptNotFoundError",
        "CallNotFoundError",
        "CallOptions",
        "CannotFitError",
        "CheckpointNotFoundError",
        "CompactOptions",
        "CorruptedError",
        "DeadlineExceededError",
        "FormatAmbiguousError",
        "InternalError",
        "InvalidFieldError",
        "Limits",
        "MalformedBodyError",
        "MessageTooLargeError",
        "NoBodyError",
        "NotServingError",
        "PageTokenInvalidError",
        "PatternInvalidError",
        "PrepareOptions",
        "RangeInvalidError",
        "ReadBackRequiredError",
        "RecordOptions",
        "RequestIdReusedError",
        "RevisionConflictError",
        "SessionNotFoundError",
        "StoreFailedError",
        "StoreFullError",
        "SummarizerNotConfiguredError",
        "SummaryNotMade",
        "TooManyError",
        "Trimtab",
        "TrimtabError",
        "UnauthenticatedError",
        "UnavailableError",
        "connect",
        "connect_async",
        "error_from_rpc",
        "receipt",
    ]
    assert all(hasattr(trimtab, name) for name in trimtab.__all__)


def test_errors_have_one_class_for_each_reason_of_the_proto() -> None:
    reasons = {name.removeprefix("ERROR_REASON_") for name in error_pb2.ErrorReason.keys()} - {"UNSPECIFIED"}
    ours = {"CANNOT_FIT", "DEADLINE_EXCEEDED", "MESSAGE_TOO_LARGE", "UNAVAILABLE"}
    assert sorted(kind.default_reason for kind in trimtab.TrimtabError.__subclasses__()) == sorted(reasons | ours)
    assert set(errors.__all__) <= set(trimtab.__all__)


def test_limits_are_those_of_the_proto() -> None:
    assert set(trimtab.Limits.__annotations__) == {field.name for field in common_pb2.Limits.DESCRIPTOR.fields}


def test_connect_needs_format_and_read_back() -> None:
    with pytest.raises(TypeError):
        trimtab.connect("unix:/x")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        trimtab.connect_async("unix:/x", format="openai-chat")  # type: ignore[call-arg]


@pytest.mark.parametrize("options", [{"format": "claude"}, {"read_back": "maybe"}, {"preset": "huge"}])
def test_connect_unknown_name_lists_those_that_there_are(options: dict[str, str]) -> None:
    given: dict[str, Any] = {"format": "openai-chat", "read_back": "none", **options}
    with pytest.raises(ValueError, match="must be one of"):
        trimtab.connect("unix:/x", **given)


def test_connect_refuses_a_limit_that_does_not_exist_or_is_no_number() -> None:
    given: dict[str, Any] = {"format": "openai-chat", "read_back": "none"}
    with pytest.raises(ValueError, match="there is no limit 'soft_byte'; limits are preset, soft_bytes"):
        trimtab.connect("unix:/x", **given, soft_byte=1)
    with pytest.raises(TypeError, match="soft_bytes must be a whole number"):
        trimtab.connect("unix:/x", **given, soft_bytes="30KiB")


def test_an_option_that_does_not_exist_is_refused(client: trimtab.Trimtab, app: App) -> None:
    calls: list[Callable[..., Any]] = [
        lambda **options: client.fit("s", messages_body(1), **options),
        lambda **options: client.prepare("s", messages_body(1), **options),
        lambda **options: client.compact("s", "one", messages_body(1), **options),
        lambda **options: client.record("s", "one", **options),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="there is no option 'reciepts'; options are .*receipts"):
            call(reciepts=[])


def test_fit_bytes_stay_bytes_and_unchanged_is_the_very_object(client: trimtab.Trimtab, app: App) -> None:
    body = to_json(messages_body(1))
    with trimtab.connect(app.address, format="anthropic-messages", read_back="caller") as caller:
        assert caller.fit("s", body) is body
        assert caller.last is not None
        assert caller.last.outcome == context_pb2.FIT_OUTCOME_UNCHANGED
    large = to_json(messages_body(40))
    fitted = client.fit("t", large)
    assert isinstance(fitted, bytes)
    assert len(fitted) < 40_000
    assert client.last is not None
    assert client.last.after.total_bytes == len(fitted)


def test_fit_dict_stays_dict_and_is_not_mutated(client: trimtab.Trimtab) -> None:
    body = messages_body(40)
    before = copy.deepcopy(body)
    fitted = client.fit("s", body)
    assert body == before
    assert isinstance(fitted, dict)
    assert fitted["model"] == body["model"]
    assert len(fitted["messages"]) == len(body["messages"])
    assert fitted["tools"][-1]["name"] == "trimtab_read"


def test_fit_dict_with_objects_of_an_sdk_and_a_lone_surrogate_is_written_as_the_sdk_would(client: trimtab.Trimtab) -> None:
    body = messages_body(1)
    block = TextBlock.model_validate({"type": "text", "text": "done \ud800"})
    body["messages"].append({"role": "assistant", "content": [block]})
    fitted = client.fit("s", body)
    assert fitted["messages"][-1]["content"] == [{"type": "text", "text": "done \ud800"}]


@pytest.mark.parametrize("method", ["fit", "prepare", "compact", "record"])
@pytest.mark.parametrize("body", ["{}", 5, [5], [[]], {"messages": [object()]}, None])
def test_what_is_no_body_is_a_type_error_that_says_what_one_is(app: App, client: trimtab.Trimtab, method: str, body: Any) -> None:
    more = {"compact": ["r"], "record": ["r"]}.get(method, [])
    holds = "cannot be written as JSON: it holds a value of type object"
    said = rf"^(body|item) must be bytes|^items must be a list|^(body|item) {holds}$"
    if method == "record" and isinstance(body, dict):
        body = [body]
    with pytest.raises(TypeError, match=said):
        getattr(client, method)("s", *more, body)

    async def awaited() -> None:
        async with trimtab.connect_async(app.address, format="openai-chat", read_back="none") as made:
            await getattr(made, method)("s", *more, body)

    with pytest.raises(TypeError, match=said):
        asyncio.run(awaited())


def test_fit_waits_for_a_sidecar_that_is_slow_to_take_the_connection(app: App, short_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as front, socket.socket(socket.AF_UNIX) as back:
        front.bind(f"{short_path}/front")
        front.listen()

        def forward() -> None:
            taken, _ = front.accept()
            time.sleep(1.2)  # longer than the longest wait between two attempts to connect
            back.connect(app.address.removeprefix("unix:"))
            ways = [threading.Thread(target=_pump, args=way) for way in ((taken, back), (back, taken))]
            for way in ways:
                way.start()
            for way in ways:
                way.join()
            taken.close()

        forwarding = threading.Thread(target=forward)
        forwarding.start()
        with trimtab.connect(f"unix:{short_path}/front", format="openai-chat", read_back="none", timeout=30) as made:
            body = messages_body(1)
            assert made.fit("slow", {"messages": body["messages"][:1]}) is not None
        forwarding.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


def test_fit_nan_is_refused_here(client: trimtab.Trimtab) -> None:
    with pytest.raises(ValueError, match="^body cannot be written as JSON: "):
        client.fit("s", {"messages": [], "temperature": float("nan")})


def test_fit_malformed_body_is_typed_with_details(client: trimtab.Trimtab) -> None:
    with pytest.raises(trimtab.MalformedBodyError) as caught:
        client.fit("s", b'{"messages":')
    assert caught.value.details["offset_bytes"] == "12"
    assert caught.value.code is grpc.StatusCode.INVALID_ARGUMENT
    assert isinstance(caught.value.__cause__, grpc.RpcError)


def test_fit_over_a_hard_limit_raises_with_the_answer(client: trimtab.Trimtab) -> None:
    body = messages_body(1)
    body["messages"][0]["content"] = "user text " * 2000
    with pytest.raises(trimtab.CannotFitError) as caught:
        client.fit("s", body, limits={"hard_bytes": 10_000, "soft_bytes": 8_000, "target_bytes": 8_000})
    assert caught.value.reason == "CANNOT_FIT"
    assert caught.value.response.outcome == context_pb2.FIT_OUTCOME_CANNOT_FIT
    assert caught.value.response.blockers
    assert re.search(r"USER_TEXT \d+ bytes at item 0\b", str(caught.value))
    assert client.last == caught.value.response


def test_fit_over_a_soft_limit_is_an_answer(client: trimtab.Trimtab) -> None:
    body = messages_body(1)
    body["messages"][0]["content"] = "user text " * 5000
    client.fit("s", body)
    assert client.last is not None
    assert client.last.outcome == context_pb2.FIT_OUTCOME_OVER


def test_fit_options_reach_the_server(client: trimtab.Trimtab) -> None:
    body = messages_body(40)
    client.fit("s", body)
    response = client.fit_response("s", body, list_applied=True, usage={"input_tokens": 10}, anchors={"goal": "g"})
    assert response.reductions
    with pytest.raises(trimtab.RevisionConflictError) as caught:
        client.fit("s", body, anchors={"goal": "h"}, expected_revision=response.revision + 5)
    assert caught.value.details["revision"] == str(response.revision)


def test_fit_limits_of_a_call_come_on_top_of_the_clients(client: trimtab.Trimtab) -> None:
    response = client.fit_response("s", messages_body(1), limits={"externalize_bytes": 5000, "min_saving_bytes": 7})
    limits = response.effective_limits
    assert (limits.soft_bytes, limits.externalize_bytes, limits.min_saving_bytes) == (30_000, 5000, 7)


def test_fit_dry_run_writes_nothing(client: trimtab.Trimtab) -> None:
    body = messages_body(40)
    assert client.fit_response("s", body, dry_run=True).outcome == context_pb2.FIT_OUTCOME_FITTED
    with pytest.raises(trimtab.SessionNotFoundError):
        client.resolve("s", {"type": "tool_use", "id": "t", "name": "trimtab_read", "input": {}})


def _call(client: trimtab.Trimtab) -> dict[str, Any]:
    client.fit("s", messages_body(40))
    assert client.last is not None
    artifact = client.last.artifacts[0].artifact_id
    return {"type": "tool_use", "id": "toolu_x", "name": "trimtab_read", "input": {"artifact_id": artifact}}


def test_resolve_answers_the_read_back_tool_in_the_form_of_the_call(client: trimtab.Trimtab) -> None:
    call = _call(client)
    result = client.resolve("s", call)
    assert result is not None
    assert (result["type"], result["tool_use_id"]) == ("tool_result", "toolu_x")
    assert "file 0" in json.dumps(result)
    raw = client.resolve("s", to_json(call))
    assert isinstance(raw, bytes)
    assert json.loads(raw) == result


def test_resolve_call_of_another_tool_is_none(client: trimtab.Trimtab) -> None:
    client.fit("s", messages_body(1))
    assert client.resolve("s", {"type": "tool_use", "id": "t", "name": "bash", "input": {}}) is None
    assert client.resolve("s", b'{"type":"tool_use","id":"t","name":"bash","input":{}}') is None


def test_read_back_tool_is_what_the_server_looks_for(app: App) -> None:
    with trimtab.connect(app.address, format="anthropic-messages", read_back="tool", **SMALL) as client:
        body = messages_body(40)
        assert client.fit_response("s", body).notes[0].reason == "READ_BACK_TOOL_MISSING"
        body["tools"].append(client.read_back_tool())
        assert client.fit_response("t", body).outcome == context_pb2.FIT_OUTCOME_FITTED


def test_fit_without_a_server_raises_unavailable(short_path: Path) -> None:
    with _nobody(short_path) as client, pytest.raises(trimtab.UnavailableError):
        client.fit("s", b"{}")
    assert client.fail_open_count == 0


def test_fit_failing_open_gives_the_body_back_logs_and_counts_each_time(
    short_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    body = messages_body(1)
    with _nobody(short_path, fail_open=True) as client, caplog.at_level(logging.WARNING, "trimtab"):
        assert client.fit("s", body) is body
        assert client.fit("s", b"{}") == b"{}"
        assert client.last is None
    assert client.fail_open_count == 2
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert "UNAVAILABLE; 2 so far" in caplog.records[1].getMessage()


def test_fit_failing_open_does_not_hide_mistakes(app: App) -> None:
    with trimtab.connect(app.address, format="anthropic-messages", read_back="caller", fail_open=True) as client:
        with pytest.raises(trimtab.MalformedBodyError):
            client.fit("s", b"{")
        with pytest.raises(trimtab.InvalidFieldError):
            client.fit("", b"{}")
        with pytest.raises(trimtab.CannotFitError):
            body = messages_body(1)
            body["messages"][0]["content"] = "user text " * 2000
            client.fit("s", body, limits={"hard_bytes": 10_000, "soft_bytes": 8_000, "target_bytes": 8_000})
    assert client.fail_open_count == 0


def test_fit_deadline_is_typed_and_fails_open(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = {"listen": (f"unix:{short_path}/s",), "data_dir": str(short_path / "data")}
    with open_app(load_config(flags, {}).config) as app:
        release = threading.Event()
        fit = app.engine.fit
        body = to_json(messages_body(1))
        with trimtab.connect(app.address, format="anthropic-messages", read_back="caller", fail_open=True) as client:
            client.fit("s", body)
            assert client.last is not None
            monkeypatch.setattr(app.engine, "fit", lambda given: (release.wait(10), fit(given))[1])
            assert client.fit("s", body, timeout=0.2) is body
            assert client.last is None
            with pytest.raises(trimtab.DeadlineExceededError):
                client.fit_response("s", body, timeout=0.2)
        release.set()
    assert client.fail_open_count == 1


def test_fit_message_over_the_clients_limit_is_typed(app: App) -> None:
    body = b'{"messages":[{"role":"user","content":"' + b"x" * (3 << 20) + b'"}]}'
    options: dict[str, Any] = {"format": "anthropic-messages", "read_back": "caller", "max_message_bytes": 1 << 20}
    with trimtab.connect(app.address, **options) as client, pytest.raises(trimtab.MessageTooLargeError):
        client.fit("s", body)


def _answers_within(client: trimtab.Trimtab, body: bytes, limit_s: float) -> bool:
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        try:
            return client.fit("s", body) is body
        except trimtab.UnavailableError:
            time.sleep(0.05)
    return False


def test_client_finds_a_restarted_server_at_once(short_path: Path) -> None:
    flags = {"listen": (f"unix:{short_path}/s",), "data_dir": str(short_path / "data"), "drain_timeout_s": 0}
    config = load_config(flags, {}).config
    body = to_json(messages_body(1))
    with trimtab.connect(config.listen[0], format="anthropic-messages", read_back="caller") as client:
        with open_app(config):
            client.fit("s", body)
        with pytest.raises(trimtab.UnavailableError):
            client.fit("s", body)
        with open_app(config):
            assert _answers_within(client, body, 5)


def test_channel_options_look_for_a_lost_server_every_second() -> None:
    # How long gRPC waits between two tries grows to two minutes by default; to see that would take minutes.
    assert dict(channel_options())["grpc.max_reconnect_backoff_ms"] <= 1000


def test_client_closed_may_be_used_again(client: trimtab.Trimtab) -> None:
    body = to_json(messages_body(1))
    client.fit("s", body)
    client.close()
    client.close()
    client.fit("s", body)


def test_proxy_of_the_environment_is_not_used(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    flags = {"listen": ("127.0.0.1:0",), "data_dir": str(short_path / "data")}
    with open_app(load_config(flags, {}).config) as app:
        body = to_json(messages_body(1))
        with trimtab.connect(app.address, format="anthropic-messages", read_back="caller") as client:
            assert client.fit("s", body) is body


_FORKS = """
import os, sys, trimtab
client = trimtab.connect(sys.argv[1], format="anthropic-messages", read_back="caller", timeout=20)
body = sys.stdin.buffer.read()
assert client.fit("parent", body) is body
for number in range(3):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            assert client.fit(f"child-{number}", body) is body
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert client.fit("parent", body) is body
client.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fit_works_in_forked_children_and_on_in_the_parent(app: App) -> None:
    # In a process of its own: this one holds the server.
    done = subprocess.run(
        [sys.executable, "-c", _FORKS, app.address], input=to_json(messages_body(1)), capture_output=True, timeout=90, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_async_client_does_as_the_sync_one(app: App, caplog: pytest.LogCaptureFixture, short_path: Path) -> None:
    async def run() -> None:
        async with trimtab.connect_async(app.address, format="anthropic-messages", read_back="inject", **SMALL) as client:
            fitted = await client.fit("s", messages_body(40))
            assert client.last is not None
            assert client.last.outcome == context_pb2.FIT_OUTCOME_FITTED
            assert fitted["tools"][-1] == await client.read_back_tool()
            call = {"type": "tool_use", "id": "x", "name": "trimtab_read", "input": {}}
            call["input"] = {"artifact_id": client.last.artifacts[0].artifact_id}
            result = await client.resolve("s", call)
            assert result is not None
            assert result["tool_use_id"] == "x"
            assert await client.resolve("s", {**call, "name": "bash"}) is None
            with pytest.raises(trimtab.MalformedBodyError):
                await client.fit("s", b"{")
            raw = to_json(messages_body(40))
            bodies = await asyncio.gather(*(client.fit(f"many-{number}", raw) for number in range(8)))
            assert len(set(bodies)) == 1
        target = f"unix:{short_path}/nobody"
        async with trimtab.connect_async(target, format="anthropic-messages", read_back="none", fail_open=True) as nobody:
            assert await nobody.fit("s", b"{}") == b"{}"
            assert nobody.fail_open_count == 1

    with caplog.at_level(logging.WARNING, "trimtab"):
        asyncio.run(run())
    assert [record.name for record in caplog.records] == ["trimtab"]


def test_async_client_works_in_one_loop_after_another(app: App) -> None:
    client = trimtab.connect_async(app.address, format="anthropic-messages", read_back="caller")
    body = to_json(messages_body(1))

    async def run() -> None:
        assert await client.fit("s", body) is body

    asyncio.run(run())
    asyncio.run(run())

    async def close() -> None:
        await client.fit("s", body)
        await client.close()

    asyncio.run(close())


def test_fit_error_of_grpc_itself_has_a_hint_in_its_text(short_path: Path) -> None:
    with _nobody(short_path) as client, pytest.raises(trimtab.UnavailableError) as caught:
        client.fit("s", b"{}")
    assert "trimtab serve" in caught.value.hint
    assert str(caught.value).endswith(f"({caught.value.hint})")


@pytest.mark.parametrize("size", [0, -1, 1 << 31, 4 << 30])
def test_connect_message_limit_that_grpc_cannot_have_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="max_message_bytes"):
        trimtab.connect("unix:/x", format="openai-chat", read_back="caller", max_message_bytes=size)
