"""Bugs of who leads, and of the fence between two leaders."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

FENCE: Final = "scheduler_extender/hetserve_extender/leader/fence.py"
FAULT: Final = "tests/modelcheck/test_single_faults.py"
TAKE_OVER: Final = "tests/unit/extender/test_take_over_goes_on.py"

LEADERS: Final = (
    Mutant(
        "two leaders: no fence",
        "scheduler_extender/hetserve_extender/leader/leadership.py",
        "if self.elector.candidate.handed_over:",
        "if self.elector.candidate:",
        FAULT,
        "test_a_bind_of_the_last_leader_lands_before_the_next_one_counts_or_never",
    ),
    Mutant(
        "two leaders: served before the watch has shown the fence",
        "scheduler_extender/hetserve_extender/leader/fencing.py",
        "return await self._write_all(start) and await self._all_shown()",
        "return await self._write_all(start)",
        FAULT,
        "test_a_bind_of_the_last_leader_lands_before_the_next_one_counts_or_never",
    ),
    Mutant(
        "two leaders: a take-over goes on although another may have led",
        "scheduler_extender/hetserve_extender/leader/leadership.py",
        "if known is None or not self.elector.continues(known.term):",
        "if known is None:",
        TAKE_OVER,
        "test_a_take_over_begins_anew_where_another_may_have_led",
    ),
    Mutant(
        "two leaders: the lease is given away in a take-over",
        "scheduler_extender/hetserve_extender/leader/leadership.py",
        "        if self.refusal():\n            log",
        "        if not self:\n            log",
        TAKE_OVER,
        "test_a_leader_that_ends_in_its_take_over_gives_no_lease_away",
    ),
    Mutant(
        "two leaders: the lease is given away before binds are answered",
        "scheduler_extender/hetserve_extender/leader/leadership.py",
        "        if open_binds:\n",
        "        if open_binds < 0:\n",
        FAULT,
        "test_a_leader_that_ends_gives_the_lease_up_only_where_none_of_its_binds_can_land",
    ),
    Mutant(
        "two leaders: a fence that a lapse interrupts passes for put up",
        "scheduler_extender/hetserve_extender/leader/fencing.py",
        "        if self._start is None:\n",
        "        if self._start is not None:\n            self._left.clear()\n        if self._start is None:\n",
        FAULT,
        "test_a_take_over_that_a_lapse_interrupts_puts_its_fence_up_after_it",
    ),
    Mutant(
        "two leaders: a leader that is ending still binds",
        "scheduler_extender/hetserve_extender/leader/leadership.py",
        "        self._serving = 0  # from",
        "        # from",
        FAULT,
        "test_a_leader_that_is_about_to_give_the_lease_up_sends_no_bind_that_began_before",
    ),
    Mutant(
        "two leaders: a bind of an earlier term is sent in a take-over",
        "scheduler_extender/hetserve_extender/leader/leadership.py",
        "return term if term == self._serving else None",
        "return term",
        TAKE_OVER,
        "test_a_bind_that_began_in_an_earlier_term_is_not_sent_in_a_take_over",
    ),
    Mutant(
        "two leaders: a bind without the revision it was decided on",
        FENCE,
        'body["metadata"] | {"resourceVersion": revision}',
        'body["metadata"]',
        FAULT,
        "test_a_bind_of_the_last_leader_lands_before_the_next_one_counts_or_never",
    ),
    Mutant(
        "two leaders: a term is asked for once only",
        FENCE,
        "if term is not None and self.term() == term:",
        "if term is not None:",
        "tests/unit/extender/test_leader_fence.py",
        "test_a_term_that_ends_while_the_pod_is_read_stops_the_bind_even_if_we_lead_again",
    ),
)
