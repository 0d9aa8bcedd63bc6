"""Bugs of booked compute: lost, doubled, forgotten, or shared with pods that declare none."""

from __future__ import annotations

from typing import Final

from mutants.changes import DropStatement, Replace, always, never
from mutants.mutant import Mutant

INDEX: Final = "hetserve.placement.ledger.index"
LEDGER: Final = "hetserve.placement.ledger.ledger"

FAULT: Final = "tests/modelcheck/test_single_faults.py"
UNIT: Final = "tests/unit/placement/test_compute.py"

COMPUTE: Final = (
    Mutant(
        "compute is lost on bind",
        "hetserve_extender.verbs.binding",
        "binding",
        DropStatement('$metadata["annotations"][names.ANNOTATION_GPU_COMPUTE] = ...'),
        FAULT,
        "test_pods_that_fit_by_memory_and_not_by_compute_take_turns",
    ),
    Mutant(
        "compute that ends stays booked",
        INDEX,
        "GpuIndex.book",
        Replace("sign * $request.booked_compute", "abs(sign) * $request.booked_compute"),
        FAULT,
        "test_pods_that_fit_by_memory_and_not_by_compute_take_turns",
    ),
    Mutant(
        "compute is forgotten at a restart",
        "hetserve.placement.pods.view",
        "_request",
        Replace(
            "None if $whole else $wanted.compute or None", "None if $whole or pod.node else $wanted.compute or None"
        ),
        FAULT,
        "test_compute_that_a_pod_holds_is_known_after_a_restart_without_its_annotations",
    ),
    Mutant(
        "undeclared beside declared",
        INDEX,
        "GpuIndex.of_its_kind",
        Replace("mask & ($self.free_compute == WHOLE_COMPUTE) if $self.accounts else mask", "mask"),
        UNIT,
        "test_who_declares_none_shares_only_with_others_who_declare_none",
    ),
    Mutant(
        "compute is not looked at",
        INDEX,
        "GpuIndex.with_compute",
        always("$request.compute is None"),
        UNIT,
        "test_pods_share_a_gpu_up_to_all_of_its_compute",
    ),
    Mutant(
        "the ledger reserves compute that is not there",
        LEDGER,
        "Ledger._check_compute",
        never("$request.compute is not None and $free < $request.compute"),
        UNIT,
        "test_the_ledger_takes_no_booking_beyond_the_compute_or_beside_the_other_kind",
    ),
    Mutant(
        "a reservation is good on a GPU whose compute another took",
        INDEX,
        "GpuIndex.over_booked",
        Replace("$self.free_compute[$row] < 0", "False"),
        UNIT,
        "test_a_reservation_is_no_good_once_its_gpu_is_over_booked_or_mixed",
    ),
)
