"""What exists of a plan, where new instances find a place, and whether the rollout has come to its end.

Read from pods: a Deployment's own Progressing condition knows no deadline here, and gated pods wait without
being a failure.

An instance may start before the one goes that it replaces within the limits, and on a GPU that is free now. Elsewhere
the old one goes first, and the extender keeps its place for the new one (decision 0037).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from hetserve.api import names
from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import GpuSpec, InstanceType
from hetserve.base.units import MiB, MicroDollarsPerHour, Millionths, Percent, parse_duration, quantity_to_mib
from hetserve.demand import declared_mix
from hetserve.objects.gpu_sharing import ONE, SharingTerms, parse_terms
from hetserve.placement.pods.requests import AntiAffinity
from hetserve.planning.offers import Offer, instance_price, namespace_of
from hetserve.planning.rates import RateEstimate, rate_estimate
from hetserve.profiles import LatencyProfile, profile_from_spec
from hetserve.profiles.latency import slowed
from hetserve.profiles.sharing import WHOLE
from hetserve.profiles.variants import as_served, mismatch
from hetserve.reconcile.cluster.api_messages import exceeds_quota, replica_failure
from hetserve.reconcile.cluster.observed import PodFact
from hetserve.reconcile.deployments.build import Applied, manifest_digest, with_surge
from hetserve.reconcile.deployments.diff import Target
from hetserve.reconcile.deployments.ownership import annotations_of, belongs, gpus_of, is_deleting, is_ours, type_of
from hetserve.reconcile.plans.plan_decision import PlanDecision
from hetserve.reconcile.snapshot import Json, RawObject, Render, ServiceSnapshot
from hetserve.transition.next_counts import InTheWay
from hetserve.transition.staging import Counts, Holdings, Instances, Limits


@dataclass(frozen=True, slots=True)
class TypeState:
    """Instances of one type: planned, on a node, serving; rolled: all pods are there and of the new template."""

    instance_type: str
    desired: int
    bound: int
    ready: int
    rolled: bool


def holdings(snapshot: ServiceSnapshot, decision: PlanDecision) -> dict[str, Instances]:
    """What the service has of each type that it has, or should have, anything of."""
    ours = _deployments(snapshot)
    types = {*decision.counts, *filter(None, map(type_of, ours))}
    types |= {p.instance_type for p in snapshot.pods if p.instance_type}
    return {name: _holding(name, snapshot, decision, [d for d in ours if type_of(d) == name]) for name in sorted(types)}


def limits_of(snapshot: ServiceSnapshot, decision: PlanDecision) -> Limits:
    """What may exist of a service at once. While spec.pause holds back removals, its own total does not."""
    most = {t.metadata.name: n for t in snapshot.types if (n := t.spec.max_instances) is not None}
    spec = None if decision.service is None else decision.service.spec
    bound = spec is not None and spec.scaling is not None and not spec.pauses("ScaleDown")
    return Limits(decision.ceiling, most, spec.scaling.max_instances if bound and spec and spec.scaling else None)


def _deployments(snapshot: ServiceSnapshot) -> list[RawObject]:
    """The service's own, and those that an earlier service of its name left: their replicas are paid alike."""
    return [d for d in snapshot.deployments if belongs(d, snapshot.name, snapshot.uid)]


def _holding(name: str, snapshot: ServiceSnapshot, decision: PlanDecision, mine: list[RawObject]) -> Instances:
    pods = [p for p in snapshot.pods if p.instance_type == name]
    gone = sum(p.terminating for p in pods)
    replicas = sum(0 if is_deleting(d) else int(d["spec"].get("replicas") or 0) for d in mine)
    # A status that lags behind still counts a pod as live that terminates by now; it must not count twice.
    live = max(len(pods) - gone, sum(int((d.get("status") or {}).get("replicas") or 0) for d in mine) - gone)
    if coming := sum(map(_surge_to_come, mine)):
        live = max(live, replicas + coming)
    placed = sum(p.node is not None and not p.terminating for p in pods)
    ready = sum(p.ready and p.node is not None and not p.terminating for p in pods)
    offer, known = decision.offers.get(name), next((t for t in snapshot.types if t.metadata.name == name), None)
    price = None if offer is None else offer.price
    if offer is None and known is not None:
        price = max((_paid(_held(p), known) for p in pods), default=instance_price(known, None))
    if price is None or known is None:
        return Instances(replicas, live, gone, price, placed=placed, ready=ready)
    each = [_paid(held, known, offer) if (held := _held(p)).some else price for p in pods]
    # Replicas without a pod yet come as their Deployment asks for them now.
    to_come = max(replicas, live) - (len(pods) - gone)
    dearest = max((_paid(asked, known, offer) for d in mine if (asked := _asked(d)).some), default=price)
    surplus = sum(max(0, own - price) for own in each) + max(0, to_come) * max(0, dearest - price)
    paid = sum(each) + max(0, live + gone - len(pods)) * max(price, dearest)
    costs = MicroDollarsPerHour(surplus), MicroDollarsPerHour(paid)
    return Instances(replicas, live, gone, price, *costs, placed, ready)


