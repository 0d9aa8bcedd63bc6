"""Bugs of scaling decisions: windows forgotten, instances counted twice, swaps where there must be none."""

from __future__ import annotations

from typing import Final

from mutants.changes import Replace, always, never
from mutants.mutant import Mutant

GROWING: Final = "tests/unit/scaling/test_growing.py"
SHRINKING: Final = "tests/unit/scaling/test_shrinking.py"
LIMITS: Final = "tests/unit/scaling/test_limits_and_first_plans.py"
SWAPS: Final = "tests/unit/scaling/test_mixes_and_swaps.py"
MIXES: Final = "tests/unit/operator/test_operator_follows_the_mix.py"
TRACES: Final = "tests/unit/scaling/replay/test_following_traces.py"

SCALING: Final = (
    Mutant(
        "scaling: the window of scaling up is forgotten",
        "hetserve.scaling.look",
        "look_at",
        Replace("over(lowest, demand, rules.up.window)", "over(lowest, demand, 0.0)"),
        GROWING,
        "test_one_sample_within_the_capacity_in_the_window_prevents_it",
    ),
    Mutant(
        "scaling: the window of scaling down is forgotten",
        "hetserve.scaling.look",
        "look_at",
        Replace("over(highest, demand, rules.down.window)", "over(highest, demand, 0.0)"),
        SHRINKING,
        "test_a_peak_within_the_window_keeps_what_carries_it",
    ),
    Mutant(
        "scaling: instances that launch do not count",
        "hetserve.scaling.look",
        "look_at",
        Replace("in_order(facts.in_force.counts, facts.problem)", "in_order(facts.ready, facts.problem)"),
        GROWING,
        "test_instances_that_launch_count_once",
    ),
    Mutant(
        "scaling: what is planned and not bound yet is room for more",
        "hetserve.scaling.plans.problems",
        "_less_planned",
        Replace("max(free[i] - amount * count, 0)", "free[i]"),
        LIMITS,
        "test_what_is_planned_and_not_bound_yet_takes_its_part_of_a_pool",
    ),
    Mutant(
        "scaling: a scale-up swaps",
        "hetserve.scaling.plans.problems",
        "_at_least",
        Replace("max(option.min_instances, min(count, option.most))", "option.min_instances"),
        GROWING,
        "test_no_type_loses_an_instance_though_a_swap_were_cheaper",
    ),
    Mutant(
        "scaling: what is not fresh is acted on",
        "hetserve.scaling.policy",
        "_followed",
        never("facts.demand.freshness is not Freshness.FRESH"),
        SHRINKING,
        "test_nothing_shrinks_on_what_is_not_fresh",
    ),
    Mutant(
        "scaling: the load of all instances is not asked of one fewer",
        "hetserve.scaling.actions.shrinking",
        "_spare",
        Replace("needed <= found.qps", "True"),
        SHRINKING,
        "test_one_instance_fewer_must_carry_the_largest_load_of_the_window",
    ),
    Mutant(
        "scaling: nothing is kept in hand before removing",
        "hetserve.scaling.actions.shrinking",
        "_spare",
        Replace("load * (1 + rules.tolerance) / rules.saturation", "load / rules.saturation"),
        TRACES,
        "test_noise_of_a_tenth_for_a_day_makes_at_most_one_change",
    ),
    Mutant(
        "scaling: recorded changes do not count towards step policies",
        "hetserve.scaling.steps",
        "_room",
        Replace("allowed - (added if way == 'up' else removed)", "allowed"),
        GROWING,
        "test_step_policies_bound_what_a_period_adds",
    ),
    Mutant(
        "scaling: a scarce type is planned again at once",
        "hetserve.scaling.scarcity",
        "scarce_types",
        Replace("now - REMEMBERED < change.at <= now", "False"),
        LIMITS,
        "test_a_scarce_type_is_left_out_for_three_minutes_and_then_no_longer",
    ),
    Mutant(
        "scaling: a pause keeps a budget from being obeyed",
        "hetserve.scaling.actions.limits",
        "_may",
        never("broken.reason is ScalingReason.BUDGET_CUT"),
        LIMITS,
        "test_a_budget_cut_ignores_pauses_and_missing_metrics",
    ),
    Mutant(
        "scaling: a trend counts whatever noise explains",
        "hetserve.scaling.seen",
        "rise",
        Replace("min(slope * launch, (MOST_GROWTH - 1) * low)", "slope * launch"),
        GROWING,
        "test_a_trend_no_more_than_doubles_the_load",
    ),
    Mutant(
        "scaling: a load that needs more is called quiet",
        "hetserve.scaling.quiet",
        "Quiet.covers",
        Replace("low + rise(demand, self.up, self.launch, low) <= self.most", "True"),
        "tests/properties/test_scaling_laws.py",
        "test_a_load_within_the_quiet_ones_is_found",
    ),
    Mutant(
        "scaling: a load that fewer carry is called quiet",
        "hetserve.scaling.quiet",
        "Quiet.covers",
        Replace("high > self.above", "True"),
        "tests/properties/test_scaling_laws.py",
        "test_a_load_within_the_quiet_ones_is_found",
    ),
    Mutant(
        "scaling: counts that missed the SLO are gone back to",
        "hetserve.scaling.actions.shrinking",
        "was_missed",
        Replace("load * reserve > change.load", "False"),
        SHRINKING,
        "test_counts_that_were_seen_to_miss_the_slo_are_not_gone_back_to",
    ),
    Mutant(
        "scaling: a swap need not pay",
        "hetserve.scaling.actions.replacement",
        "Swap.pays",
        always("self.saving * horizon / _HOUR > self.launch + self.overlap"),
        SWAPS,
        "test_a_swap_that_does_not_pay_within_the_horizon_is_not_made",
    ),
    Mutant(
        "scaling: old instances leave before new ones serve",
        "hetserve.scaling.replay.fleet",
        "Fleet.towards",
        Replace("s.ready <= now", "s.launched <= now"),
        TRACES,
        "test_old_instances_leave_when_new_ones_serve",
    ),
    Mutant(
        "scaling: a measured mix counts where nothing is measured",
        "hetserve.reconcile.plans.decision",
        "_mix_in_force",
        always("spec.metrics is not None"),
        MIXES,
        "test_the_declared_mix_counts_again_where_nothing_is_measured_any_more",
    ),
    Mutant(
        "scaling: a mix that is stale moves instances",
        "hetserve.scaling.mix",
        "follow_mix",
        Replace("demand.freshness is not Freshness.FRESH or demand.mix is None", "demand.mix is None"),
        MIXES,
        "test_a_mix_that_is_not_fresh_changes_nothing",
    ),
    Mutant(
        "scaling: a plan for another mix is an answer",
        "hetserve_operator.plans.book",
        "_Page._latest",
        Replace("work.problem.mix", "problem.mix"),
        "tests/unit/operator/test_plan_book.py",
        "test_a_plan_for_another_mix_is_no_answer",
    ),
    Mutant(
        "scaling: the plan's own pods are said to overlap",
        "hetserve.reconcile.staging",
        "costs",
        Replace("MicroDollarsPerHour(max(0, running - planned))", "MicroDollarsPerHour(running)"),
        "tests/unit/operator/test_operator_moves.py",
        "test_metrics_show_what_a_change_of_plan_costs_while_it_lasts",
    ),
)
