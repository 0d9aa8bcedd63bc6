"""Promise: a service keeps its only GPU while its image changes, whoever waits for one."""

from __future__ import annotations

from typing import Any

import pytest

from harness import limits
from harness.cluster import Cluster
from harness.kube import Manifest
from harness.sandbox import GPU_MIB, Sandbox
from harness.waiting import Unmet, wait_until
from testing.builders import MEASURED

IMAGES = ("model:1", "model:2")
GRACE = 5
"""Seconds for which an instance ends: the next one waits by then."""


def template(image: str) -> dict[str, Any]:
    return {"spec": {"terminationGracePeriodSeconds": GRACE, "containers": [{"name": "model", "image": image}]}}


@pytest.mark.timeout(limits.TEST)
@pytest.mark.parametrize("sharing", ["Auto", "Exclusive"])
def test_another_image_costs_a_service_no_gpu(cluster: Cluster, namespace: str, sharing: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("gpu", count=1, gpus=1)
        kind = sandbox.instance_type("gpu")
        sandbox.play_launch_times(scale=0, drain=True)
        sandbox.profile("m", kind, overrides={"spec.gpuMemory": "4Gi", **MEASURED})
        spec = {} if sharing == "Auto" else {"spec.sharing": sharing}
        sandbox.service(
            "svc", "m", [kind], {"spec.template": template(IMAGES[0]), "spec.load": {"expectedQPS": 6}, **spec}
        )
        sandbox.ready("svc")
        sandbox.deployment("rival", "gpu", replicas=1, mib=GPU_MIB, model=None)
        sandbox.wait_for_refusal("MiB" if sharing == "Auto" else "GPU")

        def serves(image: str) -> Manifest | Unmet:
            pods = cluster.service_pods("svc", namespace)
            (first, *more) = [(p["spec"]["containers"][0]["image"], p["spec"].get("nodeName")) for p in pods] or [
                ("", "")
            ]
            return pods[0] if not more and first[0] == image and first[1] else Unmet([first, *more])

        sandbox.edit("svc", {"spec": {"template": template(IMAGES[1])}})
        wait_until(lambda: serves(IMAGES[1]), limits.ROLLOUT, f"{IMAGES[1]} to be on the GPU")
        sandbox.ready("svc")
        assert sandbox.bound("app=rival") == []
