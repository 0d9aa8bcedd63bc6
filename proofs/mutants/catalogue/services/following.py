"""Bugs of services that follow their load where money, types, planners or time fail them."""

from __future__ import annotations

from typing import Final

from mutants.changes import Replace, always, never
from mutants.mutant import Mutant

SCALED: Final = "hetserve.reconcile.plans.autoscaled"
LITTLE: Final = "tests/unit/operator/test_operator_scales_with_little.py"
SAID: Final = "tests/unit/operator/test_operator_says_what_limits.py"
LIMITS: Final = "tests/unit/scaling/test_limits_and_first_plans.py"

CAPACITIES: Final = "hetserve.reconcile.plans.capacities"
KEPT: Final = "tests/unit/operator/test_operator_keeps_capacities.py"

FOLLOWING: Final = (
    Mutant(
        "following: a restart asks again what the instances hold",
        CAPACITIES,
        "Capacities.answering",
        never("found is not None"),
        KEPT,
        "test_a_restart_asks_nothing_where_nothing_changed",
    ),
    Mutant(
        "following: what instances held under another profile counts",
        CAPACITIES,
        "_read",
        never('stored.get("inputs") != _digest(problem, counts, own, fewer)'),
        KEPT,
        "test_a_changed_profile_is_asked_about_again",
    ),
    Mutant(
        "following: an edited figure counts",
        CAPACITIES,
        "_digest",
        Replace("sorted(fewer.items())", "()"),
        KEPT,
        "test_a_figure_that_somebody_edited_is_asked_again_and_mended",
    ),
    Mutant(
        "following: figures of a service at rest are not written",
        "hetserve.reconcile.status.build",
        "status_changed",
        never("answered"),
        KEPT,
        "test_figures_are_written_once_all_are_answered_and_never_again",
    ),
    Mutant(
        "following: a record above a lower budget counts as edited",
        "hetserve.reconcile.plans.planning_context",
        "is_right",
        Replace("replace(context.declared, budget=None) if follows else context.declared", "context.declared"),
        LITTLE,
        "test_a_budget_is_cut_while_planners_are_busy_and_said_afterwards",
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
        "following: a plan with a type that is gone is followed",
        SCALED,
        "_held",
        always("record.nonzero.keys() <= made.offers.keys()"),
        LITTLE,
        "test_a_type_that_may_be_used_no_longer_stays_while_paused_but_for_a_budget",
    ),
    Mutant(
        "following: a plan is recorded anew without a type that is gone",
        SCALED,
        "_kept",
        never("len(counts) < len(in_force.counts)"),
        LITTLE,
        "test_a_type_that_may_be_used_no_longer_stays_while_paused_but_for_a_budget",
    ),
    Mutant(
        "following: a load that swings about what can be held is said each time",
        SCALED,
        "choose_scaled",
        never("_is_still_short(context, decided)"),
        LITTLE,
        "test_noise_of_a_load_beyond_reach_writes_nothing",
    ),
    Mutant(
        "following: findings get new digits at each look",
        SCALED,
        "_steady",
        Replace("finding.as_stored(context.stored[kind])", "finding"),
        LITTLE,
        "test_noise_of_a_load_beyond_reach_writes_nothing",
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
        "following: metrics that go end a limit",
        SCALED,
        "_limited",
        always("_is_judged(facts, decided)"),
        SAID,
        "test_a_limit_stays_as_it_was_while_the_load_is_not_known",
    ),
    Mutant(
        "following: what the instances of before hold is shared among those of the new plan",
        "hetserve.reconcile.step",
        "_carried",
        Replace("following.holders.items()", "decision.counts.items()"),
        SAID,
        "test_a_change_of_plan_does_not_end_ready_while_what_is_ready_carries_the_load",
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
        "following: growth asks for each new load while planners work",
        "hetserve_operator.memory",
        "Memory.weighed",
        Replace("self._load[1]", "demand"),
        LITTLE,
        "test_a_load_that_rises_faster_than_planners_answer_brings_instances",
    ),
    Mutant(
        "following: leaving a type that is gone is called a scale-up",
        "hetserve.scaling.actions.limits",
        "_changed",
        Replace("_action(before, after)", "_action(context.counts, after)"),
        LIMITS,
        "test_leaving_a_type_that_is_gone_is_called_a_swap",
    ),
    Mutant(
        "following: a type that is gone stays where the others do alone",
        "hetserve.scaling.actions.limits",
        "_changed",
        Replace("is_same(after, before)", "is_same(after, context.counts)"),
        LIMITS,
        "test_a_type_that_is_gone_is_left_though_the_others_carry_the_load_alone",
    ),
    Mutant(
        "following: growth drops a type that a pause keeps",
        "hetserve.scaling.policy",
        "decide",
        never("not is_same(facts.in_force.counts, context.counts)"),
        LIMITS,
        "test_a_pause_of_scaling_down_keeps_a_type_that_is_gone_whatever_the_load",
    ),
    Mutant(
        "following: a budget that buys nothing reads as a failing planner",
        "hetserve.scaling.plans.found",
        "_nothing",
        always("most.reason not in _TOO_MUCH"),
        LITTLE,
        "test_a_budget_that_buys_nothing_is_said_as_long_as_it_lasts",
    ),
    Mutant(
        "following: a question that is open is dropped for a later one that is answered",
        "hetserve_operator.plans.queue",
        "PlannerQueue.run_pass",
        Replace("isinstance(answer, PlanPending) or not waits", "True"),
        "tests/unit/operator/test_planner_queue.py",
        "test_a_question_that_is_open_waits_though_a_later_one_of_the_same_look_is_answered",
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
