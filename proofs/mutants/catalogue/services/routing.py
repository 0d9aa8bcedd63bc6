"""Bugs of a router that send a query for ever, hold an instance for nothing, or trust one that failed."""

from __future__ import annotations

from typing import Final

from mutants.changes import DropStatement
from mutants.mutant import Mutant

ROUTER: Final = "hetserve.routing.router"
TESTS: Final = "tests/unit/routing/test_router.py"

ROUTING: Final = (
    Mutant(
        "routing: a query that instances fail is sent again and again",
        ROUTER,
        "ServiceRouter._fail",
        DropStatement("$one.is_retriable = False"),
        TESTS,
        "test_only_what_an_instance_cannot_have_computed_is_sent_once_more",
    ),
    Mutant(
        "routing: an instance that failed gets queries at once",
        ROUTER,
        "ServiceRouter._fail",
        DropStatement("$instance.tries = 1"),
        TESTS,
        "test_a_suspected_instance_gets_nothing_until_a_probe_finds_it_ready",
    ),
    Mutant(
        "routing: an instance is busy for ever with a query that was dropped",
        ROUTER,
        "ServiceRouter._act",
        DropStatement("in_vain.append(to)"),
        TESTS,
        "test_what_the_policy_sends_where_it_ends_too_late_is_dropped_and_the_next_is_sent",
    ),
    Mutant(
        "routing: a deadline that passes while an instance computes is forgotten",
        ROUTER,
        "ServiceRouter._due",
        DropStatement("$self._timers.set($subject, $subject.hard)"),
        TESTS,
        "test_a_deadline_that_passes_while_an_instance_computes_ends_the_query_but_not_the_work",
    ),
)
