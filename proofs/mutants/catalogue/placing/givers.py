"""Bugs of GPUs that NVIDIA's plugin or DRA driver gives, and hetserve too."""

from __future__ import annotations

from typing import Final

from mutants.changes import Replace, never
from mutants.mutant import Mutant

WORDS: Final = "hetserve.placement.ledger.inventory"
UNIT: Final = "tests/unit/placement/test_other_givers.py"
FACTS: Final = "tests/unit/reconcile/test_reconcile_facts.py"

GIVERS: Final = (
    Mutant(
        "givers: shared GPUs are ours where an annotation lists them",
        WORDS,
        "refusal_of",
        Replace("_shared(labels, allocatable)", "'' if annotated else _shared(labels, allocatable)"),
        UNIT,
        "test_an_annotation_does_not_make_shared_gpus_ours",
    ),
    Mutant(
        "givers: MIG under strategy none looks like whole GPUs",
        WORDS,
        "_cut",
        never("labels.get(names.GFD_REPLICAS) == _MIG_ON and names.GFD_COUNT in labels"),
        UNIT,
        "test_what_the_plugin_cuts_or_shares_is_refused_by_label_value_and_remedy",
    ),
    Mutant(
        "givers: a refused node opens when a pod that closed it ends",
        "hetserve.placement.ledger.index",
        "GpuIndex._close",
        Replace("not here and node not in self.refused", "not here"),
        UNIT,
        "test_a_closed_node_that_is_refused_stays_closed_when_the_pod_ends",
    ),
    Mutant(
        "givers: a reservation outlives the refusal of its node",
        "hetserve.placement.ledger.ledger",
        "Ledger.put_node",
        Replace("known.uid == node.uid and not node.refused", "known.uid == node.uid"),
        UNIT,
        "test_a_pod_with_a_reservation_does_not_get_a_gpu_that_is_offered_meanwhile",
    ),
    Mutant(
        "givers: the operator plans on GPUs that somebody else gives",
        "hetserve.reconcile.cluster.capacity",
        "free_on",
        Replace(
            "unknown or node.refused or not on.keys() <= {gpu.id for gpu in node.gpus}",
            "unknown or not on.keys() <= {gpu.id for gpu in node.gpus}",
        ),
        FACTS,
        "test_gpus_that_a_slice_offers_are_no_room_until_the_last_slice_goes",
    ),
)
