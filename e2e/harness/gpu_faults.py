"""Makes GPUs unhealthy and healthy again, through the node's annotation."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from harness.kube import Kube, Manifest
from hetserve.api import names

KNOWN_WITHIN: Final = 2.0
"""Seconds within which extenders see a change of a node."""


@dataclass(slots=True)
class GpuFault:
    """Unhealthy from `since` to `until` [s since 1970]."""

    node: str
    gpu: str
    since: float
    until: float = math.inf

    def forbids(self, node: str, gpus: list[str], at: float) -> bool:
        """Whether a pod bound at `at` (whole seconds) must not have these GPUs."""
        return node == self.node and self.gpu in gpus and self.since + KNOWN_WITHIN < at and at + 1 < self.until


@dataclass(slots=True)
class GpuFaults:
    kube: Kube
    clock: Callable[[], float] = time.time
    history: list[GpuFault] = field(default_factory=list)

    @property
    def active(self) -> list[GpuFault]:
        return [fault for fault in self.history if fault.until == math.inf]

    def inject(self, node: Manifest, gpu: str) -> None:
        """Makes a GPU unhealthy, on a node without a fault."""
        self._annotate(node["metadata"]["name"], _listed(node["metadata"]["labels"], gpu))
        self.history.append(GpuFault(node["metadata"]["name"], gpu, self.clock()))

    def heal(self, fault: GpuFault) -> None:
        """Removes the annotation."""
        fault.until = self.clock()
        self._annotate(fault.node, None)

    def wrongly_bound(self, pod: Manifest) -> list[str]:
        """Known faults of a pod's GPUs at its bind, in words."""
        bound = [
            c for c in pod["status"].get("conditions", []) if c["type"] == "PodScheduled" and c["status"] == "True"
        ]
        if not bound:
            return []
        at = datetime.fromisoformat(bound[0]["lastTransitionTime"]).timestamp()
        node, gpus = pod["spec"]["nodeName"], pod["metadata"]["annotations"][names.ANNOTATION_GPU].split(",")
        found = [fault for fault in list(self.history) if fault.forbids(node, gpus, at)]
        return [f"pod {pod['metadata']['name']} was bound to an unhealthy GPU: {fault}" for fault in found]

    def _annotate(self, node: str, text: str | None) -> None:
        self.kube.patch("nodes", node, {"metadata": {"annotations": {names.ANNOTATION_NODE_GPUS: text}}})


def _listed(labels: dict[str, str], active: str) -> str:
    product, mib, count = (labels[key] for key in (names.GFD_PRODUCT, names.GFD_MEMORY, names.GFD_COUNT))
    return json.dumps(
        [
            {"uuid": str(number), "product": product, "memoryMiB": int(mib), "healthy": str(number) != active}
            for number in range(int(count))
        ]
    )
