"""Values that a shell which serves queries has of services and pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hetserve.api.model_profile import ModelProfile
from hetserve.base.units import Seconds
from hetserve.demand import BatchMix

Key = tuple[str, str]
"""Namespace and name of a service."""
Place = tuple[str, str]
"""Node and GPU id, as a bound pod names its GPU."""


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """A service as it is declared now. profiles: by instance type; shares: types on which its instances share GPUs."""

    namespace: str
    name: str
    model: str
    slo: Seconds
    mix: BatchMix
    profiles: Mapping[str, ModelProfile]
    shares: frozenset[str] = frozenset()

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


def threshold_batches(facts: ServiceFacts) -> set[int]:
    """Batch sizes at which the service's instances differ or that its mix has: bounds of the batch-size histogram."""
    specs = [profile.spec for profile in facts.profiles.values()]
    tables = {entry.batch for spec in specs for entry in spec.latency.table or ()}
    limits = {spec.max_batch for spec in specs if spec.max_batch is not None}
    return {*facts.mix.batches, *tables, *limits}
