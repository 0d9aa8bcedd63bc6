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
        "namespace and model are joined to one text",
        INDEX,
        "GpuIndex._key",
        Replace("request.namespace, model", '("", request.namespace + "/" + model)'),
        UNIT,
        "test_a_gpu_is_refused_for_a_model_of_the_same_namespace_alone",
    ),
    Mutant(
        "a changed label is kept off every namespace's model",
        INDEX,
        "GpuIndex.book",
        Replace(
            "self._book_model(self._key($request, $model), $row, $sign, hard=True)",
            'self._book_model(("", $model), $row, $sign, hard=True)',
        ),
        UNIT,
        "test_a_label_that_changes_keeps_the_gpu_from_both_models_of_its_own_namespace",
    ),
    Mutant(
        "the explanation knows no namespaces",
        "hetserve.placement.decision.explain",
        "_apart",
        Replace("$other.request.model_key == $model and $hard", "$other.request.model == $model[1] and $hard"),
        UNIT,
        "test_who_is_in_the_way_is_named_with_namespace",
    ),
    Mutant(
        "the operator counts no room beside another namespace's model",
        CAPACITY,
        "_has_model",
        Replace("($pod.namespace, $pod.model) == $model", "$pod.model == $model[1]"),
        FACTS,
        "test_another_namespaces_instances_of_a_model_by_the_same_name_leave_their_gpus_to_be_used",
    ),
    Mutant(
        "the operator looks for its model in no namespace",
        CAPACITY,
        "ClusterCapacity._special",
        Replace("($service[0], model)", '("", model)'),
        FACTS,
        "test_another_namespaces_instances_of_a_model_by_the_same_name_leave_their_gpus_to_be_used",
    ),
    Mutant(
        "tenants' models of one name are one in the queues",
        "hetserve.placement.queues.rounds",
        "Waiting.shape",
        Replace("self.namespace if self.model else ''", "''"),
        UNIT,
        "test_two_tenants_models_of_one_name_are_two_in_the_queues_and_pods_without_a_model_are_alike",
    ),
)
