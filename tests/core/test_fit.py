"""The ladder: what leaves a body, in which order, how far, and what never does."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.core.fit import blockers, tail_start
from sidecar.core.types import EffectState, Preset, ReductionKind
from tests.core.build import CHAT, MESSAGES, Taken, cuts_of, dump, finished, limits, receipt, replaced, take
from tests.core.build import offload as record_of
from tests.helpers.bodies import FORMATS, TYPED, History, history, words

EXTERNALIZE = ReductionKind.EXTERNALIZE
RESULT = ReductionKind.RESULT
ARGUMENTS = ReductionKind.ARGUMENTS
MEDIA = ReductionKind.MEDIA
REASONING = ReductionKind.REASONING
RECENT = ReductionKind.RECENT_RESULT

each_format = pytest.mark.parametrize("format_name", FORMATS)
each_typed = pytest.mark.parametrize("format_name", TYPED)


def run(format_name: str, count: int, size: int = 2_000) -> History:
    """A question, then that many calls. Call n stands in item 2n-1, its result in item 2n."""
    return history(format_name).user("go").steps(count, size)


def kinds(taken: Taken) -> list[ReductionKind]:
    return [kind for kind, _ in cuts_of(taken)]


# When


@each_format
def test_plan_fit_of_a_body_at_its_limit_cuts_nothing(format_name: str) -> None:
    made = run(format_name, 6)
    size = len(made.body())
    at_limit = take(made, limits(soft_bytes=size, target_bytes=0))
    assert cuts_of(at_limit) == []
    assert (at_limit.plan.size_bytes, at_limit.plan.pressure_cut) == (size, False)
    assert cuts_of(take(made, limits(soft_bytes=size - 1, target_bytes=0))) != []


@each_format
def test_plan_fit_without_a_way_to_read_back_cuts_nothing(format_name: str) -> None:
    told = limits(soft_bytes=2_000, target_bytes=0, hard_bytes=2_000, externalize_bytes=500)
    assert cuts_of(take(run(format_name, 6), told, fresh=None, can_cut=False)) == []
    assert cuts_of(take(run(format_name, 6), told, fresh=None)) != []


@each_format
def test_plan_fit_needs_the_minimum_saving(format_name: str) -> None:
    made = run(format_name, 6)
    free = sum(cut.saved_bytes for cut in take(made, limits(soft_bytes=2_000, target_bytes=0)).plan.cuts)
    assert cuts_of(take(made, limits(soft_bytes=2_000, target_bytes=0, min_saving_bytes=free + 1))) == []
    assert len(cuts_of(take(made, limits(soft_bytes=2_000, target_bytes=0, min_saving_bytes=free)))) == 5


@each_format
def test_plan_fit_goes_past_the_target_until_the_minimum_is_saved(format_name: str) -> None:
    made = run(format_name, 9)
    size = len(made.body())
    told = {"soft_bytes": size - 1, "target_bytes": size - 1}
    assert len(cuts_of(take(made, limits(**told)))) == 1
    assert len(cuts_of(take(made, limits(**told, min_saving_bytes=5_000)))) == 3


@each_format
def test_plan_fit_stops_at_the_target(format_name: str) -> None:
    made = run(format_name, 9)
    size = len(made.body())
    for target in (size - 1_000, size - 5_000, size - 8_000):
        plan = take(made, limits(soft_bytes=size - 1, target_bytes=target)).plan
        assert plan.size_bytes <= target < plan.size_bytes + plan.cuts[-1].saved_bytes
        assert not plan.over_target


@each_format
def test_plan_fit_on_a_lost_cache_cuts_over_half_of_soft_for_4096_bytes(format_name: str) -> None:
    made = run(format_name, 9)
    size = len(made.body())
    soft = 2 * size - 2
    told: dict[str, Any] = {"soft_bytes": soft, "target_bytes": 0, "min_saving_bytes": 10**6}
    assert cuts_of(take(made, limits(**told))) == []
    assert len(cuts_of(take(made, limits(**told), cache_lost=True))) == 8
    assert cuts_of(take(made, limits(**told | {"soft_bytes": 2 * size}), cache_lost=True)) == []
    assert cuts_of(take(made, limits(**told, preset=Preset.MINIMAL), cache_lost=True)) == []
    small = run(format_name, 3)
    assert cuts_of(take(small, limits(soft_bytes=2 * len(small.body()) - 2, target_bytes=0), cache_lost=True)) == []


@each_format
def test_plan_fit_on_a_lost_cache_takes_at_least_4096_bytes(format_name: str) -> None:
    made = run(format_name, 9)
    size = len(made.body())
    told = limits(soft_bytes=2 * size - 2, target_bytes=size - 1, min_saving_bytes=10**6)
    plan = take(made, told, cache_lost=True).plan
    saved = sum(cut.saved_bytes for cut in plan.cuts)
    assert 4_096 <= saved < 4_096 + plan.cuts[-1].saved_bytes


@each_format
def test_plan_fit_after_a_cut_above_its_target_waits_until_the_body_has_grown(format_name: str) -> None:
    made = run(format_name, 6)
    size = len(made.body())
    told = {"soft_bytes": size - 1_000, "target_bytes": size - 5_000}
    # The next cut waits for (soft - target) / 2 = 2,000 bytes over where the last one ended.
    assert cuts_of(take(made, limits(**told), floor_bytes=size - 1_999)) == []
    assert cuts_of(take(made, limits(**told), floor_bytes=size - 2_000)) != []
    assert cuts_of(take(made, limits(**told), floor_bytes=0)) != []
    assert cuts_of(take(made, limits(**told), floor_bytes=size - 1, cache_lost=True)) == []
    assert cuts_of(take(made, limits(**told, hard_bytes=size - 1), floor_bytes=size - 1)) != []


@each_format
def test_plan_fit_says_when_it_ended_above_its_target(format_name: str) -> None:
    made = run(format_name, 6)
    plan = take(made, limits(soft_bytes=2_000, target_bytes=1_000, keep_unit_count=5)).plan
    assert (plan.pressure_cut, plan.over_target) == (True, True)
    assert plan.size_bytes > 1_000


@each_format
def test_plan_fit_over_a_hard_limit_needs_no_minimum_when_it_gets_under_it(format_name: str) -> None:
    made = run(format_name, 6)
    size = len(made.body())
    told: dict[str, Any] = {"soft_bytes": 10 * size, "target_bytes": size, "min_saving_bytes": 10**6}
    plan = take(made, limits(**told, hard_bytes=size - 500)).plan
    assert (len(plan.cuts), plan.size_bytes <= size - 500) == (1, True)
    assert cuts_of(take(made, limits(**told, hard_bytes=1))) == []  # no rescue, and not the minimum
    assert cuts_of(take(made, limits(**told | {"min_saving_bytes": 5_000}, hard_bytes=1))) != []


@each_format
def test_plan_fit_counts_what_records_saved_already(format_name: str) -> None:
    made = run(format_name, 6)
    first = take(made, limits(soft_bytes=2_000, target_bytes=0)).plan.cuts[0]
    at = first.candidate.item
    records = {at: [record_of(first, at)]}
    size = len(made.body()) - first.saved_bytes
    again = take(made, limits(soft_bytes=size, target_bytes=0), records=records)
    assert (cuts_of(again), again.plan.size_bytes) == ([], size)
    more = take(made, limits(soft_bytes=size - 1, target_bytes=0), records=records)
    assert at not in replaced(more)
    assert len(more.plan.cuts) == 4


# Order


@each_format
def test_plan_fit_takes_the_oldest_results_first(format_name: str) -> None:
    made = run(format_name, 8)
    size = len(made.body())
    taken = take(made, limits(soft_bytes=size - 1, target_bytes=size - 5_000))
    assert cuts_of(taken) == [(RESULT, 2), (RESULT, 4), (RESULT, 6)]


@each_format
def test_plan_fit_takes_arguments_only_after_all_old_results(format_name: str) -> None:
    made = history(format_name).user("go")
    for index in range(4):
        made.step(words(2_000, index), "write", {"path": "a.py", "text": words(3_000, index)})
    size = len(made.body())
    first = take(made, limits(soft_bytes=size - 1, target_bytes=size - 5_000))
    assert cuts_of(first) == [(RESULT, 2), (RESULT, 4), (RESULT, 6)]
    both = take(made, limits(soft_bytes=size - 1, target_bytes=size - 8_000))
    assert cuts_of(both) == [(RESULT, 2), (RESULT, 4), (RESULT, 6), (ARGUMENTS, 1)]
    every = take(made, limits(soft_bytes=1_024, target_bytes=0, hard_bytes=1))
    assert kinds(every) == [RESULT] * 3 + [ARGUMENTS] * 3 + [RECENT]


@each_format
def test_plan_fit_takes_recent_results_last_and_largest_first(format_name: str) -> None:
    made = run(format_name, 2)
    for size in (5_000, 9_000, 7_000):
        made.step(words(size, size))
    told = {"soft_bytes": 4_000, "target_bytes": 0, "keep_unit_count": 3}
    assert cuts_of(take(made, limits(**told))) == [(RESULT, 2), (RESULT, 4), (RECENT, 8), (RECENT, 10), (RECENT, 6)]


@each_format
def test_plan_fit_protects_the_tail_unless_it_alone_is_over_the_target(format_name: str) -> None:
    made = run(format_name, 8, 3_000)
    told: dict[str, Any] = {"soft_bytes": 2_000, "keep_unit_count": 3}
    body = made.body()
    taken = take(made, limits(**told, target_bytes=1_000))
    first = tail_start(taken.view)[1]
    tail = sum(item.end - item.start for item in taken.view.items[first:])
    assert first == 11
    assert max(replaced(take(made, limits(**told | {"soft_bytes": len(body) - 1}, target_bytes=tail)))) < first
    assert RECENT in kinds(take(made, limits(**told | {"soft_bytes": len(body) - 1}, target_bytes=tail - 1)))


@each_typed
def test_plan_fit_counts_what_left_the_tail_on_arrival_before_it_cuts_there(format_name: str) -> None:
    """Ensure that a result that is externalized now does not cost its neighbors in the tail their protection."""
    made = run(format_name, 2).user(words(20_000)).steps(1, 60_000).steps(3, 2_000)
    size = len(made.body())
    told = limits(soft_bytes=size - 59_000, target_bytes=20_000, externalize_bytes=32_768, keep_unit_count=4)
    assert cuts_of(take(made, told, fresh=None)) == [
        (EXTERNALIZE, 7 if format_name == "openai-chat" else 6),
        (RESULT, 2),
        (RESULT, 4),
    ]


@each_format
def test_plan_fit_for_a_hard_limit_cuts_results_in_the_tail(format_name: str) -> None:
    made = run(format_name, 4, 6_000)
    size = len(made.body())
    told = {"soft_bytes": size, "target_bytes": size, "keep_unit_count": 9}
    assert cuts_of(take(made, limits(**told, hard_bytes=size))) == []
    assert kinds(take(made, limits(**told, hard_bytes=size - 1))) == [RECENT]


@each_format
def test_plan_fit_keeps_the_newest_results_by_tokens(format_name: str) -> None:
    made = run(format_name, 8)
    told = {"soft_bytes": 2_000, "target_bytes": 0, "keep_unit_count": 1}
    keep = [len(replaced(take(made, limits(**told, keep_result_tokens=tokens)))) for tokens in (0, 900, 1_100, 2_900)]
    tails = [tail_start(take(made, limits(**told, keep_result_tokens=tokens)).view)[0] for tokens in (0, 900, 1_100, 2_900)]
    assert tails == [7, 7, 6, 5]
    assert keep == [7, 7, 6, 5]
    assert tail_start(take(made, limits(**told | {"keep_unit_count": 4}, keep_result_tokens=900)).view)[0] == 4


@pytest.mark.parametrize("count", [0, 1, 3, 99])
def test_tail_start_keeps_that_many_units(count: int) -> None:
    taken = take(run("openai-chat", 5), limits(keep_unit_count=count))
    first = max(5 - count, 0)
    assert tail_start(taken.view) == (first, 1 + 2 * first)


def test_tail_start_of_no_units_is_the_end() -> None:
    assert tail_start(take(history("openai-chat").user("a").user("b"), limits()).view) == (0, 2)


# On arrival


@each_format
def test_plan_fit_externalizes_a_new_result_over_its_limit_wherever_it_stands(format_name: str) -> None:
    made = run(format_name, 3, 6_000)
    big = limits(externalize_bytes=5_000, keep_unit_count=2)
    taken = take(made, big, fresh=None)
    assert cuts_of(taken) == [(EXTERNALIZE, 2), (EXTERNALIZE, 4), (EXTERNALIZE, 6)]
    assert not taken.plan.pressure_cut
    assert "bytes left out here" in taken.plan.cuts[0].replacement.decode()


@each_format
def test_plan_fit_externalizes_strictly_over_the_limit(format_name: str) -> None:
    made = run(format_name, 2, 6_000)
    taken = take(made, limits(externalize_bytes=5_000), fresh=None)
    part = next(p for p in taken.view.parts if p.item == 2)
    size = part.end - part.start
    assert (EXTERNALIZE, 2) not in cuts_of(take(made, limits(externalize_bytes=size), fresh=None))
    assert (EXTERNALIZE, 2) in cuts_of(take(made, limits(externalize_bytes=size - 1), fresh=None))
    assert cuts_of(take(made, limits(externalize_bytes=0), fresh=None)) == []


@each_format
def test_plan_fit_externalizes_only_in_the_first_call_with_the_settled_unit(format_name: str) -> None:
    made = run(format_name, 3, 6_000)
    told = limits(externalize_bytes=5_000)
    assert cuts_of(take(made, told, fresh=[5, 6])) == [(EXTERNALIZE, 6)]
    assert cuts_of(take(made, told, fresh=[6])) == [(EXTERNALIZE, 6)]  # the call came before, its result now
    assert cuts_of(take(made, told, fresh=[5])) == [(EXTERNALIZE, 6)]  # a receipt of that call came now
    assert cuts_of(take(made, told, fresh=())) == []


def test_plan_fit_externalizes_the_whole_batch_when_its_last_result_came() -> None:
    made = history("openai-chat").user("go").call(("a", {}), ("b", {})).results(words(6_000))
    told = limits(externalize_bytes=5_000)
    assert cuts_of(take(made, told, fresh=None)) == []
    made.results("ok")
    assert cuts_of(take(made, told, fresh=[3])) == [(EXTERNALIZE, 2)]


def test_plan_fit_of_a_new_item_between_a_units_items_externalizes_nothing_of_it() -> None:
    """Ensure that what another unit brings, inside the range that a late result stretches, is not this unit's arrival."""
    items = [
        {"role": "user", "content": "go"},
        *history("openai-chat").call(("a", {}), ("b", {}), ids=["a", "b"]).results(words(6_000)).items,
        *history("openai-chat").call(("c", {}), ids=["c"]).results("ok").items,
        {"role": "tool", "tool_call_id": "b", "content": "late"},
    ]
    body = dump({"messages": items})
    told = limits(externalize_bytes=5_000)
    assert cuts_of(take(body, told, adapter=CHAT, fresh=[5])) == [(EXTERNALIZE, 2)]
    assert cuts_of(take(body, told, adapter=CHAT, fresh=[3, 4])) == []


