"""Bugs of reading: pods as the API server writes them, and the list-watch that brings them."""

from __future__ import annotations

from typing import Final

from mutants.changes import DropStatement, Replace, always
from mutants.mutant import Mutant

POD: Final = "hetserve.placement.pods.view"
RESOURCES: Final = "hetserve.objects.resources"
LAUNCHES: Final = "tests/unit/reconcile/test_launch_times.py"

READING: Final = (
    Mutant(
        "name instead of UID",
        POD,
        "_request",
        Replace("$pod.uid", "$pod.name"),
        "tests/adversarial/test_placement_attacks.py",
        "test_the_same_name_with_a_new_uid_is_another_pod",
    ),
    Mutant(
        "every id that a tenant writes is booked",
        POD,
        "named_gpus",
        always("len($written) <= LONGEST_LIST and $written.count(',') < MAX_GPUS_PER_NODE"),
        "tests/unit/placement/test_what_tenants_write.py",
        "test_ids_that_no_node_can_have_are_one_place_and_one_short_line",
    ),
    Mutant(
        "init containers are not counted",
        RESOURCES,
        "most_at_once",
        Replace('objects($spec.get("initContainers"), ...)', "()"),
        "tests/unit/placement/test_pod_requests.py",
        "test_gpu_memory_of_a_pod",
    ),
    Mutant(
        "GPUs of another device plugin are nobody's",
        RESOURCES,
        "of_device_plugin",
        Replace("resource in _PLUGIN or ...", "False"),
        "tests/unit/placement/test_pods_past_us.py",
        "test_a_node_with_such_a_pod_takes_no_new_pods_until_it_ends",
    ),
    Mutant(
        "a list leaves the watch of before running",
        "hetserve_shell.kube.informer",
        "Reflector.relist",
        DropStatement("$following.reschedule(...)"),
        "tests/unit/extender/test_list_watch_orders.py",
        "test_what_happens_while_pages_come_is_known_with_the_next_word_of_the_server",
    ),
    Mutant(
        "pods that became Ready again show a launch time",
        "hetserve.reconcile.cluster.launch_times",
        "_samples",
        always("launch.warming <= longest"),
        LAUNCHES,
        "test_pods_that_became_ready_again_days_later_show_no_launch_time",
    ),
    Mutant(
        "a node that was lost makes a launch of days",
        "hetserve.reconcile.cluster.observed",
        "_became_ready",
        Replace("min($containers, end)", "end"),
        LAUNCHES,
        "test_a_node_that_was_lost_for_a_while_does_not_count_as_a_launch",
    ),
)
