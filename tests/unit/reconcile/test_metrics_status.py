from __future__ import annotations

import pytest

from hetserve.api.conditions import ConditionType, Reason
from hetserve.api.reason_docs import DOCS
from hetserve.demand.observed import Demand, Freshness, Trouble
from hetserve.reconcile.status.metrics_status import metrics_finding


def test_without_metrics_or_before_the_first_question_there_is_nothing_to_say() -> None:
    assert metrics_finding(None) is None
    assert metrics_finding(Demand(Freshness.MISSING, trouble=Trouble.NOT_ASKED)) is None


def test_fresh_demand_is_available_and_says_what_else_is_not_known() -> None:
    finding = metrics_finding(Demand(Freshness.FRESH, notes=("the mix of batch sizes is not known: no bucket",)))

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
    finding = metrics_finding(Demand(freshness, why="for this reason", trouble=trouble))

    assert finding is not None
    assert (finding.status, finding.reason) == ("False", reason)
    assert finding.message == "for this reason; nothing shrinks"


def test_every_reason_is_documented_and_can_occur() -> None:
    documented = {doc.reason for doc in DOCS if doc.condition is ConditionType.METRICS_AVAILABLE}

    assert documented == {reason for _, _, reason in CASES} | {Reason.METRICS_FRESH}
