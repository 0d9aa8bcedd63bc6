"""Bugs of queues: pods that are released and are not ours to release."""

from __future__ import annotations

from typing import Final

from mutants.changes import DropElement, Replace
from mutants.mutant import Mutant

QUEUE: Final = "tests/unit/extender/test_queue_controller.py"

QUEUES: Final = (
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
)
