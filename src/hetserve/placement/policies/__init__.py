"""Order in which GPUs that fit are preferred: one module per policy, one interface."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from hetserve.placement.pods.requests import PolicyName
from hetserve.placement.policies import best_fit, spread, worst_fit
from hetserve.placement.policies.interface import Rank

RANKS: Final[Mapping[PolicyName, Rank]] = MappingProxyType(
    {
        PolicyName.WORST_FIT: worst_fit.rank,
        PolicyName.BEST_FIT: best_fit.rank,
        PolicyName.SPREAD: spread.rank,
    }
)

__all__ = ["RANKS", "Rank"]
