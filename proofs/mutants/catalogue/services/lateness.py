"""Bugs of what is held against instances whose queries are late."""

from __future__ import annotations

from typing import Final

from mutants.changes import Replace
from mutants.mutant import Mutant

LOOK: Final = "hetserve.scaling.context"
GROWTH: Final = "hetserve.scaling.actions.growth"
SHRINKING: Final = "hetserve.scaling.actions.shrinking"
SERVING: Final = "hetserve.reconcile.cluster.launch_times"
GROWING: Final = "tests/unit/scaling/test_growing.py"
SHRINKS: Final = "tests/unit/scaling/test_shrinking.py"
SERVES: Final = "tests/unit/reconcile/test_since_when_instances_serve.py"

LATENESS: Final = (
    Mutant(
        "lateness: what was late before a change served counts",
        LOOK,
        "calm_from",
        Replace("max(changed, served)", "served"),
        GROWING,
        "test_what_was_late_before_a_change_served_is_not_held_against_it",
    ),
    Mutant(
        "lateness: an instance that began anew gets no time",
        LOOK,
        "calm_from",
        Replace("max(changed, served)", "changed"),
        GROWING,
        "test_an_instance_that_launched_for_longer_or_began_anew_is_given_the_same_time",
    ),
    Mutant(
        "lateness: nobody hears until when late queries do not count",
        GROWTH,
        "late_until",
        Replace("facts.now < judged", "False"),
        GROWING,
        "test_until_when_late_queries_do_not_count_is_known",
    ),
    Mutant(
        "lateness: what is said of late queries comes and goes with each sample",
        "hetserve.reconcile.plans.autoscaled",
        "_late",
        Replace("late or (stored is not None and message in stored.message)", "late"),
        "tests/unit/operator/test_operator_scales.py",
        "test_late_queries_that_do_not_count_yet_are_named_until_they_do",
    ),
    Mutant(
        "lateness: what late queries asked for goes as soon as they are in time",
        SHRINKING,
        "stays_until",
        Replace("change.reason is ScalingReason.SLO_MISSED", "False"),
        SHRINKS,
        "test_what_late_queries_asked_for_stays_for_the_window_of_scaling_down",
    ),
    Mutant(
        "lateness: other counts that hold no more than what missed the SLO are tried",
        SHRINKING,
        "_holds_no_more",
        Replace("one.qps <= other.qps", "False"),
        SHRINKS,
        "test_what_holds_no_more_than_counts_that_missed_the_slo_is_not_gone_back_to_either",
    ),
    Mutant(
        "lateness: a rate that is lower by chance brings back what missed the SLO",
        SHRINKING,
        "_lower_than",
        Replace("surely_lower(QPS(measured), facts.demand.window)", "QPS(measured)"),
        SHRINKS,
        "test_a_rate_that_is_lower_by_chance_does_not_bring_back_what_missed_the_slo",
    ),
    Mutant(
        "lateness: what was added to a lower bound counts as measured",
        SHRINKING,
        "_lower_than",
        Replace("facts.demand.lower_bound", "False"),
        SHRINKS,
        "test_what_was_added_to_a_load_of_which_only_completions_are_counted_is_not_taken_for_load",
    ),
    Mutant(
        "lateness: the newest late queries keep nothing",
        "hetserve.demand.windows",
        "is_late",
        Replace("surely_missed(demand, share, Seconds(0.0))", "False"),
        SHRINKS,
        "test_nothing_shrinks_on_a_newest_sample_with_more_late_queries_than_chance_makes",
    ),
    Mutant(
        "lateness: that the newest queries are in time again wakes nobody",
        "hetserve_operator.demand.cache",
        "DemandCache._concerns",
        Replace("_is_late(before, wanted) is not _is_late(after, wanted)", "False"),
        "tests/unit/operator/test_demand_book.py",
        "test_a_newest_sample_that_is_late_no_more_wakes_a_service_that_may_shrink",
    ),
    Mutant(
        "lateness: that the minimum limits is quiet though the newest queries are late",
        "hetserve.scaling.dead_band",
        "DeadBand.covers",
        Replace("self.until < math.inf and surely_missed(demand, self.share, Seconds(0.0))", "False"),
        "tests/properties/test_quiet_load_laws.py",
        "test_who_looks_only_when_a_load_or_the_time_asks_decides_and_says_as_who_always_looks",
    ),
    Mutant(
        "lateness: what is late is swapped",
        "hetserve.scaling.actions.replacement",
        "replace_where_it_pays",
        Replace("is_doubtful(context)", "context.has_new_mix"),
        "tests/unit/scaling/test_mixes_and_swaps.py",
        "test_no_swap_while_queries_are_late_nor_soon_after_they_brought_instances",
    ),
    Mutant(
        "lateness: in virtual time clients wait for ever",
        "hetserve.scaling.replay.serving",
        "Play._give_up",
        Replace("self._run.waiting().any()", "False"),
        "tests/unit/scaling/replay/test_following_traces.py",
        "test_clients_give_up_queries_that_wait_for_long",
    ),
    Mutant(
        "lateness: in virtual time decisions do not see how many are late",
        "hetserve.scaling.replay.following",
        "run",
        Replace("play.attained(now)", "()"),
        "tests/unit/scaling/replay/test_following_traces.py",
        "test_a_profile_that_is_wrong_shows_in_late_queries_which_bring_instances_until_few_are_late",
    ),
    Mutant(
        "lateness: instances that are not in force count",
        SERVING,
        "served_since",
        Replace("counts[name] - 1", "-1"),
        SERVES,
        "test_what_is_not_in_force_says_nothing",
    ),
    Mutant(
        "lateness: a blip of Ready hides that queries are late",
        SERVING,
        "_began",
        Replace("pod.ready_since - pod.launch.warming", "pod.ready_since"),
        SERVES,
        "test_a_pod_that_becomes_ready_again_has_served_since_its_containers_run",
    ),
)
"""In the order of their modules."""
