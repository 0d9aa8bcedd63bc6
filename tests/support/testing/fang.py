"""Small systems for Fang et al.'s schedulers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hetserve.base.units import Seconds
from hetserve.dispatch.joining import Variant
from hetserve.profiles import Spread, TableProfile
from hetserve.serving.variants import VariantSystem

Times = Mapping[str, tuple[float, ...]]
"""By variant: seconds for 1, 2, 4, ... items together."""
FULL_AND_TINY: Final[Times] = {"full": (0.08, 0.1, 0.15, 0.28), "tiny": (0.04, 0.05, 0.06, 0.08)}


def small_system(types: Mapping[str, Times], noise: float = 0.0) -> VariantSystem:
    """Soft deadline 1 s, hard deadline 2 s; full and tiny are worth 1 and 0.5."""
    profiles = {
        name: {variant: _profile(times, noise) for variant, times in variants.items()}
        for name, variants in types.items()
    }
    variants = [Variant("tiny", 57.1, 0.5), Variant("full", 63.4)]
    return VariantSystem.of_variants(profiles, variants, slo=1.0, hard=2.0)


def _profile(times: tuple[float, ...], noise: float) -> TableProfile:
    sizes = tuple(1 << k for k in range(len(times)))
    return TableProfile(sizes, tuple(Seconds(time) for time in times), (Spread.of_variation(noise),) * len(sizes))