def test_plan_fit_does_not_externalize_media_on_arrival() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 40_000}}
    made = history("anthropic-messages").user("go").step([image], "shot")  # type: ignore[arg-type]
    assert cuts_of(take(made, limits(externalize_bytes=5_000), fresh=None)) == []
    made = history("anthropic-messages").user("go").step([image, {"type": "text", "text": words(6_000)}], "shot")  # type: ignore[arg-type]
    taken = take(made, limits(externalize_bytes=5_000), fresh=None)
    assert [cut.candidate.path for cut in taken.plan.cuts] == [(b"content", 0, b"content", 1, b"text")]


@each_format
def test_plan_fit_does_not_cut_twice_what_left_on_arrival(format_name: str) -> None:
    made = run(format_name, 4, 6_000)
    taken = take(made, limits(soft_bytes=2_000, target_bytes=0, externalize_bytes=5_000, hard_bytes=1), fresh=None)
    places = [(cut.candidate.item, cut.candidate.path) for cut in taken.plan.cuts]
    assert len(set(places)) == len(places) == 4
    json.loads(finished(taken))


# Never


@each_format
@pytest.mark.parametrize("state", [EffectState.PENDING, EffectState.WAITING, EffectState.UNKNOWN, EffectState.NOT_STARTED])
def test_plan_fit_never_cuts_an_unsettled_unit_and_cuts_all_others(format_name: str, state: EffectState) -> None:
    made = history(format_name).user("go")
    for index in range(5):
        made.step(words(3_000, index), "write", {"text": words(3_000, index)})
    told = limits(soft_bytes=1_024, target_bytes=0, externalize_bytes=2_000, hard_bytes=1, keep_unit_count=1)
    held = take(made, told, fresh=None, receipts={(3, 0): receipt(3, state, 99)})
    assert replaced(held) == [1, 2, 5, 6, 7, 8, 10]
    faulty = take(made, told, fresh=None, faulty=[4])
    assert replaced(faulty) == [1, 2, 5, 6, 7, 8, 10]


