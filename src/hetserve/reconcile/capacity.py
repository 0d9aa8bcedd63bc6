"""Counts how many instances of each type run, and how many more fit, for one service, as nodes and pods change.

- A service's own bound pods count as running even while they terminate, so that a rollout does not look like lost
  capacity.
- Waiting pods reserve nothing: only the service that loses a place plans again.
- A closed node (see placement) has no room for GPU types, and a node with an unreadable pod has none at all.

The room of each node is remembered per type and demand. A question counts again the nodes that have changed since the
last one, and those whose room differs for this service: with its own pods, or with other pods of its model.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from hetserve.api.instance_type import InstanceType
from hetserve.objects.resources import MAX_MIB
from hetserve.planning.inputs import ClusterFacts, TypeFacts
from hetserve.planning.offers import Offer
from hetserve.planning.problem import ResourceAmounts
from hetserve.reconcile.observed import NodeFact, PodFact

MOST_ROOMS: Final = 256
"""Pairs of type and demand remembered; each takes up to 100 bytes per node."""
_SPARE: Final = 1000
"""Names of removed nodes remembered beyond the number of nodes."""

Service = tuple[str, str]
"""Namespace and name of a service."""
Key = TypeVar("Key", bound=Hashable)


class Capacity:
    """Nodes and bound pods of a cluster, and the room that they leave. For one thread."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeFact] = {}
        self._pods: dict[str, PodFact] = {}
        self._on: defaultdict[str, dict[str, PodFact]] = defaultdict(dict)
        self._of_service: _Places[Service] = _Places()
        self._of_model: _Places[str] = _Places()
        self._free: dict[str, Free | None] = {}
        self._rooms: dict[tuple[str, ResourceAmounts], _Rooms] = {}
        self._change = 0
        self._changed: dict[str, int] = {}

    def node(self, name: str) -> NodeFact | None:
        """The node of this name, if there is one."""
        return self._nodes.get(name)

    def put_node(self, node: NodeFact) -> None:
        """Adds a node, or replaces the one with this name."""
        self._nodes[node.name] = node
        self._mark(node.name)

    def drop_node(self, node: NodeFact) -> None:
        """Removes a node, unless another one (by UID) has its name by now."""
        if node.name in self._nodes and self._nodes[node.name].uid == node.uid:
            del self._nodes[node.name]
            self._mark(node.name)

    def put_pod(self, pod: PodFact) -> None:
        """Adds a pod, or replaces the one with this UID."""
        self.drop_pod(pod)
        if pod.node is None:
            return
        self._pods[pod.uid] = pod
        self._on[pod.node][pod.uid] = pod
        self._count(pod, pod.node, 1)

    def drop_pod(self, pod: PodFact) -> None:
        """Removes the pod with this UID, if it is known."""
        known = self._pods.pop(pod.uid, None)
        if known is None or known.node is None:
            return
        del self._on[known.node][known.uid]
        if not self._on[known.node]:
            del self._on[known.node]
        self._count(known, known.node, -1)

    def facts(
        self,
        service: Service,
        model: str,
        offers: Iterable[Offer],
        own: Sequence[PodFact],
        strangers: Sequence[PodFact],
    ) -> ClusterFacts:
        """Running instances and room per type for a service of this model.

        own, strangers: pods with the service's label, as just read. They count instead of those remembered.
        """
        running = Counter(pod.instance_type for pod in own if pod.node is not None)
        special = self._special(service, model, (*own, *strangers))
        return ClusterFacts(
            {offer.name: TypeFacts(running[offer.name], self._room(offer, special)) for offer in offers}
        )

    def _special(self, service: Service, model: str, live: Sequence[PodFact]) -> dict[str, Free | None]:
        """What is free on each node whose room differs for this service."""
        by_node: defaultdict[str, list[PodFact]] = defaultdict(list)
        for pod in live:
            if pod.node is not None:
                by_node[pod.node].append(pod)
        names = {*by_node, *self._of_service[service], *self._of_model[model]} & self._nodes.keys()
        for name in names:
            by_node[name] += [p for p in self._pods_on(name) if (p.namespace, p.service) != service]
        return {name: free_on(self._nodes[name], by_node[name], model) for name in names}

    def _room(self, offer: Offer, special: Mapping[str, Free | None]) -> int | None:
        """Instances that fit now; None if nothing limits them (a CPU type without resources)."""
        demand = offer.demand
        if offer.type.spec.gpu is None and not demand.cpu and not demand.memory:
            return None
        rooms = self._counted(offer)
        here = [name for name in special if takes_instances(self._nodes[name], offer.type)]
        differences = (room_in(special[name], offer.type, demand) - rooms.on.get(name, 0) for name in here)
        return rooms.total + sum(differences)

    def _counted(self, offer: Offer) -> _Rooms:
        """Rooms of a type and demand, with every change of a node counted."""
        key = (offer.name, offer.demand)
        rooms = self._rooms.pop(key, None)
        if rooms is None or (rooms.type is not offer.type and rooms.type.spec != offer.type.spec):
            rooms = _Rooms(offer.type)
        rooms.type = offer.type
        self._rooms[key] = rooms
        if len(self._rooms) > MOST_ROOMS:
            del self._rooms[next(iter(self._rooms))]
        for name, change in reversed(self._changed.items()):
            if change <= rooms.seen:
                break
            node = self._nodes.get(name)
            takes = node is not None and takes_instances(node, offer.type)
            rooms.put(name, room_in(self._free_on(name), offer.type, offer.demand) if takes else 0)
        rooms.seen = self._change
        return rooms

    def _free_on(self, name: str) -> Free | None:
        if name not in self._free:
            self._free[name] = free_on(self._nodes[name], self._pods_on(name))
        return self._free[name]

    def _pods_on(self, name: str) -> Iterable[PodFact]:
        return self._on[name].values() if name in self._on else ()

    def _count(self, pod: PodFact, node: str, by: int) -> None:
        if pod.service is not None:
            self._of_service.count((pod.namespace, pod.service), node, by)
        if pod.model is not None and pod.gpu is not None:
            self._of_model.count(pod.model, node, by)
        if node in self._nodes:
            self._mark(node)

    def _mark(self, name: str) -> None:
        """Makes each room of a node count anew at the next question."""
        self._free.pop(name, None)
        self._change += 1
        self._changed.pop(name, None)
        self._changed[name] = self._change
        if len(self._changed) > 2 * len(self._nodes) + _SPARE:
            self._rooms.clear()
            self._changed = {known: change for known, change in self._changed.items() if known in self._nodes}


