"""Values that a shell which serves queries has of services and pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import PlainValidator

from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import InstanceType
from hetserve.api.model_profile import ModelProfile
from hetserve.base.units import Millionths, Percent, Seconds, parse_duration
from hetserve.demand import BatchMix, declared_mix
from hetserve.objects.gpu_sharing import ONE
from hetserve.planning.offers import namespace_of
from hetserve.planning.tenancy import SharingRule, gpu_demand
from hetserve.profiles import profile_from_spec
from hetserve.profiles.sharing import BOOKED_SLOWDOWN, NotShareableError, compute_share, parse_max_slowdown
from hetserve.profiles.variants import as_served, mismatch
from hetserve.reconcile.plans.plan_record import RecordedGpus, read_record

Key = tuple[str, str]
"""Namespace and name of a service."""
Place = tuple[str, str]
"""Node and GPU id, as a bound pod names its GPU."""
MaxSlowdown = Annotated[Millionths, PlainValidator(lambda value: parse_max_slowdown(str(value), "maxSlowdown"))]
"""Setting: the greatest slow-down of instances that share GPUs where no plan is recorded, of text such as 1.25."""


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """A service as it is declared now. profiles: by instance type.

    slowdowns: by type on which its instances share GPUs, times longer than alone that they are expected to take.
    policy: of spec.dispatch; empty: it declares none.
    """

    namespace: str
    name: str
    model: str
    slo: Seconds
    mix: BatchMix
    profiles: Mapping[str, ModelProfile]
    slowdowns: Mapping[str, float] = field(default_factory=dict)
    policy: str = ""

    @property
    def key(self) -> Key:
        return self.namespace, self.name

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ReadyPod:
    """A pod that serves. devices: its GPUs, as (node, id)."""

    uid: str
    name: str
    key: Key
    type: str
    devices: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedGpus:
    """How instances have their GPUs by the plan in force. types: those with instances."""

    types: frozenset[str]
    gpus: RecordedGpus


def planned_gpus(service: Mapping[str, Any]) -> PlannedGpus | None:
    """Of the plan in the status of a raw service; None if there is none or it is invalid."""
    record = read_record(service)
    return None if record is None else PlannedGpus(frozenset(record.nonzero), record.gpus)


def facts_of(
    service: InferenceService,
    profiles: Iterable[ModelProfile],
    types: Mapping[str, InstanceType],
    rule: SharingRule,
    planned: PlannedGpus | None = None,
) -> ServiceFacts:
    """A service with the profiles of its model as instances serve them, without those that lack one of its variants.

    profiles: of its namespace. types: all, by name. rule: how instances share on types that `planned` does not have.
    """
    model, variants = service.spec.model.name, service.spec.model
    own = [one for one in profiles if one.spec.model == model and not mismatch(variants, one)]
    mine = sorted((as_served(variants, one) for one in own), key=lambda one: str(one.metadata.name), reverse=True)
    found = {one.spec.instance_type: one for one in mine}

    def slowdown(kind: str) -> Millionths | None:
        if planned is not None and kind in planned.types:
            return _planned_slowdown(planned.gpus, found[kind], rule)
        demand = gpu_demand(service, types[kind], found[kind], rule) if kind in types else None
        return None if demand is None else demand.slowdown

    return ServiceFacts(
        namespace=namespace_of(service),
        name=str(service.metadata.name),
        model=model,
        slo=parse_duration(service.spec.slo.latency),
        mix=declared_mix(service),
        profiles=dict(sorted(found.items())),
        slowdowns={kind: most / ONE for kind in sorted(found) if (most := slowdown(kind)) is not None},
        policy=service.spec.dispatch.policy if service.spec.dispatch else "",
    )


def _planned_slowdown(gpus: RecordedGpus, profile: ModelProfile, rule: SharingRule) -> Millionths | None:
    """Slow-down that the plan in force counts with on the profile's type; None: its instances share with nobody."""
    kind = profile.spec.instance_type
    if kind in gpus.terms:
        return gpus.terms[kind].tolerance
    return _booked_at(gpus.booked[kind], profile, rule.max_slowdown) if kind in gpus.booked else None


def _booked_at(booked: Percent, profile: ModelProfile, sigma: Millionths) -> Millionths:
    """Sigma of a percent of compute, which no record says: of before, unless only the one that is set gives it."""
    measured = compute_share(profile.spec)
    for one in (BOOKED_SLOWDOWN, sigma):
        with suppress(NotShareableError):
            if measured is not None and measured.booking(one) == booked:
                return one
    return BOOKED_SLOWDOWN


def threshold_batches(facts: ServiceFacts) -> set[int]:
    """Batch sizes at which the service's instances differ or that its mix has: bounds of the batch-size histogram."""
    specs = [profile.spec for profile in facts.profiles.values()]
    tables = {entry.batch for spec in specs for latency in spec.latencies.values() for entry in latency.table or ()}
    limits = {limit for spec in specs if (limit := profile_from_spec(spec).max_batch) is not None}
    return {*facts.mix.batches, *tables, *limits}
