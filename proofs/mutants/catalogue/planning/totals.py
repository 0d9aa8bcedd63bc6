"""Bugs of bounds on all instances together: forgotten in a planner, in what is tried, in the checker, in the digest."""

from __future__ import annotations

from typing import Final

from mutants.changes import DropStatement, Replace, always, never
from mutants.mutant import Mutant

_PROGRAM: Final = "hetserve.planning.flow.programs.program"
_LEADING: Final = "hetserve.planning.flow.search.leading"
_CHECK: Final = "hetserve.planning.check"
_REACH: Final = "hetserve.planning.reach"
_MODEL: Final = "hetserve.planning.mincost.model"
_LAWS: Final = "tests/properties/test_total_laws.py"
_BY_HAND: Final = "tests/unit/planning/test_totals.py"
_REACHED: Final = "tests/unit/planning/test_reach.py"

TOTALS: Final = (
    Mutant(
        "totals: forgotten in the flow program",
        _PROGRAM,
        "_Builder._limit_rows",
        never("problem.bounds_total"),
        _LAWS,
        "test_the_least_cost_within_totals_is_that_of_all_counts",
    ),
    Mutant(
        "totals: flow has no instances for the least total",
        _PROGRAM,
        "_Builder._useful",
        DropStatement("enough = max(enough, self.table.problem.least_total)"),
        _LAWS,
        "test_the_least_cost_within_totals_is_that_of_all_counts",
    ),
    Mutant(
        "totals: flow tries what they forbid",
        _LEADING,
        "_within_total",
        Replace("table.problem.allows_total(sum(values))", "True"),
        _LAWS,
        "test_what_is_tried_keeps_the_totals",
    ),
    Mutant(
        "totals: flow thins out the least total",
        "hetserve.planning.flow.search.throughput",
        "_thin",
        Replace("max($types[$i].min_instances, $least - $others)", "$types[$i].min_instances"),
        _REACHED,
        "test_the_most_within_reach_has_the_least_total_though_some_idle",
    ),
    Mutant(
        "totals: forgotten in the integer program",
        _MODEL,
        "_limits",
        never("problem.bounds_total"),
        _LAWS,
        "test_the_integer_program_within_totals_costs_what_the_best_of_all_choices_does",
    ),
    Mutant(
        "totals: the heuristic exchanges nothing",
        "hetserve.planning.mincost.greedy",
        "scale_out",
        DropStatement("made = _exchanged(...)"),
        _BY_HAND,
        "test_at_most_so_many_instances_are_fewer_and_larger_ones",
    ),
    Mutant(
        "totals: the heuristic scales in below the least",
        "hetserve.planning.mincost.greedy",
        "scale_in",
        always("sum($fewer.counts) >= model.problem.least_total"),
        _BY_HAND,
        "test_at_least_so_many_instances_are_the_cheapest_that_carry_the_load_too",
    ),
    Mutant(
        "totals: the checker forgets the most",
        _CHECK,
        "_total_violations",
        never("problem.most_total is not None and total > problem.most_total"),
        _BY_HAND,
        "test_the_checker_counts_all_instances",
    ),
    Mutant(
        "totals: the checker forgets the least",
        _CHECK,
        "_total_violations",
        never("total < problem.least_total"),
        _BY_HAND,
        "test_the_checker_counts_all_instances",
    ),
    Mutant(
        "totals: a planner that knows none ignores them",
        "hetserve.planning.validate",
        "_total_errors",
        never("problem.bounds_total and planner in PLANNERS and not PLANNERS[planner].bounds_total"),
        _BY_HAND,
        "test_planners_that_keep_no_totals_refuse_them",
    ),
    Mutant(
        "an upgrade plans everything anew",
        "hetserve.reconcile.plans.planning_context",
        "_canonical",
        Replace("$absent or $one != $absent", "True"),
        "tests/unit/reconcile/test_inputs_digest.py",
        "test_a_field_that_a_later_version_adds_plans_nothing_anew",
    ),
    Mutant(
        "reach: the budget is forgotten",
        "hetserve.planning.flow.infeasible",
        "spendable",
        never("problem.budget is not None"),
        _REACHED,
        "test_the_most_within_reach_keeps_every_limit_and_says_both_numbers",
    ),
    Mutant(
        "reach: a capacity depends on the load",
        _REACH,
        "for_capacity",
        Replace("tuple(map(_bare, $problem.types))", "$problem.types"),
        _REACHED,
        "test_only_what_decides_the_capacity_does",
    ),
    Mutant(
        "reach: no load buys what serves a part",
        _PROGRAM,
        "_Builder.build",
        Replace("max($rate * self.table.typical, 1.0)", "$rate * self.table.typical"),
        _BY_HAND,
        "test_no_load_of_the_program_is_of_every_batch",
    ),
)
