"""Bugs of scaling decisions: windows forgotten, instances counted twice, swaps where there must be none."""

from __future__ import annotations

from typing import Final

from mutants.changes import Replace, always, never
from mutants.mutant import Mutant

GROWING: Final = "tests/unit/scaling/test_growing.py"
SHRINKING: Final = "tests/unit/scaling/test_shrinking.py"
LIMITS: Final = "tests/unit/scaling/test_limits_and_first_plans.py"
SWAPS: Final = "tests/unit/scaling/test_mixes_and_swaps.py"
SIZES: Final = "tests/unit/operator/test_operator_scales_with_the_mix.py"

SCALING: Final = (
    Mutant(
        "scaling: the window of scaling up is forgotten",
        "hetserve.scaling.context",
        "look_at",
        Replace("over(lowest, demand, rules.up.window)", "over(lowest, demand, 0.0)"),
        GROWING,
        "test_one_sample_within_the_capacity_in_the_window_prevents_it",
    ),
    Mutant(
        "scaling: the window of scaling down is forgotten",
        "hetserve.scaling.context",
        "look_at",
        Replace("over(highest, demand, rules.down.window)", "over(highest, demand, 0.0)"),
        SHRINKING,
        "test_a_peak_within_the_window_keeps_what_carries_it",
    ),
    Mutant(
        "scaling: instances that launch do not count",
        "hetserve.scaling.context",
        "look_at",
        Replace("in_order(facts.in_force.counts, facts.problem)", "in_order(facts.ready, facts.problem)"),
        GROWING,
        "test_instances_that_launch_count_once",
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
        Replace("load <= _usable(context, found.qps)", "True"),
        SHRINKING,
        "test_one_instance_fewer_must_carry_the_largest_load_of_the_window",
    ),
    Mutant(
        "scaling: a pause keeps a budget from being obeyed",
        "hetserve.scaling.actions.limits",
        "enforce_limits",
        never("broken.reason is ScalingReason.BUDGET_CUT"),
        LIMITS,
        "test_a_budget_cut_ignores_pauses_and_missing_metrics",
    ),
    Mutant(
        "scaling: a load that needs more is called quiet",
        "hetserve.scaling.dead_band",
        "DeadBand.covers",
        Replace("forecast <= self.most", "True"),
        "tests/properties/test_scaling_laws.py",
        "test_a_load_within_the_quiet_ones_is_found",
    ),
    Mutant(
        "scaling: a load that fewer carry is called quiet",
        "hetserve.scaling.dead_band",
        "DeadBand.covers",
        Replace("self.above < max(high, forecast) <= self.until", "max(high, forecast) <= self.until"),
        "tests/properties/test_scaling_laws.py",
        "test_a_load_within_the_quiet_ones_is_found",
    ),
    Mutant(
        "scaling: counts that missed the SLO are gone back to",
        "hetserve.scaling.actions.shrinking",
        "was_missed",
        Replace("missed < load", "False"),
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
        "mix: one that is stale moves instances",
        "hetserve.demand.measured_mix",
        "moved_mix",
        Replace("demand.freshness is not Freshness.FRESH or demand.mix is None", "demand.mix is None"),
        SIZES,
        "test_a_mix_that_is_not_fresh_changes_nothing",
    ),
    Mutant(
        "mix: a steady load hides that queries became larger",
        "hetserve.scaling.dead_band",
        "DeadBand.covers",
        never("self.mix is not None and moved_mix(self.mix, demand) is not None"),
        SIZES,
        "test_digits_of_the_mix_write_nothing_and_ask_for_no_look",
    ),
)