@each_format
def test_plan_fit_never_cuts_a_dangling_call(format_name: str) -> None:
    made = run(format_name, 2).call(("write", {"text": words(3_000)})).user("and?").steps(2, 2_000)
    taken = take(made, limits(soft_bytes=1_024, target_bytes=0, hard_bytes=1))
    assert 5 not in replaced(taken)
    assert {2, 4} <= set(replaced(taken))


@each_typed
def test_plan_fit_never_cuts_pinned_calls(format_name: str) -> None:
    made = history(format_name).user("go")
    for index in range(5):
        made.step(words(3_000, index), "write", {"text": words(3_000, index)}, thinking=words(500, index))
    told = limits(soft_bytes=1_024, target_bytes=0, externalize_bytes=2_000, hard_bytes=1)
    taken = take(made, told, fresh=None, pinned_calls=["call_000002", "call_000005"])
    assert not {3, 4, 9, 10} & set(replaced(taken))
    assert {1, 2, 5, 6, 7, 8} <= set(replaced(taken))


@each_format
def test_plan_fit_of_a_read_back_in_the_tail_keeps_it_and_takes_it_later(format_name: str) -> None:
    made = history(format_name).user("go").step(words(6_000), "trimtab_read", {"artifact_id": "0" * 32})
    tight = limits(soft_bytes=1_024, target_bytes=0, externalize_bytes=2_000, hard_bytes=1)
    assert cuts_of(take(made, tight, fresh=None)) == []
    made.step("ok")
    assert cuts_of(take(made, tight, fresh=None)) == [(RESULT, 2)]


