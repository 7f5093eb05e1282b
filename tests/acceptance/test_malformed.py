"""Malformed and odd input: a clear error with reason and offset and nothing written, or the bytes exactly as they came."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from tests.helpers.bodies import FORMATS, TYPED, History, history, words
from tests.helpers.client import Agent, Failure, Sidecar, notes, tight
from trimtab.v1 import context_pb2

each_format = pytest.mark.parametrize("format_name", FORMATS)
each_typed = pytest.mark.parametrize("format_name", TYPED)


def small_run(format_name: str) -> History:
    """A short history with one of each thing."""
    run = history(format_name).user("hi \u00e9 \\n")
    return (
        run.call(("read", {"p": [1, 2.5e3, None, True], "q": "\U0001f600"}), text="so", thinking="hm hm")
        .results("out\n")
        .answer("ok")
    )


def assert_malformed(failure: Failure, body: bytes) -> None:
    """The error is the documented one, in all three places, and points into the body."""
    assert failure.code == grpc.StatusCode.INVALID_ARGUMENT
    assert (failure.reason, failure.trailer) == ("MALFORMED_BODY", "MALFORMED_BODY")
    assert 0 <= int(failure.details["offset_bytes"]) <= len(body)


@each_format
def test_fit_truncated_at_every_byte_refused(sidecar: Sidecar, format_name: str) -> None:
    body = small_run(format_name).body()
    name = f"truncated {format_name}"
    for end in range(len(body)):
        assert_malformed(sidecar.failure(name, body[:end], format=format_name), body[:end])
    assert not sidecar.exists(name)
    assert sidecar.fit(name, body, format=format_name).outcome == context_pb2.FIT_OUTCOME_UNCHANGED


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every path in a value but the root's."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield (*path, key)
        yield from places(inner, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The value with something else at that place."""
    copy = json.loads(json.dumps(value))
    at = copy
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = new
    return copy


WRONG: list[Any] = [None, True, 0, -1.5, "", "x", [], {}, [[]], [{}], {"type": 1}, [None, 1, "x"]]


@each_format
def test_fit_wrong_types_everywhere_refused_or_passed_through(sidecar: Sidecar, format_name: str) -> None:
    value = small_run(format_name).value()
    passed = 0
    for number, path in enumerate(places(value)):
        for which, wrong in enumerate(WRONG):
            body = json.dumps(replaced(value, path, wrong)).encode()
            name = f"types {format_name} {number} {which}"
            try:
                answer = sidecar.fit(name, body, format=format_name)
            except grpc.RpcError as error:
                assert_malformed(Failure.of(error), body)
                assert not sidecar.exists(name)
            else:
                passed += 1
                assert (answer.body, len(answer.reductions)) == (b"", 0), (path, wrong)
                assert answer.before.total_bytes == len(body)
                sidecar.delete(name)
    assert passed > 100


@each_format
def test_fit_wrong_types_under_pressure_never_internal(sidecar: Sidecar, format_name: str) -> None:
    run = small_run(format_name).user("again").steps(3, 1_500)
    value = run.value()
    for number, path in enumerate(list(places(value))[::2]):
        wrong = WRONG[number % len(WRONG)]
        body = json.dumps(replaced(value, path, wrong)).encode()
        name = f"pressed {format_name} {number}"
        try:
            answer = sidecar.fit(name, body, format=format_name, limits=tight(1_024, keep_unit_count=0))
        except grpc.RpcError as error:
            assert_malformed(Failure.of(error), body)
            assert not sidecar.exists(name)
        else:
            sent = answer.body or body
            assert set(json.loads(sent)) == set(json.loads(body)), (path, wrong)
            assert answer.after.total_bytes == len(sent)
            reader = sidecar.reader(name)
            assert all(reader(reduction.artifact_id) for reduction in answer.reductions), (path, wrong)


@each_format
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"null",
        b"[]",
        b'"messages"',
        b"{}",
        b'{"messages":null}',
        b'{"messages":{}}',
        b'{"messages":"[]"}',
        b'{"messages":[]} x',
        b'{"messages":[]}{"messages":[]}',
        b"\xef\xbb\xbf" + b'{"messages":[]}',
        b'{"messages":[NaN]}',
        b'{"messages":[],"temperature":NaN}',
        b'{"messages":[],"temperature":Infinity}',
        b'{"messages":[],"temperature":-Infinity}',
        b'{"messages":[],"temperature":01}',
        b'{"messages":[],"temperature":1.}',
        b'{"messages":[],"temperature":+1}',
        b'{"messages":[],}',
        b'{"messages":[{"role":"user","content":"a\nb"}]}',
        b'{"messages":[{"role":"user","content":"a\\xb"}]}',
        b'{"messages":[{"role":"user","content":"a\\u12"}]}',
        b"{'messages':[]}",
        b'{"messages":[1,]}',
        b'{"messages":[] // comment\n}',
        b'{"messages":[' + b"[" * 10_000 + b"]" * 10_000 + b"]}",
        b'{"messages":[],"x":' + b'{"a":' * 10_000 + b"1" + b"}" * 10_000 + b"}",
        b"[" * 10_000,
    ],
    ids=range(29),
)
def test_fit_not_a_body_refused(sidecar: Sidecar, format_name: str, body: bytes) -> None:
    name = f"not {format_name} {len(body)} {body[:40]!r}"
    assert_malformed(sidecar.failure(name, body, format=format_name), body)
    assert not sidecar.exists(name)


