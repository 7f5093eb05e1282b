"""Failure kinds of content: 7 prompt cache, 8 media and base64, 9 sizes, 18 oversized output, 20 encoding and key order."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.helpers.bodies import FORMATS, TYPED, History, history, words
from tests.helpers.client import Agent, Sidecar, tight
from tests.helpers.view import read_view
from trimtab.v1 import common_pb2, context_pb2

each_format = pytest.mark.parametrize("format_name", FORMATS)
each_typed = pytest.mark.parametrize("format_name", TYPED)
MEDIA = context_pb2.REDUCTION_KIND_MEDIA


@each_format
def test_kind07_few_breaks_of_the_prefix(sidecar: Sidecar, format_name: str) -> None:
    limits = common_pb2.Limits(soft_bytes=100_000)
    agent = Agent(sidecar, format_name, limits)
    run = history(format_name).user("go")
    breaks, before = 0, b""
    for index in range(72):
        sent = agent.fit(run.step(words(2_900, index)).body(), oracle=index % 12 == 0)
        breaks += not sent.startswith(before)
        before = sent[: read_view(format_name, sent).items[-1].end]
    assert 1 <= breaks <= 3
    assert agent.response.outcome == context_pb2.FIT_OUTCOME_FITTED


@each_typed
def test_kind07_changed_tools_touch_no_item(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, tight(30_000, 15_000))
    run = history(format_name).user("go").steps(20, 3_000)
    tool = run.value()["tools"][0]
    first = json.loads(agent.fit(run.body()))["messages"]
    for count in (2, 5, 0, 3):
        sent = agent.fit(run.body(tools=[tool] * count, temperature=count / 10))
        assert json.loads(sent)["messages"] == first
        assert agent.response.match.new_item_count == 0
        assert not agent.response.match.HasField("diverged_at")


@each_typed
def test_kind07_markers_stay_where_they_are(sidecar: Sidecar, format_name: str) -> None:
    run = history(format_name).user("go").steps(12, 2_500).user("then").steps(12, 2_500)
    marker = {"type": "ephemeral", "ttl": "1h"}
    for at in (2, 8, 14):
        item = run.items[at]
        if isinstance(item["content"], str):
            item["content"] = [{"type": "text", "text": item["content"]}]
        item["content"][-1]["cache_control"] = marker
    agent = Agent(sidecar, format_name, tight(24_000, 9_000, keep_unit_count=2))
    sent = agent.fit(run.body())
    assert {2, 8, 14} <= {reduction.item_index for reduction in agent.response.reductions}
    assert sent.count(b'"cache_control"') == 3
    assert [at for at, item in enumerate(json.loads(sent)["messages"]) if "cache_control" in json.dumps(item)] == [2, 8, 14]


@each_typed
@pytest.mark.parametrize("size_bytes", [150, 600])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_kind07_marker_on_a_block_inside_a_result_stays(sidecar: Sidecar, format_name: str, at: int, size_bytes: int) -> None:
    """A result of several blocks may be replaced as a whole; the marker on one of them is the client's and stays in that item."""
    blocks: list[dict[str, Any]] = [{"type": "text", "text": words(size_bytes, n)} for n in range(3)]
    blocks[at]["cache_control"] = {"type": "ephemeral"}
    run = history(format_name).user("go").step(blocks).steps(4, 900)  # type: ignore[arg-type]
    agent = Agent(sidecar, format_name, tight(4_000, 2_000, keep_unit_count=1))
    sent = agent.fit(run.body())
    assert 2 in {reduction.item_index for reduction in agent.response.reductions}
    assert "cache_control" in json.dumps(json.loads(sent)["messages"][2])


