"""Fake nodes as data, for KWOK: the papers' testbeds.

`node.kubernetes.io/instance-type` separates the pools.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from hetserve.api.names import ANNOTATION_NODE_GPUS, GFD_COUNT, GFD_MEMORY, GFD_PRODUCT

INSTANCE_TYPE_LABEL: Final = "node.kubernetes.io/instance-type"


@dataclass(frozen=True, slots=True)
class Gpus:
    """Equal GPUs of one node; memory in MiB."""

    product: str
    memory: int
    count: int = 1

    def labels(self) -> dict[str, str]:
        return {
            GFD_PRODUCT: self.product,
            GFD_MEMORY: str(self.memory),
            GFD_COUNT: str(self.count),
        }


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """`count` equal nodes `{name}-1`, `{name}-2`, ..., padded.

    `cpu`, `memory`: quantities. `labels`: further ones. `gpu_annotation`: JSON list of GPUs.
    """

    name: str
    instance_type: str
    count: int
    cpu: str
    memory: str
    gpus: Gpus | None = None
    labels: tuple[tuple[str, str], ...] = ()
    gpu_annotation: str = ""

    def node_names(self) -> tuple[str, ...]:
        width = len(str(self.count))
        return tuple(f"{self.name}-{number:0{width}d}" for number in range(1, self.count + 1))

    def manifests(self) -> list[dict[str, Any]]:
        return [self._manifest(name) for name in self.node_names()]

    def _manifest(self, name: str) -> dict[str, Any]:
        annotations = {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"}
        if self.gpu_annotation:
            annotations[ANNOTATION_NODE_GPUS] = self.gpu_annotation
        resources = {"cpu": self.cpu, "memory": self.memory, "pods": "110", "ephemeral-storage": "100Gi"}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "annotations": annotations,
                "labels": {
                    "kubernetes.io/arch": "amd64",
                    "kubernetes.io/hostname": name,
                    "kubernetes.io/os": "linux",
                    "type": "kwok",
                    INSTANCE_TYPE_LABEL: self.instance_type,
                    **(self.gpus.labels() if self.gpus else {}),
                    **dict(self.labels),
                },
            },
            "status": {"capacity": dict(resources), "allocatable": dict(resources)},
        }


@dataclass(frozen=True, slots=True)
class FakeCluster:
    name: str
    groups: tuple[NodeGroup, ...]

    def manifests(self) -> list[dict[str, Any]]:
        return [manifest for group in self.groups for manifest in group.manifests()]

    def node_names(self) -> tuple[str, ...]:
        return tuple(name for group in self.groups for name in group.node_names())

    def group(self, instance_type: str) -> NodeGroup:
        """Raises KeyError with the known types."""
        for group in self.groups:
            if group.instance_type == instance_type:
                return group
        known = ", ".join(group.instance_type for group in self.groups)
        raise KeyError(f"{self.name} has no nodes of type {instance_type!r}, only of {known}")


HETSEV: Final = FakeCluster(
    "hetsev",
    (
        NodeGroup(
            "hetsev-v100", "hetsev-v100", 4, cpu="40", memory="62Gi", gpus=Gpus("Tesla-V100-PCIE-32GB", 32768, 2)
        ),
        NodeGroup("hetsev-t4", "hetsev-t4", 4, cpu="40", memory="62Gi", gpus=Gpus("Tesla-T4", 15360, 2)),
    ),
)
"""HetSev's testbed (Electronics 2023, section 5): 8 V100 with 32 GB and 8 T4 with 16 GB."""

KAIROS: Final = FakeCluster(
    "kairos",
    (
        NodeGroup("kairos-g4dn-xlarge", "g4dn.xlarge", 4, cpu="4", memory="16Gi", gpus=Gpus("Tesla-T4", 15360)),
        NodeGroup("kairos-c5n-2xlarge", "c5n.2xlarge", 5, cpu="8", memory="21Gi"),
        NodeGroup("kairos-r5n-large", "r5n.large", 14, cpu="2", memory="16Gi"),
        NodeGroup("kairos-t3-xlarge", "t3.xlarge", 5, cpu="4", memory="16Gi"),
    ),
)
"""Kairos's pool (HPDC'23, section 7), as its largest configurations need it."""

BOTH: Final = (HETSEV, KAIROS)

DEMO: Final = (
    FakeCluster("hetsev", (HETSEV.group("hetsev-v100"), replace(HETSEV.group("hetsev-t4"), count=10))),
    KAIROS,
)
"""What the samples need where GPUs hold what the plans promise: more T4s than HetSev's testbed has."""

DAY: Final = FakeCluster(
    "day",
    (
        NodeGroup("day-g4dn-xlarge", "day-g4dn.xlarge", 4, cpu="4", memory="16Gi", gpus=Gpus("Tesla-T4", 15360)),
        NodeGroup("day-c5n-2xlarge", "day-c5n.2xlarge", 6, cpu="8", memory="21Gi"),
        NodeGroup("day-r5n-large", "day-r5n.large", 12, cpu="2", memory="16Gi"),
    ),
)
"""What the service of `make demo-load` has for itself, so that it does not meet the samples."""


def manifests_of(clusters: Iterable[FakeCluster]) -> list[dict[str, Any]]:
    """Raises ValueError for a repeated name."""
    manifests = [manifest for cluster in clusters for manifest in cluster.manifests()]
    names = [manifest["metadata"]["name"] for manifest in manifests]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"node names appear twice: {', '.join(twice)}")
    return manifests