@each_typed
def test_plan_fit_never_touches_text_of_user_system_and_developer(format_name: str) -> None:
    made = history(format_name).user(words(3_000, "u"))
    made.items.insert(0, {"role": "system", "content": words(3_000, "s")})
    made.steps(4, 3_000).user(words(3_000, "v")).answer(words(3_000, "a")).user(words(3_000, "w"))
    taken = take(made, limits(soft_bytes=1_024, target_bytes=0, externalize_bytes=2_000, hard_bytes=1), fresh=None)
    after = json.loads(finished(taken))["messages"]
    before = json.loads(made.body())["messages"]
    said = [item for item in before if item["role"] in ("user", "system")]
    texts = [words(3_000, seed) for seed in "suvw"]
    assert len(taken.plan.cuts) >= 4
    for text in texts:
        assert sum(text in json.dumps(item, ensure_ascii=False).replace("\\n", "\n") for item in after) == 1
    assert len(said) >= 4


def test_plan_fit_never_touches_assistant_text() -> None:
    made = history("openai-chat").user("go").answer(words(9_000)).user("more").answer("ok").answer("x")
    assert cuts_of(take(made, limits(soft_bytes=1_024, target_bytes=0, hard_bytes=1), fresh=None)) == []


# Media

PNG = base64.b64encode(b"\x89PNG" + b"\0" * 3_000)


