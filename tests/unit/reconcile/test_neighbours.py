"""Which GPUs hold more than a service's instances may have beside them, and whose instances a pod disturbs."""

from __future__ import annotations

from typing import Any

import pytest

from hetserve.base.units import MiB, Millionths, Percent
from hetserve.objects.gpu_sharing import SharingTerms
from hetserve.reconcile.cluster.capacity import ClusterCapacity
from hetserve.reconcile.cluster.neighbours import CrowdedGpu, crowded_gpus, disturbed_by
from hetserve.reconcile.cluster.observed import PodFact, node_fact
from testing.scenes import GPU_TYPE, node

SERVICES = ("calm", "tense")


def pod(service: str, share: float = 0.6, tolerance: float = 1.75, **given: Any) -> PodFact:
    """A pod of a service on GPU 0 of node g, that shares it on terms and slows others by nothing else."""
    u, s = (Millionths(round(1_000_000 * one)) for one in (share, tolerance))
    base: dict[str, Any] = {"node": "g", "gpu": "0", "model": service, "service": service, "gpu_memory": MiB(4096)}
    terms = {"gpu_compute": Percent(100), "sharing": SharingTerms(u, s)}
    return PodFact(f"uid-{service}", "default", service, **{**base, **terms, **given})


TENSE = pod("tense", tolerance=1.1)
"""It takes 1.2 times as long beside a calm one."""
PLAIN: dict[str, Any] = {"sharing": None}


def crowded(service: str, *pods: PodFact) -> tuple[CrowdedGpu, ...]:
    capacity = ClusterCapacity()
    capacity.put_node(node_fact(node("g", GPU_TYPE, gpus=1)))
    for one in pods:
        capacity.put_pod(one)
    return crowded_gpus(capacity, ("default", service), [one for one in pods if one.service == service])


def test_only_the_service_whose_instance_takes_longer_than_it_tolerates_loses_its_promise() -> None:
    pods = (pod("calm"), TENSE)
    assert crowded("calm", *pods) == ()
    assert crowded("tense", *pods) == (CrowdedGpu("g", "0", (), Percent(110)),)
    assert disturbed_by(TENSE, pods[:1]) == set()
    assert disturbed_by(pod("calm"), [TENSE]) == {("default", "tense")}


def test_a_third_pod_disturbs_whom_two_do_not() -> None:
    two, third = (pod("calm", 0.2), pod("tense", 0.2, 1.1)), pod("more", 0.8)
    assert disturbed_by(two[0], two[1:]) == set()
    assert disturbed_by(third, two) == {("default", "tense")}


def test_an_instance_that_ends_is_promised_nothing_any_more() -> None:
    assert crowded("tense", pod("calm"), pod("tense", tolerance=1.1, terminating=True)) == ()


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize(
    ("beside", "undeclared", "booked"),
    [(pod("plain", **PLAIN, gpu_compute=Percent(0)), ("default/plain",), 69), (pod("p", **PLAIN), (), 300)],
    ids=["no compute", "percents"],
)
def test_beside_pods_of_another_kind_nobody_is_promised_anything(
    service: str, beside: PodFact, undeclared: tuple[str, ...], booked: int
) -> None:
    pods = (pod("calm"), pod("tense"), beside)
    assert crowded(service, *pods) == (CrowdedGpu("g", "0", undeclared, Percent(booked)),)
    assert disturbed_by(beside, pods[:2]) == {("default", one) for one in SERVICES}
