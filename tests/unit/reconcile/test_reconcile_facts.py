"""Room of the cluster for a service, by type."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import InstanceType
from hetserve.api.model_profile import ModelProfile
from hetserve.base.units import MiB, MicroDollarsPerHour, MilliCPU, Millionths, Percent
from hetserve.objects.gpu_sharing import SharingTerms
from hetserve.objects.node import Taint
from hetserve.planning.inputs import TypeFacts
from hetserve.planning.offers import Offer, Offers, resolve_offers
from hetserve.planning.tenancy import SharingRule
from hetserve.reconcile.cluster import capacity as capacity_module
from hetserve.reconcile.cluster.capacity import ClusterCapacity, Free
from hetserve.reconcile.cluster.observed import (
    NodeFact,
    PodFact,
    SliceFact,
    node_fact,
    pod_fact,
    read_service,
    slice_fact,
)
from hetserve.reconcile.plans.plan_decision import Finding, PlanDecision
from hetserve.reconcile.rollout import holdings
from hetserve.reconcile.snapshot import ServiceSnapshot
from testing.builders import MEASURED, instance_type, model_profile, service
from testing.cluster import gpu_pod, plugin_pod
from testing.scenes import CPU_TYPE, GPU_TYPE, cpu_profile, cpu_type, node

GPU_NODE = node_fact(node("g", GPU_TYPE, gpus=2, pods=4))
TAINT, PREFERENCE = Taint("gpu", effect="NoSchedule"), Taint("gpu", effect="PreferNoSchedule")
CPU_NODE = node_fact(node("c", CPU_TYPE))


def offers(
    profile: dict[str, Any], undeclared: tuple[str, ...] = (), *, by_percent: bool = False, **spec: Any
) -> tuple[Offer, ...]:
    """profile: overrides of the one on the GPU type. spec: fields of the service."""
    found = read_service(service("rm2", {f"spec.{field}": value for field, value in spec.items()}))
    assert isinstance(found, InferenceService)
    per_gib = instance_type(GPU_TYPE, {"spec.price.per": "GiB"})
    types = [InstanceType.model_validate(raw) for raw in (per_gib, cpu_type())]
    gpu_profile = model_profile(overrides={"spec.gpuMemory": "4Gi", **profile})
    profiles = [ModelProfile.model_validate(raw) for raw in (gpu_profile, cpu_profile())]
    resolved = resolve_offers(found, types, profiles, SharingRule(undeclared=undeclared, by_percent=by_percent))
    assert isinstance(resolved, Offers)
    return resolved.usable


SHARED = offers(MEASURED)
EXCLUSIVE = offers({})
UNDECLARED = offers({}, (GPU_TYPE,))
BY_PERCENT = offers(MEASURED, by_percent=True)
ITSELF = {"spec.interference": [{"model": "rm2", "batch": 1, "factor": "1.3"}]}
COPIES = offers({**MEASURED, **ITSELF}, ownCopies="Allowed")
"""Copies of rm2 share a GPU: three of .5 are within 1.75, of which each slows another by .3; 15 GiB hold three of 4."""


def on_terms(share: float = 0.5, tolerance: float = 1.75, others: float = 0.0) -> dict[str, Any]:
    """Of a pod that shares its GPU so; the instances of SHARED have a share of .5 and slow nobody."""
    u, s, h = (Millionths(round(1_000_000 * one)) for one in (share, tolerance, others))
    return {"gpu_compute": Percent(100), "sharing": SharingTerms(u, s, h)}


def by_percent(compute: int) -> dict[str, Any]:
    """Of a pod that books percent of compute; 0: it declares none."""
    return {"gpu_compute": Percent(compute), "sharing": None}


def pod(**given: Any) -> PodFact:
    base: dict[str, Any] = {"uid": "u", "namespace": "default", "name": "p", "node": "g", "gpu": "0"}
    return PodFact(**{**base, "model": "other", "gpu_memory": MiB(4096), **on_terms(), **given})


TOO_SLOW = on_terms(others=0.8)
"""It slows others by more than an instance of SHARED tolerates."""


def facts(
    nodes: tuple[NodeFact, ...] = (GPU_NODE, CPU_NODE),
    own: tuple[PodFact, ...] = (),
    others: tuple[PodFact, ...] = (),
    given: tuple[Offer, ...] = SHARED,
) -> dict[str, TypeFacts]:
    capacity = ClusterCapacity()
    for found in nodes:
        capacity.put_node(found)
    for number, other in enumerate(others):
        capacity.put_pod(replace(other, uid=f"other-{number}"))
    return dict(capacity.facts(("default", "rm2"), "rm2", given, own, ()).types)


ROOM: dict[str, tuple[dict[str, Any], int]] = {
    "two idle GPUs": ({}, 2),
    "another model on one, with room beside it": ({"others": (pod(),)}, 2),
    "a pod on both of them": ({"others": (pod(gpu="0,1", gpu_memory=MiB(12000)),)}, 0),
    "a pod that holds one whole": ({"others": (pod(gpu="1", gpu_memory=MiB(0)),)}, 1),
    "another model on one, without room": ({"others": (pod(gpu_memory=MiB(12000)),)}, 1),
    "the same model of another service on one": ({"others": (pod(model="rm2"),)}, 1),
    "another namespace's model of the same name on one": ({"others": (pod(model="rm2", namespace="team"),)}, 2),
    "another model on one, that slows others too much": ({"others": (pod(**TOO_SLOW),)}, 1),
    "another model on one, that slows them just not too much": ({"others": (pod(**on_terms(others=0.75)),)}, 2),
    "another model on one, that tolerates no neighbour": ({"others": (pod(**on_terms(tolerance=0.99)),)}, 1),
    "two that use too much of it together": ({"others": (pod(), pod(**on_terms(0.8)))}, 1),
    "two that together just do not": ({"others": (pod(), pod(**on_terms(0.75)))}, 2),
    "a pod on one that books percent": ({"others": (pod(**by_percent(5)),)}, 1),
    "a pod on one that declares none": ({"others": (pod(**by_percent(0)),)}, 1),
    "a whole GPU, one busy": ({"others": (pod(gpu_memory=MiB(1)),), "given": EXCLUSIVE}, 1),
    "a whole GPU, one held whole": ({"others": (pod(gpu_memory=MiB(0), whole_gpu=True),), "given": EXCLUSIVE}, 1),
    "memory alone, beside one that declares none": (
        {"others": (pod(**by_percent(0)),), "given": UNDECLARED},
        2,
    ),
    "memory alone, beside one on terms": ({"others": (pod(),), "given": UNDECLARED}, 1),
    "memory alone, beside one that books percent": ({"others": (pod(**by_percent(5)),), "given": UNDECLARED}, 1),
    "percent, beside one that books the rest": ({"others": (pod(**by_percent(60)),), "given": BY_PERCENT}, 2),
    "percent, beside one that books too much": ({"others": (pod(**by_percent(65)),), "given": BY_PERCENT}, 1),
    "percent, beside one on terms": ({"others": (pod(),), "given": BY_PERCENT}, 1),
    "a cordoned node": ({"nodes": (replace(GPU_NODE, usable=False),)}, 0),
    "a taint that is not tolerated": ({"nodes": (replace(GPU_NODE, taints=(TAINT,)),)}, 0),
    "a taint that only prefers": (
        {"nodes": (replace(GPU_NODE, taints=(PREFERENCE,)),)},
        2,
    ),
    "a node without CPU left": ({"others": (pod(gpu=None, gpu_memory=MiB(0), cpu=MilliCPU(14000)),)}, 0),
    "a pod on a GPU that the node does not list": ({"others": (pod(gpu="7"),)}, 0),
    "a pod that holds GPUs of which nobody knows which": ({"others": (pod(gpu=None, gpus_unknown=True),)}, 0),
    "a pod on another node that does": ({"others": (pod(node="h", gpu=None, gpus_unknown=True),)}, 2),
    "a pod that cannot be read": ({"others": (pod(gpu=None, unread="odd"),)}, 0),
    "an unhealthy GPU": (
        {"nodes": (replace(GPU_NODE, gpus=(GPU_NODE.gpus[0], replace(GPU_NODE.gpus[1], healthy=False))),)},
        1,
    ),
}


@pytest.mark.parametrize("what", ROOM)
def test_room_on_a_gpu_type(what: str) -> None:
    given, room = ROOM[what]
    assert facts(**given)[GPU_TYPE].room == room


def test_what_terminates_runs_no_more_and_its_place_is_room() -> None:
    own = pod(model="rm2", instance_type=GPU_TYPE)
    assert facts(own=(own,))[GPU_TYPE] == TypeFacts(running=1, room=1)
    assert facts(own=(replace(own, terminating=True),))[GPU_TYPE] == TypeFacts(running=0, room=2)


OWN = {"model": "rm2", "instance_type": GPU_TYPE}
REPLACED: dict[str, tuple[dict[str, Any], TypeFacts]] = {
    "one with a smaller share": ({"own": (pod(**OWN, **on_terms(0.45)),)}, TypeFacts(1, 0)),
    "one with as much": ({"own": (pod(**OWN),)}, TypeFacts(1, 1)),
    "one with a larger share, as a plan keeps it": ({"own": (pod(**OWN, **on_terms(0.55)),)}, TypeFacts(1, 1)),
    "one that tolerates less, as a plan keeps it": ({"own": (pod(**OWN, **on_terms(0.5, 1.5)),)}, TypeFacts(1, 1)),
    "one that tolerates more": ({"own": (pod(**OWN, **on_terms(0.5, 2.0)),)}, TypeFacts(1, 0)),
    "one that books percent": ({"own": (pod(**OWN, **by_percent(40)),)}, TypeFacts(1, 0)),
    "one on terms, for percent": ({"own": (pod(**OWN),), "given": BY_PERCENT}, TypeFacts(1, 0)),
    "one that shares, for a whole GPU": ({"own": (pod(**OWN),), "given": EXCLUSIVE}, TypeFacts(1, 0)),
    "one that has a whole GPU": (
        {"own": (pod(**OWN, gpu="1", gpu_memory=MiB(0), whole_gpu=True, **by_percent(0)),), "given": EXCLUSIVE},
        TypeFacts(1, 0),
    ),
    "one that declares none": ({"own": (pod(**OWN, **by_percent(0)),)}, TypeFacts(1, 0)),
}
"""Own instances on GPU 0 beside another that no instance of SHARED tolerates, and what runs and has room."""


@pytest.mark.parametrize("what", REPLACED)
def test_an_instance_that_a_larger_one_replaces_counts_only_where_that_one_finds_a_place(what: str) -> None:
    given, expected = REPLACED[what]
    assert facts(others=(pod(**TOO_SLOW),), **given)[GPU_TYPE] == expected


def test_a_larger_instance_may_have_the_place_of_the_one_that_it_replaces() -> None:
    own = (pod(**OWN, uid="a", **on_terms(0.1)), pod(**OWN, uid="b", gpu="1", **on_terms(0.1)))
    assert facts(own=own)[GPU_TYPE] == TypeFacts(running=2, room=0)
    crowd = (pod(**TOO_SLOW), pod(gpu="1", **TOO_SLOW))
    assert facts(own=own, others=crowd)[GPU_TYPE] == TypeFacts(running=0, room=0, least=Millionths(1_800_000))


_SOON = (("default", "other", GPU_TYPE),)


@pytest.mark.parametrize(
    ("given", "declaring", "most"),
    [(SHARED, (), 0), (SHARED, _SOON, 2), (SHARED, (("team", "other", GPU_TYPE),), 0), (EXCLUSIVE, _SOON, 0)],
    ids=["not measured", "measured", "measured elsewhere", "in the way of a whole GPU all the same"],
)
def test_a_measured_instance_waits_for_neighbours_that_declare_nothing_until_they_are_measured(
    given: tuple[Offer, ...], declaring: tuple[tuple[str, str, str], ...], most: int
) -> None:
    capacity = ClusterCapacity()
    capacity.put_node(GPU_NODE)
    none = by_percent(0)
    for gpu in "01":
        capacity.put_pod(pod(uid=f"other-{gpu}", gpu=gpu, service="other", instance_type=GPU_TYPE, **none))
    own = [pod(**OWN, uid=gpu, gpu=gpu, **none) for gpu in "01"]
    found = capacity.facts(("default", "rm2"), "rm2", given, own, (), declaring=declaring).types[GPU_TYPE]
    assert found == TypeFacts(running=most, room=0)


def copy(share: float = 0.5, tolerance: float = 1.75, on_itself: float = 0.3, **given: Any) -> PodFact:
    """An instance of rm2 on GPU 0 beside which copies may be."""
    terms = replace(on_terms(share, tolerance)["sharing"], named=(("rm2", Millionths(round(1_000_000 * on_itself))),))
    return pod(**{**OWN, "service": "rm2", "beside_copies": True, "sharing": terms, **given})


ROOMY = (replace(GPU_NODE, cpu=MilliCPU(96_000), memory=MiB(1_000_000)), CPU_NODE)
WITH_COPIES: dict[str, tuple[dict[str, Any], int]] = {
    "two idle GPUs": ({}, 6),
    "a node with CPU for fewer": ({"nodes": (GPU_NODE, CPU_NODE)}, 5),
    "one copy on one": ({"own": (copy(),)}, 5),
    "a copy on one that must be apart": ({"own": (copy(beside_copies=False),)}, 3),
    "one that slows copies more": ({"own": (copy(on_itself=0.5),)}, 4),
    "one that tolerates no copy": ({"own": (copy(tolerance=1.25),)}, 3),
    "another model that leaves memory for two": ({"others": (pod(**on_terms(0.1)),)}, 5),
    "another model that leaves compute for one": ({"others": (pod(**on_terms(0.8)),)}, 4),
}


@pytest.mark.parametrize("what", WITH_COPIES)
def test_copies_that_may_share_a_gpu_have_room_for_as_many_as_tolerate_each_other(what: str) -> None:
    given, room = WITH_COPIES[what]
    assert facts(**{"nodes": ROOMY, **given}, given=COPIES)[GPU_TYPE].room == room


def test_copies_stay_apart_where_nobody_measured_them_or_nobody_allowed_them() -> None:
    assert facts(given=offers(MEASURED, ownCopies="Allowed"))[GPU_TYPE].room == 2
    assert facts(given=offers({**MEASURED, **ITSELF}))[GPU_TYPE].room == 2
    assert facts(own=(copy(),), given=SHARED)[GPU_TYPE].room == 1


def test_copies_on_one_gpu_that_are_to_be_apart_count_only_as_far_as_they_find_gpus_of_their_own() -> None:
    one_gpu = replace(ROOMY[0], gpus=GPU_NODE.gpus[:1])
    own = (copy(uid="a"), copy(uid="b"))
    assert facts((one_gpu, CPU_NODE), own, given=COPIES)[GPU_TYPE] == TypeFacts(running=2, room=1)
    assert facts((one_gpu, CPU_NODE), own, given=offers({**MEASURED, **ITSELF}))[GPU_TYPE] == TypeFacts(1, 0)
    assert facts(ROOMY, own, given=offers({**MEASURED, **ITSELF}))[GPU_TYPE] == TypeFacts(running=2, room=0)


def test_own_instances_that_wait_reserve_nothing() -> None:
    own = pod(model="rm2", instance_type=GPU_TYPE, node=None, gpu=None)
    assert facts(own=(own,))[GPU_TYPE] == TypeFacts(running=0, room=2)


def test_a_cpu_type_has_room_for_as_many_as_fit_on_its_nodes() -> None:
    assert facts()[CPU_TYPE].room == 1
    full = pod(node="c", gpu=None, gpu_memory=MiB(0), cpu=MilliCPU(2000))
    assert facts(others=(full,))[CPU_TYPE].room == 0
    assert facts(nodes=())[CPU_TYPE].room == 0


def test_a_cpu_type_has_no_room_beside_a_pod_that_cannot_be_read_and_keeps_it_beside_unknown_gpus() -> None:
    beside = pod(node="c", gpu=None, gpu_memory=MiB(0))
    assert facts(others=(replace(beside, unread="odd"),))[CPU_TYPE].room == 0
    assert facts(others=(replace(beside, gpus_unknown=True),))[CPU_TYPE].room == 1


def remembered(*pods: PodFact) -> ClusterCapacity:
    capacity = ClusterCapacity()
    capacity.put_node(GPU_NODE)
    for found in pods:
        capacity.put_pod(found)
    return capacity


def test_of_a_services_own_pods_only_those_just_read_count() -> None:
    own = pod(service="rm2", model="another", gpu_memory=MiB(12000))
    capacity = remembered(own)
    assert capacity.facts(("default", "rm2"), "rm2", SHARED, (), ()).types[GPU_TYPE].room == 2
    assert capacity.facts(("default", "else"), "rm2", SHARED, (), ()).types[GPU_TYPE].room == 1
    assert capacity.facts(("team", "rm2"), "rm2", SHARED, (), ()).types[GPU_TYPE].room == 1
    moved = replace(own, gpu="0,1")
    assert capacity.facts(("default", "rm2"), "rm2", SHARED, (moved,), ()).types[GPU_TYPE].room == 0
    assert capacity.facts(("default", "rm2"), "rm2", SHARED, (), (moved,)).types[GPU_TYPE] == TypeFacts(0, 0)


def test_another_namespaces_instances_of_a_model_by_the_same_name_leave_their_gpus_to_be_used() -> None:
    own = pod(model="rm2", service="one")
    theirs = pod(model="rm2", service="rm2", namespace="team", gpu="1", uid="theirs")
    capacity = remembered(own, theirs)
    assert capacity.facts(("default", "rm2"), "rm2", SHARED, (), ()).types[GPU_TYPE].room == 1
    assert capacity.facts(("team", "another"), "rm2", SHARED, (), ()).types[GPU_TYPE].room == 1
    assert capacity.facts(("third", "rm2"), "rm2", SHARED, (), ()).types[GPU_TYPE].room == 2
    (offer,) = (one for one in SHARED if one.name == GPU_TYPE)
    assert capacity.room(("third", "rm2"), "rm2", offer, ()) == 2
    capacity.drop_pod(own)
    assert capacity.facts(("default", "rm2"), "rm2", SHARED, (), ()).types[GPU_TYPE].room == 2


def test_a_node_that_was_made_anew_stays_when_the_deletion_of_the_old_one_arrives() -> None:
    capacity = remembered()
    capacity.put_node(replace(GPU_NODE, uid="new"))
    capacity.drop_node(GPU_NODE)
    assert capacity.facts(("default", "rm2"), "rm2", SHARED, (), ()).types[GPU_TYPE].room == 2
    capacity.drop_node(replace(GPU_NODE, uid="new"))
    assert capacity.facts(("default", "rm2"), "rm2", SHARED, (), ()).types[GPU_TYPE].room == 0


def test_room_stays_right_while_thousands_of_nodes_come_and_go() -> None:
    capacity = remembered()
    for number in range(5000):
        fleeting = replace(GPU_NODE, name=f"n{number}")
        capacity.put_node(fleeting)
        if number % 1000 == 0:
            assert capacity.facts(("default", "rm2"), "rm2", SHARED, (), ()).types[GPU_TYPE].room == 4
        capacity.drop_node(fleeting)
    capacity.put_pod(pod(gpu="0,1", gpu_memory=MiB(12000)))
    assert capacity.facts(("default", "rm2"), "rm2", SHARED, (), ()).types[GPU_TYPE].room == 0


def demands(number: int) -> list[tuple[Offer, ...]]:
    return [tuple(replace(o, demand=replace(o.demand, cpu=MilliCPU(n + 1))) for o in SHARED) for n in range(number)]


def test_room_stays_right_for_more_demands_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity_module, "MOST_ROOMS", 10_000)
    capacity = remembered()
    for gpus in (2, 0):
        for some in demands(50):
            assert capacity.facts(("default", "rm2"), "rm2", some, (), ()).types[GPU_TYPE].room == gpus
        capacity.put_pod(pod(gpu="0,1", gpu_memory=MiB(12000)))


def test_thousands_of_services_count_the_room_of_a_node_once_until_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    counted, room_in = Counter[bool](), capacity_module.room_in

    def counting(free: Free | None, offer: Offer, model: tuple[str, str]) -> int:
        counted[offer.name == GPU_TYPE] += 1
        return room_in(free, offer, model)

    monkeypatch.setattr(capacity_module, "room_in", counting)
    capacity, asked = remembered(), demands(3000)
    for times in (1, 1, 2):
        if times == 2:
            capacity.put_pod(pod())
        for some in asked:
            assert capacity.facts(("default", "rm2"), "rm2", some, (), ()).types[GPU_TYPE].room == 2
        assert counted[True] == times * len(asked)


def room_beside(*raw: dict[str, Any]) -> int | None:
    others = tuple(fact for fact in map(pod_fact, raw) if fact is not None)
    return facts(others=others)[GPU_TYPE].room


@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed"])
def test_the_gpus_of_a_node_are_not_planned_on_while_a_pod_has_some_through_the_device_plugin(phase: str) -> None:
    assert room_beside(plugin_pod(node="g", phase=phase)) == (0 if phase == "Running" else 2)
    assert room_beside(plugin_pod(node=None)) == 2
    ending = plugin_pod(node="g")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert room_beside(ending) == 0


def test_planning_believes_no_node_that_placement_will_refuse() -> None:
    assert room_beside(gpu_pod("unsaid", node="g")) == 0, "it does not say on which GPU it runs"
    assert room_beside(gpu_pod("beyond", node="g", gpu="9")) == 0, "it runs on one of them, whatever it says"
    assert room_beside(gpu_pod("huge", node="g", gpu="0", memory_mib="1e9999999")) == 0
    only_named = gpu_pod("named", node="g", memory_mib="0")
    only_named["metadata"]["annotations"]["hetserve.io/gpu"] = "0"
    assert room_beside(only_named) == 2, "an annotation alone holds nothing"


@pytest.mark.parametrize(
    ("part", "odd"),
    [
        ("spec", {"containers": [{"name": "c"}] * 1025}),
        ("spec", {"containers": [{"name": "c"}], "priority": "x"}),
        ("status", {"conditions": [{"type": "Ready"}] * 1025}),
    ],
)
def test_a_bound_pod_that_names_no_gpu_leaves_all_of_them(part: str, odd: dict[str, Any]) -> None:
    raw = gpu_pod("odd", node="g")
    raw["spec"]["containers"] = [{"name": "c"}]
    raw[part] = raw[part] | odd
    assert room_beside(raw) == 2


@pytest.mark.parametrize("part", ["metadata", "spec", "status"])
def test_a_bound_pod_that_cannot_be_read_is_a_fact_and_one_on_no_node_is_none(part: str) -> None:
    raw = gpu_pod("odd", node="g", gpu="0")
    raw[part] = raw[part] | {"labels": 7, "containers": 7, "conditions": 7}
    found = pod_fact(raw)
    assert found is not None, "its GPU looks free"
    assert (found.node, found.name, found.namespace) == ("g", "odd", "default")
    assert found.unread is not None
    assert room_beside(raw) == 0
    raw["status"]["phase"] = "Failed"
    assert pod_fact(raw) is None
    del raw["spec"]["nodeName"]
    raw["status"]["phase"] = "Pending"
    waiting = pod_fact(raw)
    assert waiting is None or waiting.node is None


def test_a_finished_pod_is_no_fact_and_a_gated_one_is_not_refused() -> None:
    raw: dict[str, Any] = {
        "metadata": {"uid": "u", "name": "p", "namespace": "d"},
        "spec": {"schedulingGates": [{"name": "hetserve.io/queue"}]},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
    }
    found = pod_fact(raw)
    assert found is not None
    assert found.gated
    assert found.waiting is None
    assert pod_fact({**raw, "status": {"phase": "Succeeded"}}) is None


def test_ids_that_no_node_can_have_are_not_kept() -> None:
    """Any tenant may write 256 KiB of them to each of his pods, and rooms are counted from them all the time."""
    raw = gpu_pod(node="n0", gpu="1,0")
    found = pod_fact(raw)
    assert found is not None
    assert found.gpu == "0,1"
    raw["metadata"]["annotations"]["hetserve.io/gpu"] = ",".join(map(str, range(40_000)))
    found = pod_fact(raw)
    assert found is not None
    assert found.gpu is None


def test_gpus_that_a_slice_offers_are_no_room_until_the_last_slice_goes() -> None:
    capacity = ClusterCapacity()
    capacity.put_slice(SliceFact("early", ("g",)))
    capacity.put_node(GPU_NODE)
    capacity.put_node(CPU_NODE)
    live = pod(service="rm2", instance_type=GPU_TYPE)

    def seen(*own: PodFact) -> dict[str, TypeFacts]:
        return dict(capacity.facts(("default", "rm2"), "rm2", SHARED, own, ()).types)

    assert seen()[GPU_TYPE] == TypeFacts(0, 0)
    assert seen()[CPU_TYPE] == facts()[CPU_TYPE], "CPU is nobody else's"
    capacity.put_slice(SliceFact("late", ("g", "unknown")))
    capacity.drop_slice(SliceFact("early", ("g",)))
    assert seen()[GPU_TYPE] == TypeFacts(0, 0)
    assert seen(live)[GPU_TYPE] == TypeFacts(1, 0), "what runs there runs"
    capacity.drop_slice(SliceFact("late", ("g", "unknown")))
    assert seen() == facts()


def test_gpus_that_the_plugin_shares_are_no_room() -> None:
    raw = node("g", GPU_TYPE, gpus=2, pods=4)
    raw["metadata"]["labels"]["nvidia.com/gpu.replicas"] = "4"
    shared = node_fact(raw)
    assert len(shared.gpus) == 2
    assert facts(nodes=(shared, CPU_NODE))[GPU_TYPE] == TypeFacts(0, 0)


def test_a_slice_that_is_made_anew_under_its_name_still_offers_its_gpus() -> None:
    def read(uid: str) -> SliceFact:
        spec = {"driver": "gpu.nvidia.com", "nodeName": "g", "devices": [{"name": "gpu-0"}]}
        found = slice_fact({"metadata": {"name": "s", "uid": uid}, "spec": spec})
        assert found is not None
        return found

    capacity = ClusterCapacity()
    capacity.put_node(GPU_NODE)
    # A list shows the new one before it is known that the old one is gone.
    capacity.put_slice(read("before"))
    capacity.put_slice(read("after"))
    capacity.drop_slice(read("before"))
    assert capacity.facts(("default", "rm2"), "rm2", SHARED, (), ()).types[GPU_TYPE] == TypeFacts(0, 0)


@pytest.mark.parametrize(
    ("runs", "price"),
    [({}, 103_000), ({"share": 0.4}, 103_000), ({"tolerance": 1.25}, 144_000), ({"tolerance": 5.0}, 96_000)],
    ids=["as planned", "other terms of the same tolerance", "tolerates less", "tolerates more"],
)
def test_an_instance_that_tolerates_as_much_as_is_planned_pays_that_and_another_by_its_own_terms(
    runs: dict[str, float], price: int
) -> None:
    kind = InstanceType.model_validate(instance_type(GPU_TYPE, {"spec.price": {"hourly": "0.36", "per": "GPU"}}))
    offer = next(replace(one, type=kind, price=MicroDollarsPerHour(103_000)) for one in SHARED if one.name == GPU_TYPE)
    none = Finding("Unknown", "", "")
    decision = PlanDecision(none, none, none, offers={GPU_TYPE: offer})
    own = pod(**OWN, **on_terms(**runs))
    snapshot = ServiceSnapshot(service("rm2"), datetime(2026, 1, 1, tzinfo=UTC), types=(kind,), pods=(own,))
    assert holdings(snapshot, decision)[GPU_TYPE].paid == price
