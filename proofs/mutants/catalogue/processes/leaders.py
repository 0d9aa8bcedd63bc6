"""Bugs of who leads, and of the fence between two leaders."""

from __future__ import annotations

from typing import Final

from mutants.changes import DropStatement, Replace, always, never
from mutants.mutant import Mutant

LEADERSHIP: Final = "hetserve_extender.leader.leadership"
FENCE: Final = "hetserve_extender.leader.fence"
SCHEDULERS: Final = "hetserve_extender.leader.lease_reader"
BINDING: Final = "hetserve_extender.verbs.binding"

FAULT: Final = "tests/modelcheck/test_single_faults.py"
RULES: Final = "tests/unit/extender/test_scheduler_lease.py"
TAKE_OVER: Final = "tests/unit/extender/test_take_over_goes_on.py"

LEADERS: Final = (
    Mutant(
        "two leaders: no fence",
        LEADERSHIP,
        "Leadership.listed",
        Replace("$take_over is None or self.state is LeadershipState.LISTING_AGAIN", "True"),
        FAULT,
        "test_a_bind_of_the_last_leader_lands_before_the_next_one_counts_or_never",
    ),
    Mutant(
        "two leaders: the fence of a later leader is passed by",
        LEADERSHIP,
        "Leadership.superseded",
        never("$stamp not in self.stamps"),
        FAULT,
        "test_a_leader_whose_scheduler_released_the_lease_binds_nothing_behind_the_fence_of_the_next",
    ),
    Mutant(
        "two leaders: a renewal counts from when it was read",
        SCHEDULERS,
        "SchedulerLease.observe",
        Replace("self._renewed(lease, since, at, wall)", "self._renewed(lease, sent, at, wall)"),
        RULES,
        "test_a_renewal_counts_from_when_the_read_before_it_was_sent",
    ),
    Mutant(
        "two leaders: the scheduler of any pod is ours",
        SCHEDULERS,
        "SchedulerLease.ours",
        always('$seen.holder.rpartition("_")[0] == self.host'),
        RULES,
        "test_only_the_scheduler_of_our_host_is_ours",
    ),
    Mutant(
        "two leaders: who holds a new Lease leads at once",
        SCHEDULERS,
        "_unknown_for",
        Replace("lease.duration - (wall - acquired)", "0.0"),
        RULES,
        "test_who_holds_a_new_lease_waits_for_as_long_as_one_of_before_may_lead",
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
        Replace("$known is None or not self.lease.continues($known.term)", "$known is None"),
        TAKE_OVER,
        "test_a_take_over_begins_anew_where_another_may_have_led",
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
        "BindStateMachine",
        Replace("$placer.changed(...)", '""'),
        FAULT,
        "test_a_pod_that_gets_another_model_on_its_way_shares_with_nobody_of_that_model",
    ),
)
