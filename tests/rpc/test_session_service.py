"""SessionService over the wire: sessions as they are shown, listed, streamed, watched and removed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import grpc
import pytest

from sidecar.core.types import SessionKey
from sidecar.engine.events import Event, EventKind
from sidecar.rpc import session_service
from tests.rpc.build import messages_body, to_json
from tests.rpc.running import Running, reason_of, ref
from trimtab.v1 import artifact_pb2, common_pb2, context_pb2, session_pb2

_NUMBERS = count()
LIMITS = common_pb2.Limits(soft_bytes=8_192, target_bytes=4_096, min_saving_bytes=1)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with Running() as started:
        yield started


@pytest.fixture
def name() -> str:
    """A session of the test's own."""
    return f"run-{next(_NUMBERS)}"


@pytest.fixture
def scope() -> str:
    """A scope of the test's own."""
    return f"scope-{next(_NUMBERS)}"


def items_of(body: dict[str, Any]) -> list[bytes]:
    """The body's items as to_json writes them."""
    return [to_json(item) for item in body["messages"]]


def get_session(running: Running, session: common_pb2.SessionRef) -> session_pb2.Session:
    found: session_pb2.Session = running.sessions.GetSession(session_pb2.GetSessionRequest(session=session)).session
    return found


def read_items(running: Running, name: str, **range_: int) -> list[session_pb2.ReadItemsResponse]:
    return list(running.sessions.ReadItems(session_pb2.ReadItemsRequest(session=ref(name), **range_)))


def refused(call: Callable[[], Any]) -> tuple[grpc.StatusCode, str, dict[str, str]]:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    reason, details = reason_of(caught.value)
    return caught.value.code(), reason, details  # type: ignore[attr-defined]


def test_get_session_right_after_fit_shows_it(running: Running) -> None:
    """Ensure that a session is shown whose first write no reply waited for."""
    for _ in range(20):
        name = f"run-{next(_NUMBERS)}"
        body = messages_body(2, 100)
        answer = running.fit(name, to_json(body))
        assert answer.outcome == context_pb2.FIT_OUTCOME_UNCHANGED
        session = get_session(running, ref(name))
        assert session.item_count == answer.item_count == 5


def test_get_session_tells_what_it_is_and_how_big(running: Running, name: str) -> None:
    body = messages_body(12)
    answer = running.fit(name, to_json(body), limits=LIMITS)
    session = get_session(running, ref(name))
    assert session.ref == ref(name)
    assert session.format == common_pb2.FORMAT_ANTHROPIC_MESSAGES
    assert session.revision == answer.revision > 0
    assert session.item_count == 25
    assert session.raw_bytes == sum(map(len, items_of(body)))
    assert session.stored_bytes > 0
    assert session.artifact_count == len(answer.artifacts) > 0
    assert session.checkpoint_count == 0
    assert session.last_pressure.total_bytes == len(answer.body) == answer.after.total_bytes
    assert session.last_pressure.token_basis == common_pb2.TOKEN_BASIS_UNKNOWN
    assert not session.last_pressure.HasField("tokens")
    assert session.create_time.ToMilliseconds() <= session.update_time.ToMilliseconds()


def test_get_session_after_a_restart_is_as_before_but_for_the_last_body(running: Running, name: str) -> None:
    running.fit(name, to_json(messages_body(12)), limits=LIMITS)
    before = get_session(running, ref(name))
    running.stop()
    running.start()
    after = get_session(running, ref(name))
    assert not after.HasField("last_pressure")
    before.ClearField("last_pressure")
    assert after == before


@pytest.mark.parametrize(
    ("call", "reason", "field"),
    [
        (("GetSession", session_pb2.GetSessionRequest(session=ref("nobody"))), "SESSION_NOT_FOUND", None),
        (("GetSession", session_pb2.GetSessionRequest()), "INVALID_FIELD", "session.session_id"),
        (("GetSession", session_pb2.GetSessionRequest(session=ref("a", "s" * 129))), "INVALID_FIELD", "session.scope"),
        (("ListSessions", session_pb2.ListSessionsRequest(scope="s" * 129)), "INVALID_FIELD", "scope"),
        (("ListSessions", session_pb2.ListSessionsRequest(session_id_prefix="é" * 129)), "INVALID_FIELD", "session_id_prefix"),
        (("ListSessions", session_pb2.ListSessionsRequest(page_size=-1)), "INVALID_FIELD", "page_size"),
        (("ListSessions", session_pb2.ListSessionsRequest(page_token="x")), "PAGE_TOKEN_INVALID", None),
        (("DeleteSession", session_pb2.DeleteSessionRequest()), "INVALID_FIELD", "session.session_id"),
    ],
)
def test_every_call_that_is_wrong_is_refused_with_its_reason(
    running: Running, call: tuple[str, Any], reason: str, field: str | None
) -> None:
    _, found, details = refused(lambda: getattr(running.sessions, call[0])(call[1]))
    assert (found, details.get("field")) == (reason, field)


