"""Which line keeps which invariant, and which test fails without it: a table, held by test_mutations.py.

Invariants are numbered as in the design (section 3); the four columns of the preservation table have names.

Witnesses are the fastest tests that show it. A test named here fails by an assertion when `source` is replaced, and passes else.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MUTATIONS", "Mutation"]

CONTRACT = "tests/core/test_contract.py::test_check_finished_of_"
ENGINE = "tests/invariants/test_fit_invariants.py::test_fit_"
FIT = "tests/core/test_fit.py::test_plan_fit_"
MATCH = "tests/core/test_match.py::test_align_of_"
RECORDS = "tests/core/test_records.py::test_apply_records_of_"
SETTLED = "tests/core/test_units.py::test_mark_settled_"
STUBS = "tests/core/test_stubs.py::test_stub_text_of_"
TOKENS = "tests/core/test_tokens.py::test_"
UNITS = "tests/core/test_units.py::test_build_units_of_"

_CHAT = "[openai-chat]"


class Mutation(NamedTuple):
    """One line taken away."""

    keeps: str  # number of the invariant, or column of the preservation table
    file: str
    source: str  # exact text, once in the file
    replacement: str
    tests: tuple[str, ...]  # node ids; each must fail

    def __str__(self) -> str:
        """For the test's name."""
        line = " ".join(self.source.split())
        return f"{self.keeps}-{self.file.rpartition('/')[2]}-{line[:40]}"


