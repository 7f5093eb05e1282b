"""The server as a whole, over real sockets and a real store."""

from __future__ import annotations

import logging
import socket
import struct
import threading
import time
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from sidecar.app import App, open_app
from sidecar.config import ConfigError, load_config
from sidecar.rpc.interceptor import STREAM_COUNT
from sidecar.rpc.listen import ListenError
from tests.rpc.build import messages_body, to_json
from trimtab import error_from_rpc
from trimtab.stubs import open_stubs
from trimtab.v1 import artifact_pb2, common_pb2, context_pb2, session_pb2

REF = common_pb2.SessionRef(session_id="s")
MESSAGES = common_pb2.FORMAT_ANTHROPIC_MESSAGES


def _fit(**fields: object) -> context_pb2.FitRequest:
    given = {"session": REF, "format": MESSAGES, "read_back": context_pb2.READ_BACK_CALLER, **fields}
    return context_pb2.FitRequest(**given)  # type: ignore[arg-type]


def _open(short_path: Path, **flags: object) -> App:
    given = {"data_dir": str(short_path / "data"), "listen": (f"unix:{short_path}/s",), "drain_timeout_s": 1, **flags}
    return open_app(load_config(given, {}).config)


def _health(address: str, service: str) -> int:
    with grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service), timeout=5)
        return int(answer.status)


def _trailers(error: grpc.RpcError) -> dict[str, str | bytes]:
    assert isinstance(error, grpc.Call)
    return {item[0]: item[1] for item in error.trailing_metadata() or ()}


def test_fit_unchanged_answers_without_a_body(app: App) -> None:
    body = to_json(messages_body(1))
    with open_stubs(app.address) as stubs:
        response = stubs.context.Fit(_fit(body=body))
    assert response.outcome == context_pb2.FIT_OUTCOME_UNCHANGED
    assert response.body == b""
    assert response.before.total_bytes == response.after.total_bytes == len(body)


def test_fit_over_the_limit_answers_a_smaller_body_whose_artifacts_can_be_read(app: App) -> None:
    body = to_json(messages_body(40))
    limits = common_pb2.Limits(soft_bytes=30_000, target_bytes=30_000, min_saving_bytes=1)
    with open_stubs(app.address) as stubs:
        response = stubs.context.Fit(_fit(body=body, limits=limits))
        contents = [
            stubs.artifacts.ReadArtifact(artifact_pb2.ReadArtifactRequest(session=REF, artifact_id=artifact.artifact_id)).content
            for artifact in response.artifacts
        ]
    assert response.outcome == context_pb2.FIT_OUTCOME_FITTED
    assert len(response.body) == response.after.total_bytes <= 30_000
    assert contents
    assert all(to_json(content.decode())[1:-1] in body for content in contents)


