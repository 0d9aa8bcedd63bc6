"""Bugs of who leads, and of the fence between two leaders."""

from __future__ import annotations

from typing import Final

from mutants.changes import DropStatement, Insert, Replace, always, never
from mutants.mutant import Mutant

LEADERSHIP: Final = "hetserve_extender.leader.leadership"
FENCE: Final = "hetserve_extender.leader.fence"
ROLLOUT: Final = "hetserve_extender.leader.rollout"
BINDING: Final = "hetserve_extender.verbs.binding"
ELECTOR: Final = "hetserve_shell.leader.elector"

FAULT: Final = "tests/modelcheck/test_single_faults.py"
GIVING_UP: Final = "tests/unit/shell_kit/test_giving_up_a_lease.py"
TAKE_OVER: Final = "tests/unit/extender/test_take_over_goes_on.py"

LEADERS: Final = (
    Mutant(
        "two leaders: no fence",
        LEADERSHIP,
        "Leadership",
        always("$candidate.handed_over"),
        FAULT,
        "test_a_bind_of_the_last_leader_lands_before_the_next_one_counts_or_never",
    ),
    Mutant(
        "two leaders: served before the watch has shown the fence",
        FENCE,
        "Fence",
        Replace("self.state is FenceState.WRITTEN and not self.unshown", "self.state is FenceState.WRITTEN"),
        FAULT,
        "test_a_bind_of_the_last_leader_lands_before_the_next_one_counts_or_never",
    ),
    Mutant(
        "two leaders: a take-over goes on although another may have led",
        LEADERSHIP,
        "Leadership",
        Replace("$known is None or not $elector.continues($known.term)", "$known is None"),
        TAKE_OVER,
        "test_a_take_over_begins_anew_where_another_may_have_led",
    ),
    Mutant(
        "two leaders: the lease is given away in a take-over",
        LEADERSHIP,
        "Leadership.end",
        never("self.serving() is None"),
        TAKE_OVER,
        "test_a_leader_that_ends_in_its_take_over_gives_no_lease_away",
    ),
    Mutant(
        "two leaders: the lease is given away before binds are answered",
        LEADERSHIP,
        "Leadership.end",
        Replace("sum(...)", "0"),
        FAULT,
        "test_a_leader_that_ends_gives_the_lease_up_only_where_none_of_its_binds_can_land",
    ),
    Mutant(
        "no leader: a lease is tried to be given up once, whatever the answer",
        ELECTOR,
        "Elector.release",
        always("await self._try_to_release()"),
        GIVING_UP,
        "test_a_renewal_that_was_written_and_not_answered_does_not_keep_it",
    ),
    Mutant(
        "two leaders: a fence that a lapse interrupts passes for put up",
        FENCE,
        "Fence.put_up",
        Insert("if self.began is not None:\n    self.unshown.clear()"),
        FAULT,
        "test_a_take_over_that_a_lapse_interrupts_puts_its_fence_up_after_it",
    ),
    Mutant(
        "two leaders: a leader that is ending still binds",
        LEADERSHIP,
        "Leadership.end",
        DropStatement("self.served = 0"),
        FAULT,
        "test_a_leader_that_is_about_to_give_the_lease_up_sends_no_bind_that_began_before",
    ),
    Mutant(
        "two leaders: a bind of an earlier term is sent in a take-over",
        LEADERSHIP,
        "Leadership.serving",
        always("self.served == $term"),
        TAKE_OVER,
        "test_a_bind_that_began_in_an_earlier_term_is_not_sent_in_a_take_over",
    ),
    Mutant(
        "two leaders: a bind without the revision it was decided on",
        BINDING,
        "binding",
        DropStatement('$metadata["resourceVersion"] = revision'),
        FAULT,
        "test_a_bind_of_the_last_leader_lands_before_the_next_one_counts_or_never",
    ),
    Mutant(
        "two leaders: a term is asked for once only",
        FENCE,
        "LeaderFence",
        always("self.term() == $term"),
        "tests/unit/extender/test_leader_fence.py",
        "test_a_term_that_ends_while_the_pod_is_read_stops_the_bind_even_if_we_lead_again",
    ),
    Mutant(
        "what changed with a pod's revision is not looked at",
        BINDING,
        "Binds",
        Replace("$placer.changed(...)", '""'),
        FAULT,
        "test_a_pod_that_gets_another_model_on_its_way_shares_with_nobody_of_that_model",
    ),
    Mutant(
        "an update: an extender that is not ready is given way",
        ROLLOUT,
        "Rollout",
        Replace("one.ready and self._born[one.template] > age", "self._born[one.template] > age"),
        "tests/unit/extender/test_rollout.py",
        "test_only_a_ready_extender_of_a_newer_template_is_given_way",
    ),
    Mutant(
        "an update: old extenders make way for one another",
        ROLLOUT,
        "Rollout",
        Replace("self._born[one.template] > age", "self._born[one.template] != age"),
        "tests/unit/extender/test_rollout.py",
        "test_of_any_pods_that_are_ready_one_contends",
    ),
    Mutant(
        "an update: the Lease is left for ever to one that never takes it",
        ROLLOUT,
        "Rollout",
        Replace("now < self._ready_since[other.template] + DEFERENCE", "True"),
        "tests/unit/extender/test_rollout.py",
        "test_who_is_given_way_and_never_leads_ends_nothing",
    ),
    Mutant(
        "an update: a pod that an old ReplicaSet makes again is the newest",
        ROLLOUT,
        "Rollout",
        Replace("min(known, one.created)", "max(known, one.created)"),
        "tests/unit/extender/test_rollout.py",
        "test_a_pod_that_an_old_replica_set_makes_again_is_no_newer_than_its_template",
    ),
    Mutant(
        "an update: the only extender ends for a new one",
        ROLLOUT,
        "Rollout.makes_way",
        always("len(self._pods) > PAIR"),
        "tests/unit/extender/test_rollout.py",
        "test_a_leader_ends_only_where_a_third_one_could_take_over",
    ),
)
