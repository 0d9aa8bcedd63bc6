"""The operator counts room on exactly the GPUs that the extender's ledger would give to an instance."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.api import names
from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import InstanceType
from hetserve.api.model_profile import ModelProfile
from hetserve.placement.decision.decide import fits
from hetserve.placement.ledger.inventory import parse_node
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.pods.requests import GpuSelector
from hetserve.placement.pods.view import parse_pod
from hetserve.planning.offers import Offer, Offers, resolve_offers
from hetserve.planning.tenancy import SharingRule
from hetserve.reconcile.cluster.capacity import ClusterCapacity
from hetserve.reconcile.cluster.observed import node_fact, pod_fact
from hetserve.reconcile.deployments.build import desired_deployment
from testing.builders import MEASURED, instance_type, model_profile, service
from testing.cluster import gpu_pod
from testing.scenes import GPU_TYPE, node

Json = dict[str, Any]
GPUS = 4
OWN = InferenceService.model_validate(service("rm2", {"metadata.uid": "uid-rm2"}))
HARDWARE = {"spec.price.per": "GiB", "spec.resources": None}


def offer(memory: str, profile: Json, *, undeclared: bool = False, per: str = "GiB") -> Offer:
    kinds = [InstanceType.model_validate(instance_type(GPU_TYPE, {**HARDWARE, "spec.price.per": per}))]
    found = [ModelProfile.model_validate(model_profile(overrides={"spec.gpuMemory": memory, **profile}))]
    offers = resolve_offers(OWN, kinds, found, SharingRule(undeclared=[GPU_TYPE] if undeclared else []))
    assert isinstance(offers, Offers)
    return offers.usable[0]


OFFERS = [
    *(offer(memory, {**MEASURED, "spec.computeShare": share}) for memory in ("1Gi", "8Gi") for share in ("0.1", "0.7")),
    offer("1Gi", {**MEASURED, "spec.computeShare": "1"}),
    offer("4Gi", {}),
    *(offer(memory, {}, undeclared=True) for memory in ("1Gi", "8Gi")),
    offer("4Gi", {}, per="Instance"),
]
PODS = st.builds(
    lambda number, space, memory, compute, gpu, model, gpus: gpu_pod(
        f"p{number}",
        namespace=space,
        memory_mib=memory,
        compute=compute if memory else None,
        gpus=None if memory else gpu.count(",") + 1,
        gpu=gpu,
        node="g",
        model=model,
        product="Tesla-T4" if gpus else None,
    ),
    st.integers(0, 9),
    st.sampled_from(["default", "default", "team"]),
    st.sampled_from([0, 1024, 1024, 4096, 14336]),
    st.sampled_from([None, None, 5, 20, 40, 95]),
    st.sampled_from(["0", "1", "2", "3"]),
    st.sampled_from(["rm2", "other", "third", None]),
    st.booleans(),
)


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(PODS, max_size=8, unique_by=lambda raw: raw["metadata"]["name"]), st.sampled_from(OFFERS))
def test_room_is_counted_where_the_ledger_takes_an_instance(pods: list[Json], wanted: Offer) -> None:
    raw = node("g", GPU_TYPE, gpus=GPUS)
    raw["metadata"]["uid"] = "uid-g"
    capacity, ledger = ClusterCapacity(), Ledger()
    capacity.put_node(node_fact(raw))
    ledger.put_node(parse_node(raw))
    for pod in pods:
        fact = pod_fact(pod)
        assert fact is not None
        capacity.put_pod(fact)
        ledger.observe(parse_pod(pod))
    room = capacity.facts(("default", "rm2"), "rm2", [wanted], (), ()).types[GPU_TYPE].room
    assert room == taken(ledger, wanted)


def taken(ledger: Ledger, wanted: Offer) -> int:
    """GPUs that the ledger gives to a pod of the operator's template."""
    template = desired_deployment(OWN, wanted)["spec"]["template"]
    request = parse_pod({"metadata": {"name": "new", "uid": "new", **template["metadata"]}, "spec": template["spec"]})
    product = template["metadata"]["annotations"][names.ANNOTATION_GPU_PRODUCT]
    each = [GpuSelector(products=(product,), ids=(str(number),)) for number in range(GPUS)]
    return sum(fits(ledger.index, replace(request.placeable(), selector=one)) for one in each)
