"""What is taken as notes, and what is not."""

from __future__ import annotations

import pytest

from sidecar.core.facts import RangeFacts
from sidecar.core.replies import ModelReply, Stop
from sidecar.core.types import Anchors
from sidecar.summarize.prompt import SECTIONS, build_prompt
from sidecar.summarize.verdict import Rejection, judge_reply
from tests.helpers.bodies import words
from tests.summarize.build import some_call

CALLS = tuple(some_call(2 * at + 1, result_text=words(300, at)) for at in range(40))
PROMPT = build_prompt(RangeFacts(CALLS, (), (), Anchors()), "", 4000, 40_000)
GIVEN = f"{PROMPT.system}\n{PROMPT.user}"
GOOD = "\n".join(f"{section}\n- something about step {at}" for at, section in enumerate(SECTIONS))


def judged(text: str, stop: Stop = Stop.END, *, has_calls: bool = False, limit: int = 4000, given: str = GIVEN) -> str:
    found = judge_reply(ModelReply(text, stop, has_calls), limit, given)
    return f"rejected: {found.reason}" if isinstance(found, Rejection) else found


@pytest.mark.parametrize("stop", [Stop.END, Stop.UNKNOWN])
def test_judge_reply_of_complete_notes_gives_them_as_they_are(stop: Stop) -> None:
    assert judged(GOOD, stop) == GOOD
    assert judged(f"\n\n {GOOD}\n ", stop) == GOOD


@pytest.mark.parametrize(
    ("text", "stop", "has_calls", "reason"),
    [
        ("", Stop.END, False, "the reply is empty"),
        (" \n\t", Stop.UNKNOWN, False, "the reply is empty"),
        ("", Stop.LENGTH, False, "the reply was cut off"),
        (GOOD, Stop.LENGTH, False, "the reply was cut off"),
        (GOOD, Stop.CALL, False, "the reply calls a tool"),
        (GOOD, Stop.END, True, "the reply calls a tool"),
        ("", Stop.CALL, True, "the reply calls a tool"),
        (GOOD, Stop.REFUSED, False, "the model refused, or its reply was filtered"),
        ("SECRET I did many things.", Stop.END, False, "the reply lacks the section '## Accomplished'"),
        (GOOD.replace("## Next steps", "Then"), Stop.UNKNOWN, False, "the reply lacks the section '## Next steps'"),
        (GOOD.replace("## Next steps", "x ## Next steps"), Stop.END, False, "the reply lacks the section '## Next steps'"),
    ],
)
def test_judge_reply_of_what_will_not_do_gives_the_reason_and_no_content(
    text: str, stop: Stop, has_calls: bool, reason: str
) -> None:
    assert judged(text, stop, has_calls=has_calls) == f"rejected: {reason}"


@pytest.mark.parametrize("heading", ["### Accomplished", "## **Accomplished**", "# accomplished:", "## ACCOMPLISHED"])
def test_judge_reply_of_headings_in_other_spellings_takes_them(heading: str) -> None:
    text = GOOD.replace("## Accomplished", heading)
    assert judged(text) == text


def test_judge_reply_of_too_much_is_rejected_by_its_size_in_the_summary() -> None:
    lines = len(GOOD.splitlines())
    fits = len(GOOD.encode()) + 2 * lines
    assert judged(GOOD, limit=fits) == GOOD
    assert judged(GOOD, limit=fits - 1) == f"rejected: the reply takes {fits} bytes; {fits - 1} is the limit"
    # Bytes, not characters.
    wide = GOOD + "\n" + "é" * 100
    assert judged(wide, limit=len(wide) + 2 * (lines + 1)).startswith("rejected: the reply takes")


@pytest.mark.parametrize("given", [GIVEN, GIVEN * 3])
def test_judge_reply_of_an_echo_is_rejected(given: str) -> None:
    """Kind 10: a model that sends back one and a half times what it got, headings and all."""
    half = GIVEN[: len(GIVEN) // 2]
    for text in (GIVEN, GIVEN + half, f"{GOOD}\n{PROMPT.user}", f"{GOOD}\n{GIVEN[100:3000]}", GIVEN.replace("\n", "\n\n  ")):
        assert judged(text if SECTIONS[3] in text else f"{GOOD}\n{text}", limit=10**6, given=given) == (
            "rejected: the reply repeats what it was given"
        )


def test_judge_reply_of_notes_that_quote_what_matters_is_no_echo() -> None:
    quotes = "\n".join(f"- {line[:120]}" for line in PROMPT.user.splitlines()[6:26])
    text = f"{GOOD}\n{quotes}"
    assert judged(text, limit=10**5) == text
    assert judged(GOOD, given="") == GOOD
    assert judged(GOOD, given="short") == GOOD


def test_judge_reply_of_a_long_reply_that_is_mostly_new_is_no_echo() -> None:
    text = f"{GOOD}\n{words(9000, 'new')}\n{PROMPT.user[:2000].strip()}"
    assert judged(text, limit=10**5) == text
