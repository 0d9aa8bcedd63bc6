"""Bugs of the serving engine that lose queries or serve them twice."""

from __future__ import annotations

from typing import Final

from mutants.changes import DropStatement
from mutants.mutant import Mutant

LAYOUT: Final = "hetserve.serving.layout"
SESSIONS: Final = "tests/unit/serving/test_sessions.py"

SERVING: Final = (
    Mutant(
        "serving: what waited in the line of a failed instance is lost",
        LAYOUT,
        "line_of",
        DropStatement("$held.append($query)"),
        SESSIONS,
        "test_a_line_is_requeued_with_the_query_that_is_served",
    ),
    Mutant(
        "serving: a query that its client gave up is served all the same",
        LAYOUT,
        "without_waiting",
        DropStatement("$waiting.ends[$service, 1] = $left"),
        "tests/unit/simulation/test_endless_runs.py",
        "test_clients_give_up_queries_that_wait_and_not_those_that_are_served",
    ),
)
