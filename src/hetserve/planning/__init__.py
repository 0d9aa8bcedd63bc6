"""From one service's problem to instances per type, explained and checked."""

from __future__ import annotations

from hetserve.planning.inputs import ClusterFacts, PlanSettings, TypeFacts, build_problem
from hetserve.planning.offers import Offer, Offers, Unplannable, instance_price, resolve_offers
from hetserve.planning.plan import Counts, Plan, RankedConfiguration, summary
from hetserve.planning.problem import LatencySlo, Pool, Problem, ResourceAmounts, TypeOption, TypeRefusal
from hetserve.planning.reach import Capacity, capacity_of, most_within_reach
from hetserve.planning.registry import plan

__all__ = [
    "Capacity",
    "ClusterFacts",
    "Counts",
    "LatencySlo",
    "Offer",
    "Offers",
    "Plan",
    "PlanSettings",
    "Pool",
    "Problem",
    "RankedConfiguration",
    "ResourceAmounts",
    "TypeFacts",
    "TypeOption",
    "TypeRefusal",
    "Unplannable",
    "build_problem",
    "capacity_of",
    "instance_price",
    "most_within_reach",
    "plan",
    "resolve_offers",
    "summary",
]
