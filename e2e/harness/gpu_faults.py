"""GPUs that turn unhealthy and well again while pods come and go, by the annotation that lists a node's GPUs."""

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
"""Seconds that the extenders' watches may take to tell of a node."""


@dataclass(slots=True)
class Illness:
    """A GPU that was unhealthy from `since` to `until` [s since the epoch]."""

    node: str
    gpu: str
    since: float
    until: float = math.inf

    def forbids(self, node: str, gpus: list[str], at: float) -> bool:
        """Whether a pod bound at that moment, told in whole seconds, must not have got these GPUs."""
        return node == self.node and self.gpu in gpus and self.since + KNOWN_WITHIN < at and at + 1 < self.until


@dataclass(slots=True)
class Ward:
    """Which GPUs are ill, and were."""

    kube: Kube
    clock: Callable[[], float] = time.time
    history: list[Illness] = field(default_factory=list)

    @property
    def ill(self) -> list[Illness]:
        return [illness for illness in self.history if illness.until == math.inf]

    def fall_ill(self, node: Manifest, gpu: str) -> None:
        """One GPU of a node that has had none ill."""
        self._annotate(node["metadata"]["name"], _listed(node["metadata"]["labels"], gpu))
        self.history.append(Illness(node["metadata"]["name"], gpu, self.clock()))

    def recover(self, illness: Illness) -> None:
        """The node is again what its labels say."""
        illness.until = self.clock()
        self._annotate(illness.node, None)

    def wrongly_bound(self, pod: Manifest) -> list[str]:
        """What is wrong with the bind of a pod on a node: a GPU that was known to be unhealthy for long."""
        bound = [
            c for c in pod["status"].get("conditions", []) if c["type"] == "PodScheduled" and c["status"] == "True"
        ]
        if not bound:
            return []
        at = datetime.fromisoformat(bound[0]["lastTransitionTime"]).timestamp()
        node, gpus = pod["spec"]["nodeName"], pod["metadata"]["annotations"][names.ANNOTATION_GPU].split(",")
        found = [illness for illness in list(self.history) if illness.forbids(node, gpus, at)]
        return [f"pod {pod['metadata']['name']} was bound to an unhealthy GPU: {illness}" for illness in found]

    def _annotate(self, node: str, text: str | None) -> None:
        self.kube.patch("nodes", node, {"metadata": {"annotations": {names.ANNOTATION_NODE_GPUS: text}}})


def _listed(labels: dict[str, str], ill: str) -> str:
    product, mib, count = (labels[key] for key in (names.GFD_PRODUCT, names.GFD_MEMORY, names.GFD_COUNT))
    return json.dumps(
        [
            {"uuid": str(number), "product": product, "memoryMiB": int(mib), "healthy": str(number) != ill}
            for number in range(int(count))
        ]
    )
