"""Bugs of the ledger: which pod holds how much of which GPU, until when."""

from __future__ import annotations

from typing import Final

from mutants.changes import DropStatement, Replace, always, never
from mutants.mutant import Mutant

BOOKS: Final = "hetserve.placement.ledger.ledger"
INDEX: Final = "hetserve.placement.ledger.index"

FAULT: Final = "tests/modelcheck/test_single_faults.py"
UNIT: Final = "tests/unit/placement/test_ledger.py"

LEDGER: Final = (
    Mutant(
        "release on the delete event only",
        BOOKS,
        "Ledger.observe",
        never("$pod.finished"),
        UNIT,
        "test_a_finished_pod_holds_nothing",
    ),
    Mutant(
        "a reservation that never expires",
        BOOKS,
        "Ledger.reserve",
        Replace("deadline", "None"),
        "tests/unit/extender/test_verbs.py",
        "test_a_reservation_nobody_binds_ends",
    ),
    Mutant(
        "terminating pods are forgotten",
        BOOKS,
        "Ledger.observe",
        Replace("$pod.finished", "$pod.finished or $pod.terminating"),
        FAULT,
        "test_a_terminating_pod_holds_its_gpu_and_a_finished_one_does_not",
    ),
    Mutant(
        "a list ends binds younger than it",
        BOOKS,
        "Ledger.relist_pods",
        always("$booking.confirmed"),
        UNIT,
        "test_a_relist_ends_what_is_gone_and_doubts_what_is_younger_than_the_list",
    ),
    Mutant(
        "a late report takes the new node away",
        BOOKS,
        "Ledger.drop_node",
        never("$known.uid != uid"),
        UNIT,
        "test_bound_pods_hold_their_gpu_through_the_return_of_a_node_but_reservations_end",
    ),
    Mutant(
        "bound pods are dropped with their node",
        BOOKS,
        "Ledger",
        Replace("$booking.node == node and $booking.state is State.RESERVED and ...", "$booking.node == node and ..."),
        FAULT,
        "test_a_node_that_comes_back_still_holds_its_pods",
    ),
    Mutant(
        "the model is not looked at",
        INDEX,
        "GpuIndex.without_model",
        always("$request.model is None"),
        FAULT,
        "test_what_fits_side_by_side_is_bound_side_by_side",
    ),
    Mutant(
        "what is reserved looks free",
        INDEX,
        "GpuIndex.book",
        DropStatement("self.free[$row] -= ..."),
        FAULT,
        "test_a_bind_without_an_answer_keeps_its_gpu",
    ),
    Mutant(
        "a bound pod that does not say where holds nothing",
        BOOKS,
        "Ledger",
        Replace("(UNNAMED, *$gpus) if ... else $gpus", "$gpus"),
        FAULT,
        "test_a_pod_that_no_longer_says_where_it_runs_keeps_its_gpu",
    ),
)
