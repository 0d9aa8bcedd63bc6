"""Promise: two instances of one model never share a GPU; different models do."""

from __future__ import annotations

import pytest

from harness.cluster import Cluster
from harness.sandbox import Sandbox
from harness.waiting import WaitTimeoutError
from hetserve.placement.check import violations

GPUS = 4


def one_more_than_there_are_gpus(sandbox: Sandbox, *, model: str | None) -> None:
    """G + 1 instances for G half-empty GPUs."""
    sandbox.nodes("small", count=2, gpus=GPUS // 2)
    sandbox.deployment("first", "small", replicas=GPUS + 1, mib=4096, model=model)


def the_last_is_refused(sandbox: Sandbox, timeout: float = 20) -> None:
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


def test_the_scenario_fails_where_pods_carry_no_model(cluster: Cluster, namespace: str) -> None:
    """Without a model nothing separates them: all five are bound."""
    with Sandbox.cleared(cluster, namespace) as sandbox:
        one_more_than_there_are_gpus(sandbox, model=None)
        sandbox.wait_for_bound(GPUS + 1, "app=first")
        with pytest.raises(WaitTimeoutError, match="same model on every GPU"):
            the_last_is_refused(sandbox, timeout=0)  # all are bound: nobody is left to be refused
