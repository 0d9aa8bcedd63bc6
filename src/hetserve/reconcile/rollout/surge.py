"""Where an instance may start before the one goes that it replaces: within the limits, and on a GPU that is free now.

Elsewhere the old one goes first, and the extender keeps its place for the new one (decision 0037).
"""

from __future__ import annotations

from collections.abc import Mapping

from hetserve.api import names
from hetserve.planning.offers import namespace_of
from hetserve.reconcile.deployments.build import Applied, manifest_digest, with_surge
from hetserve.reconcile.plans.plan_decision import PlanDecision
from hetserve.reconcile.snapshot import Json, ServiceSnapshot
from hetserve.transition.staging import Counts, Holdings, Instances, Limits


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
    service, live = decision.service, (*snapshot.pods, *snapshot.foreign_pods)
    if service is None or not missing:
        return service is not None
    gone = frozenset(pod.uid for pod in snapshot.pods if rolls and pod.instance_type == name and pod.terminating)
    place, model = (namespace_of(service), service.metadata.name), service.spec.model.name
    room = snapshot.capacity.room(place, model, decision.offers[name], live, gone=gone)
    return room is None or room >= missing
