"""The condition MetricsAvailable: whether the demand of a service is measured."""

from __future__ import annotations

from typing import Final

from hetserve.api.conditions import Reason
from hetserve.api.inference_service import InferenceService, InferenceServiceSpec
from hetserve.demand.observed import Demand, Freshness, Trouble
from hetserve.reconcile.plans.plan_decision import Finding
from hetserve.registry.planners import PLANNERS, default_planner

_BY_TROUBLE: Final = {
    Trouble.NOT_CONFIGURED: Reason.PROMETHEUS_NOT_CONFIGURED,
    Trouble.UNREACHABLE: Reason.PROMETHEUS_UNREACHABLE,
    Trouble.QUERY_REFUSED: Reason.QUERY_REFUSED,
    Trouble.QUERIES_NOT_ALLOWED: Reason.QUERIES_NOT_ALLOWED,
}
_BY_FRESHNESS: Final = {
    Freshness.STALE: Reason.METRICS_STALE,
    Freshness.MISSING: Reason.METRICS_MISSING,
    Freshness.INVALID: Reason.METRICS_INVALID,
}


def metrics_finding(demand: Demand | None, service: InferenceService | None) -> Finding | None:
    """Finding of MetricsAvailable; None: no condition without spec.metrics, and the one of before until it was asked.

    The words of fresh demand name what else is not known; figures that move at each look are not in them. service:
    None: it cannot be read.
    """
    if demand is None or demand.trouble is Trouble.NOT_ASKED:
        return None
    if demand.freshness is Freshness.FRESH:
        idle = None if service is None else _decides_nothing(service.spec)
        words = "the load is measured" if idle is None else f"the load is measured and decides nothing: {idle}"
        return Finding("True", Reason.METRICS_FRESH, "; ".join((words, *demand.notes)))
    reason = _BY_FRESHNESS[demand.freshness] if demand.trouble is None else _BY_TROUBLE[demand.trouble]
    return Finding("False", reason, f"{demand.why}; nothing shrinks")


def says_the_same(one: Finding, other: Finding) -> bool:
    """Whether findings of one status and reason differ by no more than figures, or by what else is not known."""
    return one.status != "True" or _first_clause(one) == _first_clause(other)


def _first_clause(finding: Finding) -> str:
    return finding.message.partition("; ")[0]


def _decides_nothing(spec: InferenceServiceSpec) -> str | None:
    """Why no plan depends on what is measured; None: plans do."""
    if spec.metrics is None or spec.scaling is not None:
        return None
    if spec.objective == "MinCost":
        return "without spec.scaling the plan is for spec.load"
    if not spec.metrics.measures_mix:
        return "with MaxThroughput the batch sizes count, and spec.metrics.queries.batchSizes is not set"
    planner = spec.planner or default_planner("MaxThroughput")
    if PLANNERS[planner].tries:
        return None
    others = " or ".join(PLANNERS.names_of(lambda member: member.tries))
    return f"spec.planner {planner} tries no plan, so that two do not compare; set {others}"
