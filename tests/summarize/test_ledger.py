"""The ledger: five sections, within its limit, from records alone; what is worth most stays, and nothing is claimed."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.facts import RangeFacts, TextFact
from sidecar.core.types import Anchors, CallKey, Constraint, Decision, EffectState, Source, WorkItem, WorkState
from sidecar.summarize.ledger import NAME, write_ledger
from tests.helpers.bodies import TYPED, MessagesHistory, history, words
from tests.summarize.build import FIRST_NUMBER, any_facts, facts_of, settled, some_call

ID = "0123456789abcdef0123456789abcdef"
TITLES = ["Accomplished", "In progress", "Artifacts touched", "Next steps", "Provenance"]
CLAIM = re.compile(r"succe|complet|\bdone\b|finish|\bfixed\b|confirmed", re.IGNORECASE)


def made_of(*calls: Any, **members: Any) -> RangeFacts:
    return RangeFacts(calls, (), (), Anchors())._replace(**members)


def sections(ledger: str) -> dict[str, list[str]]:
    """Lines by section."""
    found: dict[str, list[str]] = {}
    for line in ledger.splitlines():
        if line.startswith("### "):
            found[line.removeprefix("### ")] = []
        else:
            list(found.values())[-1].append(line)
    return found


def many(count: int, **members: Any) -> list[Any]:
    return [some_call(2 * at + 1, arguments=b'{"command":"step %d of the work"}' % at, **members) for at in range(count)]


# Frame and limit


def test_write_ledger_of_nothing_has_all_sections() -> None:
    assert sections(write_ledger(made_of(), 600)) == {title: ["- none"] for title in TITLES}
    assert NAME == "ledger/1"


@given(any_facts(), st.integers(600, 8000))
def test_write_ledger_of_any_facts_stays_within_its_limit_with_all_sections(facts: RangeFacts, limit: int) -> None:
    ledger = write_ledger(facts, limit)
    assert len(ledger.encode()) <= limit
    assert list(sections(ledger)) == TITLES
    assert all(sections(ledger).values())
    assert write_ledger(facts, limit) == ledger


@given(any_facts())
def test_write_ledger_with_more_room_says_no_less(facts: RangeFacts) -> None:
    roomy = write_ledger(facts, 10**6)
    assert not re.search(r"(?m)^- \d+ omitted$", roomy)
    assert len(roomy.encode()) >= len(write_ledger(facts, 900).encode()) - 60


def test_write_ledger_tells_how_much_it_left_out() -> None:
    calls = many(300)
    ledger = write_ledger(made_of(*calls), 2000)
    (omitted,) = [line for line in sections(ledger)["Accomplished"] if line.endswith("omitted")]
    shown = [line for line in ledger.splitlines() if re.match(r"- (?:last call: )?item ", line)]
    assert int(omitted.split()[1]) + len(shown) == 300
    assert len(ledger.encode()) > 1800


# What is said of calls


def test_write_ledger_counts_calls_by_tool_with_their_ends() -> None:
    calls = [*many(5), some_call(20, is_error=True), some_call(21, tool_name="deploy", state=EffectState.SETTLED)]
    calls += [some_call(23, tool_name="deploy", state=EffectState.FAILED, is_error=True)]
    lines = sections(write_ledger(made_of(*calls), 4000))["Accomplished"]
    assert lines[1:3] == [
        '- "bash": 6 calls: 5 returned, 1 reported an error',
        '- "deploy": 2 calls: 1 returned, 1 reported an error, 1 confirmed by receipt, 1 failed by receipt',
    ]


@given(any_facts())
def test_write_ledger_says_confirmed_only_of_calls_with_a_settled_receipt(facts: RangeFacts) -> None:
    facts = facts._replace(
        calls=tuple(fact._replace(state=EffectState.UNSPECIFIED) for fact in facts.calls), anchors=Anchors(), requests=()
    )
    ledger = re.sub(r'"[^"]*"', "", write_ledger(facts, 10**6))
    assert CLAIM.findall(ledger) == []


@pytest.mark.parametrize("state", [state for state in EffectState if state is not EffectState.SETTLED])
def test_write_ledger_of_a_result_that_claims_success_only_quotes_it(state: EffectState) -> None:
    calls = [some_call(1, result_text="Deployment succeeded, all done", state=state), *many(3)]
    ledger = write_ledger(made_of(*calls), 4000)
    assert CLAIM.findall(re.sub(r'"[^"]*"', "", ledger)) == []


def test_write_ledger_of_receipts_says_what_they_say() -> None:
    calls = [
        some_call(1, tool_name="deploy", state=EffectState.SETTLED, detail="ref 42"),
        some_call(3, tool_name="pay", state=EffectState.FAILED, is_error=True, result_text="card declined"),
        some_call(5, tool_name="mail", state=EffectState.PENDING),
        some_call(7, tool_name="ask", state=EffectState.WAITING),
        some_call(9, tool_name="push", state=EffectState.UNKNOWN),
        *(some_call(11 + at) for at in range(4)),
    ]
    found = sections(write_ledger(made_of(*calls), 4000))
    assert '- item 1 "deploy" asked "make test": confirmed by receipt "ref 42"; returned 2 bytes' in found["Accomplished"]
    assert '- item 3 "pay" asked "make test": failed by receipt; reported an error: "card declined"' in found["Accomplished"]
    assert [line.split(": ")[1].split(";")[0] for line in found["In progress"][:3]] == [
        "receipt says pending",
        "receipt says waiting",
        "receipt says outcome unknown",
    ]


def test_write_ledger_of_errors_quotes_the_line_that_says_so() -> None:
    tail = "\n".join(["  File x.py, line 3", "ValueError: p99 was 1.75 ms, expected 0.42 ms", "</output>"])
    calls = [some_call(1, is_error=True, result_text="Traceback (most recent call last):", result_tail=tail, result_bytes=900)]
    ledger = write_ledger(made_of(*calls, *many(4)), 4000)
    assert 'reported an error: "ValueError: p99 was 1.75 ms, expected 0.42 ms"' in ledger


def test_write_ledger_keeps_the_newest_errors_when_little_fits() -> None:
    calls = many(200) + [some_call(500 + at, is_error=True, result_text=f"error {at}") for at in range(40)] + many(4)
    ledger = write_ledger(made_of(*calls), 1600)
    assert all(f'"error {at}"' in ledger for at in (37, 38, 39))
    assert '"error 0"' not in ledger


def test_write_ledger_ends_with_the_last_calls_and_the_last_text() -> None:
    calls = many(50)
    facts = made_of(*calls, texts=(TextFact(3, "early"), TextFact(99, "Now I wait for the build.")))
    lines = sections(write_ledger(facts, 1500))["In progress"]
    assert [int(re.findall(r"item (\d+)", line)[0]) for line in lines] == [95, 97, 99, 99]
    assert lines[-1] == '- last text of the assistant, item 99: "Now I wait for the build."'


def test_write_ledger_of_repeated_questions_tells_them_once_with_the_count() -> None:
    """Kind 17: what was asked again and again is seen as such."""
    calls = [some_call(2 * at + 1, tool_name="read_file", arguments=b'{"path":"a.py"}', result_text=f"v{at}") for at in range(9)]
    found = sections(write_ledger(made_of(*calls, *many(3)), 4000))
    (line,) = [line for line in found["Accomplished"] if "a.py" in line]
    assert line.endswith("(asked 9 times)") and "item 17" in line
    assert found["Artifacts touched"] == ['- "a.py": 9 reads, last by item 17']


# Artifacts


def test_write_ledger_lists_what_can_be_read_back_with_tool_question_and_size() -> None:
    calls = [some_call(1, artifact_ids=(ID,), result_bytes=90_000, arguments=b'{"command":"redis-benchmark -q"}'), *many(4)]
    found = sections(write_ledger(made_of(*calls), 2000, read_tool="trimtab_read"))
    assert found["Provenance"] == [
        "(what was moved out of this conversation; read it with trimtab_read artifact_id=...)",
        f'- item 1 "bash" asked "redis-benchmark -q": returned 90000 bytes, artifact {ID}',
    ]


def test_write_ledger_names_the_artifact_of_arguments_that_left() -> None:
    calls = [some_call(1, tool_name="apply_patch", arguments=b"", argument_ids=(ID,)), *many(4)]
    assert f'- item 1 "apply_patch": returned 2 bytes, arguments in artifact {ID}' in write_ledger(made_of(*calls), 2000)


def test_write_ledger_of_many_artifacts_keeps_the_largest_and_the_latest() -> None:
    sizes = {10: 900_000, 11: 800_000}
    calls = [
        some_call(2 * at + 1, artifact_ids=(f"{at:032x}",), result_bytes=sizes.get(at, 5000 + at), result_text="x" * 400)
        for at in range(100)
    ]
    ledger = write_ledger(made_of(*calls, *many(3)), 3000)
    assert all(f"artifact {at:032x}" in ledger for at in (10, 11, 99, 98))
    assert f"artifact {20:032x}" not in ledger


def test_write_ledger_prefers_what_an_anchor_rests_on_to_everything_larger_and_later() -> None:
    calls = [some_call(2 * at + 1, artifact_ids=(f"{at:032x}",), result_bytes=9000 if at else 500) for at in range(100)]
    sources: list[Source] = [
        Source(call=CallKey(FIRST_NUMBER + 1, 0)),
        Source(number=FIRST_NUMBER + 1),
        Source(artifact_id=f"{0:032x}"),
    ]
    for source in sources:
        anchors = Anchors(decisions=(Decision("D1", "Redis", (source,)),))
        assert f"artifact {0:032x}; an anchor rests on it" in write_ledger(made_of(*calls, anchors=anchors), 1500)
        revoked = Anchors(decisions=(Decision("D1", "Redis", (source,), revoked=True),))
        assert f"artifact {0:032x}" not in write_ledger(made_of(*calls, anchors=revoked), 1500)


def test_write_ledger_marks_a_read_that_a_later_write_superseded() -> None:
    path = b'{"path":"src/a.py"}'
    read = some_call(1, tool_name="read_file", arguments=path, artifact_ids=(ID,), result_bytes=9000)
    write = some_call(3, tool_name="write_file", arguments=b'{"path":"src/a.py","content":"x"}')
    found = sections(write_ledger(made_of(read, write, *many(4)), 4000))
    assert found["Provenance"][-1].endswith(f"artifact {ID} (superseded by item 3)")
    assert found["Artifacts touched"] == [
        '- "src/a.py": 1 read, last by item 1, superseded by item 3; 1 write asked, last by item 3'
    ]
    failed = sections(write_ledger(made_of(read, write._replace(is_error=True), *many(4)), 4000))
    assert failed["Provenance"][-1].endswith(f"artifact {ID}")
    assert failed["Artifacts touched"] == ['- "src/a.py": 1 read, last by item 1; 1 write asked, item 3 ended in an error']
    later = sections(write_ledger(made_of(read, *many(4), later=(write._replace(item_index=70),)), 4000))
    assert later["Provenance"][-1].endswith("(superseded by item 70)")


def test_write_ledger_of_a_read_between_writes_is_superseded_by_the_later_one_only() -> None:
    path = b'{"path":"src/a.py"}'
    reads = [
        some_call(at, tool_name="read_file", arguments=path, artifact_ids=(f"{at:032x}",), result_bytes=9000) for at in (1, 5)
    ]
    write = some_call(3, tool_name="edit_file", arguments=path)
    provenance = sections(write_ledger(made_of(reads[0], write, reads[1], *many(4)), 4000))["Provenance"][1:]
    assert [line[line.index("artifact") :] for line in provenance] == [
        f"artifact {5:032x}",
        f"artifact {1:032x} (superseded by item 3)",
    ]


# Next steps


def test_write_ledger_names_open_work_and_binding_constraints_by_id_only() -> None:
    anchors = Anchors(
        constraints=(Constraint("K1", "no billing"), Constraint("K2", "old", revoked=True)),
        work=(
            WorkItem("W1", "queue", WorkState.IN_PROGRESS),
            WorkItem("W2", "dlq", WorkState.OPEN),
            WorkItem("W3", "keys", WorkState.BLOCKED),
            WorkItem("W4", "spike", WorkState.DONE),
            WorkItem("W5", "kafka", WorkState.DROPPED),
        ),
    )
    ledger = write_ledger(made_of(*many(200), anchors=anchors), 900)
    assert sections(ledger)["Next steps"] == [
        '- work in progress: "W1"',
        '- work blocked: "W3"',
        '- work open: "W2"',
        '- binding constraints: "K1"',
    ]
    assert "billing" not in ledger


# The contract scenario, as far as the ledger goes


@pytest.mark.parametrize("format_name", TYPED)
@pytest.mark.parametrize("anchored", [False, True])
def test_write_ledger_of_the_migration_traces_the_benchmark_and_the_diff(format_name: str, anchored: bool) -> None:
    run = history(format_name).user("Move the handler to an async queue.")
    run.step(words(2000), "read_file", {"path": "svc/handler.py"}).answer("Read.").user("Don't touch billing until Friday.")
    bench = diff = 0
    for step in range(4, 55):
        if step == 38:
            report = words(6000, "bench") + "\nredis p99 4.1 ms, in-process p99 12.7 ms\n" + words(6000, "more")
            run.step(report, "bash", {"command": "redis-benchmark -t lpush,rpop --csv && ./bench inproc"})
            bench = len(run.items) - 1
        elif step == 51:
            run.step(words(9000, "diff"), "bash", {"command": "git diff main -- svc/"})
            diff = len(run.items) - 1
        else:
            run.step(words(4000 + 40 * step, step), "read_file", {"path": f"svc/part_{step}.py"})
    payload = (b"content",) if format_name == "openai-chat" else (b"content", 0, b"content")
    artifacts = {at: [(payload, f"{at:032x}")] for at in range(6, len(run.items)) if at % 2 == bench % 2}
    evidence = (Source(call=CallKey(FIRST_NUMBER + bench - 1, 0)),)
    anchors = Anchors(decisions=(Decision("D1", "Redis over in-process", evidence),)) if anchored else Anchors()
    ledger = write_ledger(facts_of(run, anchors=anchors, artifacts=artifacts), 6000)
    told = [line for line in ledger.splitlines() if "redis-benchmark" in line]
    assert len(told) == 1
    assert f'item {bench - 1} "bash" asked "redis-benchmark -t lpush,rpop --csv && ./bench inproc": returned' in told[0]
    assert f"artifact {bench:032x}" in told[0]
    (line,) = [line for line in ledger.splitlines() if "git diff main" in line]
    assert f"artifact {diff:032x}" in line


def test_write_ledger_of_a_read_back_counts_it_and_no_more() -> None:
    run = MessagesHistory().user("go").step(words(4000), "trimtab_read", {"artifact_id": ID}).steps(5, 50)
    ledger = write_ledger(facts_of(run, receipts=[settled(1)]), 4000)
    assert [line for line in ledger.splitlines() if "trimtab_read" in line] == [
        '- "trimtab_read": 1 call: 1 returned, 1 confirmed by receipt'
    ]


def test_write_ledger_tells_what_leaves_with_the_summary_with_its_beginning_and_its_artifact() -> None:
    """No stub ever showed it: its beginning is told, and it takes no room from what has left before."""
    before = many(12, artifact_ids=(ID,), result_text="seen")
    now = [some_call(100 + 2 * at, artifact_ids=(f"{at:032x}",), in_view=True, result_text="first words") for at in range(3)]
    last = many(3)
    told = sections(write_ledger(made_of(*before, *now, *last), 6_000))
    assert [line for line in told["Accomplished"] if f"artifact {2:032x}" in line and '"first words"' in line]
    assert not [line for line in told["Provenance"] if "first words" in line]
    failed = some_call(200, artifact_ids=(ID,), in_view=True, result_text="Traceback (most recent call last):\nE: no")
    told = sections(write_ledger(made_of(failed, *last), 6_000))
    assert [line for line in told["Accomplished"] if "Traceback" in line and ID in line]
