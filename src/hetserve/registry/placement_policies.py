"""The placement policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hetserve.registry.members import Member, Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementMember(Member):
    """Its function is a `hetserve.placement.policies.Rank`.

    name: as pods, settings and logs have it. about: its order. best_for: when to choose it. default: if an installation
    names none.
    """

    best_for: str
    default: bool = False


PLACEMENT_POLICIES: Final = Registry(
    PlacementMember(
        name="WorstFit",
        where="hetserve.placement.policies:worst_fit",
        about="idle GPUs first, then the most free memory",
        best_for="models that should disturb each other least (HetSev's rule)",
    ),
    PlacementMember(
        name="DominantWorstFit",
        where="hetserve.placement.policies:dominant_worst_fit",
        about="the most left of the scarcer of memory and compute, as shares of the GPU, then the most free memory",
        best_for="pods that declare compute, where now the one, now the other is short",
    ),
    PlacementMember(
        name="BestFit",
        where="hetserve.placement.policies:best_fit",
        about="shared GPUs first, then the least free memory that is enough",
        best_for="few GPUs in use, whole ones left for large pods",
    ),
    PlacementMember(
        name="Spread",
        where="hetserve.placement.policies:spread",
        about="fewest pods on the GPU, then fewest on its node, then the most free memory",
        best_for="equal numbers of pods, whatever they ask for",
    ),
    PlacementMember(
        name="PackedWorstFit",
        where="hetserve.placement.policies:packed_worst_fit",
        about="of pods that share on terms shared GPUs first, of others idle ones, then the most free memory",
        best_for="few GPUs in use, by pods whose slow-downs are counted",
        default=True,
    ),
)


def default_placement_policy() -> str:
    return next(member.name for member in PLACEMENT_POLICIES if member.default)
