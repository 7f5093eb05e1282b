"""The oracle itself: it passes an honest answer and catches each kind of dishonest one. No sidecar runs here."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.helpers.bodies import FORMATS, history, words
from tests.helpers.oracle import Oracle
from tests.helpers.sizes import components
from tests.helpers.view import View, read_view
from trimtab.v1 import context_pb2

RESULT = context_pb2.REDUCTION_KIND_RESULT
ARGUMENTS = context_pb2.REDUCTION_KIND_ARGUMENTS
REASONING = context_pb2.REDUCTION_KIND_REASONING


@dataclass
class HandMade:
    """An answer put together by hand: edits are (item, kind, start, end, new bytes, content)."""

    format_name: str
    body: bytes
    artifacts: dict[str, bytes] = field(default_factory=dict)
    edits: list[tuple[int, int, bytes]] = field(default_factory=list)
    response: context_pb2.FitResponse = field(default_factory=context_pb2.FitResponse)

    @property
    def view(self) -> View:
        return read_view(self.format_name, self.body)

    def cut(self, kind: int, item: int, start: int, end: int, content: bytes, stub: str) -> None:
        name = hashlib.sha256(content).hexdigest()[:32]
        self.artifacts[name] = content
        new = stub.replace("ID", name).encode()
        self.edits.append((start, end, new))
        self.response.reductions.add(kind=kind, item_index=item, artifact_id=name, saved_bytes=end - start - len(new))

    def cut_result(self, index: int, stub: str = '"[out: ID]"') -> None:
        result = self.view.results[index]
        assert result.content is not None and result.call is not None
        node = max((each for each in result.content.walk() if each.kind == "string"), key=lambda each: each.end - each.start)
        self.cut(RESULT, result.item, node.start, node.end, node.string(self.body) or b"", stub)
        self.response.reductions[-1].call.call_id = result.call_id.decode()

    def cut_arguments(self, index: int) -> None:
        call = self.view.calls[index]
        assert call.arguments is not None
        node = call.arguments
        is_chat = node.kind == "string"
        content = (node.string(self.body) or b"") if is_chat else node.raw(self.body)
        self.cut(ARGUMENTS, call.item, node.start, node.end, content, '"{\\"out\\":\\"ID\\"}"' if is_chat else '{"out":"ID"}')
        self.response.reductions[-1].call.call_id = call.call_id.decode()

    def answer(self) -> bytes:
        out, at = b"", 0
        for start, end, new in sorted(self.edits):
            out += self.body[at:start] + new
            at = end
        return out + self.body[at:]

    def judge(self, tamper: Callable[[bytes], bytes] = lambda body: body, **options: Any) -> list[str]:
        answer = tamper(self.answer())
        response = self.response
        response.body = answer if answer != self.body else b""
        for pressure, text in ((response.before, self.body), (response.after, answer)):
            for name, value in components(read_view(self.format_name, text)).items():
                setattr(pressure, name, value)
        response.item_count = len(self.view.items)
        del response.totals[:]
        for kind in sorted({reduction.kind for reduction in response.reductions}):
            saved = [reduction.saved_bytes for reduction in response.reductions if reduction.kind == kind]
            response.totals.add(kind=kind, count=len(saved), saved_bytes=sum(saved))
        return Oracle(self.format_name, self.body, answer, response, self.artifacts.__getitem__, **options).problems()


def hand_made(format_name: str) -> HandMade:
    run = history(format_name).user("please look").steps(3, 900).user("and now?")
    run.call(("write_file", {"path": "a", "text": words(700)}), thinking="hm " * 30).results("written " * 40).answer("done").user(
        "thanks"
    )
    return HandMade(format_name, run.body())


@pytest.mark.parametrize("format_name", FORMATS)
def test_oracle_honest_answer_passes(format_name: str) -> None:
    made = hand_made(format_name)
    made.cut_result(0)
    made.cut_result(2)
    made.cut_arguments(3)
    assert made.judge() == []


@pytest.mark.parametrize("format_name", FORMATS)
def test_oracle_unchanged_body_passes(format_name: str) -> None:
    assert hand_made(format_name).judge() == []


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (b"please look", b"please lurk", "not verbatim"),
        (b'"model', b'" model', "nothing may change"),
        (b"call_000002", b"call_000009", "paired otherwise"),
        (b'"write_file"', b'"writ_file"', "renamed"),
        (b"src/file_1.py", b"src/file_2.py", "no reduction names it"),
        (b"written written", b"written  ritten", "no reduction names it"),
    ],
)
def test_oracle_tampered_answer_is_caught(format_name: str, old: bytes, new: bytes, expected: str) -> None:
    made = hand_made(format_name)
    made.cut_result(0)
    found = made.judge(lambda body: body.replace(old, new, 1))
    assert any(expected in problem for problem in found), found


@pytest.mark.parametrize("format_name", FORMATS)
def test_oracle_artifact_not_equal_is_caught(format_name: str) -> None:
    made = hand_made(format_name)
    made.cut_result(1)
    name = next(iter(made.artifacts))
    made.artifacts[name] += b"x"
    assert any("no edit of that item holds its artifact" in problem for problem in made.judge())


@pytest.mark.parametrize("format_name", FORMATS)
def test_oracle_stub_without_artifact_id_is_caught(format_name: str) -> None:
    made = hand_made(format_name)
    made.cut_result(1, stub='"[gone]"')
    assert any("no edit of that item holds its artifact" in problem for problem in made.judge())


@pytest.mark.parametrize("format_name", FORMATS)
def test_oracle_wrong_figures_are_caught(format_name: str) -> None:
    made = hand_made(format_name)
    made.cut_result(1)
    made.response.reductions[0].saved_bytes += 1
    found = made.judge()
    assert any("the body became" in problem for problem in found)
    assert any("said" in problem for problem in found)


@pytest.mark.parametrize("format_name", FORMATS)
def test_oracle_dangling_unit_touched_is_caught(format_name: str) -> None:
    run = history(format_name).user("go").call(("a", {}), ("b", {})).results(words(900))
    made = HandMade(format_name, run.body())
    made.cut_result(0)
    assert any("unsettled" in problem for problem in made.judge())


@pytest.mark.parametrize("format_name", FORMATS)
def test_oracle_pinned_call_touched_is_caught(format_name: str) -> None:
    made = hand_made(format_name)
    made.cut_result(0)
    call = made.view.calls[0]
    assert any("pinned" in problem for problem in made.judge(kept=[(call.item, call.index)]))


def test_oracle_half_a_turns_reasoning_gone_is_caught() -> None:
    run = history("anthropic-messages").user("go").call(("a", {}), thinking="one " * 50).results("ok").answer("x").user("bye")
    run.items[1]["content"].insert(1, {"type": "thinking", "thinking": "two " * 50, "signature": "c2ln"})
    made = HandMade("anthropic-messages", run.body())
    first = made.view.reasoning[0][1]
    made.cut(REASONING, 1, first.start, first.end + 1, first.raw(made.body), "")
    assert any("reasoning parts are gone" in problem for problem in made.judge())


def test_oracle_whole_turns_reasoning_gone_passes() -> None:
    run = history("anthropic-messages").user("go").call(("a", {}), thinking="one " * 50).results("ok").answer("x").user("bye")
    made = HandMade("anthropic-messages", run.body())
    first = made.view.reasoning[0][1]
    made.cut(REASONING, 1, first.start, first.end + 1, first.raw(made.body), "")
    assert made.judge() == []


def test_oracle_current_reasoning_gone_is_caught() -> None:
    run = history("anthropic-messages").user("go").call(("a", {}), thinking="one " * 50).results("ok")
    made = HandMade("anthropic-messages", run.body())
    first = made.view.reasoning[0][1]
    made.cut(REASONING, 1, first.start, first.end + 1, first.raw(made.body), "")
    assert any("current turn" in problem for problem in made.judge())


def test_oracle_multiplied_marker_is_caught() -> None:
    run = history("anthropic-messages").user("go").steps(2, 900)
    made = HandMade("anthropic-messages", run.body())
    made.cut_result(0)
    found = made.judge(lambda body: body.replace(b'"go"', b'"go","cache_control":{"type":"ephemeral"}', 1))
    assert any("multiplied" in problem for problem in found)


def test_oracle_newest_user_image_replaced_is_caught() -> None:
    run = history("anthropic-messages").user_image("see", b"\x89PNG" + b"\x00" * 900).answer("seen").user("ok")
    made = HandMade("anthropic-messages", run.body())
    media = made.view.media[0].node
    made.cut(
        context_pb2.REDUCTION_KIND_MEDIA, 0, media.start, media.end, b"\x89PNG" + b"\x00" * 900, '{"type":"text","text":"ID"}'
    )
    assert any("newest user media" in problem for problem in made.judge())


def test_oracle_split_pair_is_caught() -> None:
    run = history("openai-chat").user("go").steps(2, 900)
    made = HandMade("openai-chat", run.body())
    text = run.body()
    start = text.index(b'{"role":"tool"')
    end = text.index(b',{"role":"assistant"', start)
    made.edits.append((start, end + 1, b""))
    found = made.judge()
    assert any("paired otherwise" in problem or "structural" in problem for problem in found)
