"""What a pod asks for, or one large node, does not set how much a decision sorts: memory taken is work done."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from hetserve.base.units import MiB, Seconds
from hetserve.placement.decision.decide import decide, scores
from hetserve.placement.ledger.inventory import Gpu, NodeInventory
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.pods.requests import GpuRequest, PolicyName
from hetserve.registry.placement_policies import PLACEMENT_POLICIES

SMALL = 500
MANY = 1024
KIB_PER_GPU = 0.25
"""Some vectors over all GPUs are taken; a table of nodes by GPUs asked for would be 15 KiB for each."""


def cluster(*sizes: int) -> Ledger:
    ledger = Ledger()
    for number, size in enumerate(sizes):
        gpus = tuple(Gpu(str(gpu), "V100", MiB(1000 + gpu % 7)) for gpu in range(size))
        ledger.put_node(NodeInventory(f"n{number:04}", f"uid-{number}", gpus))
    return ledger


def peak_kib(work: Callable[[], object]) -> float:
    work()  # what is kept for the next is no work of this one
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("policy", PLACEMENT_POLICIES.names)
@pytest.mark.parametrize("asked", [2, 9, MANY])
@pytest.mark.parametrize("largest", [8, MANY], ids=lambda size: f"largest node of {size}")
def test_neither_a_pod_that_asks_for_many_gpus_nor_a_node_that_has_them_makes_a_decision_long(
    policy: PolicyName, asked: int, largest: int
) -> None:
    ledger = cluster(*[8] * SMALL, largest)
    names = tuple(sorted(ledger.index.node_row))
    request = GpuRequest("p", "d", "p", MiB(100), gpus=asked, policy=policy)
    most = KIB_PER_GPU * len(ledger.index.gpus)
    for verb, work in {
        "filter": lambda: decide(ledger.index, request, names),
        "prioritize": lambda: scores(ledger.index, request, names),
    }.items():
        assert (took := peak_kib(work)) < most, f"{verb} takes {took:.0f} KiB: the loop of all verbs is held"


@pytest.mark.parametrize("mib", [100, 5000], ids=["fits", "refused"])
@pytest.mark.parametrize("gpus", [1, 3])
def test_of_a_node_that_is_offered_alone_only_its_own_gpus_are_looked_at(mib: int, gpus: int) -> None:
    held = GpuRequest("held", "d", "held", MiB(100), "m")
    request = GpuRequest("p", "d", "p", MiB(mib), "m", gpus=gpus)

    def taken(nodes: int) -> float:
        ledger = cluster(*[8] * nodes)
        ledger.reserve(held, [("n0003", "2")], Seconds(1))
        return peak_kib(lambda: decide(ledger.index, request, ["n0003"]))

    assert taken(SMALL) - taken(10) < 1, "a bind makes masks over the whole cluster"


def test_of_nodes_with_enough_gpus_that_fit_the_best_is_taken_however_large_the_others_are() -> None:
    ledger = cluster(2, 8, MANY, 3)
    names = tuple(sorted(ledger.index.node_row))
    request = GpuRequest("p", "d", "p", MiB(100), gpus=3)
    decision = decide(ledger.index, request, names)
    assert decision.chosen is not None
    assert decision.chosen.node == "n0002"
    assert {gpu.free_mib for gpu in decision.chosen.gpus} == {1006}
    assert scores(ledger.index, request, names) == {"n0000": 0, "n0001": 9, "n0002": 10, "n0003": 8}
