"""The condition MetricsAvailable: whether the demand of a service is measured."""

from __future__ import annotations

from typing import Final

from hetserve.api.conditions import Reason
from hetserve.demand.observed import Demand, Freshness, Trouble
from hetserve.reconcile.plans.plan_decision import Finding

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


def metrics_finding(demand: Demand | None) -> Finding | None:
    """Finding of MetricsAvailable; None: no condition without spec.metrics, and the one of before until it was asked.

    The words of fresh demand name what else is not known; figures that move at each look are not in them.
    """
    if demand is None or demand.trouble is Trouble.NOT_ASKED:
        return None
    if demand.freshness is Freshness.FRESH:
        words = "; ".join(("the load is measured", *demand.notes))
        return Finding("True", Reason.METRICS_FRESH, words)
    reason = _BY_FRESHNESS[demand.freshness] if demand.trouble is None else _BY_TROUBLE[demand.trouble]
    return Finding("False", reason, f"{demand.why}; nothing shrinks")
