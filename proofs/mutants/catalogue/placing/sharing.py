"""Bugs of the operator's side of sharing: bookings in templates and records, room, and what runs undeclared."""

from __future__ import annotations

from typing import Final

from mutants.changes import Replace, always
from mutants.mutant import Mutant

SHARES: Final = "tests/unit/operator/test_operator_shares.py"
ROOM: Final = "tests/properties/test_room_is_what_the_ledger_takes.py"
LEDGER: Final = "test_room_is_counted_where_the_ledger_takes_an_instance"
BOOKINGS: Final = "hetserve.reconcile.plans.bookings"

SHARING: Final = (
    Mutant(
        "sharing: the template drops the booking of compute",
        "hetserve.reconcile.deployments.build",
        "gpu_resources",
        Replace("memory | {names.RESOURCE_GPU_COMPUTE: str(gpu.compute)}", "memory"),
        SHARES,
        "test_a_measured_service_books_memory_and_compute_and_the_plan_says_so",
    ),
    Mutant(
        "sharing: a smaller measurement shrinks what runs",
        BOOKINGS,
        "recorded_gpus",
        Replace("max(o.gpu.compute, $rest)", "o.gpu.compute"),
        SHARES,
        "test_a_smaller_booking_changes_no_template_while_the_counts_stay",
    ),
    Mutant(
        "sharing: a lost measurement takes the booking",
        BOOKINGS,
        "booked_types",
        always("recorded is None"),
        SHARES,
        "test_instances_keep_their_bookings_where_a_profile_loses_its_measurement",
    ),
    Mutant(
        "sharing: a plan with bookings before the extender books",
        "hetserve.reconcile.plans.plan_selection",
        "choose",
        Replace("not context.books_compute", "False"),
        SHARES,
        "test_no_plan_with_bookings_is_made_before_the_extender_books_compute",
    ),
    Mutant(
        "sharing: room ignores compute",
        "hetserve.reconcile.cluster.capacity",
        "GpuRoom.takes",
        always("self.compute >= instance.compute"),
        ROOM,
        LEDGER,
    ),
    Mutant(
        "sharing: whole GPUs are shared without a booking",
        BOOKINGS,
        "undeclared_types",
        Replace("found - had_whole", "found"),
        SHARES,
        "test_instances_with_whole_gpus_never_begin_to_share_without_a_booking",
    ),
    Mutant(
        "sharing: a whole GPU costs nothing",
        "hetserve.reconcile.rollout",
        "_held",
        Replace("_whole(gpu) if pod.whole_gpu else pod.gpu_memory", "pod.gpu_memory"),
        SHARES,
        "test_exclusive_instances_are_paid_whole_until_they_are_gone",
    ),
)