@each_typed
def test_plan_fit_takes_old_user_media_but_never_the_newest(format_name: str) -> None:
    made = history(format_name)
    for index in range(3):
        made.user_image(f"picture {index}", b"%d" % index + b"\x89PNG" * 900).step("ok")
    made.steps(3, 100)
    taken = take(made, limits(soft_bytes=1_024, target_bytes=0, hard_bytes=1))
    assert [(kind, item) for kind, item in cuts_of(taken) if kind is MEDIA][:2] == [
        (MEDIA, 0),
        (MEDIA, 3 if format_name == "openai-chat" else 2),
    ]
    assert kinds(taken).count(MEDIA) == 2
    text = json.loads(finished(taken))["messages"][0]["content"]
    assert [block["type"] for block in text] == ["text", "text"]
    assert text[0]["text"] == "picture 0"


@each_format
def test_plan_fit_leaves_media_in_the_tail(format_name: str) -> None:
    made = history(format_name).user_image("a", b"\x89PNG" * 900).step("ok").user_image("b", b"\x88PNG" * 900).step("ok")
    told = {"soft_bytes": 1_024, "target_bytes": 0, "hard_bytes": 1}
    assert kinds(take(made, limits(**told, keep_unit_count=1))).count(MEDIA) == 1
    tail = history(format_name).step("ok").user_image("a", b"\x89PNG" * 900).step("ok").user_image("b", b"\x88PNG" * 900)
    assert kinds(take(tail, limits(**told, keep_unit_count=2))) == []


