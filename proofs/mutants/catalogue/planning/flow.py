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
_WAITING: Final = "hetserve.planning.flow.search.waiting"
_UNTRIED: Final = "tests/unit/planning/test_flow_untried.py"
_RACE: Final = "hetserve.planning.flow.search.throughput"
_RACED: Final = "tests/unit/planning/test_flow_race.py"

FLOW: Final = (
    Mutant(
        "an untried plan: a class waits where it is not served in time",
        _WAITING,
        "_in_time",
        Replace("(late <= _OFTEN_LATE)", "(late <= 1)"),
        _UNTRIED,
        "test_a_class_waits_only_where_it_is_served_in_time",
    ),
    Mutant(
        "an untried plan: instances count alike, whatever they add",
        _WAITING,
        "_servers",
        Replace(
            "np.maximum(found.per_instance, _FAINT * found.per_instance.max())", "np.ones_like(found.per_instance)"
        ),
        _UNTRIED,
        "test_types_count_by_what_an_instance_adds",
    ),
    Mutant(
        "an untried plan: service times do not vary",
        _WAITING,
        "_Queues.busy",
        Replace("y * self.services + y * y / 2 * self.variances", "y + 0 * self.services"),
        _UNTRIED,
        "test_service_times_that_vary_leave_less",
    ),
    Mutant(
        "an untried plan: nobody waits longer than its own service leaves",
        _WAITING,
        "_Queues.late",
        Replace("np.maximum(parts - tails, 0.0)", "0.0"),
        "tests/unit/planning/test_plans_say_what_is_true.py",
        "test_a_quick_plan_has_instances_in_hand_where_most_that_may_be_late_are_late_without_a_wait",
    ),
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
        "flow ignores the spread",
        "hetserve.planning.flow.programs.classes",
        "ClassTable.misses",
        Replace("_beyond(self.latency, limit)", "np.where(self.latency.means > limit, 1.0, 0.0)"),
        _BY_HAND,
        "test_a_spread_and_a_wait_send_queries_to_the_steadier_type",
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
        Replace("launch_charge(option, problem.launch_weight)", "0"),
        _BY_HAND,
        "test_running_instances_are_kept_where_launching_is_dear",
    ),
    Mutant(
        "flow charges the launch of what runs",
        _PROGRAM,
        "_Builder._limit_rows",
        Replace("$types[$i].running", "0"),
        _BY_HAND,
        "test_what_runs_takes_nothing_more_from_its_pool",
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
        "flow drops the cut",
        _PROGRAM,
        "_Builder.build",
        DropStatement("self._cut_rows(...)"),
        _LAWS,
        "test_a_cut_gives_the_next_counts_and_never_more",
    ),
    Mutant(
        "flow takes the solver's tolerance for money",
        _PROGRAM,
        "_Builder.answer",
        always("cost <= budget"),
        _SEARCH,
        "test_a_budget_is_kept_to_the_last_micro_dollar",
    ),
    Mutant(
        "flow leaves out a type for one that has reached its limit",
        "hetserve.planning.flow.programs.classes",
        "needless",
        always("$n < $o.most"),
        _SEARCH,
        "test_a_type_is_needless_where_another_is_no_slower_no_dearer_and_without_limit",
    ),
    Mutant(
        "flow ranks by what the nearest counts hold",
        _PROGRAM,
        "FluidRates.highest",
        Replace("scale * self._prices[at]", "0 * scale * self._prices[at]"),
        _SEARCH,
        "test_the_highest_rate_is_found_though_another_is_asked_for_first",
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
        "flow buys instances that no query reaches",
        _PROGRAM,
        "_Builder._useful",
        Replace("min(self._most(...), $enough)", "self._most($enough, None)"),
        _BY_HAND,
        "test_no_instance_is_bought_that_no_query_can_reach",
    ),
    Mutant(
        "flow asks about counts and answers for those before",
        _PROGRAM,
        "FluidRates._solved",
        DropStatement("run(self._highs)"),
        _LAWS,
        "test_rates_do_not_depend_on_what_was_asked_before",
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
        "flow proves with the draws by which it chose",
        "hetserve.planning.flow.search.proof",
        "proving",
        Replace("seed + 10", "seed"),
        _PROOF,
        "test_choosing_and_proving_share_no_draw",
    ),
    Mutant(
        "flow prefers types by name",
        "hetserve.planning.flow.programs.classes",
        "_ordered",
        Replace("sorted(range(len(known)), key=key)", "sorted(range(len(known)), key=lambda i: problem.types[i].name)"),
        "tests/properties/test_flow_plan_laws.py",
        "test_renamed_types_give_the_renamed_plan",
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
        "the checker lets a batch be in two classes",
        _CHECK,
        "_unserved",
        Replace("found[batch] != 1", "found[batch] < 1"),
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
    Mutant(
        "a trial of flow passes on one run though its backlog rises",
        "hetserve.simulation.trial",
        "TrialSetup.at",
        always("looks_steady(backlogs)"),
        "tests/unit/simulation/test_stability.py",
        "test_a_trial_ends_with_the_runs_that_show_a_growing_backlog",
    ),
    Mutant(
        "a trial of flow goes on where its backlog grows for sure",
        "hetserve.simulation.trial",
        "TrialSetup.at",
        never("grows(backlogs, len(works))"),
        "tests/unit/simulation/test_stability.py",
        "test_a_trial_ends_with_the_runs_that_show_a_growing_backlog",
    ),
    Mutant(
        "flow runs neighbours of the winner alone",
        _RACE,
        "overtaken",
        Replace("$run.runners_up()", "[$run.best]"),
        _RACED,
        "test_a_neighbour_of_a_runner_up_that_was_refused_by_little_wins",
    ),
    Mutant(
        "flow takes what was refused by far for a runner-up",
        "hetserve.planning.flow.search.judge",
        "Judge.suggested",
        Replace("len($made.ratios) < 2 and not $made.unstable", "False"),
        _RACED,
        "test_a_trial_suggests_a_rate_only_to_what_fails_by_little",
    ),
    Mutant(
        "flow leaves out instances down to the fluid rate",
        _RACE,
        "Race.enter",
        Replace("min($found / _NEAR, (1 - FINE) * $top)", "0.0"),
        _RACED,
        "test_instances_are_left_out_unless_the_rest_comes_close_to_its_fluid_rate",
    ),
)
