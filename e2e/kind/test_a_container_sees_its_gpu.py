"""Promise: a real container prints the NVIDIA_VISIBLE_DEVICES that the ledger holds, and pods of one GPU fit in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from harness.containers import HOST, container_pod, printed, wait_for_running
from harness.invariants import broken, capacities
from harness.kind import KindCluster
from hetserve.api.names import RESOURCE_GPU, RESOURCE_GPU_MEMORY

pytestmark = pytest.mark.beside

NAMES: Final = ("whole", "shared-1", "shared-2", "shared-3")


def ledger(kind: KindCluster) -> dict[str, list[str]]:
    """GPUs of each pod, as `hetserve gpus` shows them."""
    command = [str(Path(sys.executable).parent / "hetserve"), "gpus", "-o", "json"]
    env = {**os.environ, "KUBECONFIG": str(kind.kubeconfig)}
    shown = json.loads(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout)
    return {held["name"]: held["gpus"] for gpu in shown["gpus"] for held in gpu["pods"]}


@pytest.mark.short
def test_a_container_prints_the_devices_that_the_ledger_holds(
    kind: KindCluster, gpu_workers: list[str], tenant: str
) -> None:
    # On the last node, as another scenario may use the first. The whole GPU first, since the others spread over both.
    where = {"nodeSelector": {HOST: gpu_workers[-1]}}
    kind.kube.create(container_pod(NAMES[0], tenant, {RESOURCE_GPU: "1"}, **where))
    wait_for_running(kind, tenant)
    for name in NAMES[1:]:
        kind.kube.create(container_pod(name, tenant, {RESOURCE_GPU_MEMORY: "4000"}, **where))
    wait_for_running(kind, tenant)
    held = ledger(kind)
    for name in NAMES:
        assert printed(kind, tenant, name) == held[name]
    assert broken(kind.pods(tenant), capacities(kind.kube.list("nodes", labels="nvidia.com/gpu.count"))) == []
