"""Bugs of what is kept: the place of a pod that leaves for its Deployment, and nothing of what etcd has forgotten."""

from __future__ import annotations

from typing import Final

from mutants.changes import Replace, always, never
from mutants.mutant import Mutant

KEPT: Final = "tests/unit/placement/test_places_are_kept.py"
FIRST: Final = "tests/unit/extender/test_places_kept_go_first.py"
SURGE: Final = "tests/unit/operator/test_rollouts_surge_where_they_may.py"
DRIFT: Final = "tests/unit/extender/test_drift_check.py"

KEEPING: Final = (
    Mutant(
        "the place of a pod that leaves is anybody's",
        "hetserve.placement.event_handlers",
        "PodEventHandler.apply",
        never("held is not None"),
        KEPT,
        "test_the_place_is_reserved_in_the_step_that_frees_it",
    ),
    Mutant(
        "a place is kept for who may not have it",
        "hetserve.placement.placer",
        "Placer._takes_place",
        always("self._good(reserved) and ..."),
        KEPT,
        "test_no_place_is_kept_for_a_pod",
    ),
    Mutant(
        "whose place is kept waits for its turn",
        "hetserve_extender.queue.release_queue",
        "ReleaseQueue.decide",
        Replace("self._places_kept()", "[]"),
        FIRST,
        "test_whose_place_is_kept_is_released_before_older_pods_and_beyond_beta",
    ),
    Mutant(
        "a refused pod whose place is kept is forgotten",
        "hetserve_extender.requeue.refused_pods",
        "RefusedPods._is_placed",
        always("$held.state is not State.RESERVED"),
        FIRST,
        "test_a_refused_pod_whose_place_is_kept_is_recalled",
    ),
    Mutant(
        "a rollout starts an instance beyond the budget",
        "hetserve.reconcile.rollout.making_room",
        "surged",
        always("$one.price is not None and ..."),
        SURGE,
        "test_an_instance_goes_first_where_two_may_not_be",
    ),
    Mutant(
        "a rollout starts an instance that finds no place",
        "hetserve.reconcile.rollout.making_room",
        "_finds_place",
        always("$room >= missing"),
        SURGE,
        "test_an_instance_goes_first_where_two_may_not_be",
    ),
    Mutant(
        "a watch goes on from a future that never was",
        "hetserve_shell.kube.informer",
        "Reflector._is_restored",
        always("not 0 < $now < self._reached"),
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
