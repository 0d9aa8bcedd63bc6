"""Bugs of reading: pods as the API server writes them, and the list-watch that brings them."""

from __future__ import annotations

from typing import Final

from mutants.changes import Replace
from mutants.mutant import Mutant

POD: Final = "hetserve.placement.pods.view"
RESOURCES: Final = "hetserve.objects.resources"

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
        "init containers are not counted",
        RESOURCES,
        "most_at_once",
        Replace('objects($spec.get("initContainers"), ...)', "()"),
        "tests/properties/test_what_pods_request.py",
        "test_cpu_is_what_runs_at_once_and_the_overhead",
    ),
    Mutant(
        "GPUs of another device plugin are nobody's",
        RESOURCES,
        "of_device_plugin",
        Replace("resource in _PLUGIN or ...", "False"),
        "tests/unit/placement/test_pods_past_us.py",
        "test_a_node_with_such_a_pod_takes_no_new_pods_until_it_ends",
    ),
)
