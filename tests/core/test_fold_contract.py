"""For each thing that the contract of a fold says, a finished body or a fold that breaks it, and is told."""

from __future__ import annotations

from typing import Any

import pytest

from fastpath import Edit, scan, splice
from sidecar.core.contract import Placed, check_finished
from sidecar.core.errors import InternalError
from sidecar.core.fold_contract import broken_fold
from sidecar.core.types import ReductionKind
from sidecar.formats.base import Adapter, Violation
from tests.core.build import CHAT, MESSAGES
from tests.core.folding import SUMMARY, Folded, ask, asked, dump, folded, record

WORD = "a word of a person was changed, lost or moved"
SAID = "a user or system item has something that nobody said"
JOINT = "a call or result that stays lost its id, its name or its place"
SIGNED = "a signed part that stays was changed"


def made(adapter: Adapter) -> Folded:
    """A fold in which everything that is checked occurs."""
    kept = asked(adapter, "k")
    if adapter is MESSAGES:
        kept[0]["content"].insert(0, {"type": "thinking", "thinking": "hm", "signature": "c2ln"})
    else:
        kept[0]["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": "c2ln"}}
    items = [ask("one"), *asked(adapter, "a"), ask("two"), ask("string", as_string=True), *kept, ask("three")]
    if adapter is CHAT:
        items.insert(0, {"role": "system", "content": "rules"})
    first = next(at for at, item in enumerate(items) if item["role"] == "assistant")
    gone = range(first, first + len(asked(adapter, "a")))
    return folded(adapter, items, record(gone, gone[-1]))


def told(found: Folded, old: bytes, new: bytes, edits: tuple[Edit, ...] = ()) -> str:
    """What the contract says of a finished body with something replaced."""
    assert old in found.after.body
    changed = found.after.body.replace(old, new, 1)
    return broken_fold(found.before, scan(changed, found.fold.adapter.grammar), found.fold, edits)


BOTH = pytest.mark.parametrize("adapter", [CHAT, MESSAGES], ids=["chat", "messages"])


@BOTH
def test_broken_fold_sound_body_nothing(adapter: Adapter) -> None:
    found = made(adapter)
    assert broken_fold(found.before, found.after, found.fold, []) == ""


@BOTH
@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (b'"two"', b'"tow"', WORD),
        (b'"string"', b'"strinG"', WORD),
        (b'"one"', b'"two"', WORD),
        (b'"text":"three"', b'"text":""', WORD),
        (b'"k"', b'"K"', JOINT),
        (b'"name":"ls"', b'"name":"rm"', JOINT),
        (b"c2ln", b"c2lN", SIGNED),
        (dump(SUMMARY), dump(SUMMARY + "."), WORD),
    ],
)
def test_broken_fold_mutated_body_told(adapter: Adapter, old: bytes, new: bytes, what: str) -> None:
    assert told(made(adapter), old, new) in (what, SAID)


@BOTH
def test_broken_fold_word_lost_or_added_told(adapter: Adapter) -> None:
    found = made(adapter)
    three = b"," + dump(ask("three"))
    assert told(found, three, b"") == WORD
    assert told(found, three, three + three) == SAID
    summary = b"," + dump(ask(SUMMARY)) if adapter is CHAT else b"," + dump({"type": "text", "text": SUMMARY})
    body = found.after.body
    spelled = b',{"role":"user","content":' + dump(SUMMARY) + b"}" if summary not in body else summary
    assert told(found, spelled, spelled + spelled) in (WORD, SAID)


@BOTH
def test_broken_fold_moved_word_told(adapter: Adapter) -> None:
    found = made(adapter)
    body = found.after.body
    at, other = body.index(b'"two"'), body.index(b'"three"')
    moved = splice(body, [Edit(at, at + 5, b'"three"'), Edit(other, other + 7, b'"two"')])
    assert broken_fold(found.before, scan(moved, adapter.grammar), found.fold, []) == WORD


@BOTH
def test_broken_fold_result_lost_or_moved_told(adapter: Adapter) -> None:
    found = made(adapter)
    result = dump(asked(adapter, "k")[-1])
    assert told(found, b"," + result, b"") == JOINT


