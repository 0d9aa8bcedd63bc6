"""Bugs of what is held against instances whose queries are late."""

from __future__ import annotations

from typing import Final

from mutants.changes import Replace
from mutants.mutant import Mutant

LOOK: Final = "hetserve.scaling.context"
SHRINKING: Final = "hetserve.scaling.actions.shrinking"
GROWING: Final = "tests/unit/scaling/test_growing.py"
SHRINKS: Final = "tests/unit/scaling/test_shrinking.py"

LATENESS: Final = (
    Mutant(
        "lateness: what was late before a change served counts",
        LOOK,
        "calm_from",
        Replace("max(changed, served)", "served"),
        GROWING,
        "test_what_was_late_before_a_change_served_is_not_held_against_it",
    ),
    Mutant(
        "lateness: what late queries asked for goes as soon as they are in time",
        SHRINKING,
        "stays_until",
        Replace("change.reason is ScalingReason.SLO_MISSED", "False"),
        SHRINKS,
        "test_what_late_queries_asked_for_stays_for_the_window_of_scaling_down",
    ),
    Mutant(
        "lateness: a rate that is lower by chance brings back what missed the SLO",
        SHRINKING,
        "_lower_than",
        Replace("surely_lower(QPS(measured), facts.demand.window)", "QPS(measured)"),
        SHRINKS,
        "test_a_rate_that_is_lower_by_chance_does_not_bring_back_what_missed_the_slo",
    ),
    Mutant(
        "lateness: what is late is swapped",
        "hetserve.scaling.actions.replacement",
        "replace_where_it_pays",
        Replace("is_doubtful(context)", "context.has_new_mix"),
        "tests/unit/scaling/test_mixes_and_swaps.py",
        "test_no_swap_while_queries_are_late_nor_soon_after_they_brought_instances",
    ),
)
"""In the order of their modules."""
