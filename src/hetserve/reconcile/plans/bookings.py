"""How running instances share GPUs, beside what their profiles ask for now.

- Instances that hold GPU memory and declare no compute keep their templates until their profile is measured.
- A plan records the terms of each type. While its counts stay, they only become stricter: looser ones would restart
  instances to free room that nobody promised.
- A plan of before slow-downs were counted by pairs records percent of compute, and keeps them as long as it stands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from hetserve.base.units import MiB, Percent, quantity_to_mib
from hetserve.objects.gpu_sharing import SharingTerms
from hetserve.planning.inputs import PlanSettings
from hetserve.planning.offers import DEFAULT_NAMESPACE, Offer, at_tolerance, namespace_of
from hetserve.planning.plan import Counts
from hetserve.planning.tenancy import GpuDemand, SharingRule, Tenancy
from hetserve.profiles.sharing import BOOKED_SLOWDOWN, WHOLE
from hetserve.reconcile.cluster.kept_terms import kept_terms
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
        found |= recorded.nonzero.keys() - recorded.gpus.declared
    whole = _only_whole(snapshot)
    had_whole = {kind for kind, memory in asked if kind in whole and memory >= whole[kind]}
    return frozenset(filter(None, found - had_whole))


def rule_of(settings: PlanSettings, undeclared: Collection[str], recorded: PlanRecord | None) -> SharingRule:
    """How instances share in a plan that is made now; what is not measured any more stays as it is recorded."""
    gpus = RecordedGpus() if recorded is None else recorded.gpus
    return SharingRule(settings.max_slowdown, undeclared, gpus.booked, gpus.terms, mps=gpus.mps)


def rules_in_force(rule: SharingRule, recorded: PlanRecord) -> list[SharingRule]:
    """How they may share in the recorded plan, where not as in one that is made now; the likeliest first.

    Types without instances are at the sigma that it was made at. Of percents it was 1.25, or the one that is still set.
    Of terms the record says it, where no type has it as its tolerance.
    """
    if recorded.gpus.booked:
        sigmas = dict.fromkeys((BOOKED_SLOWDOWN, rule.max_slowdown))
        return [replace(rule, by_percent=True, booked_slowdown=sigma) for sigma in sigmas]
    tolerances = {name: terms.tolerance for name, terms in recorded.gpus.terms.items()}
    made_at = (rule.max_slowdown,) if recorded.max_slowdown is None else (recorded.max_slowdown,)
    sigmas = dict.fromkeys((*made_at, *tolerances.values()))
    if sigmas.keys() == {rule.max_slowdown}:
        return []
    return [replace(rule, max_slowdown=sigma, tolerances=tolerances) for sigma in sigmas]


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
    """How a plan with these counts has its GPUs.

    recorded: the plan before: while the counts stay, its terms only become stricter, and a booking of compute stays
    where it is enough. A provisional plan promises no tolerance.
    """
    wanted = {name: n for name, n in counts if n > 0}
    before = recorded.gpus if recorded is not None and recorded.nonzero == wanted else RecordedGpus()
    planned = [offer for offer in offers if offer.name in wanted]
    shared = [(one, one.gpu) for one in planned if one.gpu is not None and one.shares]
    booked = {one.name: kept for one, gpu in shared if (kept := _kept_booking(one, gpu, before)) is not None}
    provisional = recorded is not None and recorded.provisional
    terms = {
        one.name: _kept(one.name, gpu.terms, before, provisional=provisional)
        for one, gpu in shared
        if one.name not in booked and gpu.terms is not None
    }
    alone = frozenset(one.name for one in planned if one.gpu is not None and one.gpu.tenancy is Tenancy.EXCLUSIVE)
    under_mps = {one.name for one, gpu in shared if gpu.mps}
    return RecordedGpus(terms, booked, alone, frozenset(under_mps & terms.keys()))


def _kept_booking(offer: Offer, gpu: GpuDemand, before: RecordedGpus) -> Percent | None:
    """Percent of compute that the type's instances go on booking; None: they share on terms."""
    return None if gpu.terms is not None else max(gpu.compute, before.booked.get(offer.name, gpu.compute))


def _kept(name: str, terms: SharingTerms, before: RecordedGpus, *, provisional: bool) -> SharingTerms:
    if name not in before.terms:
        return terms
    kept = kept_terms(before.terms[name], terms)
    return replace(kept, tolerance=terms.tolerance) if provisional else kept


def is_booked_right(record: PlanRecord, offers: Iterable[Offer]) -> bool:
    """Whether a record of these inputs says what a plan of them would, or is stricter."""
    return recorded_gpus(record.counts, offers, record) == record.gpus


def as_recorded(offers: Mapping[str, Offer], record: PlanRecord) -> dict[str, Offer]:
    """Offers with the terms and bookings of a plan in force."""
    return {name: _as_recorded(offer, record.gpus) for name, offer in offers.items()}


def as_measured(record: PlanRecord, offers: Iterable[Offer]) -> PlanRecord:
    """The record with terms as they are measured now, at the tolerances that it has."""
    now = {one.name: one.gpu.terms for one in offers if one.gpu is not None and one.gpu.terms is not None}
    held = record.gpus.terms
    terms = {name: replace(now.get(name, one), tolerance=one.tolerance) for name, one in held.items()}
    return record if terms == held else record.sharing(replace(record.gpus, terms=terms))


def _as_recorded(offer: Offer, gpus: RecordedGpus) -> Offer:
    """What it costs stays, but for the tolerance: stricter terms than are measured are not paid."""
    terms, compute = gpus.terms.get(offer.name), gpus.booked.get(offer.name)
    if terms is not None and offer.own is not None:
        shared = at_tolerance(offer, terms.tolerance)
        return replace(shared, gpu=replace(offer.own.gpu, terms=terms, mps=offer.name in gpus.mps))
    if offer.gpu is None or not offer.shares or (terms is None and compute is None):
        return offer
    gpu = replace(offer.gpu, compute=WHOLE if compute is None else compute, terms=terms, mps=offer.name in gpus.mps)
    return replace(offer, gpu=gpu)
