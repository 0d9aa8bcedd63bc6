"""Bugs of what is taken for a service's load."""

from __future__ import annotations

from typing import Final

from mutants.changes import Replace, always
from mutants.mutant import Mutant

BOOK: Final = "hetserve_operator.demand.cache"
READING: Final = "hetserve.demand.reading"
WINDOWS: Final = "hetserve.demand.windows"

HELD: Final = "tests/unit/demand/test_windows.py"
LATER: Final = "tests/unit/operator/test_demand_book.py"
POLLED: Final = "tests/unit/operator/test_demand_poller.py"
READ: Final = "tests/unit/demand/test_reading.py"


DEMAND: Final = (
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
        "a lost scrape makes a rate too small",
        READING,
        "_whole",
        always("seen[$after] - seen[$after - 1] <= _LONGER * $usual"),
        READ,
        "test_a_lost_scrape_is_no_gap_and_an_outage_is_one",
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
        "an answer to an edited query counts for the new one",
        BOOK,
        "_same_source",
        always("(one.window, one.own) == (other.window, other.own)"),
        LATER,
        "test_an_answer_to_another_question_does_not_count",
    ),
    Mutant(
        "a largest load that is not known is taken for none",
        "hetserve.scaling.actions.growth",
        "_load",
        Replace("$low if $recent is None else $recent", "QPS(0.0) if $recent is None else $recent"),
        "tests/unit/scaling/test_growing.py",
        "test_a_highest_load_that_is_not_known_is_not_taken_for_none",
    ),
)
