"""Bugs of the queues, and of the release of the pods that wait in them."""

from __future__ import annotations

from typing import Final

from mutants.changes import DropElement, Replace, never
from mutants.mutant import Mutant

QUEUE: Final = "tests/unit/extender/test_queue_controller.py"

QUEUES: Final = (
    Mutant(
        "the queue forgets priority",
        "hetserve.placement.queues.waiting_line",
        "WaitingLine.round",
        Replace("sorted(self._levels, reverse=True)", "sorted(self._levels)"),
        "tests/properties/test_placement_queues.py",
        "test_higher_priorities_go_first_and_a_queue_is_first_come_first_served",
    ),
    Mutant(
        "the queue lifts foreign gates",
        "hetserve.placement.queues.rounds",
        "ours_alone_holds",
        Replace("$pod.gates == (names.QUEUE_GATE,)", "names.QUEUE_GATE in $pod.gates"),
        QUEUE,
        "test_pods_with_other_gates_are_left_alone",
    ),
    Mutant(
        "the queue's patch takes any pod of that name",
        "hetserve_extender.queue.controller",
        "remove_gate",
        DropElement('{"op": "test", "path": "/metadata/uid", "value": ...}'),
        QUEUE,
        "test_a_pod_created_again_under_its_name_is_not_released_for_the_old_one",
    ),
    Mutant(
        "patches pass that of the longest waiting pod",
        "hetserve_extender.queue.patch_order",
        "PatchOrder",
        never("$due < $release.number"),
        "tests/properties/test_queue_order_seen.py",
        "test_the_bound_holds_in_the_order_that_the_api_server_shows",
    ),
)
