"""Variants of a model: the latencies of each, and the one that instances serve where nothing chooses among them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from hetserve.api.model_profile import ModelProfile, ModelProfileSpec
from hetserve.api.service.variants import ModelRef, ModelVariant
from hetserve.profiles.latency import LatencyProfile
from hetserve.profiles.spec import profile_of

Rank = tuple[Decimal, Decimal, float, str, str]


def mismatch(model: ModelRef, profile: ModelProfile) -> str:
    """Why a profile of the model has not the variants of a service; empty: it has them, and may have more."""
    if profile.spec.variants is None and model.variants is None:
        return ""
    there, name = list(profile.spec.latencies), f"ModelProfile {profile.metadata.name}"
    wanted = [variant.name for variant in model.variants or ()]
    if profile.spec.variants is None:
        return f"{name} has no spec.variants, with a latency of each of {', '.join(wanted)}"
    if not wanted:
        return f"{name} has variants {', '.join(there)}: name them in spec.model.variants, with their accuracy"
    missing = [variant for variant in wanted if variant not in there]
    if not missing:
        return ""
    which = f"variant{'s'[: len(missing) > 1]} {', '.join(missing)}"
    return (
        f"{name} has no latency of {which} of spec.model.variants; it has {', '.join(there)}: add it, or take it out "
        "of the service"
    )


def variant_profiles(model: ModelRef, spec: ModelProfileSpec) -> dict[str, LatencyProfile]:
    """Latency profiles of the service's variants, in its order; of a model without variants under the empty name.

    spec: without a `mismatch`.
    """
    latencies = {one.name: profile_of(one.latency, one.max_batch) for one in spec.variants or ()}
    if spec.latency is not None:
        return {"": profile_of(spec.latency, spec.max_batch)}
    return {variant.name: latencies[variant.name] for variant in model.variants or ()}


def as_served(model: ModelRef, profile: ModelProfile) -> ModelProfile:
    """The profile with its most accurate variant alone: what instances serve until a router chooses among variants.

    Of equally accurate ones the one of most utility, then the fastest at batch 1; what is then left is decided by the
    numbers of its profile, so that no other name changes it. profile: without a `mismatch`.
    """
    if profile.spec.variants is None:
        return profile
    latencies = {one.name: one for one in profile.spec.variants}

    def rank(variant: ModelVariant) -> Rank:
        own = latencies[variant.name]
        curve = profile_of(own.latency, own.max_batch)
        utility = Decimal(variant.utility_or_default)
        return -Decimal(variant.accuracy), -utility, float(curve.mean(1) or 0.0), repr(curve), variant.name

    best = min(model.variants or (), key=rank)
    spec = profile.spec.model_copy(update={"variants": [latencies[best.name]]})
    return profile.model_copy(update={"spec": spec})


def served_variants(profiles: Sequence[ModelProfile]) -> list[str]:
    """Names of the variants in profiles as they are served, in order; empty: the model has none."""
    return sorted({name for profile in profiles for name in profile.spec.latencies if name})