MUTATIONS: tuple[Mutation, ...] = (
    # 1. Nothing to do: UNCHANGED.
    Mutation(
        "1",
        "sidecar/core/fit.py",
        "for_soft = size > limits.soft_bytes and not resting",
        "for_soft = not resting",
        (f"{FIT}of_a_body_at_its_limit_cuts_nothing{_CHAT}",),
    ),
    Mutation(
        "1",
        "sidecar/core/fit.py",
        "if _text_bytes(view, index) <= limit or candidate.call is None",
        "if candidate.call is None",
        (f"{FIT}externalizes_strictly_over_the_limit{_CHAT}",),
    ),
    Mutation(
        "1",
        "sidecar/engine/fit_answer.py",
        'body=b"" if given.dry_run or not changed else body,',
        "body=body,",
        (f"{ENGINE}without_need_answers_unchanged_without_a_body{_CHAT}",),
    ),
    # 2. Bytes outside an edit are copied.
    Mutation(
        "2",
        "sidecar/core/contract.py",
        "if not is_spliced(before.body, [each.edit for each in placed], after.body):",
        "if False:",
        (
            f"{CONTRACT}edits_out_of_order_fails",
            f"{CONTRACT}bytes_that_changed_anywhere_fails",
        ),
    ),
    Mutation(
        "2",
        "sidecar/core/paths.py",
        "        while lead in gone:\n            lead += 1\n",
        "",
        ("tests/core/test_records.py::test_apply_records_places_old_and_new_removals_of_one_list_together",),
    ),
    # 3. Calls, results and reasoning together.
    Mutation(
        "3",
        "sidecar/core/units.py",
        "_settled(call, parts, numbers, receipts, closing) for call in unit.calls",
        "_settled(call, parts, numbers, receipts, closing) for call in unit.calls[:1]",
        (
            f"{SETTLED}without_receipts_asks_for_a_result_of_each_call",
            f"{FIT}externalizes_the_whole_batch_when_its_last_result_came",
        ),
    ),
    Mutation(
        "3",
        "sidecar/core/contract.py",
        "if _joints(before.body, old_parts) != _joints(after.body, new_parts):",
        "if False:",
        (f"{CONTRACT}a_call_that_is_gone_fails", f"{CONTRACT}a_call_with_another_joint_fails"),
    ),
    Mutation(
        "3",
        "sidecar/core/cuts.py",
        "            if body[part.start] != _QUOTE or part.flags & PartFlag.SIGNED:\n                return []",
        "            if body[part.start] != _QUOTE or part.flags & PartFlag.SIGNED:\n                continue",
        (f"{FIT}of_reasoning_that_cannot_all_go_keeps_all_of_its_turn",),
    ),
    Mutation(
        "3",
        "sidecar/core/fit.py",
        "if not unit.reasoning or unit.turn[-1] >= current or",
        "if not unit.reasoning or",
        (f"{FIT}takes_reasoning_of_earlier_turns_whole_and_never_of_the_current_one",),
    ),
    # 4. Unsettled work is never retired; one dangling call does not block the rest.
    Mutation(
        "4",
        "sidecar/core/fit.py",
        "if not unit.settled or not _is_fresh(view, unit):",
        "if not _is_fresh(view, unit):",
        (f"{FIT}externalizes_the_whole_batch_when_its_last_result_came",),
    ),
    Mutation(
        "4",
        "sidecar/core/fit.py",
        "        if not unit.settled or not _is_fresh(view, unit):\n            continue",
        "        if not unit.settled or not _is_fresh(view, unit):\n            break",
        (f"{FIT}externalizes_what_comes_after_a_unit_that_is_open{_CHAT}",),
    ),
    Mutation(
        "4",
        "sidecar/core/fit.py",
        "        if unit.settled:\n            found.extend(candidate for _, candidate in",
        "        if True:\n            found.extend(candidate for _, candidate in",
        (f"{FIT}never_cuts_an_unsettled_unit_and_cuts_all_others",),
    ),
    Mutation(
        "4",
        "sidecar/core/fit.py",
        "                if unit.settled and not call.server and not view.pinned(call):",
        "                if not call.server and not view.pinned(call):",
        (f"{FIT}takes_media_in_old_settled_results_only",),
    ),
    Mutation(
        "4",
        "sidecar/core/fit.py",
        "        if not unit.settled:\n            continue\n        for call in unit.calls:\n            if view.pinned(call):",
        "        for call in unit.calls:\n            if view.pinned(call):",
        (f"{FIT}never_cuts_a_dangling_call{_CHAT}", f"{FIT}keeps_reasoning_of_unsettled_and_pinned_turns{_CHAT}"),
    ),
    Mutation(
        "4",
        "sidecar/core/units.py",
        "    if not final:\n        return False\n",
        "",
        (f"{SETTLED}of_one_dangling_call_leaves_other_units_settled", f"{SETTLED}of_a_closing_result_is_not_final"),
    ),
    Mutation(
        "4",
        "sidecar/engine/fit_call.py",
        "        self.not_final = self._closing({key: closed[key] for",
        "        self.not_final = self._closing({key: closed[key] for key in () for",
        (
            "tests/engine/test_recover.py::test_real_results_of_some_calls_and_closing_ones_of_others_stay_told_apart"
            "[anthropic-messages]",
        ),
    ),
    Mutation(
        "4",
        "sidecar/core/units.py",
        "        return any(numbers[parts[index].item] >= receipt.next_number for index in final)",
        "        return True",
        (
            f"{SETTLED}of_an_answered_call_follows_its_receipt",
            f"{SETTLED}of_a_second_result_after_a_pending_receipt_is_settled",
        ),
    ),
    Mutation(
        "4",
        "sidecar/core/contract.py",
        '        if not each.settled:\n            raise _broken("unsettled work was touched")\n',
        "",
        ("tests/core/test_contract.py::test_check_finished_of_work_that_is_not_settled_fails",),
    ),
    # 5. The text of every user item, verbatim.
    Mutation(
        "5",
        "sidecar/core/contract.py",
        '    raise _broken(f"an edit of kind {each.kind.name} stands where it may not")',
        "    return",
        (f"{CONTRACT}a_users_text_that_was_touched_fails", f"{CONTRACT}an_element_that_is_no_reasoning_fails"),
    ),
    Mutation(
        "5",
        "sidecar/core/contract.py",
        '                if along.strip(b" \\t\\r\\n") in (b"", b","):\n                    return',
        "                return",
        (f"{CONTRACT}text_that_is_left_out_with_reasoning_fails",),
    ),
    Mutation(
        "5",
        "sidecar/core/fit.py",
        "view.items[at].role == Role.USER and at != newest_user_media:",
        "view.items[at].role == Role.USER:",
        (f"{FIT}takes_old_user_media_but_never_the_newest{_CHAT}",),
    ),
    # 7. Durable, and read back, before the reply.
    Mutation(
        "7",
        "sidecar/engine/commit.py",
        "            future.result(engine.config.write_timeout_s)",
        "            pass",
        (f"{ENGINE}answers_only_after_the_flush", f"{ENGINE}whose_flush_does_not_end_is_an_error"),
    ),
    Mutation(
        "7",
        "sidecar/engine/commit.py",
        "            engine.reader.verify(key, artifact_id)",
        "            pass",
        (f"{ENGINE}reads_back_what_its_stubs_name_before_it_answers",),
    ),
    # 8. Accepted only when it saves its minimum or rescues from a hard limit.
    Mutation(
        "8",
        "sidecar/core/fit.py",
        "enough = (for_soft and saved >= limits.min_saving_bytes) or",
        "enough = for_soft or",
        (f"{FIT}needs_the_minimum_saving{_CHAT}",),
    ),
    Mutation(
        "8",
        "sidecar/core/fit.py",
        "(early and saved >= EARLY_MIN_SAVING_BYTES)",
        "early",
        (f"{FIT}on_a_lost_cache_cuts_over_half_of_soft_for_4096_bytes{_CHAT}",),
    ),
    Mutation(
        "8",
        "sidecar/core/fit.py",
        "and for_hard and (after <= limits.hard_bytes or saved >= limits.min_saving_bytes)",
        "and for_hard",
        (f"{FIT}over_a_hard_limit_needs_no_minimum_when_it_gets_under_it{_CHAT}",),
    ),
    Mutation(
        "8",
        "sidecar/core/contract.py",
        "    if len(after.body) != size_bytes:",
        "    if False:",
        (f"{CONTRACT}another_size_than_computed_fails",),
    ),
    # 10. Committed records never change: a value that one replaced gets no other.
    Mutation(
        "10",
        "sidecar/core/cuts.py",
        "        if _replaced(full, taken):\n            continue\n",
        "",
        (f"{FIT}counts_what_records_saved_already{_CHAT}",),
    ),
    # 11. The same body with the same records gives the same bytes.
    Mutation(
        "11",
        "sidecar/core/projection.py",
        "            applied.extend(found)",
        "            pass",
        (f"{ENGINE}of_the_same_body_gives_the_same_bytes_whatever_the_call_brings[wide-openai-chat]",),
    ),
    Mutation(
        "11",
        "sidecar/core/records.py",
        "    gone = removals(records, record_count)\n",
        "    gone = []\n",
        ("tests/core/test_records.py::test_apply_records_with_an_element_left_out_finds_what_moved",),
    ),
    Mutation(
        "11",
        "sidecar/core/match.py",
        "            if record_count is None:\n",
        "            if False:\n",
        (f"{MATCH}the_looser_form_matches_at_the_expected_position_only",),
    ),
    # 12. Unknown stays unknown.
    Mutation(
        "12",
        "sidecar/core/tokens.py",
        "usage.cached_input_tokens == 0 and",
        "not usage.cached_input_tokens and",
        (f"{TOKENS}cache_lost_only_when_it_is_known[usage6-0-0-False]",),
    ),
    Mutation(
        "12",
        "sidecar/core/tokens.py",
        "known = usage.input_tokens is not None and usage.input_tokens > 0 and body_bytes > 0",
        "known = body_bytes > 0",
        (f"{TOKENS}ratio_of_a_count_that_was_not_measured_stays_unknown[usage1]",),
    ),
    Mutation(
        "12",
        "sidecar/core/units.py",
        "for index in final)\n    return False",
        "for index in final)\n    return True",
        (f"{SETTLED}of_an_answered_call_follows_its_receipt",),
    ),
    Mutation(
        "12",
        "sidecar/engine/fit_answer.py",
        "        return None, TokenBasis.UNKNOWN",
        "        return 0, TokenBasis.UNKNOWN",
        (f"{ENGINE}without_usage_says_that_tokens_are_unknown_and_not_zero",),
    ),
    # 14. No rule is broken that was not broken on arrival, checked on the whole body, every time.
    Mutation(
        "14",
        "sidecar/core/contract.py",
        "    if worse:\n",
        "    if False:\n",
        (f"{CONTRACT}a_rule_that_breaks_now_fails",),
    ),
    Mutation(
        "14",
        "sidecar/core/contract.py",
        "            known[key] -= 1",
        "            pass",
        ("tests/core/test_contract.py::test_new_violations_compares_by_rule_and_item_and_counts",),
    ),
    Mutation(
        "14",
        "sidecar/core/contract.py",
        "    if lost < 0 or (folded is None and lost > 0 and lost > _joined_markers(before, placed)):",
        "    if False:",
        (f"{CONTRACT}a_marker_that_is_multiplied_fails", f"{CONTRACT}a_marker_that_is_lost_fails"),
    ),
    Mutation(
        "14",
        "sidecar/core/units.py",
        "        settled = not broken and all(",
        "        settled = all(",
        (f"{SETTLED}of_a_faulty_item_holds_its_unit_only",),
    ),
    # The preservation table's row for Fit.
    Mutation(
        "provenance",
        "sidecar/core/stubs.py",
        'return f"{facts.read_tool} artifact_id={artifact_id}" if facts.read_tool else f"artifact {artifact_id}"',
        "return facts.read_tool",
        (
            f"{STUBS}arguments_says_that_they_are_not_to_be_copied",
            f"{STUBS}any_result_begins_with_our_fence_and_names_its_artifact",
        ),
    ),
    Mutation(
        "provenance",
        "sidecar/engine/fit_answer.py",
        "Reduction(candidate.kind, candidate.item, ref,",
        "Reduction(candidate.kind, candidate.item, None,",
        (f"{ENGINE}tells_of_each_reduction_its_artifact_source_and_place{_CHAT}",),
    ),
    Mutation(
        "unresolved_work",
        "sidecar/core/fit.py",
        "        if unit.settled:\n            found.extend(\n",
        "        if True:\n            found.extend(\n",
        (f"{FIT}never_cuts_an_unsettled_unit_in_the_tail{_CHAT}",),
    ),
    Mutation(
        "unresolved_work",
        "sidecar/core/contract.py",
        "        if unit.settled:\n            continue\n",
        "        continue\n",
        ("tests/core/test_contract.py::test_open_spans_holds_all_of_unsettled_units_and_nothing_else",),
    ),
    Mutation(
        "recovery",
        "sidecar/core/fit.py",
        "    if view.can_cut and (for_hard or for_soft or early):",
        "    if for_hard or for_soft or early:",
        (f"{FIT}without_a_way_to_read_back_cuts_nothing{_CHAT}",),
    ),
    Mutation(
        "recovery",
        "sidecar/core/fit.py",
        "    cuts = _arrivals(view) if view.can_cut else []",
        "    cuts = _arrivals(view)",
        (f"{FIT}without_a_way_to_read_back_cuts_nothing{_CHAT}",),
    ),
    Mutation(
        "constraints",
        "sidecar/core/contract.py",
        "        if part.kind not in kinds:\n            continue\n",
        "",
        (f"{CONTRACT}a_users_text_that_was_touched_fails",),
    ),
    # Compaction.
    Mutation(
        "3",
        "sidecar/core/select.py",
        "    if not all(own):\n        return False, ()\n",
        "",
        ("tests/core/test_select.py::test_select_results_that_are_not_alone_its_own_stay[two units]",),
    ),
    Mutation(
        "4",
        "sidecar/core/select.py",
        "    if not unit.settled or any(view.pinned(call) for call in unit.calls):\n        return None\n",
        "",
        ("tests/core/test_select.py::test_select_one_dangling_call_blocks_only_its_unit[chat]",),
    ),
    Mutation(
        "5",
        "sidecar/core/fold_contract.py",
        "        if not words or (said and words[0] != said):\n",
        "        if not words:\n",
        ("tests/invariants/test_compact_invariants.py::test_finished_body_that_changes_a_word_is_refused",),
    ),
    Mutation(
        "5",
        "sidecar/core/unfold.py",
        "    if len(here) == len(hits) or opener.goes_on(edit):\n",
        "    if len(here) == len(hits):\n",
        ("tests/core/test_unfold.py::test_unfold_quote_of_a_summary_of_a_left_branch_is_text[openai-chat]",),
    ),
    Mutation(
        "14",
        "sidecar/engine/shape.py",
        "        found = _try(call, _applicable(call, [one.record]))\n",
        "        found = None\n",
        ("tests/engine/test_step_aside.py::test_fit_one_broken_layout_of_three_steps_aside_alone[1-openai-chat]",),
    ),
    Mutation(
        "6",
        "sidecar/engine/compaction.py",
        "            if not numbers.isdisjoint(own) and all(fit.refs.index_of(number) >= 0 for number in own):\n",
        "            if False:\n",
        ("tests/engine/test_step_aside.py::test_compact_beside_a_broken_layout_covers_what_that_covered[openai-chat]",),
    ),
    Mutation(
        "5",
        "sidecar/core/summary.py",
        '        _section("Constraints, binding until revoked", _entries(facts.anchors.constraints, places)),\n',
        "",
        ("tests/invariants/test_compact_invariants.py::test_anchors_in_force_stand_verbatim[openai-chat]",),
    ),
    Mutation(
        "5",
        "sidecar/engine/fit_call.py",
        "each.record.anchors_revision < self.anchors.revision",
        "False",
        ("tests/invariants/test_compact_invariants.py::test_anchors_that_changed_are_told[openai-chat]",),
    ),
    Mutation(
        "6",
        "sidecar/engine/compact_finish.py",
        "            if attempt.mode is CompactMode.REDERIVE and each.revision <= attempt.base_revision\n",
        "",
        (
            "tests/engine/test_compact_kept.py::test_finish_of_a_range_that_a_receipt_unsettled_or_another_covered_is_kept[openai-chat]",
        ),
    ),
    Mutation(
        "6",
        "sidecar/engine/intake.py",
        "        unfolded = body if opened is None else opened.unfolded\n",
        "        unfolded = body\n",
        ("tests/invariants/test_compact_invariants.py::test_summary_is_never_input_to_a_summary[openai-chat]",),
    ),
    Mutation(
        "8",
        "sidecar/engine/compaction.py",
        "        if saved < limits.compact_min_saving_bytes and not (rescues and saved > 0) and not (over and self.too_large()):",
        "        if False:",
        ("tests/engine/test_compact_kept.py::test_compact_that_saves_less_than_asked_is_low_benefit_with_both_figures",),
    ),
    Mutation(
        "8",
        "sidecar/engine/compaction.py",
        "        if over:\n",
        "        if False:\n",
        ("tests/engine/test_compact_kept.py::test_compact_whose_fixed_parts_alone_are_over_says_so",),
    ),
    Mutation(
        "10",
        "sidecar/core/checkpoints.py",
        "record.checkpoint_id not in back and record.checkpoint_id not in superseded",
        "record.checkpoint_id not in superseded",
        (
            "tests/engine/test_compact_kept.py::test_rollback_takes_back_later_ones_too_and_the_range_needs_force_then[openai-chat]",
        ),
    ),
    Mutation(
        "9",
        "sidecar/core/foreign.py",
        '    return "\\n".join(f"{LINE_MARK}{_without_roles(printable(line))}".rstrip() for line in lines)',
        '    return "\\n".join(lines)',
        ("tests/invariants/test_compact_invariants.py::test_notes_of_a_model_pose_as_nobody",),
    ),
    Mutation(
        "9",
        "sidecar/core/foreign.py",
        '    quoted = quote(_without_roles(_BREAK.sub(" ", seen)), limit_bytes)',
        '    quoted = quote(_BREAK.sub(" ", seen), limit_bytes)',
        ("tests/core/test_summary.py::test_one_line_of_a_role_tag_is_none[<system>]",),
    ),
    Mutation(
        "13",
        "sidecar/engine/engine.py",
        "            if asked and (session.key, attempt.attempt_id) not in self._running:\n",
        "            if False:\n",
        ("tests/invariants/test_compact_invariants.py::test_model_attempt_of_a_dead_process_ends_as_unknown",),
    ),
)
