"""Bugs of a change of plan: gaps, money that is spent twice, and cuts that wait."""

from __future__ import annotations

from typing import Final

from mutants.changes import Replace
from mutants.mutant import Mutant

TRANSITION: Final = "hetserve.transition.next_counts"
OPERATOR: Final = "tests/unit/operator/test_operator_moves.py"

MOVES: Final = (
    Mutant(
        "a change of plan: the old go before the new are ready",
        TRANSITION,
        "_Transition.is_enough",
        Replace("ready_of(counts, self.held)", "counts"),
        OPERATOR,
        "test_a_change_of_type_keeps_the_old_until_the_new_serve",
    ),
    Mutant(
        "a change of plan: what terminates is not charged",
        "hetserve.transition.staging",
        "Instances.most",
        Replace("max(self.replicas, self.live) + self.terminating", "max(self.replicas, self.live)"),
        OPERATOR,
        "test_a_budget_without_room_costs_no_more_capacity_than_it_must",
    ),
    Mutant(
        "a budget cut waits for the planner",
        "hetserve.reconcile.step",
        "_moved",
        Replace(
            "_cut(snapshot, decision, held) if decision.shrinks else NextWrite()",
            "_cut(snapshot, decision, held) if decision.shrinks and decision.offers else NextWrite()",
        ),
        "tests/unit/operator/test_untried_plans.py",
        "test_a_lower_budget_does_not_wait_for_the_planner",
    ),
    Mutant(
        "a budget cut takes what carries most first",
        "hetserve.transition.budget_cut",
        "_Cut._least",
        Replace("self._loss(kept, n)", "tuple(-loss for loss in self._loss(kept, n))"),
        "tests/unit/transition/test_budget_cut.py",
        "test_what_carries_least_for_its_money_goes_first",
    ),
)