class Free(NamedTuple):
    """What is free on one node. gpus: product and MiB of each GPU on which a new instance may go."""

    cpu: int
    memory: int
    gpus: tuple[tuple[str, int], ...]


def free_on(node: NodeFact, pods: Iterable[PodFact], model: str | None = None) -> Free | None:
    """What pods leave of a node for an instance of a model (None: of any model that is not on the node).

    None if a pod cannot be read, because nobody knows what it takes.
    """
    cpu, memory, unknown = int(node.cpu), int(node.memory), False
    used: defaultdict[str, int] = defaultdict(int)
    with_model: set[str] = set()
    for pod in pods:
        if pod.unread is not None:
            return None
        cpu, memory, unknown = cpu - pod.cpu, memory - pod.memory, unknown or pod.gpus_unknown
        for held in pod.gpu.split(",") if pod.gpu is not None else ():
            used[held] += pod.gpu_memory or MAX_MIB  # without memory: the whole GPU
            if pod.model is not None and pod.model == model:
                with_model.add(held)
    if unknown or not used.keys() <= {gpu.id for gpu in node.gpus}:
        return Free(cpu, memory, ())
    gpus = (
        (gpu.product, gpu.memory_mib - used[gpu.id]) for gpu in node.gpus if gpu.healthy and gpu.id not in with_model
    )
    return Free(cpu, memory, tuple(gpus))


def room_in(free: Free | None, instance_type: InstanceType, demand: ResourceAmounts) -> int:
    """Instances of a type that fit into what is free on a node."""
    if free is None:
        return 0
    limits = [has // needs for has, needs in ((free.cpu, demand.cpu), (free.memory, demand.memory)) if needs]
    gpu = instance_type.spec.gpu
    if gpu is not None:
        limits.append(sum(product == gpu.product and mib >= demand.gpu_memory for product, mib in free.gpus))
    return max(0, min(limits, default=0))


def takes_instances(node: NodeFact, instance_type: InstanceType) -> bool:
    """Whether new instances of a type may go to a node."""
    spec = instance_type.spec
    return (
        node.usable
        and all(node.labels.get(key) == value for key, value in spec.node_selector.items())
        and all(not taint.repels or any(map(taint.is_tolerated_by, spec.tolerations)) for taint in node.taints)
    )


@dataclass(slots=True)
class _Rooms:
    """Room of each node that has any for a type and demand. seen: the last change of a node that is counted."""

    type: InstanceType
    seen: int = 0
    total: int = 0
    on: dict[str, int] = field(default_factory=dict)

    def put(self, name: str, room: int) -> None:
        self.total += room - self.on.pop(name, 0)
        if room:
            self.on[name] = room


class _Places(Generic[Key]):
    """On which nodes there are pods of each service or model."""

    def __init__(self) -> None:
        self._counts: dict[Key, Counter[str]] = {}

    def __getitem__(self, key: Key) -> Iterable[str]:
        return self._counts.get(key, ())

    def count(self, key: Key, node: str, by: int) -> None:
        """Adds or removes one pod."""
        counts = self._counts.setdefault(key, Counter())
        counts[node] += by
        if not counts[node]:
            del counts[node]
        if not counts:
            del self._counts[key]
