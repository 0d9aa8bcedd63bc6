"""Promise: a real container prints the NVIDIA_VISIBLE_DEVICES that the ledger holds, and pods of one GPU fit in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from images import build

from harness.invariants import broken, capacities
from harness.kind import KindCluster
from harness.waiting import Unmet, wait_until
from hetserve.api.names import ANNOTATION_GPU, ENV_VISIBLE_DEVICES, RESOURCE_GPU, RESOURCE_GPU_MEMORY, SCHEDULER_NAME

SAYS: Final = f'echo "GPUs ${ENV_VISIBLE_DEVICES}"; exec sleep 600'
NAMES: Final = ("whole", "shared-1", "shared-2", "shared-3")


def pod(name: str, namespace: str, **limits: str) -> dict[str, Any]:
    """A pod of a real container, which prints its devices."""
    seen = {
        "name": ENV_VISIBLE_DEVICES,
        "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{ANNOTATION_GPU}']"}},
    }
    container = {
        "name": "model",
        "image": build.tag_of("extender"),
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", SAYS],
        "env": [seen],
        "resources": {"limits": limits},
    }
    spec = {"schedulerName": SCHEDULER_NAME, "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def ledger(kind: KindCluster) -> dict[str, list[str]]:
    """GPUs of each pod, as `hetserve gpus` shows them."""
    command = [str(Path(sys.executable).parent / "hetserve"), "gpus", "-o", "json"]
    env = {**os.environ, "KUBECONFIG": str(kind.kubeconfig)}
    shown = json.loads(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout)
    return {held["name"]: held["gpus"] for gpu in shown["gpus"] for held in gpu["pods"]}


def printed(kind: KindCluster, namespace: str, name: str) -> list[str]:
    """The devices that a container has printed."""
    said = wait_until(lambda: kind.kubectl("logs", "-n", namespace, name), 20, f"{name} to print")
    return said.split()[1].split(",")


@pytest.mark.short
def test_a_container_prints_the_devices_that_the_ledger_holds(
    kind: KindCluster, gpu_workers: list[str], tenant: str
) -> None:
    def running() -> bool | Unmet:
        phases = {each["metadata"]["name"]: each["status"].get("phase") for each in kind.pods(tenant)}
        return set(phases.values()) == {"Running"} or Unmet(phases)

    # First, since the others spread over GPUs: one worker has two.
    kind.kube.create(pod(NAMES[0], tenant, **{RESOURCE_GPU: "1"}))
    wait_until(running, 60, "the container with a GPU of its own to run")
    for name in NAMES[1:]:
        kind.kube.create(pod(name, tenant, **{RESOURCE_GPU_MEMORY: "4000"}))
    wait_until(running, 60, "the containers to run")
    held = ledger(kind)
    for name in NAMES:
        assert printed(kind, tenant, name) == held[name]
    assert {each["spec"]["nodeName"] for each in kind.pods(tenant)} <= set(gpu_workers)
    assert broken(kind.pods(tenant), capacities(kind.kube.list("nodes", labels="nvidia.com/gpu.count"))) == []
