"""The instance types that a service may use, with profile, price and demand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hetserve.api.conditions import ConditionType, Reason
from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import InstanceType
from hetserve.api.model_profile import ModelProfile
from hetserve.base.units import (
    MiB,
    MicroDollarsPerHour,
    Millionths,
    Percent,
    quantity_to_mib,
    quantity_to_millicpu,
)
from hetserve.objects.gpu_sharing import SharingTerms
from hetserve.planning.prices import UNBOOKED, UnitPrice
from hetserve.planning.problem import OwnTerms, ResourceAmounts, TypeRefusal
from hetserve.planning.tenancy import GpuDemand, SharingRule, exclusive, gpu_demand, widest_terms
from hetserve.profiles import profile_from_spec
from hetserve.profiles.variants import as_served, mismatch

DEFAULT_NAMESPACE = "default"
_OF_PROFILES = (ConditionType.PLANNED, ConditionType.PROFILE_READY)


@dataclass(frozen=True, slots=True)
class Unplannable:
    """Why the objects make no problem.

    reason: of hetserve.api.conditions. message: one sentence. conditions: those that become False.
    """

    reason: Reason
    message: str
    conditions: tuple[ConditionType, ...] = (ConditionType.PLANNED,)


@dataclass(frozen=True, slots=True)
class Offer:
    """One instance type with this model's profile.

    profile: as served (`as_served`). price: of one instance, micro-dollars/h. demand: of one instance on its node and
    one GPU. gpu: how it has its GPU; None on CPU types. own: as of TypeOption.
    """

    type: InstanceType
    profile: ModelProfile
    price: MicroDollarsPerHour
    demand: ResourceAmounts
    gpu: GpuDemand | None = None
    own: OwnTerms | None = None

    @property
    def name(self) -> str:
        return self.type.metadata.name

    @property
    def shares(self) -> bool:
        """Whether an instance books a part of a GPU."""
        return self.gpu is not None and self.gpu.shares


@dataclass(frozen=True, slots=True)
class Offers:
    usable: tuple[Offer, ...]
    left_out: tuple[TypeRefusal, ...] = ()


def namespace_of(namespaced: InferenceService | ModelProfile) -> str:
    """Namespace of an object; kubectl's default without one."""
    return namespaced.metadata.namespace or DEFAULT_NAMESPACE


def instance_price(
    instance_type: InstanceType,
    gpu_memory: MiB | None,
    gpu_compute: Percent = UNBOOKED,
    terms: SharingTerms | None = None,
    *,
    copies: bool = False,
) -> MicroDollarsPerHour:
    """Micro-dollars/h of one instance that takes this of a GPU; see `UnitPrice`."""
    return UnitPrice.of(instance_type).instance(gpu_memory or MiB(0), gpu_compute, terms, copies=copies)


def resolve_offers(
    service: InferenceService,
    types: Iterable[InstanceType],
    profiles: Iterable[ModelProfile],
    sharing: SharingRule | None = None,
) -> Offers | Unplannable:
    """Types that the service may use, each with its one profile in the service's namespace.

    types, profiles: all. sharing: None: the default sigma, and no instance runs. Returns Unplannable with
    InstanceTypeNotFound, NoInstanceTypes, ProfileMissing, ProfileConflict or VariantMismatch.
    """
    by_name = {instance_type.metadata.name: instance_type for instance_type in types}
    own = _own_profiles(service, profiles)
    wanted = _wanted_types(service, by_name, own)
    if isinstance(wanted, Unplannable):
        return wanted
    model, where = service.spec.model.name, f"in namespace {namespace_of(service)}"
    for name in wanted:
        if len(own.get(name, [])) > 1:
            rivals = _listed([profile.metadata.name for profile in own[name]])
            message = f"ModelProfiles {rivals} {where} all speak of model {model} on {name}; keep one"
            return Unplannable(Reason.PROFILE_CONFLICT, message, _OF_PROFILES)
    ref, missing = service.spec.instance_types, [name for name in wanted if name not in own]
    if missing and ref is not None and ref.names is not None:
        message = (
            f"no ModelProfile of model {model} on {_listed(missing)} {where}, and spec.instanceTypes names it; create "
            "one, or take the type out"
        )
        return Unplannable(Reason.PROFILE_MISSING, message, _OF_PROFILES)
    unfit = [why for name in wanted for one in own.get(name, ()) if (why := mismatch(service.spec.model, one))]
    if unfit:
        return Unplannable(Reason.VARIANT_MISMATCH, f"{'; '.join(unfit)} ({where})", _OF_PROFILES)
    return _make_offers(service, [by_name[name] for name in wanted], own, sharing or SharingRule())


def _own_profiles(service: InferenceService, profiles: Iterable[ModelProfile]) -> dict[str, list[ModelProfile]]:
    own: dict[str, list[ModelProfile]] = {}
    for profile in sorted(profiles, key=lambda p: p.metadata.name):
        if namespace_of(profile) == namespace_of(service) and profile.spec.model == service.spec.model.name:
            own.setdefault(profile.spec.instance_type, []).append(profile)
    return own


