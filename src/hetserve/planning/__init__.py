"""From one service's problem to instances per type, explained and checked."""

from __future__ import annotations

from hetserve.planning.inputs import ClusterFacts, PlanSettings, TypeFacts, build_problem
from hetserve.planning.offers import Unplannable
from hetserve.planning.plan import Counts, Plan, RankedConfiguration, summary
from hetserve.planning.problem import LatencySlo, Pool, Problem, ResourceAmounts, TypeOption, TypeRefusal
from hetserve.planning.registry import plan

__all__ = [
    "ClusterFacts",
    "Counts",
    "LatencySlo",
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
    "plan",
    "summary",
]
