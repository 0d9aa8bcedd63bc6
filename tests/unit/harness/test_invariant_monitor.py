"""The invariant monitor reports each broken promise."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.gpu_faults import KNOWN_WITHIN, GpuFault, GpuFaults
from harness.invariant_monitor import InvariantMonitor
from harness.invariants import broken, capacities
from hetserve.api.names import ANNOTATION_GPU_SHARING, RESOURCE_GPU_MEMORY
from testing.cluster import gpu_node, gpu_pod

Pod = dict[str, Any]
BOUND_AT = 1_767_225_600.0


def test_the_witness_sees_an_over_commit_between_two_good_revisions() -> None:
    monitor = InvariantMonitor([gpu_node("n0", gpus=1, memory_mib=8000)])
    first, second = (gpu_pod(name, node="n0", gpu="0", memory_mib=5000, model=name) for name in "ab")
    for kind, pod, revision in (("ADDED", first, 1), ("ADDED", second, 2), ("DELETED", second, 3)):
        pod["metadata"]["resourceVersion"] = str(revision)
        monitor.take(kind, pod)

    assert monitor.wrong == [
        "revision 2: GPU 0 of node n0 is over-committed: 10000 of 8000 MiB",
        "revision 2: more than 8000 MiB are held on ('n0', '0'): ['a', 'b']",
    ]


def test_the_witness_sees_a_pod_that_moves_and_one_without_a_gpu() -> None:
    monitor = InvariantMonitor([gpu_node("n0", gpus=2)])
    for revision, gpu in enumerate(("0", "1", None), start=1):
        pod = gpu_pod("p", uid="other" if gpu is None else "p", node="n0", gpu=gpu, model=None)
        pod["metadata"]["resourceVersion"] = str(revision)
        monitor.take("MODIFIED", pod)

    assert monitor.wrong == [
        "pod p moved from ('n0', '0') to ('n0', '1')",
        "pod p is bound to n0 without a GPU",
        "revision 3: pod default/p runs on 1 GPUs of node n0, and its annotation names 0",
        "revision 3: what a pod holds cannot be read: KeyError('hetserve.io/gpu')",
    ]


def test_the_witness_judges_the_node_that_a_pod_comes_to_and_the_one_that_it_leaves() -> None:
    monitor = InvariantMonitor([gpu_node(name, gpus=1, memory_mib=8000) for name in ("n0", "n1", "n2")])

    def held(name: str, node: str) -> Pod:
        return gpu_pod(name, node=node, gpu="0", memory_mib=4000, model=name)

    came = [held(name, node) for name, node in (("a", "n0"), ("b", "n0"), ("c", "n0"), ("d", "n0"), ("e", "n1"))]
    taken = [*(("ADDED", pod) for pod in came), ("MODIFIED", held("d", "n2")), ("DELETED", came[4])]
    for revision, (kind, pod) in enumerate(taken, start=1):
        pod["metadata"]["resourceVersion"] = str(revision)
        monitor.take(kind, pod)

    over = [line for line in monitor.wrong if "over-committed" in line]
    assert over == [
        "revision 3: GPU 0 of node n0 is over-committed: 12000 of 8000 MiB",
        "revision 4: GPU 0 of node n0 is over-committed: 16000 of 8000 MiB",
        "revision 6: GPU 0 of node n0 is over-committed: 12000 of 8000 MiB",
    ], "n1 and n2 hold what they have"


def whole(name: str, gpu: str, *, gpus: int = 1, mib: str | None = None) -> Pod:
    """A pod of whole GPUs, bound; `mib`: what its annotation says of each."""
    pod = gpu_pod(name, node="n0", gpu=gpu, memory_mib=0, gpus=gpus, model=name)
    pod["metadata"]["annotations"]["hetserve.io/gpu-memory"] = mib or ",".join(["8000"] * (gpu.count(",") + 1))
    return pod


def slice_(name: str, gpu: str, *, mib: int = 1000, gpus: int | None = None, model: str | None = "") -> Pod:
    return gpu_pod(name, node="n0", gpu=gpu, memory_mib=mib, gpus=gpus, model=name if model == "" else model)


def as_stored(pod: Pod) -> Pod:
    pod["spec"]["containers"][0]["resources"]["limits"][RESOURCE_GPU_MEMORY] = "4k"
    return pod


def paired(name: str, *, share: str = "0.5", tolerance: str = "1.75", gpu: str = "0", **factors: str) -> Pod:
    """A bound pod with terms; factors: by model, others 1.9."""
    pod = gpu_pod(name, node="n0", gpu=gpu, memory_mib=1000, model=name, compute=100)
    terms = {"share": share, "tolerance": tolerance, "factors": {"*": "1.9"} | factors}
    pod["metadata"]["annotations"][ANNOTATION_GPU_SHARING] = json.dumps(terms)
    return pod


def without_terms(pod: Pod) -> Pod:
    pod["metadata"]["annotations"][ANNOTATION_GPU_SHARING] = "{"
    return pod


def elsewhere(pod: Pod) -> Pod:
    pod["metadata"]["namespace"] = "elsewhere"
    return pod


KEPT = {
    "three that tolerate each other": [
        paired("a", b="1.7", c="1.05"),
        paired("b", a="1.1", c="1.05"),
        paired("c", a="1.05", b="1.05"),
    ],
    "one that tolerates nobody": [paired("a", share="1", tolerance="1")],
    "one whose terms cannot be read": [without_terms(paired("a"))],
    "slices of several models": [slice_("a", "0", mib=4000), slice_("b", "0", mib=4000)],
    "slices of two GPUs beside one of one": [slice_("a", "0,1", gpus=2), slice_("b", "1")],
    "memory as the API server writes it": [as_stored(slice_("a", "0", mib=4000))],
    "whole ones": [whole("a", "0"), whole("b", "1,2", gpus=2)],
    "pods without a model": [slice_("a", "0", model=None), slice_("b", "0", model=None)],
    "a pod that has finished": [whole("a", "0"), gpu_pod("b", node="n0", gpu="0", memory_mib=9000, phase="Failed")],
}
BROKEN = {
    "a neighbour that does too much": ([paired("a", b="1.1"), paired("b", a="1.76")], "a is slowed down more than it"),
    "the same, of one that is not named": ([paired("a", b="1.1"), paired("b")], "a is slowed down more than it"),
    "the same, of another namespace": (
        [paired("a", b="1.1"), elsewhere(paired("b", a="1.1"))],
        "a is slowed down more than it tolerates on",
    ),
    "two that do too much together": (
        [paired("a", b="1", c="1"), paired("b", a="1.4", c="1"), paired("c", a="1.4", b="1")],
        "a is slowed",
    ),
    "shares beyond what one tolerates": (
        [paired("a", share="0.9", b="1"), paired("b", share="0.9", tolerance="9", a="1")],
        "a is slowed",
    ),
    "one with terms beside a percent": (
        [paired("a"), gpu_pod("b", node="n0", gpu="0", memory_mib=1, model="b", compute=10)],
        "count their compute in different ways are beside each other on",
    ),
    "one with terms beside one that declares nothing": ([paired("a"), slice_("b", "0")], "in different ways"),
    "two whose terms cannot be read": (
        [without_terms(paired("a")), without_terms(paired("b"))],
        "more than 100 % of compute are held",
    ),
    "more memory than there is": ([slice_("a", "0", mib=4001), slice_("b", "0", mib=4000)], "more than 8000 MiB"),
    "the same over several GPUs": ([slice_("a", "0,1", mib=5000, gpus=2), slice_("b", "1", mib=5000)], "'1'"),
    "a whole GPU shared": ([whole("a", "0,1", gpus=2), slice_("b", "1")], "a whole GPU is shared on ('n0', '1')"),
    "a model twice": ([slice_("a", "0", model="m"), slice_("b", "0", model="m")], "one model of a namespace is twice"),
    "fewer GPUs than asked for": ([slice_("a", "0", gpus=2)], "a holds"),
    "one GPU named twice": ([slice_("a", "0,0", gpus=2)], "a holds"),
    "a part of a whole GPU": ([whole("a", "0", mib="7999")], "a holds"),
}


@pytest.mark.parametrize("pods", KEPT.values(), ids=KEPT)
def test_the_account_finds_nothing_wrong(pods: list[Pod]) -> None:
    assert broken(pods, capacities([gpu_node("n0", gpus=3, memory_mib=8000)])) == []


@pytest.mark.parametrize(("pods", "words"), BROKEN.values(), ids=BROKEN)
def test_the_invariants_report_a_broken_promise(pods: list[Pod], words: str) -> None:
    found = broken(pods, capacities([gpu_node("n0", gpus=3, memory_mib=8000)]))
    assert any(words in line for line in found), found


BINDS = {
    "long after it became unhealthy": (GpuFault("n0", "0", BOUND_AT - 60), True),
    "before the extender could know": (GpuFault("n0", "0", BOUND_AT - KNOWN_WITHIN), False),
    "when it was well again": (GpuFault("n0", "0", BOUND_AT - 60, BOUND_AT - 1), False),
    "in the second in which it recovered": (GpuFault("n0", "0", BOUND_AT - 60, BOUND_AT + 0.5), False),
    "long before it recovered": (GpuFault("n0", "0", BOUND_AT - 60, BOUND_AT + 5), True),
    "another GPU is unhealthy": (GpuFault("n0", "2", BOUND_AT - 60), False),
    "another node's": (GpuFault("n1", "0", BOUND_AT - 60), False),
}


@pytest.mark.parametrize(("fault", "wrong"), BINDS.values(), ids=BINDS)
def test_a_bind_to_a_gpu_that_is_ill(fault: GpuFault, wrong: bool) -> None:
    pod = gpu_pod("p", node="n0", gpu="1,0", gpus=2)
    pod["metadata"]["resourceVersion"] = "1"
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    pod["status"]["conditions"] = [condition]
    monitor = InvariantMonitor([gpu_node("n0"), gpu_node("n1")], GpuFaults(None, history=[fault]))  # type: ignore[arg-type]
    monitor.take("MODIFIED", pod)
    assert [line.partition(":")[0] for line in monitor.wrong] == ["pod p was bound to an unhealthy GPU"] * wrong
