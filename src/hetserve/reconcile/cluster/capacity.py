"""Counts how many instances of each type run, and how many more fit, for one service, as nodes and pods change.

- A service's own bound pods count as running, and the place of one that terminates as room: a rollout does not look
  like lost capacity, and what is going does not look as if it stayed. Those that a rollout would replace by instances
  that book more count only as far as these find a place.
- Waiting pods reserve nothing: only the service that loses a place plans again.
- A closed node (see placement), and one whose GPUs somebody else gives, has no room for GPU types. A node with an
  unreadable pod has none at all.
- A GPU has room as the extender's ledger says: memory, and tenants that tolerate each other, for an instance that
  shares on terms; memory and compute for one that books both; an idle GPU for an exclusive one. Each kind shares only
  among itself.

The room of each node is remembered per type and demand, and per model where terms are counted by pairs. A question
counts again the nodes that have changed since the last one, and those whose room differs for this service: with its own
pods, or with other pods of its model in its namespace.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, Generic, NamedTuple, TypeVar

from hetserve.api.instance_type import InstanceTypeSpec
from hetserve.api.names import DRA_DRIVER
from hetserve.base.units import Millionths, Percent
from hetserve.objects.gpu_sharing import SharingTerms, Tenant, slowdowns, tolerate
from hetserve.objects.resources import MAX_MIB, WHOLE_COMPUTE
from hetserve.placement.ledger.inventory import Gpu, Place
from hetserve.placement.pods.requests import ModelKey
from hetserve.planning.inputs import ClusterFacts, TypeFacts
from hetserve.planning.offers import Offer, at_tolerance
from hetserve.planning.problem import ResourceAmounts
from hetserve.planning.tenancy import GpuDemand, Tenancy
from hetserve.profiles.sharing import MOST_SLOWED
from hetserve.reconcile.cluster.kept_terms import are_enough
from hetserve.reconcile.cluster.observed import NodeFact, PodFact, SliceFact

MOST_ROOMS: Final = 1 << 25
"""Rooms that are remembered, of four bytes each: one per node of each kind of instance."""
_ROOM: Final = array("i", [0])
_MOST: Final = 2**31 - 1
"""Instances that are counted on a node."""
_OVERHEAD: Final = 128
"""What a kind takes beside its rooms, as rooms."""

Service = tuple[str, str]
"""Namespace and name of a service."""
Kind = tuple[str, str, str]
"""Namespace, model and instance type of an instance, which one profile describes."""
_Asked = tuple[str, ResourceAmounts, tuple[Tenancy, Percent] | None, tuple[ModelKey, SharingTerms, bool] | None]
"""A type, and what an instance asks of its node; on terms, also its model, these, and whether copies share."""
Key = TypeVar("Key", bound=Hashable)


class ClusterCapacity:
    """Nodes and bound pods of a cluster, and the room that they leave. For one thread."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeFact] = {}
        self._numbers: dict[str, int] = {}
        self._numbered: list[str | None] = []
        """Names of nodes by number; None: it is unused."""
        self._unused: list[int] = []
        self._pods: dict[str, PodFact] = {}
        self._on: defaultdict[str, dict[str, PodFact]] = defaultdict(dict)
        self._slices: dict[str, SliceFact] = {}
        self._offered: Counter[str] = Counter()
        """ResourceSlices that offer GPUs of each node."""
        self._of_service: _Places[Service] = _Places()
        self._of_model: _Places[ModelKey] = _Places()
        self._free: dict[str, Free | None] = {}
        self._rooms: dict[_Asked, _Rooms] = {}
        self._change = 0
        self._changed: dict[int, int] = {}

    def node(self, name: str) -> NodeFact | None:
        """The node of this name, if there is one."""
        return self._nodes.get(name)

    def put_node(self, node: NodeFact) -> None:
        """Adds a node, or replaces the one with this name."""
        if node.name not in self._nodes:
            self._number(node.name)
        self._nodes[node.name] = node
        self._mark(node.name)

    def drop_node(self, node: NodeFact) -> None:
        """Removes a node, unless another one (by UID) has its name by now."""
        if node.name in self._nodes and self._nodes[node.name].uid == node.uid:
            self._mark(node.name)
            del self._nodes[node.name]
            number = self._numbers.pop(node.name)
            self._numbered[number] = None
            self._unused.append(number)

    def put_slice(self, offered: SliceFact) -> None:
        """Adds a ResourceSlice, or replaces the one with this UID: the GPUs of its nodes are not ours."""
        self.drop_slice(offered)
        self._slices[offered.uid] = offered
        self._count_slice(offered, 1)

    def drop_slice(self, offered: SliceFact) -> None:
        """Removes the ResourceSlice with this UID, if it is known: another may have its name by now."""
        known = self._slices.pop(offered.uid, None)
        if known is not None:
            self._count_slice(known, -1)

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

    def on_gpus_of(self, service: Service, live: Sequence[PodFact]) -> dict[Place, list[PodFact]]:
        """Pods on each GPU that a pod of the service has. live: its pods and strangers, as just read."""
        found: dict[Place, list[PodFact]] = {}
        for name in {pod.node for pod in live if pod.node is not None}:
            others = [pod for pod in self._pods_on(name) if (pod.namespace, pod.service) != service]
            own = [pod for pod in live if pod.node == name]
            mine = {gpu for pod in own for gpu in gpus_of(pod)}
            for pod in (*own, *others):
                for gpu in mine.intersection(gpus_of(pod)):
                    found.setdefault((name, gpu), []).append(pod)
        return found

    def beside(self, pod: PodFact) -> dict[Place, list[PodFact]]:
        """Other pods on each GPU of a pod, as remembered."""
        if pod.node is None:
            return {}
        others = [other for other in self._pods_on(pod.node) if other.uid != pod.uid]
        return {(pod.node, gpu): [other for other in others if gpu in gpus_of(other)] for gpu in gpus_of(pod)}

    def facts(
        self,
        service: Service,
        model: str,
        offers: Iterable[Offer],
        own: Sequence[PodFact],
        strangers: Sequence[PodFact],
        *,
        declaring: Collection[Kind] = (),
    ) -> ClusterFacts:
        """Running instances and room per type for a service of this model.

        own, strangers: pods with the service's label, as just read. They count instead of those remembered. declaring:
        pods of these kinds that declare no compute will: shared instances that are replaced do not wait for them.
        """
        bound = [pod for pod in own if pod.node is not None]
        running = Counter(pod.instance_type for pod in bound if not pod.terminating)
        going = Counter(pod.instance_type for pod in bound if pod.terminating)
        asked = (service[0], model)
        special = self._special(service, model, (*own, *strangers))
        types: dict[str, TypeFacts] = {}
        for offer in offers:
            name, outgrown = offer.name, {p.uid for p in own if p.instance_type == offer.name and is_outgrown(p, offer)}
            if not outgrown:
                room = self._room(offer, asked, special)
                fact = TypeFacts(running[name], None if room is None else room + going[name])
                types[name] = self._with_least(fact, offer, asked, special)
                continue
            left = self._special(
                service, model, (*own, *strangers), gone=outgrown, declaring=declaring if offer.shares else ()
            )
            most = running[name] + going[name] - len(outgrown) + (self._room(offer, asked, left) or 0)
            fact = TypeFacts(min(running[name], most), most - min(running[name], most))
            types[name] = self._with_least(fact, offer, asked, left)
        return ClusterFacts(types)

    def room(
        self, service: Service, model: str, offer: Offer, live: Sequence[PodFact], *, gone: Collection[str] = ()
    ) -> int | None:
        """Further instances of an offer that fit; None: nothing limits them.

        live: the service's pods and strangers, as just read. gone: UIDs of those that take nothing.
        """
        return self._room(offer, (service[0], model), self._special(service, model, live, gone=gone))

    def _special(
        self,
        service: Service,
        model: str,
        live: Sequence[PodFact],
        *,
        gone: Collection[str] = (),
        declaring: Collection[Kind] = (),
    ) -> dict[str, Free | None]:
        """What is free on each node whose room differs for this service, or for copies of its model.

        gone: UIDs of live pods that take nothing. declaring: as of `facts`.
        """
        by_node: defaultdict[str, list[PodFact]] = defaultdict(list)
        for pod in live:
            if pod.node is not None:
                by_node[pod.node] += [] if pod.uid in gone else [pod]
        own = (service[0], model)
        names = {*by_node, *self._of_service[service], *self._of_model[own]} & self._nodes.keys()
        for name in names:
            others = (pod for pod in self._pods_on(name) if (pod.namespace, pod.service) != service)
            by_node[name] += [pod for pod in others if not (pod.is_undeclared and kind_of(pod) in declaring)]
        return {name: free_on(self._judged(name), by_node[name], own) for name in names}

    def _room(self, offer: Offer, model: ModelKey, special: Mapping[str, Free | None]) -> int | None:
        """Instances that fit now; None if nothing limits them (a CPU type without resources)."""
        demand = offer.demand
        if offer.type.spec.gpu is None and not demand.cpu and not demand.memory:
            return None
        rooms = self._counted(offer, model)
        here = [name for name in special if takes_instances(self._nodes[name], offer.type.spec)]
        differences = (room_in(special[name], offer, model) - rooms.on(self._numbers[name]) for name in here)
        return rooms.total + sum(differences)

    def _with_least(
        self, fact: TypeFacts, offer: Offer, model: ModelKey, special: Mapping[str, Free | None]
    ) -> TypeFacts:
        """With the least tolerance at which the cluster takes an instance, where it has and takes none as planned."""
        if fact.running or fact.room != 0 or offer.own is None:
            return fact
        wide = at_tolerance(offer, MOST_SLOWED)
        rooms, numbers = self._counted(wide, model), self._numbers.items()
        known = (self._free_on(name) for name, number in numbers if rooms.on(number) and name not in special)
        here = (free for name, free in special.items() if takes_instances(self._nodes[name], offer.type.spec))
        needed = (least_tolerance(free, wide, model) for free in (*known, *here))
        return replace(fact, least=min((one for one in needed if one is not None), default=None))

    def _counted(self, offer: Offer, model: ModelKey) -> _Rooms:
        """Rooms of a type and demand, with every change of a node counted."""
        gpu = offer.gpu
        paired = None if gpu is None or gpu.terms is None else (model, gpu.terms, gpu.copies)
        key = (offer.name, offer.demand, None if gpu is None else (gpu.tenancy, gpu.compute), paired)
        rooms = self._rooms.pop(key, None)
        if rooms is None or (rooms.spec is not offer.type.spec and rooms.spec != offer.type.spec):
            rooms = _Rooms(offer.type.spec)
        rooms.spec = offer.type.spec
        self._rooms[key] = rooms
        most = max(1, MOST_ROOMS // (len(self._numbered) + _OVERHEAD))
        while len(self._rooms) > most:
            del self._rooms[next(iter(self._rooms))]
        for number, change in reversed(self._changed.items()):
            if change <= rooms.seen:
                break
            name = self._numbered[number]
            if name is not None and takes_instances(self._nodes[name], offer.type.spec):
                rooms.put(number, room_in(self._free_on(name), offer, model))
            else:
                rooms.put(number, 0)
        rooms.seen = self._change
        return rooms

    def _free_on(self, name: str) -> Free | None:
        if name not in self._free:
            self._free[name] = free_on(self._judged(name), self._pods_on(name))
        return self._free[name]

    def _judged(self, name: str) -> NodeFact:
        """A node, refused if a ResourceSlice offers its GPUs."""
        node = self._nodes[name]
        return replace(node, refused=DRA_DRIVER) if self._offered[name] and not node.refused else node

    def _count_slice(self, offered: SliceFact, by: int) -> None:
        for node in offered.nodes:
            self._offered[node] += by
            if node in self._nodes:
                self._mark(node)

    def _pods_on(self, name: str) -> Iterable[PodFact]:
        return self._on[name].values() if name in self._on else ()

    def _count(self, pod: PodFact, node: str, by: int) -> None:
        if pod.service is not None:
            self._of_service.count((pod.namespace, pod.service), node, by)
        if pod.model is not None and pod.gpu is not None:
            self._of_model.count((pod.namespace, pod.model), node, by)
        if node in self._nodes:
            self._mark(node)

    def _number(self, name: str) -> None:
        """Gives a node a number of its own. Those of nodes that are gone are given again."""
        if not self._unused:
            self._unused.append(len(self._numbered))
            self._numbered.append(None)
        self._numbers[name] = self._unused.pop()
        self._numbered[self._numbers[name]] = name

    def _mark(self, name: str) -> None:
        """Makes each room of a node count anew at the next question."""
        number = self._numbers[name]
        self._free.pop(name, None)
        self._change += 1
        self._changed.pop(number, None)
        self._changed[number] = self._change


class GpuRoom(NamedTuple):
    """What is free of one GPU for an instance of a model.

    memory: MiB. compute: percent that nobody books. undeclared: it is shared by pods that declare none. tenants: those
    that share it on terms. copies: it has pods of the model, all of which may be beside another.
    """

    product: str
    memory: int
    compute: int
    undeclared: bool
    idle: bool
    tenants: tuple[Tenant, ...] = ()
    copies: bool = False

    def takes(self, instance: GpuDemand, model: ModelKey) -> int:
        """Instances of a model that may go here, as the extender's ledger decides it."""
        if instance.tenancy is Tenancy.EXCLUSIVE:
            return int(self.idle)
        if self.memory < instance.memory or (self.copies and not instance.copies):
            return 0
        if instance.terms is not None:
            return self._pairs(instance, Tenant(*model, instance.terms))
        if not instance.compute:
            return int(self.compute == WHOLE_COMPUTE and not self.tenants)
        return int(not self.undeclared and not self.tenants and self.compute >= instance.compute)

    def _pairs(self, instance: GpuDemand, tenant: Tenant) -> int:
        """Instances that share on terms which go beside the tenants, with copies of each other where they may."""
        if self.undeclared or self.compute < WHOLE_COMPUTE:
            return 0
        most, tenants, count = self.memory // instance.memory if instance.copies else 1, self.tenants, 0
        while count < most and _tolerate(tenants := (*tenants, tenant)):
            count += 1
        return count


@lru_cache(maxsize=4096)
def _tolerate(tenants: tuple[Tenant, ...]) -> bool:
    """Many GPUs have like tenants."""
    return tolerate(tenants)


class Free(NamedTuple):
    """What is free on one node. gpus: each GPU on which a new instance may go."""

    cpu: int
    memory: int
    gpus: tuple[GpuRoom, ...]


def free_on(node: NodeFact, pods: Iterable[PodFact], model: ModelKey | None = None) -> Free | None:
    """What pods leave of a node for an instance of a model (None: of any model that is not on the node). A GPU with
    a pod of the model is left out, unless it may be beside copies.

    None if a pod cannot be read, because nobody knows what it takes.
    """
    cpu, memory, unknown = int(node.cpu), int(node.memory), False
    on: defaultdict[str, list[PodFact]] = defaultdict(list)
    for pod in pods:
        if pod.unread is not None:
            return None
        cpu, memory, unknown = cpu - pod.cpu, memory - pod.memory, unknown or pod.gpus_unknown
        for held in gpus_of(pod):
            on[held].append(pod)
    if unknown or node.refused or not on.keys() <= {gpu.id for gpu in node.gpus}:
        return Free(cpu, memory, ())
    open_gpus = [gpu for gpu in node.gpus if gpu.healthy and not _is_apart(on.get(gpu.id, ()), model)]
    return Free(cpu, memory, tuple(_free_gpu(gpu, on.get(gpu.id, ()), model) for gpu in open_gpus))


def gpus_of(pod: PodFact) -> Sequence[str]:
    """Ids of the GPUs that a bound pod has."""
    return pod.gpu.split(",") if pod.gpu is not None else ()


def _of_model(pods: Iterable[PodFact], model: ModelKey | None) -> Iterable[PodFact]:
    return (pod for pod in pods if model is not None and (pod.namespace, pod.model) == model)


def _is_apart(pods: Iterable[PodFact], model: ModelKey | None) -> bool:
    return any(not pod.beside_copies for pod in _of_model(pods, model))


def _free_gpu(gpu: Gpu, pods: Sequence[PodFact], model: ModelKey | None) -> GpuRoom:
    used = sum(pod.gpu_memory or MAX_MIB for pod in pods)  # without memory: the whole GPU
    booked = sum(pod.booked_compute for pod in pods if pod.tenant is None)
    undeclared, copies = any(pod.is_undeclared for pod in pods), any(_of_model(pods, model))
    free, tenants = gpu.memory_mib - used, tuple(pod.tenant for pod in pods if pod.tenant is not None)
    return GpuRoom(gpu.product, free, WHOLE_COMPUTE - booked, undeclared, not pods, tenants, copies)


def room_in(free: Free | None, offer: Offer, model: ModelKey) -> int:
    """Instances of an offer, of a model, that fit into what is free on a node."""
    if free is None:
        return 0
    demand, gpu = offer.demand, offer.type.spec.gpu
    limits = [has // needs for has, needs in ((free.cpu, demand.cpu), (free.memory, demand.memory)) if needs]
    if gpu is not None and offer.gpu is not None:
        limits.append(sum(one.takes(offer.gpu, model) for one in free.gpus if one.product == gpu.product))
    return max(0, min(_MOST, *limits)) if limits else 0


def least_tolerance(free: Free | None, wide: Offer, model: ModelKey) -> Millionths | None:
    """The least tolerance at which an instance finds a place on a node; None: none is enough.

    wide: the offer at the widest.
    """
    gpu, demand = wide.type.spec.gpu, wide.gpu
    if free is None or gpu is None or demand is None or demand.terms is None or not room_in(free, wide, model):
        return None
    takes = [one for one in free.gpus if one.product == gpu.product and one.takes(demand, model)]
    tenant = Tenant(*model, demand.terms)
    return min((slowdowns((*one.tenants, tenant))[-1] for one in takes), default=None)


def is_outgrown(pod: PodFact, offer: Offer) -> bool:
    """Whether a bound pod of the offer's type asks for less of its GPU than an instance of it would, or otherwise."""
    if pod.node is None or pod.unread is not None or offer.gpu is None:
        return False
    if offer.gpu.tenancy is Tenancy.EXCLUSIVE:
        return not pod.whole_gpu
    if not offer.shares or not pod.gpu_memory:
        return False
    if offer.gpu.terms is None:
        return pod.sharing is not None or pod.gpu_compute < offer.gpu.compute
    beside = pod.beside_copies and not offer.gpu.copies
    return beside or pod.sharing is None or not are_enough(pod.sharing, offer.gpu.terms)


def kind_of(pod: PodFact) -> Kind | None:
    """Kind of an instance; None for a pod that is none."""
    if pod.service is None or pod.model is None or pod.instance_type is None:
        return None
    return pod.namespace, pod.model, pod.instance_type


def takes_instances(node: NodeFact, spec: InstanceTypeSpec) -> bool:
    """Whether new instances of a type may go to a node."""
    return (
        node.usable
        and all(node.labels.get(key) == value for key, value in spec.node_selector.items())
        and all(not taint.repels or any(map(taint.is_tolerated_by, spec.tolerations)) for taint in node.taints)
    )


@dataclass(slots=True)
class _Rooms:
    """Room of each node, by its number, for a type and demand. seen: the last change of a node that is counted."""

    spec: InstanceTypeSpec
    seen: int = 0
    total: int = 0
    rooms: array[int] = field(default_factory=lambda: array(_ROOM.typecode))

    def on(self, number: int) -> int:
        return self.rooms[number] if number < len(self.rooms) else 0

    def put(self, number: int, room: int) -> None:
        self.rooms.extend(_ROOM * (number + 1 - len(self.rooms)))
        self.total += room - self.rooms[number]
        self.rooms[number] = room


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