@pytest.mark.parametrize(
    ("request_", "reason", "field"),
    [
        (session_pb2.ReadItemsRequest(session=ref("nobody")), "SESSION_NOT_FOUND", None),
        (session_pb2.ReadItemsRequest(), "INVALID_FIELD", "session.session_id"),
        (session_pb2.ReadItemsRequest(session=ref("known"), start=-1), "INVALID_FIELD", "start"),
        (session_pb2.ReadItemsRequest(session=ref("known"), end=-1), "INVALID_FIELD", "end"),
        (session_pb2.ReadItemsRequest(session=ref("known"), start=2, end=1), "INVALID_FIELD", "end"),
        (session_pb2.ReadItemsRequest(session=ref("known"), start=6), "RANGE_INVALID", None),
        (session_pb2.WatchSessionsRequest(scope="s" * 129), "INVALID_FIELD", "scope"),
        (session_pb2.WatchSessionsRequest(session_id="s" * 257), "INVALID_FIELD", "session_id"),
    ],
)
def test_every_stream_that_is_wrong_is_refused_with_its_reason(
    running: Running, request_: Any, reason: str, field: str | None
) -> None:
    running.fit("known", to_json(messages_body(2, 100)))
    call = getattr(running.sessions, type(request_).__name__.removesuffix("Request"))
    _, found, details = refused(lambda: list(call(request_)))
    assert (found, details.get("field")) == (reason, field)


def test_list_sessions_gives_the_scope_most_recent_first_on_pages(running: Running, scope: str) -> None:
    names = ["b/1", "a/1", "a/2", "a/3", "é"]
    for each in names:
        running.fit(each, to_json(messages_body(2)), scope=scope, limits=LIMITS)
    found, token = [], ""
    while True:
        answer = running.sessions.ListSessions(session_pb2.ListSessionsRequest(scope=scope, page_size=2, page_token=token))
        assert len(answer.sessions) <= 2
        found += answer.sessions
        token = answer.next_page_token
        if not token:
            break
    assert {session.ref.session_id for session in found} == set(names)
    assert len(found) == len(names)
    times = [session.update_time.ToMilliseconds() for session in found]
    assert times == sorted(times, reverse=True)
    assert all(session == get_session(running, session.ref) for session in found)
    some = running.sessions.ListSessions(session_pb2.ListSessionsRequest(scope=scope, session_id_prefix="a/")).sessions
    assert {session.ref.session_id for session in some} == {"a/1", "a/2", "a/3"}
    assert not running.sessions.ListSessions(session_pb2.ListSessionsRequest(scope=scope + "x")).sessions


def test_list_sessions_token_is_bound_to_scope_and_prefix(running: Running, scope: str) -> None:
    for each in ("a1", "a2", "a3"):
        running.fit(each, to_json(messages_body(1)), scope=scope)
    token = running.sessions.ListSessions(session_pb2.ListSessionsRequest(scope=scope, page_size=1)).next_page_token
    for wrong in (
        session_pb2.ListSessionsRequest(page_token=token),
        session_pb2.ListSessionsRequest(scope=scope, session_id_prefix="a", page_token=token),
    ):
        _, reason, _ = refused(lambda request=wrong: running.sessions.ListSessions(request))
        assert reason == "PAGE_TOKEN_INVALID"


def test_read_items_streams_them_byte_for_byte(running: Running, name: str) -> None:
    raw = (
        b'{"messages": [ {"role":"user","content":"a\\/b \\u00e9 \xff \\ud800"} ,{"content":1.0,"role":"user","x":1e2,"x":[ ]},'
        b'{"role":"user","content":"z"}],"model":"m","max_tokens":1}'
    )
    running.fit(name, raw)
    (answer,) = read_items(running, name)
    assert answer.item_index == 0
    assert list(answer.items) == [
        b'{"role":"user","content":"a\\/b \\u00e9 \xff \\ud800"}',
        b'{"content":1.0,"role":"user","x":1e2,"x":[ ]}',
        b'{"role":"user","content":"z"}',
    ]


def test_read_items_of_a_range_gives_its_items(running: Running, name: str) -> None:
    body = messages_body(6)
    items = items_of(body)
    running.fit(name, to_json(body), limits=LIMITS)
    for start, end in ((0, 13), (3, 4), (12, 99), (13, None), (5, None), (5, 5)):
        range_ = {"start": start} | ({} if end is None else {"end": end})
        answers = read_items(running, name, **range_)
        assert [item for answer in answers for item in answer.items] == items[start:end]
        assert [answer.item_index for answer in answers] == ([start] if items[start:end] else [])


