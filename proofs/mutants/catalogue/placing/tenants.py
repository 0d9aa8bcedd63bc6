"""Bugs of who a model belongs to: its name says nothing without its namespace."""

from __future__ import annotations

from typing import Final

from mutants.changes import Replace
from mutants.mutant import Mutant

INDEX: Final = "hetserve.placement.ledger.index"
CAPACITY: Final = "hetserve.reconcile.cluster.capacity"

UNIT: Final = "tests/unit/placement/test_models_of_namespaces.py"
FACTS: Final = "tests/unit/reconcile/test_reconcile_facts.py"

TENANTS: Final = (
    Mutant(
        "models of one name are one across namespaces",
        INDEX,
        "GpuIndex._key",
        Replace("request.namespace, model", '("", model)'),
        UNIT,
        "test_a_gpu_is_refused_for_a_model_of_the_same_namespace_alone",
    ),
    Mutant(
        "the operator counts no room beside another namespace's model",
        CAPACITY,
        "_of_model",
        Replace("($pod.namespace, $pod.model) == $model", "$pod.model == $model[1]"),
        FACTS,
        "test_another_namespaces_instances_of_a_model_by_the_same_name_leave_their_gpus_to_be_used",
    ),
)
