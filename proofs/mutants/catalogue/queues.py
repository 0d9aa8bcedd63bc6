"""Bugs of the queues, and of what lifts the gates."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

QUEUE: Final = "tests/unit/extender/test_queue_controller.py"
FAIR: Final = "tests/properties/test_placement_queues.py"
ORDER: Final = "tests/properties/test_queue_order_seen.py"

QUEUEING: Final = (
    Mutant(
        "the queue forgets priority",
        "src/hetserve/placement/queues/rounds.py",
        "key=lambda pod: (-pod.priority, *entry(pod)[:-1])",
        "key=lambda pod: (pod.priority, *entry(pod)[:-1])",
        FAIR,
        "test_higher_priorities_go_first_and_a_queue_is_first_come_first_served",
    ),
    Mutant(
        "the queue lifts foreign gates",
        "src/hetserve/placement/pods/scheduling_gate.py",
        "return pod.gates == (names.QUEUE_GATE,) and",
        "return names.QUEUE_GATE in pod.gates and",
        QUEUE,
        "test_pods_with_other_gates_are_left_alone",
    ),
    Mutant(
        "the queue's patch takes any pod of that name",
        "scheduler_extender/hetserve_extender/queue/scheduling_gate.py",
        '        {"op": "test", "path": "/metadata/uid", "value": pod.uid},\n',
        "",
        QUEUE,
        "test_a_pod_created_again_under_its_name_is_not_released_for_the_old_one",
    ),
    Mutant(
        "patches pass that of the longest waiting pod",
        "scheduler_extender/hetserve_extender/queue/patch_order.py",
        "for due, other in others if due < release.number)",
        "for due, other in others if due < 0)",
        ORDER,
        "test_the_bound_holds_in_the_order_that_the_api_server_shows",
    ),
)
