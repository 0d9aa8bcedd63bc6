"""Bugs of planner flow: of its program, of what is tried, and of the checker."""

from __future__ import annotations

from typing import Final

from mutants.changes import DropStatement, Replace, always, never
from mutants.mutant import Mutant

_PROGRAM: Final = "hetserve.planning.flow.programs.program"
_CHECK: Final = "hetserve.planning.check"
_LAWS: Final = "tests/properties/test_flow_program_laws.py"
_SEARCH: Final = "tests/properties/test_flow_search_laws.py"
_BY_HAND: Final = "tests/unit/planning/test_flow_program.py"
_CHECKED: Final = "tests/unit/planning/test_flow_check.py"
_PROOF: Final = "tests/unit/planning/test_flow_proof.py"

FLOW: Final = (
    Mutant(
        "flow leaves a class unserved",
        _PROGRAM,
        "_Builder._flow_rows",
        Replace(
            "np.where(served == columns.rate, -1.0, 1.0)",
            "np.where(served == columns.rate, -1.0 * (np.arange(len(served)) > ends[0]), 1.0)",
        ),
        _BY_HAND,
        "test_hetsevs_program_pays_for_types_that_keep_the_slo_at_every_batch",
    ),
    Mutant(
        "flow plans more late queries than the SLO allows",
        _PROGRAM,
        "_Builder._flow_rows",
        never("late.any()"),
        _BY_HAND,
        "test_the_late_queries_that_the_slo_allows_may_be_planned",
    ),
    Mutant(
        "flow forgets what launches weigh",
        _PROGRAM,
        "_Builder._columns",
        Replace("charge if charged else 0", "0"),
        _BY_HAND,
        "test_running_instances_are_kept_where_launching_is_dear",
    ),
    Mutant(
        "flow keeps no time for waiting",
        _PROGRAM,
        "_Builder.__init__",
        Replace("$table.problem.slo.latency * (1 - $margin.wait)", "$table.problem.slo.latency"),
        _BY_HAND,
        "test_a_spread_and_a_wait_send_queries_to_the_steadier_type",
    ),
    Mutant(
        "flow fills instances whatever the margin",
        _PROGRAM,
        "_Builder._flow_rows",
        Replace("-self.margin.saturation", "-1.0"),
        _LAWS,
        "test_the_least_cost_is_that_of_all_counts",
    ),
    Mutant(
        "flow takes the solver's tolerance for money",
        _PROGRAM,
        "_Builder.answer",
        always("$table.cost(counts) <= budget"),
        _SEARCH,
        "test_a_budget_is_kept_to_the_last_micro_dollar",
    ),
    Mutant(
        "flow drops the pools",
        _PROGRAM,
        "_Builder._limit_rows",
        DropStatement("model.row([$columns.new[$i] for $i in $mine], $shares, -INFINITY, $most)"),
        _BY_HAND,
        "test_what_runs_takes_nothing_more_from_its_pool",
    ),
    Mutant(
        "flow says a least cost that nobody proved",
        "hetserve.planning.flow.search.cost",
        "_cheapest_proved",
        always("proof.holds(values, load)"),
        _PROOF,
        "test_a_least_cost_found_by_luck_is_not_the_plan",
    ),
    Mutant(
        "flow says a rate that nobody proved",
        "hetserve.planning.flow.planner",
        "_most_throughput",
        Replace("proof.near(run.best, run.rate)", "run.rate"),
        _PROOF,
        "test_the_rate_that_is_said_is_the_proved_one",
    ),
    Mutant(
        "the checker lets a class go unserved",
        _CHECK,
        "_unserved",
        Replace("found[batch] != 1", "found[batch] > 1"),
        _CHECKED,
        "test_a_broken_promise_is_named",
    ),
    Mutant(
        "the checker counts no time",
        _CHECK,
        "_flows",
        never("$busy[$option.name] > $count * (1 + _LOAD_SLACK)"),
        _CHECKED,
        "test_a_broken_promise_is_named",
    ),
    Mutant(
        "the checker counts no late queries",
        _CHECK,
        "_flows",
        DropStatement("late += ..."),
        _CHECKED,
        "test_a_broken_promise_is_named",
    ),
    Mutant(
        "the checker forgets what was promised",
        _CHECK,
        "_flows",
        never("$total < Fraction($promised) * (1 - _LOAD_SLACK)"),
        _CHECKED,
        "test_a_broken_promise_is_named",
    ),
)
