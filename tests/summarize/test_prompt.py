"""The request for notes: narrow, measured, fenced."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.facts import RangeFacts, RequestFact, TextFact
from sidecar.core.types import Anchors, Constraint, Decision, EffectState, WorkItem, WorkState
from sidecar.summarize.prompt import PROMPT_VERSION, SECTIONS, build_prompt
from tests.helpers.bodies import FORMATS, history, words
from tests.summarize.build import any_facts, facts_of, some_call

NOTES_BYTES = 4000
ID = "0123456789abcdef0123456789abcdef"


def size_of(facts: RangeFacts, limit: int, focus: str = "") -> int:
    prompt = build_prompt(facts, focus, NOTES_BYTES, limit)
    return len(prompt.system.encode()) + len(prompt.user.encode())


def test_build_prompt_asks_for_the_sections_within_the_limit_without_tools_or_claims() -> None:
    prompt = build_prompt(RangeFacts((), (), (), Anchors()), "", NOTES_BYTES, 10_000)
    assert all(f"\n{section}\n" in prompt.system for section in SECTIONS)
    assert f"{NOTES_BYTES} bytes" in prompt.system
    for rule in ("Call no tools", "Never say that something succeeded", "is data", "confirmed by receipt"):
        assert rule in prompt.system
    assert prompt.version == PROMPT_VERSION == "notes/1"
    assert prompt.user == (
        "<<<material\nGoal and rules:\n- none\nRequests of the user:\n- none\nCalls, oldest first:\n- none\nmaterial>>>"
    )


def test_build_prompt_tells_calls_ends_artifacts_anchors_and_requests() -> None:
    anchors = Anchors(
        "ship",
        constraints=(Constraint("K1", "no billing"), Constraint("K2", "gone", revoked=True)),
        decisions=(Decision("D1", "Redis"),),
        work=(WorkItem("W1", "queue", WorkState.BLOCKED), WorkItem("W2", "kafka", WorkState.DROPPED)),
    )
    calls = (
        some_call(1, artifact_ids=(ID,), state=EffectState.SETTLED),
        some_call(3, is_error=True, result_text="no such file"),
    )
    requests = (RequestFact(0, "go", 5, "", False), RequestFact(6, "more", -1, "", True))
    lines = build_prompt(RangeFacts(calls, (), requests, anchors), "the queue", NOTES_BYTES, 10_000).user.splitlines()
    assert lines == [
        "<<<material",
        "Goal and rules:",
        '- goal: "ship"',
        '- constraint "K1": "no billing"',
        '- decision "D1": "Redis"',
        '- work "W1", blocked: "queue"',
        "Requests of the user:",
        '- item 0, answered by item 5: "go"',
        '- item 6, open: "more"',
        "Calls, oldest first:",
        f'- item 1 "bash" asked "make test": confirmed by receipt; returned 2 bytes "ok", artifact {ID}',
        '- item 3 "bash" asked "make test": reported an error: "no such file"',
        "material>>>",
        'The caller asks to keep in sight: "the queue"',
    ]


@pytest.mark.parametrize("format_name", FORMATS)
def test_build_prompt_never_holds_reasoning_or_an_earlier_summary(format_name: str) -> None:
    """Kinds 13 and 14: canaries in reasoning and in a summary item; bytes outside of results do not swell it."""
    run = history(format_name).user("[trimtab checkpoint c1, revision 2] CANARY-SUMMARY").answer("so").user("go")
    run.call(("bash", {"command": "ls"}), text=words(200_000), thinking="CANARY-THOUGHT " + words(200_000)).results("ok")
    facts = facts_of(run, summaries=[0])
    prompt = build_prompt(facts, "", NOTES_BYTES, 10**6)
    assert "CANARY" not in prompt.user + prompt.system
    assert len(prompt.user) < 2000


def test_build_prompt_of_too_much_is_narrowed_and_says_how_much_is_left_out() -> None:
    """Kind 14: thousands of items, most bytes not in results."""
    calls = tuple(
        some_call(2 * at + 1, arguments=b'{"command":"' + b"x" * 5000 + b'"}', result_text="y" * 400) for at in range(5000)
    )
    requests = tuple(RequestFact(2 * at, "z" * 1000, 2 * at + 1, "", False) for at in range(300))
    facts = RangeFacts(calls, tuple(TextFact(1, "t" * 1000) for _ in range(300)), requests, Anchors())
    prompt = build_prompt(facts, "", NOTES_BYTES, 30_000)
    lines = prompt.user.splitlines()
    assert 27_000 < size_of(facts, 30_000) <= 30_000
    omitted = [int(line.split()[1]) for line in lines if line.endswith(" omitted")]
    assert sum(omitted) + sum(line.startswith("- item") for line in lines) == 5300
    assert "- item 9999 " in prompt.user and "- item 1 " not in prompt.user


def test_build_prompt_of_too_much_keeps_errors_longer_than_other_calls() -> None:
    calls = tuple(some_call(at, is_error=at == 400, result_text="disk quota" if at == 400 else "x" * 300) for at in range(1000))
    assert '"disk quota"' not in build_prompt(RangeFacts(calls, (), (), Anchors()), "", NOTES_BYTES, 4_000).user
    user = build_prompt(RangeFacts(calls, (), (), Anchors()), "", NOTES_BYTES, 45_000).user
    assert "- item 400 " in user and "- item 401 " not in user


@given(any_facts(), st.text(), st.integers(2600, 20_000))
def test_build_prompt_of_any_facts_stays_within_its_limit_and_its_fence(facts: RangeFacts, focus: str, limit: int) -> None:
    prompt = build_prompt(facts, focus, NOTES_BYTES, limit)
    assert len(prompt.system.encode()) + len(prompt.user.encode()) <= limit
    assert build_prompt(facts, focus, NOTES_BYTES, limit) == prompt
    lines = re.split("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]", prompt.user)
    assert [at for at, line in enumerate(lines) if line == "<<<material"] == [0]
    end = lines.index("material>>>")
    assert end >= len(lines) - 2
    titles = [line for line in lines[1:end] if not line.startswith("- ")]
    assert titles == ["Goal and rules:", "Requests of the user:", "Calls, oldest first:"]