def test_plan_fit_takes_media_in_old_settled_results_only() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG.decode()}}
    made = history("anthropic-messages").user("go")
    for _ in range(3):
        made.step([image, {"type": "text", "text": "seen"}], "shot")  # type: ignore[arg-type]
    told = limits(soft_bytes=1_024, target_bytes=0)
    assert cuts_of(take(made, told)) == [(MEDIA, 2), (MEDIA, 4)]
    assert cuts_of(take(made, told, receipts={(1, 0): receipt(1, EffectState.WAITING, 9)})) == [(MEDIA, 4)]
    assert cuts_of(take(made, told, pinned_calls=["call_000001"])) == [(MEDIA, 4)]
    cut = take(made, told).plan.cuts[0]
    assert (cut.content, cut.artifact.media_type) == (base64.b64decode(PNG), "image/png")


def test_plan_fit_leaves_media_that_only_refer_to_data_elsewhere() -> None:
    url = "https://example.com/" + "a" * 3_000
    items = [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]},
        {"role": "assistant", "content": "x"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]},
        {"role": "assistant", "content": "y"},
    ]
    assert cuts_of(take(dump({"messages": items}), limits(soft_bytes=1_024, target_bytes=0, hard_bytes=1), adapter=CHAT)) == []


# Reasoning


def test_plan_fit_takes_reasoning_of_earlier_turns_whole_and_never_of_the_current_one() -> None:
    made = history("anthropic-messages").user("one").step("ok", thinking=words(2_000, 1)).step("ok", thinking=words(2_000, 2))
    made.answer("done").user("two").step("ok", thinking=words(2_000, 3)).steps(2, 50)
    taken = take(made, limits(soft_bytes=1_024, target_bytes=0))
    assert cuts_of(taken) == [(REASONING, 1), (REASONING, 3)]
    after = json.loads(finished(taken))["messages"]
    assert [[block["type"] for block in after[at]["content"]] for at in (1, 3, 7)] == [
        ["tool_use"],
        ["tool_use"],
        ["thinking", "tool_use"],
    ]


def test_plan_fit_takes_a_whole_turns_reasoning_or_none() -> None:
    thinking = {"type": "thinking", "thinking": words(900), "signature": "c2ln"}
    call = {"type": "tool_use", "id": "a", "name": "f", "input": {}}

    def body(*turn: dict[str, Any]) -> bytes:
        items = [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": list(turn)},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "ok"}]},
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": "next"},
            {"role": "assistant", "content": "well"},
        ]
        return dump({"messages": items})

    told = limits(soft_bytes=1_024, target_bytes=0)
    both = take(body(thinking, thinking, call), told, adapter=MESSAGES)
    assert cuts_of(both) == [(REASONING, 1), (REASONING, 1)]
    assert json.loads(finished(both))["messages"][1]["content"] == [call]
    assert cuts_of(take(body(thinking, thinking), told, adapter=MESSAGES)) == []  # nothing would be left of the item


def test_plan_fit_blanks_reasoning_where_its_key_must_stay() -> None:
    made = history("openai-chat").user("one").step("ok", thinking=words(2_000)).step("ok")
    taken = take(made, limits(soft_bytes=1_024, target_bytes=0))
    assert cuts_of(taken) == [(REASONING, 1)]
    assert json.loads(finished(taken))["messages"][1]["reasoning_content"] == ""