class _Part(NamedTuple):
    """What an instance has of its GPU, for which it is paid.

    whole: all of it. memory: MiB. compute: percent. copies: whether others of its model may be on it.
    """

    whole: bool
    memory: MiB
    compute: Percent
    terms: SharingTerms | None
    copies: bool

    @property
    def some(self) -> bool:
        """False where it has none, or cannot be read."""
        return self.whole or self.memory > 0


def _held(pod: PodFact) -> _Part:
    return _Part(pod.whole_gpu, pod.gpu_memory, pod.gpu_compute, pod.sharing, pod.beside_copies)


def _asked(deployment: RawObject) -> _Part:
    """What each pod of a Deployment gets as it is."""
    asked, annotations = gpus_of(deployment), annotations_of(deployment)
    try:
        terms = parse_terms(str(annotations[names.ANNOTATION_GPU_SHARING]))
    except (KeyError, ValueError):
        terms = None
    copies = annotations.get(names.ANNOTATION_ANTI_AFFINITY) == AntiAffinity.NONE.value
    return _Part(asked.gpus > 0 and not asked.memory, asked.memory, asked.compute, terms, copies)


def _paid(part: _Part, known: InstanceType, offer: Offer | None = None) -> MicroDollarsPerHour:
    """Micro-dollars/h of an instance. offer: what is planned: one that tolerates as much pays what that does."""
    if part.whole:
        return instance_price(known, _whole(known.spec.gpu), WHOLE)
    gpu = None if offer is None else offer.gpu
    if offer is not None and gpu is not None and gpu.terms is not None and part.terms is not None:
        planned = gpu.memory, gpu.terms.tolerance
        if (part.memory, part.terms.tolerance) == planned:
            return offer.price
    return instance_price(known, part.memory, part.compute, part.terms, copies=part.copies)


def _whole(gpu: GpuSpec | None) -> MiB:
    return MiB(0) if gpu is None else quantity_to_mib(gpu.memory)


def type_states(snapshot: ServiceSnapshot, decision: PlanDecision, targets: Iterable[Target]) -> tuple[TypeState, ...]:
    """State of each planned type, and of each other type of which pods are left (these count as not rolled)."""
    by_type = {target.instance_type: target for target in targets}
    others = {p.instance_type for p in snapshot.pods if p.instance_type and not p.terminating}
    states = []
    for name in sorted({*decision.counts, *others}):
        pods = [p for p in snapshot.pods if p.instance_type == name and not p.terminating]
        desired = decision.counts.get(name, 0)
        states.append(
            TypeState(
                name,
                desired,
                bound=sum(p.node is not None for p in pods),
                ready=sum(p.ready for p in pods),
                rolled=name in by_type and _rolled(by_type[name], pods, snapshot),
            )
        )
    return tuple(states)


def creation_failures(snapshot: ServiceSnapshot) -> tuple[tuple[str, str], ...]:
    """Instance types whose pods cannot be created, in their order, with the messages of their Deployments."""
    found = ((type_of(one) or "", replica_failure(one)) for one in _deployments(snapshot))
    return tuple(sorted((name, message) for name, message in found if message is not None))


