"""Places the instances of several plans on nodes, by the decisions of the scheduler extender."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hetserve.api.instance_type import InstanceTypeSpec
from hetserve.base.units import MiB, Seconds
from hetserve.cli.cluster.snapshot import read_documents
from hetserve.cli.output.streams import refuse
from hetserve.placement.decision.decide import decide
from hetserve.placement.decision.wording import refusal_text
from hetserve.placement.event_handlers import NodeEventHandler
from hetserve.placement.placer import Placer
from hetserve.placement.pods.requests import AntiAffinity, GpuRequest, GpuSelector
from hetserve.planning.tenancy import GpuDemand, Tenancy
from hetserve.serving.services import Neighbour

_MOST_BYTES: Final = 64 << 20
_SHOWN: Final = 63
RawNode = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WantedInstance:
    """One instance of a plan. gpu: what it takes of one; None: it needs no GPU. spec: of its type."""

    owner: Neighbour
    type: str
    number: int
    gpu: GpuDemand | None
    spec: InstanceTypeSpec

    @property
    def request(self) -> GpuRequest:
        gpu, whole = self.gpu, self.gpu is not None and self.gpu.tenancy is Tenancy.EXCLUSIVE
        return GpuRequest(
            uid=f"{self.owner.name}/{self.type}/{self.number}",
            namespace=self.owner.namespace,
            name=f"{self.type}-{self.number}",
            memory_mib=MiB(0) if whole or gpu is None else gpu.memory,
            whole=whole,
            compute=None if whole or gpu is None else gpu.compute or None,
            sharing=None if gpu is None else gpu.terms,
            model=self.owner.model,
            anti_affinity=AntiAffinity.NONE if gpu is not None and gpu.copies else AntiAffinity.HARD,
            selector=GpuSelector(products=() if self.spec.gpu is None else (self.spec.gpu.product,)),
        )


@dataclass(frozen=True, slots=True)
class PlacedInstance:
    """node, gpu: None if it was not placed, or needs no GPU. reason: why it was not placed."""

    wanted: WantedInstance
    node: str | None = None
    gpu: str | None = None
    reason: str | None = None

    @property
    def place(self) -> str:
        """Name of the GPU for the simulation: an instance without one is alone on its own."""
        return self.wanted.request.uid if self.gpu is None else f"{self.node}/{self.gpu}"


def place(wanted: Iterable[WantedInstance], nodes: Sequence[RawNode]) -> list[PlacedInstance]:
    """Every instance in turn, on an empty cluster of these nodes. CPU and memory of the nodes are not counted."""
    placer = Placer(clock=lambda: Seconds(0.0), hold=Seconds(math.inf))
    NodeEventHandler(placer).replace(nodes)
    labels = {node["metadata"]["name"]: node["metadata"].get("labels") or {} for node in nodes}
    return [_place(one, placer, labels) for one in wanted]


def _place(one: WantedInstance, placer: Placer, labels: Mapping[str, Mapping[str, str]]) -> PlacedInstance:
    if one.gpu is None:
        return PlacedInstance(one)
    selector = one.spec.node_selector.items()
    offered = [name for name in sorted(labels) if all(labels[name].get(key) == value for key, value in selector)]
    if not offered:
        return PlacedInstance(one, reason="no node has " + ", ".join(f"{key}={value}" for key, value in selector))
    decision = decide(placer.ledger.index, one.request, offered)
    if decision.chosen is None:
        return PlacedInstance(one, reason="; ".join(dict.fromkeys(map(refusal_text, decision.refusals))))
    placer.ledger.reserve(one.request, decision.chosen.places, Seconds(math.inf))
    node, gpu = decision.chosen.places[0]
    return PlacedInstance(one, node, gpu)


def read_nodes(path: str) -> list[RawNode]:
    """Node manifests of a file (YAML or JSON; `kubectl get nodes -o yaml` too); exits for anything else."""
    documents = read_documents("--nodes", path, _MOST_BYTES)
    nodes = [_node(item, number, path) for number, item in enumerate(_items(documents), start=1)]
    if not nodes:
        refuse(f"--nodes {path}: no nodes; write them with: kubectl get nodes -o yaml")
    names = [node["metadata"]["name"] for node in nodes]
    for name in sorted({name for name in names if names.count(name) > 1}):
        refuse(f"--nodes {path}: node {name} is there twice")
    return nodes


def _items(documents: Iterable[Any]) -> Iterable[Any]:
    for document in documents:
        if isinstance(document, dict) and isinstance(document.get("items"), list):
            yield from document["items"]
        elif document is not None:
            yield document


def _node(item: Any, number: int, path: str) -> RawNode:
    """The node with a UID: a manifest has none."""
    if not isinstance(item, dict):
        refuse(f"--nodes {path}: item {number} is no Kubernetes object; write nodes with: kubectl get nodes -o yaml")
    kind = item.get("kind")
    if kind != "Node":
        refuse(f"--nodes {path}: item {number}: kind {str(kind)[:_SHOWN]!r}: only Node is wanted")
    metadata = item.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(name, str):
        refuse(f"--nodes {path}: item {number}: metadata.name is missing")
    return {**item, "metadata": {"uid": name, **metadata}}
