"""The operator counts room on exactly the GPUs that the extender's ledger would give to an instance."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.api import names
from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import InstanceType
from hetserve.api.model_profile import ModelProfile
from hetserve.base.units import Seconds
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
WITH_COPIES = InferenceService.model_validate(service("rm2", {"metadata.uid": "uid-rm2", "spec.ownCopies": "Allowed"}))
ANEW, UNDECLARED, BY_PERCENT = SharingRule(), SharingRule(undeclared=[GPU_TYPE]), SharingRule(by_percent=True)
HARDWARE = {"spec.price.per": "GiB", "spec.resources": None}


def slowing(**factors: str) -> Json:
    """Of a profile: what it does to other models, and to copies."""
    entries = [{"model": model, "batch": 1, "factor": factor} for model, factor in factors.items()]
    return {"spec.interference": entries}


def offer(
    memory: str, profile: Json, *, per: str = "GiB", own: InferenceService = OWN, rule: SharingRule = ANEW
) -> Offer:
    kinds = [InstanceType.model_validate(instance_type(GPU_TYPE, {**HARDWARE, "spec.price.per": per}))]
    found = [ModelProfile.model_validate(model_profile(overrides={"spec.gpuMemory": memory, **profile}))]
    offers = resolve_offers(own, kinds, found, rule)
    assert isinstance(offers, Offers)
    return offers.usable[0]


OFFERS = [
    *(
        offer(memory, {**MEASURED, "spec.computeShare": share}, rule=rule)
        for memory in ("1Gi", "8Gi")
        for share in ("0.1", "0.7")
        for rule in (ANEW, BY_PERCENT)
    ),
    offer("1Gi", {**MEASURED, "spec.computeShare": "1"}),
    offer("1Gi", {**MEASURED, **slowing(other="1.2", third="1.6")}),
    *(offer("1Gi", {**MEASURED, **slowing(other="1.2", rm2=on)}, own=WITH_COPIES) for on in ("1.1", "1.5")),
    offer("8Gi", {**MEASURED, "spec.computeShare": "0.1", **slowing(rm2="1")}, own=WITH_COPIES),
    offer("4Gi", {}),
    *(offer(memory, {}, rule=UNDECLARED) for memory in ("1Gi", "8Gi")),
    offer("4Gi", {}, per="Instance"),
]
TERMS = [
    None,
    *(
        json.dumps({"share": share, "tolerance": tolerance, "factors": {"*": others, **named}})
        for share, tolerance, others, named in (
            ("0.5", "1.75", "1", {}),
            ("0.2", "3", "1.3", {"rm2": "1.05"}),
            ("0.9", "1.75", "1.7", {"rm2": "1.2", "other": "1.1"}),
            ("0.1", "1.1", "1.09", {}),
        )
    ),
    "nonsense",
]


def bound_pod(gpu: str, model: str | None, terms: str | None, compute: int | None, **given: Any) -> Json:
    """A pod on a GPU. terms: with all compute; None: it books `compute`, or none. memory 0: whole GPUs."""
    copies, memory = given.pop("copies"), given.pop("memory")
    shared = None if not memory else 100 if terms else compute
    gpus = None if memory else gpu.count(",") + 1
    raw = gpu_pod(gpu=gpu, node="g", model=model, memory_mib=memory, compute=shared, gpus=gpus, **given)
    raw["metadata"]["annotations"] |= {} if terms is None else {names.ANNOTATION_GPU_SHARING: terms}
    raw["metadata"]["annotations"] |= {names.ANNOTATION_ANTI_AFFINITY: "None"} if copies else {}
    return raw


PODS = st.builds(
    bound_pod,
    name=st.integers(0, 9).map("p{}".format),
    namespace=st.sampled_from(["default", "default", "team"]),
    memory=st.sampled_from([0, 1024, 1024, 4096, 14336]),
    compute=st.sampled_from([None, None, 5, 20, 40, 95]),
    terms=st.sampled_from(TERMS),
    gpu=st.sampled_from(["0", "1", "2", "3"]),
    model=st.sampled_from(["rm2", "other", "third", None]),
    product=st.sampled_from(["Tesla-T4", None]),
    copies=st.booleans(),
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
    """Pods of the operator's template to which the ledger gives GPUs, one after the other."""
    template = desired_deployment(OWN, wanted)["spec"]["template"]
    product = template["metadata"]["annotations"][names.ANNOTATION_GPU_PRODUCT]
    count = 0
    for number in range(GPUS):
        one = GpuSelector(products=(product,), ids=(str(number),))
        while True:
            new = f"new-{count}"
            raw = {"metadata": {"name": new, "uid": new, **template["metadata"]}, "spec": template["spec"]}
            request = replace(parse_pod(raw).placeable(), selector=one)
            if not fits(ledger.index, request):
                break
            ledger.reserve(request, [("g", str(number))], Seconds(60.0))
            count += 1
    return count