def _wanted_types(
    service: InferenceService, by_name: dict[str, InstanceType], own: dict[str, list[ModelProfile]]
) -> list[str] | Unplannable:
    ref = service.spec.instance_types
    existing = ", ".join(sorted(by_name)) or "none"
    if ref is not None and ref.names is not None:
        unknown = [name for name in sorted(set(ref.names)) if name not in by_name]
        if unknown:
            return Unplannable(
                Reason.INSTANCE_TYPE_NOT_FOUND,
                f"spec.instanceTypes names {_listed(unknown)}, which does not exist; there are: {existing}",
            )
        return sorted(set(ref.names))
    if ref is not None and ref.selector is not None:
        labels = ref.selector.match_labels
        matching = sorted(
            name for name, it in by_name.items() if all(it.metadata.labels.get(k) == v for k, v in labels.items())
        )
        if not matching:
            text = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
            return Unplannable(
                Reason.NO_INSTANCE_TYPES, f"no InstanceType has the labels {text}; there are: {existing}"
            )
        return matching
    both = sorted(set(by_name) & set(own))
    if both:
        return both
    profiled = ", ".join(sorted(own)) or "none"
    message = (
        f"no InstanceType has a ModelProfile of model {service.spec.model.name} in namespace {namespace_of(service)}; "
        f"InstanceTypes: {existing}; types with such a profile: {profiled}"
    )
    return Unplannable(Reason.NO_INSTANCE_TYPES, message)


def _make_offers(
    service: InferenceService,
    types: Sequence[InstanceType],
    own: dict[str, list[ModelProfile]],
    sharing: SharingRule,
) -> Offers | Unplannable:
    made = [_offer(service, one, own.get(one.metadata.name), sharing) for one in types]
    left_out = tuple(one for one in made if isinstance(one, TypeRefusal))
    if len(left_out) < len(made):
        return Offers(tuple(one for one in made if isinstance(one, Offer)), left_out)
    why = "; ".join(f"{refusal.subject}: {refusal.reason}" for refusal in left_out)
    message = f"no instance type can be used for model {service.spec.model.name}: {why}"
    return Unplannable(Reason.NO_INSTANCE_TYPES, message)


def _offer(
    service: InferenceService, instance_type: InstanceType, own: list[ModelProfile] | None, sharing: SharingRule
) -> Offer | TypeRefusal:
    if own is None:
        why = f"no ModelProfile of model {service.spec.model.name} in this namespace"
        return TypeRefusal(instance_type.metadata.name, why)
    profile = as_served(service.spec.model, own[0])
    spec = instance_type.spec
    gpu = gpu_demand(service, instance_type, profile, sharing)
    held = MiB(0) if gpu is None else gpu.memory
    needed = held if profile.spec.gpu_memory is None else max(held, quantity_to_mib(profile.spec.gpu_memory))
    if spec.gpu is not None and spec.price.per != "Instance" and needed > quantity_to_mib(spec.gpu.memory):
        return TypeRefusal(
            instance_type.metadata.name,
            f"an instance needs {needed} MiB of GPU memory, one {spec.gpu.product} has "
            f"{quantity_to_mib(spec.gpu.memory)} MiB",
        )
    host = spec.resources
    cpu, memory = ("0", "0") if host is None else (host.cpu or "0", host.memory or "0")
    compute = Percent(0) if gpu is None else gpu.compute
    apart = 0 if gpu is None else gpu.apart
    demand = ResourceAmounts(quantity_to_millicpu(cpu), quantity_to_mib(memory), held, apart)
    terms, copies = (None, False) if gpu is None else (gpu.terms, gpu.copies)
    price = instance_price(instance_type, held, compute, terms, copies=copies)
    widest = widest_terms(service, instance_type, profile, sharing)
    wider = None if widest is None else OwnTerms(widest, UnitPrice.of(instance_type), profile_from_spec(profile.spec))
    return Offer(instance_type, profile, price, demand, gpu, wider)


def at_tolerance(offer: Offer, tolerance: Millionths) -> Offer:
    """The same type if each instance shared its GPU on this tolerance. Raises KeyError for one that cannot."""
    if offer.own is None:
        raise KeyError(f"type {offer.name} has no tolerance of its own")
    gpu = offer.own.at(tolerance)
    demand = replace(offer.demand, gpu_memory=gpu.memory, gpus=gpu.apart)
    return replace(offer, price=offer.own.cost(tolerance), demand=demand, gpu=gpu)


def alone(offer: Offer) -> Offer:
    """The same type if each instance had its GPU alone, and paid it whole; an offer that cannot share, as it is."""
    if not offer.shares:
        return replace(offer, own=None)
    gpu = exclusive(offer.type, "")
    demand = replace(offer.demand, gpu_memory=gpu.memory, gpus=gpu.apart)
    return replace(offer, price=instance_price(offer.type, gpu.memory), demand=demand, gpu=gpu, own=None)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
