"""Promise: two instances of a namespace's model never share a GPU; other models, and other namespaces', do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness import limits
from harness.cluster import Cluster
from harness.sandbox import Sandbox
from harness.waiting import WaitTimeoutError
from hetserve.placement.check import violations
from testing.builders import MEASURED

GPUS = 4


def one_more_than_there_are_gpus(sandbox: Sandbox, *, model: str | None) -> None:
    """G + 1 instances for G half-empty GPUs."""
    sandbox.nodes("small", count=2, gpus=GPUS // 2)
    sandbox.deployment("first", "small", replicas=GPUS + 1, mib=4096, model=model)


def the_last_is_refused(sandbox: Sandbox, timeout: float = limits.REACTION) -> None:
    """G are bound, each on a GPU of its own, and the scheduler says why the last is not."""
    sandbox.wait_for_refusal("same model on every GPU", timeout)
    sandbox.wait_for_bound(GPUS, "app=first")


def test_the_instance_that_finds_its_model_on_every_gpu_waits_and_says_why(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        one_more_than_there_are_gpus(sandbox, model="resnet50")
        the_last_is_refused(sandbox)
        mine = {g: h for g, h in cluster.gpu_holders().items() if h[0].namespace == namespace}
        assert [len(holders) for holders in mine.values()] == [1] * GPUS

        sandbox.deployment("second", "small", replicas=GPUS, mib=4096, model="transformer")
        sandbox.wait_for_bound(GPUS, "app=second")

        shared = {g: h for g, h in cluster.gpu_holders().items() if h[0].namespace == namespace}
        assert [sorted(h.model for h in held) for held in shared.values()] == [["resnet50", "transformer"]] * GPUS
        assert not violations(cluster.kube.list("pods"), cluster.kube.list("nodes"))


@pytest.fixture
def tenants(cluster: Cluster, namespace: str) -> Iterator[tuple[Sandbox, Sandbox]]:
    """Two namespaces; "a-b" and "a" + "-b": one name is the beginning of the other's."""
    second = f"{namespace}-b"
    cluster.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": second}})
    try:
        with Sandbox.cleared(cluster, namespace) as one, Sandbox.cleared(cluster, second) as other:
            yield one, other
    finally:
        cluster.kube.delete("namespaces", second)


def test_another_tenants_model_of_the_same_name_is_in_nobodys_way(
    cluster: Cluster, tenants: tuple[Sandbox, Sandbox]
) -> None:
    one, other = tenants
    one_more_than_there_are_gpus(one, model="resnet50")
    the_last_is_refused(one)
    other.deployment("theirs", "small", replicas=GPUS + 1, mib=4096, model="resnet50", of=one)
    other.wait_for_bound(GPUS, "app=theirs")
    other.wait_for_refusal("same model on every GPU")
    one.wait_for_bound(GPUS, "app=first")

    held = [h for h in cluster.gpu_holders().values() if h[0].namespace in (one.namespace, other.namespace)]
    each = sorted((one.namespace, other.namespace))
    assert [sorted(holder.namespace for holder in holders) for holders in held] == [each] * GPUS
    assert not violations(cluster.kube.list("pods"), cluster.kube.list("nodes"))
    ledger = cluster.ledger()
    assert not [problem for problem in ledger["problems"] if one.namespace in problem]


def test_the_operator_plans_on_gpus_that_hold_another_tenants_model(
    cluster: Cluster, tenants: tuple[Sandbox, Sandbox]
) -> None:
    one, other = tenants
    one.nodes("gpu", count=1, gpus=2)
    kind = one.instance_type("gpu", overrides={"spec.price": {"hourly": "0.1", "per": "GiB"}})
    for sandbox in tenants:
        measured = {**MEASURED, "spec.computeShare": "0.3", "spec.gpuMemory": "4Gi"}
        sandbox.profile("resnet50", kind, overrides=measured)
        sandbox.service("resnet50", "resnet50", [kind], {"spec.load": {"expectedQPS": 8}})
        sandbox.ready("resnet50")
        assert sandbox.counts("resnet50") == {kind: 2}
    held = [h for h in cluster.gpu_holders().values() if h[0].namespace in (one.namespace, other.namespace)]
    assert [len(holders) for holders in held] == [2, 2]
    assert not violations(cluster.kube.list("pods"), cluster.kube.list("nodes"))


def test_the_scenario_fails_where_pods_carry_no_model(cluster: Cluster, namespace: str) -> None:
    """Without a model nothing separates them: all five are bound."""
    with Sandbox.cleared(cluster, namespace) as sandbox:
        one_more_than_there_are_gpus(sandbox, model=None)
        sandbox.wait_for_bound(GPUS + 1, "app=first")
        with pytest.raises(WaitTimeoutError, match="same model on every GPU"):
            the_last_is_refused(sandbox, timeout=0)  # all are bound: nobody is left to be refused