@each_format
def test_fit_nan_deep_in_arguments_points_at_it(sidecar: Sidecar, format_name: str) -> None:
    body = history(format_name).user("go").steps(2, 100).body(temperature=0.5).replace(b"0.5", b"NaN")
    failure = sidecar.failure(f"nan {format_name}", body, format=format_name)
    assert int(failure.details["offset_bytes"]) == body.index(b"NaN")


@each_format
def test_fit_content_is_never_in_an_error(sidecar: Sidecar, format_name: str) -> None:
    body = history(format_name).user("the secret word is xylophone-4711").body()[:-3]
    failure = sidecar.failure(f"quiet {format_name}", body, format=format_name)
    assert "xylophone" not in repr(failure)


@each_format
def test_fit_duplicate_keys_passed_through_and_fitted(sidecar: Sidecar, format_name: str) -> None:
    body = history(format_name).user("go").steps(8, 2_000).user("ok").body()
    body = body.replace(b'"role":"user"', b'"role":"assistant","role":"user"', 1).replace(b'"model":', b'"model":"m","model":', 1)
    plain = Agent(sidecar, format_name)
    assert plain.fit(body) == body
    pressed = Agent(sidecar, format_name, tight(9_000, 6_000, keep_unit_count=1))
    pressed.fit(body)
    assert pressed.count > 0
    assert pressed.sent.count(b'"role":"assistant","role":"user"') == 1


@each_typed
def test_fit_history_twice_in_a_body_the_last_counts(sidecar: Sidecar, format_name: str) -> None:
    body = history(format_name).user("go").steps(8, 2_000).user("ok").body()
    body = body.replace(b'"messages":', b'"messages":[{"role":"user","content":"not this one"}],"messages":', 1)
    assert Agent(sidecar, format_name).fit(body) == body
    pressed = Agent(sidecar, format_name, tight(9_000, 6_000, keep_unit_count=1))
    pressed.fit(body)
    assert pressed.count > 0
    assert b"not this one" in pressed.sent


@each_format
def test_fit_empty_history_unchanged(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name)
    body = history(format_name).body()
    assert agent.fit(body) == body
    assert agent.response.item_count == 0


@each_format
@pytest.mark.parametrize(
    "odd", [b"\xff\xfe raw", b"\xc3", b"\\ud800 lone", b"\\udfff\\ud83d", b"\\u0000 nul", b"\xed\xa0\x80", b"\\ud83d\\ude00"]
)
def test_fit_odd_text_passed_through_and_read_back(sidecar: Sidecar, format_name: str, odd: bytes) -> None:
    run = history(format_name).user("MARK").step("MARK" + words(2_500) + "MARK").steps(6, 2_000).user("ok")
    body = run.body().replace(b"MARK", odd)
    assert Agent(sidecar, format_name).fit(body) == body
    agent = Agent(sidecar, format_name, tight(9_000, 6_000, keep_unit_count=1))
    agent.fit(body)
    assert 2 in {reduction.item_index for reduction in agent.response.reductions}


@each_format
@pytest.mark.parametrize("element", [b"{}", b"null", b"[]", b'""'])
def test_fit_a_million_empty_items_refused_or_passed_through(sidecar: Sidecar, format_name: str, element: bytes) -> None:
    body = b'{"messages":[' + b",".join([element] * 1_000_001) + b"]}"
    name = f"million {format_name} {element!r}"
    failure = sidecar.failure(name, body, format=format_name)
    assert_malformed(failure, body)
    assert not sidecar.exists(name)


@each_typed
@pytest.mark.parametrize("ids", ["", "call_0", "x" * 2_048, "a/../b\\\"'\u0000\u2028"], ids=["empty", "repeated", "long", "odd"])
def test_fit_ids_of_every_kind_fitted_and_paired(sidecar: Sidecar, format_name: str, ids: str) -> None:
    run = history(format_name).user("go")
    for index in range(8):
        run.call(("read_file", {"n": index}), ids=[ids]).results(words(3_000, index))
    agent = Agent(sidecar, format_name, tight(20_000, 9_000, keep_unit_count=2))
    agent.fit(run.body())
    assert agent.count > 0
    agent.fit(run.call(("read_file", {"n": 99}), ids=[ids]).results("new").body())


@each_typed
def test_fit_batch_with_one_id_for_all_calls_paired_or_told(sidecar: Sidecar, format_name: str) -> None:
    """Chat servers do this; Messages refuses equal ids in one turn, so there it is a fault on arrival, left alone and told."""
    run = history(format_name).user("go")
    for index in range(4):
        run.call(*[("read_file", {"n": n}) for n in range(3)], ids=["same"] * 3).results(
            *[words(2_000, (index, n)) for n in range(3)]
        )
    run.user("ok").steps(4, 100)
    agent = Agent(sidecar, format_name, tight(20_000, 9_000, keep_unit_count=2))
    agent.fit(run.body())
    is_chat = format_name == "openai-chat"
    assert (agent.count > 0) == is_chat
    assert ("INVALID_HISTORY" in notes(agent.response)) != is_chat