def test_read_items_messages_hold_a_mebibyte_or_one_item(running: Running, name: str) -> None:
    body = messages_body(9, 300_000)
    body["messages"][6]["content"][0]["content"] = "x" * 2_500_000
    items = items_of(body)
    running.fit(name, to_json(body))
    answers = read_items(running, name)
    assert [item for answer in answers for item in answer.items] == items
    sizes = [sum(map(len, answer.items)) for answer in answers]
    assert all(size <= session_service.ITEMS_BYTES or len(answer.items) == 1 for size, answer in zip(sizes, answers, strict=True))
    assert [answer.item_index for answer in answers] == [
        sum(len(answer.items) for answer in answers[:place]) for place in range(len(answers))
    ]
    assert len(answers) < len(items)


def test_read_items_follows_the_branch(running: Running, name: str) -> None:
    body = messages_body(4)
    running.fit(name, to_json(body))
    edited = messages_body(5)
    edited["messages"][3]["content"][0]["input"] = {"command": "another"}
    running.fit(name, to_json(edited))
    assert [item for answer in read_items(running, name) for item in answer.items] == items_of(edited)
    assert get_session(running, ref(name)).item_count == 11


def test_list_artifacts_of_another_branch_have_no_place_on_this_one(running: Running, name: str) -> None:
    body = messages_body(12)
    first = running.fit(name, to_json(body), limits=LIMITS)
    assert first.artifacts[0].item_index == 2
    edited = messages_body(3)
    edited["messages"][2]["content"][0]["content"] = "quite another result"
    running.fit(name, to_json(edited))
    listed = running.artifacts.ListArtifacts(artifact_pb2.ListArtifactsRequest(session=ref(name))).artifacts
    # The first stood in the edited item; the next two stand where they stood; the others are past the end now.
    assert [artifact.item_index for artifact in listed] == [-1, 4, 6] + [-1] * (len(listed) - 3)
    assert [artifact.call.item_index for artifact in listed[:3]] == [1, 3, 5]
    assert not listed[3].call.HasField("item_index")
    assert listed[3].call.call_id == "toolu_0003"
    got = running.artifacts.ReadArtifact(artifact_pb2.ReadArtifactRequest(session=ref(name), artifact_id=listed[0].artifact_id))
    assert got.content == body["messages"][2]["content"][0]["content"].encode()
    assert got.artifact.item_index == -1


def test_delete_session_removes_all_and_is_idempotent(running: Running, name: str) -> None:
    body = to_json(messages_body(12))
    artifact_id = running.fit(name, body, limits=LIMITS).artifacts[0].artifact_id
    request = session_pb2.DeleteSessionRequest(session=ref(name))
    assert running.sessions.DeleteSession(request).existed
    assert not running.sessions.DeleteSession(request).existed
    read = artifact_pb2.ReadArtifactRequest(session=ref(name), artifact_id=artifact_id)
    assert refused(lambda: running.artifacts.ReadArtifact(read))[1] == "SESSION_NOT_FOUND"
    assert refused(lambda: get_session(running, ref(name)))[1] == "SESSION_NOT_FOUND"
    # Nothing in memory stands for it either: the same name begins anew, without the limits it had.
    again = running.fit(name, body)
    assert (again.outcome, again.match.matched_item_count, len(again.artifacts)) == (context_pb2.FIT_OUTCOME_UNCHANGED, 0, 0)
    assert get_session(running, ref(name)).artifact_count == 0


