"""Bugs of what is kept: places, rollouts within the budget, and nothing of what etcd has forgotten."""

from __future__ import annotations

from typing import Final

from mutants.changes import Replace, always, never
from mutants.mutant import Mutant

SURGE: Final = "tests/unit/operator/test_rollouts_surge_where_they_may.py"
DRIFT: Final = "tests/unit/extender/test_drift_check.py"

KEEPING: Final = (
    Mutant(
        "a rollout starts an instance beyond the budget",
        "hetserve.reconcile.rollout",
        "surged",
        always("$one.price is not None and ..."),
        SURGE,
        "test_an_instance_goes_first_where_two_may_not_be",
    ),
    Mutant(
        "a watch goes on from a future that never was",
        "hetserve_shell.kube.informer",
        "Reflector._is_restored",
        always("not 0 < $now < self.reached"),
        "tests/unit/extender/test_list_watch.py",
        "test_after_a_copy_of_etcd_was_restored_it_lists_again",
    ),
    Mutant(
        "what the watch has missed is only counted",
        "hetserve_extender.observe.drift",
        "DriftCheck.check",
        never("not MISSED.isdisjoint($counted)"),
        DRIFT,
        "test_what_two_readings_miss_is_listed_anew",
    ),
    Mutant(
        "a pod that left its node with a restored copy holds it on",
        "hetserve.placement.ledger.ledger",
        "_stays",
        Replace("$seen is not None and ...", "$seen is not None"),
        "tests/unit/placement/test_ledger.py",
        "test_a_pod_that_left_its_node_with_a_restored_copy_of_etcd_is_booked_as_listed",
    ),
)
