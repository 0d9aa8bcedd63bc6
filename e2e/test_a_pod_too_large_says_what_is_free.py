"""Promise: a pod that no GPU can hold says what it needs and the most that is free."""

from __future__ import annotations

from harness.cluster import Cluster
from harness.sandbox import GPU_MIB, Sandbox


def test_the_event_names_the_need_and_the_most_that_is_free(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("small", count=2, gpus=2)
        sandbox.deployment("small", "small", replicas=4, mib=4096, model="small")
        sandbox.wait_for_bound(4)

        sandbox.deployment("huge", "small", replicas=1, mib=90_000, model="huge")

        message = sandbox.wait_for_refusal("90000 MiB")
        assert f"the most free on any eligible GPU is {GPU_MIB - 4096} MiB" in message
        assert len(sandbox.bound()) == 4
