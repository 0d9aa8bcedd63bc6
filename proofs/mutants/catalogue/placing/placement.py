"""Bugs of the placer: what is decided from what the watch and the verbs report."""

from __future__ import annotations

from typing import Final

from mutants.changes import Replace, always
from mutants.mutant import Mutant

PLACER: Final = "hetserve.placement.placer"

FAULT: Final = "tests/modelcheck/test_single_faults.py"

PLACEMENT: Final = (
    Mutant(
        "bind does not look at its reservation again",
        PLACER,
        "Placer.fix_gpus",
        always("self._good(...)"),
        "tests/adversarial/test_binds_in_doubt.py",
        "test_a_gpu_that_shrank_after_filter_is_not_bound",
    ),
    Mutant(
        "bind takes what filter knew of the pod",
        PLACER,
        "Placer.fix_gpus",
        always("$held.request.claim == request.claim"),
        FAULT,
        "test_a_pod_that_gets_another_model_on_its_way_shares_with_nobody_of_that_model",
    ),
    Mutant(
        "an answered read counts as confirmed",
        PLACER,
        "Placer.believe",
        Replace("$ledger.observe(pod, ...)", "$ledger.observe(pod)"),
        FAULT,
        "test_an_answer_that_the_watch_has_overtaken_is_not_believed_for_ever",
    ),
    Mutant(
        "a pod that cannot be read is not there",
        PLACER,
        "Placer.observe",
        Replace("unread_pod(...)", "None"),
        "tests/unit/placement/test_pods_past_us.py",
        "test_a_pod_that_cannot_be_read_any_more_keeps_what_it_held_and_closes_its_node",
    ),
)
