"""The true cluster, in small hashable values, and their raw objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from hetserve.api import names
from hetserve.placement.check import violations
from hetserve.placement.placer import Mode
from testing.cluster import gpu_node, gpu_pod

Raw = dict[str, Any]
CAPACITY = 100
"""MiB of every GPU."""


@dataclass(frozen=True, slots=True)
class PodSpec:
    """`resources` and `annotations` come on top."""

    mib: int = 60
    model: str = "m"
    resources: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    namespace: str = "default"
    deployment: str | None = None

    @property
    def compute(self) -> int:
        """Percent that it holds on each GPU: all of a whole one, 0 if it declares none."""
        return int(dict(self.resources).get(names.RESOURCE_GPU_COMPUTE, 0)) if self.mib else 100


class PodTruth(NamedTuple):
    """One incarnation of a pod as the API server has it."""

    slot: int
    incarnation: int
    node: str | None = None
    notes: tuple[tuple[str, str], ...] = ()
    terminating: bool = False
    finished: bool = False
    version: int = 1
    model: str = ""
    """Changed label; empty: its spec's."""
    stripped: bool = False
    """Somebody removed what the binding wrote; it runs where `notes` say."""
    stamp: str = ""
    """Of the last fence."""

    @property
    def name(self) -> str:
        return f"pod{self.slot}"

    @property
    def uid(self) -> str:
        return f"pod{self.slot}-{self.incarnation}"


class NodeTruth(NamedTuple):
    """One incarnation of a node."""

    name: str
    incarnation: int

    @property
    def uid(self) -> str:
        return f"{self.name}-{self.incarnation}"


@dataclass(frozen=True)
class Shape:
    """Requests of each pod, GPUs of each node."""

    pods: tuple[PodSpec, ...]
    nodes: Mapping[str, int] = field(default_factory=lambda: {"n0": 2})

    def __hash__(self) -> int:
        return hash((self.pods, tuple(self.nodes.items())))

    @cache  # noqa: B019  (a shape lives as long as the process)
    def pod(self, truth: PodTruth) -> Raw:
        """The raw object; shared, read-only."""
        spec = self.pods[truth.slot]
        raw = gpu_pod(
            truth.name,
            uid=truth.uid,
            namespace=spec.namespace,
            memory_mib=spec.mib,
            model=truth.model or spec.model,
            node=truth.node,
            phase="Succeeded" if truth.finished else "Running" if truth.node else "Pending",
            terminating=truth.terminating,
            deployment=spec.deployment,
        )
        raw["metadata"]["resourceVersion"] = str(truth.version)
        raw["metadata"]["annotations"] |= dict(spec.annotations) | dict(() if truth.stripped else truth.notes)
        if truth.stamp:
            raw["metadata"]["labels"] |= {names.LABEL_FENCE: truth.stamp}
        asked = raw["spec"]["containers"][0]["resources"]
        for kind in ("limits", "requests"):
            asked[kind] = {k: v for k, v in asked[kind].items() if spec.mib} | dict(spec.resources)
        return raw

    @cache  # noqa: B019
    def node(self, truth: NodeTruth) -> Raw:
        return gpu_node(truth.name, gpus=self.nodes[truth.name], memory_mib=CAPACITY, uid=truth.uid)

    @cache  # noqa: B019
    def wrong(self, pods: tuple[PodTruth | None, ...]) -> tuple[str, ...]:
        """The independent checker's verdict on these pods, by `notes` and with all nodes."""
        nodes = [self.node(NodeTruth(name, 0)) for name in self.nodes]
        there = [pod._replace(stripped=False) for pod in pods if pod is not None]
        return violations([self.pod(pod) for pod in there], nodes)


@dataclass(frozen=True, slots=True)
class Scope:
    """The cluster, the processes, and the most of each fault.

    `faults`: bounds their sum, without changes of leader. Absent from `limits`: does not happen. `fenced` False: no
    fence. `retires`: a process that can never lead again is not followed.
    """

    name: str
    shape: Shape
    limits: Mapping[str, int]
    faults: int
    processes: int = 1
    mode: Mode = Mode.DECIDE
    fenced: bool = True
    retires: bool = False

    @property
    def incarnations(self) -> int:
        """Births of a pod."""
        return 1 + self.limits.get("create", 0)


@cache
def places(pod: PodTruth) -> tuple[tuple[str, str], ...]:
    """(node, GPU) of a bound, unfinished pod."""
    gpus = dict(pod.notes).get(names.ANNOTATION_GPU)
    if pod.node is None or pod.finished or gpus is None:
        return ()
    return tuple((pod.node, gpu) for gpu in gpus.split(","))
