"""The ledger against the cluster: every difference is named, and what the ledger knows first is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.placement.ledger.compare import ClusterHoldings, Kind, compare
from hetserve.placement.ledger.inventory import parse_node
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.pods.view import parse_pod, unread_pod
from testing.cluster import gpu_node, gpu_pod, plugin_pod

Json = dict[str, Any]
NODES = [gpu_node("n0", gpus=4)]


def _pods() -> list[Json]:
    return [
        gpu_pod("slice", node="n0", gpu="0"),
        gpu_pod("pair", node="n0", gpu="0,1", gpus=2, model="m"),
        gpu_pod("whole", node="n0", gpu="3", gpus=1, memory_mib=0),
    ]


def _annotated(pod: Json) -> Json:
    """With the memory that our binding writes for a whole GPU."""
    if pod["metadata"]["name"] == "whole":
        pod["metadata"]["annotations"][names.ANNOTATION_GPU_MEMORY] = "32768"
    return pod


def _ledger(pods: list[Json], nodes: list[Json] = NODES) -> Ledger:
    ledger = Ledger()
    for node in nodes:
        ledger.put_node(parse_node(node))
    for pod in pods:
        ledger.observe(parse_pod(pod))
    return ledger


def _cluster(pods: list[Json], nodes: list[Json] = NODES) -> ClusterHoldings:
    return ClusterHoldings.of([_annotated(pod) for pod in pods], nodes)


def test_a_ledger_that_saw_everything_equals_its_cluster() -> None:
    assert compare(_ledger(_pods()), _cluster(_pods())) == ()


def _another_gpu(pods: list[Json]) -> None:
    pods[0]["metadata"]["annotations"][names.ANNOTATION_GPU] = "2"


def _another_memory(pods: list[Json]) -> None:
    pods[1]["metadata"]["annotations"][names.ANNOTATION_GPU_MEMORY] = "4096,4000"


CHANGES: dict[str, tuple[Callable[[list[Json]], object], dict[Kind, int], str]] = {
    "a pod that went": (
        lambda pods: pods.pop(0),
        {Kind.NOT_IN_CLUSTER: 1, Kind.OTHER_FREE: 1},
        "pod default/slice is booked on GPU 0 of node n0 and holds nothing in the cluster",
    ),
    "a pod that finished": (
        lambda pods: pods[2]["status"].update(phase="Failed"),
        {Kind.NOT_IN_CLUSTER: 1, Kind.OTHER_FREE: 1, Kind.OTHER_FREE_COMPUTE: 1},
        "GPU 3 of node n0 has 0 MiB free in the ledger, 32768 by the cluster's pods",
    ),
    "a pod that came": (
        lambda pods: pods.append(gpu_pod("new", node="n0", gpu="2")),
        {Kind.NOT_BOOKED: 1, Kind.OTHER_FREE: 1},
        "pod default/new holds GPU 2 of node n0 and is not booked",
    ),
    "a pod of the same name with another UID": (
        lambda pods: pods.__setitem__(0, gpu_pod("slice", uid="again", node="n0", gpu="0")),
        {Kind.NOT_IN_CLUSTER: 1, Kind.NOT_BOOKED: 1},
        "pod default/slice holds GPU 0 of node n0 and is not booked",
    ),
    "a pod on another GPU": (
        _another_gpu,
        {Kind.OTHER_GPU: 1, Kind.OTHER_FREE: 2},
        "pod default/slice is booked on GPU 0 of node n0 and holds GPU 2 of node n0",
    ),
    "a pod with another memory": (
        _another_memory,
        {Kind.OTHER_MEMORY: 1, Kind.OTHER_FREE: 1},
        "pod default/pair is booked with 4096, 4096 MiB and holds 4096, 4000 MiB",
    ),
}


@pytest.mark.parametrize(("change", "kinds", "words"), CHANGES.values(), ids=CHANGES)
def test_every_change_that_the_ledger_missed_is_named(
    change: Callable[[list[Json]], object], kinds: dict[Kind, int], words: str
) -> None:
    ledger, after = _ledger(_pods()), _pods()
    change(after)
    found = compare(ledger, _cluster(after))
    assert {kind: sum(one.kind is kind for one in found) for kind in {one.kind for one in found}} == kinds
    assert words in [one.text for one in found]


def test_an_inventory_that_the_ledger_missed_is_named() -> None:
    ledger = _ledger([], [gpu_node("n0", gpus=2), gpu_node("gone", gpus=1)])
    found = compare(ledger, _cluster([], [gpu_node("n0", gpus=3, memory_mib=100)]))
    assert [one.text for one in found] == [
        "GPU 0 of node gone is in the ledger, not in the cluster",
        "GPU 0 of node n0 has 32768 MiB free in the ledger, 100 by the cluster's pods",
        "GPU 1 of node n0 has 32768 MiB free in the ledger, 100 by the cluster's pods",
        "GPU 2 of node n0 is in the cluster, not in the ledger",
    ]


def test_what_the_ledger_knows_before_the_cluster_is_no_difference() -> None:
    ledger = _ledger(_pods())
    for uid in ("uid-reserved", "uid-binding"):
        ledger.reserve(parse_pod(gpu_pod(uid[4:], model=uid)).request, [("n0", "2")], Seconds(1))
    ledger.begin_bind("uid-binding")
    assert compare(ledger, _cluster(_pods())) == ()
    landed = [*_pods(), gpu_pod("binding", node="n0", gpu="2", model="uid-binding")]
    assert compare(ledger, _cluster(landed)) == (), "nor what the cluster knows a moment before the watch"


def test_a_bind_on_another_gpu_than_booked_is_a_difference_at_once() -> None:
    ledger = _ledger([])
    ledger.reserve(parse_pod(gpu_pod("p")).request, [("n0", "2")], Seconds(1))
    ledger.begin_bind("uid-p")
    found = compare(ledger, _cluster([gpu_pod("p", node="n0", gpu="1")]))
    assert {one.kind for one in found} == {Kind.OTHER_GPU, Kind.OTHER_FREE}


def test_objects_that_cannot_be_read_do_not_end_the_comparison() -> None:
    broken_node = gpu_node("bad")
    broken_node["metadata"]["annotations"] = {names.ANNOTATION_NODE_GPUS: "[{"}
    broken_pod = gpu_pod("bad", node="n0", gpu="0")
    broken_pod["metadata"]["annotations"][names.ANNOTATION_GPU_MEMORY] = "lots"
    cluster = _cluster([*_pods(), broken_pod], [*NODES, broken_node])
    cluster.add_pods([{"metadata": None}])
    cluster.add_nodes([{}])
    assert compare(_ledger(_pods()), cluster) == ()


def test_a_whole_gpu_whose_inventory_grew_is_no_difference() -> None:
    grown = [gpu_node("n0", gpus=4, memory_mib=65536)]
    ledger = _ledger(_pods())
    ledger.put_node(parse_node(grown[0]))
    assert compare(ledger, _cluster(_pods(), grown)) == ()
    assert compare(_ledger(_pods(), grown), _cluster(_pods(), grown)) == (), "nor to a ledger built anew"


def _both() -> Json:
    """With GPUs of ours and of the plugin, as somebody bound it past us."""
    both = gpu_pod("both", node="n0", gpu="2", model="both")
    both["spec"]["containers"][0]["resources"]["limits"][names.RESOURCE_NVIDIA_GPU] = "1"
    return both


def test_pods_of_the_device_plugin_are_known_to_both_sides() -> None:
    pods = [*_pods(), plugin_pod(), _both(), plugin_pod("waits", node=None)]
    assert compare(_ledger(pods), _cluster(pods)) == ()
    missed = compare(_ledger(_pods()), _cluster([*_pods(), plugin_pod()]))
    assert [(one.kind, one.text) for one in missed] == [
        (Kind.NOT_BOOKED, "pod default/nvidia has GPUs that a device plugin chose and is not booked")
    ]
    gone = compare(_ledger([*_pods(), plugin_pod()]), _cluster([*_pods(), plugin_pod(phase="Failed")]))
    assert [one.kind for one in gone] == [Kind.NOT_IN_CLUSTER], "its node is closed for ever"


def test_a_pod_that_cannot_be_read_is_a_difference_only_once_it_is_gone() -> None:
    odd = gpu_pod("odd", node="n0", memory_mib="1e9999999")
    ledger, seen = _ledger(_pods()), unread_pod(odd)
    assert seen is not None
    ledger.observe(seen)
    assert compare(ledger, _cluster([*_pods(), odd])) == ()
    assert [one.kind for one in compare(ledger, _cluster(_pods()))] == [Kind.NOT_IN_CLUSTER]
