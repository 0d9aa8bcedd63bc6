"""Where new instances find a place: which old ones of the service take it, and where none has to go first.

An instance may start before the one goes that it replaces within the limits, and on a GPU that is free now. Elsewhere
the old one goes first, and the extender keeps its place for the new one (decision 0037).
"""

from __future__ import annotations

from collections.abc import Mapping

from hetserve.api import names
from hetserve.planning.offers import namespace_of
from hetserve.reconcile.cluster.api_messages import exceeds_quota
from hetserve.reconcile.deployments.build import Applied, manifest_digest, with_surge
from hetserve.reconcile.plans.plan_decision import PlanDecision
from hetserve.reconcile.rollout.progress import creation_failures
from hetserve.reconcile.snapshot import Json, Render, ServiceSnapshot
from hetserve.transition.next_counts import InTheWay
from hetserve.transition.staging import Counts, Holdings, Instances, Limits


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