def png(size_bytes: int, seed: int) -> bytes:
    """Bytes that begin as a PNG does."""
    return b"\x89PNG\r\n\x1a\n" + bytes((seed + index * 7) % 256 for index in range(1024)) * (size_bytes // 1024)


def shown(format_name: str, item: dict[str, Any], data: bytes) -> None:
    """Make a picture, with a word beside it, of the last result in an item."""
    text = base64.b64encode(data).decode()
    if format_name == "gemini":
        blob = {"inlineData": {"mimeType": "image/png", "data": text}}
        item["parts"][-1]["functionResponse"].update({"response": {"output": "a shot"}, "parts": [blob]})
    elif format_name == "bedrock-converse":
        picture = {"image": {"format": "png", "source": {"bytes": text}}}
        item["content"][-1]["toolResult"]["content"] = [{"text": "a shot"}, picture]
    elif format_name == "openai-responses":
        picture = {"type": "input_image", "image_url": "data:image/png;base64," + text, "detail": "auto"}
        item["output"] = [{"type": "input_text", "text": "a shot"}, picture]
    else:
        result = item if format_name == "openai-chat" else item["content"][-1]
        result["content"] = [{"type": "text", "text": "a shot"}, image(format_name, data)]


def image(format_name: str, data: bytes) -> dict[str, Any]:
    """An image block."""
    text = base64.b64encode(data).decode()
    if format_name == "openai-chat":
        return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{text}", "detail": "low"}}
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": text}}


@each_format
def test_kind08_first_screenshot_is_never_taken(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name)
    body = history(format_name).user_image("what is this?", png(1_200_000, 1)).body()
    assert agent.fit(body) == body
    assert agent.response.outcome == context_pb2.FIT_OUTCOME_OVER
    assert agent.response.before.media_bytes > 1_500_000
    assert agent.response.blockers[0].item_index == 0


@each_format
def test_kind08_old_pictures_leave_and_come_back(sidecar: Sidecar, format_name: str) -> None:
    run = history(format_name)
    pictures = [png(50_000, seed) for seed in range(4)]
    for index, data in enumerate(pictures):
        run.user_image(f"picture {index}", data).steps(3, 500)
    agent = Agent(sidecar, format_name, tight(120_000, 60_000))
    agent.fit(run.body())
    out = [reduction for reduction in agent.response.reductions if reduction.kind == MEDIA]
    assert [sidecar.read(agent.session_id, reduction.artifact_id) for reduction in out] == pictures[: len(out)]
    assert 2 <= len(out) <= 3
    artifacts = {artifact.artifact_id: artifact for artifact in agent.response.artifacts}
    assert {artifacts[reduction.artifact_id].media_type for reduction in out} == {"image/png"}
    assert {artifacts[reduction.artifact_id].line_count for reduction in out} == {0}


@each_format
def test_kind08_pictures_in_results_leave(sidecar: Sidecar, format_name: str) -> None:
    run = history(format_name).user("look")
    pictures = [png(40_000, seed) for seed in range(8)]
    for data in pictures:
        run.step("")
        shown(format_name, run.items[-1], data)
    agent = Agent(sidecar, format_name, tight(200_000, 120_000, keep_unit_count=2))
    sent = agent.fit(run.body())
    assert len(sent) <= 200_000
    assert agent.count >= 3
    assert base64.b64encode(pictures[-1]) in sent


@each_format
def test_kind08_base64_in_text_is_dense(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, common_pb2.Limits(preset=common_pb2.PRESET_WINDOW, window_tokens=1_000_000))
    run_bytes = base64.b64encode(png(400_000, 3)).decode()
    agent.fit(history(format_name).user("go").step("data:image/png;base64," + run_bytes).body(), read_back=4)
    assert agent.response.before.token_basis == common_pb2.TOKEN_BASIS_ESTIMATED
    assert agent.response.before.tokens >= len(run_bytes)


@each_typed
def test_kind09_everything_is_measured(sidecar: Sidecar, format_name: str) -> None:
    run = history(format_name).user("hi").call(("write", {"text": words(40_000)})).results("ok")
    tools = [{**run.value()["tools"][0], "description": words(1_000, n)} for n in range(60)]
    agent = Agent(sidecar, format_name, tight(30_000, 20_000))
    agent.fit(run.body(tools=tools))
    assert agent.response.before.tools_bytes > 60_000
    assert agent.response.before.call_bytes > 40_000
    assert agent.response.outcome == context_pb2.FIT_OUTCOME_OVER
    assert (agent.response.blockers[0].reason, agent.response.blockers[0].item_index) == ("TOOLS", -1)


@each_format
@pytest.mark.parametrize(
    ("text", "tokens_per_letter"),
    [("漢字仮名交じり文です。", 1.0), ("한국어 문장입니다. ", 1.0), ("наш текст ", 0.6), ("🙂🚀✨", 1.0)],
    ids=["cjk", "hangul", "cyrillic", "emoji"],
)
def test_kind09_scripts_are_not_underestimated(sidecar: Sidecar, format_name: str, text: str, tokens_per_letter: float) -> None:
    agent = Agent(sidecar, format_name, common_pb2.Limits(window_tokens=1_000_000))
    agent.fit(history(format_name).user(text * 300).body())
    assert agent.response.before.tokens >= len(text) * 300 * tokens_per_letter


@each_format
def test_kind09_reported_usage_is_used(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name, common_pb2.Limits(preset=common_pb2.PRESET_WINDOW, window_tokens=200_000))
    run = history(format_name).user("hi").steps(10, 2_000)
    agent.fit(run.body())
    usage = common_pb2.Usage(input_tokens=7_777, cached_input_tokens=7_000)
    agent.fit(run.steps(1, 300).body(), previous_usage=usage)
    assert agent.response.before.token_basis == common_pb2.TOKEN_BASIS_CALIBRATED
    assert 7_777 < agent.response.before.tokens < 9_000


@each_format
@pytest.mark.parametrize("line", [None, 80], ids=["one-line", "many-lines"])
def test_kind18_newest_result_of_seventeen_megabytes(sidecar: Sidecar, format_name: str, line: int | None) -> None:
    text = "x" * 17_000_000 if line is None else ("y" * (line - 1) + "\n") * (17_000_000 // line)
    agent = Agent(sidecar, format_name)
    sent = agent.fit(history(format_name).user("go").steps(2, 500).step(text).body())
    assert len(sent) < 10_000
    assert agent.count == 1


@each_format
def test_kind18_one_big_result_does_not_take_the_small_ones_along(sidecar: Sidecar, format_name: str) -> None:
    agent = Agent(sidecar, format_name)
    sent = agent.fit(history(format_name).user("go").steps(10, 5_000).step(words(2_000_000)).body())
    assert [reduction.item_index for reduction in agent.response.reductions] == [22]
    assert len(sent) > 50_000


@each_typed
def test_kind18_every_copy_in_a_result_counts(sidecar: Sidecar, format_name: str) -> None:
    text = words(45_000)
    run = history(format_name).user("go").step([{"type": "text", "text": text}, {"type": "text", "text": "{}" + text}])  # type: ignore[arg-type]
    holder: dict[str, Any] = run.items[2] if format_name == "openai-chat" else run.items[2]["content"][0]
    holder["structured_content"] = {"rows": [text, {"again": text}], "ok": True}
    agent = Agent(sidecar, format_name)
    sent = agent.fit(run.body())
    assert len(sent) < 20_000
    assert b'"ok":true' in sent


def mixed(format_name: str, text: str) -> History:
    """A run in which that text fills a result."""
    return history(format_name).user("go").step(text).steps(6, 2_000)


@each_format
@pytest.mark.parametrize("size_bytes", [1_500, 2_047, 2_048, 2_049, 40_001])
@pytest.mark.parametrize("letter", ["🙂", "漢", "é", "\U0010ffff", "e\u0301", "\u200d"], ids=ascii)
def test_kind20_cuts_fall_between_characters(sidecar: Sidecar, format_name: str, letter: str, size_bytes: int) -> None:
    text = "a" * (size_bytes % 4) + letter * (size_bytes // len(letter.encode()))
    agent = Agent(sidecar, format_name, tight(6_000, 3_000, keep_unit_count=1))
    for body in (mixed(format_name, text).body(), json.dumps(mixed(format_name, text).value()).encode()):
        other = Agent(sidecar, format_name, agent.limits)
        sent = other.fit(body)
        sent.decode("utf-8")
        json.dumps(json.loads(sent), ensure_ascii=False).encode("utf-8")
        assert 2 in {reduction.item_index for reduction in other.response.reductions}


@each_format
def test_kind20_key_order_and_numbers_of_what_stays(sidecar: Sidecar, format_name: str) -> None:
    run = (
        history(format_name)
        .user("go")
        .steps(6, 2_000)
        .step("ok", "act", {"z": 1.0, "a": 1e2, "m": 2512292042121000001, "k": -0.0})
    )
    agent = Agent(sidecar, format_name, tight(6_000, 3_000, keep_unit_count=1))
    agent.fit(run.body())
    call = read_view(format_name, agent.sent).calls[-1]
    assert call.arguments is not None
    raw = call.arguments.raw(agent.sent).replace(b"\\", b"").replace(b" ", b"")
    assert b'{"z":1.0,"a":100.0,"m":2512292042121000001,"k":-0.0}' in raw


@each_format
@pytest.mark.parametrize("arguments", ["[]", '"x"', "", "null", "{not json", "1e999"])
def test_kind20_arguments_that_are_no_object_travel(sidecar: Sidecar, format_name: str, arguments: str) -> None:
    run = history(format_name).user("go")
    value: Any = arguments if format_name == "openai-chat" else [arguments]
    run.step(words(2_000), "act", value).steps(6, 2_000)
    agent = Agent(sidecar, format_name, tight(6_000, 3_000, keep_unit_count=1))
    agent.fit(run.body())
    assert agent.count > 2
    assert context_pb2.REDUCTION_KIND_ARGUMENTS not in {r.kind for r in agent.response.reductions if r.item_index == 1}
