"""Which new instances find no place, and which old ones of the same service take it."""

from __future__ import annotations

from collections.abc import Mapping

from hetserve.planning.offers import namespace_of
from hetserve.reconcile.cluster.api_messages import ApiRefusal, RefusalCause
from hetserve.reconcile.deployments.build import manifest_digest
from hetserve.reconcile.plans.plan_decision import PlanDecision
from hetserve.reconcile.rollout.progress import creation_failures
from hetserve.reconcile.snapshot import Json, Render, ServiceSnapshot
from hetserve.transition.next_counts import InTheWay
from hetserve.transition.staging import Holdings


def in_the_way(
    snapshot: ServiceSnapshot,
    decision: PlanDecision,
    holdings: Holdings,
    manifests: Mapping[str, Json],
    service_uid: str,
) -> InTheWay:
    """Old instances that take the place of planned ones, by the type of these.

    manifests: of the planned Deployments, by type. A quota that refuses an instance is room that any old one takes; any
    other refusal may last, and no instance goes for it.
    """
    counts, failures = decision.counts, {f.instance_type: f.message for f in creation_failures(snapshot, service_uid)}
    spare = frozenset(name for name, held in holdings.items() if held.replicas > counts.get(name, 0))
    found: dict[str, frozenset[str]] = {}
    for name in (n for n, count in counts.items() if spare and holdings[n].placed < count):
        refusal = _denied(snapshot, manifests[name]) or failures.get(name)
        if refusal is not None:
            found[name] = spare if ApiRefusal(refusal).cause is RefusalCause.QUOTA else frozenset()
        elif (takers := _takers(snapshot, decision, holdings, name, spare)) is not None:
            found[name] = takers
    return found


def _denied(snapshot: ServiceSnapshot, manifest: Json) -> str | None:
    """Why the API server does not let the Deployment be, if it said so lately."""
    refusal = snapshot.refused.get(Render(manifest, manifest_digest(manifest), "").key)
    return None if refusal is None else refusal.message


def _takers(
    snapshot: ServiceSnapshot, decision: PlanDecision, holdings: Holdings, name: str, spare: frozenset[str]
) -> frozenset[str] | None:
    """Types on whose GPUs waiting instances would fit; None if they find place without, or none waits."""
    held, service = holdings[name], decision.service
    waiting = min(held.replicas, decision.counts[name]) - held.placed
    if waiting <= 0 or service is None:
        return None
    place, model = (namespace_of(service), service.metadata.name), service.spec.model.name
    live, offer = (*snapshot.pods, *snapshot.foreign_pods), decision.offers[name]
    room = snapshot.capacity.room(place, model, offer, live)
    if room is None or room >= waiting:
        return None
    return frozenset(
        old
        for old in spare
        if (snapshot.capacity.room(place, model, offer, live, gone=_uids(snapshot, old)) or 0) > room
    )


def _uids(snapshot: ServiceSnapshot, name: str) -> frozenset[str]:
    return frozenset(pod.uid for pod in snapshot.pods if pod.instance_type == name and not pod.terminating)
