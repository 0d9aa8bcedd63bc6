"""What to run: from one service's problem to counts per instance type, explained and checked."""

from __future__ import annotations

from hetserve.planning.inputs import ClusterFacts, PlanSettings, TypeFacts, build_problem
from hetserve.planning.offers import Offer, Offers, Unplannable, instance_gpu_memory, instance_price, resolve_offers
from hetserve.planning.plan import Candidate, Counts, Plan, Refusal, summary
from hetserve.planning.problem import Pool, Problem, Resources, Slo, TypeOption
from hetserve.planning.registry import plan

__all__ = [
    "Candidate",
    "ClusterFacts",
    "Counts",
    "Offer",
    "Offers",
    "Plan",
    "PlanSettings",
    "Pool",
    "Problem",
    "Refusal",
    "Resources",
    "Slo",
    "TypeFacts",
    "TypeOption",
    "Unplannable",
    "build_problem",
    "instance_gpu_memory",
    "instance_price",
    "plan",
    "resolve_offers",
    "summary",
]