@each_typed
def test_plan_fit_keeps_reasoning_of_unsettled_and_pinned_turns(format_name: str) -> None:
    made = history(format_name).user("one").step("ok", thinking=words(2_000)).answer("so").user("two").step("ok").step("ok")
    told = limits(soft_bytes=1_024, target_bytes=0)
    assert kinds(take(made, told)) == [REASONING]
    assert kinds(take(made, told, pinned_calls=["call_000001"])) == []
    assert kinds(take(made, told, receipts={(1, 0): receipt(1, EffectState.WAITING, 9)})) == []


def test_plan_fit_leaves_short_reasoning() -> None:
    made = history("openai-chat").user("one").step("ok", thinking="hm").steps(2, 900)
    assert REASONING not in kinds(take(made, limits(soft_bytes=1_024, target_bytes=0)))


# Signatures


def test_plan_fit_never_cuts_a_part_that_carries_a_signature() -> None:
    made = history("openai-chat").user("go").step("ok", "write", {"text": words(3_000)}).steps(2, 50)
    told = limits(soft_bytes=1_024, target_bytes=0, hard_bytes=1)
    assert kinds(take(made, told)) == [ARGUMENTS]
    made.items[1]["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": "c2ln"}}
    assert kinds(take(made, told)) == []


# The plan against the finished body