def _rolled(target: Target, pods: list[PodFact], snapshot: ServiceSnapshot) -> bool:
    found = next((d for d in snapshot.deployments if d["metadata"]["name"] == target.name), None)
    if found is None or not is_ours(found, snapshot.uid) or is_deleting(found):
        return False
    status, generation = found.get("status") or {}, int(found["metadata"].get("generation") or 0)
    return (
        int(found["spec"].get("replicas") or 0) == target.final == len(pods)
        and int(status.get("observedGeneration") or 0) >= generation
        and int(status.get("updatedReplicas") or 0) == target.final
        and int(status.get("replicas") or 0) == target.final
        and len({p.template_hash for p in pods}) <= 1
    )


def _surge_to_come(deployment: RawObject) -> int:
    """Instances beyond its replicas that a Deployment starts as it rolls."""
    spec, status = deployment["spec"], deployment.get("status") or {}
    replicas, seen = int(spec.get("replicas") or 0), int(status.get("observedGeneration") or 0)
    rolled = seen >= int(deployment["metadata"].get("generation") or 0)
    if is_deleting(deployment) or not replicas or (rolled and int(status.get("updatedReplicas") or 0) >= replicas):
        return 0
    return int(((spec.get("strategy") or {}).get("rollingUpdate") or {}).get("maxSurge") == 1)


class ServiceRate:
    """`rate_estimate` of a service's types, made when it is first asked: at rest nobody asks."""

    def __init__(self, snapshot: ServiceSnapshot, decision: PlanDecision, holdings: Holdings) -> None:
        self._snapshot, self._decision, self._holdings = snapshot, decision, holdings

    def __call__(self, counts: Mapping[str, int]) -> float:
        return self._estimate(counts)

    @cached_property
    def _estimate(self) -> RateEstimate:
        service = self._decision.service
        prices = {name: held.each for name, held in self._holdings.items()}
        if service is None:
            return lambda counts: float(sum(n * prices.get(name, 0) for name, n in counts.items()))
        profiles = {name: found for name in prices if (found := self._profile(service, name)) is not None}
        recorded = self._decision.record
        measured = None if recorded is None else recorded.mix
        mix = declared_mix(service) if measured is None else measured
        return rate_estimate(profiles, prices, mix, parse_duration(service.spec.slo.latency))

    def _profile(self, service: InferenceService, name: str) -> LatencyProfile | None:
        """The one profile of the service's model on a type, also of one that the service may not use any more."""
        spec, place = service.spec, namespace_of(service)
        mine = [p for p in self._snapshot.profiles if (p.spec.model, p.spec.instance_type) == (spec.model.name, name)]
        mine = [p for p in mine if namespace_of(p) == place]
        if len(mine) != 1 or mismatch(spec.model, mine[0]):
            return None
        slowdown = self._slowdown(name)
        profile = profile_from_spec(as_served(spec.model, mine[0]).spec)
        return profile if slowdown is None else slowed(profile, slowdown / ONE)

    def _slowdown(self, name: str) -> Millionths | None:
        offer = self._decision.offers.get(name)
        if offer is not None:
            return None if offer.gpu is None else offer.gpu.slowdown
        shares = any(p.instance_type == name and p.gpu_memory and not p.whole_gpu for p in self._snapshot.pods)
        return self._snapshot.settings.max_slowdown if shares else None


def in_the_way(
    snapshot: ServiceSnapshot, decision: PlanDecision, holdings: Holdings, manifests: Mapping[str, Json]
) -> InTheWay:
    """Old instances that take the place of planned ones, by the type of these.

    manifests: of the planned Deployments, by type. A quota that refuses an instance is room that any old one takes; any
    other refusal may last, and no instance goes for it.
    """
    counts, failures = decision.counts, dict(creation_failures(snapshot))
    spare = frozenset(name for name, held in holdings.items() if held.replicas > counts.get(name, 0))
    found: dict[str, frozenset[str]] = {}
    for name in (n for n, count in counts.items() if spare and holdings[n].placed < count):
        denied = snapshot.refused.get(Render(manifests[name], manifest_digest(manifests[name]), "").key)
        refusal = failures.get(name) if denied is None else denied
        if refusal is not None:
            found[name] = spare if exceeds_quota(refusal) else frozenset()
        elif (takers := _takers(snapshot, decision, holdings, name, spare)) is not None:
            found[name] = takers
    return found


