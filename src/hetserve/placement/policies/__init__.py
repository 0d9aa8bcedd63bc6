"""Order in which GPUs that fit are preferred: one module per policy."""

from __future__ import annotations

from functools import cache
from typing import cast

from hetserve.placement.pods.requests import PolicyName
from hetserve.placement.policies.interface import Rank
from hetserve.registry.placement_policies import PLACEMENT_POLICIES, PlacementMember


def rank_of(policy: PolicyName) -> Rank:
    return _loaded(PLACEMENT_POLICIES[policy])


@cache
def _loaded(member: PlacementMember) -> Rank:
    return cast("Rank", member.load())


__all__ = ["Rank", "rank_of"]
