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
from hetserve.objects.gpu_sharing import ONE, SharingTerms
from hetserve.profiles.sharing import (
    BOOKED_SLOWDOWN,
    MOST_SLOWED,
    WHOLE,
    ComputeShare,
    NotShareableError,
    compute_share,
)

DEFAULT_MAX_SLOWDOWN: Final = Millionths(1_750_000)
"""Sigma of an installation that sets none."""
MEASURE: Final = "measure it: docs/how-to-measure-sharing.md"


class Tenancy(StrEnum):
    """WHOLE: all memory of a GPU, as the type is priced by the instance, or the profile has no gpuMemory.

    SHARED: a part of a GPU's memory, and of its time on stated terms. EXCLUSIVE: one whole GPU by count, paid whole.
    UNDECLARED: memory alone, as before compute was booked: only what already runs so, and nothing is promised beside
    it.
    """

    WHOLE = "Whole"
    SHARED = "Shared"
    EXCLUSIVE = "Exclusive"
    UNDECLARED = "Undeclared"


@dataclass(frozen=True, slots=True)
class GpuDemand:
    """What one instance takes of its GPU.

    memory: MiB; all of the GPU's if exclusive. compute: percent that the pod asks for; 100 beside terms; 0: none is
    declared. why: why an instance of a shared service does not share. terms: of an instance that shares; None where it
    does not, and of recorded plans that book a percentage of compute. mps: whether the terms were measured under MPS.
    copies: whether instances of the service may share a GPU with each other. booked_slowdown: sigma of percents.
    """

    tenancy: Tenancy
    memory: MiB
    compute: Percent = Percent(0)
    why: str = ""
    terms: SharingTerms | None = None
    mps: bool = False
    copies: bool = False
    booked_slowdown: Millionths = BOOKED_SLOWDOWN

    @property
    def shares(self) -> bool:
        """Whether it takes a part of a GPU."""
        return self.tenancy is Tenancy.SHARED

    @property
    def apart(self) -> int:
        """GPUs that no other instance of the service can be on: its own, unless copies may share it."""
        return 0 if self.copies else 1

    @property
    def slowdown(self) -> Millionths | None:
        """Times longer than alone that an instance may take, and is planned to; None where it does not share."""
        if not self.shares:
            return None
        return self.booked_slowdown if self.terms is None else self.terms.tolerance


@dataclass(frozen=True, slots=True)
class SharingRule:
    """How instances of a service may share GPUs, by what is set, and what its recorded plan has.

    max_slowdown: sigma. undeclared: instance types on which the service has instances that declare no compute.
    by_percent: as plans booked compute before slow-downs were counted by pairs, at a sigma of booked_slowdown.

    By instance type: booked, recorded: percent of compute and terms of the recorded plan, which stay where there is no
    measurement any more. tolerances: the service's own instead of sigma. mps: types of which `recorded` was measured
    under MPS.
    """

    max_slowdown: Millionths = DEFAULT_MAX_SLOWDOWN
    undeclared: Collection[str] = ()
    booked: Mapping[str, Percent] = field(default_factory=dict)
    recorded: Mapping[str, SharingTerms] = field(default_factory=dict)
    tolerances: Mapping[str, Millionths] = field(default_factory=dict)
    mps: Collection[str] = ()
    by_percent: bool = False
    booked_slowdown: Millionths = BOOKED_SLOWDOWN


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
    return _in_part(service, instance_type, profile, rule)


def _in_part(
    service: InferenceService, instance_type: InstanceType, profile: ModelProfile, rule: SharingRule
) -> GpuDemand:
    """Of an instance that needs a part of the GPU's memory."""
    memory, measured = quantity_to_mib(profile.spec.gpu_memory or "0"), compute_share(profile.spec)
    if measured is None:
        return _unmeasured(service, instance_type, profile, memory, rule)
    try:
        if rule.by_percent:
            sigma = rule.booked_slowdown
            return GpuDemand(Tenancy.SHARED, memory, measured.booking(sigma), booked_slowdown=sigma)
        tolerance = rule.tolerances.get(instance_type.metadata.name, rule.max_slowdown)
        if tolerance == ONE:
            return exclusive(instance_type, "sharing.maxSlowdown is 1")
        return _on_terms(service, memory, measured, tolerance)
    except NotShareableError as error:
        return exclusive(instance_type, f"ModelProfile {profile.metadata.name}: {error}")


def widest_terms(
    service: InferenceService, instance_type: InstanceType, profile: ModelProfile, rule: SharingRule
) -> GpuDemand | None:
    """What an instance takes of a GPU if the service tolerates any slow-down; None where that cannot be chosen.

    As on CPU types, of whole GPUs and of what is not measured, where percentages are booked, and where nobody shares.
    """
    spec, measured = profile.spec, compute_share(profile.spec)
    alone = instance_type.spec.gpu is None or instance_type.spec.price.per == "Instance"
    if alone or service.spec.sharing == "Exclusive" or spec.gpu_memory is None or measured is None:
        return None
    if rule.by_percent or rule.max_slowdown == ONE:
        return None
    return _on_terms(service, quantity_to_mib(spec.gpu_memory), measured, MOST_SLOWED)


def _unmeasured(
    service: InferenceService, instance_type: InstanceType, profile: ModelProfile, memory: MiB, rule: SharingRule
) -> GpuDemand:
    """What already runs stays as it is; all else has its GPU alone."""
    kind, why = instance_type.metadata.name, f"ModelProfile {profile.metadata.name} has no computeShare; {MEASURE}"
    if terms := rule.recorded.get(kind):
        copies = service.spec.own_copies == "Allowed" and service.spec.model.name in dict(terms.named)
        return GpuDemand(Tenancy.SHARED, memory, WHOLE, why, terms, kind in rule.mps, copies)
    if booked := rule.booked.get(kind):
        return GpuDemand(Tenancy.SHARED, memory, booked, why, booked_slowdown=rule.booked_slowdown)
    if kind in rule.undeclared:
        return GpuDemand(Tenancy.UNDECLARED, memory, why=why)
    return exclusive(instance_type, why)


def _on_terms(service: InferenceService, memory: MiB, measured: ComputeShare, tolerance: Millionths) -> GpuDemand:
    """Raises NotShareableError as `ComputeShare.terms`."""
    copies = service.spec.own_copies == "Allowed" and measured.measures_copies
    terms = measured.terms(tolerance, copies=copies)
    return GpuDemand(Tenancy.SHARED, memory, WHOLE, terms=terms, mps=measured.mode == "MPS", copies=copies)


def exclusive(instance_type: InstanceType, why: str) -> GpuDemand:
    """One whole GPU of a GPU type."""
    assert instance_type.spec.gpu is not None  # noqa: S101  the caller has checked
    return GpuDemand(Tenancy.EXCLUSIVE, quantity_to_mib(instance_type.spec.gpu.memory), WHOLE, why)
