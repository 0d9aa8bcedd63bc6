"""How an instance has its GPU: whole by its type, shared, exclusive, or shared without a booking."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import InstanceType
from hetserve.api.model_profile import ModelProfile
from hetserve.base.units import MiB, Millionths, Percent, quantity_to_mib
from hetserve.profiles.sharing import WHOLE, NotShareableError, compute_share

DEFAULT_MAX_SLOWDOWN: Final = Millionths(1_250_000)
"""Sigma of an installation that sets none."""
MEASURE: Final = "measure it: docs/how-to-measure-sharing.md"


class Tenancy(StrEnum):
    """WHOLE: all memory of a GPU, as the type is priced by the instance, or the profile has no gpuMemory.

    SHARED: a booking of memory and compute. EXCLUSIVE: one whole GPU by count, paid whole. UNDECLARED: memory alone, as
    before compute was booked: only what already runs so, and nothing is promised beside it.
    """

    WHOLE = "Whole"
    SHARED = "Shared"
    EXCLUSIVE = "Exclusive"
    UNDECLARED = "Undeclared"


@dataclass(frozen=True, slots=True)
class GpuDemand:
    """What one instance takes of its GPU.

    memory: MiB; all of the GPU's if exclusive. compute: booked percent; 0: none is declared. why: why an instance of a
    shared service does not share.
    """

    tenancy: Tenancy
    memory: MiB
    compute: Percent = Percent(0)
    why: str = ""

    @property
    def shares(self) -> bool:
        """Whether it books a part of a GPU."""
        return self.tenancy is Tenancy.SHARED


@dataclass(frozen=True, slots=True)
class SharingRule:
    """max_slowdown: sigma. undeclared: instance types on which the service has instances that declare no compute.

    booked: percent by instance type, that instances of the service book already.
    """

    max_slowdown: Millionths = DEFAULT_MAX_SLOWDOWN
    undeclared: Collection[str] = ()
    booked: Mapping[str, Percent] = field(default_factory=dict)


def gpu_demand(
    service: InferenceService, instance_type: InstanceType, profile: ModelProfile, rule: SharingRule
) -> GpuDemand | None:
    """What an instance of the service takes of a GPU; None on CPU types."""
    gpu = instance_type.spec.gpu
    if gpu is None:
        return None
    if service.spec.sharing == "Exclusive":
        return exclusive(instance_type, "spec.sharing is Exclusive")
    if instance_type.spec.price.per == "Instance":
        return GpuDemand(Tenancy.WHOLE, quantity_to_mib(gpu.memory))
    if profile.spec.gpu_memory is None:
        why = f"ModelProfile {profile.metadata.name} has no gpuMemory; set it to share GPUs"
        return GpuDemand(Tenancy.WHOLE, quantity_to_mib(gpu.memory), why=why)
    return _shared(instance_type, profile, quantity_to_mib(profile.spec.gpu_memory), rule)


def _shared(instance_type: InstanceType, profile: ModelProfile, memory: MiB, rule: SharingRule) -> GpuDemand:
    measured, name = compute_share(profile.spec), profile.metadata.name
    if measured is None:
        why = f"ModelProfile {name} has no computeShare; {MEASURE}"
        if booked := rule.booked.get(instance_type.metadata.name):
            return GpuDemand(Tenancy.SHARED, memory, booked, why)
        if instance_type.metadata.name in rule.undeclared:
            return GpuDemand(Tenancy.UNDECLARED, memory, why=why)
        return exclusive(instance_type, why)
    try:
        return GpuDemand(Tenancy.SHARED, memory, measured.booking(rule.max_slowdown))
    except NotShareableError as error:
        return exclusive(instance_type, f"ModelProfile {name}: {error}")


def exclusive(instance_type: InstanceType, why: str) -> GpuDemand:
    """One whole GPU of a GPU type."""
    assert instance_type.spec.gpu is not None  # noqa: S101  the caller has checked
    return GpuDemand(Tenancy.EXCLUSIVE, quantity_to_mib(instance_type.spec.gpu.memory), WHOLE, why)
