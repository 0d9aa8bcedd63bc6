"""Bookings of compute that running instances have, beside those that their profiles ask for now.

- Instances that hold GPU memory and declare no compute keep their templates until their profile is measured.
- A plan records the booking of each type. While its counts stay, a recorded booking only grows: a smaller one would
  restart instances to free room that nobody promised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from hetserve.base.units import MiB, Percent, quantity_to_mib
from hetserve.planning.offers import DEFAULT_NAMESPACE, Offer, namespace_of
from hetserve.planning.plan import Counts
from hetserve.planning.tenancy import Tenancy
from hetserve.reconcile.deployments.ownership import belongs, gpus_of, is_deleting, type_of
from hetserve.reconcile.plans.plan_record import PlanRecord, RecordedGpus
from hetserve.reconcile.snapshot import RawObject, ServiceSnapshot


def undeclared_types(snapshot: ServiceSnapshot, recorded: PlanRecord | None) -> frozenset[str]:
    """Types on which the service has instances that hold GPU memory and declare no compute.

    By its Deployments, by its pods, and by the recorded plan: a Deployment that somebody deletes comes back as it was.
    Those that have all memory of their GPU, and by their profile need less, had it alone: they share nothing.
    """
    asked = {(pod.instance_type, pod.gpu_memory) for pod in snapshot.pods if pod.is_undeclared and not pod.terminating}
    ours = (d for d in snapshot.deployments if belongs(d, snapshot.name, snapshot.uid) and not is_deleting(d))
    asked |= {(type_of(d), _undeclared_memory(d)) for d in ours if int(d["spec"].get("replicas") or 0)}
    found = {kind for kind, memory in asked if memory}
    if recorded is not None:
        found |= recorded.nonzero.keys() - recorded.gpus.booked.keys() - recorded.gpus.exclusive
    whole = _only_whole(snapshot)
    had_whole = {kind for kind, memory in asked if kind in whole and memory >= whole[kind]}
    return frozenset(filter(None, found - had_whole))


def booked_types(recorded: PlanRecord | None) -> Mapping[str, Percent]:
    """Percent that instances of the recorded plan book, by type: what stays where a profile loses its measurement."""
    if recorded is None:
        return {}
    return {name: recorded.gpus.booked[name] for name in recorded.nonzero.keys() & recorded.gpus.booked.keys()}


def _undeclared_memory(deployment: RawObject) -> MiB:
    """MiB that each pod asks of its GPU without compute; 0: none."""
    asked = gpus_of(deployment)
    return MiB(0) if asked.compute else asked.memory


def _only_whole(snapshot: ServiceSnapshot) -> dict[str, MiB]:
    """Memory of the GPU of each type on which an instance that has all of it needs less by its profile."""
    assert snapshot.service is not None  # noqa: S101  the caller has checked
    place = snapshot.service["metadata"].get("namespace") or DEFAULT_NAMESPACE
    model = (snapshot.service["spec"].get("model") or {}).get("name")
    own = [p for p in snapshot.profiles if p.spec.model == model and namespace_of(p) == place]
    needed = {p.spec.instance_type: quantity_to_mib(p.spec.gpu_memory) for p in own if p.spec.gpu_memory is not None}
    gpus = {t.metadata.name: quantity_to_mib(t.spec.gpu.memory) for t in snapshot.types if t.spec.gpu is not None}
    return {kind: memory for kind, memory in gpus.items() if needed.get(kind, memory) < memory}


def recorded_gpus(counts: Counts, offers: Iterable[Offer], recorded: PlanRecord | None) -> RecordedGpus:
    """How a plan with these counts has its GPUs. recorded: the plan before, whose bookings shrink only with counts."""
    wanted = {name: n for name, n in counts if n > 0}
    before = recorded.gpus.booked if recorded is not None and recorded.nonzero == wanted else {}
    planned = [offer for offer in offers if offer.name in wanted]
    return RecordedGpus(
        {o.name: max(o.gpu.compute, before.get(o.name, Percent(0))) for o in planned if o.shares and o.gpu is not None},
        frozenset(o.name for o in planned if o.gpu is not None and o.gpu.tenancy is Tenancy.EXCLUSIVE),
    )


def is_booked_right(record: PlanRecord, offers: Iterable[Offer]) -> bool:
    """Whether a record of these inputs says what a plan of them would, or larger bookings."""
    asked, has = recorded_gpus(record.counts, offers, None), record.gpus
    alike = (asked.booked.keys(), asked.exclusive) == (has.booked.keys(), has.exclusive)
    return alike and all(has.booked[name] >= compute for name, compute in asked.booked.items())


def as_recorded(offers: Mapping[str, Offer], record: PlanRecord) -> dict[str, Offer]:
    """Offers with the bookings of a plan in force."""
    return {name: _booked(offer, record.gpus.booked.get(name)) for name, offer in offers.items()}


def _booked(offer: Offer, compute: Percent | None) -> Offer:
    if compute is None or not offer.shares or offer.gpu is None:
        return offer
    demand = replace(offer.demand, gpu_compute=compute)
    return replace(offer, demand=demand, gpu=replace(offer.gpu, compute=compute))
