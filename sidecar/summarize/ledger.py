"""The ledger: a deterministic summary of a range, made from records alone, no model.

Five sections, always there. Of what would stand in them, all possible lines are made, each with a rank that says how useful it
is; the most useful that fit are taken, and each section tells how many it left out. What is worth most: work that is open, how
often which tool was called, artifacts that a decision rests on, receipts, the newest errors and calls; then artifacts (the
largest and the latest) and the files that were touched last.

A call stands in one place only: the last ones under what was in progress, errors and receipts under what was accomplished, others
with provenance where there is something to read back. It is never said that something succeeded, unless a receipt says so.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import partial
from typing import Final, NamedTuple

from sidecar.core.facts import CallFact, RangeFacts
from sidecar.core.foreign import one_line
from sidecar.core.readback import READ_BACK_TOOL_NAME
from sidecar.core.summary import WORK_WORDS
from sidecar.core.types import EffectState, Source, WorkState
from sidecar.summarize.calls import asked, looks_failed, outcome, tool
from sidecar.summarize.touched import Touched, find_touched, touches

__all__ = ["NAME", "write_ledger"]

NAME: Final = "ledger/1"

ASKED_BYTES: Final = 120
HEAD_BYTES: Final = 120
LAST_HEAD_BYTES: Final = 240
PATH_BYTES: Final = 120
ID_BYTES: Final = 64
LAST_CALL_COUNT: Final = 3
NEWEST_ERROR_COUNT: Final = 3
TOOL_COUNT: Final = 8
WORK_LINE_BYTES: Final = 320
LEAST_BYTES: Final = 12  # no line is shorter

_OPEN_STATES: Final = (EffectState.PENDING, EffectState.WAITING, EffectState.UNKNOWN, EffectState.NOT_STARTED)


class _Section(IntEnum):
    ACCOMPLISHED = 0
    IN_PROGRESS = 1
    TOUCHED = 2
    NEXT = 3
    PROVENANCE = 4


_TITLES: Final = ("Accomplished", "In progress", "Artifacts touched", "Next steps", "Provenance")


class _Line(NamedTuple):
    """A line that could stand in the ledger."""

    section: _Section
    rank: float  # the smaller, the more useful
    order: float  # within its section
    text: Callable[[], str]  # made only when it may fit: of thousands of calls most never are


def write_ledger(facts: RangeFacts, limit_bytes: int, *, read_tool: str = "") -> str:
    """The ledger of a range. Deterministic. O(bytes of arguments, and calls).

    Args:
        facts: of the range.
        limit_bytes: of the text, in UTF-8; under 600, the sections' frame alone may take more.
        read_tool: name of the tool that reads artifacts; "": the agent has its own way.
    """
    lines = _Writer(facts).lines()
    how = f"{read_tool} artifact_id=..." if read_tool else "the read-back tool, by artifact id"
    intros = {
        _Section.ACCOMPLISHED: "(returned: an answer came, which proves nothing)",
        _Section.PROVENANCE: f"(what was moved out of this conversation; read it with {one_line(how, 96)[1:-1]})",
    }
    counts = Counter(line.section for line in lines)
    total = sum(len(f"### {title}\n- none\n") for title in _TITLES)
    total += sum(len(intro.encode()) + 1 for section, intro in intros.items() if counts[section])
    total += sum(len(f"- {counts[section]} omitted\n") for section in _Section if counts[section])
    taken: dict[int, str] = {}
    for index in sorted(range(len(lines)), key=lambda index: (lines[index].rank, lines[index].section, lines[index].order)):
        if limit_bytes - total < LEAST_BYTES:
            break
        text = lines[index].text()
        size_bytes = len(text.encode()) + 1
        if total + size_bytes <= limit_bytes:
            total += size_bytes
            taken[index] = text
    return "\n".join(_rendered(section, lines, taken, intros.get(section, "")) for section in _Section)


def _rendered(section: _Section, lines: Sequence[_Line], taken: dict[int, str], intro: str) -> str:
    own = [index for index, line in enumerate(lines) if line.section is section]
    shown = sorted((index for index in own if index in taken), key=lambda index: lines[index].order)
    texts = [f"### {_TITLES[section]}"]
    if shown and intro:
        texts.append(intro)
    texts += [taken[index] for index in shown]
    if len(shown) < len(own):
        texts.append(f"- {len(own) - len(shown)} omitted")
    elif not own:
        texts.append("- none")
    return "\n".join(texts)


class _Writer:
    """Makes all lines that could stand in a ledger."""

    def __init__(self, facts: RangeFacts) -> None:
        self._facts = facts
        # Read-backs repeat what has its own line; they are counted, and that is all.
        self._calls = [fact for fact in facts.calls if fact.tool_name != READ_BACK_TOOL_NAME]
        self._touched = {touched.path: touched for touched in find_touched(facts.calls, facts.later)}
        self._anchored = _anchored(facts)

    def lines(self) -> list[_Line]:
        """All lines, those of one section in order of their use."""
        last = self._calls[-LAST_CALL_COUNT:]
        rest = self._calls[: len(self._calls) - len(last)]
        anchored = [fact for fact in rest if self._rests_on(fact)]
        rest = [fact for fact in rest if not self._rests_on(fact)]
        with_receipts = [fact for fact in rest if fact.state is not EffectState.UNSPECIFIED]
        rest = [fact for fact in rest if fact.state is EffectState.UNSPECIFIED]
        errors = [fact for fact in rest if _is_error_line(fact)]
        rest = [fact for fact in rest if not _is_error_line(fact)]
        held = [fact for fact in rest if _has_left(fact)]
        plain = [fact for fact in rest if not _has_left(fact)]
        return [
            *self._tools(),
            *self._last(last),
            *self._anchored_lines(anchored),
            *self._receipts(with_receipts),
            *self._errors(errors),
            *self._held(held),
            *self._plain(plain),
            *self._paths(),
            *self._next(),
        ]

    def _rests_on(self, fact: CallFact) -> bool:
        place = (fact.call.number, fact.call.call_index)
        return (
            place in self._anchored
            or (fact.call.number, -1) in self._anchored
            or any((id, -1) in self._anchored for id in fact.artifact_ids)
        )

    def _tools(self) -> list[_Line]:
        """Calls by tool with their outcomes, the most called first."""
        outcomes: dict[str, Counter[str]] = {}
        for fact in self._facts.calls:
            outcomes.setdefault(tool(fact), Counter()).update(_counted(fact))
        lines = []
        for at, (name, counts) in enumerate(sorted(outcomes.items(), key=lambda entry: (-entry[1]["calls"], entry[0]))):
            ends = ", ".join(f"{counts[word]} {word}" for word in _COUNTED[1:] if counts[word])
            text = f"- {name}: {counts['calls']} call{'' if counts['calls'] == 1 else 's'}: {ends}"
            lines.append(
                _Line(_Section.ACCOMPLISHED, 1 + at / 1000 if at < TOOL_COUNT else 6 + at / 1000, at - 1e9, partial(str, text))
            )
        return lines

    def _told(self, section: _Section, rank: float, fact: CallFact, text_bytes: int, head: str = "", end: str = "") -> _Line:
        """The line of a call."""
        words = partial(self._words, fact, text_bytes, head, end)
        return _Line(section, rank, fact.item_index + fact.call.call_index / 1e6, words)

    def _words(self, fact: CallFact, text_bytes: int, head: str, end: str) -> str:
        return f"- {head}{_call(fact, text_bytes)}{self._superseded(fact)}{end}"

    def _last(self, calls: Sequence[CallFact]) -> list[_Line]:
        """How the range ended."""
        lines = [
            self._told(_Section.IN_PROGRESS, 3.1 + at / 1000, fact, LAST_HEAD_BYTES, "last call: ")
            for at, fact in enumerate(reversed(calls))
        ]
        if self._facts.texts:
            text = self._facts.texts[-1]
            said = f"- last text of the assistant, item {text.item_index}: {one_line(text.text, 2 * LAST_HEAD_BYTES)}"
            lines.append(_Line(_Section.IN_PROGRESS, 3.15, math.inf, partial(str, said)))
        return lines

    def _anchored_lines(self, calls: Sequence[CallFact]) -> list[_Line]:
        """Calls that a constraint, a decision or work names as its source."""
        return [
            self._told(_place(fact), 2 + at / 1000, fact, HEAD_BYTES, end="; an anchor rests on it")
            for at, fact in enumerate(reversed(calls))
        ]

    def _receipts(self, calls: Sequence[CallFact]) -> list[_Line]:
        return [
            self._told(_place(fact), 3 if at < 2 * NEWEST_ERROR_COUNT else 4 + at / 2, fact, 0)
            for at, fact in enumerate(reversed(calls))
        ]

    def _errors(self, calls: Sequence[CallFact]) -> list[_Line]:
        return [
            self._told(_Section.ACCOMPLISHED, 3.2 if at < NEWEST_ERROR_COUNT else 4 + at, fact, HEAD_BYTES)
            for at, fact in enumerate(reversed(calls))
        ]

    def _held(self, calls: Sequence[CallFact]) -> list[_Line]:
        """What can be read back: the largest and the latest in turn; what a later write superseded last."""
        stale = {id(fact) for fact in calls if self._superseded(fact)}
        latest = sorted(calls, key=lambda fact: (id(fact) in stale, -fact.item_index, fact.call.call_index))
        largest = sorted(latest, key=lambda fact: (id(fact) in stale, -fact.result_bytes))
        seen: dict[int, CallFact] = {}
        for pair in zip(largest, latest, strict=True):
            seen.update((id(fact), fact) for fact in pair if id(fact) not in seen)
        lines = [self._told(_Section.PROVENANCE, 4 + at / 3, fact, 0) for at, fact in enumerate(seen.values())]
        return [line._replace(order=at) for at, line in enumerate(lines)]

    def _plain(self, calls: Sequence[CallFact]) -> list[_Line]:
        """Calls that nothing else tells of, each question once, the newest first."""
        newest: dict[tuple[str, str], tuple[CallFact, int]] = {}
        for fact in calls:
            key = (fact.tool_name, asked(fact, ASKED_BYTES))
            newest[key] = (fact, newest.pop(key, (fact, 0))[1] + 1)
        return [
            self._told(
                _Section.ACCOMPLISHED, 4 + at * 2, fact, HEAD_BYTES // 2, end=f" (asked {count} times)" if count > 1 else ""
            )
            for at, (fact, count) in enumerate(reversed(newest.values()))
        ]

    def _paths(self) -> list[_Line]:
        return [
            _Line(_Section.TOUCHED, 4 + at / 2, -at, partial(_path_words, path))
            for at, path in enumerate(reversed(self._touched.values()))
        ]

    def _superseded(self, fact: CallFact) -> str:
        """Says of a call that read what was written later by which item."""
        by = -1
        for path, how in touches(fact):
            touched = self._touched.get(path)
            if how == "read" and touched is not None:
                by = max(by, touched.last_write, touched.superseded_by)
        return f" (superseded by item {by})" if by > fact.item_index else ""

    def _next(self) -> list[_Line]:
        """What is open, by id: the texts stand above the ledger."""
        anchors = self._facts.anchors
        lines = []
        for at, state in enumerate((WorkState.IN_PROGRESS, WorkState.BLOCKED, WorkState.OPEN)):
            ids = [entry.id for entry in anchors.work if entry.state is state]
            if ids:
                lines.append(_Line(_Section.NEXT, at / 100, at, partial(str, f"- work {WORK_WORDS[state]}: {_ids(ids)}")))
        binding = [entry.id for entry in anchors.constraints if not entry.revoked]
        if binding:
            lines.append(_Line(_Section.NEXT, 0.03, 3, partial(str, f"- binding constraints: {_ids(binding)}")))
        missing = [request for request in self._facts.requests if request.answered_by < 0 and not request.done_by]
        if missing:
            newest = ", ".join(str(request.item_index) for request in missing[-8:])
            more = f" and {len(missing) - 8} older" if len(missing) > 8 else ""
            lines.append(_Line(_Section.NEXT, 0.04, 4, partial(str, f"- open requests: items {newest}{more}")))
        return lines


_COUNTED: Final = ("calls", "returned", "reported an error", "confirmed by receipt", "failed by receipt", "still open by receipt")


def _counted(fact: CallFact) -> list[str]:
    words = ["calls", "reported an error" if fact.is_error else "returned"]
    if fact.state is EffectState.SETTLED:
        words.append("confirmed by receipt")
    elif fact.state is EffectState.FAILED:
        words.append("failed by receipt")
    elif fact.state in _OPEN_STATES:
        words.append("still open by receipt")
    return words


def _place(fact: CallFact) -> _Section:
    """Where a call stands that no section has a better claim to."""
    if fact.state in _OPEN_STATES:
        return _Section.IN_PROGRESS
    told = fact.state is not EffectState.UNSPECIFIED or fact.is_error
    return _Section.ACCOMPLISHED if told or not _has_left(fact) else _Section.PROVENANCE


def _is_error_line(fact: CallFact) -> bool:
    """Whether a call is told among the errors: one that was reported, or reads like one and no stub showed it."""
    return fact.is_error or (looks_failed(fact) and (fact.in_view or not fact.artifact_ids))


def _has_left(fact: CallFact) -> bool:
    """Something of it stood as a stub before this summary. What leaves with the summary itself is told with its beginning."""
    return not fact.in_view and bool(fact.artifact_ids or fact.argument_ids)


def _call(fact: CallFact, text_bytes: int) -> str:
    """A call with all that is told of it."""
    what = asked(fact, ASKED_BYTES)
    words = f"item {fact.item_index} {tool(fact)}" + (f" asked {what}" if what else "") + f": {outcome(fact, text_bytes)}"
    if fact.artifact_ids:
        words += f", artifact {' '.join(fact.artifact_ids[:4])}"
    if len(fact.artifact_ids) > 4:
        words += f" and {len(fact.artifact_ids) - 4} more"
    if fact.argument_ids:
        words += f", arguments in artifact {' '.join(fact.argument_ids[:2])}"
    return words


def _path_words(path: Touched) -> str:
    words = []
    if path.read_count:
        stale = f", superseded by item {path.superseded_by}" if path.superseded_by >= 0 else ""
        words.append(f"{_times(path.read_count, 'read')}, last by item {path.last_read}{stale}")
    if path.write_count:
        last = f", last by item {path.last_write}" if path.last_write >= 0 else ""
        failed = f", item {path.last_failed} ended in an error" if path.last_failed >= 0 else ""
        words.append(f"{_times(path.write_count, 'write')} asked{last}{failed}")
    if path.named_count:
        words.append(f"named in {_times(path.named_count, 'call')}, last touched by item {path.last_index}")
    return f"- {one_line(path.path, PATH_BYTES)}: {'; '.join(words)}"


def _times(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _ids(ids: Sequence[str]) -> str:
    """Ids, quoted, as many as fit a line."""
    shown: list[str] = []
    size_bytes = 0
    for id in ids:
        quoted = one_line(id, ID_BYTES)
        size_bytes += len(quoted.encode()) + 2
        if size_bytes > WORK_LINE_BYTES:
            break
        shown.append(quoted)
    more = len(ids) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _anchored(facts: RangeFacts) -> set[tuple[int | str, int]]:
    """What anchors in force rest on: calls as (number, call_index), whole items as (number, -1), artifacts as (id, -1)."""
    anchors = facts.anchors
    sources: list[Source] = [entry.source for entry in anchors.constraints if entry.source is not None and not entry.revoked]
    sources += [source for entry in anchors.decisions if not entry.revoked for source in entry.sources]
    sources += [source for entry in anchors.work if entry.state is not WorkState.DROPPED for source in entry.evidence]
    found: set[tuple[int | str, int]] = set()
    for source in sources:
        if source.call is not None:
            found.add((source.call.number, source.call.call_index))
        elif source.number is not None:
            found.add((source.number, -1))
        elif source.artifact_id:
            found.add((source.artifact_id, -1))
    return found
