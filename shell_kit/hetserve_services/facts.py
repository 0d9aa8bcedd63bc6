"""Values that a shell which serves queries has of services and pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import PlainValidator

from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import InstanceType
from hetserve.api.model_profile import ModelProfile
from hetserve.base.units import Millionths, Seconds, parse_duration
from hetserve.demand import BatchMix, declared_mix
from hetserve.planning.offers import namespace_of
from hetserve.planning.tenancy import SharingRule, gpu_demand
from hetserve.profiles import profile_from_spec
from hetserve.profiles.sharing import parse_max_slowdown
from hetserve.profiles.variants import as_served, mismatch

Key = tuple[str, str]
"""Namespace and name of a service."""
Place = tuple[str, str]
"""Node and GPU id, as a bound pod names its GPU."""
MaxSlowdown = Annotated[Millionths, PlainValidator(lambda value: parse_max_slowdown(str(value), "maxSlowdown"))]
"""Setting: the greatest slow-down of instances that share GPUs, of text such as 1.25."""


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """A service as it is declared now. profiles: by instance type; shares: types on which its instances share GPUs.

    policy: of spec.dispatch; empty: it declares none.
    """

    namespace: str
    name: str
    model: str
    slo: Seconds
    mix: BatchMix
    profiles: Mapping[str, ModelProfile]
    shares: frozenset[str] = frozenset()
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


def facts_of(
    service: InferenceService, profiles: Iterable[ModelProfile], types: Mapping[str, InstanceType], rule: SharingRule
) -> ServiceFacts:
    """A service with the profiles of its model as instances serve them, without those that lack one of its variants.

    profiles: of its namespace. types: all, by name.
    """
    model, variants = service.spec.model.name, service.spec.model
    own = [one for one in profiles if one.spec.model == model and not mismatch(variants, one)]
    mine = sorted((as_served(variants, one) for one in own), key=lambda one: str(one.metadata.name), reverse=True)
    found = {one.spec.instance_type: one for one in mine}

    def shares(kind: str) -> bool:
        demand = gpu_demand(service, types[kind], found[kind], rule) if kind in types else None
        return demand is not None and demand.shares

    return ServiceFacts(
        namespace=namespace_of(service),
        name=str(service.metadata.name),
        model=model,
        slo=parse_duration(service.spec.slo.latency),
        mix=declared_mix(service),
        profiles=dict(sorted(found.items())),
        shares=frozenset(kind for kind in found if shares(kind)),
        policy=service.spec.dispatch.policy if service.spec.dispatch else "",
    )


def threshold_batches(facts: ServiceFacts) -> set[int]:
    """Batch sizes at which the service's instances differ or that its mix has: bounds of the batch-size histogram."""
    specs = [profile.spec for profile in facts.profiles.values()]
    tables = {entry.batch for spec in specs for latency in spec.latencies.values() for entry in latency.table or ()}
    limits = {limit for spec in specs if (limit := profile_from_spec(spec).max_batch) is not None}
    return {*facts.mix.batches, *tables, *limits}