def _takers(
    snapshot: ServiceSnapshot, decision: PlanDecision, holdings: Holdings, name: str, spare: frozenset[str]
) -> frozenset[str] | None:
    """Types on whose GPUs waiting instances would fit; None if they find place without, or none waits."""
    waiting = min(holdings[name].replicas, decision.counts[name]) - holdings[name].placed
    room = _room(snapshot, decision, name) if waiting > 0 else None
    if room is None or room >= waiting:
        return None
    return frozenset(old for old in spare if (_room(snapshot, decision, name, gone=_uids(snapshot, old)) or 0) > room)


def _room(
    snapshot: ServiceSnapshot, decision: PlanDecision, name: str, *, gone: frozenset[str] = frozenset()
) -> int | None:
    """Further instances of a type that fit, without those with these UIDs; None: nothing limits them."""
    service, live = decision.service, (*snapshot.pods, *snapshot.foreign_pods)
    assert service is not None  # noqa: S101  a plan that is followed was made for a service that can be read
    place, model = (namespace_of(service), service.metadata.name), service.spec.model.name
    return snapshot.capacity.room(place, model, decision.offers[name], live, gone=gone)


def _uids(snapshot: ServiceSnapshot, name: str, *, terminating: bool = False) -> frozenset[str]:
    """UIDs of the pods of a type that stay, or of those that end."""
    mine = (pod for pod in snapshot.pods if pod.instance_type == name)
    return frozenset(pod.uid for pod in mine if pod.terminating == terminating)


def surged(
    snapshot: ServiceSnapshot,
    decision: PlanDecision,
    room: tuple[Holdings, Limits],
    manifests: Mapping[str, Json],
    counts: Counts,
) -> dict[str, Json]:
    """The manifests of planned Deployments by type, with surge where one rolls, or is about to, and may.

    room: what there is, and what may be. counts: replicas for now. A Deployment at rest keeps what it rolled with as
    long as that may be.
    """
    held, limits = room
    cost, total = _committed(held, counts)
    found = dict(manifests)
    for name, manifest in sorted(manifests.items()):
        one, way = held[name], with_surge(manifest)
        applied = _applied(snapshot, manifest)
        if applied in (None, manifest_digest(manifest)):  # nothing rolls
            continue
        # What ends as it rolls is paid beside it either way, and leaves its place to the next.
        rolls = applied == manifest_digest(way)
        ending = one.terminating if rolls else 0
        more = 0 if one.live > one.replicas else 1
        extra, most = (more - ending) * (one.price or 0), _most(one, counts.get(name, 0)) + more - ending
        within = one.price is not None and limits.hold(cost + extra, total + more - ending)
        if (
            within
            and most <= limits.most.get(name, most)
            and _finds_place(snapshot, decision, name, more + max(0, one.live - one.placed), rolls=rolls)
        ):
            found[name] = way
            cost, total = cost + more * (one.price or 0), total + more
    return found


def _committed(held: Holdings, counts: Counts) -> tuple[int, int]:
    """Cost and number of all that is there, was requested before, or is now."""
    most = {name: _most(one, counts.get(name, 0)) for name, one in held.items()}
    cost = sum(one.committed + (most[name] - one.most) * (one.price or 0) for name, one in held.items())
    return cost, sum(most.values())


def _most(one: Instances, count: int) -> int:
    return one.most + max(0, count - max(one.replicas, one.live))


def _applied(snapshot: ServiceSnapshot, manifest: Json) -> str | None:
    """Digest of what was last applied to a Deployment; None: there is none."""
    live = next((d for d in snapshot.deployments if d["metadata"]["name"] == manifest["metadata"]["name"]), None)
    if live is None:
        return None
    return Applied.parse((live["metadata"].get("annotations") or {}).get(names.ANNOTATION_APPLIED)).digest


def _finds_place(snapshot: ServiceSnapshot, decision: PlanDecision, name: str, missing: int, *, rolls: bool) -> bool:
    """Whether so many of a type fit; rolls: on the GPUs of those that end, too."""
    if not missing:
        return True
    room = _room(snapshot, decision, name, gone=_uids(snapshot, name, terminating=True) if rolls else frozenset())
    return room is None or room >= missing
