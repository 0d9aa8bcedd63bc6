"""Bugs of services that follow their load where money, planners or time fail them."""

from __future__ import annotations

from typing import Final

from mutants.changes import Replace, never
from mutants.mutant import Mutant

LITTLE: Final = "tests/unit/operator/test_operator_scales_with_little.py"
SAID: Final = "tests/unit/operator/test_operator_says_what_limits.py"

CAPACITIES: Final = "hetserve.reconcile.plans.capacities"
KEPT: Final = "tests/unit/operator/test_operator_keeps_capacities.py"

FOLLOWING: Final = (
    Mutant(
        "following: what instances held under another profile counts",
        CAPACITIES,
        "_read",
        never('stored.get("inputs") != _digest(problem, counts, own, fewer)'),
        KEPT,
        "test_a_changed_profile_is_asked_about_again",
    ),
    Mutant(
        "following: what the user keeps above the budget is cut",
        "hetserve.reconcile.plans.plan_decision",
        "PlanDecision.ceiling",
        Replace("max(budget, self.record.cost)", "budget"),
        LITTLE,
        "test_what_runs_above_the_budget_stays_where_the_user_keeps_it",
    ),
    Mutant(
        "following: a service whose plan is all ready is Ready whatever its load",
        "hetserve.reconcile.status.build",
        "_health",
        Replace("carried is not False and _all_ready(decision, seen)", "_all_ready(decision, seen)"),
        SAID,
        "test_steps_that_come_later_leave_a_service_reconciling_until_they_carry_the_load",
    ),
    Mutant(
        "following: time alone wakes nobody",
        "hetserve.reconcile.step",
        "_wakes",
        Replace("None if decision.following is None else decision.following.turns_in", "None"),
        LITTLE,
        "test_a_step_that_must_wait_is_taken_though_nothing_happens",
    ),
    Mutant(
        "following: an SLO missed by little wakes nobody",
        "hetserve_operator.demand.cache",
        "_state",
        Replace("(attained_below, surely_missed)", "()"),
        "tests/unit/operator/test_demand_book.py",
        "test_a_slo_that_is_missed_throughout_its_window_wakes_however_little_the_figures_move",
    ),
    Mutant(
        "following: a load that moved while more was planned is never looked at",
        "hetserve_operator.work.controller",
        "Controller.reconcile",
        Replace("AFTER_STATUS if kept else rest", "rest"),
        LITTLE,
        "test_a_load_that_fell_while_more_was_planned_is_looked_at_at_once",
    ),
)
