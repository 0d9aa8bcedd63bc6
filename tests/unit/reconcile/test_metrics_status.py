from __future__ import annotations

from typing import Any

import pytest

from documented_conditions import DOCS
from hetserve.api.conditions import ConditionType, Reason
from hetserve.api.inference_service import InferenceService
from hetserve.demand.observed import Demand, Freshness, Trouble
from hetserve.reconcile.status.scaling_status import metrics_finding
from testing.builders import REMOVED, service


def declared(**spec: Any) -> InferenceService:
    fields = {f"spec.{key}": value for key, value in {"metrics": {"source": "Hetserve"}, **spec}.items()}
    return InferenceService.model_validate(service("rm2", fields))


MIN_COST = {"objective": "MinCost", "budget": REMOVED}
LOAD = {"expectedQPS": 10}
OWN_RATE = {"source": "Queries", "queries": {"rate": "sum(rate(queries_total[1m]))"}}
OWN_SIZES = {"source": "Queries", "queries": {**OWN_RATE["queries"], "batchSizes": "queries_bucket"}}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, None),
        ({"planner": "flow"}, None),
        ({"metrics": OWN_SIZES}, None),
        ({**MIN_COST, "scaling": {}}, None),
        ({**MIN_COST, "scaling": {}, "planner": "ilp", "metrics": OWN_RATE}, None),
        ({"planner": "kairos"}, "spec.planner kairos tries no plan, so that two do not compare; set flow"),
        (
            {"metrics": OWN_RATE},
            "with MaxThroughput the batch sizes count, and spec.metrics.queries.batchSizes is not set",
        ),
        ({**MIN_COST, "load": LOAD}, "without spec.scaling the plan is for spec.load"),
    ],
)
def test_metrics_that_decide_nothing_are_named(spec: dict[str, Any], words: str | None) -> None:
    finding = metrics_finding(Demand(Freshness.FRESH, notes=("attainment is not known",)), declared(**spec))

    assert finding is not None
    assert (finding.status, finding.reason) == ("True", Reason.METRICS_FRESH)
    idle = "" if words is None else f" and decides nothing: {words}"
    assert finding.message == f"the load is measured{idle}; attainment is not known"


def test_without_metrics_or_before_the_first_question_there_is_nothing_to_say() -> None:
    assert metrics_finding(None, None) is None
    assert metrics_finding(Demand(Freshness.MISSING, trouble=Trouble.NOT_ASKED), None) is None


def test_fresh_demand_is_available_and_says_what_else_is_not_known() -> None:
    finding = metrics_finding(Demand(Freshness.FRESH, notes=("the mix of batch sizes is not known: no bucket",)), None)

    assert finding is not None
    assert (finding.status, finding.reason) == ("True", Reason.METRICS_FRESH)
    assert finding.message == "the load is measured; the mix of batch sizes is not known: no bucket"


CASES = [
    (Freshness.STALE, None, Reason.METRICS_STALE),
    (Freshness.MISSING, None, Reason.METRICS_MISSING),
    (Freshness.INVALID, None, Reason.METRICS_INVALID),
    (Freshness.STALE, Trouble.UNREACHABLE, Reason.PROMETHEUS_UNREACHABLE),
    (Freshness.MISSING, Trouble.UNREACHABLE, Reason.PROMETHEUS_UNREACHABLE),
    (Freshness.MISSING, Trouble.NOT_CONFIGURED, Reason.PROMETHEUS_NOT_CONFIGURED),
    (Freshness.INVALID, Trouble.QUERY_REFUSED, Reason.QUERY_REFUSED),
    (Freshness.MISSING, Trouble.QUERIES_NOT_ALLOWED, Reason.QUERIES_NOT_ALLOWED),
]


@pytest.mark.parametrize(("freshness", "trouble", "reason"), CASES)
def test_demand_that_is_not_fresh_says_why(freshness: Freshness, trouble: Trouble | None, reason: Reason) -> None:
    finding = metrics_finding(Demand(freshness, why="for this reason", trouble=trouble), None)

    assert finding is not None
    assert (finding.status, finding.reason) == ("False", reason)
    assert finding.message == "for this reason; nothing shrinks"


def test_every_reason_is_documented_and_can_occur() -> None:
    documented = {doc.reason for doc in DOCS if doc.condition is ConditionType.METRICS_AVAILABLE}

    assert documented == {reason for _, _, reason in CASES} | {Reason.METRICS_FRESH}
