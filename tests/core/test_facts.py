"""Facts of covered calls: what was asked, how it ended, what can be read back; nothing of reasoning."""

from __future__ import annotations

import json

import pytest

from sidecar.core.facts import RESULT_TEXT_BYTES, TEXT_BYTES
from sidecar.core.stubs import StubFacts, stub_text
from sidecar.core.types import EffectState, Path, ReductionKind
from tests.helpers.bodies import FORMATS, TYPED, ChatHistory, MessagesHistory, history, words
from tests.summarize.build import FIRST_NUMBER, facts_of, settled

ID = "0123456789abcdef0123456789abcdef"
OTHER_ID = "f" * 32
FORMAT = pytest.mark.parametrize("format_name", FORMATS)
TYPED_FORMAT = pytest.mark.parametrize("format_name", TYPED)


def payload_path(format_name: str, block: int = 0) -> Path:
    """Where the payload of a result stands in its item."""
    return (b"content",) if format_name == "openai-chat" else (b"content", block, b"content")


@TYPED_FORMAT
def test_collect_facts_of_a_call_tells_name_arguments_result_and_places(format_name: str) -> None:
    facts = facts_of(history(format_name).user("go").step("all fine", "bash", {"command": "ls -l"}))
    (fact,) = facts.calls
    assert (fact.item_index, fact.call.number, fact.call.call_index) == (1, FIRST_NUMBER + 1, 0)
    assert (fact.tool_name, json.loads(fact.arguments)) == ("bash", {"command": "ls -l"})
    assert (fact.result_text, fact.result_tail, fact.result_bytes, fact.is_error) == ("all fine", "", 8, False)
    assert (fact.state, fact.artifact_ids, fact.argument_ids) == (EffectState.UNSPECIFIED, (), ())


def test_collect_facts_of_an_error_says_so() -> None:
    facts = facts_of(MessagesHistory().user("go").call(("bash", {})).results("boom", error=True))
    assert [fact.is_error for fact in facts.calls] == [True]


@TYPED_FORMAT
def test_collect_facts_of_a_parallel_batch_tells_each_call_with_its_own_result(format_name: str) -> None:
    run = history(format_name).user("go").call(("a", {"n": 1}), ("b", {"n": 2})).results("one", "two")
    facts = facts_of(run, receipts=[settled(1, 1, detail="ref 7")])
    assert [(fact.tool_name, fact.result_text, fact.call.call_index) for fact in facts.calls] == [
        ("a", "one", 0),
        ("b", "two", 1),
    ]
    assert [(fact.state, fact.detail) for fact in facts.calls] == [(EffectState.UNSPECIFIED, ""), (EffectState.SETTLED, "ref 7")]


@TYPED_FORMAT
def test_collect_facts_has_nothing_of_reasoning(format_name: str) -> None:
    run = (
        history(format_name).user("go").call(("bash", {"command": "ls"}), text="I look", thinking="SECRET thought").results("ok")
    )
    facts = facts_of(run)
    assert "SECRET" not in repr(facts)
    assert [(text.item_index, text.text) for text in facts.texts] == [(1, "I look")]