@BOTH
def test_broken_fold_more_gone_than_said_told(adapter: Adapter) -> None:
    """A fold that lies of what leaves."""
    found = made(adapter)
    first = min(found.fold.gone)
    lie = found.fold._replace(gone=found.fold.gone - {first})
    assert broken_fold(found.before, found.after, lie, []) == JOINT
    user = next(at for at in range(found.before.item_count - 1, -1, -1) if found.before.item(at).role == 2)
    assert broken_fold(found.before, found.after, found.fold._replace(gone=found.fold.gone | {user}), []) in (WORD, SAID)
    assert broken_fold(found.before, found.after, found.fold._replace(texts=[]), []) in (WORD, SAID)


def test_broken_fold_trimmed_item_that_kept_a_result_told() -> None:
    turn, results = asked(MESSAGES, "a", "b")
    results["content"].append({"type": "text", "text": "said"})
    found = folded(MESSAGES, [ask("go"), turn, results, *asked(MESSAGES, "c")], record([1], 2, trims={2: (0, 1)}))
    assert broken_fold(found.before, found.after, found.fold, []) == ""
    kept = dump(results["content"][1])
    assert told(found, b'{"type":"text","text":"said"}', kept + b',{"type":"text","text":"said"}') == JOINT
    whole = found.fold._replace(kept_spans={})
    assert broken_fold(found.before, found.after, whole, []) == JOINT


@BOTH
def test_broken_fold_edit_of_other_records_allowed_where_it_stands(adapter: Adapter) -> None:
    """A media stub in a user item is no lost word; an edit elsewhere excuses nothing."""
    found = made(adapter)
    body = found.before.body
    at = body.index(b'{"type":"text","text":"three"}')
    edit = Edit(at, at + len(b'{"type":"text","text":"three"}'), b"x")
    assert told(found, b'"three"', b'"[trimtab: moved out]"', (edit,)) == ""
    away = Edit(body.index(b'"m"'), body.index(b'"m"') + 3, b'"n"')
    assert told(found, b'"three"', b'"[trimtab: moved out]"', (away,)) == WORD


def checked(found: Folded, **changed: Any) -> None:
    """The whole contract."""
    placed = [Placed(edit, ReductionKind.CHECKPOINT, at, True) for edit, at in found.fold.edits]
    given: dict[str, Any] = {
        "before": found.before,
        "after": found.after,
        "placed": placed,
        "size_bytes": len(found.after.body),
        "violations_before": found.fold.adapter.check(found.before),
        "violations_after": found.fold.adapter.check(found.after),
        "folded": found.fold,
        **changed,
    }
    check_finished(**given)


@BOTH
def test_check_finished_fold_sound_passes(adapter: Adapter) -> None:
    checked(made(adapter))


@BOTH
def test_check_finished_fold_mutated_refused(adapter: Adapter) -> None:
    found = made(adapter)
    with pytest.raises(InternalError, match="added or lost"):
        checked(found, folded=found.fold._replace(finished_count=found.fold.finished_count + 1))
    with pytest.raises(InternalError, match="computed"):
        checked(found, size_bytes=1)
    with pytest.raises(InternalError, match="rule"):
        checked(found, violations_after=[*found.fold.adapter.check(found.after), broken()])
    with pytest.raises(InternalError, match="in its place"):
        checked(found, placed=[])
    with pytest.raises(InternalError, match="word"):
        checked(found, folded=found.fold._replace(texts=[]))
    at = min(found.fold.gone)
    with pytest.raises(InternalError, match="leaves"):
        checked(found, placed=[Placed(edit, ReductionKind.RESULT, at, True) for edit, _ in found.fold.edits])


def broken() -> Violation:
    return Violation("ANY", 0, 0, "")


@BOTH
def test_check_finished_fold_marker_multiplied_refused(adapter: Adapter) -> None:
    items = [ask("go"), *asked(adapter, "a"), ask("then")]
    found = folded(adapter, items, record(range(1, len(items) - 1), len(items) - 2), markers={"c1": b'{"type":"ephemeral"}'})
    checked(found)
    with pytest.raises(InternalError, match="marker"):
        checked(found, folded=found.fold._replace(marker_count=0))
