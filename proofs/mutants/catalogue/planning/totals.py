"""Bugs of bounds on all instances together, and of the budget: forgotten in a planner and in the checker."""

from __future__ import annotations

from typing import Final

from mutants.changes import never
from mutants.mutant import Mutant

_PROGRAM: Final = "hetserve.planning.flow.programs.program"
_CHECK: Final = "hetserve.planning.check"
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
        "totals: the checker forgets the most",
        _CHECK,
        "_total_violations",
        never("problem.most_total is not None and total > problem.most_total"),
        _BY_HAND,
        "test_the_checker_counts_all_instances",
    ),
    Mutant(
        "reach: the budget is forgotten",
        "hetserve.planning.flow.infeasible",
        "spendable",
        never("problem.budget is not None"),
        _REACHED,
        "test_the_most_within_reach_keeps_every_limit_and_says_both_numbers",
    ),
)
