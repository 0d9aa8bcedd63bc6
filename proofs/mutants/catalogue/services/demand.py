"""Bugs of what is taken for a service's load."""

from __future__ import annotations

from typing import Final

from mutants.changes import Replace, always, never
from mutants.mutant import Mutant

ANSWERS: Final = "hetserve.demand.answers"
BOOK: Final = "hetserve_operator.demand.cache"
CONTRACT: Final = "hetserve_operator.demand.contract"
MIX: Final = "hetserve.demand.measured_mix"
QUERIES: Final = "hetserve.demand.queries"
READING: Final = "hetserve.demand.reading"
WINDOWS: Final = "hetserve.demand.windows"

HELD: Final = "tests/unit/demand/test_windows.py"
LATER: Final = "tests/unit/operator/test_demand_book.py"
POLLED: Final = "tests/unit/operator/test_demand_poller.py"
READ: Final = "tests/unit/demand/test_reading.py"
UNDERSTOOD: Final = "tests/unit/demand/test_answers.py"

NAMED: Final = "tests/unit/demand/test_batch_distributions.py"

DEMAND: Final = (
    Mutant(
        "the mean of a log-normal mix is taken for its logarithm's",
        "hetserve.demand.batches",
        "expanded",
        Replace("math.log(mean) - variance / 2", "math.log(mean)"),
        NAMED,
        "test_a_log_normal_mix_has_the_mean_and_the_deviation_that_it_names",
    ),
    Mutant(
        "batches that are merged count as the smallest of them",
        "hetserve.demand.batches",
        "expanded",
        Replace("(last, last - first + 1.0)", "(first, last - first + 1.0)"),
        NAMED,
        "test_a_mix_of_a_million_batches_is_merged_and_never_too_small",
    ),
    Mutant(
        "stale demand is read as fresh",
        READING,
        "judged",
        Replace("age <= stale_after", "age <= 1e9"),
        READ,
        "test_a_dead_target_is_never_read_as_a_falling_load",
    ),
    Mutant(
        "demand does not age without an answer",
        READING,
        "aged",
        Replace("demand.now + by", "demand.now"),
        POLLED,
        "test_prometheus_away_for_long_makes_demand_stale_and_nothing_smaller",
    ),
    Mutant(
        "no series is taken for no load",
        READING,
        "read_demand",
        Replace("tuple($found)", "tuple($found) or (RateSample(now, QPS(0.0)),)"),
        READ,
        "test_nothing_at_all_is_missing_and_not_zero",
    ),
    Mutant(
        "a rate counts before its window is covered",
        READING,
        "_whole",
        always("since <= at - wanted.steps * wanted.step"),
        READ,
        "test_a_prometheus_that_restarted_empty_is_missing_until_the_window_is_covered",
    ),
    Mutant(
        "a rate counts at the time of its evaluation",
        READING,
        "_times",
        Replace("answered.sampled_at", "[(at, at) for at, _ in points]"),
        READ,
        "test_a_dead_target_is_never_read_as_a_falling_load",
    ),
    Mutant(
        "a lost scrape makes a rate too small",
        READING,
        "_whole",
        always("seen[$after] - seen[$after - 1] <= _LONGER * $usual"),
        READ,
        "test_a_lost_scrape_is_no_gap_and_an_outage_is_one",
    ),
    Mutant(
        "NaN is a rate",
        READING,
        "_is_rate",
        always("math.isfinite(value)"),
        READ,
        "test_a_newest_rate_that_is_none_is_invalid",
    ),
    Mutant(
        "of several series the first one counts",
        READING,
        "read_demand",
        never("len(answered.rate) > 1"),
        READ,
        "test_several_series_of_an_own_query_are_named",
    ),
    Mutant(
        "the window of the largest load is forgotten",
        WINDOWS,
        "highest",
        Replace("max(rates)", "rates[-1]"),
        HELD,
        "test_a_window_sees_what_is_in_it_and_what_still_held_at_its_beginning",
    ),
    Mutant(
        "a window is known however little of it is",
        WINDOWS,
        "_throughout",
        always("covered >= LEAST_COVER * window - _ROUNDING"),
        HELD,
        "test_a_window_that_reaches_back_further_than_the_samples_is_not_known",
    ),
    Mutant(
        "a gap in a window is none",
        WINDOWS,
        "_throughout",
        never("any($gaps)"),
        HELD,
        "test_two_lost_samples_are_no_gap_and_three_are_one",
    ),
    Mutant(
        "windows of stale demand are known",
        WINDOWS,
        "_throughout",
        never("demand.freshness is not Freshness.FRESH"),
        HELD,
        "test_of_what_is_not_fresh_no_window_is_known",
    ),
    Mutant(
        "the noise of rates that overlap is taken for a trend",
        WINDOWS,
        "_line",
        Replace("np.maximum(0.0, $alike)", "np.eye(len(samples))"),
        HELD,
        "test_noise_alone_is_seldom_a_trend",
    ),
    Mutant(
        "a query counts with the lower bound of its bucket",
        MIX,
        "mix_of_buckets",
        Replace("_items(bound, $share)", "_items(max(bound / 2, 1), $share)"),
        "tests/unit/demand/test_measured_mix.py",
        "test_a_query_counts_with_the_upper_bound_of_its_bucket",
    ),
    Mutant(
        "an answer with a warning is whole",
        ANSWERS,
        "_result",
        Replace('answer.get("warnings")', "None"),
        UNDERSTOOD,
        "test_what_is_no_whole_answer_says_so",
    ),
    Mutant(
        "a sample is asked for at another moment at each poll",
        QUERIES,
        "RangeQuery.last_moment",
        Replace("math.floor(now * 1000) // step * step / 1000", "now"),
        "tests/unit/demand/test_queries.py",
        "test_moments_are_multiples_of_the_step_and_the_last_is_not_after_now",
    ),
    Mutant(
        "an answer to an edited query counts for the new one",
        BOOK,
        "_same_source",
        always("(one.window, one.own) == (other.window, other.own)"),
        LATER,
        "test_an_answer_to_another_question_does_not_count",
    ),
    Mutant(
        "a service is not woken when its demand gets stale",
        BOOK,
        "_state",
        Replace("(demand.freshness, demand.trouble, $attained, $mix, *late)", "(*late,)"),
        LATER,
        "test_becoming_stale_wakes_without_an_answer",
    ),
    Mutant(
        "rates without the times of their samples count",
        CONTRACT,
        "ContractPoll._ask_group",
        Replace("failed.get(Part.RATE) or failed.get(Part.SAMPLED_AT)", "failed.get(Part.RATE)"),
        POLLED,
        "test_without_rates_or_their_times_what_was_known_ages",
    ),
    Mutant(
        "a largest load that is not known is taken for none",
        "hetserve.scaling.actions.growth",
        "_load",
        Replace("$low if $recent is None else $recent", "QPS(0.0) if $recent is None else $recent"),
        "tests/unit/scaling/test_growing.py",
        "test_a_highest_load_that_is_not_known_is_not_taken_for_none",
    ),
    Mutant(
        "metrics that decide nothing are said until they are stale",
        "hetserve.reconcile.status.scaling_status",
        "_steady",
        never("_first_clause(stored) != _first_clause(finding)"),
        "tests/unit/operator/test_operator_follows_the_mix.py",
        "test_metrics_that_decide_by_now_are_said_by_a_newer_operator_too",
    ),
)