@each_typed
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_plan_fit_of_any_run_says_the_size_that_it_gets(format_name: str, data: st.DataObject) -> None:
    made = history(format_name).user("go")
    for index in range(data.draw(st.integers(1, 7))):
        size = data.draw(st.sampled_from([10, 700, 3_000, 9_000]))
        asked = data.draw(st.sampled_from([10, 900]))
        thinking = data.draw(st.sampled_from(["", words(400)])) if format_name == "openai-chat" else ""
        made.step(words(size, index), "tool", {"text": words(asked, index)}, thinking=thinking)
    body = made.body()
    told = limits(
        soft_bytes=data.draw(st.sampled_from([1_024, len(body) // 2 + 1_024, max(len(body), 1_024)])),
        target_bytes=data.draw(st.integers(0, 1_024)),
        externalize_bytes=data.draw(st.sampled_from([0, 2_000])),
        keep_unit_count=data.draw(st.integers(0, 8)),
        hard_bytes=data.draw(st.sampled_from([None, 1, len(body) // 2])),
        min_saving_bytes=data.draw(st.sampled_from([1, 5_000])),
    )
    taken = take(made, told, fresh=data.draw(st.sampled_from([None, ()])))
    plan = taken.plan
    after = finished(taken, plan)
    assert len(after) == plan.size_bytes
    assert len(after) == len(body) - sum(cut.saved_bytes for cut in plan.cuts)
    assert [item["role"] for item in json.loads(after)["messages"]] == [item["role"] for item in made.items]
    assert all(cut.saved_bytes > 0 for cut in plan.cuts)


# Blockers


def reasons(taken: Taken) -> dict[int, str]:
    return {each.item: each.reason for each in blockers(taken.view, taken.plan)}


def test_blockers_names_why_each_large_item_stays() -> None:
    made = history("openai-chat").user(words(2_000))
    made.items.insert(0, {"role": "system", "content": words(2_000)})
    made.step(words(2_000))  # 2, 3
    made.step(words(2_000), "write", {"text": words(2_000)})  # 4, 5: pinned
    made.call(("job", {"text": words(2_000)}))  # 6: open
    made.user_image("see", b"\x89PNG" * 900)  # 7
    made.answer(words(2_000)).user("so")  # 8, 9
    made.step(words(2_000))  # 10, 11: the tail
    taken = take(made, limits(soft_bytes=6_000, target_bytes=6_000), pinned_calls=["call_000002"])
    found = reasons(taken)
    assert found == {
        0: "SYSTEM_TEXT",
        1: "USER_TEXT",
        4: "PINNED",
        5: "PINNED",
        6: "UNSETTLED",
        7: "USER_MEDIA",
        8: "ASSISTANT_TEXT",
        11: "PROTECTED_TAIL",
    }


def test_blockers_without_read_back_says_so() -> None:
    taken = take(run("openai-chat", 3), limits(soft_bytes=1_024, target_bytes=0), can_cut=False)
    assert reasons(taken) == {2: "NO_READ_BACK", 4: "NO_READ_BACK", 6: "PROTECTED_TAIL"}


def test_blockers_of_what_may_leave_later_says_so() -> None:
    made = run("openai-chat", 3)
    resting = limits(soft_bytes=1_024, target_bytes=0)
    taken = take(made, resting, floor_bytes=len(made.body()))
    assert not taken.plan.cuts
    assert reasons(taken) == {2: "LATER", 4: "LATER", 6: "PROTECTED_TAIL"}
    # What was tried and could not be made smaller is not promised.
    tried = blockers(taken.view, msgspec.structs.replace(taken.plan, pressure_cut=True))
    assert {each.item: each.reason for each in tried} == {2: "NOTHING_LARGE", 4: "NOTHING_LARGE", 6: "PROTECTED_TAIL"}


def test_blockers_names_the_envelope_and_the_largest_first() -> None:
    body = dump({"system": "s" * 5_000, "tools": [{"name": "t" * 3_000}], "messages": [{"role": "user", "content": "x" * 4_000}]})
    taken = take(body, limits(soft_bytes=1_024, target_bytes=0), adapter=MESSAGES)
    found = blockers(taken.view, taken.plan)
    assert [(each.item, each.reason) for each in found] == [(-1, "SYSTEM"), (0, "USER_TEXT"), (-1, "TOOLS")]
    assert [each.size_bytes for each in found] == sorted((each.size_bytes for each in found), reverse=True)


def test_blockers_are_at_most_sixteen_and_at_least_a_kilobyte() -> None:
    made = history("openai-chat")
    for index in range(40):
        made.user("x" * (900 + 50 * index))
    found = blockers(*(lambda taken: (taken.view, taken.plan))(take(made, limits(soft_bytes=1_024, target_bytes=0))))
    assert len(found) == 16
    assert min(each.size_bytes for each in found) >= 1_024
    few = take(history("openai-chat").user("x" * 900), limits(soft_bytes=1_024, target_bytes=0))
    assert [each.item for each in blockers(few.view, few.plan)] == [0]  # where nothing is large, the largest


@each_format
def test_plan_fit_leaves_recent_results_too_short_for_a_preview_but_for_a_hard_limit(format_name: str) -> None:
    made = run(format_name, 6, 1_800)
    size = len(made.body())
    told = {"soft_bytes": 2_000, "target_bytes": 0, "keep_unit_count": 9}
    assert cuts_of(take(made, limits(**told))) == []
    taken = take(made, limits(**told, hard_bytes=size - 2_000))
    assert kinds(taken) == [RECENT, RECENT]  # no more than the hard limit asks for
    assert "bytes left out here" not in taken.plan.cuts[0].replacement.decode()


def test_plan_fit_of_reasoning_that_cannot_all_go_keeps_all_of_its_turn() -> None:
    made = history("openai-chat").user("one").step("ok", thinking=words(2_000)).step("ok")
    assert kinds(take(made, limits(soft_bytes=1_024, target_bytes=0))) == [REASONING]
    made.items[1]["reasoning_details"] = [{"type": "reasoning.text", "text": words(500)}]
    assert kinds(take(made, limits(soft_bytes=1_024, target_bytes=0))) == []


@each_format
def test_plan_fit_externalizes_what_comes_after_a_unit_that_is_open(format_name: str) -> None:
    """Ensure that one open call blocks nothing but itself, on any step."""
    made = history(format_name).user("go").call(("job", {})).user("and?").steps(3, 6_000)
    told = limits(soft_bytes=1_024, target_bytes=0, externalize_bytes=5_000)
    assert kinds(take(made, told, fresh=None)) == [EXTERNALIZE] * 3
    made = history(format_name).user("go").call(("job", {})).user("and?")
    for index in range(3):
        made.step(words(600, index), "write", {"text": words(900, index)})
    assert kinds(take(made, limits(soft_bytes=1_024, target_bytes=0))) == [RESULT, RESULT, ARGUMENTS, ARGUMENTS]


@each_format
def test_plan_fit_never_cuts_an_unsettled_unit_in_the_tail(format_name: str) -> None:
    made = run(format_name, 3, 6_000)
    told = limits(soft_bytes=1_024, target_bytes=0, hard_bytes=1, keep_unit_count=9)
    held = take(made, told, receipts={(3, 0): receipt(3, EffectState.WAITING, 9)})
    assert sorted(cuts_of(held)) == [(RECENT, 2), (RECENT, 6)]
