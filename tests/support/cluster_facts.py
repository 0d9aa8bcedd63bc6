"""The room of a cluster, counted from all nodes and all pods: what Capacity must answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from hetserve.api.instance_type import InstanceType
from hetserve.objects.gpu_sharing import SharingTerms
from hetserve.placement.ledger.inventory import Gpu
from hetserve.planning.inputs import ClusterFacts, TypeFacts
from hetserve.planning.offers import Offer
from hetserve.planning.problem import ResourceAmounts
from hetserve.planning.tenancy import Tenancy
from hetserve.reconcile.cluster.observed import NodeFact, PodFact


def cluster_facts(
    model: tuple[str, str],
    offers: Iterable[Offer],
    nodes: Sequence[NodeFact],
    own: Sequence[PodFact],
    others: Iterable[PodFact],
) -> ClusterFacts:
    """Running instances and room per type. model: namespace and name. own: the service's pods; others: all others."""
    by_node: dict[str, list[PodFact]] = defaultdict(list)
    for pod in (*own, *others):
        if pod.node is not None:
            by_node[pod.node].append(pod)
    return ClusterFacts({offer.name: _facts(model, offer, nodes, own, by_node) for offer in offers})


def _facts(
    model: tuple[str, str],
    offer: Offer,
    nodes: Sequence[NodeFact],
    own: Sequence[PodFact],
    by_node: Mapping[str, list[PodFact]],
) -> TypeFacts:
    """Pods that a larger instance replaces make room for it, and run only as far as there is room without them.

    One that terminates runs no more, and its place is room.
    """
    bound = [pod for pod in own if pod.node is not None and pod.instance_type == offer.name]
    replaced = [id(pod) for pod in bound if _grows(pod, offer)]
    left = {name: [pod for pod in pods if id(pod) not in replaced] for name, pods in by_node.items()}
    room = _room(model, offer, nodes, left)
    stay = sum(not pod.terminating for pod in bound)
    if room is None:
        return TypeFacts(stay, None)
    most = len(bound) - len(replaced) + room
    return TypeFacts(min(stay, most), max(0, most - stay))


def _grows(pod: PodFact, offer: Offer) -> bool:
    if offer.gpu is None or pod.unread is not None:
        return False
    if offer.gpu.tenancy is Tenancy.EXCLUSIVE:
        return not pod.whole_gpu
    if offer.gpu.tenancy is not Tenancy.SHARED or not pod.gpu_memory:
        return False
    wanted, held = offer.gpu.terms, pod.sharing
    if wanted is None or held is None:
        return wanted is not held or pod.gpu_compute < offer.gpu.compute
    models = {model for model, _ in (*wanted.named, *held.named)}
    harms_more = wanted.others > held.others or any(wanted.on(model) > held.on(model) for model in models)
    return wanted.share > held.share or wanted.tolerance < held.tolerance or harms_more


def _room(
    model: tuple[str, str], offer: Offer, nodes: Sequence[NodeFact], by_node: Mapping[str, Sequence[PodFact]]
) -> int | None:
    """Instances that fit now; None if nothing limits them (a CPU type without resources)."""
    demand = offer.demand
    if offer.type.spec.gpu is None and not demand.cpu and not demand.memory:
        return None
    return sum(_room_on(model, offer, node, by_node.get(node.name, ())) for node in nodes if _matches(offer.type, node))


def _room_on(model: tuple[str, str], offer: Offer, node: NodeFact, pods: Sequence[PodFact]) -> int:
    if any(pod.unread is not None for pod in pods):
        return 0
    fits = _fits(offer.demand, node, pods)
    if offer.type.spec.gpu is None:
        return fits or 0
    gpus = _on_gpus(model, offer, node, pods)
    return gpus if fits is None else min(gpus, fits)


def _fits(demand: ResourceAmounts, node: NodeFact, pods: Sequence[PodFact]) -> int | None:
    limits = []
    if demand.cpu:
        limits.append((node.cpu - sum(p.cpu for p in pods)) // demand.cpu)
    if demand.memory:
        limits.append((node.memory - sum(p.memory for p in pods)) // demand.memory)
    return max(0, min(limits)) if limits else None


def _on_gpus(model: tuple[str, str], offer: Offer, node: NodeFact, pods: Sequence[PodFact]) -> int:
    gpu = offer.type.spec.gpu
    on = {g.id: [p for p in pods if p.gpu is not None and g.id in p.gpu.split(",")] for g in node.gpus}
    named = {held for pod in pods if pod.gpu is not None for held in pod.gpu.split(",")}
    if any(pod.gpus_unknown for pod in pods) or not named <= on.keys():
        return 0
    return sum(
        _most(model, offer, g, on[g.id])
        for g in node.gpus
        if g.healthy and gpu is not None and g.product == gpu.product
    )


def _most(model: tuple[str, str], offer: Offer, gpu: Gpu, there: Sequence[PodFact]) -> int:
    """Instances that a GPU takes beside these pods: more than one only where copies may share it."""
    if not _takes(model, offer, gpu, there):
        return 0
    if offer.gpu is None or not offer.gpu.copies:
        return 1
    one = PodFact(
        "",
        model[0],
        "",
        model=model[1],
        gpu_memory=offer.gpu.memory,
        gpu_compute=offer.gpu.compute,
        sharing=offer.gpu.terms,
        beside_copies=True,
    )
    return 1 + _most(model, offer, gpu, [*there, one])


def _takes(model: tuple[str, str], offer: Offer, gpu: Gpu, there: Sequence[PodFact]) -> bool:
    """Whether a GPU takes an instance beside these pods; one without memory holds its GPU whole."""
    copies = [pod for pod in there if (pod.namespace, pod.model) == model]
    may = offer.gpu is not None and offer.gpu.copies and all(pod.beside_copies for pod in copies)
    if copies and not may:
        return False
    whole = any(pod.gpu_memory == 0 for pod in there)
    if whole or (offer.gpu is not None and offer.gpu.tenancy is Tenancy.EXCLUSIVE):
        return not there
    asks, terms = (0, None) if offer.gpu is None else (offer.gpu.compute, offer.gpu.terms)
    kinds = {(pod.gpu_compute > 0, pod.sharing is not None) for pod in there}
    room = gpu.memory_mib - sum(pod.gpu_memory for pod in there) >= offer.demand.gpu_memory
    if not room or not kinds <= {(asks > 0, terms is not None)}:
        return False
    if terms is None:
        return sum(pod.gpu_compute for pod in there) + asks <= 100
    tenants = [(pod.namespace, pod.model, pod.sharing) for pod in there if pod.sharing is not None]
    return _tolerated([*tenants, (*model, terms)])


def _tolerated(tenants: Sequence[tuple[str, str | None, SharingTerms]]) -> bool:
    """Whether each takes at most its tolerance times as long as alone, while all of them serve."""
    if len(tenants) == 1:
        return True
    for at, (space, model, terms) in enumerate(tenants):
        others = [other for place, other in enumerate(tenants) if place != at]
        known = [(other, model is not None and where == space) for where, _, other in others]
        harm = sum(other.on(str(model)) if named else other.greatest for other, named in known)
        if max(sum(one.share for _, _, one in tenants), 1_000_000 + harm) > terms.tolerance:
            return False
    return True


def _matches(instance_type: InstanceType, node: NodeFact) -> bool:
    spec = instance_type.spec
    return (
        node.usable
        and all(node.labels.get(key) == value for key, value in spec.node_selector.items())
        and all(not taint.repels or any(map(taint.is_tolerated_by, spec.tolerations)) for taint in node.taints)
    )