@pytest.mark.parametrize(
    ("fields", "code", "reason", "details"),
    [
        ({"body": b"{"}, grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED_BODY", {"offset_bytes": "1"}),
        ({"body": b"{}", "session": common_pb2.SessionRef()}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", {}),
        ({"body": b"{}", "format": 6}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", {"field": "format"}),
        ({"body": b'{"messages":[]}', "read_back": 0}, grpc.StatusCode.INVALID_ARGUMENT, "READ_BACK_REQUIRED", {}),
    ],
    ids=["malformed", "no session", "no dialect", "no read-back"],
)
def test_fit_refusal_tells_code_reason_and_details(
    app: App, fields: dict[str, object], code: grpc.StatusCode, reason: str, details: dict[str, str]
) -> None:
    with open_stubs(app.address) as stubs, pytest.raises(grpc.RpcError) as caught:
        stubs.context.Fit(_fit(**fields))
    error = error_from_rpc(caught.value)
    assert (error.code, error.reason) == (code, reason)
    assert _trailers(caught.value)["trimtab-reason"] == reason
    assert details.items() <= error.details.items()


def test_get_read_back_tool_gives_a_tool_in_the_dialects_spelling(app: App) -> None:
    with open_stubs(app.address) as stubs:
        chat = stubs.context.GetReadBackTool(context_pb2.GetReadBackToolRequest(format=common_pb2.FORMAT_OPENAI_CHAT))
        messages = stubs.context.GetReadBackTool(context_pb2.GetReadBackToolRequest(format=MESSAGES))
    assert chat.name == messages.name == "trimtab_read"
    assert b'"function"' in chat.tool
    assert b'"input_schema"' in messages.tool


def test_resolve_call_of_a_session_that_is_not_there_is_told(app: App) -> None:
    with open_stubs(app.address) as stubs, pytest.raises(grpc.RpcError) as caught:
        stubs.context.ResolveCall(context_pb2.ResolveCallRequest(session=REF, format=MESSAGES, call=b"{}"))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_resolve_call_takes_the_dialect_of_the_session_unless_told(app: App) -> None:
    call = b'{"type":"tool_use","id":"t1","name":"other","input":{}}'
    with open_stubs(app.address) as stubs:
        limits = common_pb2.Limits(soft_bytes=4096)
        stubs.context.Fit(_fit(body=to_json(messages_body(1)), limits=limits))
        response = stubs.context.ResolveCall(context_pb2.ResolveCallRequest(session=REF, call=call))
        chat = b'{"id":"c1","type":"function","function":{"name":"other","arguments":"{}"}}'
        told = context_pb2.ResolveCallRequest(session=REF, call=chat, format=common_pb2.FORMAT_OPENAI_CHAT)
        other = stubs.context.ResolveCall(told)
    assert [answer.not_ours for answer in (response, other)] == [True, True]
    assert [answer.result for answer in (response, other)] == [b"", b""]


def test_fit_exception_that_is_not_ours_goes_out_as_internal_without_its_text(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(given: object) -> None:
        raise KeyError("SECRET")

    monkeypatch.setattr(app.engine, "fit", broken)
    with caplog.at_level(logging.ERROR), open_stubs(app.address) as stubs, pytest.raises(grpc.RpcError) as caught:
        stubs.context.Fit(_fit(body=b"{}"))
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert "SECRET" not in str(caught.value) + repr(caught.value.trailing_metadata())
    assert "SECRET" not in repr([record.__dict__ for record in caplog.records])
    assert len(caplog.records) == 1


def _methods() -> list[str]:
    services = [
        *context_pb2.DESCRIPTOR.services_by_name.values(),
        *artifact_pb2.DESCRIPTOR.services_by_name.values(),
        *session_pb2.DESCRIPTOR.services_by_name.values(),
        *health_pb2.DESCRIPTOR.services_by_name.values(),
        *reflection_pb2.DESCRIPTOR.services_by_name.values(),
    ]
    return [f"/{service.full_name}/{method.name}" for service in services for method in service.methods]


@pytest.mark.parametrize("method", _methods())
def test_every_call_refuses_what_is_no_message_with_a_reason_and_a_quiet_log(
    app: App, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = [("grpc.use_local_subchannel_pool", 1)]
    with caplog.at_level(logging.WARNING), grpc.insecure_channel(app.address, options=options) as channel:
        call = channel.stream_stream(method, request_serializer=bytes, response_deserializer=bytes)
        with pytest.raises(grpc.RpcError) as caught:
            list(call(iter([b"\xff\xff SECRET"]), timeout=10))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert _trailers(caught.value)["trimtab-reason"] == "INVALID_FIELD"
    assert error_from_rpc(caught.value).details == {"field": "request"}
    assert caplog.records == []


def test_read_artifact_proven_before_the_reply_reads_only_the_range(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    read_bytes = [0]
    read_item_range = app.store.read_item_range

    def counted(*args: object) -> bytes:
        got = read_item_range(*args)  # type: ignore[arg-type]
        read_bytes[0] += len(got)
        return got

    monkeypatch.setattr(app.store, "read_item_range", counted)
    with open_stubs(app.address) as stubs:
        response = stubs.context.Fit(_fit(body=to_json(messages_body(8, 2_000_000))))
        artifact = response.artifacts[0]
        assert (artifact.size_bytes > 1_900_000, read_bytes[0] > 1_900_000) == (True, True)
        read_bytes[0] = 0
        request = artifact_pb2.ReadArtifactRequest(session=REF, artifact_id=artifact.artifact_id)
        request.bytes.CopyFrom(artifact_pb2.ByteRange(start=500_000, end=500_007))
        assert len(stubs.artifacts.ReadArtifact(request).content) == 7
    assert read_bytes[0] < 200_000


def test_fit_body_of_17_mb_passes_both_ways(app: App) -> None:
    body = messages_body(1)
    body["system"] = "s" * 17_000_000
    body["tools"] = []
    with open_stubs(app.address) as stubs:
        response = stubs.context.Fit(_fit(body=to_json(body), read_back=context_pb2.READ_BACK_INJECT))
    assert response.outcome != context_pb2.FIT_OUTCOME_UNCHANGED
    assert len(response.body) > 17_000_000


def test_fit_body_over_the_servers_limit_is_refused(short_path: Path) -> None:
    with _open(short_path, max_message_bytes="1MiB") as app, open_stubs(app.address) as stubs:
        body = messages_body(1)
        body["system"] = "s" * (3 << 20)
        with pytest.raises(grpc.RpcError) as caught:
            stubs.context.Fit(_fit(body=to_json(body)))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize("service", ["", "liveness", "readiness"])
def test_health_services_are_serving(app: App, service: str) -> None:
    assert _health(app.address, service) == health_pb2.HealthCheckResponse.SERVING


def test_reflection_lists_the_services(app: App) -> None:
    with grpc.insecure_channel(app.address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        answer = next(iter(stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))))
    names = {service.name for service in answer.list_services_response.service}
    assert {"trimtab.v1.ContextService", "trimtab.v1.ArtifactService", "trimtab.v1.SessionService"} <= names


def test_app_listens_on_several_addresses_and_tells_the_real_port(short_path: Path) -> None:
    with _open(short_path, listen=(f"unix:{short_path}/s", "127.0.0.1:0")) as app:
        assert [_health(address, "") for address in app.addresses] == [1, 1]
        assert not app.addresses[1].endswith(":0")


def test_app_on_a_port_that_another_server_has_is_refused(short_path: Path, tmp_path: Path) -> None:
    with _open(short_path, listen=("127.0.0.1:0",)) as app, pytest.raises(ListenError, match="in use"):
        _open(short_path, listen=(app.address,), data_dir=str(tmp_path / "other"))


def test_app_tcp_beyond_this_machine_needs_the_flag(short_path: Path) -> None:
    with pytest.raises(ListenError, match="insecure_tcp"):
        _open(short_path, listen=("0.0.0.0:0",))
    with _open(short_path, listen=("0.0.0.0:0",), insecure_tcp=True) as app:
        assert app.address.startswith("0.0.0.0:")


def test_app_without_address_or_folder_is_refused(short_path: Path) -> None:
    with pytest.raises(ListenError, match="no address"):
        _open(short_path, listen=())
    with pytest.raises(ConfigError, match="data_dir"):
        _open(short_path, data_dir="")


def test_app_that_cannot_listen_lets_go_of_the_store(short_path: Path) -> None:
    (short_path / "s").write_text("")
    with pytest.raises(ListenError):
        _open(short_path)
    (short_path / "s").unlink()
    _open(short_path).close()


def test_close_removes_the_socket_and_a_second_close_does_nothing(short_path: Path) -> None:
    app = _open(short_path)
    app.close()
    app.close()
    assert not (short_path / "s").exists()


def test_close_turns_readiness_off_keeps_liveness_and_serves_until_the_delay_is_over(short_path: Path) -> None:
    app = _open(short_path, drain_delay_s=2)
    closing = threading.Thread(target=app.close)
    closing.start()
    deadline = time.monotonic() + 1.5
    while _health(app.address, "readiness") == health_pb2.HealthCheckResponse.SERVING:
        assert time.monotonic() < deadline
    assert _health(app.address, "liveness") == health_pb2.HealthCheckResponse.SERVING
    with open_stubs(app.address) as stubs:
        assert stubs.context.Fit(_fit(body=to_json(messages_body(1)))).outcome == context_pb2.FIT_OUTCOME_UNCHANGED
    closing.join()


def test_close_lets_a_running_call_end(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = _open(short_path, drain_timeout_s=10)
    fit, begun = app.engine.fit, threading.Event()

    def slow(given: object) -> object:
        begun.set()
        threading.Event().wait(0.5)
        return fit(given)  # type: ignore[arg-type]

    monkeypatch.setattr(app.engine, "fit", slow)
    with open_stubs(app.address) as stubs:
        call = stubs.context.Fit.future(_fit(body=to_json(messages_body(1))))
        assert begun.wait(5)
        app.close()
        assert call.result(timeout=5).outcome == context_pb2.FIT_OUTCOME_UNCHANGED


def test_close_ends_watchers_at_once(short_path: Path) -> None:
    app = _open(short_path, drain_timeout_s=30)
    with open_stubs(app.address) as stubs:
        watch = stubs.sessions.WatchSessions(session_pb2.WatchSessionsRequest())
        stubs.sessions.GetServerInfo(session_pb2.GetServerInfoRequest())
        begun = time.monotonic()
        app.close()
        assert time.monotonic() - begun < 10
        watch.cancel()


def test_watchers_take_no_thread_from_other_calls_and_one_too_many_is_told(short_path: Path) -> None:
    with _open(short_path, threads=2) as app, open_stubs(app.address) as stubs:
        watches = [stubs.sessions.WatchSessions(session_pb2.WatchSessionsRequest()) for _ in range(STREAM_COUNT)]
        deadline = time.monotonic() + 20
        refused = None
        while refused is None:
            assert time.monotonic() < deadline
            extra = stubs.sessions.WatchSessions(session_pb2.WatchSessionsRequest(), timeout=0.5)
            with pytest.raises(grpc.RpcError) as caught:
                next(iter(extra))
            error = caught.value
            refused = error if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED else None
            if refused is None:  # it was in before one of the others, whose place it has left free by now
                watches.append(stubs.sessions.WatchSessions(session_pb2.WatchSessionsRequest()))
        assert _trailers(refused)["trimtab-reason"] == "TOO_MANY"
        assert stubs.context.Fit(_fit(body=to_json(messages_body(1))), timeout=10).revision >= 0
        for watch in watches:
            watch.cancel()


def _ping_until_closed(address: str, count: int, pause_s: float) -> bool:
    """Send HTTP/2 pings on a connection without calls. True when the server says GOAWAY or closes."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + struct.pack(">I", 0)[1:] + bytes([4, 0]) + struct.pack(">I", 0))
        received = b""
        for number in range(count):
            time.sleep(pause_s)
            try:
                connection.sendall(struct.pack(">I", 8)[1:] + bytes([6, 0]) + struct.pack(">I", 0) + struct.pack(">Q", number))
                received += connection.recv(65536)
            except OSError:
                return True
    return b"too_many_pings" in received


def test_pings_of_an_idle_client_are_tolerated_and_a_flood_is_not(short_path: Path) -> None:
    with _open(short_path, listen=("127.0.0.1:0",)) as app:
        assert not _ping_until_closed(app.address, 5, 1.1)
        assert _ping_until_closed(app.address, 20, 0.02)