@TYPED_FORMAT
def test_collect_facts_of_a_long_result_keeps_head_and_tail_cut_on_characters(format_name: str) -> None:
    text = "\U0001f600" * 101 + words(3000) + "é" * 300
    (fact,) = facts_of(history(format_name).user("go").step(text)).calls
    assert fact.result_text == "\U0001f600" * (RESULT_TEXT_BYTES // 4)
    assert fact.result_tail == "é" * (RESULT_TEXT_BYTES // 2)
    assert fact.result_bytes == len(text.encode())
    odd = "x" + "é" * 1000
    (fact,) = facts_of(history(format_name).user("go").step(odd)).calls
    assert (len(fact.result_text.encode()), len(fact.result_tail.encode())) == (RESULT_TEXT_BYTES - 1, RESULT_TEXT_BYTES)
    assert "\ufffd" not in fact.result_text + fact.result_tail


@FORMAT
def test_collect_facts_of_a_result_a_little_over_the_limit_repeats_nothing(format_name: str) -> None:
    text = "".join(f"{at:04}" for at in range(RESULT_TEXT_BYTES // 4 + 10))
    (fact,) = facts_of(history(format_name).user("go").step(text)).calls
    assert fact.result_text + fact.result_tail == text


@FORMAT
def test_collect_facts_of_odd_strings_does_not_fail(format_name: str) -> None:
    run = history(format_name).user("go").step("PLACE", "bash", {"command": "PLACE"})
    body = run.body()
    for odd in (b"\\ud800", b"\\u0000", b"\xff", b"\\n\\u2028"):
        run.body = lambda body=body, odd=odd, **_: body.replace(b"PLACE", odd)  # type: ignore[method-assign]
        (fact,) = facts_of(run).calls
        fact.result_text.encode()


def test_collect_facts_of_blocks_joins_texts_and_names_what_is_no_text() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    text = [{"type": "text", "text": "one"}, image, {"type": "text", "text": "two"}, {"type": "resource", "uri": "x"}]
    (fact,) = facts_of(MessagesHistory().user("go").step(text)).calls  # type: ignore[arg-type]
    assert fact.result_text == "one\n[image]\ntwo\n[resource]"
    data = {"url": "data:image/png;base64,AAAA"}
    content = [{"type": "text", "text": "one"}, {"type": "image_url", "image_url": data}]
    (fact,) = facts_of(ChatHistory().user("go").step(content)).calls  # type: ignore[arg-type]
    assert fact.result_text == "one\n[image]"


def test_collect_facts_of_a_providers_encrypted_result_names_it_only() -> None:
    found = {"type": "web_search_result", "encrypted_content": "CIPHER", "url": "u", "title": "t"}
    run = MessagesHistory().user("go").answer("x")
    run.items[-1]["content"] = [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [found]},
        {"type": "text", "text": "found it"},
    ]
    facts = facts_of(run)
    assert "CIPHER" not in repr(facts)
    assert [(fact.tool_name, fact.result_text) for fact in facts.calls] == [("web_search", "[web_search_tool_result]")]
    assert [text.text for text in facts.texts] == ["found it"]


@TYPED_FORMAT
def test_collect_facts_gives_each_call_the_artifacts_that_left_its_own_result(format_name: str) -> None:
    run = history(format_name).user("go").call(("a", {}), ("b", {})).results("one", "two")
    at_b = (3, 0) if format_name == "openai-chat" else (2, 1)
    facts = facts_of(
        run, artifacts={at_b[0]: [(payload_path(format_name, at_b[1]), ID), (payload_path(format_name, at_b[1]), ID)]}
    )
    assert [fact.artifact_ids for fact in facts.calls] == [(), (ID,)]


def test_collect_facts_of_ids_deep_in_a_result_finds_them() -> None:
    run = MessagesHistory().user("go").step([{"type": "text", "text": "one"}])  # type: ignore[arg-type]
    facts = facts_of(run, artifacts={2: [((b"content", 0, b"content", 0, b"text"), ID), ((b"content", 1, b"text"), OTHER_ID)]})
    assert [fact.artifact_ids for fact in facts.calls] == [(ID,)]


@TYPED_FORMAT
def test_collect_facts_of_arguments_that_left_names_them_apart(format_name: str) -> None:
    path: Path = (b"tool_calls", 0, b"function", b"arguments") if format_name == "openai-chat" else (b"content", 0, b"input")
    raw = {"path": "a.py", "content": words(900)}
    (fact,) = facts_of(history(format_name).user("go").step("ok", "write", raw), artifacts={1: [(path, ID)]}).calls
    assert (fact.artifact_ids, fact.argument_ids) == ((), (ID,))
    assert json.loads(fact.arguments) == raw
    stub = stub_text(StubFacts(ReductionKind.ARGUMENTS, "", "", False, "", 900, 1, ID, "trimtab_read"))
    adopted = history(format_name).user("go").step("ok", "write", {"trimtab": stub})
    (fact,) = facts_of(adopted, artifacts={1: [(path, ID)]}).calls
    assert (fact.arguments, fact.argument_ids) == (b"", (ID,))
    (fact,) = facts_of(adopted).calls
    assert json.loads(fact.arguments) == {"trimtab": stub}


@TYPED_FORMAT
@pytest.mark.parametrize("with_preview", [False, True])
def test_collect_facts_of_an_adopted_stub_tells_size_and_preview_of_what_left(format_name: str, with_preview: bool) -> None:
    content = words(50_000).encode()
    told = StubFacts(ReductionKind.RESULT, "bash", "x returned 3 bytes", False, "text/plain", len(content), 9, ID, "trimtab_read")
    stub = stub_text(told, content, with_preview=with_preview)
    at = 2
    run = history(format_name).user("go").step(stub, "bash", {"command": "ls"})
    (fact,) = facts_of(run, artifacts={at: [(payload_path(format_name), ID)]}).calls
    assert fact.artifact_ids == (ID,)
    assert fact.result_bytes == len(content)
    assert "trimtab" not in fact.result_text
    assert fact.result_text == (content[:RESULT_TEXT_BYTES].decode() if with_preview else "")
    # Quoted elsewhere it is text.
    (fact,) = facts_of(run).calls
    assert fact.result_text == stub[:RESULT_TEXT_BYTES]
    # So it is where something else left that place.
    (fact,) = facts_of(run, artifacts={at: [(payload_path(format_name), OTHER_ID)]}).calls
    assert (fact.artifact_ids, fact.result_text) == ((OTHER_ID,), stub[:RESULT_TEXT_BYTES])


@FORMAT
def test_collect_facts_of_a_range_leaves_out_the_rest_but_for_what_comes_later(format_name: str) -> None:
    run = history(format_name).user("go").step("1", "a").step("2", "b").step("3", "c").answer("done")
    facts = facts_of(run, keep=2)
    assert [fact.tool_name for fact in facts.calls] == ["a", "b"]
    assert [fact.tool_name for fact in facts.later] == ["c"]
    assert facts.texts == ()
    assert facts.numbers == tuple(FIRST_NUMBER + at for at in range(len(run.items)))


def test_collect_facts_of_a_long_text_keeps_its_beginning() -> None:
    (text,) = facts_of(ChatHistory().user("go").answer("é" * TEXT_BYTES)).texts
    assert text.text == "é" * (TEXT_BYTES // 2)