def test_delete_session_while_others_fit_it_leaves_a_whole_session_or_none(running: Running, name: str) -> None:
    bodies = [to_json(messages_body(turns)) for turns in range(6, 14)]
    outcomes: list[str] = []

    def fit() -> None:
        for body in bodies * 3:
            try:
                running.fit(name, body, limits=LIMITS)
                outcomes.append("")
            except grpc.RpcError as error:
                outcomes.append(reason_of(error)[0])

    threads = [threading.Thread(target=fit) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        running.sessions.DeleteSession(session_pb2.DeleteSessionRequest(session=ref(name)))
    for thread in threads:
        thread.join()
    assert set(outcomes) == {""}
    answer = running.fit(name, bodies[-1], limits=LIMITS)
    for artifact in answer.artifacts:
        got = running.artifacts.ReadArtifact(
            artifact_pb2.ReadArtifactRequest(session=ref(name), artifact_id=artifact.artifact_id)
        )
        assert len(got.content) == artifact.size_bytes
    assert [item for part in read_items(running, name) for item in part.items] == items_of(messages_body(13))


def test_get_server_info_tells_what_it_is(running: Running) -> None:
    info = running.sessions.GetServerInfo(session_pb2.GetServerInfoRequest())
    assert info.version
    assert {common_pb2.FORMAT_OPENAI_CHAT, common_pb2.FORMAT_ANTHROPIC_MESSAGES} <= set(info.formats)
    limits = info.default_limits
    assert (limits.preset, limits.soft_bytes, limits.target_bytes) == (common_pb2.PRESET_BALANCED, 262_144, 98_304)
    assert not limits.HasField("hard_bytes")
    assert not limits.HasField("window_tokens")
    assert info.max_message_bytes == running.app.config.max_message_bytes
    assert info.features == ["compaction"]


class Watch:
    """A stream of events that is open for certain."""

    def __init__(self, running: Running, **request: str) -> None:
        self.call = running.sessions.WatchSessions(session_pb2.WatchSessionsRequest(**request))
        self.call.initial_metadata()

    def take(self, event_count: int) -> list[session_pb2.WatchSessionsResponse]:
        return [next(self.call) for _ in range(event_count)]


def test_watch_sessions_streams_what_happens_in_the_scope(running: Running, scope: str) -> None:
    watch = Watch(running, scope=scope)
    other = Watch(running, scope=scope, session_id="other")
    running.fit("one", to_json(messages_body(12)), scope="elsewhere-" + scope, limits=LIMITS)
    answer = running.fit("one", to_json(messages_body(12)), scope=scope, limits=LIMITS)
    artifact = answer.artifacts[0]
    running.artifacts.ReadArtifact(artifact_pb2.ReadArtifactRequest(session=ref("one", scope), artifact_id=artifact.artifact_id))
    call = {"type": "tool_use", "id": "t", "name": "trimtab_read", "input": {"artifact_id": artifact.artifact_id, "end": 5}}
    running.context.ResolveCall(context_pb2.ResolveCallRequest(session=ref("one", scope), call=json.dumps(call).encode()))
    running.fit("other", to_json(messages_body(1)), scope=scope)
    for each in ("one", "other"):
        running.sessions.DeleteSession(session_pb2.DeleteSessionRequest(session=ref(each, scope)))
    seen = watch.take(6)
    kinds = [event.kind for event in seen]
    assert set(kinds[:2]) == {session_pb2.EVENT_KIND_EXTERNALIZED, session_pb2.EVENT_KIND_FITTED}
    assert kinds[2:] == [session_pb2.EVENT_KIND_READ_BACK] * 2 + [session_pb2.EVENT_KIND_DELETED] * 2
    assert [event.session.session_id for event in seen] == ["one"] * 5 + ["other"]
    assert {event.session.scope for event in seen} == {scope}
    assert [event.revision for event in seen[:5]] == [answer.revision] * 5
    assert (seen[0].before_bytes, seen[0].after_bytes) == (answer.before.total_bytes, answer.after.total_bytes)
    assert all(event.time.seconds > 1_600_000_000 and event.lost_count == 0 for event in seen)
    assert [event.kind for event in other.take(1)] == [session_pb2.EVENT_KIND_DELETED]
    for each in (watch, other):
        each.call.cancel()


def test_watch_sessions_tells_a_slow_observer_what_it_lost(running: Running, scope: str) -> None:
    watch = Watch(running, scope=scope)
    events = running.app.engine.events
    detail = "x" * 60_000  # fills the stream's window, so that the server's side has to wait
    for number in range(5_000):
        events.publish(Event(EventKind.FITTED, SessionKey(scope, "a"), number, 0, detail))
    seen, accounted = [], 0
    while accounted < 5_000:
        (event,) = watch.take(1)
        seen.append(event.revision)
        accounted += 1 + event.lost_count
    assert accounted == 5_000
    assert len(seen) < 5_000
    assert seen == sorted(set(seen))
    assert seen[-1] == 4_999
    watch.call.cancel()


def test_watch_sessions_cancelled_leaves_no_observer(running: Running, scope: str) -> None:
    events = running.app.engine.events

    def observer_count() -> int:
        return sum(observer._scope == scope for observer in events._observers)  # those of earlier tests may still be going

    watches = [Watch(running, scope=scope) for _ in range(5)]
    assert observer_count() == 5
    gone = threading.Event()
    for watch in watches:
        watch.call.cancel()
    for _ in range(500):
        if observer_count() == 0:
            break
        gone.wait(0.01)
    assert observer_count() == 0


def test_watch_sessions_ends_when_the_server_drains(scope: str) -> None:
    with Running() as own:
        watch = Watch(own, scope=scope)
        ended: list[bool] = []
        thread = threading.Thread(target=lambda: ended.append(list(watch.call) == []))
        thread.start()
        own.app.close()
        thread.join(10)
        assert ended == [True]
