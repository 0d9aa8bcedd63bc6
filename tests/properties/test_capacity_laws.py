"""Room kept up change by change equals room counted from all nodes and pods, whatever the changes and their order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_facts import cluster_facts
from effort import examples
from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import InstanceType
from hetserve.api.model_profile import ModelProfile
from hetserve.base.units import MiB, MilliCPU, Millionths, Percent
from hetserve.objects.gpu_sharing import SharingTerms
from hetserve.objects.node import Taint
from hetserve.placement.ledger.inventory import Gpu
from hetserve.planning.offers import Offer, Offers, resolve_offers
from hetserve.planning.tenancy import SharingRule
from hetserve.reconcile.cluster.capacity import ClusterCapacity
from hetserve.reconcile.cluster.observed import NodeFact, PodFact
from testing.builders import MEASURED, instance_type, model_profile, service
from testing.scenes import cpu_profile, cpu_type

SERVICES = (("default", "rm2"), ("default", "other"), ("team", "rm2"))
MODELS = ("rm2", "dlrm")
TYPES = ("small", "large", "tolerant", "plain-cpu", "no-resources")
POOL = "example.com/pool"


def types_of(limit: str) -> dict[str, InstanceType]:
    """limit: what the GPU types ask of their nodes."""
    here = {"spec.nodeSelector": {POOL: "gpu"}, "spec.resources": {"cpu": "2", "memory": "4Gi"}}
    per_gib = {"spec.price.per": "GiB", "spec.gpu.memory": "16Gi"}
    raws = [
        instance_type("small", {**here, **per_gib}),
        instance_type("large", {**here, "spec.nodeSelector": {POOL: limit}, "spec.resources": None}),
        instance_type("tolerant", {**here, **per_gib, "spec.tolerations": [{"key": "gpu", "operator": "Exists"}]}),
        cpu_type(
            {"metadata.name": "plain-cpu", "spec.nodeSelector": {POOL: "cpu"}, "spec.resources": {"cpu": "1500m"}}
        ),
        cpu_type({"metadata.name": "no-resources", "spec.nodeSelector": {}, "spec.resources": None}),
    ]
    return {raw["metadata"]["name"]: InstanceType.model_validate(raw) for raw in raws}


LIGHT = {**MEASURED, "spec.computeShare": "0.2"}
SHARING: dict[str, tuple[dict[str, Any], SharingRule]] = {
    "shared": (MEASURED, SharingRule()),
    "light": (LIGHT, SharingRule()),
    "copies": (LIGHT, SharingRule()),
    "by percent": (LIGHT, SharingRule(by_percent=True)),
    "exclusive": ({}, SharingRule()),
    "undeclared": ({}, SharingRule(undeclared=TYPES)),
}
"""Overrides of the profiles, and how instances share."""


def offers_of(model: str, types: dict[str, InstanceType], gpu_memory: str, sharing: str) -> tuple[Offer, ...]:
    measured, rule = SHARING[sharing]
    copies = "Allowed" if sharing == "copies" else "Apart"
    if "spec.computeShare" in measured:
        slows = [{"model": one, "batch": 1, "factor": factor} for one, factor in (("rm2", "1.3"), ("dlrm", "1.2"))]
        measured = {**measured, "spec.interference": slows}
    found = InferenceService.model_validate(service("rm2", {"spec.model.name": model, "spec.ownCopies": copies}))
    profiles = []
    for name in TYPES:
        raw = model_profile(name, {"spec.gpuMemory": gpu_memory, **measured}) if "c" not in name else cpu_profile(name)
        raw["spec"] |= {"model": model, "instanceType": name}
        profiles.append(ModelProfile.model_validate(raw))
    offers = resolve_offers(found, types.values(), profiles, rule)
    assert isinstance(offers, Offers)
    assert len(offers.usable) == len(TYPES)
    return offers.usable


def mostly(usual: Any, *odd: Any) -> st.SearchStrategy[Any]:
    """The usual value nine times out of ten, so that odd ones do not leave every node without room."""
    return st.integers(0, 9).flatmap(lambda n: st.sampled_from(odd) if n == 9 else st.just(usual))


GPUS = st.lists(
    st.builds(
        Gpu,
        id=st.sampled_from("012"),
        product=mostly("Tesla-T4", "A100"),
        memory_mib=mostly(MiB(16384), MiB(8192), MiB(40960)),
        healthy=mostly(True, False),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda gpu: gpu.id,
).map(tuple)
NODES = st.builds(
    NodeFact,
    name=st.sampled_from(("n0", "n1", "n2")),
    labels=mostly({POOL: "gpu"}, {POOL: "cpu"}, {}),
    taints=mostly((), (Taint("gpu", effect="NoSchedule"),), (Taint("gpu", effect="PreferNoSchedule"),)),
    usable=mostly(True, False),
    cpu=mostly(MilliCPU(16000), MilliCPU(0), MilliCPU(4000)),
    memory=mostly(MiB(65536), MiB(4096)),
    gpus=GPUS,
    uid=st.sampled_from("ab"),
)
ANY_PODS = st.builds(
    PodFact,
    uid=st.sampled_from([f"p{n}" for n in range(5)]),
    namespace=mostly("default", "team"),
    name=st.just("p"),
    service=st.sampled_from((None, "rm2", "other")),
    instance_type=st.sampled_from((None, *TYPES)),
    model=st.sampled_from((None, *MODELS)),
    node=st.sampled_from((None, "n0", "n0", "n1", "n1", "n2", "gone")),
    gpu=mostly("0", None, "1", "0,1", "1,2", "7"),
    cpu=mostly(MilliCPU(1000), MilliCPU(0), MilliCPU(5000)),
    memory=mostly(MiB(2048), MiB(0)),
    gpu_memory=mostly(MiB(4096), MiB(0), MiB(12288)),
    gpu_compute=st.sampled_from((Percent(0), Percent(20), Percent(40), Percent(85), Percent(100), Percent(100))),
    beside_copies=st.booleans(),
    terminating=st.booleans(),
    gpus_unknown=mostly(False, True),
    unread=mostly(None, "odd"),
)
TERMS = st.builds(
    SharingTerms,
    share=st.sampled_from((200_000, 500_000, 900_000)).map(Millionths),
    tolerance=st.sampled_from((1_000_000, 1_500_000, 1_750_000, 3_000_000)).map(Millionths),
    others=st.sampled_from((0, 200_000, 700_000)).map(Millionths),
    named=st.sampled_from(((), (("rm2", Millionths(100_000)),), (("rm2", Millionths(400_000)),))),
)
PODS = st.builds(
    lambda pod, terms: replace(pod, sharing=terms) if pod.gpu_compute == 100 and pod.gpu_memory else pod,
    ANY_PODS,
    st.one_of(st.none(), TERMS, TERMS),
)
QUESTIONS = st.fixed_dictionaries(
    {
        "service": mostly(*SERVICES),
        "model": mostly(*MODELS),
        "pool": mostly("gpu", "cpu"),
        "gpu_memory": mostly("2Gi", "9Gi"),
        "sharing": st.sampled_from(sorted(SHARING)),
        "live": st.lists(PODS, max_size=3, unique_by=lambda pod: pod.uid),
        "strangers": st.integers(0, 2),
        "as_remembered": st.booleans(),
    }
)
CHANGES = st.one_of(
    st.tuples(st.just("put node"), NODES),
    st.tuples(st.just("drop node"), NODES),
    st.tuples(st.just("put pod"), PODS),
    st.tuples(st.just("put pod"), PODS),
    st.tuples(st.just("drop pod"), PODS),
    st.tuples(st.just("ask"), QUESTIONS),
)
KNOWN_TYPES = {pool: types_of(pool) for pool in ("gpu", "cpu")}
OFFERS = {
    (model, pool, memory, sharing): offers_of(model, KNOWN_TYPES[pool], memory, sharing)
    for model in MODELS
    for pool in KNOWN_TYPES
    for memory in ("2Gi", "9Gi")
    for sharing in SHARING
}


class Both:
    """A capacity, and the same nodes and pods as plain collections."""

    def __init__(self) -> None:
        self.capacity = ClusterCapacity()
        self.nodes: dict[str, NodeFact] = {}
        self.pods: dict[str, PodFact] = {}

    def change(self, kind: str, what: Any) -> None:
        if kind == "put node":
            self.nodes[what.name] = what
            self.capacity.put_node(what)
        elif kind == "drop node":
            if what.name in self.nodes and self.nodes[what.name].uid == what.uid:
                del self.nodes[what.name]
            self.capacity.drop_node(what)
        elif kind == "put pod":
            self.pods[what.uid] = what
            self.capacity.put_pod(what)
        elif kind == "drop pod":
            self.pods.pop(what.uid, None)
            self.capacity.drop_pod(what)

    def ask(self, asked: dict[str, Any]) -> None:
        """The same question to both. Live pods of a service may be in another version than remembered, or missing."""
        place, model = asked["service"], asked["model"]
        live = [replace(pod, namespace=place[0], service=place[1]) for pod in asked["live"]]
        if asked["as_remembered"]:
            live = [pod for pod in self.pods.values() if (pod.namespace, pod.service) == place]
        own, strangers = live[asked["strangers"] :], live[: asked["strangers"]]
        others = [pod for pod in self.pods.values() if (pod.namespace, pod.service) != place]
        offers = OFFERS[model, asked["pool"], asked["gpu_memory"], asked["sharing"]]
        nodes = [self.nodes[name] for name in sorted(self.nodes)]
        expected = cluster_facts((place[0], model), offers, nodes, own, [*others, *strangers])
        assert self.capacity.facts(place, model, offers, own, strangers) == expected


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(NODES, min_size=1, max_size=3), st.lists(CHANGES, max_size=30), QUESTIONS)
def test_room_kept_up_is_room_counted(
    nodes: list[NodeFact], changes: list[tuple[str, Any]], last: dict[str, Any]
) -> None:
    both = Both()
    for kind, what in [*(("put node", node) for node in nodes), *changes, ("ask", last)]:
        if kind == "ask":
            both.ask(what)
        else:
            both.change(kind, what)
            both.ask(last)


@given(
    st.lists(NODES, min_size=1, max_size=6), st.lists(PODS, max_size=10), QUESTIONS, st.randoms(use_true_random=False)
)
def test_the_order_of_changes_does_not_matter(
    nodes: list[NodeFact], pods: list[PodFact], last: dict[str, Any], order: Any
) -> None:
    changes = list({("put node", n.name): n for n in nodes}.items()) + list(
        {("put pod", p.uid): p for p in pods}.items()
    )
    order.shuffle(changes)
    both = Both()
    for (kind, _), what in changes:
        both.change(kind, what)
    both.ask(last)
